"""The members of a committee that have no trend: forecast, level, windows, shapes and rhythm.

Each gives a squared residual for each channel of a sample, from which `vote_members` makes votes as
`newnormal.kernels.committee` does. They are fitted on history (`newnormal.models.members`) and do
not learn.

forecast  the sample minus a linear forecast from the last P samples of all channels
level     Hotelling's T² of the sample
windows   the last SPAN samples, as means of pairs, outside a linear subspace
shapes    the last samples, as BLOCKS means of `block` and centred, from the nearest of M shapes
rhythm    the sample minus the level that is usual at this phase, in units of its usual spread

A missing value is replaced by what the channel judge expects of it, or else by the channel's last
observed one, and its residual does not count. Nor does that of a channel in `windows` and `shapes`
while so many values in a row are in its window.

How many blocks there are is taken from the lengths of arrays: of a loop with a constant number of
turns LLVM writes each turn out, which doubled the time to compile it and gained nothing.

Shapes: T samples, C channels, K rank of the subspace, M shapes, B bins of the rhythm, V votes.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from newnormal.kernels.compiled import inlined, inner
from newnormal.kernels.linking import linked
from newnormal.kernels.mlp import request
from newnormal.types import Floats, Floats32, Ints
from newnormal.types.tables import (
    ANY,
    BOUNDED,
    NOT_NEGATIVE,
    SPREAD,
    UNIT,
    Array,
    Counter,
    Scalar,
    counters,
)

KINDS = ("forecast", "level", "windows", "shapes", "rhythm")
FORECAST, LEVEL, WINDOWS, SHAPES, RHYTHM = range(5)

PAST = 5  # samples that the forecast takes
BLOCKS = 10  # means that a window is made of
SPAN = 20  # samples of a window
_PAIR = 2  # samples of a window's mean
BLOCK = 10  # samples of a shape's mean, at most
LONG = 100  # samples of a shape, likewise
SPANS = (PAST + 1, 1, SPAN, LONG, 1)  # samples that each member takes at most
PRESSED = 3.0  # what a pressed vote is beyond it counts by its logarithm
RUN = 8  # values filled in a row: from so many on they are no window of this channel
FAR = 1e3  # in history's standard deviations: the farthest that a value is taken for

LEAST = 1e-12  # a residual of exactly nothing still has a logarithm
_SHAPES_A_REQUEST = 4
_FAINT = 1e-3  # what a vote of 0 counts in the shares of channels

# Positions in MembersState.counts.
HEAD = 0  # the row of `means` that comes next
HELD = 1  # samples since the start, LONG at most
_COUNTS = counters(head=Counter(HEAD, 0, LONG - 1), held=Counter(HELD, 0, LONG))


class MembersState(NamedTuple):
    """The newest samples, in history's standard deviations, within ±FAR."""

    recent: Annotated[Floats32, Array(SPAN, "C", range=BOUNDED)]  # the newest last
    # Means of the newest `block` at each sample, in a ring
    means: Annotated[Floats32, Array(LONG, "C", range=BOUNDED, seldom=True)]
    counts: Annotated[Ints, _COUNTS]
    # How many of the newest values in a row were filled; below 0: for how many samples a row of RUN
    # is still in the longest window
    filled: Annotated[Ints, Array("C", range=ANY)]


class MembersParams(NamedTuple):
    """What fitting found."""

    forecast: Annotated[Floats32, Array("C", f"{PAST}C", range=BOUNDED)]  # the oldest sample first
    intercept: Annotated[Floats32, Array("C", range=BOUNDED)]
    level_mean: Annotated[Floats32, Array("C", range=BOUNDED)]
    level_inverse: Annotated[Floats32, Array("C", "C", range=BOUNDED)]
    windows_mean: Annotated[Floats32, Array(f"{BLOCKS}C", range=BOUNDED)]
    # Orthonormal rows; unused ones are 0
    windows_basis: Annotated[Floats32, Array("D", f"{BLOCKS}C", range=UNIT)]
    shapes: Annotated[Floats32, Array("H", f"{BLOCKS}C", range=BOUNDED)]  # the newest block first
    rhythm_levels: Annotated[Floats32, Array("B", "C", range=BOUNDED, seldom=True)]
    rhythm_spreads: Annotated[Floats32, Array("B", "C", range=SPREAD, first=1.0, seldom=True)]
    # Subtracted from each vote at this phase
    usual_votes: Annotated[Floats32, Array("B", "V", range=NOT_NEGATIVE)]
    block: Annotated[int, Scalar(1, BLOCK)]  # samples of a shape's mean


class MembersWork(NamedTuple):
    """Working memory; what it holds before is not read."""

    filled: Floats32  # (C,) the sample, its missing values filled
    window: Floats32  # (BLOCKS C,)
    rest: Floats32  # (BLOCKS C,)
    square: Floats  # (C,) a member's squared residuals


