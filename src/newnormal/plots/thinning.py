"""A million samples on a thousand pixels: extremes are kept, so no spike is lost."""

from dataclasses import replace

import numpy as np

from newnormal.metrics.inputs import runs
from newnormal.types import Bools, Floats, Ints, Verdicts

BINS = 1_600  # a little more than the pixels across a panel


def bin_starts(length: int, bins: int = BINS) -> Ints:
    """Return where each of at most `bins` almost equal bins of samples starts.

    >>> bin_starts(10, bins=4).tolist()
    [0, 2, 5, 7]
    >>> bin_starts(3, bins=4).tolist()
    [0, 1, 2]
    """
    count = min(length, bins)
    return np.arange(count, dtype=np.int64) * length // count


def extremes(y: Floats, starts: Ints) -> tuple[Floats, Floats]:
    """Return the least and the greatest value of each bin; NaN where all are NaN.

    `y`: values, shape (T,). `starts`: where the bins start, in order, from 0 on; none is empty.

    >>> low, high = extremes(np.array([0.0, 9.0, np.nan, -5.0]), np.array([0, 2]))
    >>> low.tolist(), high.tolist()
    ([0.0, -5.0], [9.0, -5.0])
    """
    if not len(starts):
        return np.empty(0), np.empty(0)
    return np.fmin.reduceat(y, starts), np.fmax.reduceat(y, starts)


def means(y: Floats, starts: Ints) -> Floats:
    """Return the mean of each bin, of what is not NaN; NaN where all are.

    >>> means(np.array([1.0, np.nan, 2.0, 4.0]), np.array([0, 2])).tolist()
    [1.0, 3.0]
    """
    if not len(starts):
        return np.empty(0)
    there = ~np.isnan(y)
    counts = np.add.reduceat(there.astype(np.float64), starts)
    sums = np.add.reduceat(np.where(there, y, 0.0), starts)
    return np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)


def starts_every(length: int, per: int) -> Ints:
    """Return where each bin of `per` samples starts; the last one may be smaller.

    >>> starts_every(7, 3).tolist()
    [0, 3, 6]
    """
    return np.arange(0, length, per, dtype=np.int64)


def worst(badness: Floats, per: int) -> Ints:
    """Return the row of the worst sample of each bin; of equal ones the first. NaN: no badness.

    >>> worst(np.array([0.0, 2.0, 1.0, -np.inf, 0.5]), 2).tolist()
    [1, 2, 4]
    """
    starts = starts_every(len(badness), per)
    if per == 1:
        return starts
    padded = np.full(len(starts) * per, -np.inf)
    padded[: len(badness)] = np.where(np.isnan(badness), -np.inf, badness)
    places: Ints = padded.reshape(-1, per).argmax(axis=1)
    return starts + places


def outline(x: Floats, y: Floats, bins: int = BINS) -> tuple[Floats, Floats]:
    """Return a line through the least and greatest value of each bin; NaN where all are NaN.

    A series of no more samples than twice the bins is returned as it is.

    >>> x = np.arange(6.0)
    >>> outline(x, np.array([0.0, 9.0, 1.0, np.nan, -5.0, 2.0]), bins=2)[1].tolist()
    [0.0, 9.0, -5.0, 2.0]
    """
    if len(y) <= 2 * bins:
        return x, y
    starts = bin_starts(len(y), bins)
    return np.repeat(x[starts], 2), np.stack(extremes(y, starts), axis=1).ravel()


def middle(x: Floats, y: Floats, bins: int = BINS) -> tuple[Floats, Floats]:
    """Return a line through the mean of each bin, of what is not NaN.

    >>> middle(np.arange(4.0), np.array([1.0, np.nan, 2.0, 4.0]), bins=2)[1].tolist()
    [1.0, 3.0]
    """
    starts = bin_starts(len(y), bins)
    if len(starts) == len(y):
        return x, y
    return x[starts], means(y, starts)


def broken(x: Floats, y: Floats, longest: float = 10.0) -> tuple[Floats, Floats]:
    """Return a line with a break wherever nothing was seen for `longest` times the usual step.

    >>> x = np.array([0.0, 1.0, 2.0, 3.0, 50.0, 51.0])
    >>> broken(x, np.ones(6))[1].tolist()
    [1.0, 1.0, 1.0, 1.0, nan, 1.0, 1.0]
    """
    if len(x) < 3:
        return x, y
    steps = np.diff(x)
    usual = np.median(steps[steps > 0]) if (steps > 0).any() else np.inf
    wide = np.flatnonzero(steps > longest * usual) + 1
    return np.insert(x, wide, x[wide - 1]), np.insert(y, wide, np.nan)


def peaks(x: Floats, y: Floats, where: Bools, bins: int = BINS) -> tuple[Floats, Floats]:
    """Return, for each bin with a set flag, its place and the greatest flagged value.

    >>> flags = np.array([False, True, True, False, False, False])
    >>> place, value = peaks(np.arange(6.0), np.array([7.0, 2.0, 3.0, 1.0, 1.0, 1.0]), flags, 2)
    >>> place.tolist(), value.tolist()
    ([0.0], [3.0])
    """
    starts = bin_starts(len(y), bins)
    greatest = np.fmax.reduceat(np.where(where, y, np.nan), starts)
    kept = ~np.isnan(greatest)
    return x[starts[kept]], greatest[kept]


def stretches(x: Floats, flags: Bools, bins: int = BINS) -> list[tuple[float, float]]:
    """Return each run of set flags as its start and width, runs in neighbouring bins joined.

    >>> stretches(np.arange(6.0), np.array([False, True, True, False, False, True]))
    [(1.0, 2.0), (5.0, 0.0)]
    """
    starts = bin_starts(len(flags), bins)
    edges = np.append(x[starts], x[-1])
    first, after = runs(np.logical_or.reduceat(flags, starts))
    return [
        (float(edges[a]), float(edges[b] - edges[a])) for a, b in zip(first, after, strict=True)
    ]


def excess(scores: Floats, thresholds: Floats) -> Floats:
    """Return how bad each sample is: from 1 on it is anomalous; -inf without a score.

    The ratio of score and threshold. Where a threshold is not positive, as that of a foreign model
    may be, ratios mean nothing: then it is 1 plus their difference.

    >>> excess(np.array([1.0, 3.0, np.nan]), np.array([2.0, 2.0, 2.0])).tolist()
    [0.5, 1.5, -inf]
    >>> excess(np.array([-1.0, 3.0]), np.array([-2.0, 4.0])).tolist()
    [2.0, 0.0]
    """
    with np.errstate(over="ignore", invalid="ignore"):
        badness = 1 + scores - thresholds if (thresholds <= 0).any() else scores / thresholds
    badness[np.isnan(badness)] = -np.inf
    return badness


def ratios_of(verdicts: Verdicts) -> Floats:
    """Return the ratio of score and threshold of each sample, NaN without a score.

    Those by which alarms are decided, where there are any; else as `excess`.
    """
    ratios = verdicts.ratios
    if ratios is None:
        ratios = excess(verdicts.scores, verdicts.thresholds)
    return np.where(np.isneginf(ratios), np.nan, ratios)


def in_ratios(verdicts: Verdicts) -> Verdicts:
    """Return verdicts whose scores are ratios, and whose threshold is 1."""
    return replace(verdicts, scores=ratios_of(verdicts), thresholds=np.ones(len(verdicts)))
