"""The text of compressed files, piece by piece."""

from __future__ import annotations

import time
from pathlib import Path
from typing import BinaryIO

from newnormal.errors import InputError
from newnormal.io.sources.rotation import EDGE
from newnormal.tabular.text.compression import Poll, compression_of, decompressed

_READ = 1 << 18  # bytes that are read at once
_BEGAN = 16  # bytes that tell how it is compressed
_TURN = 0.2  # s for which it goes forward at most


class Unpacking:
    """A compressed file, open at a place in its text.

    Attributes
    ----------
    offset
        The place: bytes of the text before it.
    head
        The first bytes of the text, at most `EDGE`, as far as they were read.
    tail
        The last bytes before the place, at most `EDGE`.
    rest
        Bytes behind the place.
    ended
        Whether `rest` goes to the end.
    """

    def __init__(self, path: Path) -> None:
        self.offset = 0
        self.head = self.tail = self.rest = b""
        self.ended = False
        self._file: BinaryIO = path.open("rb")
        try:
            kind = compression_of(self._file.read(_BEGAN))
            self._file.seek(0)
            self._poll: Poll = self._raw if kind is None else decompressed(kind, self._raw)
        except BaseException:
            self._file.close()
            raise

    def _raw(self) -> bytes | None:
        return self._file.read(_READ) or None

    def fill(self, count: int) -> None:
        """Read until there are so many bytes behind the place, or no more."""
        while len(self.rest) < count and not self.ended:
            try:
                piece = self._poll()
            except OSError as error:
                raise InputError(
                    f"expected a file that can be read, found: {error.strerror}"
                ) from error
            if piece is None:
                self.ended = True
            elif piece:
                self.rest += piece
                if len(self.head) < EDGE:
                    self.head += piece[: EDGE - len(self.head)]

    def go(self, offset: int) -> bool:
        """Go forward to a place; return False if it is not there yet, after some time."""
        until = time.monotonic() + _TURN
        while self.offset < offset:
            self.fill(1)
            if not self.rest:
                return True  # the text ends before the place
            self.take(min(len(self.rest), offset - self.offset))
            if time.monotonic() > until and self.offset < offset:
                return False
        return True

    def take(self, count: int) -> None:
        """Go behind so many bytes of `rest`."""
        self.tail = (self.tail + self.rest[:count])[-EDGE:]
        self.rest = self.rest[count:]
        self.offset += count

    def close(self) -> None:
        """Close the file."""
        self._file.close()
