"""Feedback from a person, and the queue in which it reaches a running `watch`.

A state file that no `watch` holds is changed at once (`submit`). One that is in use would be
overwritten by the next checkpoint: there feedback waits in a file beside it, the inbox.

`watch` dequeues it in four steps, so that a kill at any point neither loses nor repeats it:

1. write a journal, atomically and synced: what is applied, to which alarm or change, at which
   sample;
2. remove the inbox, apply the feedback, and flush the events out;
3. write a checkpoint with the key of the feedback;
4. remove it from the journal.

A `watch` that is started after a kill finds the journal. Feedback whose key is in the checkpoint
was applied. Any other is applied when the stream has reached that sample again, to that alarm or
change: the output is, byte for byte, what it was.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from newnormal.alarms.feedback_target import default_target, feedback_target
from newnormal.errors import FeedbackError, StateError
from newnormal.locks import opened_alone
from newnormal.runtime.lock import WatchProgress, beside
from newnormal.state.files import sync_folder
from newnormal.types import Alarm, Change, time_text

if TYPE_CHECKING:
    from newnormal.base import BaseDetector

_LARGEST = 1 << 20  # bytes of a queue file: 5,000 pieces of feedback


class FeedbackAct(StrEnum):
    """What a person can do about an alarm or a change."""

    accept = "accept"
    reject = "reject"
    undo = "undo"


@dataclass(frozen=True)
class FeedbackRequest:
    """What a person asks for."""

    act: FeedbackAct  # accept or reject an alarm or a change, or undo the newest acceptance
    # alarm, change: the number of one or of the other; both None: what is meant when the feedback
    # is applied, as `newnormal.alarms.feedback_target` has it
    alarm: int | None = None
    # how many samples the stream had consumed: when it was given, in the inbox; when it is applied,
    # in the journal
    sample: int | None = None
    # the stream it was given to, as in `WatchProgress`; None if that is not known. In a fleet the
    # name of the stream
    stream: str | None = None
    # where the alarm or the change began, as `start_of` has it; None if that is not known. An input
    # that does not come again after a kill may open another one of that number
    start: str | None = None
    change: int | None = None
    # tells it from all others: feedback of one key is applied once
    key: str = field(default_factory=lambda: secrets.token_hex(8))

    @classmethod
    def parse(cls, line: bytes) -> FeedbackRequest | None:
        """Return what a line of a queue file holds, None if it is damaged."""
        try:
            facts: Any = json.loads(line)
            request = cls(**{**facts, "act": FeedbackAct(facts["act"]), "key": facts["key"]})
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
        numbers = (request.alarm, request.change, request.sample)
        whole = all(type(number) in (int, type(None)) for number in numbers)
        texts = (request.stream, request.start)
        named = type(request.key) is str and all(type(text) in (str, type(None)) for text in texts)
        return request if whole and named else None

    def __str__(self) -> str:
        for kind, number in (("change", self.change), ("alarm", self.alarm)):
            if number is not None:
                return f"{self.act} of {kind} {number}"
        return str(self.act)


def start_of(target: Alarm | Change) -> str:
    """Return where an alarm or a change began, as text: its sample, and its time if it has one."""
    when = "" if target.start_time is None else f", {time_text(target.start_time)}"
    return f"sample {target.start}{when}"


def target_of(request: FeedbackRequest, detector: BaseDetector) -> Alarm | Change:
    """Return the alarm or the change that feedback is about.

    Raises
    ------
    FeedbackError
        If there is none, or one that began elsewhere.
    """
    target = feedback_target(detector, request.act, request.alarm, request.change)
    if request.start not in (None, start_of(target)):
        kind, number = "change", request.change
        if number is None:
            kind, number = "alarm", request.alarm
        raise FeedbackError(
            f"expected {kind} {number}, which began at {request.start}, found one that "
            f"began at {start_of(target)}",
            hint="the input has changed since: `newnormal inspect` shows what is open now",
        )
    return target


def with_target(request: FeedbackRequest, detector: BaseDetector) -> FeedbackRequest:
    """Return feedback with the number of what it is about, and where that began."""
    target = target_of(request, detector)
    alarm, change = _numbers(target)
    return replace(request, alarm=alarm, change=change, start=start_of(target))


def progress_of(detector: BaseDetector, stream: str) -> WatchProgress:
    """Return how far a detector is, and what feedback without a number means there."""
    alarm = change = start = None
    if (target := default_target(detector)) is not None:
        (alarm, change), start = _numbers(target), start_of(target)
    return WatchProgress(
        detector.counters["seen"],
        alarm,
        stream,
        start,
        change,
        tuple(change.number for change in detector.changes_),
        detector.alarm_rate_.alarms,
    )


class Target(Protocol):
    """What feedback is applied to."""

    def accept(self, alarm: Any = None, *, change: Any = None) -> object:
        """Accept a change, or what an alarm is about."""

    def reject(self, alarm: Any = None, *, change: Any = None) -> object:
        """Reject it."""

    def undo(self) -> object:
        """Undo the newest acceptance."""


def apply(detector: BaseDetector, request: FeedbackRequest, stream: Target | None = None) -> str:
    """Apply feedback to a detector, and return what was done.

    With a `stream` that is changed, and the detector is a copy to look at.

    Raises
    ------
    FeedbackError
        If what it names is not known or not open, or there is nothing to undo.
    """
    stream = detector if stream is None else stream
    if request.act is FeedbackAct.undo:
        stream.undo()
        return (
            "undone: normal is again what it was before the newest acceptance; "
            "if a change opens now, reject it, or it is accepted again"
        )
    alarm, change = _numbers(target_of(request, detector))
    if request.act is FeedbackAct.accept:
        stream.accept(alarm, change=change)
        if alarm is not None:
            return f"alarm {alarm} accepted: samples like these are normal from now on"
        return f"change {change} accepted: normal from now on, and so is what was normal before"
    stream.reject(alarm, change=change)
    if alarm is not None:
        return f"alarm {alarm} rejected: a change that begins with it is rejected as well"
    return f"change {change} rejected: nothing is learned until the stream is back to normal"


def _numbers(target: Alarm | Change) -> tuple[int | None, int | None]:
    """Return the number of the alarm, and that of the change: one is None."""
    return (target.number, None) if isinstance(target, Alarm) else (None, target.number)


def apply_all(
    detector: BaseDetector,
    requests: Collection[FeedbackRequest],
    applied: list[str],
    report: Callable[[str], None],
) -> None:
    """Apply feedback in order, and report what was done, or why it was not.

    `applied` are the keys of feedback applied before, which is not applied again; it is added to.
    """
    for request in requests:
        if request.key in applied:
            continue
        applied.append(request.key)
        try:
            report(f"feedback: {apply(detector, request)}")
        except FeedbackError as error:
            report(f"feedback not applied: {error}")


class Queue:
    """The feedback that waits beside a state file.

    `state`: the state file. `report`: called with a line for the user where a file is damaged.
    """

    def __init__(self, state: Path, report: Callable[[str], None]) -> None:
        self._state = state
        self._inbox = beside(state, "{}.feedback")
        self._taken = beside(state, ".{}.feedback.taken")
        self._report = report
        self._refused: set[Path] = set()  # damaged, and cannot be set aside
        # feedback that was dequeued and not yet removed, in the order in which it is applied
        self.journal: list[FeedbackRequest] = []

    @property
    def waiting(self) -> bool:
        """Whether there is feedback in the inbox."""
        return _has_content(self._inbox) and self._inbox not in self._refused

    @property
    def empty(self) -> bool:
        """Whether there is no feedback at all."""
        return not (_has_content(self._inbox) or self._taken.exists())

    def enqueue(self, request: FeedbackRequest) -> None:
        """Write feedback to the inbox, synced to disk."""
        try:
            with opened_alone(self._inbox) as handle:
                cut_short = not _content(handle).endswith(b"\n") and os.fstat(handle).st_size
                line = _line(request)
                os.write(handle, b"\n" + line if cut_short else line)
                os.fsync(handle)
            sync_folder(self._inbox.parent)
        except OSError as error:
            raise _not_written(self._inbox, error) from error

    def load(self) -> list[FeedbackRequest]:
        """Read the journal that an earlier process left."""
        self.journal = self._parsed(self._taken)
        return self.journal

    def dequeue(self, schedule: Callable[[FeedbackRequest], FeedbackRequest | None]) -> None:
        """Move the inbox to the journal.

        `schedule` returns each request with what it is about and the sample at which it is to be
        applied, or None if it is refused.
        """
        if not self.waiting:
            return
        try:
            with opened_alone(self._inbox) as handle:
                keys = {request.key for request in self.journal}
                inbox = self._parsed(self._inbox, handle)
                scheduled = [schedule(request) for request in inbox if request.key not in keys]
                if new := [request for request in scheduled if request is not None]:
                    self._write([*self.journal, *new])
                    self.journal += new
                try:
                    self._inbox.unlink()
                except FileNotFoundError:  # set aside
                    pass
                except PermissionError:  # Windows removes no open file
                    os.ftruncate(handle, 0)
        except OSError as error:
            self._set_aside(self._inbox, str(error.strerror))

    def remove(self, requests: Collection[FeedbackRequest]) -> None:
        """Remove feedback from the journal: the checkpoint has it, or it was refused."""
        if not requests and self.journal:
            return
        self.journal = [request for request in self.journal if request not in requests]
        if self.journal:
            self._write(self.journal)
        else:
            with suppress(OSError):
                self._taken.unlink()

    def _write(self, journal: list[FeedbackRequest]) -> None:
        """Write the journal to a temporary file beside it, synced, and rename it into place."""
        # Named as those of the state file are: `state.remove_stale` removes both after a kill.
        random = secrets.token_hex(4)
        temporary = beside(self._state, f".{{}}.{os.getpid()}-{random}.tmp")
        try:
            with temporary.open("wb") as file:
                file.writelines(map(_line, journal))
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self._taken)
            sync_folder(self._taken.parent)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink()
            raise _not_written(self._taken, error) from error

    def _parsed(self, path: Path, handle: int | None = None) -> list[FeedbackRequest]:
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
        lines = [line for line in content.split(b"\n") if line.strip()]
        good = [request for request in map(FeedbackRequest.parse, lines) if request is not None]
        if len(good) < len(lines):
            self._set_aside(path, f"{len(lines) - len(good)} of {len(lines)} lines are unreadable")
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


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def _content(handle: int) -> bytes:
    os.lseek(handle, 0, os.SEEK_SET)
    with os.fdopen(os.dup(handle), "rb") as file:
        return file.read(_LARGEST + 1)


def _line(request: FeedbackRequest) -> bytes:
    return json.dumps(asdict(request)).encode() + b"\n"


def _not_written(path: Path, error: OSError) -> StateError:
    return StateError(
        f"cannot write {path}: {error.strerror}",
        hint="the folder of the state file must be writable",
    )
