"""A person's word on an alarm, from the shell.

A state file that nobody watches with is changed at once. One that `newnormal watch` holds would be
written over by its next checkpoint: there the word is left in a file beside it, and `watch` acts on
it with the next samples. A word has a number of its own, which goes into the checkpoint with what
it did: killed in between, it is acted on once.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from newnormal.cli.console import say
from newnormal.cli.options import Act
from newnormal.detector import BaseDetector
from newnormal.errors import FeedbackError, StateError

__all__ = ["Word", "act_on", "follow", "hold", "leave", "take", "waiting"]

try:
    import fcntl
except ImportError:  # Windows has no such locks: stop `watch` before giving it feedback there
    fcntl = None  # type: ignore[assignment]

_NO_LOCKS = -1


@dataclass(frozen=True)
class Word:
    """What a person said, of which alarm; None is the open one."""

    act: Act
    alarm: int | None
    key: str

    @classmethod
    def of(cls, act: Act, alarm: int | None) -> Word:
        """Return a word with a number of its own."""
        return cls(act, alarm, secrets.token_hex(8))


def act_on(detector: BaseDetector, word: Word) -> str:
    """Do as the person said, and return what was done."""
    if word.act is Act.rollback:
        detector.rollback()
        return (
            "rolled back: normal is again what it was before the newest acceptance; "
            "if an alarm opens now, reject it, or the change is accepted again"
        )
    alarm = detector.alarm_ if word.alarm is None else None
    number = word.alarm if alarm is None else alarm.number
    if word.act is Act.accept:
        detector.accept(word.alarm)
        return f"alarm {number} accepted: what it was about is normal now"
    detector.reject(word.alarm)
    return f"alarm {number} rejected: nothing is learned until the stream is back to normal"


def follow(detector: BaseDetector, words: Iterable[Word], heard: list[str]) -> None:
    """Do as the person said, and say what was done, or why not.

    `heard` are the keys of words acted on before, which are not acted on again; it is added to.
    """
    for word in words:
        if word.key in heard:
            continue
        heard.append(word.key)
        try:
            say(f"feedback: {act_on(detector, word)}")
        except FeedbackError as error:
            say(f"feedback not followed: {error}")


@contextmanager
def hold(state: Path) -> Iterator[bool]:
    """Hold a state file against other processes; gives False if one of them holds it."""
    lock = _beside(state, ".{}.lock")
    handle = _locked(lock)
    try:
        yield handle is not None
    finally:
        if handle is not None and handle != _NO_LOCKS:
            with suppress(OSError):
                lock.unlink()
            os.close(handle)


def _locked(lock: Path) -> int | None:
    """Return the handle of the lock, or None if somebody else has it."""
    while fcntl is not None:
        try:
            handle = os.open(lock, os.O_CREAT | os.O_RDWR, 0o666)
        except OSError:
            break
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(handle).st_ino == os.stat(lock).st_ino:
                return handle
        except BlockingIOError:
            os.close(handle)
            return None
        except FileNotFoundError:
            pass  # its owner has just removed it: try again
        except OSError:  # a file system without locks
            os.close(handle)
            break
        os.close(handle)
    return _NO_LOCKS


def leave(state: Path, word: Word) -> Path:
    """Leave a word for whoever holds the state file, and return where."""
    path = _inbox(state)
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(word)) + "\n")
    except OSError as error:
        raise StateError(f"cannot write {path}: {error.strerror}") from error
    return path


def waiting(state: Path) -> bool:
    """Whether a word was left."""
    return _inbox(state).exists() or _taken(state).exists()


@contextmanager
def take(state: Path) -> Iterator[list[Word]]:
    """Give the words that were left; they are gone once this context is left without an error.

    The checkpoint is written inside it. Words left meanwhile wait for the next time.
    """
    taken = _taken(state)
    if not taken.exists():
        try:
            os.replace(_inbox(state), taken)
        except FileNotFoundError:
            yield []
            return
    words = []
    for line in taken.read_text(encoding="utf-8").splitlines():
        with suppress(ValueError, KeyError, TypeError):  # a line cut short
            found = json.loads(line)
            words.append(Word(Act(found["act"]), found["alarm"], found["key"]))
    yield words
    taken.unlink()


def _inbox(state: Path) -> Path:
    return _beside(state, "{}.feedback")


def _taken(state: Path) -> Path:
    return _beside(state, ".{}.feedback.taken")


def _beside(state: Path, name: str) -> Path:
    """Return a file beside the state file, the same for every link to that."""
    real = state.resolve()
    return real.with_name(name.format(real.name))
