"""A file, which may be growing."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from newnormal.errors import InputError, StateError
from newnormal.io.sources.base import FRESH, SourceOptions
from newnormal.io.sources.lines import POLL_S, READ_BYTES, LineSource, Reader
from newnormal.state.targets import what_is

__all__ = ["FileSource"]

_HEAD = 4096  # bytes of a file's beginning that tell it from another of the same name


class FileSource(LineSource):
    """Lines of a file. A snapshot has its path, the place, and digests of the bytes around it."""

    def __init__(
        self,
        input: str,  # noqa: A002
        options: SourceOptions,
        reader: Reader | None = None,
    ) -> None:
        super().__init__(input, options, reader)
        self._path = Path(input)
        found = what_is(self._path)
        if found is not None:  # it has no places to go back to; a pipe would be waited for
            raise InputError(
                f"{input}: expected a file that can be read, found {found}",
                hint=f"give the path of a file; read a pipe as standard input: - < {input}",
            )
        try:
            self._file = self._path.open("rb", buffering=0)
        except OSError as error:
            raise InputError(
                f"{input}: expected a file that can be read, found: {error.strerror}",
                hint="give the path of a file, or - for standard input",
            ) from error
        self._resolved = str(self._path.resolve())
        self._head = b""  # as it was read: by now another file may have this one's name

    @property
    def identity(self) -> str:
        """The file's full path."""
        return self._resolved

    def snapshot(self) -> dict[str, Any]:
        """Return the path, the place, and digests of the beginning and of the bytes before it."""
        head = min(self._offset, _HEAD)
        return {
            "path": self._resolved,
            "head": head,
            "sha256": hashlib.sha256(self._head[:head]).hexdigest(),
            "tail_sha256": self._digest_before(self._offset),
            "offset": self._offset,
            "line": self._line,
            "layout": self._layout.facts(),
        }

    def resume(self, snapshot: Mapping[str, Any]) -> bool:
        """Go to a snapshot's place, if it is one in this very file."""
        head, offset, line = (_whole(snapshot, name) for name in ("head", "offset", "line"))
        if head > min(offset, _HEAD):
            raise StateError(
                f"place: expected head at most {min(offset, _HEAD)}, found {head}",
                hint=FRESH,
            )
        if snapshot.get("path") != str(self._path.resolve()):
            return False
        if os.fstat(self._file.fileno()).st_size < offset:
            return False
        if hashlib.sha256(self._start(head)).hexdigest() != snapshot.get("sha256"):
            return False
        if self._digest_before(offset) != snapshot.get("tail_sha256"):
            return False
        self._layout.restore(snapshot.get("layout"))
        self._head = self._start(min(offset, _HEAD))
        self._file.seek(offset)
        self._offset, self._line = offset, line
        self._lines, self._tail, self._newline = [], b"", 1
        self._ended, self._error = False, None
        return True

    def stop(self) -> bool:
        """Read no more, and drop the lines in memory: they can be read again."""
        self._lines = []
        return super().stop()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read(self) -> bytes | None:
        follow = self.options.follow
        replaced = follow and self._is_replaced()
        chunk = self._file.read(READ_BYTES) or b""
        self._head += chunk[: _HEAD - len(self._head)]
        if chunk:
            return chunk
        if not follow:
            return None
        if replaced:  # and what was written before it was has been read
            raise InputError(
                f"{self._path} was replaced or cut short while it was followed",
                hint="start `newnormal watch` again to read the new file",
            )
        time.sleep(POLL_S)
        return b""

    def _is_replaced(self) -> bool:
        try:
            now = os.stat(self._path)
        except FileNotFoundError:
            return False  # being rotated: looked at again with the next batch
        opened = os.fstat(self._file.fileno())
        return (now.st_dev, now.st_ino) != (opened.st_dev, opened.st_ino) or (
            now.st_size < self._file.tell()
        )

    def _digest_before(self, offset: int) -> str:
        """Return the digest of the last bytes before a place: a file rewritten differs there."""
        here = self._file.tell()
        start = max(offset - _HEAD, 0)
        self._file.seek(start)
        digest = hashlib.sha256(self._file.read(offset - start) or b"").hexdigest()
        self._file.seek(here)
        return digest

    def _start(self, count: int) -> bytes:
        with self._path.open("rb") as file:
            return file.read(count)


def _whole(snapshot: Mapping[str, Any], name: str) -> int:
    value = snapshot.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise StateError(
            f"place: expected {name} as a whole number from 0, found {value!r}",
            hint=FRESH,
        )
    return value
