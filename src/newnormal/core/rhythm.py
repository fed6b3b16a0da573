"""What level and spread to expect at each phase of a stream's rhythm, from its history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from newnormal.core.period import find_period
from newnormal.core.phases import DAY, Phases, SampleClock, TimeClock, clock_from_json
from newnormal.types import Bools, Floats, Floats32, Ints, Times

BINS = 288  # of a day, at most: one in five minutes
FEWEST_BINS = 4  # bins of a day, at least
WEEK = 7 * DAY  # history with times spans at least this, in ns
_TURNS = 3  # and history without times at least as many periods
_EACH_DAY = 96  # with at most as many bins, each day of the week can be of its own kind
# Days that a kind of day must have in history; two in the part before the held-out days.
DAYS_OF_A_KIND = 3
_HELD_OUT = 0.3  # of the days; two at least
_EXPLAINED = 0.25  # of a channel's held-out variance, for it to have a rhythm
_BETTER = 0.98  # error of more kinds of day, relative to fewer, for these to be used
_TRIMMED = 0.05  # of held-out samples, those that no level explains, do not count
_STEADY = 3.0  # standard errors from its neighbours' mean, for a bin to keep its own level
_MAD = 1.4826  # from the median distance to the standard deviation of a normal distribution
_MEDIAN_ERROR = 1.2533  # standard error of a median, of that of a mean
_FLOOR = 0.25  # of a channel's typical spread, the least at any phase
_LEAST = 0.05  # the least spread, in standard deviations of history


class Rhythm(NamedTuple):
    """Level and spread by phase: B phases, C channels, in scaled units.

    A channel without rhythm has the same level and spread, those of its history, at each phase.

    >>> times = np.datetime64("2026-01-01", "ns") + np.arange(24 * 14) * np.timedelta64(1, "h")
    >>> history = np.sin(np.arange(24 * 14) * np.pi / 12)[:, None]
    >>> rhythm = Rhythm.fit(history, times, np.timedelta64(1, "h"), "UTC")
    >>> rhythm.phases(times[:3]), rhythm.levels[6].round(2)
    (array([0., 1., 2.]), array([1.], dtype=float32))

    Levels are medians over days, spreads 1.4826 times the median distance from them. Both are
    joined with those of neighbouring bins, levels only where the bin's own is within three standard
    errors of its neighbours' mean, so that the edges of a nightly job stay sharp.
    """

    clock: Phases  # the phase of each sample
    # levels, spreads: the level and the spread to expect, (B, C); spreads are above 0
    levels: Floats32
    spreads: Floats32
    explained: Bools  # which channels have a rhythm, (C,)

    @classmethod
    def fit(
        cls,
        scaled: Floats,
        times: Times | None,
        period: np.timedelta64 | None = None,
        zone: str | None = None,
    ) -> Rhythm | None:
        """Return the rhythm of history (T, C) in scaled units, or None if it has none.

        With times it must span a week, without them three periods. A channel has a rhythm if the
        levels of the first part of history explain a quarter of the variance of the last.
        """
        T = len(scaled)
        if times is None:
            if (period_found := find_period(scaled)) is None:
                return None
            counter = SampleClock(min(BINS, period_found), period_found, T)
            slots = counter.phases(None, -T, T).astype(np.int64)
            return _fitted(scaled, [counter], np.arange(T) // period_found, slots)
        when = times.astype("datetime64[ns]").view(np.int64)
        step = _step(when, period)
        if when[-1] - when[0] + step < WEEK or DAY / step < FEWEST_BINS:
            return None
        bins = min(BINS, round(DAY / step))
        clock = TimeClock(bins, zone=zone)
        clock = TimeClock(bins, shift=_shift(when, step, clock), zone=zone)
        days, slots = clock.days(when)
        more = (1, 2, 7) if bins <= _EACH_DAY else (1, 2)
        clocks: list[Phases] = [TimeClock(bins, kinds, clock.shift, zone) for kinds in more]
        return _fitted(scaled, clocks, days, slots)

    def phases(self, times: Times | None, first: int = 0, count: int | None = None) -> Floats:
        """Return the phases (T,) of samples, whole numbers; NaN where unknown.

        By their times; without a clock by time, by their number: `first` is that of the first of
        them in the stream, and `count` is how many there are.
        """
        size = len(times) if count is None and times is not None else count or 0
        return self.clock.phases(times, first, size)

    def levels_at(self, phases: Floats) -> Floats:
        """Return the levels at phases (T,), interpolated between bins, (T, C); 0 where unknown."""
        timed = ~np.isnan(phases)
        slots = np.where(timed, phases, 0.0)
        low = slots.astype(np.int64) % len(self.levels)
        part = (slots - np.floor(slots))[:, None]
        levels = (1 - part) * self.levels[low] + part * self.levels[(low + 1) % len(self.levels)]
        return np.where(timed[:, None], levels, 0.0)

    def sentence(self, channels: Sequence[str]) -> str:
        """Return which rhythm was found, in one sentence."""
        C = len(channels)
        have = [name for name, explained in zip(channels, self.explained, strict=True) if explained]
        has = "has" if len(have) in (1, C) else "have"
        count = "each channel" if len(have) == C else f"{len(have)} of {C} channels"
        follows = ""
        if isinstance(self.clock, SampleClock):
            follows = " Without times, the stream is taken to follow history directly."
            by = f"its place in a period of {self.clock.period:,} samples"
        else:
            days = {1: "", 2: " and by working day or weekend", 7: " and the day of the week"}
            zone = "" if self.clock.zone is None else f" ({self.clock.zone})"
            by = f"the time of day{zone}{days[self.clock.kinds]}"
        return f"Rhythm: {count} of history {has} a level and a spread by {by}.{follows}"

    def to_json(self) -> dict[str, Any]:
        """Return what is not an array, as values of JSON."""
        return self.clock.to_json()

    @classmethod
    def of(cls, facts: dict[str, Any], levels: Floats32, spreads: Floats32) -> Rhythm:
        """Return the rhythm from `to_json` and its arrays."""
        moves: Bools = (levels != levels[:1]).any(axis=0)
        return cls(clock_from_json(facts), levels, spreads, moves)


class _Days(NamedTuple):
    """History by day and bin: D days, B bins, C channels."""

    days: Ints  # (D,) which days, counted from 1970, or which turns of the period
    means: Floats  # (D, B, C) NaN where there is no value
    row: Ints  # (T,) of each sample, the position of its day
    bin: Ints  # (T,)

    def average(self, values: Floats) -> Floats:
        """Return the means of values (T, C) by day and bin, (D, B, C)."""
        return _means(values, self.row * self.means.shape[1] + self.bin, self.means.shape)

    def some(self, rows: slice) -> _Days:
        """Return some of the days."""
        chosen = np.arange(len(self.days))[rows]
        inside = np.isin(self.row, chosen)
        row = self.row[inside] - chosen[0]
        return _Days(self.days[rows], self.means[rows], row, self.bin[inside])


def _fitted(scaled: Floats, clocks: list[Phases], days: Ints, slots: Ints) -> Rhythm | None:
    """Return the rhythm with the clock that predicts held-out days best, or None."""
    dates, row = np.unique(days, return_inverse=True)
    bins, C = clocks[0].bins, scaled.shape[1]
    if len(dates) < _TURNS:
        return None
    shape = (len(dates), bins, C)
    history = _Days(dates, _means(scaled, row * bins + slots, shape), row, slots)
    early = len(dates) - max(2 if len(dates) > _TURNS else 1, round(_HELD_OUT * len(dates)))
    late = row >= early
    first = history.some(slice(early))
    plain = np.nan_to_num(_median(scaled[~late], axis=0))
    missed = scaled[late] - plain
    chosen, explained, least = clocks[0], np.zeros(C, np.bool_), np.inf
    for clock in clocks:
        kinds, count = _kinds(clock, dates), clock.size // bins
        if min(np.bincount(kinds, minlength=count)) < DAYS_OF_A_KIND:
            continue
        if count > 1 and min(np.bincount(kinds[:early], minlength=count)) < DAYS_OF_A_KIND - 1:
            continue
        levels = _levels(first, clock)
        error = scaled[late] - levels[kinds[row[late]] * bins + slots[late]]
        left, all_of_it = _squares(error, missed)
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.where(all_of_it > 0, left / all_of_it, 1.0)
        total = float(np.mean(np.minimum(share, 1.0)))
        if total < _BETTER * least:
            least, chosen, explained = total, clock, share <= 1 - _EXPLAINED
    if not explained.any():
        return None
    levels = _levels(history, chosen)
    phase = _kinds(chosen, dates)[row] * bins + slots
    distances = history.average(np.abs(scaled - levels[phase]))
    spreads = np.tile(_spreads(distances), (len(levels) // bins, 1))
    with np.errstate(invalid="ignore"):
        deviation = np.nan_to_num(np.nanstd(scaled, axis=0))
        mean = np.nan_to_num(np.nanmean(scaled, axis=0))
    levels = np.where(explained, levels, mean)
    spreads = np.where(explained, spreads, np.where(deviation > 0, deviation, 1.0))
    return Rhythm(chosen, levels.astype(np.float32), spreads.astype(np.float32), explained)


def _kinds(clock: Phases, days: Ints) -> Ints:
    return clock.kind(days) if isinstance(clock, TimeClock) else np.zeros(len(days), np.int64)


def _levels(history: _Days, clock: Phases) -> Floats:
    """Return the level by phase, (K B, C)."""
    means, bins = history.means, clock.bins
    level = _median(means, axis=0)  # (B, C)
    spread = _pooled(_MAD * _median(np.abs(means - level), axis=0))
    level = _steady(level, _smooth(_filled(level), bins), spread, _count(means))
    kinds = _kinds(clock, history.days)
    tables = []
    for kind in range(clock.size // bins):
        mine = means[kinds == kind]
        if len(mine) < 2 or clock.size == bins:
            tables.append(level)
            continue
        # All bins of an hour move together, by a median shrunk towards 0: few weeks are few values.
        rest = mine - level
        hours = np.arange(bins) * min(bins, 24) // bins
        parts = [rest[:, hours == hour] for hour in range(hours[-1] + 1)]
        moved = (
            np.nan_to_num([_median(part, axis=(0, 1)) for part in parts])
            * len(mine)
            / (len(mine) + 1)
        )
        usual = level + moved[hours]
        tables.append(_steady(_median(mine, axis=0), usual, spread, _count(mine)))
    return np.concatenate(tables)


def _steady(level: Floats, smooth: Floats, spread: Floats, count: Ints) -> Floats:
    """Return a bin's own level where that is surely another than the smooth one."""
    error = _MEDIAN_ERROR * spread / np.sqrt(np.maximum(count, 1))
    sure = (np.abs(level - smooth) > _STEADY * error) & (count >= DAYS_OF_A_KIND)
    return np.where(sure, level, smooth)


