"""Levels of detail: a point of level k stands for 8^k samples, a block of it has 256 points."""

import numpy as np

from newnormal.engine.store.columns import POINTS, SAMPLES, BlockColumns
from newnormal.plots.thinning import extremes, means, starts_every, worst

BLOCK = 256  # samples or points of a block
FEWER = 8  # points of a level that make one of the next


def complete(count: int, level: int) -> int:
    """Return how many points of a level are stored for so many samples.

    Only full blocks of a level are thinned for the next one.

    >>> [complete(5000, level) for level in range(4)]
    [5000, 608, 64, 0]
    """
    for _ in range(level):
        count = count // BLOCK * (BLOCK // FEWER)
    return count


def covers(level: int) -> int:
    """Return how many samples a full block of a level stands for."""
    per: int = FEWER**level
    return BLOCK * per


def as_points(samples: BlockColumns) -> BlockColumns:
    """Return samples as points that stand for one sample each."""
    if samples.layout is not SAMPLES:
        return samples
    a = samples.arrays
    arrays = {
        **{column.name: a[column.name] for column in POINTS if column.name in a},
        "low": a["values"],
        "high": a["values"],
        "least": a["expected"] - a["below"],
        "most": a["expected"] + a["above"],
    }
    return BlockColumns(POINTS, samples.channels, arrays)


def thin(columns: BlockColumns, per: int) -> BlockColumns:
    """Return a point for each `per` rows, fewer at the end: extremes, means, the worst ratio."""
    points = as_points(columns)
    if per == 1 or not len(points):
        return points
    starts = starts_every(len(points), per)
    worst_rows = worst(points["ratios"], per)
    a = points.arrays
    arrays = {
        "times": a["times"][starts],
        **{name: a[name][worst_rows] for name in ("scores", "thresholds", "ratios")},
        "anomalous": np.logical_or.reduceat(a["anomalous"], starts),
        "low": extremes(a["low"], starts)[0],
        "high": extremes(a["high"], starts)[1],
        "expected": means(a["expected"], starts).astype(np.float32),
        "least": extremes(a["least"], starts)[0],
        "most": extremes(a["most"], starts)[1],
        "channel_ratios": extremes(a["channel_ratios"], starts)[1],
    }
    return BlockColumns(POINTS, points.channels, arrays)
