"""Lines that have the same columns as samples: column by column, not line by line."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from newnormal.arrivals.cells import Cell, shown
from newnormal.errors import InputError
from newnormal.tabular.parsing.column_plan import ColumnPlan
from newnormal.tabular.parsing.decimals import NumberReader
from newnormal.tabular.parsing.splitters import CsvSplitter, Splitter
from newnormal.tabular.reading import BadCells
from newnormal.types import Bools, Floats, Ints, Times

_FEW = 64  # lines whose numbers are read all at once, not by column
_NAMES = {str, float, int, bool, type(None)}


class Sample(NamedTuple):
    """What one line holds: the channels' values (NaN is missing), its time and its label."""

    values: Floats
    time: np.datetime64 | None
    label: int | None = None


@dataclass(eq=False)
class ParsedSamples:
    """What lines hold."""

    # values, times, labels: as in a `Table`, the order of the times not checked
    values: Floats
    times: Times | None
    labels: Ints | None
    # the position among the lines of each sample. It is negative for a line that came before and
    # was held until it was known what it is
    rows: Ints
    # the lines that hold no sample: their position, the cell of their name (None where it could not
    # be read), and why. Blank lines are not errors
    errors: Sequence[tuple[int, Any, InputError]]
    # the cell that names what each sample is of, or a tuple of cells, where such columns were named
    keys: Sequence[Any] = ()
    # by column, the cells that are no number; `line` is the position of the first one
    bad_cells: dict[str, BadCells] = field(default_factory=dict)

    @classmethod
    def of_errors(
        cls,
        errors: Sequence[tuple[int, Any, InputError]],
        width: int = 0,
        plan: ColumnPlan | None = None,
    ) -> "ParsedSamples":
        """Return errors without samples."""
        timed = plan is not None and plan.time_at is not None
        labelled = plan is not None and plan.label_at is not None
        return cls(
            np.empty((0, width)),
            np.empty(0, dtype="datetime64[ns]") if timed else None,
            np.empty(0, dtype=np.int64) if labelled else None,
            np.empty(0, dtype=np.int64),
            errors,
        )


def joined(
    blocks: Sequence[tuple[int, ParsedSamples]],
    held: int = 0,
    width: int = 0,
    plan: ColumnPlan | None = None,
) -> ParsedSamples:
    """Return the samples of blocks, each with its offset among the lines.

    `held` of the lines came before those that positions are counted from. There are `width` columns
    of values at least; `plan` counts where there are no samples.
    """
    errors = tuple(
        (position + offset - held, key, error)
        for offset, block in blocks
        for position, key, error in block.errors
    )
    parts = [(offset - held, block) for offset, block in blocks if len(block.rows)]
    if not parts:
        return ParsedSamples.of_errors(errors, width, plan)
    values = [block.values for _, block in parts]
    return ParsedSamples(
        _stacked(values, max(width, *(part.shape[1] for part in values))),
        _together([block.times for _, block in parts]),
        _together([block.labels for _, block in parts]),
        np.concatenate([block.rows + offset for offset, block in parts]),
        errors,
        [key for _, block in parts for key in block.keys],
    )


def _stacked(parts: Sequence[Floats], width: int) -> Floats:
    """Return parts as one array; those read before a column was new have it missing."""
    if len(parts) == 1 and parts[0].shape[1] == width:
        return parts[0]
    values = np.full((sum(map(len, parts)), width), np.nan)
    start = 0
    for part in parts:
        values[start : start + len(part), : part.shape[1]] = part
        start += len(part)
    return values


def _together(parts: Sequence[NDArray[Any] | None]) -> NDArray[Any] | None:
    arrays = [part for part in parts if part is not None]
    return np.concatenate(arrays) if len(arrays) == len(parts) else None


def read_block(
    plan: ColumnPlan,
    positions: list[int],
    rows: Sequence[Sequence[Cell]],
    errors: Sequence[tuple[int, InputError]],
    *,
    strict: bool = False,
) -> ParsedSamples:
    """Return the samples of lines, given their positions and cells.

    `errors` are lines that could not be taken apart. With `strict` a cell that is no number makes a
    bad line.
    """
    wrong: list[tuple[int, Any, InputError]] = [
        (position, None, error) for position, error in errors
    ]
    if not rows:
        return ParsedSamples.of_errors(wrong, len(plan.positions), plan)
    columns = list(zip(*rows, strict=True))
    keys = _keys(plan, columns)
    refused = np.zeros(len(rows), dtype=np.bool_)
    reading = _BlockReader(plan, positions, keys, wrong, refused)
    values = reading.values(columns, strict)
    times = reading.times(columns)
    labels = reading.labels(columns)
    sample_lines = np.array(positions, dtype=np.int64)
    if refused.any():
        good = ~refused
        values, sample_lines = values[good], sample_lines[good]
        times = None if times is None else times[good]
        labels = None if labels is None else labels[good]
        keys = [keys[row] for row in np.flatnonzero(good).tolist()] if keys else keys
    wrong.sort(key=lambda problem: problem[0])
    return ParsedSamples(values, times, labels, sample_lines, wrong, keys, reading.bad_cells)


