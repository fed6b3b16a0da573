"""Values of history that are too far away to have been measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from newnormal.texts import between_text, number_texts
from newnormal.types import Floats, Ints, Times, time_text

# A group of values is left out if each of them is ten times as far from the median as every other
# value of its channel, and if they are few. Heavy tails have no such gap: in 200 channels of 10,080
# lognormal (sigma 1) or Student (3 degrees of freedom) samples, none is left out.
FARTHER = 10.0
SHARE = 0.01  # of a channel's values that may be left out; one at least
LEAST = 20  # values that a channel must have
_NAMED = 3  # samples that a sentence names


@dataclass(frozen=True, eq=False)
class ChannelOutliers:
    """The values of one channel that were left out of history."""

    channel: int  # its position
    samples: Ints  # in the order of time
    values: Floats  # in the user's units
    count: int  # values of the channel, these included

    def sentence(self, channels: Sequence[str], times: Times | None = None) -> str:
        """Return what was left out, in one sentence.

        >>> found = ChannelOutliers(0, np.array([3]), np.array([-9999.0]), 500)
        >>> found.sentence(["load"])
        "channel 'load': 1 of 500 values left out of history: -9,999 at sample 3"
        """
        places = []
        for sample in self.samples[:_NAMED]:
            when = "" if times is None else f" ({time_text(times[sample])})"
            places.append(f"{sample}{when}")
        more = len(self.samples) - len(places)
        noun = "samples" if len(self.samples) > 1 else "sample"
        others = f" and {more} more" if more else ""
        low, high = float(self.values.min()), float(self.values.max())
        size = between_text(number_texts(*sorted({low, high}), digits=6))
        return (
            f"channel {channels[self.channel]!r}: {len(self.samples)} of {self.count:,} values "
            f"left out of history: {size} at {noun} {', '.join(places)}{others}"
        )


def find_outliers(history: Floats) -> tuple[ChannelOutliers, ...]:
    """Return the values of history (T, C) that are far from all others, by channel.

    With a channel's distances from its median in falling order, d1 ≥ d2 ≥ ..., these are the first
    j values for the largest j of at most `SHARE` of the values with d_j ≥ `FARTHER` d_(j+1). A
    channel that is otherwise constant has none: its few other values may be what it measures.

    >>> history = np.r_[np.arange(100.0), -9999].reshape(-1, 1)
    >>> [(each.samples.tolist(), each.values.tolist()) for each in find_outliers(history)]
    [([100], [-9999.0])]
    """
    outliers = []
    for channel, values in enumerate(history.T):
        seen = np.flatnonzero(~np.isnan(values))
        if len(seen) < LEAST:
            continue
        most = max(1, int(SHARE * len(seen)))
        with np.errstate(over="ignore"):  # an infinite distance is farther than any other
            distances = np.abs(values[seen] - np.median(values[seen]))
        # A few are sorted, not all: those at least as far as the last that counts.
        least = np.partition(distances, -most - 1)[-most - 1]
        candidates = np.flatnonzero(distances >= least)
        farthest = candidates[np.argsort(-distances[candidates], kind="stable")[: most + 1]]
        near = distances[farthest[1:]]
        gaps = (near > 0) & np.isfinite(near) & (distances[farthest[:-1]] / FARTHER >= near)
        if gaps.any():
            count = int(np.flatnonzero(gaps)[-1]) + 1
            samples = np.sort(seen[farthest[:count]])
            outliers.append(ChannelOutliers(channel, samples, values[samples], len(seen)))
    return tuple(outliers)


def without(history: Floats, outliers: Sequence[ChannelOutliers]) -> Floats:
    """Return history (T, C) with these values missing; the same array where there are none."""
    if not outliers:
        return history
    cleaned = history.copy()
    for outlier in outliers:
        cleaned[outlier.samples, outlier.channel] = np.nan
    return cleaned
