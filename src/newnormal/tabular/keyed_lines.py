"""Lines whose samples have a name, read many at a time: column by column, not line by line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from newnormal.errors import InputError
from newnormal.tabular.cells import Cell, CsvCells, JsonCells, Splitter, number
from newnormal.tabular.columns import Selection
from newnormal.tabular.lines import LineFormat, LineParser
from newnormal.tabular.times import parse_time, parse_times
from newnormal.types import Bools, Floats, Ints, Times

__all__ = ["KeyedLines", "KeyedSamples", "column_names", "line_format", "unique_times"]

_PLAIN = {float, int, bool, type(None)}
_NAMES = {str, float, int, bool, type(None)}


@dataclass(frozen=True, eq=False)
class KeyedSamples:
    """What many lines hold.

    Attributes
    ----------
    keys
        The name's cell of each sample, or a tuple of cells if the name is in several columns.
    values, times
        As in a `Table`, the order of the times not checked.
    rows
        The position among the lines of each sample.
    errors
        The lines that hold no sample: their position, the name's cell (None where it could not
        be read), and why.
    """

    keys: list[Any]
    values: Floats
    times: Times | None
    rows: Ints
    errors: list[tuple[int, Any, InputError]]


class KeyedLines(LineParser):
    """Reads lines as `LineParser` does, and keeps the cells that name what a sample is of.

    The values of a column are read at once. A line in which anything is not plain is read by
    itself, by `LineParser`, so that values and messages are exactly the same.

    JSON lines may differ in their keys, as those of different streams do: a key that is not there
    is a missing value, and a new key is one more channel, unless the columns were named.

    Parameters
    ----------
    first_line
        The first line that is not blank.
    format
        CSV or JSON lines.
    selection
        The columns; `by` are those of the names.

    Attributes
    ----------
    settled_by
        The line that `settle` found the columns in, None before.
    """

    def __init__(self, first_line: str, format: LineFormat, selection: Selection) -> None:  # noqa: A002
        self._temporal: Sequence[str] = ()
        self.settled_by: str | None = None
        self._format = format
        super().__init__(first_line, format, None, selection)
        position = {name: at for at, name in enumerate(self._cells.names)}
        self._keys_at = [position[name] for name in selection.by]

    @property
    def fixed(self) -> bool:
        """Whether there cannot be more columns than now."""
        return self._format == "csv" or self._selection.columns is not None

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns of the names."""
        return self._selection.by

    def settle(self, line: str) -> bool:
        """Find out what each column is, as `LineParser.settle`."""
        known = self._roles is not None
        found = super().settle(line)
        if found and not known:
            self.settled_by = line
        return found

    def read_many(self, lines: Sequence[str]) -> KeyedSamples:
        """Return the samples of many lines, and what is wrong with the others.

        Raises
        ------
        InputError
            Only as `settle` does: if every line would be wrong.
        """
        rows: list[int] = []
        taken: list[Sequence[Cell]] = []
        errors: list[tuple[int, Any, InputError]] = []
        split = self._cells.split
        for row, line in enumerate(lines):
            if not line or line.isspace():
                continue
            if self._roles is None:
                self.settle(line)
            try:
                taken.append(split(line))
            except InputError as error:
                errors.append((row, None, error))
            else:
                rows.append(row)
        if self._roles is None or not rows:
            nothing = np.empty((0, len(self.channels or ())))
            times = None if self.time is None else np.empty(0, dtype="datetime64[ns]")
            return KeyedSamples([], nothing, times, np.empty(0, dtype=np.int64), errors)
        return self._columns_of(lines, rows, taken, errors)

    def _columns_of(
        self,
        lines: Sequence[str],
        rows: list[int],
        taken: list[Sequence[Cell]],
        errors: list[tuple[int, Any, InputError]],
    ) -> KeyedSamples:
        width = len(self._cells.names)
        if width != self._width:  # JSON lines have had new keys since
            taken = [[*cells, *[None] * (width - len(cells))] for cells in taken]
            self._settle(self._temporal)
        columns = list(zip(*taken, strict=True))
        unsure = np.zeros(len(rows), dtype=np.bool_)
        values = np.empty((len(rows), len(self._positions)))
        for at, position in enumerate(self._positions):
            values[:, at] = _floats(columns[position], unsure)
        infinite = np.isinf(values)
        if infinite.any():
            unsure |= infinite.any(axis=1)
        times = None
        if self._time_at is not None:
            times = _times(columns[self._time_at], unsure)
            self._newest_time = columns[self._time_at][-1]
        keys = self._keys(columns)
        for at in np.flatnonzero(unsure).tolist():
            try:
                sample = self._sample(lines[rows[at]])
            except InputError as error:
                errors.append((rows[at], keys[at], error))
            else:
                unsure[at] = False
                values[at] = sample.values
                if times is not None:
                    times[at] = sample.time
        at_rows = np.array(rows, dtype=np.int64)
        if errors:
            errors.sort(key=lambda error: error[0])
            good = ~unsure
            keys = [keys[at] for at in np.flatnonzero(good).tolist()]
            values, at_rows = values[good], at_rows[good]
            times = None if times is None else times[good]
        return KeyedSamples(keys, values, times, at_rows, errors)

    def _keys(self, columns: Sequence[Sequence[Cell]]) -> list[Any]:
        found = [columns[at] for at in self._keys_at]
        if self._format == "jsonl":  # a list or an object is no name
            found = [
                cells
                if set(map(type, cells)) <= _NAMES
                else tuple(cell if type(cell) in _NAMES else None for cell in cells)
                for cells in found
            ]
        return list(found[0]) if len(found) == 1 else list(zip(*found, strict=True))

    def _splitter(self, first_line: str, format: LineFormat) -> Splitter:  # noqa: A002
        if format == "jsonl":
            return _OpenJsonCells(first_line, self._selection)
        return CsvCells(first_line, None)

    def _settle(self, temporal: Sequence[str]) -> None:
        super()._settle(temporal)
        self._temporal = temporal
        self._width = len(self._cells.names)