@inner
def usual(phase: float, usual_votes: Floats32, v: int) -> float:
    """Return what a vote usually is at this phase; 0 where the phase is unknown."""
    if np.isnan(phase):
        return 0.0
    return float(usual_votes[int(phase) % len(usual_votes), v])


@inner
def pressed(vote: float) -> float:
    """Return a vote of `windows` or `shapes`: from PRESSED on, what is beyond counts by its log.

    One sample far off is in a hundred windows: it must not count in all of them as it does itself.
    """
    return vote if vote <= PRESSED else PRESSED + np.log1p(vote - PRESSED)


@inner
def emphasis(vote: float, weight: float) -> float:
    """Return how much a vote counts in the shares of channels: as it does in the score.

    Where no vote is above 0 they count by their weights.
    """
    return weight * (max(vote, 0.0) + _FAINT)


@linked
@inner
def vote_members(
    work: MembersWork,
    ahead: Ints,
    scaled: Floats,
    clean: Floats,
    phases: Floats,
    state: MembersState,
    params: MembersParams,
    residual_scale: Floats,
    centers: Floats,
    spreads: Floats,
    weights: Floats,
    smoothed: Ints,
    votes: Floats,
    prompt: Floats,
    shares: Floats32,
    squares: Floats,
    each: Floats32,
) -> None:
    """Add the votes on scaled samples (R, C) to `votes` (R,), and what they rest on to `shares`.

    Those that are not smoothed are added to `prompt` (R,) instead. `clean` (R, C) is what replaces
    missing values; where it is NaN the channel's last value does.
    `ahead` is what to `request` meanwhile.
    `each` (R, members) gets every vote, `squares` (members, R, C), which may be empty, what each
    rests on. Calibration and weights are those of the members alone.
    """
    R, C = scaled.shape
    M = len(weights)
    before = params.usual_votes.shape[1] - M  # votes of experts
    square = work.square
    for r in range(R):
        sample = scaled[r]
        if not _remember(sample, clean[r], params.block, state, work.filled):
            votes[r] = np.nan
            continue
        for v in range(M):
            if weights[v] == 0:
                continue
            together = votes if smoothed[v] else prompt
            known = _squares_of(v, sample, phases[r], state, params, work, ahead, square)
            observed = 0.0
            for c in range(C):
                if np.isnan(sample[c]) or is_filled(v, state.filled[c], params.block):
                    square[c] = 0.0
                else:
                    observed += 1.0
            if squares.size:
                for c in range(C):
                    squares[v, r, c] = square[c] if known else np.nan
            if not known or observed == 0:
                continue
            total = 0.0
            for c in range(C):
                square[c] /= residual_scale[v, c]
                total += square[c]
            vote = (np.log(total / observed + LEAST) - centers[v]) / spreads[v]
            vote -= usual(phases[r], params.usual_votes, before + v)
            if v == WINDOWS or v == SHAPES:
                vote = pressed(vote)
            each[r, v] = vote
            together[r] += weights[v] * max(vote, 0.0)
            weight = emphasis(vote, weights[v])
            for c in range(C):
                if total > 0:
                    shares[r, c] += weight * square[c] / total


@inlined
def is_filled(kind: int, filled: int, block: int) -> bool:
    """Whether the window of a member has a row of values of a channel that were filled."""
    since = LONG + filled if filled < 0 else LONG
    return (kind == WINDOWS and since < SPAN) or (kind == SHAPES and since < block * BLOCKS)


@linked
@inner
def _remember(
    sample: Floats, clean: Floats, block: int, state: MembersState, filled: Floats32
) -> bool:
    """Append a scaled sample (C,) to the newest ones; `filled` is it without missing values.

    Returns whether anything was observed.
    """
    recent, means, counts, rows = state
    C = len(sample)
    anything = False
    for c in range(C):
        if np.isnan(sample[c]):
            rows[c] += rows[c] >= 0
        else:
            anything = True
            rows[c] = -LONG if rows[c] >= RUN else min(rows[c], -1) + 1
        z = clean[c] if np.isnan(sample[c]) else sample[c]
        z = FAR if z > FAR else z
        z = -FAR if z < -FAR else z
        filled[c] = recent[SPAN - 1, c] if np.isnan(z) else np.float32(z)
    for k in range(len(recent) - 1):
        for c in range(C):
            recent[k, c] = recent[k + 1, c]
    head = counts[HEAD]
    for c in range(C):
        recent[SPAN - 1, c] = filled[c]
        total = np.float32(0)
        for k in range(SPAN - block, SPAN):
            total += recent[k, c]
        means[head, c] = total / np.float32(block)
    counts[HEAD] = (head + 1) % LONG
    counts[HELD] = min(counts[HELD] + 1, LONG)
    return anything


