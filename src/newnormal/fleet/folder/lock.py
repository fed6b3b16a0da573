"""One process that writes to a fleet's folder."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Self

from newnormal.errors import StateError
from newnormal.fleet.folder.names import LOCK

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]


class InUseError(StateError):
    """Another process writes to the folder."""


class FolderLock:
    """Holds a folder against other processes until `release`."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOCK
        self._handle: int | None = None

    def acquire(self) -> Self:
        """Hold it, or raise a StateError that names the process that does."""
        try:
            handle = os.open(self._path, os.O_CREAT | os.O_RDWR, 0o666)
        except OSError as error:
            raise StateError(
                f"cannot write {self._path}: {error.strerror}",
                hint="Fleet.load reads a fleet without writing to its folder",
            ) from error
        try:
            if fcntl is not None:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(handle, 20).decode(errors="replace").strip()
            os.close(handle)
            process = f"process {owner}" if owner != str(os.getpid()) else "this process"
            raise InUseError(
                f"{self._path.parent} is in use by {process}, which writes to it",
                hint="Fleet.load reads it meanwhile; close the fleet there to write to it here",
            ) from None
        except OSError:  # a file system without locks
            pass
        with suppress(OSError):
            os.ftruncate(handle, 0)
            os.write(handle, f"{os.getpid()}\n".encode())
        self._handle = handle
        return self

    def release(self) -> None:
        """Let go of it; the file stays."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def process_using(folder: Path) -> int | None:
    """Return the id of the process that writes to a folder; None: none does, or it is not known."""
    try:
        with (folder / LOCK).open("rb") as file:
            try:
                if fcntl is not None:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(file.read(20))
    except (OSError, ValueError):
        return None
    return None


def is_in_use(folder: Path) -> bool:
    """Whether another process writes to a folder."""
    lock = FolderLock(folder)
    try:
        lock.acquire()
    except InUseError:
        return True
    lock.release()
    return False
