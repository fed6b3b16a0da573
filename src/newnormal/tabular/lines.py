"""Lines of CSV or JSON as samples: one at a time for a pipe, many at a time for a file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from newnormal.errors import InputError, ParameterError
from newnormal.tabular.cells import Cell, CsvCells, JsonCells, Splitter, number, picker, shown
from newnormal.tabular.columns import Roles, Selection, match_names
from newnormal.tabular.times import is_time, parse_time
from newnormal.tabular.zones import zone_of
from newnormal.types import Floats, Ints, Times

__all__ = ["LineFormat", "LineParser", "Sample", "Samples"]

LineFormat = Literal["csv", "jsonl"]

_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")


class Sample(NamedTuple):
    """What one line holds: the channels' values (NaN is missing), its time and its label."""

    values: Floats
    time: np.datetime64 | None
    label: int | None = None


@dataclass(frozen=True, eq=False)
class Samples:
    """What many lines hold.

    Attributes
    ----------
    values, times, labels
        As in a `Table`, the order of the times not checked.
    rows
        The position among the lines of each sample.
    errors
        The lines that hold no sample, by position, and why. Blank lines are not errors.
    """

    values: Floats
    times: Times | None
    labels: Ints | None
    rows: Ints
    errors: tuple[tuple[int, InputError], ...]


