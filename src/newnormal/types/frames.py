"""Columns as a frame of the user's own library, whose rows join with those of the user's frame."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta, timezone
from types import ModuleType
from typing import Any

from numpy.typing import NDArray

from newnormal.errors import ParameterError
from newnormal.types.arrays import Times
from newnormal.types.zones import FIXED, minutes_of

_TIME = "time"


@dataclass(frozen=True, eq=False)
class FrameKind:
    """What a frame is like: enough to make one that joins with it, and nothing of its data."""

    library: str  # its library, by the name that narwhals has for it
    time: Any = _TIME  # the name of its column of times, or of its index of times
    dtype: Any = None  # the type of its times, as the library has it; None: not known
    indexed: bool = False  # whether the times are its index
    # First and step of an index that counts rows; None for any other.
    counts: tuple[int, int] | None = None
    name: Any = None  # the name of its index
    first: int = 0  # the sample number of its first row
    index: Any = None  # an index to be used as it is, of a frame that was passed for it

    @classmethod
    def of(cls, frame: Any, time: str | None, times: Any = None) -> "FrameKind":
        """Return the kind of a narwhals frame or Series.

        `frame`: the frame. `time`: its column of times; None: they are its index, or came besides
        (`times`), or not. `times`: an index of times, or times that came besides.
        """
        import narwhals as nw

        index = nw.maybe_get_index(frame)
        counts = name = None
        if index is not None:
            name = index.name
            if all(hasattr(index, name) for name in ("start", "stop", "step")):
                counts = (int(index.start), int(index.step))
        library = frame.implementation.value
        if time is not None:
            dtype = nw.to_native(frame[time]).dtype if hasattr(frame, "columns") else None
            return cls(library, time, _usable(dtype), False, counts, name)
        dtype = _usable(getattr(times, "dtype", None))
        indexed = times is not None and times is index
        return cls(library, name if indexed else _TIME, dtype, indexed, counts, name)


def kind_of(like: Any, judged: FrameKind | None = None) -> FrameKind:
    """Return the kind of a frame, or of a library by its name or module; times as in `judged`."""
    import narwhals as nw

    if isinstance(like, ModuleType):
        like = like.__name__
    if isinstance(like, str):
        same = judged is not None and judged.library == like
        return FrameKind(like, dtype=judged.dtype if same and judged is not None else None)
    frame: Any = nw.from_native(like, pass_through=True, allow_series=True)
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if not isinstance(frame, nw.DataFrame | nw.Series):
        raise ParameterError(
            f"like: expected a frame, or the name of its library, found {type(like).__name__}",
            hint='such as like=frame, like="pandas" or like="polars"',
        )
    index = nw.maybe_get_index(frame)
    if getattr(getattr(index, "dtype", None), "kind", "") == "M":
        kind = FrameKind.of(frame, None, index)
    else:
        kind = FrameKind.of(frame, _time_column(frame, judged))
    return replace(kind, index=index)


def kind_of_rows(data: Any, time: Any = None) -> FrameKind | None:
    """Return the kind of a frame that was run on, None of anything else; nothing of it is held."""
    if not hasattr(data, "columns"):
        return None
    judged = FrameKind("", time) if isinstance(time, str) else None
    return replace(kind_of(data, judged), index=None)


def _time_column(frame: Any, judged: FrameKind | None) -> str | None:
    import narwhals as nw

    if isinstance(frame, nw.Series):
        return None
    names = [name for name, dtype in frame.schema.items() if dtype in (nw.Datetime, nw.Date)]
    if judged is not None and judged.time in frame.columns:
        return str(judged.time)
    return names[0] if names else None


def frame_of(
    columns: Mapping[str, NDArray[Any]],
    times: Times | None,
    zone: str | None,
    kind: FrameKind | None,
    first: int = 0,
) -> Any:
    """Return columns as a frame of a kind; `first` is the sample number of the first row."""
    if kind is None:
        raise ParameterError(
            "like: expected a frame, or the name of its library, found None for verdicts that were "
            "not made from a frame",
            hint='such as to_frame(like="pandas"), or pandas.DataFrame(verdicts.columns())',
        )
    import narwhals as nw

    try:
        library: Any = nw.Implementation.from_string(kind.library)
        library.to_native_namespace()
    except (ImportError, ValueError, AssertionError) as error:  # unknown to narwhals
        raise ParameterError(
            f"like: expected a library of frames that is installed, found {kind.library!r}",
            hint='such as like="pandas" or like="polars"',
        ) from error
    moments = None if times is None else _moments(times, zone, kind, library)
    rows = len(next(iter(columns.values())))
    series: dict[str, Any] = {
        name: nw.new_series(name, _plain(column), backend=library)
        for name, column in columns.items()
    }
    if moments is not None and not kind.indexed:
        name = _TIME if kind.time in series else str(kind.time)
        series = {name: moments.alias(name), **series}
    frame = nw.to_native(nw.from_dict(series))
    if library.is_pandas_like():
        frame.index = _index(kind, moments, rows, first, frame.index)
    return frame


def _index(kind: FrameKind, moments: Any, rows: int, first: int, plain: Any) -> Any:
    import narwhals as nw

    if kind.index is not None and len(kind.index) == rows:
        return kind.index
    if kind.indexed and moments is not None:
        namespace: Any = nw.get_native_namespace(moments)
        return namespace.Index(nw.to_native(moments), name=kind.name)
    if kind.counts is not None:
        start, step = kind.counts
        begin = start + (first - kind.first) * step
        return type(plain)(begin, begin + rows * step, step, name=kind.name)
    return plain


def _moments(times: Times, zone: str | None, kind: FrameKind, library: Any) -> Any:
    """Return times as a Series of the type that the user's have, or else in their zone."""
    import narwhals as nw

    series: Any = nw.new_series(_TIME, times.astype("datetime64[ns]"), backend=library)
    if library.is_pandas_like():
        native = nw.to_native(series)
        dtype = kind.dtype
        if dtype is None:
            if zone is not None:
                native = native.dt.tz_localize("UTC").dt.tz_convert(_tzinfo(zone))
        elif getattr(dtype, "tz", None) is not None or "tz=" in str(dtype):
            native = native.dt.tz_localize("UTC").astype(dtype)
        else:
            native = native.astype(dtype)
        return nw.from_native(native, series_only=True)
    if kind.dtype is None:
        if zone is None:
            return series
        name = "UTC" if FIXED.fullmatch(zone) else zone
        return series.dt.replace_time_zone("UTC").dt.convert_time_zone(name)
    wanted = _described(kind.dtype, library)
    if getattr(wanted, "time_zone", None) is not None:
        series = series.dt.replace_time_zone("UTC").dt.convert_time_zone(wanted.time_zone)
    return series.cast(wanted)


def _described(dtype: Any, library: Any) -> Any:
    """Return a library's type as narwhals names it."""
    import narwhals as nw

    empty: Any = nw.new_series("", [], backend=library)
    return nw.from_native(nw.to_native(empty).cast(dtype), series_only=True).dtype


def _plain(column: NDArray[Any]) -> Any:
    """Return a column as a library takes it: texts are objects only to NumPy."""
    return column.tolist() if column.dtype.kind == "O" else column


def _tzinfo(zone: str) -> Any:
    fixed = FIXED.fullmatch(zone) is not None
    return timezone(timedelta(minutes=minutes_of(zone))) if fixed else zone


def _usable(dtype: Any) -> Any:
    """Return a type if it is one of times; texts and objects are given as times in their zone."""
    text = str(dtype).lower()
    return dtype if text.startswith(("date", "timestamp")) else None
