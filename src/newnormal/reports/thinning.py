"""Many samples as few points: what a bucket of consecutive samples keeps, so no spike is lost."""

from __future__ import annotations

import numpy as np

from newnormal.types import Floats, Ints

__all__ = ["bucket_starts", "excess", "worst"]


def bucket_starts(length: int, per: int) -> Ints:
    """Return where each bucket of `per` samples starts; the last one may be smaller.

    Examples
    --------
    >>> bucket_starts(7, 3).tolist()
    [0, 3, 6]
    """
    return np.arange(0, length, per, dtype=np.int64)


def excess(scores: Floats, thresholds: Floats) -> Floats:
    """Return how bad each sample is: from 1 on it is anomalous, or from 0 on; -inf without a score.

    The ratio of score and threshold. Where a threshold is not positive, as that of a foreign model
    may be, ratios mean nothing: then it is their difference.

    Examples
    --------
    >>> excess(np.array([1.0, 3.0, np.nan]), np.array([2.0, 2.0, 2.0])).tolist()
    [0.5, 1.5, -inf]
    >>> excess(np.array([-1.0, 3.0]), np.array([-2.0, 4.0])).tolist()
    [1.0, -1.0]
    """
    with np.errstate(over="ignore", invalid="ignore"):
        found = scores - thresholds if (thresholds <= 0).any() else scores / thresholds
    found[np.isnan(found)] = -np.inf
    return found


def worst(badness: Floats, per: int) -> Ints:
    """Return the row of the worst sample of each bucket; of equal ones the first.

    Examples
    --------
    >>> worst(np.array([0.0, 2.0, 1.0, -np.inf, 0.5]), 2).tolist()
    [1, 2, 4]
    """
    starts = bucket_starts(len(badness), per)
    if per == 1:
        return starts
    padded = np.full(len(starts) * per, -np.inf)
    padded[: len(badness)] = badness
    places: Ints = padded.reshape(-1, per).argmax(axis=1)
    return starts + places
