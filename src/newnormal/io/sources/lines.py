"""Lines of CSV or JSON as samples: what files and pipes share."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Protocol

import numpy as np

from newnormal.errors import InputError
from newnormal.io.layout import Layout, LayoutError
from newnormal.io.sources.base import Batch, Problem, Source, SourceOptions

__all__ = ["POLL_S", "READ_BYTES", "LineSource", "Reader", "line_text"]

READ_BYTES = 1 << 18
POLL_S = 0.2  # how long a source waits for more before it returns an empty batch


class Reader(Protocol):
    """What knows the columns of an input's lines, as `Layout` does."""

    def facts(self) -> dict[str, Any]:
        """Return what was found out, as JSON values."""

    def restore(self, facts: object) -> None:
        """Restore what `facts` returned; a StateError for anything else."""

    def check(self) -> None:
        """Raise a LayoutError, at the end, if no line fitted."""


class LineSource(Source):
    """A source whose records are lines; each kind of input reads its bytes in a file of its own.

    Where the lines are not samples of one stream, another `reader` has their columns, and
    `next_lines` gives them.
    """

    record: ClassVar[str] = "line"

    def __init__(
        self,
        input: str,  # noqa: A002
        options: SourceOptions,
        reader: Reader | None = None,
    ) -> None:
        super().__init__(input, options)
        self._samples = Layout(options, self.name)
        self._layout: Reader = self._samples if reader is None else reader
        self._offset = 0  # behind the last line given out
        self._line = 0  # the number of that line
        self._lines: list[bytes] = []  # complete, in reverse: the next one is last
        self._tail = b""  # an unfinished line
        self._newline = 1  # bytes that end a line; none behind the last line of an input
        self._ended = False
        self._error: LayoutError | None = None  # to be raised by the next call

    @abstractmethod
    def _read(self) -> bytes | None:
        """Return the next bytes; b"" if none came within `POLL_S`, None at the end."""

    def next_batch(self, limit: int) -> Batch | None:
        """Return the samples of the next lines, at most `limit` of them."""
        if self._error is not None:
            raise self._error
        if not self._lines and not self._ended:
            self._fill()
        if not self._lines and self._ended:
            self._layout.check()
            return None
        return self._parsed(limit)

    def next_lines(self, limit: int) -> tuple[int, list[bytes]] | None:
        """Return the number of the next line, and lines, at most `limit`; None at the end."""
        if not self._lines and not self._ended:
            self._fill()
        if not self._lines and self._ended:
            self._layout.check()
            return None
        count = min(limit, len(self._lines))
        first = self._line + 1
        lines = self._lines[len(self._lines) - count :][::-1]
        del self._lines[len(self._lines) - count :]
        self._offset += sum(map(len, lines)) + count * self._newline
        self._line += count
        return first, lines

    def stop(self) -> bool:
        """Read no more bytes; complete lines that were received are given out."""
        self._ended = True
        return True

    def _fill(self) -> None:
        chunk = self._read()
        if chunk:
            *complete, self._tail = (self._tail + chunk).split(b"\n")
            self._lines = complete[::-1]
        elif chunk is None:
            self._ended = True
            if self._tail and self.options.unfinished:
                self.report("the last line has no end yet: left for the next start")
            elif self._tail:
                self._lines, self._tail, self._newline = [self._tail], b"", 0

    def _parsed(self, limit: int) -> Batch:
        rows: list[Any] = []
        times: list[np.datetime64] = []
        numbers: list[int] = []
        problems: list[Problem] = []
        for _ in range(min(limit, len(self._lines))):
            raw = self._lines[-1]
            number = self._line + 1
            try:
                text = line_text(raw, first=number == 1)
                if text is None:
                    raise InputError("expected UTF-8 text")
                sample = self._samples.sample(text)
                if sample is not None:
                    rows.append(sample.values)
                    numbers.append(number)
                    if sample.time is not None:
                        times.append(sample.time)
            except LayoutError as error:
                self._error = error  # the lines before it are reported first
                break
            except InputError as error:
                problems.append(Problem(error, number, len(rows)))
            self._lines.pop()
            self._offset += len(raw) + self._newline
            self._line = number
        values = np.array(rows) if rows else np.empty((0, len(self.options.channels)))
        moments = np.array(times, dtype="datetime64[ns]") if times else None
        return Batch(values, moments, numbers, tuple(problems), self._samples.zone)


def line_text(raw: bytes, first: bool) -> str | None:
    """Return a line as text without its end, None if it is not UTF-8; `first` may have a mark."""
    try:
        return raw.rstrip(b"\r").decode("utf-8-sig" if first else "utf-8")
    except UnicodeDecodeError:
        return None
