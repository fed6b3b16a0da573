"""The bytes of a file, of a stream such as a FIFO, and of standard input."""

import errno
import os
import select
import stat
import sys
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from newnormal.errors import InputError

READ_BYTES = 1 << 20
POLL_S = 0.2  # how long to wait for more before there is nothing


class RawBytes(ABC):
    """Bytes as they come.

    `seekable`: whether any byte can be read again.
    """

    seekable = False

    @abstractmethod
    def poll(self) -> bytes | None:
        """Return the next bytes; b"" if none have come yet, None at the end."""

    @abstractmethod
    def close(self) -> None:
        """Close it. May be called twice."""


def raw_bytes(path: str, *, follow: bool = False) -> RawBytes:
    """Return the bytes of a path, or of standard input ("-").

    With `follow` the end of a file is no end: more may come.
    """
    if path == "-":
        return _StandardInput()
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
            return _RawStream(path, follow)
        return RawFile(path, follow)
    except (OSError, ValueError) as error:  # a name with a NUL in it is a ValueError
        raise unreadable(error) from error


def unreadable(error: OSError | ValueError) -> InputError:
    """Return the error for a file that cannot be read."""
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return InputError(
        f"expected a file that can be read, found: {reason}",
        hint="give the path of a file, or - for standard input",
    )


class RawFile(RawBytes):
    """The bytes of a regular file."""

    seekable = True

    def __init__(self, path: str, follow: bool) -> None:
        self.file = Path(path).open("rb", buffering=0)  # noqa: SIM115 - close() closes it
        self._follow = follow

    def poll(self) -> bytes | None:
        """Return the next bytes."""
        try:
            chunk = self.file.read(READ_BYTES)
        except OSError as error:
            raise unreadable(error) from error
        return chunk or (b"" if self._follow else None)

    def range(self, start: int, stop: int) -> bytes:
        """Return the bytes of a range, and stay where it is."""
        here = self.file.tell()
        self.file.seek(start)
        content = self.file.read(stop - start) or b""
        self.file.seek(here)
        return content

    def close(self) -> None:
        """Close the file."""
        self.file.close()


class _Waiting(RawBytes):
    """What is waited for: a pipe, a terminal."""

    def poll(self) -> bytes | None:
        """Return all that has come, at most `READ_BYTES` and a bit."""
        if not (chunk := self._received(POLL_S)):
            return chunk
        parts, size = [chunk], len(chunk)
        # A pipe holds a quarter of what is read at once: many streams are judged best together.
        while size < READ_BYTES and os.name == "posix":
            if not (more := self._received(0)):
                break
            parts.append(more)
            size += len(more)
        return b"".join(parts)

    @abstractmethod
    def _received(self, wait: float) -> bytes | None:
        """Return what there is; b"" if nothing came in `wait` seconds, None at the end."""


class _RawStream(_Waiting):
    """A FIFO or a device. It is opened when it is first read: a writer of a FIFO then writes."""

    def __init__(self, path: str, follow: bool) -> None:
        if not os.access(path, os.R_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        self._path = path
        self._follow = follow
        self._handle: int | None = None
        self._ended = False

    def _received(self, wait: float) -> bytes | None:
        if self._ended:
            return None
        try:
            if self._handle is None:
                # Without it, opening a FIFO waits for a writer and cannot be interrupted. Elsewhere
                # a FIFO that has no writer yet reads as ended: there opening must wait.
                flags = os.O_RDONLY | (os.O_NONBLOCK if sys.platform == "linux" else 0)
                self._handle = os.open(self._path, flags)
            chunk = _wait_and_read(self._handle, wait)
        except OSError as error:
            raise unreadable(error) from error
        if chunk is None and self._follow:
            time.sleep(wait)  # the writer is gone; another may come
            return b""
        self._ended = chunk is None
        return chunk

    def close(self) -> None:
        """Close it."""
        if self._handle is not None:
            os.close(self._handle)
        self._handle, self._ended = None, True


class _StandardInput(_Waiting):
    """Standard input, which stays open."""

    def __init__(self) -> None:
        if sys.stdin is None or sys.stdin.closed:
            raise InputError(
                "expected lines, found it closed",
                hint="pipe lines into the command, or give the path of a file",
            )
        self._ended = False
        self._buffer: Any = sys.stdin.buffer
        try:
            self._handle: int | None = sys.stdin.fileno()
        except (OSError, ValueError):  # a stand-in of a test or of a notebook
            self._handle = None

    def _received(self, wait: float) -> bytes | None:
        if self._ended:
            return None
        try:
            if self._handle is None:
                chunk = self._buffer.read(READ_BYTES) or None
            else:
                chunk = _wait_and_read(self._handle, wait)
        except OSError as error:
            raise unreadable(error) from error
        self._ended = chunk is None
        return chunk

    def close(self) -> None:
        """Do nothing: it belongs to the process."""


def _wait_and_read(handle: int, wait: float) -> bytes | None:
    if os.name == "posix":  # elsewhere only sockets can be waited for: the read itself waits
        ready, _, _ = select.select([handle], [], [], wait)
        if not ready:
            return b""
    try:
        return os.read(handle, READ_BYTES) or None
    except BlockingIOError:
        return b""
