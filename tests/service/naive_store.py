"""A store of samples that is slow and obvious: every sample in a list, thinned when asked."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from newnormal.service.values import StoredRows, ThinnedSeries
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
        *rng.random((2, *wide)),
        2 * rng.random(wide),
    )


class Sample(NamedTuple):
    time: int
    score: float
    threshold: float
    ratio: float
    anomalous: bool
    value: dict[str, float]
    expected: dict[str, float]
    below: dict[str, float]
    above: dict[str, float]
    channel_ratio: dict[str, float]


class NaiveStore:
    """Samples of one stream."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []

    def add(self, rows: StoredRows) -> None:
        del self.samples[rows.first :]
        wide = [
            each.astype(np.float32).astype(np.float64)
            for each in (rows.expected, rows.below, rows.above, rows.channel_ratios)
        ]
        for at in range(len(rows)):
            self.samples.append(
                Sample(
                    int(rows.times[at]),
                    float(np.float32(rows.scores[at])),
                    float(np.float32(rows.thresholds[at])),
                    float(np.float32(rows.ratios[at])),
                    bool(rows.anomalous[at]),
                    *(dict(zip(rows.channels, x[at], strict=True)) for x in (rows.values, *wide)),
                )
            )

    def rows(self, first: int, last: int, channels: Sequence[str]) -> StoredRows:
        found = self.samples[first : last + 1]
        return StoredRows(
            first,
            tuple(channels),
            np.array([each.time for each in found], np.int64),
            _wide([each.value for each in found], channels),
            np.array([each.score for each in found]),
            np.array([each.threshold for each in found]),
            np.array([each.ratio for each in found]),
            np.array([each.anomalous for each in found], np.bool_),
            _wide([each.expected for each in found], channels),
            _wide([each.below for each in found], channels),
            _wide([each.above for each in found], channels),
            _wide([each.channel_ratio for each in found], channels),
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
        return ThinnedSeries(
            per if inside else 1,
            tuple(channels),
            np.array([each[0].time for each in found], np.int64),
            np.array([each.score for each in worst]),
            np.array([each.threshold for each in worst]),
            np.array([each.ratio for each in worst]),
            _reduced(
                np.fmin, channels, [_wide([s.value for s in each], channels) for each in found]
            ),
            _reduced(
                np.fmax, channels, [_wide([s.value for s in each], channels) for each in found]
            ),
            np.array(
                [
                    _mean(_wide([s.expected for s in each], channels), unit, per // unit)
                    for each in found
                ]
            ).reshape(len(found), len(channels)),
            _reduced(np.fmin, channels, [_range(each, channels)[0] for each in found]),
            _reduced(np.fmax, channels, [_range(each, channels)[1] for each in found]),
            _reduced(
                np.fmax,
                channels,
                [_wide([s.channel_ratio for s in each], channels) for each in found],
            ),
            np.array([any(s.anomalous for s in each) for each in found], np.bool_),
        )


def _wide(found: list[dict[str, float]], channels: Sequence[str]) -> Floats:
    rows = [[each.get(name, np.nan) for name in channels] for each in found]
    return np.array(rows, np.float64).reshape(len(found), len(channels))


def _range(found: list[Sample], channels: Sequence[str]) -> tuple[Floats, Floats]:
    expected = _wide([each.expected for each in found], channels)
    below, above = (
        _wide([each.below for each in found], channels),
        _wide([each.above for each in found], channels),
    )
    return expected - below, expected + above


def _reduced(function: np.ufunc, channels: Sequence[str], found: list[Floats]) -> Floats:
    rows = [function.reduce(each, axis=0) for each in found]
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
    return -np.inf if np.isnan(sample.ratio) else sample.ratio