class _BlockReader:
    """Reads the columns of a block, and marks the lines that hold no sample."""

    def __init__(
        self,
        plan: ColumnPlan,
        positions: list[int],
        keys: Sequence[Any],
        errors: list[tuple[int, Any, InputError]],
        refused: Bools,
    ) -> None:
        self._plan, self._positions, self._keys = plan, positions, keys
        self._errors, self._refused = errors, refused
        self.bad_cells: dict[str, BadCells] = {}

    def _refuse(self, row: int, error: InputError) -> None:
        if not self._refused[row]:
            self._refused[row] = True
            key = self._keys[row] if self._keys else None
            self._errors.append((self._positions[row], key, error))

    def values(self, columns: Sequence[Sequence[Cell]], strict: bool) -> Floats:
        plan, numbers = self._plan, self._plan.numbers
        if len(self._positions) <= _FEW and plan.plain:
            flat = numbers.plain(
                [cell for position in plan.positions for cell in columns[position]]
            )
            if flat is not None:
                by_row = flat.reshape(len(plan.positions), len(self._positions)).T
                return np.ascontiguousarray(by_row)
        values = np.empty((len(self._positions), len(plan.positions)))
        for channel, position in enumerate(plan.positions):
            if position < 0:
                values[:, channel] = np.nan
                continue
            column = plan.roles.columns[channel]
            cells = columns[position]
            values[:, channel], bad = numbers.read(cells, numbers.units.get(column))
            if not bad:
                continue
            if strict:
                for row in bad:
                    self._refuse(row, cell_error(column, cells[row], numbers))
            else:
                example = cells[bad[0]]
                text = example if isinstance(example, str) else shown(example)
                self.bad_cells[column] = BadCells(len(bad), self._positions[bad[0]], text)
        return values

    def times(self, columns: Sequence[Sequence[Cell]]) -> Times | None:
        plan = self._plan
        if plan.time_at is None:
            return None
        cells = columns[plan.time_at]
        days = None if plan.date_at is None else columns[plan.date_at]
        times, bad = plan.times.read(cells, days, self._keys or None)
        for row in np.flatnonzero(bad).tolist():
            error = plan.times.error(cells[row], None if days is None else days[row])
            where = f"column {plan.roles.time!r}"
            self._refuse(row, InputError(f"{where}: {error.message}", hint=error.hint))
        return times

    def labels(self, columns: Sequence[Sequence[Cell]]) -> Ints | None:
        plan = self._plan
        if plan.label_at is None:
            return None
        cells = columns[plan.label_at]
        values, _ = plan.numbers.read(cells)
        wrong = ~((values == 0) | (values == 1))
        for row in np.flatnonzero(wrong).tolist():
            text = shown(cells[row])
            self._refuse(
                row,
                InputError(f"column {plan.roles.label!r}: expected a label 0 or 1, found {text}"),
            )
        values[wrong] = 0
        return values.astype(np.int64)


def cell_error(column: str, cell: Cell, numbers: NumberReader) -> InputError:
    """Return what is wrong with a cell that is no number."""
    return InputError(
        f"column {column!r}: expected a number, found {shown(cell)}",
        hint=numbers.hint(cell, column),
    )


def _keys(plan: ColumnPlan, columns: Sequence[Sequence[Cell]]) -> list[Any]:
    if not plan.keys_at:
        return []
    names = [columns[column] for column in plan.keys_at]
    names = [
        cells
        if set(map(type, cells)) <= _NAMES
        else tuple(cell if type(cell) in _NAMES else None for cell in cells)  # a list is no name
        for cells in names
    ]
    return list(names[0]) if len(names) == 1 else list(zip(*names, strict=True))


class PlainLine:
    """Reads a line of numbers and an ISO time; anything else is left to the block of lines.

    It gives what `read_block` gives, or nothing.
    """

    def __init__(self, plan: ColumnPlan, splitter: Splitter) -> None:
        self.plan, self.splitter = plan, splitter
        delimiter = splitter.head.delimiter if isinstance(splitter, CsvSplitter) else " "
        parts = (plan.date_at, plan.label_at)
        self._fits = plan.plain and not plan.keys_at and parts == (None, None) and delimiter != " "
        self._delimiter = delimiter

    def read(self, line: str) -> ParsedSamples | None:
        """Return the sample; None if the line is not plain."""
        if (cells := self._cells(line)) is None:
            return None
        plan = self.plan
        try:
            values = [float(cells[column]) for column in plan.positions]
        except ValueError:
            return None
        if not all(map(isfinite, values)):
            return None
        times = None
        if plan.time_at is not None:
            if (moment := plan.times.plain(cells[plan.time_at])) is None:
                return None
            times = np.array([moment], dtype=np.int64).view("datetime64[ns]")
        row = np.zeros(1, dtype=np.int64)
        return ParsedSamples(np.array([values]), times, None, row, (), [])

    def _cells(self, line: str) -> list[str] | None:
        numbers = self.plan.numbers
        if not self._fits or type(line) is not str or '"' in line or "_" in line:
            return None
        if numbers.decimal != "." or numbers.sentinels or not line.isascii():
            return None
        cells = line.rstrip("\r\n").split(self._delimiter)
        return cells if len(cells) == self.plan.width else None
