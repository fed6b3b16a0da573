"""Rows of many streams as a table a stream; names of streams as numbers."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from newnormal.arrivals import pivot
from newnormal.arrivals.grid import means
from newnormal.errors import InputError
from newnormal.tabular.columns import match_count, match_names
from newnormal.tabular.parsing.time_columns import parse_times
from newnormal.tabular.reading import InputProfile, Reading
from newnormal.tabular.table import Table, check_finite, check_times, default_channels
from newnormal.tabular.times import zone_of
from newnormal.texts import listed
from newnormal.types import Bools, Floats, Ints, Times

MISSING = -1
SHARED = -2


class StreamNames:
    """Numbers the names found in one column or several.

    `columns` are for messages; the cells of several are joined by "/", without those that are
    empty. `names` has the name of each number. A name is the text of a cell without spaces around
    it; a whole number has no fraction, which a column of integers gets in pandas where a cell of it
    is missing.

    >>> names = StreamNames(["host"])
    >>> names.codes(["b", "a", " b ", None]), names.names
    (array([ 0,  1,  0, -1]), ['b', 'a'])
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = tuple(columns)
        self._codes: dict[Hashable, int] = {}
        self._parts: dict[str, tuple[str, ...]] = {}
        self._numbers: dict[str, int] = {}
        self.names: list[str] = []

    def codes(self, cells: Sequence[Any]) -> Ints:
        """Return the number of each name: `MISSING` for none, `SHARED` for another's.

        `cells` has a cell a sample, or a tuple of cells if there are several columns.
        """
        codes = self._codes
        for cell in dict.fromkeys(cells):
            if cell not in codes:
                codes[cell] = self._code(cell)
        return np.fromiter(map(codes.__getitem__, cells), dtype=np.int64, count=len(cells))

    def restored(self, name: str) -> int:
        """Return the number of a name that was known before, and know it again."""
        if name not in self._numbers:
            self._numbers[name] = len(self.names)
            self.names.append(name)
        return self._numbers[name]

    def error(self, code: int, cell: Any) -> InputError:
        """Return the error of a cell that `codes` gave no number."""
        if code == SHARED:
            parts = self._texts(cell)
            name = "/".join(filter(None, parts))
            return InputError(
                f"columns {listed(self._columns)}: expected names that differ when joined, found "
                f"{listed(parts)} beside {listed(self._parts[name])}, both {name!r}",
                hint="name the streams in one column",
            )
        return InputError(
            f"{self._where()}: expected the name of a stream, found none",
            hint="every sample needs the name of its stream",
        )

    def nameless(self, count: int) -> InputError:
        """Return the error of rows without a name, by their count."""
        rows = "1 row has" if count == 1 else f"{count} rows have"
        return InputError(
            f"{self._where()}: expected the name of a stream in every row, {rows} none",
            hint="give these rows a name, or leave them out",
        )

    def _where(self) -> str:
        word = "column" if len(self._columns) == 1 else "columns"
        return f"{word} {listed(self._columns)}" if self._columns else "by"

    def _code(self, cell: Any) -> int:
        parts = self._texts(cell)
        name = "/".join(filter(None, parts))
        if not name:
            return MISSING
        if self._parts.setdefault(name, parts) != parts:
            return SHARED
        return self.restored(name)

    def _texts(self, cell: Any) -> tuple[str, ...]:
        return tuple(map(_text, cell)) if isinstance(cell, tuple) else (_text(cell),)


def _text(cell: Any) -> str:
    """Return a cell as text, "" where it is missing.

    >>> _text(7.0), _text(" a "), _text(float("nan"))
    ('7', 'a', '')
    """
    if cell is None or cell != cell or str(cell) in ("NaT", "<NA>"):  # noqa: PLR0124 - NaN
        return ""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell).strip()


Channels = Mapping[str, Sequence[str]]
Fault = Callable[
    [Ints], InputError | None
]  # what is wrong with these rows of a column, if anything


@dataclass(frozen=True, eq=False)
class StreamTables:
    """The tables of many streams."""

    # the table of each stream by its name, in the order of first appearance
    tables: dict[str, Table]
    # for each stream the rows of the input that its samples were in, counted from 0; also for one
    # with an error, where they are known. None where the input was not one frame, array or file
    # with a row a sample
    rows: dict[str, Ints] | None = None
    # what is wrong with the streams that have no table. Under the name "" how many rows have no
    # name, or which lines could not be read
    errors: dict[str, InputError] = field(default_factory=dict)
    # what was found out about a file as a whole; that of each stream is in its table. None where
    # the input was no file
    profile: InputProfile | None = None

    def take(self, name: str, other: "StreamTables") -> None:
        """Add the one stream of `other`, or its error, under a name."""
        for table in other.tables.values():
            self.tables[name] = table
        for error in other.errors.values():
            self.errors[name] = error


