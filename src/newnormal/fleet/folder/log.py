"""The files of the log of what changed a fleet since its checkpoints.

A record is a mark of 4 bytes, a length, a CRC-32 of so many bytes, one of these 16,
and the bytes. A position is the number of bytes before it, counted over all files since the first.
A kill leaves the beginning of a record: that is cut off. Any other damage is an error, until
`newnormal.fleet.folder.check` makes it a gap.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from newnormal.errors import StateError
from newnormal.fleet.folder.names import AGAIN, log_name, log_start, ordinary
from newnormal.state.files import remove_file, sync_folder

_HEAD = struct.Struct("<4sQII")
_START = b"nnL"
_MARK, _GAP = b"nnL1", b"nnL0"
SHORTEST_GAP = _HEAD.size  # bytes
SEGMENT = 64 << 20  # bytes, after which another file begins
_BINARY = getattr(os, "O_BINARY", 0)


class LogPart(NamedTuple):
    """A part of a log file: a record, a gap, or what is neither."""

    kind: str  # "record", "gap", "damage", or "torn": the beginning of a record
    start: int  # positions
    end: int
    record: bytes = b""


def scan(path: Path, begin: int, position: int = 0) -> Iterator[LogPart]:
    """Give the parts of a log file that begins at position `begin`, from a position on."""
    try:
        content = ordinary(path).read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StateError(f"cannot read {path}: {error.strerror}", hint=AGAIN) from error
    at = max(0, position - begin)
    while at < len(content):
        part = _part(content, at)
        yield part._replace(start=begin + part.start, end=begin + part.end)
        at = part.end


def _part(content: bytes, at: int) -> LogPart:
    """Return the part of a log that begins at an offset."""
    if (head := _header(content, at)) is not None:
        mark, crc, end = head
        if end > len(content):
            return LogPart("torn", at, len(content))
        record = content[at + _HEAD.size : end]
        if mark == _GAP:
            return LogPart("gap", at, end)
        kind = "record" if crc == zlib.crc32(record) else "damage"
        return LogPart(kind, at, end, record)
    if len(content) - at < _HEAD.size:
        return LogPart("torn", at, len(content))
    following = at + 1
    while (following := content.find(_START, following)) >= 0:
        if (head := _header(content, following)) is not None and head[2] <= len(content):
            return LogPart("damage", at, following)
        following += 1
    return LogPart("damage", at, len(content))


def _header(content: bytes, at: int) -> tuple[bytes, int, int] | None:
    """Return the mark, the CRC and the end of the record that begins at an offset, if one does."""
    if at + _HEAD.size > len(content):
        return None
    mark, length, crc, head_crc = _HEAD.unpack_from(content, at)
    if mark not in (_MARK, _GAP) or head_crc != zlib.crc32(content[at : at + _HEAD.size - 4]):
        return None
    return mark, crc, at + _HEAD.size + length


def _head(mark: bytes, length: int, crc: int) -> bytes:
    start = _HEAD.pack(mark, length, crc, 0)[:-4]
    return start + zlib.crc32(start).to_bytes(4, "little")


def gap(length: int) -> bytes:
    """Return what makes a damaged stretch of so many bytes a gap; it replaces its first bytes."""
    return _head(_GAP, length - _HEAD.size, 0)


class FileLog:
    """A log in files of a folder.

    Parameters
    ----------
    folder
        The fleet's folder.
    log_id
        A name that tells its files from those of another log in the same folder.
    sync
        Whether each record is on the disk before the fleet goes on. False: a loss of power may take
        the newest records, a kill of the process takes none.
    segment
        The size of a file in bytes, after which another one begins; None: 64 MiB.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        log_id: str,
        *,
        sync: bool = False,
        segment: int | None = None,
    ) -> None:
        self.folder, self.log_id, self.sync = Path(folder), log_id, sync
        self._segment = segment or SEGMENT
        self._handle: int | None = None
        self._begin = self._end = 0  # of the file that is written to
        self.cut = 0  # bytes of a torn record that were cut off
        self.lenient = False  # whether damage is skipped

    @property
    def files(self) -> list[tuple[int, Path]]:
        """The files, each with the position at which it begins."""
        with suppress(OSError):
            starts = [(log_start(path.name, self.log_id), path) for path in self.folder.iterdir()]
            return sorted((start, path) for start, path in starts if start is not None)
        return []

    def append(self, record: bytes) -> int:
        """Add a record; return the position after it."""
        if self._handle is None:
            self._open()
        if self._end - self._begin >= self._segment:
            self._start(self._end)
        assert self._handle is not None
        content = _head(_MARK, len(record), zlib.crc32(record)) + record
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
        if first is None and files and self.lenient:
            first = files[0][0]
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
            if start != end and not self.lenient:
                raise StateError(
                    f"{self.folder}: expected a file of the log that begins at position {end}, "
                    f"found one that begins at {start}",
                    hint=AGAIN,
                )
            last = path == files[-1][1]
            for part in scan(path, start, position):
                wrong = part.kind == "damage" or (part.kind == "torn" and not last)
                if wrong and not self.lenient:
                    raise StateError(
                        f"{path.name}: expected a record at position {part.start}, found damage",
                        hint=AGAIN,
                    )
                if part.kind in ("record", "gap"):
                    yield part.end, part.record  # that of a gap is empty
                end = part.end
            end = max(end, start)

    def trim(self, position: int) -> None:
        """Remove files that hold nothing after a position."""
        for (_, path), (following, _) in pairwise(self.files):
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
            for part in scan(path, begin):
                end = part.start if part.kind == "torn" else part.end
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
        path = self.folder / log_name(self.log_id, position)
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
