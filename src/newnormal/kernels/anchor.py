"""Where a stream is, beside where its accepted normal is, sample by sample.

A stream's position has four parts, each of a value a channel:

1. what the other channels' levels leave unexplained of a level, so that a daily cycle they share
   does not hide a change of one;
2. the level itself, for what they do together;
3. the logarithm of its roughness, the size of its steps from sample to sample;
4. the logarithm of how many samples it has stood still.

Level and roughness are slow averages. A position is compared with the range that was normal,
however slowly it came there, and with where the stream was before an alarm: normal streams wander
too, but only so far in so many samples.

Shapes: T samples handed in, C channels, K lags.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from newnormal.kernels.compiled import compiled, inlined
from newnormal.types import Floats, Ints

__all__ = [
    "AWAY",
    "DISTANCE",
    "EVERY",
    "FAR",
    "HOME",
    "JUMP",
    "KEEP",
    "LINEAR",
    "MARK",
    "NEAR",
    "SEEN",
    "WARM",
    "WHERE",
    "Chart",
    "Place",
    "follow",
    "measure",
    "rung",
    "trace",
]

# Positions in Place.distances.
DISTANCE = 0  # from the accepted normal; 1 is its limit
JUMP = 1  # from the mark; 1 is as far as a normal stream wanders in that time

# Positions in Place.counts.
SEEN = 0  # samples seen
WHERE = 1  # the channel farthest out
MARK = 2  # samples seen when the mark was set; -1 without one

# What is said of a sample.
HOME = 0
AWAY = 1  # an open alarm stays open
FAR = 2  # an alarm opens

KEEP = 0.5 ** (1 / 30)  # of a level at each sample: a half-life of 30 samples
_KEEP_STEP = 0.5 ** (1 / 12)  # of a roughness: a sensor that stands still is noticed sooner
NEAR = 0.25  # of the limit, beyond which a stream is away
_MISSED = 30  # samples without a value, after which a channel is not known
WARM = 60  # samples until a place is known
EVERY = 8  # samples between measurements, which cost more than all the rest
# Beyond 20 of history's standard deviations a tenfold value counts 4 more, and 40 is the most: one
# absurd value is not a place, and yet what goes on drifting is noticed to.
LINEAR = 20.0
_TENFOLD = 4.0
_MOST = 40.0
_LONGEST_STEP = 5.0  # for the same reason
_LEAST = 0.001  # of them a step: nothing less is told from standing still


class Place(NamedTuple):
    """What changes while a stream runs."""

    levels: Floats  # (C,) in history's standard deviations
    steps: Floats  # (C,) the mean absolute step
    still: Floats  # (C,) the samples since it last moved
    last: Floats  # (C,) the newest value; NaN before the first
    missing: Floats  # (C,) the samples for which it has been missing
    position: Floats  # (4 C,) when last measured
    start: Floats  # (4 C,) the position at the mark
    distances: Floats  # (2,) when last measured: DISTANCE and JUMP
    counts: Ints  # (3,) SEEN, WHERE and MARK


class Chart(NamedTuple):
    """Where normal is."""

    mean: Floats  # (C,) of history
    scale: Floats  # (C,)
    centre: Floats  # (C,) the usual level
    blend: Floats  # (C, C) from levels to what the others do not explain of them
    lows: Floats  # (4 C,) the range of a position that was normal
    highs: Floats  # (4 C,)
    margins: Floats  # (4 C,) beyond that range: the limit
    wanders: Floats  # (K, 4 C) the farthest a normal position goes in EVERY · 2^k samples


@compiled
def follow(
    samples: Floats, place: Place, chart: Chart, flags: NDArray[np.int8], where: Ints
) -> None:
    """Consume samples (T, C); write HOME, AWAY or FAR for each, and the channel farthest out."""
    for t in range(len(samples)):
        _move(samples[t], place, chart)
        if place.counts[SEEN] >= WARM and place.counts[SEEN] % EVERY == 0:
            measure(place, chart)
        distance, jump = place.distances
        flags[t] = FAR if distance > 1 else AWAY if distance > NEAR or jump > 1 else HOME
        where[t] = place.counts[WHERE]


@compiled
def trace(samples: Floats, place: Place, chart: Chart, positions: Floats) -> None:
    """Consume samples (T, C) and write the position after each, (T, 4 C)."""
    for t in range(len(samples)):
        _move(samples[t], place, chart)
        measure(place, chart)
        positions[t] = place.position


@inlined
def _move(sample: Floats, place: Place, chart: Chart) -> None:
    place.counts[SEEN] += 1
    share = max(1 - KEEP, 1 / place.counts[SEEN])
    step_share = max(1 - _KEEP_STEP, 1 / place.counts[SEEN])
    for c in range(len(sample)):
        if np.isnan(sample[c]):
            place.missing[c] += 1
            continue
        place.missing[c] = 0
        z = (sample[c] - chart.mean[c]) / chart.scale[c]
        if abs(z) > LINEAR:
            far = LINEAR + _TENFOLD * np.log10(abs(z) / LINEAR)
            z = np.copysign(min(far, _MOST), z)
        place.levels[c] += share * (z - place.levels[c])
        if not np.isnan(place.last[c]):
            step = min(abs(z - place.last[c]), _LONGEST_STEP)
            place.steps[c] += step_share * (step - place.steps[c])
            place.still[c] = 0.0 if step > 0 else place.still[c] + 1
        place.last[c] = z


@compiled
def rung(lag: int, lags: int) -> int:
    """Return which of so many lags, EVERY · 2^k samples each, is the least that is no shorter."""
    k = 0
    while k < lags - 1 and EVERY * 2**k < lag:
        k += 1
    return k


@compiled
def measure(place: Place, chart: Chart) -> None:
    """Bring position, distances and the farthest channel up to date."""
    C = len(place.levels)
    # A channel that is missing stays where it was last seen; what the others leave unexplained is
    # not known without it, and stays as well.
    known = True
    for c in range(C):
        known = known and place.missing[c] <= _MISSED
    for c in range(C):
        if known:
            level = 0.0
            for k in range(C):
                level += chart.blend[c, k] * (place.levels[k] - chart.centre[k])
            place.position[c] = level
        place.position[C + c] = place.levels[c] - chart.centre[c]
        place.position[2 * C + c] = np.log(place.steps[c] + _LEAST)
        place.position[3 * C + c] = np.log(place.still[c] + 1)

    distance = jump = 0.0
    k = rung(place.counts[SEEN] - place.counts[MARK], len(chart.wanders))
    for j in range(4 * C):
        p = place.position[j]
        out = max(chart.lows[j] - p, p - chart.highs[j]) / chart.margins[j]
        if out > distance:
            distance = out
            place.counts[WHERE] = j % C
        if place.counts[MARK] >= 0:
            jump = max(jump, abs(p - place.start[j]) / chart.wanders[k, j])
    place.distances[DISTANCE] = distance
    place.distances[JUMP] = jump
