"""The state of a live stream: made, copied, and wound back."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from newnormal.kernels.step import AGE, CYCLE, HELD, LEARNED, PENDING, RESTORED, SEEN, Sheet, Stream
from newnormal.types import Floats32

__all__ = [
    "COUNTS",
    "aligned",
    "blank_sheet",
    "copied",
    "drop_pending",
    "forget_samples",
    "fresh",
    "recall",
]

_Number = TypeVar("_Number", bound=np.number)

# The counters by name, as they stand in a state file.
COUNTS = {
    "seen": SEEN,
    "held": HELD,
    "pending": PENDING,
    "cycle": CYCLE,
    "age": AGE,
    "learned": LEARNED,
    "restored": RESTORED,
}


def fresh(window: int, channels: int, weights: Floats32, rest: int = 0) -> Stream:
    """Return the state before the first sample: trend at history's mean, weights as given.

    `rest` is how many further values the model keeps, all 0.
    """
    return Stream(
        samples=np.full((window, channels), np.nan),
        trend=np.zeros(channels),
        weights=aligned(weights),
        good=aligned(weights),
        reach=np.abs(weights, dtype=np.float64).sum(keepdims=True),
        counts=np.zeros(len(COUNTS), dtype=np.int64),
        rest=np.zeros(rest),
    )


def copied(stream: Stream) -> Stream:
    """Return a copy that shares nothing."""
    return Stream._make(aligned(array) for array in stream)


def aligned(array: NDArray[_Number]) -> NDArray[_Number]:
    """Return a contiguous copy that begins at a cache line.

    NumPy's own begin at any 16 bytes, and a step on rows that straddle cache lines takes a sixth
    longer.
    """
    room = np.empty(array.nbytes + 64, dtype=np.uint8)
    start = -room.ctypes.data % 64
    copy = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def drop_pending(stream: Stream, count: int) -> None:
    """Forget the newest `count` samples, none of which has a verdict yet."""
    if not 0 <= count <= stream.counts[PENDING]:
        raise ValueError(f"{count} samples to drop, {stream.counts[PENDING]} pending")
    if count:
        stream.samples[count:] = stream.samples[:-count].copy()
        stream.samples[:count] = np.nan
        for position in (SEEN, HELD, PENDING, CYCLE):
            stream.counts[position] -= count


def forget_samples(stream: Stream, *, anew: bool = False) -> None:
    """Forget the newest samples, so that the next one begins a first window.

    With `anew`, nothing has been counted yet either.
    """
    stream.samples[:] = np.nan
    if anew:
        stream.counts[:] = 0
    for position in (HELD, PENDING, CYCLE):
        stream.counts[position] = 0


def recall(stream: Stream, weights: Floats32) -> None:
    """Put weights back that were good once."""
    stream.weights[:] = weights
    stream.good[:] = weights
    stream.reach[:] = np.abs(weights, dtype=np.float64).sum()
    stream.counts[AGE] = 0


def blank_sheet(rows: int, channels: int) -> Sheet:
    """Return room for verdicts; the kernel fills every row."""
    return Sheet(
        scores=np.empty(rows),
        anomalous=np.empty(rows, dtype=np.bool_),
        expected=np.empty((rows, channels)),
        shares=np.empty((rows, channels), dtype=np.float32),
    )
