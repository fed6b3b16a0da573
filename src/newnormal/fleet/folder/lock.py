"""One process that writes to a fleet's folder."""

import os
from pathlib import Path
from typing import Self

from newnormal.errors import StateError
from newnormal.fleet.folder.names import LOCK
from newnormal.locks import LockFile, content_of, is_held


class InUseError(StateError):
    """Another process writes to the folder."""


class FolderLock:
    """Holds a folder against other processes until `release`."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._file = folder, LockFile(folder / LOCK)

    def acquire(self) -> Self:
        """Hold it, or raise a StateError that names the process that does."""
        if self._file.path.is_symlink():
            raise StateError(
                f"{self._file.path}: expected a file, found a link", hint="remove the link"
            )
        try:
            is_acquired = self._file.acquire()
        except OSError as error:
            raise StateError(
                f"cannot write {self._file.path}: {error.strerror}",
                hint="make it writable for this user, or give another folder",
            ) from error
        if not is_acquired:
            owner = content_of(self._file.path)[:20].decode(errors="replace").strip()
            process = f"process {owner}" if owner != str(os.getpid()) else "this process"
            raise InUseError(
                f"{self._folder} is in use by {process}, which writes to it",
                hint="`newnormal inspect` and Fleet.load read it; end that process to go on here",
            )
        self._file.write(f"{os.getpid()}\n".encode())
        return self

    def release(self) -> None:
        """Let go of it; the file stays."""
        self._file.release()


def process_using(folder: Path) -> int | None:
    """Return the id of the process that writes to a folder; None: none does, or it is not known."""
    try:
        return int(content_of(folder / LOCK)[:20]) if is_held(folder / LOCK) else None
    except (OSError, ValueError):
        return None
