"""What a committee accepts as normal besides history: other places, and patterns.

A place is a shift of the channels' levels. A sample there is judged as if it had stayed where it
was: it is moved back before any member sees it, so the old normal, the new one and the way between
them look the same. Which places the stream is at is decided sample by sample, by Hotelling's T²:
it stays where it is as long as the sample is within history's range there; else it goes where the
sample is. On the way between two accepted places the sample is moved back by a part of the shift,
which grows along the way.

A pattern is what the members voted while an alarm was open, at most, and its channels: a sample
that is no worse by any member, in the same channels, counts as quiet. A member that had no vote
then, as that of a window that was not full, does not matter.

Shapes: C channels, K places, S patterns, V votes.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from newnormal.kernels.compiled import compiled, inner, uncounted
from newnormal.kernels.linking import linked
from newnormal.kernels.step import copy
from newnormal.types import Floats, Floats32, Ints
from newnormal.types.tables import BINARY, KNOWN, SHIFT, Array, Counter, counters

PLACES = 16  # the first half belong to open changes, the others are accepted
PATTERNS = 10
_NEAR = 0.25  # of the way between two levels, up to which a sample is at one of them
_MARGIN = 1.0  # by which a vote may exceed that of an accepted pattern
GROWING = 30  # samples after an open alarm was accepted, for which its pattern grows
_SAME = 0.35  # share of a score that must be of the pattern's channels

# Positions in AcceptedState.counts.
NEXT_PLACE = 0  # places accepted so far
NEXT_PATTERN = 1  # patterns accepted so far
GROWS = 2  # samples that still belong to the newest pattern
_COUNTS = counters(places=NEXT_PLACE, patterns=NEXT_PATTERN, grows=Counter(GROWS, 0, GROWING))


class AcceptedState(NamedTuple):
    """Places and patterns."""

    # In history's standard deviations; 0 where unused
    shifts: Annotated[Floats, Array(PLACES, "C", range=SHIFT, seldom=True)]
    used: Annotated[Ints, Array(PLACES, range=BINARY)]  # 1 where there is a place
    at: Annotated[Ints, Array(PLACES, range=BINARY, seldom=True)]  # 1 where the stream is there
    # The highest votes; infinite where a member had none; unused rows -inf
    peaks: Annotated[Floats, Array(PATTERNS, "V", range=KNOWN, first=-np.inf, seldom=True)]
    # 1 for the channels of a pattern
    channels: Annotated[Floats, Array(PATTERNS, "C", range=BINARY, seldom=True)]
    counts: Annotated[Ints, _COUNTS]


@uncounted
def copy_accepted(source: AcceptedState, target: AcceptedState) -> None:
    """Copy places and patterns."""
    copy(source.shifts.reshape(source.shifts.size), target.shifts.reshape(source.shifts.size))
    copy(source.used, target.used)
    copy(source.at, target.at)
    copy(source.peaks.reshape(source.peaks.size), target.peaks.reshape(source.peaks.size))
    size = source.channels.size
    copy(source.channels.reshape(size), target.channels.reshape(size))
    copy(source.counts, target.counts)


@compiled
def move_back(
    sample: Floats,
    state: AcceptedState,
    mean: Floats32,
    inverse: Floats32,
    limit: float,
    moved: Floats,
) -> None:
    """Move a scaled sample (C,) back by the shifts of the places it is at; `moved` is by how much.

    `limit` is the largest T² of history.
    """
    shifts, used, at = state.shifts, state.used, state.at
    K, C = shifts.shape
    _sum_of(shifts, used, at, moved)
    trial = np.empty(C)
    least = _distance(sample, moved, mean, inverse)
    if least > limit:
        chosen, option = at.copy(), np.empty(K, np.int64)
        # From where it is, and from none: the place that brings it nearest is left or entered,
        # until none brings it nearer.
        for start in range(2):
            for k in range(K):
                option[k] = at[k] * (1 - start)
            _sum_of(shifts, used, option, trial)
            nearest = _distance(sample, trial, mean, inverse)
            toggled = 0
            while toggled >= 0:
                if nearest < least:
                    least = nearest
                    copy(option, chosen)
                toggled = -1
                for k in range(K):
                    if used[k] == 0:
                        continue
                    option[k] = 1 - option[k]
                    _sum_of(shifts, used, option, trial)
                    distance = _distance(sample, trial, mean, inverse)
                    option[k] = 1 - option[k]
                    if distance < nearest:
                        nearest = distance
                        toggled = k
                if toggled >= 0:
                    option[toggled] = 1 - option[toggled]
        if least <= limit:
            copy(chosen, at)
            _sum_of(shifts, used, at, moved)
    _blend(sample, state, mean, inverse, limit, trial, moved)
    for c in range(C):
        sample[c] -= moved[c]


linked_move_back = linked(move_back)


@compiled
def _blend(
    sample: Floats,
    state: AcceptedState,
    mean: Floats32,
    inverse: Floats32,
    limit: float,
    trial: Floats,
    moved: Floats,
) -> None:
    """Move a sample between two accepted levels by a part of the shift, which grows on the way.

    The part is 0 near the one and 1 near the other, so that what goes slowly from one to the other
    is moved back without a jump.
    """
    shifts, used, at = state.shifts, state.used, state.at
    K, C = shifts.shape
    least = _distance(sample, moved, mean, inverse)
    option = at.copy()
    best = moved.copy()
    for k in range(K // 2, K):
        if used[k] == 0:
            continue
        copy(at, option)
        option[k] = 0
        _sum_of(shifts, used, option, trial)
        way, length = _part(sample, trial, shifts[k], mean, inverse)
        if length == 0:
            continue
        near = min(_NEAR, np.sqrt(limit / length) / 2)
        part = min(max((way - near) / (1 - 2 * near), 0.0), 1.0)
        for c in range(C):
            trial[c] += part * shifts[k, c]
        distance = _distance(sample, trial, mean, inverse)
        if distance < least:
            least = distance
            copy(trial, best)
    copy(best, moved)


@inner
def _sum_of(shifts: Floats, used: Ints, at: Ints, total: Floats) -> None:
    K, C = shifts.shape
    total[:] = 0
    for k in range(K):
        if used[k] and at[k]:
            for c in range(C):
                total[c] += shifts[k, c]


@inner
def _distance(sample: Floats, moved: Floats, mean: Floats32, inverse: Floats32) -> float:
    """Return T² of a sample moved back; a missing value counts as the mean."""
    C = len(sample)
    total = 0.0
    for c in range(C):
        if np.isnan(sample[c]):
            continue
        product = 0.0
        for i in range(C):
            if not np.isnan(sample[i]):
                product += inverse[c, i] * (sample[i] - moved[i] - mean[i])
        total += product * (sample[c] - moved[c] - mean[c])
    return total


@inner
def _part(
    sample: Floats, moved: Floats, shift: Floats, mean: Floats32, inverse: Floats32
) -> tuple[float, float]:
    """Return the part of a shift that brings a sample nearest to the mean, and its own T²."""
    C = len(sample)
    above = 0.0
    below = 0.0
    for c in range(C):
        if np.isnan(sample[c]):
            continue
        product = 0.0
        for i in range(C):
            if not np.isnan(sample[i]):
                product += inverse[c, i] * shift[i]
        above += product * (sample[c] - moved[c] - mean[c])
        below += product * shift[c]
    return (above / below, below) if below > 0 else (0.0, 0.0)


@linked
@inner
def is_accepted(votes: Floats32, shares: Floats32, state: AcceptedState) -> bool:
    """Whether a sample's votes (V,) are no worse than those of a pattern, in its channels.

    For GROWING samples after an open alarm was accepted, what goes on belongs to its pattern.
    """
    S, V = state.peaks.shape
    total = 0.0
    for c in range(len(shares)):
        total += shares[c]
    if state.counts[GROWS] > 0:
        state.counts[GROWS] -= 1
        s = (state.counts[NEXT_PATTERN] - 1) % S
        for v in range(V):
            if votes[v] > state.peaks[s, v]:  # not so for NaN
                state.peaks[s, v] = votes[v]
        return True
    for s in range(min(S, state.counts[NEXT_PATTERN])):
        same = 0.0
        for c in range(len(shares)):
            same += shares[c] * state.channels[s, c]
        if same < _SAME * total:
            continue
        worse = False
        for v in range(V):
            if votes[v] > state.peaks[s, v] + _MARGIN:
                worse = True
        if not worse:
            return True
    return False
