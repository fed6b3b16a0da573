"""Arrays, lists and frames from Python as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from newnormal.errors import InputError
from newnormal.tabular.columns import Selection, check_unique, match_count
from newnormal.tabular.parsing.dates import form_of
from newnormal.tabular.parsing.decimals import NumberReader
from newnormal.tabular.parsing.time_columns import parse_times
from newnormal.tabular.samples import unmasked
from newnormal.tabular.table import Table, check_finite, check_times, default_channels
from newnormal.tabular.times import zone_of_times
from newnormal.texts import listed
from newnormal.types import Floats, Ints, Times
from newnormal.types.frames import FrameKind

if TYPE_CHECKING:
    import narwhals as nw


def to_table(data: Any, *, times: Any = None, channels: Sequence[str] | None = None) -> Table:
    """Return a series as a table, whatever it came as.

    `data`: an array of shape (T, C), or (T,) for one channel, nested lists (None is missing), a
    `Table`, or a frame or Series of any library that narwhals supports (pandas, polars, ...). NaN
    and null are missing values, which are allowed; an infinite value is an error. A frame's columns
    are channels, except those that hold times.
    `times`: the samples' times: anything `parse_times` takes, or the name of a frame's column. By
    default a pandas DatetimeIndex, or the frame's only column of times: datetimes, dates, or text
    that begins with an ISO 8601 time.
    `channels`: the channels expected: a frame's columns are matched by name in any order, an
    array's by count.

    Raise an InputError if the data is anything else; the message names the channel and the sample.

    >>> to_table([[1.0, 2.0], [3.0, None]]).values
    array([[ 1.,  2.],
           [ 3., nan]])
    >>> to_table([3, 4], times=["2026-01-01", "2026-01-02"], channels=["load"]).times
    array(['2026-01-01T00:00:00.000000000', '2026-01-02T00:00:00.000000000'],
          dtype='datetime64[ns]')
    """
    if isinstance(data, Table):
        return _from_table(data, times, channels)
    if (frame := as_frame(data)) is None:
        return _from_array(as_array(data), times, channels)
    check_one_stream(frame)
    import narwhals as nw

    if isinstance(frame, nw.Series):
        return _from_series(frame, times, channels)
    return frame_table(frame, channels=channels, times=times)


def as_frame(data: Any) -> nw.DataFrame[Any] | nw.Series[Any] | None:
    """Return a frame or a Series of any library as narwhals' own; None for other data."""
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
    return frame if isinstance(frame, nw.DataFrame | nw.Series) else None


def frame_table(
    frame: nw.DataFrame[Any],
    selection: Selection | None = None,
    *,
    channels: Sequence[str] | None = None,
    times: Any = None,
) -> Table:
    """Return a narwhals frame as a table, its columns chosen by `selection`."""
    names = [str(name) for name in frame.columns]
    check_unique(names)
    columns = dict(zip(names, frame.iter_columns(), strict=True))
    if selection is None:
        selection = Selection(time=times if isinstance(times, str) else None)
    selection.check(names)
    temporal = [
        name for name in selection.maybe_times(names, channels or ()) if holds_times(columns[name])
    ]
    if isinstance(times, str):
        times = None
    elif times is None and selection.time is None:
        times = index_times(frame, temporal)
    roles = selection.roles(names, temporal, channels, timed=times is not None)
    values = np.empty((len(frame), len(roles.columns)))
    for position, name in enumerate(roles.columns):
        values[:, position] = numbers(columns[name], name)
    check_finite(values, roles.channels)
    zone = zone_of_times(times if roles.time is None else columns[roles.time])
    labels = None if roles.label is None else _labels(columns[roles.label], roles.label)
    kind = FrameKind.of(frame, roles.time, times)
    if roles.time is not None:
        times = columns[roles.time].to_numpy()
    moments = _checked(times, len(values))
    return Table(values, roles.channels, moments, labels, zone, frame=kind)


def _from_series(series: nw.Series[Any], times: Any, channels: Sequence[str] | None) -> Table:
    # A pandas Series without a name has None, a polars one "".
    if series.name not in (None, ""):
        return frame_table(series.to_frame(), times=times, channels=channels)
    series_times = index_times(series) if times is None else times
    table = _from_array(numbers(series, "0"), series_times, channels)
    return replace(table, frame=FrameKind.of(series, None, series_times))


def _from_table(table: Table, times: Any, channels: Sequence[str] | None) -> Table:
    values, names = table.values, table.channels
    if channels is not None:
        if names is None:
            match_count(values.shape[1], channels)
        elif tuple(channels) != names:
            roles = Selection().roles(names, (), channels)
            order = [names.index(column) for column in roles.columns]
            values = np.ascontiguousarray(values[:, order])
        names = tuple(channels)
    if times is None:
        return replace(table, values=values, channels=names)
    checked, zone = _checked(times, len(values)), zone_of_times(times)
    return replace(table, values=values, channels=names, times=checked, zone=zone, frame=None)


def _from_array(array: NDArray[Any], times: Any, channels: Sequence[str] | None) -> Table:
    if array.dtype.kind not in "fiub":
        raise InputError(
            f"expected numbers, found an array of dtype {array.dtype}",
            hint="convert it with .astype(float); a missing value is NaN",
        )
    array = unmasked(array)
    if array.ndim not in (1, 2):
        raise InputError(f"expected shape (samples, channels), found shape {array.shape}")
    flat = array.ndim == 1
    # Writeable too: the compiled loop would be compiled again for a read-only array.
    values = np.require(array.reshape(-1, 1) if flat else array, np.float64, ["C", "W"])
    if values.shape[1] == 0:
        raise InputError(f"expected at least one channel, found shape {array.shape}")
    if channels is not None:
        count = len(channels)
        hint = f"one sample of {count} channels has shape (1, {count})" if flat else None
        match_count(values.shape[1], channels, hint=hint)
    names = None if channels is None else tuple(channels)
    check_finite(values, names or default_channels(values.shape[1]))
    return Table(values, names, _checked(times, len(values)), zone=zone_of_times(times))


