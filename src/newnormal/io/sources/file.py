"""A file, which may be growing, compressed, or a stream such as a FIFO."""

import hashlib
import os
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from newnormal.errors import InputError, ParameterError, StateError
from newnormal.io.sources.base import FRESH, SourceOptions
from newnormal.io.sources.lines import ColumnReader, LineSource
from newnormal.tabular.text.encodings import UTF8
from newnormal.tabular.text.raw_bytes import POLL_S, RawFile


class Recent:
    r"""Bytes that were read, as far back as a digest needs them.

    `count`: how many bytes before a position are needed. `offset`: the position where reading
    begins. `before`: the bytes before it.

    >>> recent = Recent(4)
    >>> recent.add(b"time,a\n")
    >>> recent.add(b"1,2\n")
    >>> recent.before(7), recent.before(11)
    (b'e,a\n', b'1,2\n')
    """

    def __init__(self, count: int, offset: int = 0, before: bytes = b"") -> None:
        self._count = count
        self._pieces: deque[tuple[int, bytes]] = deque()  # with the positions where they begin
        self._end = offset
        if before:
            self._pieces.append((offset - len(before), before))

    def add(self, piece: bytes) -> None:
        """Add what was read."""
        self._pieces.append((self._end, piece))
        self._end += len(piece)

    def before(self, offset: int) -> bytes:
        """Return the last bytes before a position."""
        start = max(offset - self._count, 0)
        return b"".join(
            piece[max(start - at, 0) : offset - at]
            for at, piece in self._pieces
            if at < offset and at + len(piece) > start
        )

    def forget(self, offset: int, *, between: bool = False) -> None:
        """Drop what is not needed for positions from `offset` on.

        With `between` only the positions `offset` and the end are left: a line is being skipped.
        """
        if between and self._end - offset > 2 * self._count:
            here, end = self.before(offset), self.before(self._end)
            self._pieces = deque([(offset - len(here), here), (self._end - len(end), end)])
        start = offset - self._count
        while self._pieces and self._pieces[0][0] + len(self._pieces[0][1]) <= start:
            self._pieces.popleft()


_HEAD = 4096  # bytes of a text's beginning, and before a position, that tell it from others


