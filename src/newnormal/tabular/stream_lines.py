"""Lines of many streams, in any order, as samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from newnormal.errors import InputError, ParameterError
from newnormal.tabular.columns import Selection, listed
from newnormal.tabular.keyed_lines import KeyedLines, KeyedSamples, column_names, line_format
from newnormal.tabular.lines import LineFormat
from newnormal.tabular.problems import Problem
from newnormal.tabular.stream_batch import StreamBatch
from newnormal.tabular.stream_names import StreamNames

__all__ = ["LineReader", "StreamLines", "blank"]

# A line that does not fit is a bad line, but an input whose every line does not fit is a wrong one.
_PATIENCE = 10


class LineReader(ABC):
    """Opens an input of lines with its first line; what wide and long lines share.

    Parameters
    ----------
    by
        The columns that name the stream.
    format
        CSV or JSON lines; by default JSON lines if the first line begins with a brace.
    """

    def __init__(self, by: str | Sequence[str], format: LineFormat | None) -> None:  # noqa: A002
        self._by = (by,) if isinstance(by, str) else tuple(by)
        if format not in (None, "csv", "jsonl"):
            raise ParameterError(f"expected lines of format csv or jsonl, found {format!r}")
        self._format = format
        self._parser: KeyedLines | None = None
        self._misfits = 0
        self._misfit: InputError | None = None
        self._opened_by: str | None = None
        self._line = 0

    @property
    def zone(self) -> str | None:
        """The zone of the newest time: an offset such as "+02:00"; None if it has none."""
        return None if self._parser is None else self._parser.zone

    @property
    def channels(self) -> tuple[str, ...]:
        """The columns of the values so far."""
        return () if self._parser is None else self._parser.channels or ()

    def facts(self) -> dict[str, Any]:
        """Return the lines that the columns were found in, for `restore`."""
        settled_by = None if self._parser is None else self._parser.settled_by
        return {"opened_by": self._opened_by, "settled_by": settled_by}

    def restore(self, facts: Mapping[str, Any]) -> None:
        """Restore what `facts` returned, before the first line is read."""
        opened_by, settled_by = facts.get("opened_by"), facts.get("settled_by")
        if opened_by is None:
            return
        self._parser = self._opened(opened_by)
        if settled_by is not None:
            self._parser.settle(settled_by)
        self._opened_by = opened_by

    def check(self) -> None:
        """Raise an InputError, at the end of the input, if no line of it was read."""
        if self._misfit is not None:
            raise self._misfit

    def read(self, lines: Sequence[str], first: int | None = None) -> tuple[int, KeyedSamples]:
        """Return the number of the first line, and what the lines hold, names as cells.

        Parameters
        ----------
        lines
            The lines, with or without their ends.
        first
            The number of the first of them; by default they follow those read before.

        Raises
        ------
        InputError
            If every line would be wrong.
        """
        start = self._line + 1 if first is None else first
        self._line = start + len(lines) - 1
        errors: list[tuple[int, Any, InputError]] = []
        skip = 0
        while self._parser is None and skip < len(lines):
            skip += self._open(lines[skip], skip, errors)
        if self._parser is None:
            empty = np.empty(0, dtype=np.int64)
            return start, KeyedSamples([], np.empty((0, 0)), None, empty, errors)
        samples = self._parser.read_many(lines[skip:])
        if skip:
            errors += [(skip + row, key, error) for row, key, error in samples.errors]
            samples = replace(samples, rows=samples.rows + skip, errors=errors)
        return start, samples

    def _open(self, line: str, row: int, errors: list[tuple[int, Any, InputError]]) -> int:
        """Open the input with a line, and return 1 if the line is used up, else 0."""
        if blank(line):
            return 1
        try:
            self._parser = self._opened(line)
        except InputError as error:
            self._misfits += 1
            self._misfit = error
            if line_format(line, self._format) == "csv" or self._misfits >= _PATIENCE:
                raise
            errors.append((row, None, error))
            return 1
        self._opened_by, self._misfit = line, None
        return int(self._parser.header_consumed)

    def _opened(self, line: str) -> KeyedLines:
        kind = line_format(line, self._format)
        names = column_names(line, kind)
        for name in self._by:
            if name not in names:
                raise InputError(
                    f"by names column {name!r}, found only {listed(names)}",
                    hint="the first line names the columns: name that of the streams with --by",
                )
        return KeyedLines(line, kind, self._selection(names))

    @abstractmethod
    def _selection(self, names: Sequence[str]) -> Selection:
        """Return what the columns are, given those of the first line."""


class StreamLines(LineReader):
    r"""Reads lines of CSV or JSON that are samples of many streams, by the rules of `LineParser`.

    Parameters
    ----------
    by
        The columns that name the stream; the cells of several are joined by "/".
    format
        CSV or JSON lines; by default JSON lines if the first line begins with a brace.
    time
        The column of times; by default the one whose first cell is an ISO 8601 time.
    columns
        The only columns to take channels from.
    drop
        Columns to leave out.

    Examples
    --------
    >>> lines = StreamLines("host")
    >>> batch = lines.parse(["host,load,heat", "a,1,", "b,,20", "a,high,"])
    >>> [batch.names[code] for code in batch.codes], batch.channels, batch.values.tolist()
    (['a', 'b'], ('load', 'heat'), [[1.0, nan], [nan, 20.0]])
    >>> problem = batch.problems[0]
    >>> print(problem.number, problem.error.message)
    4 column 'load': expected a number, found 'high'
    """

    def __init__(
        self,
        by: str | Sequence[str],
        *,
        format: LineFormat | None = None,  # noqa: A002 - the option's name everywhere
        time: str | None = None,
        columns: str | Sequence[str] | None = None,
        drop: str | Sequence[str] = (),
    ) -> None:
        super().__init__(by, format)
        if not self._by:
            raise ParameterError("expected by to name at least one column, found none")
        self._chosen = Selection.of(time, columns, drop, None, self._by)
        self._names = StreamNames(self._by)
        self._shown: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the streams so far."""
        if len(self._shown) != len(self._names.names):
            self._shown = tuple(self._names.names)
        return self._shown

    def parse(self, lines: Sequence[str], first: int | None = None) -> StreamBatch:
        """Return the samples of the next lines, and what is wrong with the others.

        Parameters
        ----------
        lines
            The lines, with or without their ends; the first that is not blank names the columns.
        first
            The number of the first of them; by default they follow those parsed before.

        Raises
        ------
        InputError
            If every line would be wrong: no such column, or two columns of times.
        """
        start, samples = self.read(lines, first)
        codes = self._names.codes(samples.keys)
        wrong = [(row, error) for row, _, error in samples.errors]
        values, times, rows = samples.values, samples.times, samples.rows
        if (codes < 0).any():
            for at in np.flatnonzero(codes < 0).tolist():
                error = self._names.error(int(codes[at]), samples.keys[at])
                wrong.append((int(rows[at]), error))
            good = codes >= 0
            codes, values, rows = codes[good], values[good], rows[good]
            times = None if times is None else times[good]
            wrong.sort(key=lambda each: each[0])
        before = np.searchsorted(rows, [row for row, _ in wrong]).tolist()
        problems = tuple(
            Problem(error, start + row, count)
            for (row, error), count in zip(wrong, before, strict=True)
        )
        fixed = self._parser is not None and self._parser.fixed
        return StreamBatch(
            self.names, codes, self.channels, values, times, start + rows, problems, fixed
        )

    def _selection(self, names: Sequence[str]) -> Selection:
        del names
        return self._chosen


def blank(line: str) -> bool:
    """Return whether a line holds nothing."""
    return not line or line.isspace()
