"""Frames with the data of many streams as a table a stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from newnormal.errors import InputError, ParameterError
from newnormal.tabular.columns import Long, Selection, check_unique, find_long
from newnormal.tabular.frames import holds_times, index_levels, index_times, not_a_number, numbers
from newnormal.tabular.many.splitting import (
    SHARED,
    Channels,
    StreamNames,
    StreamTables,
    TimeColumn,
    pivoted,
    split,
)
from newnormal.tabular.times import unwrapped, zone_of_times
from newnormal.texts import listed
from newnormal.types import Floats, Ints

if TYPE_CHECKING:
    import narwhals as nw


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
    frame, by = _with_levels(frame, by)
    names = [str(name) for name in frame.columns]
    check_unique(names)
    series = dict(zip(names, frame.iter_columns(), strict=True))
    by_columns, cells = _by_cells(frame, series, by, needed=long is None)
    streams = StreamNames(by_columns)
    if long is not None and by is None:
        streams.names.append("")
        codes = np.zeros(len(frame), dtype=np.int64)
    else:
        codes = name_codes(streams, cells)
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
    expected = {channel for stream_channels in channels.values() for channel in stream_channels}
    temporal = [
        name for name in selection.maybe_times(names, expected) if holds_times(series[name])
    ]
    if times is None:
        times = index_times(frame, temporal)
    times_given = times is not None and not isinstance(times, str)
    roles = selection.roles(names, temporal, None, timed=times_given)
    moments = None
    if roles.time is not None:
        column = series[roles.time]
        moments = TimeColumn(column.to_numpy(), _dtype_zone(column))
    elif times_given:
        moments = given_times(times, len(frame))
    values = np.empty((len(frame), len(roles.columns)))
    faults = []
    for channel, name in enumerate(roles.columns):
        values[:, channel], wrong = _column(series[name], name)
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


def _with_levels(frame: nw.DataFrame[Any], by: Any) -> tuple[nw.DataFrame[Any], Any]:
    """Return a frame that has the levels of its index that name the stream as columns, and `by`."""
    import narwhals as nw

    levels = index_levels(frame)
    if by is None and len(levels) > 1:
        by = [name for name, level in levels.items() if level.dtype.kind != "M"]
    columns = [by] if isinstance(by, str) else by if isinstance(by, list | tuple) else ()
    added = {name: levels[name] for name in columns if name in levels.keys() - frame.columns}
    return (nw.from_native(frame.to_native().assign(**added)) if added else frame), by


def _by_cells(
    frame: nw.DataFrame[Any], series: dict[str, nw.Series[Any]], by: Any, needed: bool
) -> tuple[tuple[str, ...], Sequence[Any]]:
    names = list(series)
    if by is None or (isinstance(by, Sequence) and len(by) == 0):
        if needed:
            raise InputError(
                f"expected the column that names the stream, found none among {listed(names)}",
                hint="name it with by=, or pass a mapping from the name of a stream to its data",
            )
        return (), ()
    if not isinstance(by, str | list | tuple):
        cells = name_cells(by)
        if len(cells) != len(frame):
            raise InputError(f"expected {len(frame)} names as by, one a row, found {len(cells)}")
        return (), cells
    columns = (by,) if isinstance(by, str) else tuple(by)
    for name in columns:
        if name not in series:
            raise InputError(f"by names column {name!r}, found only {listed(names)}")
    cells = [series[name].to_list() for name in columns]
    return columns, cells[0] if len(cells) == 1 else list(zip(*cells, strict=True))


def name_cells(by: Any) -> Sequence[Any]:
    """Return names of streams, one a row, as a list."""
    cells = unwrapped(by)
    return cells.tolist() if isinstance(cells, np.ndarray) else list(cells)


def name_codes(streams: StreamNames, cells: Sequence[Any]) -> Ints:
    """Return the number of each row's stream."""
    try:
        codes = streams.codes(cells)
    except TypeError:
        raise InputError("expected names of streams that are text or numbers") from None
    if (codes == SHARED).any():
        raise streams.error(SHARED, cells[int((codes == SHARED).argmax())])
    return codes


def given_times(times: Any, count: int) -> TimeColumn:
    """Return times that are no column, one a row."""
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
    bad: dict[int, object] = {}
    values = numbers(series, name, bad)

    def fault(rows: Ints) -> InputError | None:
        for sample, row in enumerate(rows.tolist()):
            if row in bad:
                at = sample if word == "sample" else row
                return not_a_number(bad[row], f"column {name!r}, {word} {at}")
        return None

    return values, fault if bad else None
