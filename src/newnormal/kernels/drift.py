"""How far a stream is from its accepted normal, sample by sample.

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

from typing import Annotated, NamedTuple

import numpy as np

from newnormal.kernels.compiled import inlined, uncounted
from newnormal.kernels.linking import linked
from newnormal.kernels.step import copy
from newnormal.types import Bools, Floats, Floats32, Ints
from newnormal.types.tables import (
    ABOVE,
    BINARY,
    KNOWN,
    LEVEL,
    NOT_NEGATIVE,
    OBSERVED,
    POSITIVE,
    Array,
    Counter,
    counters,
)

# Positions in DriftState.counts.
SEEN = 0  # samples seen
MARK = 1  # samples seen when the mark was set; -1 without one
CROSSED = 2  # 1 once a channel went beyond the limit, until the next review
_COUNTS = counters(samples=SEEN, mark=Counter(MARK, -1, "samples"), crossed=Counter(CROSSED, 0, 1))

SETTLING = 128  # samples until the level of a changed channel is where it will stay
KEEP = 0.5 ** (1 / 30)  # of a level at each sample: a half-life of 30 samples
_KEEP_STEP = 0.5 ** (1 / 12)  # of a roughness: a stuck sensor is noticed sooner
NEAR = 0.25  # of the limit, beyond which a channel is outside its accepted normal
_MISSED = 30  # samples without a value, after which a channel is not known
WARM = 60  # samples until a position is known
EVERY = 8  # samples between measurements, which cost more than all the rest
# Beyond 20 of history's standard deviations a tenfold value counts 4 more, and 40 is the most: one
# absurd value is not a level, and what goes on drifting is still measured.
LINEAR = 20.0
TENFOLD = 4.0
MOST = 40.0
_LONGEST_STEP = 5.0  # for the same reason
LEAST_STEP = 0.001  # of them a step: a smaller one counts as standing still


class DriftState(NamedTuple):
    """What changes while a stream runs."""

    levels: Annotated[Floats, Array("C", range=LEVEL)]  # in history's standard deviations
    steps: Annotated[Floats, Array("C", range=NOT_NEGATIVE)]  # the mean absolute step
    unchanged_for: Annotated[
        Floats, Array("C", range=NOT_NEGATIVE)
    ]  # the samples since it last moved
    # The newest value, what is hidden replaced; NaN before the first
    last: Annotated[Floats, Array("C", range=OBSERVED, first=np.nan)]
    seen: Annotated[Floats, Array("C", range=OBSERVED, first=np.nan)]  # the same as observed
    # The samples for which it has been missing
    missing: Annotated[Floats, Array("C", range=NOT_NEGATIVE)]
    position: Annotated[Floats, Array("4C", seldom=True)]  # when last measured
    start: Annotated[Floats, Array("4C", seldom=True)]  # the position at the mark
    # Of each channel from the accepted normal, when last measured; limit 1
    distances: Annotated[Floats, Array("C", range=NOT_NEGATIVE)]
    # From the mark; 1 is as far as a normal stream max_drift in that time
    jumps: Annotated[Floats, Array("C", range=NOT_NEGATIVE, seldom=True)]
    # The distances at the newest sample that crossed the limit
    crossing: Annotated[Floats, Array("C", range=NOT_NEGATIVE, seldom=True)]
    in_change: Annotated[Floats, Array("C", range=BINARY)]  # 1 for the channels of an open change
    # The range of a position that was accepted as normal
    lows: Annotated[Floats, Array("4C", seldom=True)]
    highs: Annotated[Floats, Array("4C", range=KNOWN, seldom=True)]
    counts: Annotated[Ints, _COUNTS]


class DriftParams(NamedTuple):
    """How positions are measured and compared: as `fit` left it."""

    mean: Annotated[Floats, Array("C")]  # of history
    scale: Annotated[Floats, Array("C", range=POSITIVE)]
    centre: Annotated[Floats, Array("C", range=LEVEL, seldom=True)]  # the usual level
    # From levels to what the others do not explain of them
    unexplained: Annotated[Floats, Array("C", "C", seldom=True)]
    # Beyond that range: the limit
    margins: Annotated[Floats, Array("4C", range=POSITIVE, seldom=True)]
    # The farthest a normal position goes in EVERY · 2^k samples
    max_drift: Annotated[Floats, Array("W", "4C", range=ABOVE, seldom=True)]


class DriftOut(NamedTuple):
    """Where each sample leaves the stream."""

    distances: Floats  # (T,) of the farthest channel
    crossings: Bools  # (T,) whether a channel of no open change crosses the limit


@uncounted
def advance(
    samples: Floats,
    expected: Floats,
    hidden: Ints,
    state: DriftState,
    params: DriftParams,
    out: DriftOut,
) -> int:
    """Consume samples (T, C) up to one that crosses the limit; return how many.

    What is `hidden` (T, C) is replaced by what is `expected`: only whether a channel stands still
    is measured on what was observed. Both may be empty: then nothing is hidden.

    Write where each leaves the stream. At most one sample crosses the limit between two reviews.
    """
    C = len(state.levels)
    farthest = _largest(state.distances)
    for t in range(len(samples)):
        row = t if len(hidden) else 0
        _move(samples[t], expected[row : row + 1], hidden[row : row + 1], state, params)
        out.crossings[t] = False
        if state.counts[SEEN] >= WARM and state.counts[SEEN] % EVERY == 0:
            _measure(state, params)
            farthest = _largest(state.distances)
            if state.counts[CROSSED] == 0:
                for c in range(C):
                    if state.distances[c] > 1 and state.in_change[c] == 0:
                        state.counts[CROSSED] = 1
                if state.counts[CROSSED]:
                    copy(state.distances, state.crossing)
                    out.crossings[t] = True
        out.distances[t] = farthest
        if out.crossings[t]:
            return t + 1
    return len(samples)


linked_advance = linked(advance)


@uncounted
def trace(
    samples: Floats, nothing: Ints, state: DriftState, params: DriftParams, positions: Floats
) -> None:
    """Consume samples (T, C) and write the position after each, (T, 4 C); nothing is hidden."""
    for t in range(len(samples)):
        _move(samples[t], samples[:0], nothing, state, params)
        _measure(state, params)
        copy(state.position, positions[t])


@inlined
def _largest(values: Floats) -> float:
    largest = float(values[0])
    for c in range(1, len(values)):
        largest = max(largest, values[c])
    return largest


@inlined
def _move(
    sample: Floats, expected: Floats, hidden: Ints, state: DriftState, params: DriftParams
) -> None:
    state.counts[SEEN] += 1
    share = max(1 - KEEP, 1 / state.counts[SEEN])
    step_share = max(1 - _KEEP_STEP, 1 / state.counts[SEEN])
    for c in range(len(sample)):
        if np.isnan(sample[c]):
            state.missing[c] += 1
            continue
        state.missing[c] = 0
        is_hidden = len(hidden) > 0 and hidden[0, c] != 0
        clean = expected[0, c] if is_hidden else sample[c]
        z = _squeezed((clean - params.mean[c]) / params.scale[c])
        state.levels[c] += share * (z - state.levels[c])
        seen = _squeezed((sample[c] - params.mean[c]) / params.scale[c])
        if not np.isnan(state.last[c]):
            if not is_hidden:  # what is expected is smooth
                step = min(abs(z - state.last[c]), _LONGEST_STEP)
                state.steps[c] += step_share * (step - state.steps[c])
            is_still = seen == state.seen[c]
            state.unchanged_for[c] = state.unchanged_for[c] + 1 if is_still else 0.0
        state.last[c] = z
        state.seen[c] = seen


@inlined
def _squeezed(z: float) -> float:
    """Return a scaled value as levels are measured."""
    if abs(z) > LINEAR:
        far = LINEAR + TENFOLD * np.log10(abs(z) / LINEAR)
        z = np.copysign(min(far, MOST), z)
    return z


@uncounted
def lag_index(lag: int, lags: int) -> int:
    """Return which of so many lags, EVERY · 2^k samples each, is the least that is no shorter."""
    k = 0
    while k < lags - 1 and EVERY << k < lag:
        k += 1
    return k


@uncounted
def weights_moved(weights: Floats32, fitted: Floats32) -> float:
    """Return how far weights are from the fitted ones, in the length of the fitted; 0 without any.

    Compiled, because a BLAS adds in an order that depends on its number of threads, and waits for
    them: 18 ms instead of 60 µs on a busy machine.
    """
    apart = 0.0
    length = 0.0
    for i in range(len(weights)):
        there = np.float64(fitted[i])
        move = np.float64(weights[i]) - there
        apart += move * move
        length += there * there
    return np.sqrt(apart / length) if length > 0 else 0.0


@uncounted
def measure(state: DriftState, params: DriftParams) -> None:
    """Bring position, distances and jumps up to date."""
    C = len(state.levels)
    # A channel that is missing stays where it was last seen; what the others leave unexplained is
    # not known without it, and stays as well.
    known = True
    for c in range(C):
        known = known and state.missing[c] <= _MISSED
    # A changed channel explains nothing of the others: what it leaves of them is held.
    held = _largest(state.in_change) > 0
    for c in range(C):
        if known and (state.in_change[c] != 0 or not held):
            level = 0.0
            for k in range(C):
                level += params.unexplained[c, k] * (state.levels[k] - params.centre[k])
            state.position[c] = level
        state.position[C + c] = state.levels[c] - params.centre[c]
        state.position[2 * C + c] = np.log(state.steps[c] + LEAST_STEP)
        state.position[3 * C + c] = np.log(state.unchanged_for[c] + 1)

    k = lag_index(state.counts[SEEN] - state.counts[MARK], len(params.max_drift))
    marked = state.counts[MARK] >= 0
    for c in range(C):
        distance = jump = 0.0
        for part in range(4):
            j = part * C + c
            p = state.position[j]
            distance = max(distance, max(state.lows[j] - p, p - state.highs[j]) / params.margins[j])
            if marked:
                jump = max(jump, abs(p - state.start[j]) / params.max_drift[k, j])
        state.distances[c] = distance
        state.jumps[c] = jump


_measure = linked(measure)
