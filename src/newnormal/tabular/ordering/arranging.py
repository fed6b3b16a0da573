"""A finished series put in order by its times, each time once, as asked; counters as rates."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from newnormal.arrivals.counters import ColumnRates
from newnormal.arrivals.grid import Resampler, means
from newnormal.arrivals.jumps import stray
from newnormal.arrivals.order import HOUR_TWICE
from newnormal.errors import InputError
from newnormal.tabular.reading import InputProfile, Reading
from newnormal.tabular.table import Table, default_channels
from newnormal.types import Floats, Ints, Times, time_text

_SECOND = 1e9


_HOUR = 3_600_000_000_000  # ns


def arranged(table: Table, reading: Reading, row_name: Callable[[int], str] | None = None) -> Table:
    """Return a series as `reading` asks for it; what was changed is counted in its `profile`.

    Samples with a time far from all others are left out, the others sorted by time; of several
    of one time one is left (`on_duplicate`), counters become rates, part of the samples is taken
    (`rows`), brought to a period (`resample`), and of that again a part (`from_`, `until`).

    `row_name` is what to call a row of `table` in a message.

    >>> times = np.array([1, 0, 0], "datetime64[h]")
    >>> table = Table(np.array([[3.0], [1.0], [2.0]]), ("load",), times.astype("datetime64[ns]"))
    >>> series = arranged(table, Reading())
    >>> series.values.tolist(), series.profile.out_of_order, series.profile.duplicates
    ([[2.0], [3.0]], 2, 1)
    """
    return kept_rows(table, reading, row_name)[0]


def kept_rows(
    table: Table, reading: Reading, row_name: Callable[[int], str] | None = None
) -> tuple[Table, Ints | None]:
    """Return what `arranged` does, and the row of `table` that each sample is.

    None where samples were moved or made of several.
    """
    series = _FinishedSeries.of(table, row_name or "sample {}".format)
    if table.times is None:
        check_timeless(reading)
    else:
        _check_missing(series)
        _leave_out_stray(series)
        _sort(series)
        _merge(series, reading)
    channels = table.channels or default_channels(table.values.shape[1])
    if len(series.values):
        series.values = ColumnRates(reading.rates, channels).push(series.values, series.times)
    _take_rows(series, reading)
    if reading.resample is not None and len(series.values):
        _resample(series, reading.resample)
    _take_times(series, reading)
    done = Table(
        series.values, table.channels, series.times, series.labels, table.zone, series.profile
    )
    return done, series.rows if series.faithful else None


def check_timeless(reading: Reading) -> None:
    """Raise an InputError if something is asked for that samples without times cannot have."""
    asked = {
        "--from (from_=)": reading.from_ is not None,
        "--until (until=)": reading.until is not None,
        "--resample (resample=)": reading.resample is not None,
        "--lateness (lateness=)": reading.lateness is not None,
    }
    for option, is_given in asked.items():
        if is_given:
            raise InputError(
                f"{option}: expected samples with times, found none",
                hint="name the column of times with --time (time=), or leave the option out",
            )


@dataclass
class _FinishedSeries:
    """The samples so far, and the rows of the input that they are from."""

    values: Floats
    times: Times | None
    labels: Ints | None
    rows: Ints
    row_name: Callable[[int], str]
    zone: str | None
    profile: InputProfile
    faithful: bool = True  # whether each sample is a row, in the order of the input

    @classmethod
    def of(cls, table: Table, row_name: Callable[[int], str]) -> "_FinishedSeries":
        profile = InputProfile() if table.profile is None else table.profile
        rows = np.arange(len(table.values))
        return cls(table.values, table.times, table.labels, rows, row_name, table.zone, profile)

    def take(self, rows: Ints | slice) -> None:
        self.values, self.rows = self.values[rows], self.rows[rows]
        self.times = None if self.times is None else self.times[rows]
        self.labels = None if self.labels is None else self.labels[rows]

    def span(self) -> str:
        """Return how many samples there are, and from when to when."""
        count = len(self.values)
        text = f"{count} sample" + ("" if count == 1 else "s")
        if self.times is None or not count:
            return text
        first, last = (time_text(self.times[row], self.zone) for row in (0, -1))
        return f"{text}, {first}" + ("" if count == 1 else f" to {last}")


def _check_missing(series: _FinishedSeries) -> None:
    times = series.times
    assert times is not None
    if times.shape != (len(series.values),):
        raise InputError(f"expected one time a sample, {len(series.values)}, found {times.size}")
    missing = np.isnat(times)
    if missing.any():
        raise InputError(
            f"{series.row_name(int(missing.argmax()))}: expected a time, found none (NaT)",
            hint="every sample needs a time, or none has one",
        )


def _leave_out_stray(series: _FinishedSeries) -> None:
    assert series.times is not None
    outside, newest = stray(series.times)
    if newest is None:
        return
    rows = np.flatnonzero(outside)
    where = series.row_name(int(rows[0]))
    near = series.times[~outside][max(int(rows[0]) - 1, 0)]
    expected, wrong = (time_text(moment, series.zone) for moment in (near, series.times[rows[0]]))
    text = f"{where}: expected a time near {expected}, found {wrong}"
    profile = series.profile
    profile.bad_lines += len(rows)
    profile.first_bad = profile.first_bad or text
    more = "" if len(rows) == 1 else f", and {len(rows) - 1} more such"
    profile.notes.append(f"{text}{more}: left out")
    series.take(np.flatnonzero(~outside))


def _sort(series: _FinishedSeries) -> None:
    times = series.times
    assert times is not None
    if len(times) < 2 or not (times[1:] < times[:-1]).any():
        return
    late = int(np.count_nonzero(times < np.maximum.accumulate(times)))
    series.profile.out_of_order = late
    one = "1 sample was" if late == 1 else f"{late} samples were"
    series.profile.notes.append(f"{one} out of order and put in the order of the times")
    series.take(np.argsort(times, kind="stable"))
    series.faithful = False


def _merge(series: _FinishedSeries, reading: Reading) -> None:
    """Leave one sample of each time."""
    times = series.times
    assert times is not None
    again = np.flatnonzero(times[1:] == times[:-1]) + 1
    if not len(again):
        return
    if reading.on_duplicate == "error":
        first, second = sorted(series.rows[again[0] - 1 : again[0] + 1].tolist())
        raise InputError(
            f"{series.row_name(second)}: expected each time once, found "
            f"{time_text(times[again[0]], series.zone)} again, as in {series.row_name(first)}",
            hint=_hint(series, again) or "choose with --on-duplicate last|mean (on_duplicate=)",
        )
    starts = np.r_[0, np.flatnonzero(times[1:] != times[:-1]) + 1]
    labels = None if series.labels is None else np.maximum.reduceat(series.labels, starts)
    averaged = reading.on_duplicate == "mean"
    values = _averaged(series.values, starts) if averaged else None
    text = "1 sample has" if len(again) == 1 else f"{len(again)} samples have"
    counted = "their mean counts" if averaged else "the last one counts"
    hint = _hint(series, again)
    series.profile.duplicates = len(again)
    series.profile.notes.append(
        f"{text} the time of another: {counted}" + (f"; {hint}" if hint else "")
    )
    series.take(np.r_[starts[1:], len(times)] - 1)
    series.labels = labels
    if values is not None:
        series.values = values
        series.faithful = False


def _averaged(values: Floats, starts: Ints) -> Floats:
    sizes = np.diff(np.r_[starts, len(values)])
    groups = np.repeat(np.arange(len(starts)), sizes)
    sums, counts = means(values, (~np.isnan(values)).astype(np.float64), groups, len(starts))
    with np.errstate(invalid="ignore", divide="ignore"):
        averaged: Floats = sums / counts
    return averaged


def _hint(series: _FinishedSeries, again: Ints) -> str | None:
    """Return what to do where the times of an hour come twice: the clock went back."""
    times = series.times
    assert times is not None
    if series.zone is not None:
        return None
    moments = times.astype("datetime64[ns]").view(np.int64)
    steps = np.diff(moments)
    period = int(np.median(steps[steps > 0])) if steps.any() else 0
    # In the order of the input: back by an hour, less the step to the next sample.
    back = -np.diff(moments[np.argsort(series.rows, kind="stable")])
    within = moments[again[-1]] - moments[again[0]] < 2 * _HOUR
    clock = (back > 0) & (back <= _HOUR) & (back >= _HOUR - 2 * period)
    hourly = len(again) == 1 and _HOUR // 2 <= period <= _HOUR and bool((back == 0).any())
    if not (clock.any() or hourly) or not (within or clock.sum() > 1):
        return None
    return HOUR_TWICE


def _take_rows(series: _FinishedSeries, reading: Reading) -> None:
    if reading.rows is None:
        return
    first, last = reading.rows
    wanted = slice(first, last)
    if series.faithful:
        kept: Ints | slice = wanted
    else:  # in the order of the input
        kept = np.sort(np.argsort(series.rows, kind="stable")[wanted])
    span, count = series.span(), len(series.values)
    series.take(kept)
    if not len(series.values) and count:
        text = f"{'' if first is None else first}:{'' if last is None else last}"
        raise InputError(
            f"rows {text}: expected samples there, found {span} in all",
            hint=f"they are counted from 0: the last is {count - 1}",
        )


def _resample(series: _FinishedSeries, step: np.timedelta64) -> None:
    assert series.times is not None
    grid = Resampler(step, series.values.shape[1])
    done = grid.push(series.values, series.times, series.rows, series.labels, last=True)
    series.values, series.times, series.rows, series.labels = done
    series.faithful = False


def _take_times(series: _FinishedSeries, reading: Reading) -> None:
    times = series.times
    if times is None or (reading.from_ is None and reading.until is None):
        return
    zone = series.zone
    first, last = 0, len(times)
    if reading.from_ is not None:
        first = int(np.searchsorted(times, reading.from_.in_zone(zone)))
    if reading.until is not None:
        last = int(np.searchsorted(times, reading.until.in_zone(zone)))
    span, count = series.span(), len(times)
    series.take(slice(first, max(first, last)))
    if not len(series.values) and count:
        parts = [
            f"{word} {time_text(moment.in_zone(zone), zone)}"
            for word, moment in (("from", reading.from_), ("until", reading.until))
            if moment is not None
        ]
        raise InputError(f"{' '.join(parts)}: expected samples there, found {span} in all")
