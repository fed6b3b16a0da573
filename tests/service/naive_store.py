"""A store of samples that is slow and obvious: every sample in a list, thinned when asked."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from newnormal.engine.values import StoredRows, ThinnedSeries
from newnormal.types import Floats

SECOND = 1_000_000_000
BEGIN = 1_700_000_000 * SECOND


def some_rows(
    rng: np.random.Generator,
    first: int,
    count: int,
    channels: tuple[str, ...],
    *,
    live: bool = True,
) -> StoredRows:
    """Return rows of noise, one each second, some values missing; not judged unless `live`."""
    times = BEGIN + np.arange(first, first + count, dtype=np.int64) * SECOND
    values = rng.normal(size=(count, len(channels)))
    values[rng.random(values.shape) < 0.1] = np.nan
    if not live:
        return StoredRows.of_samples(first, channels, times, values)
    scores = rng.random(count)
    scores[rng.random(count) < 0.05] = np.nan
    thresholds = rng.choice([0.5, 1.0, 2.0], count)
    wide = (count, len(channels))
    return StoredRows(
        first,
        channels,
        times,
        values,
        scores,
        thresholds,
        scores / thresholds,
        rng.random(count) < 0.1,
        rng.normal(size=wide),
        rng.random(wide),
        rng.random(wide),
        2 * rng.random(wide),
    )


NUMBERS = ("scores", "thresholds", "ratios")
OF_CHANNELS = ("values", "expected", "below", "above", "channel_ratios")


class Sample(NamedTuple):
    time: int
    anomalous: bool
    numbers: dict[str, float]
    of_channels: dict[str, dict[str, float]]


class NaiveStore:
    """Samples of one stream."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []

    def add(self, rows: StoredRows) -> None:
        del self.samples[rows.first :]
        for at, time in enumerate(rows.times.tolist()):
            numbers = {name: float(np.float32(getattr(rows, name)[at])) for name in NUMBERS}
            wide = {name: getattr(rows, name)[at] for name in OF_CHANNELS}
            wide |= {name: wide[name].astype(np.float32) for name in OF_CHANNELS[1:]}
            named = {
                name: dict(zip(rows.channels, values.tolist(), strict=True))
                for name, values in wide.items()
            }
            self.samples.append(Sample(time, bool(rows.anomalous[at]), numbers, named))

    def rows(self, first: int, last: int, channels: Sequence[str]) -> StoredRows:
        found = self.samples[first : last + 1]
        return StoredRows(
            first,
            tuple(channels),
            np.array([each.time for each in found], np.int64),
            anomalous=np.array([each.anomalous for each in found], np.bool_),
            **{name: np.array([each.numbers[name] for each in found]) for name in NUMBERS},
            **{name: _wide(found, name, channels) for name in OF_CHANNELS},
        )

    def series(self, begin: int, end: int, points: int, channels: Sequence[str]) -> ThinnedSeries:
        inside = [at for at, each in enumerate(self.samples) if begin <= each.time <= end]
        level = 0
        while len(inside) // 8 ** (level + 1) >= points:
            level += 1
        unit = per = 8**level
        first, last = (inside[0], inside[-1]) if inside else (0, -1)
        while last // per - first // per + 1 > 2 * points:
            per *= 2
        numbers = range(first // per, last // per + 1) if inside else range(0)
        found = [self.samples[point * per : (point + 1) * per] for point in numbers]
        worst = [max(each, key=_badness) for each in found]

        def of_points(reduced: Callable[[list[Sample]], Floats]) -> Floats:
            rows = [reduced(each) for each in found]
            return np.array(rows, np.float64).reshape(len(found), len(channels))

        def wide(some: list[Sample], name: str) -> Floats:
            return _wide(some, name, channels)

        return ThinnedSeries(
            per if inside else 1,
            tuple(channels),
            np.array([each[0].time for each in found], np.int64),
            **{name: np.array([each.numbers[name] for each in worst]) for name in NUMBERS},
            low=of_points(lambda some: np.fmin.reduce(wide(some, "values"))),
            high=of_points(lambda some: np.fmax.reduce(wide(some, "values"))),
            expected=of_points(lambda some: _mean(wide(some, "expected"), unit, per // unit)),
            least=of_points(
                lambda some: np.fmin.reduce(wide(some, "expected") - wide(some, "below"))
            ),
            most=of_points(
                lambda some: np.fmax.reduce(wide(some, "expected") + wide(some, "above"))
            ),
            channel_ratios=of_points(lambda some: np.fmax.reduce(wide(some, "channel_ratios"))),
            anomalous=np.array([any(s.anomalous for s in each) for each in found], np.bool_),
        )


def _wide(found: list[Sample], name: str, channels: Sequence[str]) -> Floats:
    rows = [[each.of_channels[name].get(c, np.nan) for c in channels] for each in found]
    return np.array(rows, np.float64).reshape(len(found), len(channels))


def _mean(values: Floats, unit: int, factor: int) -> Floats:
    """Return the mean of means of eights, and these of `factor`: as levels are made."""
    while unit > 1:
        values = np.array([_one_mean(values[at : at + 8]) for at in range(0, len(values), 8)])
        unit //= 8
    assert len(values) <= factor
    return _one_mean(values)


def _one_mean(values: Floats) -> Floats:
    there = ~np.isnan(values)
    sums = np.where(there, values, 0.0).sum(axis=0)
    return np.where(there.any(axis=0), sums / np.maximum(there.sum(axis=0), 1), np.nan)


def _badness(sample: Sample) -> float:
    ratio = sample.numbers["ratios"]
    return -np.inf if np.isnan(ratio) else ratio
