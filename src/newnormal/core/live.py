"""The state of a live stream: made, copied, and wound back."""

from __future__ import annotations

import numpy as np

from newnormal.kernels.step import AGE, CYCLE, HELD, LEARNED, PENDING, RESTORED, SEEN, Sheet, Stream
from newnormal.types import Floats32

__all__ = ["COUNTS", "blank_sheet", "copied", "drop_pending", "fresh"]

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


def fresh(window: int, channels: int, weights: Floats32) -> Stream:
    """Return the state before the first sample: trend at history's mean, weights as given."""
    return Stream(
        samples=np.full((window, channels), np.nan),
        trend=np.zeros(channels),
        weights=weights.copy(),
        good=weights.copy(),
        reach=np.abs(weights, dtype=np.float64).sum(keepdims=True),
        counts=np.zeros(len(COUNTS), dtype=np.int64),
    )


def copied(stream: Stream) -> Stream:
    """Return a copy that shares nothing."""
    return Stream._make(array.copy() for array in stream)


def drop_pending(stream: Stream, count: int) -> None:
    """Forget the newest `count` samples, none of which has a verdict yet."""
    if not 0 <= count <= stream.counts[PENDING]:
        raise ValueError(f"{count} samples to drop, {stream.counts[PENDING]} pending")
    if count:
        stream.samples[count:] = stream.samples[:-count].copy()
        stream.samples[:count] = np.nan
        for position in (SEEN, HELD, PENDING, CYCLE):
            stream.counts[position] -= count


def blank_sheet(rows: int, channels: int) -> Sheet:
    """Return room for verdicts; the kernel fills every row."""
    return Sheet(
        scores=np.empty(rows),
        anomalous=np.empty(rows, dtype=np.bool_),
        expected=np.empty((rows, channels)),
        shares=np.empty((rows, channels), dtype=np.float32),
    )
