"""Files that one process holds at a time, by filelock, and what it wrote into them.

Windows lets nobody else read the byte that is locked, the first one: content begins at the second.
"""

import os
import time
from contextlib import suppress
from pathlib import Path

from filelock import lock_descriptor

_ATTEMPTS, _PAUSE = 3, 0.01  # `is_held` holds a lock for an instant
_BINARY = getattr(os, "O_BINARY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # its target is somebody else's file


class LockFile:
    """A file that this process holds between `acquire` and `release`, or its end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: int | None = None

    def acquire(self) -> bool:
        """Hold it; False if another process does. An OSError if it cannot be opened."""
        while True:
            handle = os.open(self.path, os.O_CREAT | os.O_RDWR | _BINARY | _NO_LINK, 0o666)
            if _is_taken(handle) is True:
                os.close(handle)
                return False
            if _is_at(self.path, handle):
                self._handle = handle
                return True
            os.close(handle)  # its owner has just removed it

    def write(self, content: bytes) -> None:
        """Write what others may read, over what it held before."""
        if self._handle is not None:
            with suppress(OSError):  # a full disk: what else is written reports it
                os.lseek(self._handle, 0, os.SEEK_SET)
                os.write(self._handle, b"\n" + content)
                os.ftruncate(self._handle, 1 + len(content))

    def release(self) -> None:
        """Let go of it; what it holds stays."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def content_of(path: Path) -> bytes:
    """Return what the process that holds a lock file, or held it last, wrote; else an OSError."""
    with path.open("rb") as file:
        file.seek(1)
        return file.read()


def is_held(path: Path) -> bool | None:
    """Whether a process holds a lock file; None where that cannot be known. Nothing changes."""
    try:
        handle = os.open(path, os.O_RDWR if os.access(path, os.W_OK) else os.O_RDONLY)
    except OSError as error:
        return False if isinstance(error, FileNotFoundError) else None
    try:
        return _is_taken(handle)
    finally:
        os.close(handle)


def _is_taken(handle: int) -> bool | None:
    """Take the lock of a file that is open; True if another has it, None if there are no locks."""
    try:
        for _ in range(_ATTEMPTS - 1):
            if lock_descriptor(handle, blocking=False):
                return False
            time.sleep(_PAUSE)
        return not lock_descriptor(handle, blocking=False)
    except OSError:
        return None


def _is_at(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False