def as_array(data: Any) -> NDArray[Any]:
    """Return an array or nested lists as an array."""
    if isinstance(data, np.ndarray):
        return data
    if not hasattr(data, "__array__") and (
        isinstance(data, str | bytes) or not isinstance(data, Sequence)
    ):
        raise InputError(f"expected an array, nested lists or a frame, found {type(data).__name__}")
    try:
        array = np.asarray(data)
    except ValueError:  # NumPy: inhomogeneous shape
        raise InputError(
            "expected as many numbers for each sample, found lists of different lengths"
        ) from None
    if array.dtype.kind == "O" and isinstance(data, Sequence):
        return _objects(array)
    return array


def _objects(array: NDArray[Any]) -> Floats:
    """Return Python objects as numbers, NaN where they are missing."""
    values, reader = np.empty(array.shape), NumberReader()
    for index, item in np.ndenumerate(array):
        try:
            values[index] = _cell_number(item, reader)
        except (ValueError, OverflowError):
            raise not_a_number(item, f"sample {index[0] if index else 0}") from None
    return values


def _cell_number(item: Any, reader: NumberReader) -> float:
    """Return the number of a Python object; an infinite one is an error that names its channel."""
    return float(item) if isinstance(item, Real | Decimal) else reader.one(item)


def not_a_number(item: object, where: str) -> InputError:
    """Return the error of a Python object that holds no number of 64 bits."""
    expected = "a finite number" if isinstance(item, Real | Decimal) else "a number"
    return InputError(
        f"{where}: expected {expected}, found {item!r:.40}",
        hint="leave out columns that are not numbers; a missing value is None or NaN",
    )


def numbers(
    series: nw.Series[Any], name: str, bad: dict[int, object] | None = None
) -> NDArray[Any]:
    """Return a column's numbers, NaN where they are missing; put others by row into `bad`."""
    import narwhals as nw

    if series.dtype.is_numeric() or series.dtype == nw.Boolean:
        return series.cast(nw.Float64()).to_numpy()
    array = series.to_numpy()
    flat = array.ndim == 1  # cells that are structs or arrays make a row each
    if flat and array.dtype.kind in "fiub":
        return array
    if not flat or array.dtype.kind not in "OU":
        raise InputError(
            f"column {name!r}: expected numbers, found {array.dtype if flat else series.dtype}",
            hint="leave out columns that are not numbers",
        )
    values, reader = np.full(len(array), np.nan), NumberReader()
    for row in np.flatnonzero(~series.is_null().to_numpy()).tolist():
        try:
            values[row] = _cell_number(array[row], reader)
        except (ValueError, OverflowError):
            if bad is None:
                raise not_a_number(array[row], f"column {name!r}, sample {row}") from None
            bad[row] = array[row]
    return values


def _labels(series: nw.Series[Any], name: str) -> Ints:
    values = numbers(series, name)
    wrong = (values != 0) & (values != 1)
    if wrong.any():
        sample = int(wrong.argmax())
        raise InputError(
            f"column {name!r}, sample {sample}: expected a label 0 or 1, found {values[sample]:g}"
        )
    return values.astype(np.int64)


def holds_times(series: nw.Series[Any]) -> bool:
    """Return whether a column holds times: by its type, or by its first cell."""
    import narwhals as nw

    if series.dtype in (nw.Datetime, nw.Date):
        return True
    return series.dtype == nw.String and len(series) > 0 and form_of(series.item(0)) is not None


def index_levels(frame: Any) -> dict[str, Any]:
    """Return the levels of a pandas index by their names; none of a frame without an index."""
    import narwhals as nw

    index: Any = nw.maybe_get_index(frame)
    return {
        f"level_{number}" if name is None else str(name): index.get_level_values(number)
        for number, name in enumerate(() if index is None else index.names)
    }


def check_one_stream(frame: Any) -> None:
    """Raise an InputError if the levels of an index name several streams."""
    levels = index_levels(frame)
    for name, level in levels.items() if len(levels) > 1 else ():
        if level.dtype.kind != "M" and level.nunique() > 1:
            raise InputError(
                f"expected the samples of one stream, found an index by {', '.join(levels)}",
                hint="Fleet().fit(frame) has a detector for each stream; one of them is "
                f"frame.xs({level[:1].tolist()[0]!r}, level={name!r})",
            )


def index_times(frame: Any, temporal: Sequence[str] = ()) -> Any:
    """Return the times of a pandas index, if a frame or Series has any; `temporal` do, too."""
    index = next((level for level in index_levels(frame).values() if level.dtype.kind == "M"), None)
    if index is not None and temporal:
        raise InputError(
            f"expected times in one place, found them in the index and in {listed(temporal)}",
            hint="name the column to use with times=, or leave it out of the frame",
        )
    return index


def _checked(times: Any, count: int) -> Times | None:
    if times is None:
        return None
    if isinstance(times, str):
        raise InputError(f"times names a column, {times!r}, and the data has no columns")
    parsed = parse_times(times)
    check_times(parsed, count)
    return parsed