@linked
@inner
def _squares_of(
    kind: int,
    sample: Floats,
    phase: float,
    state: MembersState,
    params: MembersParams,
    work: MembersWork,
    ahead: Ints,
    squares: Floats,
) -> bool:
    """Fill a member's squared residuals (C,) of the newest sample.

    `_remember` has appended the sample. Returns whether the member has a vote yet.
    """
    held = state.counts[HELD]
    if kind == FORECAST:
        if held <= PAST:
            return False
        _forecast(state.recent, params.forecast, params.intercept, work.filled, ahead, squares)
    elif kind == LEVEL:
        _level(sample, work.filled, params.level_mean, params.level_inverse, work.window, squares)
    elif kind == WINDOWS:
        if held < SPAN:
            return False
        _windows(state.recent, params.windows_mean, params.windows_basis, work, ahead, squares)
    elif kind == SHAPES:
        if held < params.block * BLOCKS:
            return False
        _shapes(state, params, work.window, ahead, squares)
    else:
        if np.isnan(phase):
            return False
        _rhythm(phase, params.rhythm_levels, params.rhythm_spreads, work.filled, squares)
    return True


@inlined
def _forecast(
    recent: Floats32,
    matrix: Floats32,
    intercept: Floats32,
    filled: Floats32,
    ahead: Ints,
    squares: Floats,
) -> None:
    C, n = matrix.shape
    past = recent[SPAN - 1 - PAST : SPAN - 1].reshape(n)
    for c in range(C):
        total = np.float32(0)
        request(ahead)
        for i in range(n):
            total += matrix[c, i] * past[i]
        residual = np.float64(filled[c] - total - intercept[c])
        squares[c] = residual * residual


@inlined
def _level(
    sample: Floats,
    filled: Floats32,
    mean: Floats32,
    inverse: Floats32,
    away: Floats32,
    squares: Floats,
) -> None:
    """T² over the observed channels, divided among those that add to it."""
    C = len(filled)
    for c in range(C):
        away[c] = filled[c] - mean[c]
    total = 0.0
    above = 0.0
    for c in range(C):
        product = np.float32(0)
        for i in range(C):
            product += inverse[c, i] * away[i]
        part = 0.0 if np.isnan(sample[c]) else np.float64(product) * np.float64(away[c])
        total += part
        squares[c] = max(part, 0.0)
        above += squares[c]
    share = max(total, 0.0) / above if above > 0 else 0.0
    for c in range(C):
        squares[c] *= share


@inlined
def _windows(
    recent: Floats32,
    mean: Floats32,
    basis: Floats32,
    work: MembersWork,
    ahead: Ints,
    squares: Floats,
) -> None:
    K, n = basis.shape
    C = n // BLOCKS
    window, rest = work.window, work.rest
    for b in range(n // C):
        for c in range(C):
            i = b * C + c
            both = recent[_PAIR * b, c] + recent[_PAIR * b + 1, c]
            window[i] = both * np.float32(1 / _PAIR) - mean[i]
    for i in range(n):
        rest[i] = window[i]
    for k in range(K):
        length = np.float32(0)
        request(ahead)
        for i in range(n):
            length += basis[k, i] * window[i]
        for i in range(n):
            rest[i] -= length * basis[k, i]
    _mean_squares(rest, squares)


@inlined
def _shapes(
    state: MembersState, params: MembersParams, window: Floats32, ahead: Ints, squares: Floats
) -> None:
    means, head, shapes, block = state.means, state.counts[HEAD], params.shapes, params.block
    M, n = shapes.shape
    C = n // BLOCKS
    for c in range(C):
        squares[c] = 0.0
    for b in range(n // C):
        row = (head + LONG - 1 - block * b) % LONG
        for c in range(C):
            window[b * C + c] = means[row, c]
            squares[c] += means[row, c]
    for b in range(n // C):
        for c in range(C):
            window[b * C + c] -= np.float32(squares[c] * (1 / BLOCKS))
    nearest, least = 0, np.float32(np.inf)
    for m in range(M):
        distance = np.float32(0)
        if m % _SHAPES_A_REQUEST == 0:
            request(ahead)
        for i in range(n):
            away = window[i] - shapes[m, i]
            distance += away * away
        if distance < least:
            nearest, least = m, distance
    for i in range(n):
        window[i] -= shapes[nearest, i]
    _mean_squares(window, squares)


@inlined
def _mean_squares(rest: Floats32, squares: Floats) -> None:
    """Fill the mean over blocks of each channel's squares."""
    C = len(squares)
    for c in range(C):
        squares[c] = 0.0
    for b in range(len(rest) // C):
        for c in range(C):
            each = np.float64(rest[b * C + c])
            squares[c] += each * each
    for c in range(C):
        squares[c] *= 1 / BLOCKS


@inlined
def _rhythm(
    phase: float, levels: Floats32, spreads: Floats32, filled: Floats32, squares: Floats
) -> None:
    """Level and spread are interpolated between bins; the last one is beside the first."""
    B = len(levels)
    low = int(phase) % B
    high = (low + 1) % B
    part = phase - np.floor(phase)
    for c in range(len(filled)):
        level = (1 - part) * levels[low, c] + part * levels[high, c]
        spread = (1 - part) * spreads[low, c] + part * spreads[high, c]
        residual = (filled[c] - level) / spread
        squares[c] = residual * residual
