"""The log of what changed a fleet since its checkpoints: a seam, and files of our own.

A record of `FileLog` is a mark of 4 bytes, a CRC-32, a length, and as many bytes. A position is the
number of bytes before it, counted over all files since the first. What a kill leaves of the last
record is cut off; a record in the middle that is damaged is an error, unless it was replaced by a
gap, which `newnormal.fleet.folder.check` does.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from newnormal.errors import StateError
from newnormal.fleet.folder.names import AGAIN, log_name, log_start
from newnormal.state.files import remove_file, sync_folder

__all__ = ["FileLog", "Found", "SampleLog", "scan"]

_HEAD = struct.Struct("<4sIQ")
_MARK, _GAP = b"nnL1", b"nnL0"
_LONGEST = 1 << 40
SEGMENT = 64 << 20  # bytes, after which another file begins
_BINARY = getattr(os, "O_BINARY", 0)


@runtime_checkable
class SampleLog(Protocol):
    """Where a fleet writes what changes it, before it does.

    Positions increase with every record. 0 is before the first.
    """

    def append(self, record: bytes) -> int:
        """Add a record; return the position after it. It must outlive this process."""

    def read(self, position: int) -> Iterator[tuple[int, bytes]]:
        """Give the records after a position, each with the position after it."""

    def trim(self, position: int) -> None:
        """Take note that records up to a position are no longer needed."""

    def close(self) -> None:
        """Release what it holds."""


class Found(NamedTuple):
    """A part of a log file: a record, a gap, or what is neither."""

    kind: str  # "record", "gap", "damage" or "torn": damage that nothing follows
    start: int  # positions
    end: int
    record: bytes = b""


def scan(path: Path, begin: int, position: int = 0) -> Iterator[Found]:
    """Give the parts of a log file that begins at position `begin`, from a position on."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StateError(f"cannot read {path}: {error.strerror}", hint=AGAIN) from error
    at = max(0, position - begin)
    while at < len(content):
        found = _parse(content, at)
        if found is None:
            end = _next(content, at + 1)
            kind = "torn" if end is None else "damage"
            found = Found(kind, at, len(content) if end is None else end)
        yield found._replace(start=begin + found.start, end=begin + found.end)
        at = found.end


def _parse(content: bytes, at: int) -> Found | None:
    """Return the part that begins at an offset; None if none does."""
    if at + _HEAD.size > len(content):
        return None
    mark, crc, length = _HEAD.unpack_from(content, at)
    start, end = at + _HEAD.size, at + _HEAD.size + length
    if length > _LONGEST or end > len(content):
        return None
    if mark == _GAP:
        return Found("gap", at, end) if crc == zlib.crc32(_length(length)) else None
    record = content[start:end]
    if mark != _MARK or crc != zlib.crc32(record, zlib.crc32(_length(length))):
        return None
    return Found("record", at, end, record)


def _next(content: bytes, at: int) -> int | None:
    """Return where the next whole record begins."""
    while True:
        found = [each for mark in (_MARK, _GAP) if (each := content.find(mark, at)) >= 0]
        if not found:
            return None
        at = min(found)
        if _parse(content, at) is not None:
            return at
        at += 1


def gap(length: int) -> bytes:
    """Return what makes a damaged stretch of so many bytes a gap; it replaces its first bytes."""
    own = length - _HEAD.size
    return _HEAD.pack(_GAP, zlib.crc32(_length(own)), own)


def _length(length: int) -> bytes:
    return length.to_bytes(8, "little")


