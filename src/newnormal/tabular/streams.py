"""Data of many streams as tables: frames, arrays, mappings, files and folders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from numbers import Real
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from newnormal.errors import InputError, ParameterError
from newnormal.tabular.columns import Selection, check_unique, listed
from newnormal.tabular.frames import (
    as_array,
    cell_number,
    holds_times,
    index_times,
    numbers,
    to_table,
)
from newnormal.tabular.long import Long, find_long
from newnormal.tabular.splitting import Channels, StreamTables, TimeColumn, pivoted, split
from newnormal.tabular.stream_names import SHARED, StreamNames
from newnormal.tabular.table import Table
from newnormal.tabular.times import unwrapped
from newnormal.tabular.zones import zone_of_times
from newnormal.types import Floats, Ints

if TYPE_CHECKING:
    import narwhals as nw

__all__ = ["StreamTables", "frame_tables", "to_tables"]


def to_tables(
    data: Any,
    *,
    by: Any = None,
    times: Any = None,
    long: bool | Long | None = None,
    channels: Channels | None = None,
) -> StreamTables:
    """Return the data of many streams as a table a stream.

    Parameters
    ----------
    data
        One of:

        - a frame with a row a sample and the name of its stream in the column `by`. The other
          columns are channels and times as in `to_table`; a stream has those channels of which it
          has any value, so streams may differ in their channels;
        - a frame with a row a value (`long`);
        - an array of shape (T, C), with `by` the name of each row's stream;
        - a mapping from the name of a stream to its data, anything `to_table` takes;
        - the path of a file (CSV, JSON lines, Parquet), taken as a frame, or of a folder, of
          which each such file is a stream, named by the file's name without its ending.
    by
        The column that names the stream, or a list of columns, whose cells are joined by "/"; or
        an array or a Series of names, one a row.
    times
        The times: the name of a column, or one time a row. For a mapping a name, or a mapping
        from the name of a stream to its times.
    long
        True or the columns if the rows are (time, tag, value). They become one sample a time,
        in the order of the times, with a channel a tag; of several values for one time and tag
        the last one counts. Without `by` it is one stream, called "".
    channels
        The channels of the streams that are known, matched by name as in `to_table`. A channel
        of long data that has no row is missing throughout.

    Returns
    -------
    The tables, and the errors of those streams whose data is wrong: one does not stop the others.

    Raises
    ------
    InputError
        If the data has no such form: there is no column `by`, or no long columns.

    Examples
    --------
    >>> import polars as pl
    >>> frame = pl.DataFrame({"host": ["a", "b", "a"], "load": [1, 2, 3], "heat": [None, 20, None]})
    >>> streams = to_tables(frame, by="host")
    >>> {name: (table.channels, table.values.tolist()) for name, table in streams.tables.items()}
    {'a': (('load',), [[1.0], [3.0]]), 'b': (('load', 'heat'), [[2.0, 20.0]])}
    >>> streams.rows
    {'a': array([0, 2]), 'b': array([1])}
    """
    form = Long() if long is True else long or None
    known = {} if channels is None else channels
    if isinstance(data, str | PathLike):
        from newnormal.tabular.stream_files import read_tables

        if not isinstance(times, str | None):
            raise ParameterError("expected times to name a column of the file, found an array")
        return read_tables(data, by=by, long=form, time=times, channels=known)
    if isinstance(data, Mapping):
        if by is not None:
            raise ParameterError(
                "expected no by with a mapping: its keys are the names of the streams"
            )
        return _mapping_tables(data, times, form, known)
    frame = _frame(data)
    if frame is not None:
        return frame_tables(frame, by=by, times=times, long=form, channels=known)
    return _array_tables(data, by, times, form, known)


def frame_tables(
    frame: nw.DataFrame[Any],
    *,
    by: Any,
    times: Any = None,
    long: Long | None = None,
    channels: Channels,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
) -> StreamTables:
    """Return the streams of a narwhals frame, as `to_tables`."""
    names = [str(name) for name in frame.columns]
    check_unique(names)
    series = dict(zip(names, frame.iter_columns(), strict=True))
    by_columns, cells = _by_cells(frame, series, by, needed=long is None)
    streams = StreamNames(by_columns)
    if long is not None and by is None:
        streams.names.append("")
        codes = np.zeros(len(frame), dtype=np.int64)
    else:
        codes = _codes(streams, cells)
    if long is not None:
        return _long_tables(series, by_columns, streams, codes, times, long, channels)
    time = times if isinstance(times, str) else None
    kept = None if columns is None else tuple(columns)
    selection = Selection(time, kept, tuple(drop), by=by_columns)
    return _wide_tables(frame, series, selection, streams, codes, times, channels)


def _wide_tables(
    frame: nw.DataFrame[Any],
    series: dict[str, nw.Series[Any]],
    selection: Selection,
    streams: StreamNames,
    codes: Ints,
    times: Any,
    channels: Channels,
) -> StreamTables:
    names = list(series)
    selection.check(names)
    expected = {channel for each in channels.values() for channel in each}
    temporal = [
        name for name in selection.maybe_times(names, expected) if holds_times(series[name])
    ]
    if times is None:
        times = index_times(frame)
        if times is not None and temporal:
            raise InputError(
                f"expected times in one place, found them in the index and in {listed(temporal)}",
                hint="name the column to use with times=, or leave it out of the frame",
            )
    given = times is not None and not isinstance(times, str)
    roles = selection.roles(names, temporal, None, timed=given)
    moments = None
    if roles.time is not None:
        column = series[roles.time]
        moments = TimeColumn(column.to_numpy(), _dtype_zone(column))
    elif given:
        moments = _times(times, len(frame))
    values = np.empty((len(frame), len(roles.columns)))
    faults = []
    for at, name in enumerate(roles.columns):
        values[:, at], wrong = _column(series[name], name)
        if wrong is not None:
            faults.append(wrong)
    return split(streams, codes, values, roles.channels, moments, channels, faults)


def _long_tables(
    series: dict[str, nw.Series[Any]],
    by: Sequence[str],
    streams: StreamNames,
    codes: Ints,
    times: Any,
    long: Long,
    channels: Channels,
) -> StreamTables:
    if not isinstance(times, str | None):
        raise ParameterError("expected times to name a column of long data, found an array")
    if times is not None:
        long = Long(times, long.tag, long.value)
    columns = find_long(list(series), long, by)
    tags = StreamNames([columns.tag])
    tag_codes = tags.codes(series[columns.tag].to_list())
    values, wrong = _column(series[columns.value], columns.value, word="row")
    column = series[columns.time]
    moments = TimeColumn(column.to_numpy(), _dtype_zone(column))
    faults = [] if wrong is None else [wrong]
    return pivoted(streams, codes, (tags, tag_codes), values, moments, channels, faults)


def _array_tables(
    data: Any, by: Any, times: Any, long: Long | None, channels: Channels
) -> StreamTables:
    if long is not None:
        raise ParameterError("expected a frame with long=, found data without columns")
    columns = data.channels if isinstance(data, Table) else None
    if isinstance(data, Table):
        times = data.times if times is None else times
        data = data.values
    array = as_array(data)
    if by is None or isinstance(by, str):
        raise InputError(
            "expected the name of each row's stream as by, found "
            + ("none" if by is None else f"the column {by!r} of data without columns"),
            hint="pass one name a row as by=, or a mapping from the name of a stream to its data",
        )
    cells = _cells(by)
    if isinstance(array, np.ma.MaskedArray):
        array = np.where(np.ma.getmaskarray(array), np.nan, array.data)
    if array.dtype.kind == "f":  # infinite values are looked for stream by stream
        finite = to_table(np.where(np.isinf(array), 0, array)).values
        values = array.reshape(finite.shape).astype(np.float64)
    else:
        values = to_table(array).values
    if len(cells) != len(values):
        raise InputError(f"expected {len(values)} names as by, one a row, found {len(cells)}")
    streams = StreamNames(())
    moments = None if times is None else _times(times, len(values))
    return split(streams, _codes(streams, cells), values, columns, moments, channels)


def _mapping_tables(
    data: Mapping[Any, Any], times: Any, long: Long | None, channels: Channels
) -> StreamTables:
    found = StreamTables({})
    for key, each in data.items():
        name = str(key)
        own = times.get(key) if isinstance(times, Mapping) else times
        known = channels.get(name)
        try:
            if long is None:
                found.tables[name] = to_table(each, times=own, channels=known)
                continue
            one = {} if known is None else {"": known}
            pivot = to_tables(each, times=own, long=long, channels=one)
            found.take(name, pivot)
        except InputError as error:
            found.errors[name] = error
    return found


def _frame(data: Any) -> nw.DataFrame[Any] | None:
    if isinstance(data, np.ndarray | list | tuple | Table):
        return None
    import narwhals as nw

    try:
        frame = nw.from_native(data, pass_through=True, allow_series=True)
    except ValueError:  # two columns of one name
        check_unique([str(name) for name in data.columns])
        raise
    if isinstance(frame, nw.LazyFrame):
        return frame.collect()
    if isinstance(frame, nw.Series):
        return frame.to_frame()
    return frame if isinstance(frame, nw.DataFrame) else None


def _by_cells(
    frame: nw.DataFrame[Any], series: dict[str, nw.Series[Any]], by: Any, needed: bool
) -> tuple[tuple[str, ...], Sequence[Any]]:
    """Return the columns that name the streams, and their cells."""
    names = list(series)
    if by is None or (isinstance(by, Sequence) and len(by) == 0):
        if needed:
            raise InputError(
                f"expected the column that names the stream, found none among {listed(names)}",
                hint="name it with by=, or pass a mapping from the name of a stream to its data",
            )
        return (), ()
    if not isinstance(by, str | list | tuple):
        cells = _cells(by)
        if len(cells) != len(frame):
            raise InputError(f"expected {len(frame)} names as by, one a row, found {len(cells)}")
        return (), cells
    columns = (by,) if isinstance(by, str) else tuple(by)
    for name in columns:
        if name not in series:
            index = getattr(getattr(frame.to_native(), "index", None), "names", None) or ()
            raise InputError(
                f"by names column {name!r}, found only {listed(names)}",
                hint="it is in the index: pass frame.reset_index()" if name in index else None,
            )
    cells = [series[name].to_list() for name in columns]
    return columns, cells[0] if len(cells) == 1 else list(zip(*cells, strict=True))


def _cells(by: Any) -> Sequence[Any]:
    cells = unwrapped(by)
    return cells.tolist() if isinstance(cells, np.ndarray) else list(cells)


def _codes(streams: StreamNames, cells: Sequence[Any]) -> Ints:
    try:
        codes = streams.codes(cells)
    except TypeError:
        raise InputError("expected names of streams that are text or numbers") from None
    if (codes == SHARED).any():
        raise streams.error(SHARED, cells[int((codes == SHARED).argmax())])
    return codes


def _times(times: Any, count: int) -> TimeColumn:
    if isinstance(times, str):
        raise InputError(f"times names a column, {times!r}, and the data has no columns")
    moments = TimeColumn(unwrapped(times), zone_of_times(times))
    if len(moments) != count:
        raise InputError(f"expected one time a sample, {count} in all, found {len(moments)} times")
    return moments


def _dtype_zone(series: nw.Series[Any]) -> str | None:
    """Return the zone that all times of a column have by its type."""
    zoned = getattr(series.dtype, "time_zone", None) is not None
    return zone_of_times(series) if zoned else None


def _column(series: nw.Series[Any], name: str, word: str = "sample") -> tuple[Floats, Any]:
    """Return a column's numbers, and what finds the error of a stream's rows, or None."""
    import narwhals as nw

    if series.dtype.is_numeric() or series.dtype == nw.Boolean:
        return numbers(series, name), None
    array = series.to_numpy()
    if array.dtype.kind not in "OU":
        return numbers(series, name), None
    items = [
        None if gone else item for item, gone in zip(array, series.is_null().to_list(), strict=True)
    ]
    good = {kind for kind in set(map(type, items)) if issubclass(kind, Real | Decimal)}
    values = np.full(len(items), np.nan)
    wrong = np.zeros(len(items), dtype=np.bool_)
    for row, item in enumerate(items):
        if item is None:
            continue
        try:
            wrong[row] = type(item) not in good
            values[row] = np.nan if wrong[row] else float(item)
        except OverflowError:
            wrong[row] = True

    def fault(rows: Ints) -> InputError | None:
        found = wrong[rows]
        if not found.any():
            return None
        first = int(found.argmax())
        at = first if word == "sample" else int(rows[first])
        try:
            cell_number(items[rows[first]], f"column {name!r}, {word} {at}")
        except InputError as error:
            return error
        return None

    return values, fault if wrong.any() else None
