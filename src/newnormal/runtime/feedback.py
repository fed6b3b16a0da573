"""Feedback from a person on an alarm, and the queue in which it reaches a running `watch`.

A state file that no `watch` holds is changed at once (`submit`). One that is in use would be
overwritten by the next checkpoint: there feedback waits in a file beside it, the inbox.

`watch` dequeues it in four steps, so that a kill at any point neither loses nor repeats it:

1. write a journal, atomically and synced: what is applied, to which alarm, at which sample;
2. remove the inbox, apply the feedback, and flush the events out;
3. write a checkpoint with the key of the feedback;
4. remove it from the journal.

A `watch` that is started after a kill finds the journal. Feedback whose key is in the checkpoint
was applied. Any other is applied when the stream has reached that sample again, to that alarm: the
output is, byte for byte, what it was.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from newnormal.errors import FeedbackError, StateError
from newnormal.runtime.lock import beside
from newnormal.types import Alarm, time_text

if TYPE_CHECKING:
    from newnormal.detector import BaseDetector

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

__all__ = ["Act", "Feedback", "Queue", "apply", "apply_all", "start_of"]

_BINARY = getattr(os, "O_BINARY", 0)
_LARGEST = 1 << 20  # bytes of a queue file: 5,000 pieces of feedback


class Act(StrEnum):
    """What a person can do about an alarm."""

    accept = "accept"
    reject = "reject"
    rollback = "rollback"


@dataclass(frozen=True)
class Feedback:
    """What a person asks for.

    Attributes
    ----------
    act
        Accept or reject an alarm, or roll back the newest acceptance.
    alarm
        The alarm's number; None is the one open when the feedback is applied.
    key
        Tells it from all others: feedback of one key is applied once.
    sample
        How many samples the stream had consumed: when it was given, in the inbox; when it is
        applied, in the journal.
    stream
        The stream it was given to, as in `Progress`; None if that is not known.
    start
        Where the alarm began, as `start_of` has it; None if that is not known. An input that does
        not come again after a kill may open another alarm of that number.
    """

    act: Act
    alarm: int | None
    key: str
    sample: int | None = None
    stream: str | None = None
    start: str | None = None

    @classmethod
    def of(
        cls,
        act: Act,
        alarm: int | None,
        sample: int | None = None,
        stream: str | None = None,
        start: str | None = None,
    ) -> Feedback:
        """Return feedback with a key of its own."""
        return cls(act, alarm, secrets.token_hex(8), sample, stream, start)

    @classmethod
    def parse(cls, line: bytes) -> Feedback | None:
        """Return what a line of a queue file holds, None if it is damaged."""
        try:
            found: Any = json.loads(line)
            parsed = cls(
                Act(found["act"]),
                found["alarm"],
                found["key"],
                found.get("sample"),
                found.get("stream"),
                found.get("start"),
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
        whole = all(type(each) in (int, type(None)) for each in (parsed.alarm, parsed.sample))
        texts = (parsed.stream, parsed.start)
        named = type(parsed.key) is str and all(type(each) in (str, type(None)) for each in texts)
        return parsed if whole and named else None


def start_of(alarm: Alarm) -> str:
    """Return where an alarm began, as text: its sample, and its time where it has one."""
    when = "" if alarm.start_time is None else f", {time_text(alarm.start_time)}"
    return f"sample {alarm.start}{when}"


def apply(detector: BaseDetector, feedback: Feedback) -> str:
    """Apply feedback to a detector, and return what was done.

    Raises
    ------
    FeedbackError
        If the alarm it names is not open, or there is nothing to roll back.
    """
    if feedback.act is Act.rollback:
        detector.rollback()
        return (
            "rolled back: normal is again what it was before the newest acceptance; "
            "if an alarm opens now, reject it, or the change is accepted again"
        )
    found = detector.alarm_
    if found is not None and feedback.start not in (None, start_of(found)):
        raise FeedbackError(
            f"expected alarm {feedback.alarm}, which began at {feedback.start}, found one that "
            f"began at {start_of(found)}",
            hint="the input has changed since: look at the open alarm, and give feedback on it",
        )
    number = feedback.alarm if feedback.alarm is not None or found is None else found.number
    if feedback.act is Act.accept:
        detector.accept(number)
        return f"alarm {number} accepted: what it reported is normal from now on"
    detector.reject(number)
    return f"alarm {number} rejected: nothing is learned until the stream is back to normal"


def apply_all(
    detector: BaseDetector,
    feedback: Collection[Feedback],
    applied: list[str],
    report: Callable[[str], None],
) -> None:
    """Apply feedback in order, and report what was done, or why it was not.

    `applied` are the keys of feedback applied before, which is not applied again; it is added to.
    """
    for each in feedback:
        if each.key in applied:
            continue
        applied.append(each.key)
        try:
            report(f"feedback: {apply(detector, each)}")
        except FeedbackError as error:
            report(f"feedback not applied: {error}")


class Queue:
    """The feedback that waits beside a state file.

    Parameters
    ----------
    state
        The state file.
    report
        Called with a line for the user where a file is damaged.

    Attributes
    ----------
    journal
        Feedback that was dequeued and not yet removed, in the order in which it is applied.
    """

    def __init__(self, state: Path, report: Callable[[str], None]) -> None:
        self._state = state
        self._inbox = beside(state, "{}.feedback")
        self._taken = beside(state, ".{}.feedback.taken")
        self._report = report
        self._refused: set[Path] = set()  # damaged, and cannot be set aside
        self.journal: list[Feedback] = []

    @property
    def waiting(self) -> bool:
        """Whether there is feedback in the inbox."""
        return self._inbox.exists() and self._inbox not in self._refused

    @property
    def empty(self) -> bool:
        """Whether there is no feedback at all."""
        return not (self._inbox.exists() or self._taken.exists())

    def enqueue(self, feedback: Feedback) -> None:
        """Write feedback to the inbox, synced to disk."""
        try:
            with _locked(self._inbox) as handle:
                cut_short = not _content(handle).endswith(b"\n") and os.fstat(handle).st_size
                line = json.dumps(asdict(feedback)).encode() + b"\n"
                os.write(handle, b"\n" + line if cut_short else line)
                os.fsync(handle)
            _sync_folder(self._inbox.parent)
        except OSError as error:
            raise StateError(
                f"cannot write {self._inbox}: {error.strerror}",
                hint="the folder of the state file must be writable",
            ) from error

    def load(self) -> list[Feedback]:
        """Read the journal that an earlier process left."""
        self.journal = self._parsed(self._taken)
        return self.journal

    def dequeue(self, place: Callable[[Feedback], Feedback | None]) -> None:
        """Move the inbox to the journal.

        `place` returns each piece with the alarm and the sample at which it is to be applied, or
        None if it is refused.
        """
        if not self.waiting:
            return
        try:
            with _locked(self._inbox) as handle:
                known = {each.key for each in self.journal}
                found = self._parsed(self._inbox, handle)
                placed = [place(each) for each in found if each.key not in known]
                new = [each for each in placed if each is not None]
                if new:
                    self._write([*self.journal, *new])
                    self.journal += new
                with suppress(FileNotFoundError):  # set aside
                    self._inbox.unlink()
        except OSError as error:
            self._set_aside(self._inbox, str(error.strerror))

    def remove(self, feedback: Collection[Feedback]) -> None:
        """Remove feedback from the journal: the checkpoint has it, or it was refused."""
        if not feedback and self.journal:
            return
        self.journal = [each for each in self.journal if each not in feedback]
        if self.journal:
            self._write(self.journal)
        else:
            with suppress(OSError):
                self._taken.unlink()

    def _write(self, journal: list[Feedback]) -> None:
        """Write the journal to a temporary file beside it, synced, and rename it into place."""
        # Named as those of the state file are: `state.remove_stale` removes both after a kill.
        random = secrets.token_hex(4)
        temporary = beside(self._state, f".{{}}.{os.getpid()}-{random}.tmp")
        try:
            with temporary.open("wb") as file:
                file.writelines(json.dumps(asdict(each)).encode() + b"\n" for each in journal)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self._taken)
            _sync_folder(self._taken.parent)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink()
            raise StateError(
                f"cannot write {self._taken}: {error.strerror}",
                hint="the folder of the state file must be writable",
            ) from error

    def _parsed(self, path: Path, handle: int | None = None) -> list[Feedback]:
        """Return what a queue file holds; one that is damaged is reported and set aside."""
        opened = None
        try:
            if handle is None:
                handle = opened = os.open(path, os.O_RDONLY)
            content = _content(handle)
        except FileNotFoundError:
            return []
        except OSError as error:
            self._set_aside(path, str(error.strerror))
            return []
        finally:
            if opened is not None:
                os.close(opened)
        if len(content) > _LARGEST:
            self._set_aside(path, f"it has more than {_LARGEST:,} bytes")
            return []
        found = [Feedback.parse(line) for line in content.split(b"\n") if line.strip()]
        good = [each for each in found if each is not None]
        if len(good) < len(found):
            self._set_aside(path, f"{len(found) - len(good)} of {len(found)} lines are unreadable")
            if path == self._taken and good:
                self._write(good)
        return good

    def _set_aside(self, path: Path, why: str) -> None:
        """Rename a damaged file, so that the next start does not read it again."""
        aside, count = path.with_name(f"{path.name}.damaged"), 1
        while aside.exists():
            count += 1
            aside = path.with_name(f"{path.name}.damaged-{count}")
        try:
            os.replace(path, aside)
        except OSError as error:
            self._refused.add(path)
            self._report(f"{path} is damaged ({why}) and cannot be set aside: {error.strerror}")
            return
        self._report(f"{path} is damaged ({why}): set aside as {aside.name}")


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Open a queue file against others who do the same; never one that was just removed."""
    while True:
        handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND | _BINARY, 0o666)
        try:
            if fcntl is not None:
                with suppress(OSError):  # a file system without locks
                    fcntl.flock(handle, fcntl.LOCK_EX)
            if _is_at(path, handle):
                yield handle
                return
        finally:
            os.close(handle)


def _is_at(path: Path, handle: int) -> bool:
    try:
        return os.fstat(handle).st_ino == os.stat(path).st_ino
    except FileNotFoundError:
        return False


def _content(handle: int) -> bytes:
    os.lseek(handle, 0, os.SEEK_SET)
    with os.fdopen(os.dup(handle), "rb") as file:
        return file.read(_LARGEST + 1)


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):  # where folders cannot be opened
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
