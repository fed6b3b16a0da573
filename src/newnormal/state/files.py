"""Files that are there whole or not at all: written under another name, synced, then renamed."""

import os
import re
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from newnormal.errors import StateError

_WRITING: set[Path] = set()  # temporary files of this process
_BINARY = getattr(os, "O_BINARY", 0)
_TEMPORARY = re.compile(r"\.(\d+)-[0-9a-f]+\.tmp")


def replace_file(path: Path, content: bytes, *, sync: bool = True) -> None:
    """Write a new file under a temporary name, and put it in the place of the old one.

    Without `sync` it is there for other processes at once, and on the disk some time later.
    """
    name = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    _WRITING.add(name)
    try:
        _replace(path, name, content, sync)
    finally:
        _WRITING.discard(name)


def _replace(path: Path, name: Path, content: bytes, sync: bool) -> None:
    write_new(name, [content], sync=sync, called=path)
    try:
        with suppress(FileNotFoundError):  # a file that is replaced keeps its mode
            os.chmod(name, path.stat().st_mode & 0o777)
        os.replace(name, path)
        if sync:
            sync_folder(path.parent)
    except OSError as error:
        remove_file(name)
        raise _no_room(path, error) from error
    except BaseException:
        remove_file(name)
        raise


def write_new(
    path: Path,
    content: Iterable[bytes | memoryview],
    *,
    sync: bool = True,
    called: Path | None = None,
) -> None:
    """Write a file that is not there yet; remove it if that fails. Errors are about `called`."""
    called = called or path
    try:
        # The mode is what the process's umask makes of it, as for any new file.
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | _BINARY, 0o666)
    except OSError as error:
        raise StateError(
            f"cannot write {called}: {error.strerror}",
            hint="choose a folder that exists and can be written to",
        ) from error
    try:
        with os.fdopen(handle, "wb", buffering=1 << 20) as file:
            for each in content:
                file.write(each)
            file.flush()
            if sync:
                os.fsync(file.fileno())
    except OSError as error:
        remove_file(path)
        raise _no_room(called, error) from error
    except BaseException:
        remove_file(path)
        raise


def _no_room(path: Path, error: OSError) -> StateError:
    return StateError(
        f"cannot write {path}: {error.strerror}", hint="make room, or choose another folder"
    )


def remove_stale(path: str | os.PathLike[str]) -> None:
    """Remove temporary files of `path` that a killed process left beside it."""
    path = Path(os.path.realpath(path))
    start = f".{path.name}"
    with suppress(OSError):
        for file in path.parent.iterdir():
            match = _TEMPORARY.fullmatch(file.name.removeprefix(start))
            if not file.name.startswith(start) or not match or file in _WRITING:
                continue
            # A program in a container often has the number of the one that was killed before it.
            process = int(match[1])
            if process == os.getpid() or not is_running(process):
                remove_file(file)


def is_running(process: int) -> bool:
    """Whether there is a process of this number."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it is another user's
        return True
    return True


def sync_folder(folder: Path) -> None:
    """Make a rename itself durable, where folders can be opened and synced."""
    with suppress(OSError):  # the new file is in place already
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def remove_file(name: Path) -> None:
    """Remove a file, if that can be done."""
    with suppress(OSError):
        os.unlink(name)