class TimeColumn:
    """The times of all rows: parsed at once, or where one is wrong, stream by stream.

    Without the `zone` of all of them it is found from the cells.
    """

    def __init__(self, cells: Any, zone: str | None = None) -> None:
        self._cells = cells
        self._zone = zone
        self._parsed: Times | None = None
        with suppress(InputError):
            self._parsed = parse_times(cells)

    def __len__(self) -> int:
        return len(self._cells)

    def of(self, rows: Ints) -> Times:
        """Return the times of some rows; an error counts them as samples from 0."""
        if self._parsed is not None:
            times: Times = self._parsed[rows]
            return times
        cells = self._cells
        return parse_times(
            cells[rows] if isinstance(cells, np.ndarray) else [cells[row] for row in rows]
        )

    def zone(self, rows: Ints) -> str | None:
        """Return the zone of some rows: that of the last one where each has its own."""
        if self._zone is not None or len(rows) == 0:
            return self._zone
        return zone_of(self._cells[rows[-1]])


def group(codes: Ints, count: int) -> list[Ints]:
    """Return the rows of each of `count` numbers, in order; negative numbers are left out."""
    # NumPy sorts numbers of 16 bits ten times as fast.
    small = codes.astype(np.uint16) if count < 2**16 and codes.min(initial=0) >= 0 else codes
    order = np.argsort(small, kind="stable")
    ends = np.cumsum(np.bincount(codes[codes >= 0], minlength=count))
    start = int(np.count_nonzero(codes < 0))
    return np.split(order[start:], ends[:-1]) if count else []


def split(
    names: StreamNames,
    codes: Ints,
    values: Floats,
    columns: Sequence[str] | None,
    times: TimeColumn | None,
    channels: Channels,
    faults: Sequence[Fault] = (),
    *,
    of_file: bool = False,
) -> StreamTables:
    """Return the tables of rows that have their stream's number in `codes`.

    A row without a name is counted in `errors`. `values` has shape (N, C); `columns` is None where
    they have no names. Streams that are not in `channels` have the columns with any value.
    `of_file` is by the rules of files: the order of the times is not checked, a column that is no
    channel is left out, and a channel that is no column is missing throughout.
    """
    streams = StreamTables({}, {}, nameless(names, codes))
    assert streams.rows is not None
    parts = group(codes, len(names.names))
    infinite = bool(np.isinf(values).any())
    for name, rows in zip(names.names, parts, strict=True):
        streams.rows[name] = rows
        try:
            for fault in faults:
                if (error := fault(rows)) is not None:
                    raise error
            samples, kept = _channels_of(values[rows], columns, channels.get(name), of_file)
            if infinite:
                check_finite(samples, kept or default_channels(samples.shape[1]))
            table = Table(samples, kept, *_times_of(times, rows, not of_file))
        except InputError as error:
            streams.errors[name] = error
        else:
            streams.tables[name] = table
    return streams


def pivoted(
    names: StreamNames,
    codes: Ints,
    tags: tuple[StreamNames, Ints],
    values: Floats,
    times: TimeColumn,
    channels: Channels,
    faults: Sequence[Fault] = (),
    reading: Reading | None = None,
) -> StreamTables:
    """Return the tables of long rows: a sample a time, a channel a tag, the last value counts.

    The parameters are those of `split`; `values` has shape (N,). With the `reading` of a file it is
    by the rules of files, and `on_duplicate` says which value counts.
    """
    streams = StreamTables({}, None, nameless(names, codes))
    for name, rows in zip(names.names, group(codes, len(names.names)), strict=True):
        try:
            for fault in faults:
                if (error := fault(rows)) is not None:
                    raise error
            streams.tables[name] = _pivot(rows, tags, values, times, channels.get(name), reading)
        except InputError as error:
            streams.errors[name] = error
    return streams


def nameless(names: StreamNames, codes: Ints) -> dict[str, InputError]:
    """Return the error of rows without a name, under the name "", or nothing."""
    count = int(np.count_nonzero(codes == MISSING))
    return {"": names.nameless(count)} if count else {}