class FileSource(LineSource):
    """Lines of a file. A snapshot has its path, the position, and digests of the text around it.

    A position is one in the text, after decompression and as UTF-8. It belongs to every file with
    the same text up to it, whatever its name. A FIFO has no positions: one stream through it cannot
    be told from another.
    """

    def __init__(
        self,
        input: str,  # noqa: A002
        options: SourceOptions,
        reader: ColumnReader | None = None,
        by: Sequence[str] = (),
    ) -> None:
        super().__init__(input, options, reader, by)
        self._path = Path(input)
        self._resolved = str(self._path.resolve())
        self._head = b""  # as it was read: by now another file may have this one's name
        self._recent = Recent(_HEAD)
        if not self._opened.seekable:
            self.repeats = True  # type: ignore[misc]  # as standard input does

    @property
    def identity(self) -> str:
        """The file's full path, where it was when it was first read."""
        return self._resolved

    def snapshot(self) -> dict[str, Any]:
        """Return the path, the position, and digests of the beginning and of the text before it."""
        if not self._opened.seekable:
            return {"path": self._resolved, "stream": True, "layout": self._layout.facts()}
        head = min(self._offset, _HEAD)
        newline = self._cutter.newline
        return {
            "path": self._resolved,
            "head": head,
            "sha256": _digest(self._head[:head]),
            "tail_sha256": _digest(self._recent.before(self._offset)),
            "offset": self._offset,
            "line": self._line,
            "encoding": self._opened.encoding,
            "newline": None if newline is None else newline.decode(),
            "layout": self._layout.facts(),
        }

    def resume(self, snapshot: Mapping[str, Any]) -> bool:
        """Go to a snapshot's position, if it is one in this file's text."""
        if not self._opened.seekable:
            return snapshot.get("stream") is True and snapshot.get("path") == self._resolved
        if snapshot.get("stream") is True:
            return False
        position = _FilePosition.of(snapshot)
        # Files of one kind have the same first line: with no more than that, the path decides.
        if position.line <= 1 and position.path != self._resolved:
            return False
        before = self._go_to(position)
        if (
            before is None
            or _digest(before) != snapshot.get("tail_sha256")
            or _digest(self._head[: position.head]) != snapshot.get("sha256")
        ):
            self._opened.begin_again()
            self._head, self._recent = b"", Recent(_HEAD)
            self._restart(0, 0)
            return False
        self._layout.restore(snapshot.get("layout"))
        self._recent = Recent(_HEAD, position.offset, before)
        self._restart(position.offset, position.line, position.newline)
        self._resolved = position.path or self._resolved
        return True

    def _go_to(self, position: "_FilePosition") -> bytes | None:
        """Go to a position, and return the text before it; None if it ends before it."""
        opened, offset = self._opened, position.offset
        try:
            opened.begin_again(position.encoding)
            if opened.plain and isinstance(opened.raw, RawFile):
                self._head = opened.raw.range(0, min(offset, _HEAD))
                before = opened.raw.range(max(offset - _HEAD, 0), offset)
                opened.seek(offset)
                return before if len(before) == min(offset, _HEAD) else None
            self._head = before = b""
            left = offset
            while left:
                if not (piece := opened.read(left)):
                    return None
                self._note_head(piece)
                before = (before + piece)[-_HEAD:]
                left -= len(piece)
        except ParameterError as error:
            raise StateError(f"place: {error.message}", hint=FRESH) from error
        except InputError as error:
            raise self._named(error) from error
        return before

    def stop(self) -> bool:
        """Read no more, and drop the lines in memory: they can be read again."""
        if self._opened.seekable:
            self._lines = []
        return super().stop()

    def _read(self) -> bytes | None:
        follow = self.options.follow and self._opened.seekable
        replaced = follow and self._is_replaced()
        self._recent.forget(self._offset, between=self._cutter.skipping)
        piece = super()._read()
        if piece:
            self._note_head(piece)
            self._recent.add(piece)
        elif piece is not None and follow:
            if replaced:  # and what was written before it was has been read
                raise InputError(
                    f"{self._path} was replaced or cut short while it was followed",
                    hint="start `newnormal watch` again to read the new file",
                )
            time.sleep(POLL_S)
        return piece

    def _note_head(self, piece: bytes) -> None:
        if len(self._head) < _HEAD:
            self._head += piece[: _HEAD - len(self._head)]

    def _is_replaced(self) -> bool:
        try:
            now = os.stat(self._path)
        except FileNotFoundError:
            return False  # being rotated: looked at again with the next batch
        assert isinstance(self._opened.raw, RawFile)
        file = self._opened.raw.file
        opened = os.fstat(file.fileno())
        return (now.st_dev, now.st_ino) != (opened.st_dev, opened.st_ino) or (
            now.st_size < file.tell()
        )


@dataclass(frozen=True)
class _FilePosition:
    """The position of a snapshot."""

    path: str | None
    offset: int
    head: int
    line: int
    encoding: str | None
    newline: bytes | None

    @classmethod
    def of(cls, snapshot: Mapping[str, Any]) -> "_FilePosition":
        """Return a snapshot's position; a StateError if it has none."""
        head, offset, line = (_whole(snapshot, name) for name in ("head", "offset", "line"))
        if head > min(offset, _HEAD):
            raise StateError(
                f"place: expected head at most {min(offset, _HEAD)}, found {head}", hint=FRESH
            )
        # Before these were stored, text was UTF-8 and its lines ended in LF.
        encoding, newline = snapshot.get("encoding", UTF8), snapshot.get("newline", "\n")
        if not isinstance(encoding, str | None) or newline not in (None, "\n", "\r"):
            raise StateError(
                f"place: expected an encoding and the end of a line, found {encoding!r} and "
                f"{newline!r}",
                hint=FRESH,
            )
        path = snapshot.get("path")
        return cls(
            path if isinstance(path, str) else None,
            offset,
            head,
            line,
            encoding,
            newline and newline.encode(),
        )


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def _whole(snapshot: Mapping[str, Any], name: str) -> int:
    value = snapshot.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise StateError(
            f"place: expected {name} as a whole number from 0, found {value!r}", hint=FRESH
        )
    return value