def _smooth(values: Floats, bins: int) -> Floats:
    """Return the means over the neighbouring bins, over 35 minutes of a day of 288 bins."""
    reach = round(bins / 96)
    rolled = [np.roll(values, by, axis=0) for by in range(-reach, reach + 1)]
    return np.asarray(np.mean(rolled, axis=0))


def _spreads(distances: Floats) -> Floats:
    """Return the spread by bin (B, C) from mean distances by day and bin (D, B, C)."""
    scatter = _MAD * _median(distances, axis=0)
    typical = np.nan_to_num(_median(scatter, axis=0))
    spreads: Floats = np.maximum(_pooled(scatter), np.maximum(_FLOOR * typical, _LEAST))
    return spreads


def _pooled(spread: Floats) -> Floats:
    """Return spreads (B, C) joined with those of neighbouring bins."""
    filled = np.where(np.isnan(spread), np.nan_to_num(_median(spread, axis=0)), spread)
    return np.sqrt(_smooth(filled**2, len(filled)))


def _filled(level: Floats) -> Floats:
    """Return levels (B, C) with those of missing bins between their neighbours', circular."""
    filled = level.copy()
    slots = np.arange(len(level))
    for channel in np.flatnonzero(np.isnan(level).any(axis=0)):
        seen = np.flatnonzero(~np.isnan(level[:, channel]))
        if len(seen):
            filled[:, channel] = np.interp(slots, seen, level[seen, channel], period=len(level))
        else:
            filled[:, channel] = 0
    return filled