class LineParser:
    """Reads samples from lines of CSV or JSON, by the same rules as `read`.

    Made by `open` from the first line that is not blank. Which column holds the time, if the
    user did not name it, is known only from the first sample, which in a pipe may come long after
    the header: see `settle`.

    Examples
    --------
    >>> parser = LineParser.open("time,load,temperature")
    >>> parser.header_consumed
    True
    >>> sample = parser.parse("2026-01-01T00:00:00Z,0.5,NA")
    >>> sample.values, sample.time
    (array([0.5, nan]), np.datetime64('2026-01-01T00:00:00.000000000'))
    >>> parser.parse("2026-01-01T00:00:01Z,high,20")
    Traceback (most recent call last):
    ...
    newnormal.errors.InputError: column 'load': expected a number, found 'high'
    hint: a missing value is an empty cell, NaN, NA or null; leave a column out with --drop 'load'
    """

    @classmethod
    def open(
        cls,
        first_line: str,
        *,
        format: LineFormat | None = None,  # noqa: A002 - the option's name everywhere
        channels: Sequence[str] | None = None,
        time: str | None = None,
        columns: str | Sequence[str] | None = None,
        drop: str | Sequence[str] = (),
        label: str | None = None,
    ) -> LineParser:
        """Return a parser for the lines that follow, and for this one if it is a sample.

        Parameters
        ----------
        first_line
            The first line that is not blank.
        format
            CSV or JSON lines; by default JSON lines if the line begins with a brace.
        channels
            The channels expected, matched by name; by count if the input has no names.
        time, label
            The columns of the time and of the label.
        columns
            The only columns to take channels from.
        drop
            Columns to leave out.

        Raises
        ------
        InputError
            If no line that follows could be right: a channel is missing, an option names an
            unknown column.
        """
        return cls(first_line, format, channels, Selection.of(time, columns, drop, label))

    def __init__(
        self,
        first_line: str,
        format: LineFormat | None,  # noqa: A002
        channels: Sequence[str] | None,
        selection: Selection,
    ) -> None:
        if _blank(first_line):
            raise InputError("expected a header or a sample, found a blank line")
        if format not in (None, "csv", "jsonl"):
            raise ParameterError(f"expected lines of format csv or jsonl, found {format!r}")
        if format is None:
            format = "jsonl" if first_line.lstrip("\ufeff \t").startswith("{") else "csv"  # noqa: A001
        self._expected = None if channels is None else tuple(channels)
        self._selection = selection
        self._cells = self._splitter(first_line, format)
        self._roles: Roles | None = None
        self._newest_time: Cell = None
        selection.check(self._cells.names)
        if channels is not None and self._cells.named:
            match_names(selection.kept(self._cells.names), channels, extra=False)
        if not self.header_consumed:
            self.settle(first_line)
        elif not self._maybe_times():
            self._settle(())

    @property
    def header_consumed(self) -> bool:
        """Whether the first line was a header; if not it is a sample, still to be parsed."""
        return self._cells.header

    @property
    def channels(self) -> tuple[str, ...] | None:
        """The channels' names in the order of the values; None while not settled."""
        return None if self._roles is None else self._roles.channels

    @property
    def time(self) -> str | None:
        """The column of times; None if there is none, or while not settled."""
        return None if self._roles is None else self._roles.time

    @property
    def zone(self) -> str | None:
        """The zone of the newest time: an offset such as "+02:00"; None if it has none."""
        return zone_of(self._newest_time)

    def settle(self, line: str) -> bool:
        """Find out what each column is from the first sample's line; do nothing if that is known.

        `parse` does it too. Call it first to detect an input that does not fit, where every line
        would be wrong, from a bad line.

        Returns
        -------
        Whether it is known: not if the line cannot be taken apart, which `parse` explains.

        Raises
        ------
        InputError
            If two columns hold times, or one is an unknown channel.
        """
        if self._roles is not None:
            return True
        if _blank(line):
            return False
        try:
            cells = dict(zip(self._cells.names, self._cells.split(line), strict=True))
        except InputError:
            return False
        self._settle([name for name in self._maybe_times() if is_time(cells[name])])
        return True

    def parse(self, line: str) -> Sample | None:
        """Return the line's sample, or None if the line is blank.

        Raises
        ------
        InputError
            If the line holds no sample; the message names the column.
        """
        if _blank(line):
            return None
        self.settle(line)
        return self._sample(line)

    def parse_many(self, lines: Sequence[str]) -> Samples:
        """Return the samples of many lines, and what is wrong with the others.

        Raises
        ------
        InputError
            Only as `settle` does: if every line would be wrong.
        """
        samples: list[Sample] = []
        rows: list[int] = []
        errors: list[tuple[int, InputError]] = []
        for row, line in enumerate(lines):
            if _blank(line):
                continue
            self.settle(line)
            try:
                samples.append(self._sample(line))
            except InputError as error:
                errors.append((row, error))
            else:
                rows.append(row)
        width = len(self.channels or self._expected or ())
        values = np.empty((len(samples), width))
        for row, sample in enumerate(samples):
            values[row] = sample.values
        timed, labelled = self.time is not None, self._selection.label is not None
        return Samples(
            values,
            np.array([s.time for s in samples], dtype="datetime64[ns]") if timed else None,
            np.array([s.label for s in samples], dtype=np.int64) if labelled else None,
            np.array(rows, dtype=np.int64),
            tuple(errors),
        )

    def _splitter(self, first_line: str, format: LineFormat) -> Splitter:  # noqa: A002
        if format == "jsonl":
            return JsonCells(first_line, self._selection)
        return CsvCells(first_line, self._expected)

    def _maybe_times(self) -> list[str]:
        return self._selection.maybe_times(self._cells.names, self._expected or ())

    def _settle(self, temporal: Sequence[str]) -> None:
        names = self._cells.names
        roles = self._selection.roles(names, temporal, self._expected, named=self._cells.named)
        nameless = set(self._cells.nameless).difference(self._selection.columns or ())
        for column in roles.columns:
            if column in nameless:
                raise InputError(
                    f"{column} has no name in the header and holds no times",
                    hint=f"a row number is no channel: leave it out with --drop {column!r}",
                )
        self._columns = roles.columns
        position = {name: at for at, name in enumerate(names)}
        self._positions = [position[column] for column in roles.columns]
        self._pick = picker(self._positions)
        self._time_at = None if roles.time is None else position[roles.time]
        self._label_at = None if roles.label is None else position[roles.label]
        self._roles = roles

    def _sample(self, line: str) -> Sample:
        cells = self._cells.split(line)
        values = self._values(line, self._pick(cells))
        time = None if self._time_at is None else self._time(cells[self._time_at])
        label = None if self._label_at is None else self._label(cells[self._label_at])
        return Sample(values, time, label)

    def _values(self, line: str, cells: Sequence[Cell]) -> Floats:
        values = _as_floats(cells) if self._cells.plain(line, cells) else None
        if values is None:
            values = np.array([self._number(at, cell) for at, cell in enumerate(cells)])
        infinite = np.isinf(values)
        if np.count_nonzero(infinite):  # three times as fast as .any() on so few
            at = int(infinite.argmax())
            raise InputError(
                f"column {self._columns[at]!r}: expected a finite number, found {shown(cells[at])}",
                hint="where it means that nothing was measured, leave the cell empty or write NaN",
            )
        return values

    def _number(self, at: int, cell: Cell) -> float:
        try:
            return number(cell)
        except ValueError:
            column = self._columns[at]
            hint = (
                "a missing value is an empty cell, NaN, NA or null; "
                f"leave a column out with --drop {column!r}"
            )
            if isinstance(cell, str) and _DECIMAL_COMMA.fullmatch(cell.strip()):
                hint = "write the decimal point as a dot"
            raise InputError(
                f"column {column!r}: expected a number, found {shown(cell)}", hint=hint
            ) from None

    def _time(self, cell: Cell) -> np.datetime64:
        self._newest_time = cell
        try:
            return parse_time(cell)
        except InputError as error:
            raise InputError(f"column {self.time!r}: {error.message}", hint=error.hint) from None

    def _label(self, cell: Cell) -> int:
        try:
            value = number(cell)
        except ValueError:
            value = float("nan")
        if value not in (0.0, 1.0):
            raise InputError(
                f"column {self._selection.label!r}: expected a label 0 or 1, found {shown(cell)}"
            )
        return int(value)


def _as_floats(cells: Sequence[Cell]) -> Floats | None:
    try:
        return np.array(cells, dtype=np.float64)
    except (ValueError, OverflowError):  # a missing value, or not a number
        return None


def _blank(line: str) -> bool:
    return not line or line.isspace()