class _OpenJsonCells(JsonCells):
    """JSON lines whose keys may differ: all keys so far are the columns."""

    def __init__(self, line: str, selection: Selection) -> None:
        found = self._object(line)
        # Columns named by the user may be those of a stream that comes later.
        later = dict.fromkeys((*(selection.columns or ()), *selection.drop))
        super().__init__(json.dumps(dict.fromkeys((*found, *later))), selection)
        self._is_open = selection.columns is None

    def split(self, line: str) -> Sequence[Cell]:
        """Return the line's values in the order of the columns so far."""
        record = self._object(line)
        if record.keys() == self._keys:
            return self._pick(record)
        if self._is_open and not record.keys() <= self._keys:
            self.names += tuple(name for name in record if name not in self._keys)
            self._keys = frozenset(self.names)
        return [record.get(name) for name in self.names]


def line_format(line: str, format: LineFormat | None = None) -> LineFormat:  # noqa: A002
    """Return the format of lines: JSON lines if the first one begins with a brace."""
    if format is not None:
        return format
    return "jsonl" if line.lstrip("\ufeff \t").startswith("{") else "csv"


def column_names(line: str, format: LineFormat) -> tuple[str, ...]:  # noqa: A002
    """Return the columns that the first line of an input names."""
    if format == "jsonl":
        return JsonCells(line, Selection()).names
    return CsvCells(line, None).names


def unique_times(cells: Sequence[Any]) -> Times:
    """Return times as `parse_times` does, each different one parsed once.

    Streams have their times in common, so that most times of an input are there many times.
    """
    kinds = set(map(type, cells))
    # Numbers that are equal would be one key, whatever their types.
    if len(kinds) != 1 or not kinds <= {str, int, float}:
        return parse_times(cells)
    different = {cell: at for at, cell in enumerate(dict.fromkeys(cells))}
    if len(different) == len(cells):
        return parse_times(cells)
    parsed = parse_times(list(different))
    at = np.fromiter(map(different.__getitem__, cells), dtype=np.int64, count=len(cells))
    times: Times = parsed[at]
    return times


def _times(cells: Sequence[Cell], unsure: Bools) -> Times:
    try:
        return unique_times(cells)
    except InputError:
        times = np.full(len(cells), np.datetime64("NaT"), dtype="datetime64[ns]")
    for at, cell in enumerate(cells):
        try:
            times[at] = parse_time(cell)
        except InputError:
            unsure[at] = True
    return times


def _floats(cells: Sequence[Cell], unsure: Bools) -> Floats:
    """Return a column's numbers, and mark those that are none."""
    try:
        text: str | None = "".join(cells)  # type: ignore[arg-type]
    except TypeError:
        text = None
    try:
        if text is None and set(map(type, cells)) <= _PLAIN:
            return np.array(cells, dtype=np.float64)
        if text is not None and text.isascii() and "_" not in text:
            return _text_floats(cells)
    except (ValueError, OverflowError):  # a word for missing, or not a number
        pass
    values = np.full(len(cells), np.nan)
    for at, cell in enumerate(cells):
        try:
            values[at] = number(cell)
        except ValueError:
            unsure[at] = True
    return values


def _text_floats(cells: Sequence[Any]) -> Floats:
    try:
        return np.array(cells, dtype=np.float64)
    except ValueError:
        return np.array([cell or "nan" for cell in cells], dtype=np.float64)