class FileLog:
    """A log in files of a folder.

    Parameters
    ----------
    folder
        The fleet's folder.
    epoch
        A name that tells its files from those of another log in the same folder.
    sync
        Whether each record is on the disk before the fleet goes on. False: a loss of power may take
        the newest records, a kill of the process takes none.
    segment
        The size of a file in bytes, after which another one begins.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        epoch: str = "0",
        *,
        sync: bool = False,
        segment: int = SEGMENT,
    ) -> None:
        self.folder, self.epoch, self.sync = Path(folder), epoch, sync
        self._segment = segment
        self._handle: int | None = None
        self._begin = self._end = 0  # of the file that is written to
        self.cut = 0  # bytes of a torn record that were cut off

    @property
    def files(self) -> list[tuple[int, Path]]:
        """The files, each with the position at which it begins."""
        with suppress(OSError):
            found = [(log_start(path.name, self.epoch), path) for path in self.folder.iterdir()]
            return sorted((start, path) for start, path in found if start is not None)
        return []

    def append(self, record: bytes) -> int:
        """Add a record; return the position after it."""
        if self._handle is None:
            self._open()
        if self._end - self._begin >= self._segment:
            self._start(self._end)
        assert self._handle is not None
        crc = zlib.crc32(record, zlib.crc32(_length(len(record))))
        content = b"".join((_HEAD.pack(_MARK, crc, len(record)), record))
        try:
            written = os.write(self._handle, content)
            while written < len(content):
                written += os.write(self._handle, content[written:])
            if self.sync:
                os.fsync(self._handle)
        except OSError as error:
            with suppress(OSError):  # what is torn there is cut off at the next start
                os.ftruncate(self._handle, self._end - self._begin)
            raise StateError(
                f"cannot write the log in {self.folder}: {error.strerror}",
                hint="make room: nothing was judged, and the same call can be made again",
            ) from error
        self._end += len(content)
        return self._end

    def flush(self) -> None:
        """Have all records on the disk."""
        if self._handle is not None:
            os.fsync(self._handle)

    def read(self, position: int) -> Iterator[tuple[int, bytes]]:
        """Give the records after a position, each with the position after it."""
        files = self.files
        first = max((start for start, _ in files if start <= position), default=None)
        if first is None and files:
            raise StateError(
                f"{self.folder}: expected the log from position {position} on, found it from "
                f"{files[0][0]} on: a file of the log is missing",
                hint=AGAIN,
            )
        end = first or 0
        for start, path in files:
            if first is None or start < first:
                continue
            if start != end:
                raise StateError(
                    f"{self.folder}: expected a file of the log that begins at position {end}, "
                    f"found one that begins at {start}",
                    hint=AGAIN,
                )
            last = path == files[-1][1]
            for found in scan(path, start, position):
                if found.kind == "damage" or (found.kind == "torn" and not last):
                    raise StateError(
                        f"{path.name}: expected a record at position {found.start}, found damage",
                        hint=AGAIN,
                    )
                if found.kind in ("record", "gap"):
                    yield found.end, found.record  # that of a gap is empty
                end = found.end
            end = max(end, start)

    def trim(self, position: int) -> None:
        """Remove files that hold nothing after a position."""
        files = self.files
        for (_, path), (following, _) in zip(files, files[1:], strict=False):
            if following <= position:
                remove_file(path)

    def close(self) -> None:
        """Close the file."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def recover(self, position: int) -> None:
        """Cut off what a kill left of the last record; a log that ends earlier goes on here."""
        files = self.files
        end = 0
        if files:
            begin, path = files[-1]
            end = begin
            for found in scan(path, begin):
                end = found.start if found.kind == "torn" else found.end
            self.cut = begin + path.stat().st_size - end
            if self.cut:
                with path.open("r+b") as file:
                    file.truncate(end - begin)
                    os.fsync(file.fileno())
        if not files or end < position:
            self._start(max(end, position))
            self.trim(position)

    def _open(self) -> None:
        files = self.files
        if not files:
            self._start(0)
            return
        begin, path = files[-1]
        try:
            self._handle = os.open(path, os.O_WRONLY | os.O_APPEND | _BINARY)
        except OSError as error:
            raise StateError(f"cannot write {path}: {error.strerror}", hint=AGAIN) from error
        self._begin, self._end = begin, begin + os.fstat(self._handle).st_size

    def _start(self, position: int) -> None:
        """Begin another file."""
        path = self.folder / log_name(self.epoch, position)
        if self._handle is not None:
            os.fsync(self._handle)
            self.close()
        try:
            flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND | _BINARY
            self._handle = os.open(path, flags, 0o666)
        except OSError as error:
            raise StateError(
                f"cannot write {path}: {error.strerror}", hint="make room, or choose another folder"
            ) from error
        self._begin = self._end = position
        sync_folder(self.folder)
