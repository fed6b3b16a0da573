"""Flags as events: runs of consecutive samples."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from newnormal.types import Bools, Ints

_Scalar = TypeVar("_Scalar", np.bool_, np.float64)


def runs(flags: Bools) -> tuple[Ints, Ints]:
    """Return where each run of set flags starts, and the sample after its last one.

    >>> starts, stops = runs(np.array([True, True, False, True]))
    >>> starts.tolist(), stops.tolist()
    ([0, 3], [2, 4])
    """
    edges = np.diff(flags.astype(np.int8), prepend=0, append=0)
    return np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)


def raise_to_event_maximum(truth: Bools, values: NDArray[_Scalar]) -> NDArray[_Scalar]:
    """Return the values with every labelled sample given the largest one of its event.

    On predictions this is point adjustment. On scores, thresholding the result is thresholding
    first and adjusting afterwards, for all thresholds at once.
    """
    adjusted = values.copy()
    starts, stops = runs(truth)
    if starts.size:
        lengths = stops - starts
        peaks = np.maximum.reduceat(values[truth], np.cumsum(lengths) - lengths)
        adjusted[truth] = np.repeat(peaks, lengths)
    return adjusted
