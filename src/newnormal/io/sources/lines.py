"""Lines of CSV or JSON as samples: what files and pipes share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Protocol

import numpy as np

from newnormal.errors import InputError
from newnormal.io.layout import Layout, LayoutError
from newnormal.io.sources.base import Batch, Source, SourceOptions
from newnormal.tabular import Problem
from newnormal.tabular.text.encodings import UTF8
from newnormal.tabular.text.line_cutting import LineCutter, Skipped, line_texts
from newnormal.tabular.text.opening import Opened, open_input


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
    `next_lines` gives them; `by` are the columns that name the stream.
    """

    record: ClassVar[str] = "line"

    def __init__(
        self,
        input: str,  # noqa: A002
        options: SourceOptions,
        reader: Reader | None = None,
        by: Sequence[str] = (),
    ) -> None:
        super().__init__(input, options)
        try:
            self._opened: Opened = open_input(
                input, options.reading, by, live=True, follow=options.follow
            )
        except InputError as error:
            raise self._named(error) from error
        self._samples = Layout(_of_lines(options, self._opened.kind), self.name)
        self._layout: Reader = self._samples if reader is None else reader
        self._restart(0, 0)

    def _restart(self, offset: int, line: int, newline: bytes | None = None) -> None:
        self._offset = offset  # behind the last line given out
        self._line = line  # the number of that line
        self._lines: list[bytes] = []  # complete, in reverse: the next one is last
        self._cutter = LineCutter(self.options.reading.longest_line, newline)
        self._ended = False
        self._error: LayoutError | None = None  # to be raised by the next call

    def _read(self) -> bytes | None:
        """Return the next bytes; b"" if none came within `POLL_S`, None at the end."""
        try:
            return self._opened.poll()
        except InputError as error:
            raise self._named(error) from error

    def close(self) -> None:
        """Close the input."""
        self._opened.close()

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
        self._passed(lines)
        return first, lines

    def texts(self, lines: Sequence[bytes], first: int) -> list[str]:
        """Return lines of `next_lines`, `first` the number of the first; `Refused` if no text."""
        return line_texts(lines, first == 1, self._opened.encoding or UTF8)

    def stop(self) -> bool:
        """Read no more bytes; complete lines that were received are given out."""
        self._ended = True
        return True

    def _fill(self) -> None:
        piece = self._read()
        if piece:
            self._lines = self._cutter.cut(piece)[::-1]
        elif piece is None:
            self._ended = True
            if not self._cutter.unfinished:
                return
            if self.options.unfinished and not self._opened.finished:
                self.report("the last line has no end yet: left for the next start")
            else:
                self._lines = self._cutter.finish()

    def _named(self, error: InputError) -> InputError:
        return InputError(f"{self.name}: {error.message}", hint=error.hint)

    def _parsed(self, limit: int) -> Batch:
        count = min(limit, len(self._lines))
        first = self._line + 1
        raw = self._lines[len(self._lines) - count :][::-1]
        texts = self.texts(raw, first)
        try:
            found = self._samples.parse(texts, first)
        except LayoutError as error:
            self._error = error
            raise
        self._passed(raw)
        wrong = [*found.errors]
        before = np.searchsorted(found.rows, [row for row, _ in wrong]).tolist()
        problems = tuple(
            Problem(error, first + row, place)
            for (row, error), place in zip(wrong, before, strict=True)
        )
        numbers = (first + found.rows).tolist()
        return Batch(found.values, found.times, numbers, problems, self._samples.zone)

    def _passed(self, lines: Sequence[bytes]) -> None:
        """Go behind the next lines."""
        count = len(lines)
        del self._lines[len(self._lines) - count :]
        self._offset += sum(map(len, lines)) + count * self._cutter.last_end
        if self._cutter.skipped:
            self._offset += sum(line.size for line in lines if isinstance(line, Skipped))
        self._line += count


def _of_lines(options: SourceOptions, kind: str | None) -> SourceOptions:
    """Return the options with the format of the lines; None: the first one tells it."""
    given = options.reading.format
    if kind is None and given in ("csv", "jsonl"):
        return options
    return replace(options, reading=replace(options.reading, format=kind))  # type: ignore[arg-type]
