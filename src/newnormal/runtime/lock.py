"""One process a state file, and how far that process is.

`watch` holds the lock of its state file, and writes into the lock file how many samples it has
consumed and which alarm or change is open. `feedback` reads that. After a kill the lock file is
still there: it holds how far output may have been printed, beyond the last checkpoint.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from newnormal.locks import LockFile, content_of, is_held

_SIZE = 480  # bytes of a record: always the same, so that one write replaces the last


@dataclass(frozen=True)
class WatchProgress:
    """How far a `watch` is."""

    seen: int  # samples consumed since `fit`
    # alarm, change: what feedback without a number means: the number of one or of neither
    alarm: int | None
    stream: str  # a digest of the input's identity and the fit
    start: str | None = None  # where that began, as `newnormal.runtime.feedback.start_of`, or None
    change: int | None = None
    # the numbers of the open changes; None where that is not known
    changes: tuple[int, ...] | None = None
    # the number of the newest alarm, 0 before the first; None where that is not known
    newest: int | None = None

    @classmethod
    def parse(cls, content: bytes) -> "WatchProgress | None":
        """Return what a lock file holds, None if that cannot be read."""
        try:
            facts = json.loads(content[:_SIZE])
            seen, alarm, stream = facts["seen"], facts["alarm"], facts["stream"]
            start, change, newest = (facts.get(name) for name in ("start", "change", "newest"))
            changes = None if facts.get("changes") is None else tuple(facts["changes"])
        except (AttributeError, ValueError, KeyError, TypeError, RecursionError):
            return None
        texts = type(stream) is str and type(start) in (str, type(None))
        numbers = all(type(number) in (int, type(None)) for number in (alarm, change, newest))
        if type(seen) is int and numbers and texts and all(type(n) is int for n in changes or ()):
            return cls(seen, alarm, stream, start, change, changes, newest)
        return None


class Lock:
    """Holds a state file against other processes, as a context."""

    def __init__(self, state: Path) -> None:
        self._file = LockFile(beside(state, ".{}.lock"))
        self.held = False  # whether this process holds it; False if another does
        self.keep = False  # set to True to leave the lock file, and the progress in it, behind

    def __enter__(self) -> Self:
        try:
            self.held = self._file.acquire()
        except OSError:  # a folder that cannot be written to: the state cannot be, either
            self.held = True
        return self

    def __exit__(self, *error: object) -> None:
        self._file.release(remove=not self.keep)

    def read(self) -> WatchProgress | None:
        """Return the progress of the process that holds the lock, or held it when it was killed."""
        try:
            return WatchProgress.parse(content_of(self._file.path))
        except OSError:
            return None

    def write(self, progress: WatchProgress) -> None:
        """Write how far this process is."""
        self._file.write(json.dumps(asdict(progress)).encode().ljust(_SIZE - 1) + b"\n")


def look(state: Path) -> tuple[bool | None, WatchProgress | None]:
    """Return whether a process holds a state file, and how far it is, or was when it was killed.

    None instead of True or False where it cannot be known; no progress after a clean end. Unlike a
    `Lock`, it changes nothing.
    """
    path = beside(state, ".{}.lock")
    try:
        content = content_of(path)
    except OSError:
        return False, None
    return is_held(path), WatchProgress.parse(content)


def beside(state: Path, name: str) -> Path:
    """Return a file beside the state file, the same for every link to that."""
    from newnormal.state.targets import resolved  # imports Numba, which `--help` does without

    real = resolved(state)
    return real.with_name(name.format(real.name))