def _channels_of(
    values: Floats,
    columns: Sequence[str] | None,
    wanted: Sequence[str] | None,
    of_file: bool = False,
) -> tuple[Floats, tuple[str, ...] | None]:
    """Return a stream's values in its channels, and these."""
    if columns is None:
        if wanted is not None:
            match_count(values.shape[1], wanted)
        return values, None if wanted is None else tuple(wanted)
    present: Bools = ~np.all(np.isnan(values), axis=0)
    if wanted is None:
        if not present.any():
            raise InputError(f"expected values, found none in the columns {listed(columns)}")
        kept = np.flatnonzero(present).tolist()
        chosen = tuple(columns[column] for column in kept)
    elif of_file:
        chosen = tuple(wanted)
        indices = [columns.index(name) if name in columns else -1 for name in chosen]
        if max(indices, default=-1) < 0:
            match_names(columns, chosen)  # which is an error
        taken = values[:, indices]
        taken[:, [column < 0 for column in indices]] = np.nan
        return np.ascontiguousarray(taken), chosen
    else:
        chosen = tuple(wanted)
        expected = set(chosen)
        match_names(
            [name for name, any_ in zip(columns, present, strict=True) if any_ or name in expected],
            chosen,
        )
        position = {name: column for column, name in enumerate(columns)}
        kept = [position[name] for name in chosen]
    if kept == list(range(values.shape[1])):
        return values, chosen
    return np.ascontiguousarray(values[:, kept]), chosen


def _times_of(
    times: TimeColumn | None, rows: Ints, check: bool
) -> tuple[Times | None, None, str | None]:
    """Return the times, the labels (none) and the zone of a stream's rows."""
    if times is None:
        return None, None, None
    moments = times.of(rows)
    if check:
        check_times(moments, len(rows))
    return moments, None, times.zone(rows)


def _pivot(
    rows: Ints,
    tags: tuple[StreamNames, Ints],
    values: Floats,
    times: TimeColumn,
    wanted: Sequence[str] | None,
    reading: Reading | None,
) -> Table:
    names, codes = tags
    row_tags = codes[rows]
    if (row_tags < 0).any():
        count = int(np.count_nonzero(row_tags < 0))
        some = "1 row has" if count == 1 else f"{count} rows have"
        raise InputError(f"expected the name of a channel in every row, {some} none")
    moments = times.of(rows)
    missing = np.isnat(moments)
    if missing.any():
        raise InputError(f"row {rows[missing.argmax()]}: expected a time, found none (NaT)")
    present, column = np.unique(row_tags, return_inverse=True)
    report = InputProfile()
    ns = moments.view(np.int64)
    steps, table = pivot.table(ns, column, values[rows], len(present))
    if reading is not None:
        cells = np.searchsorted(steps, ns) * len(present) + column
        table = _repeated(table, values[rows], cells, reading, report)
    columns = [names.names[tag] for tag in present]
    if wanted is not None:  # a channel without any row is missing throughout
        absent = [name for name in wanted if name not in columns]
        columns += absent
        table = np.hstack([table, np.full((len(table), len(absent)), np.nan)])
    chosen, channels = _channels_of(table, columns, wanted, reading is not None)
    check_finite(chosen, channels or ())
    last = rows[moments.argmax() : moments.argmax() + 1]
    zone = times.zone(last)
    return Table(
        chosen,
        channels,
        steps.view("datetime64[ns]"),
        None,
        zone,
        None if reading is None else report,
    )


def _repeated(
    table: Floats, values: Floats, cells: Ints, reading: Reading, profile: InputProfile
) -> Floats:
    """Return a table of values, given their places in it, of which some may have several."""
    taken = np.bincount(cells, minlength=table.size)
    again = int(np.maximum(taken - 1, 0).sum())
    if again == 0:
        return table
    how = reading.on_duplicate
    if how == "error":
        raise InputError(
            f"expected one value of a channel and time, found {again} more",
            hint="choose with --on-duplicate last|mean (on_duplicate=)",
        )
    if how == "mean":
        there = (~np.isnan(values)).astype(np.float64)
        sums, counts = means(values[:, None], there[:, None], cells, table.size)
        with np.errstate(invalid="ignore", divide="ignore"):
            table = (sums / counts).reshape(table.shape)
    profile.duplicates = again
    some = "1 value has" if again == 1 else f"{again} values have"
    counted = "their mean counts" if how == "mean" else "the last one counts"
    profile.notes.append(f"{some} the channel and time of another: {counted}")
    return table