def _squares(error: Floats, missed: Floats) -> tuple[Floats, Floats]:
    """Return the sums of squares (C,) of both, without the samples that neither explains."""
    neither = np.nan_to_num(np.minimum(error**2, missed**2))
    keep = neither <= np.quantile(neither, 1 - _TRIMMED, axis=0)
    left, all_of_it = (np.nansum(np.where(keep, part, 0) ** 2, axis=0) for part in (error, missed))
    return left, all_of_it


def _means(values: Floats, cell: Ints, shape: tuple[int, int, int]) -> Floats:
    """Return the means of values (T, C) by cell, (D, B, C); NaN where there is none."""
    size = shape[0] * shape[1]
    means = np.empty((size, shape[2]))
    for channel, column in enumerate(values.T):
        seen = ~np.isnan(column)
        count = np.bincount(cell[seen], minlength=size)
        total = np.bincount(cell[seen], weights=column[seen], minlength=size)
        with np.errstate(invalid="ignore"):
            means[:, channel] = total / count
    return means.reshape(shape)


def _median(values: Floats, axis: int | tuple[int, int]) -> Floats:
    """Return the medians without NaN; NaN where there is nothing else."""
    missing = np.isnan(values).all(axis=axis)
    filled = np.where(np.expand_dims(missing, axis), 0.0, values)
    return np.where(missing, np.nan, np.nanmedian(filled, axis=axis))


def _count(means: Floats) -> Ints:
    return np.asarray(np.count_nonzero(~np.isnan(means), axis=0), dtype=np.int64)


def _step(when: Ints, period: np.timedelta64 | None) -> int:
    """Return the time between samples in ns, such that a whole number of them make a day."""
    step = int(np.median(np.diff(when)))
    if period is not None:
        step = int(period.astype("timedelta64[ns]").astype(np.int64))
    return round(DAY / max(1, round(DAY / max(step, 1))))


def _shift(when: Ints, step: int, clock: TimeClock) -> int:
    """Return when the first bin begins: half a step before the sample nearest to midnight.

    So that samples at regular times fall in the middle of a bin, or at least not on its edges.
    """
    angle = 2 * np.pi * ((clock.local(when) % step) / step)
    mean = np.exp(1j * angle).mean()
    after = np.angle(mean) / (2 * np.pi) * step if abs(mean) > 0.5 else 0.0
    return round(after - step / 2)
