"""Many samples as few points: what a bucket of consecutive samples keeps, so no spike is lost."""

from __future__ import annotations

import numpy as np

from newnormal.types import Floats, Ints

__all__ = ["bucket_starts", "worst"]


def bucket_starts(length: int, per: int) -> Ints:
    """Return where each bucket of `per` samples starts; the last one may be smaller.

    Examples
    --------
    >>> bucket_starts(7, 3).tolist()
    [0, 3, 6]
    """
    return np.arange(0, length, per, dtype=np.int64)


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
