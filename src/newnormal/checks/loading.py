"""Data as a table, whatever is wrong with it: what `fit` would refuse is found, and mended."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from newnormal.checks.findings import Finding, Remedies
from newnormal.errors import InputError, NewnormalError, ParameterError
from newnormal.tabular import Table, parse_times, read, to_table
from newnormal.tabular.frames import as_array, check_one_stream, holds_times, index_times, numbers
from newnormal.types import Ints, Times

if TYPE_CHECKING:
    import narwhals as nw


@dataclass
class Loaded:
    """A series as far as it could be read."""

    table: Table | None  # the series; None where nothing can be made of the data
    findings: list[Finding] = field(default_factory=list)  # what `fit` would refuse
    time: tuple[str, ...] = ()  # the names of the columns of its times
    shell: bool = False  # whether it is a file, which options of the command line can mend
    # Samples of data in Python that share the time of another, or are not in order.
    duplicates: int = 0
    out_of_order: int = 0


def loaded(data: Any, times: Any, options: dict[str, Any]) -> Loaded:
    """Return data as a table, with what is wrong with it."""
    if isinstance(data, str | PathLike):
        if times is not None:
            raise ParameterError(
                "times: expected none with a file, found some",
                hint="name the column of the file with time=",
            )
        return _file(data, options)
    if options:
        raise ParameterError(
            f"{next(iter(options))}: expected only with the path of a file, "
            f"found it with {type(data).__name__}",
            hint="leave columns out of the data itself",
        )
    if isinstance(data, Table) and times is None:
        return of_table(data, data.profile is not None)
    frame = _frame(data)
    name = () if frame is None else _time_name(frame, times)
    try:
        return Loaded(to_table(data, times=times), [], name)
    except InputError as error:
        return _mended(data, frame, times, error)


def of_table(table: Table, shell: bool) -> Loaded:
    """Return a table that was read already."""
    return Loaded(table, [], () if table.profile is None else table.profile.time, shell)


def unreadable(error: NewnormalError) -> Finding:
    """Return the finding of data that cannot be read at all."""
    return Finding("error", "unreadable", None, error.message, error.hint)


def _file(path: str | PathLike[str], options: dict[str, Any]) -> Loaded:
    there = str(path) == "-" or Path(path).exists()
    try:
        table = read(path, **options)
    except InputError as error:
        if not there:
            raise
        return Loaded(None, [_unnamed(error, path)], (), True)
    return of_table(table, True)


def _unnamed(error: InputError, path: str | PathLike[str]) -> Finding:
    message = error.message.removeprefix(f"{fspath(path)}: ").removeprefix("standard input: ")
    return unreadable(InputError(message, hint=error.hint))


def _mended(data: Any, frame: nw.DataFrame[Any] | None, times: Any, error: InputError) -> Loaded:
    """Return what is left of data that `fit` refuses, and every reason that can be told apart."""
    loaded = Loaded(None, [], () if frame is None else _time_name(frame, times))
    try:
        if frame is not None:
            check_one_stream(frame)
            frame = _without_text(frame, times, loaded)
            values, moments = _plain_frame(frame, times)
        else:
            values, moments = data, times
            if not isinstance(data, Table):
                values = as_array(data)
        values = _finite(values, loaded)
        moments = None if moments is None else parse_times(moments)
        if moments is not None:
            order = _in_order(moments, loaded)
            values, moments = _rows(values, order), moments[order]
        loaded.table = to_table(values, times=moments)
    except (NewnormalError, TypeError, ValueError):
        loaded.findings.append(unreadable(error))
        return loaded
    if not (loaded.findings or loaded.duplicates or loaded.out_of_order):
        loaded.findings.append(unreadable(error))
    return loaded


def _frame(data: Any) -> nw.DataFrame[Any] | None:
    if isinstance(data, np.ndarray | list | tuple | Table):
        return None
    import narwhals as nw

    try:
        frame = nw.from_native(data, pass_through=True, allow_series=False)
    except (TypeError, ValueError):
        return None
    if isinstance(frame, nw.LazyFrame):
        return frame.collect()
    return frame if isinstance(frame, nw.DataFrame) else None


def _time_name(frame: nw.DataFrame[Any], times: Any) -> tuple[str, ...]:
    if isinstance(times, str):
        return (times,)
    if times is not None or index_times(frame) is not None:
        return ()
    return tuple(str(name) for name in frame.columns if holds_times(frame[name]))


def _without_text(frame: nw.DataFrame[Any], times: Any, loaded: Loaded) -> nw.DataFrame[Any]:
    """Return a frame without the columns that are neither numbers nor times."""
    bad = []
    for name in frame.columns:
        if name == times or holds_times(frame[name]):
            continue
        try:
            numbers(frame[name], str(name))
        except (InputError, TypeError, ValueError):
            bad.append(name)
            sentence = f"{str(name)!r} does not hold numbers"
            option = Remedies(shell=False).drop(str(name))
            loaded.findings.append(Finding("error", "text", str(name), sentence, option))
    return frame.drop(bad) if bad else frame


def _plain_frame(frame: nw.DataFrame[Any], times: Any) -> tuple[Any, Any]:
    """Return a frame of channels alone, and the times."""
    named = _time_name(frame, times)
    if named:
        times = frame[named[0]].to_numpy()
    elif times is None:
        times = index_times(frame)
    kept = [name for name in frame.columns if str(name) not in named]
    if not kept:
        raise InputError("expected at least one channel, found none")
    values = np.stack([numbers(frame[name], str(name)) for name in kept], axis=1)
    return Table(values.astype(np.float64), tuple(map(str, kept)), None), times


def _finite(values: Any, loaded: Loaded) -> Any:
    array = values.values if isinstance(values, Table) else values
    if array.dtype.kind != "f" or not np.isinf(array).any():
        return values
    array = array.reshape(len(array), -1)
    names = values.channels if isinstance(values, Table) else None
    infinite = np.isinf(array)
    for channel in np.flatnonzero(infinite.any(axis=0)).tolist():
        name = str(channel) if names is None else names[channel]
        count = int(infinite[:, channel].sum())
        sentence = f"{name!r} has {count} infinite value{'' if count == 1 else 's'}"
        option = "write NaN instead"
        loaded.findings.append(Finding("error", "infinite", name, sentence, option))
    cleaned = np.where(infinite, np.nan, array)
    return replace(values, values=cleaned) if isinstance(values, Table) else cleaned


def _in_order(times: Times, loaded: Loaded) -> Ints:
    """Return the rows in the order of their times, one for each."""
    known = np.flatnonzero(~np.isnat(times))
    order = known[np.argsort(times[known], kind="stable")]
    moments = times[order]
    last = np.append(moments[1:] != moments[:-1], True)
    loaded.duplicates = int(np.count_nonzero(~last))
    seen = np.maximum.accumulate(times[known].astype(np.int64))
    loaded.out_of_order = int(np.count_nonzero(times[known].astype(np.int64) < seen))
    if missing := len(times) - len(known):
        some = f"{missing} sample{' has' if missing == 1 else 's have'} no time"
        loaded.findings.append(Finding("error", "unreadable", None, some))
    kept: Ints = order[last]
    return kept


def _rows(values: Any, rows: Ints) -> Any:
    if isinstance(values, Table):
        return replace(values, values=np.ascontiguousarray(values.values[rows]), times=None)
    return values[rows]
