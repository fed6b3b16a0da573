"""One process a state file, and how far that process is.

`watch` holds the lock of its state file, and writes into the lock file how many samples it has
consumed and which alarm or change is open. `feedback` reads that. After a kill the lock file is
still there: it holds how far output may have been printed, beyond the last checkpoint.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

try:
    import fcntl
except ImportError:  # Windows has no such locks: stop `watch` before giving it feedback there
    fcntl = None  # type: ignore[assignment]

_ATTEMPTS, _PAUSE = 3, 0.01  # `look` holds a lock for an instant: that is not a `watch`
_SIZE = 480  # bytes of a record: always the same, so that one write replaces the last


@dataclass(frozen=True)
class Progress:
    """How far a `watch` is.

    Attributes
    ----------
    seen
        Samples consumed since `fit`.
    alarm, change
        What feedback without a number means: the number of one or of the other, or neither.
    stream
        A digest of the input's identity and the fit.
    start
        Where that began, as `newnormal.runtime.feedback.start_of`, or None.
    changes
        The numbers of the open changes; None where that is not known.
    newest
        The number of the newest alarm, 0 before the first; None where that is not known.
    """

    seen: int
    alarm: int | None
    stream: str
    start: str | None = None
    change: int | None = None
    changes: tuple[int, ...] | None = None
    newest: int | None = None

    @classmethod
    def parse(cls, content: bytes) -> Progress | None:
        """Return what a lock file holds, None if that cannot be read."""
        try:
            found = json.loads(content[:_SIZE])
            seen, alarm, stream = found["seen"], found["alarm"], found["stream"]
            start, change, newest = (found.get(name) for name in ("start", "change", "newest"))
            changes = None if found.get("changes") is None else tuple(found["changes"])
        except (AttributeError, ValueError, KeyError, TypeError, RecursionError):
            return None
        texts = type(stream) is str and type(start) in (str, type(None))
        numbers = all(type(each) in (int, type(None)) for each in (alarm, change, newest))
        if type(seen) is int and numbers and texts and all(type(n) is int for n in changes or ()):
            return cls(seen, alarm, stream, start, change, changes, newest)
        return None


class Lock:
    """Holds a state file against other processes, as a context.

    Attributes
    ----------
    held
        Whether this process holds it; False if another does.
    keep
        Set to True to leave the lock file, and the progress in it, behind.
    """

    def __init__(self, state: Path) -> None:
        self._path = beside(state, ".{}.lock")
        self._handle: int | None = None
        self.held = False
        self.keep = False

    def __enter__(self) -> Self:
        attempts = 0
        while True:
            try:
                handle = os.open(self._path, os.O_CREAT | os.O_RDWR, 0o666)
            except OSError:  # a folder that cannot be written to: the state cannot be, either
                self.held = True
                return self
            try:
                if fcntl is not None:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(handle).st_ino == os.stat(self._path).st_ino:
                    self._handle, self.held = handle, True
                    return self
            except BlockingIOError:
                os.close(handle)
                attempts += 1
                if attempts < _ATTEMPTS:
                    time.sleep(_PAUSE)
                    continue
                return self
            except FileNotFoundError:
                pass  # its owner has just removed it: try again
            except OSError:  # a file system without locks
                self._handle, self.held = handle, True
                return self
            os.close(handle)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        del kind, error, trace
        if self._handle is not None:
            if not self.keep:
                with suppress(OSError):
                    self._path.unlink()
            os.close(self._handle)
            self._handle = None

    def read(self) -> Progress | None:
        """Return the progress of the process that holds the lock, or held it when it was killed."""
        try:
            return Progress.parse(self._path.read_bytes())
        except OSError:
            return None

    def write(self, progress: Progress) -> None:
        """Write how far this process is."""
        if self._handle is not None:
            content = json.dumps(asdict(progress)).encode().ljust(_SIZE - 1) + b"\n"
            with suppress(OSError):  # a full disk: the checkpoint will report it
                os.lseek(self._handle, 0, os.SEEK_SET)
                os.write(self._handle, content)


def look(state: Path) -> tuple[bool | None, Progress | None]:
    """Return whether a process holds a state file, and how far it is, or was when it was killed.

    None instead of True or False where it cannot be known; no progress after a clean end. Unlike a
    `Lock`, it changes nothing.
    """
    path = beside(state, ".{}.lock")
    try:
        content = path.read_bytes()
    except OSError:
        return False, None
    return is_held(path), Progress.parse(content)


def is_held(path: Path) -> bool | None:
    """Whether a process holds a lock file; None where that cannot be known."""
    held: bool | None = None
    if fcntl is not None:
        try:
            handle = os.open(path, os.O_RDONLY)
        except OSError as error:
            return False if isinstance(error, FileNotFoundError) else None
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            held = False
        except BlockingIOError:
            held = True
        except OSError:  # a file system without locks
            pass
        finally:
            os.close(handle)
    return held


def beside(state: Path, name: str) -> Path:
    """Return a file beside the state file, the same for every link to that."""
    from newnormal.state.targets import resolved  # imports Numba, which `--help` does without

    real = resolved(state)
    return real.with_name(name.format(real.name))
