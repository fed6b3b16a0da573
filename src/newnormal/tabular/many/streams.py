"""Data of many streams as tables: frames, arrays, mappings, files and folders."""

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from newnormal.errors import InputError, ParameterError
from newnormal.tabular.columns import Long
from newnormal.tabular.frames import as_array, as_frame, to_table
from newnormal.tabular.many.splitting import Channels, StreamNames, StreamTables, split
from newnormal.tabular.many.stream_files import read_tables
from newnormal.tabular.many.stream_frames import frame_tables, given_times, name_cells, name_codes
from newnormal.tabular.samples import unmasked
from newnormal.tabular.table import Table

if TYPE_CHECKING:
    import narwhals as nw


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
          which each such file is a stream, named by the file's name without its ending;
        - what `read_tables` returned, which is taken as it is.
    by
        The column that names the stream, or a list of columns, whose cells are joined by "/"; or
        an array or a Series of names, one a row. By default the levels of a pandas index of
        several, such as (host, time), but that of times.
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

    >>> import polars as pl
    >>> frame = pl.DataFrame({"host": ["a", "b", "a"], "load": [1, 2, 3], "heat": [None, 20, None]})
    >>> streams = to_tables(frame, by="host")
    >>> {name: (table.channels, table.values.tolist()) for name, table in streams.tables.items()}
    {'a': (('load',), [[1.0], [3.0]]), 'b': (('load', 'heat'), [[2.0, 20.0]])}
    >>> streams.rows
    {'a': array([0, 2]), 'b': array([1])}
    """
    if isinstance(data, StreamTables):
        return data
    form = Long() if long is True else long or None
    expected = {} if channels is None else channels
    if isinstance(data, str | PathLike):
        if not isinstance(times, str | None):
            raise ParameterError("expected times to name a column of the file, found an array")
        return read_tables(data, by=by, long=form, time=times, channels=expected)
    if isinstance(data, Mapping):
        if by is not None:
            raise ParameterError(
                "expected no by with a mapping: its keys are the names of the streams"
            )
        return _mapping_tables(data, times, form, expected)
    if (frame := _frame(data)) is not None:
        return frame_tables(frame, by=by, times=times, long=form, channels=expected)
    return _array_tables(data, by, times, form, expected)


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
    cells = name_cells(by)
    array = unmasked(array)
    if array.dtype.kind == "f":  # infinite values are looked for stream by stream
        finite = to_table(np.where(np.isinf(array), 0, array)).values
        values = array.reshape(finite.shape).astype(np.float64)
    else:
        values = to_table(array).values
    if len(cells) != len(values):
        raise InputError(f"expected {len(values)} names as by, one a row, found {len(cells)}")
    streams = StreamNames(())
    moments = None if times is None else given_times(times, len(values))
    return split(streams, name_codes(streams, cells), values, columns, moments, channels)


def _mapping_tables(
    data: Mapping[Any, Any], times: Any, long: Long | None, channels: Channels
) -> StreamTables:
    streams = StreamTables({})
    for key, content in data.items():
        name = str(key)
        stream_times = times.get(key) if isinstance(times, Mapping) else times
        expected = channels.get(name)
        try:
            if long is None:
                streams.tables[name] = to_table(content, times=stream_times, channels=expected)
                continue
            one = {} if expected is None else {"": expected}
            pivot = to_tables(content, times=stream_times, long=long, channels=one)
            streams.take(name, pivot)
        except InputError as error:
            streams.errors[name] = error
    return streams


def _frame(data: Any) -> "nw.DataFrame[Any] | None":
    if (frame := as_frame(data)) is None:
        return None
    import narwhals as nw

    return frame.to_frame() if isinstance(frame, nw.Series) else frame
