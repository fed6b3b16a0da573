"""The method: Algorithm 1 of the paper, sample by sample, in one compiled loop.

`advance` is the whole of it. A window is judged every `stride` samples; once per `window` samples,
at the end of a cycle, the trend and the weights move as well. The order within a judgement is a
contract:

1. the trend is updated with the window, anomalous or not (end of cycle only);
2. the trend is subtracted;
3. the window is reconstructed and scored with the weights as they were;
4. the newest samples' scores are compared with the threshold, which makes the verdicts;
5. the learnable samples are chosen, and one SGD step taken on them (end of cycle only).

So a verdict never depends on the update it causes.

Shapes: T samples handed in, L window length, C channels, P weights, N units of the network. All
arrays of one stream are contiguous, so that streams of one shape can be stacked along a new first
axis.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from newnormal.kernels.compiled import compiled, inlined, inner
from newnormal.kernels.decision import decide
from newnormal.kernels.linking import linked
from newnormal.kernels.mlp import NOTHING_AHEAD, descend, forward
from newnormal.types import Bools, Floats, Floats32, Ints
from newnormal.types.tables import (
    ANY,
    BOUNDED,
    OBSERVED,
    POSITIVE,
    Array,
    Counter,
    Scalar,
    counters,
)

# A scaled value beyond this is as good as infinite and would overflow float32 when squared.
SATURATION = 1e15
LARGEST = np.finfo(np.float64).max  # expected values stay within it
# A bound on the weights below this proves them finite without looking at each.
_SAFE = 1e37
# Windows between good copies: a copy at every step would cost a fifth of the speed at the large
# size (12, 55, 128).
COPY_EVERY = 64

# Positions in StepState.counts.
SEEN = 0  # samples consumed since fit
HELD = 1  # how many rows of StepState.samples are filled
PENDING = 2  # newest samples that have no verdict yet
CYCLE = 3  # samples since the trend and the weights last moved
AGE = 4  # learning steps since the good copy was made
LEARNED = 5  # learning steps taken
RESTORED = 6  # times the guard put the good copy back
STEP_COUNTS = counters(
    seen=SEEN,
    held=Counter(HELD, 0, "L"),
    pending=Counter(PENDING, 0, "held"),
    cycle=Counter(CYCLE, 0, "L"),
    age=AGE,
    learned=LEARNED,
    restored=RESTORED,
)


_at = np.uint64  # a place in a packed vector: see kernels.mlp

_forward = linked(forward)
_descend = linked(descend)


class StepState(NamedTuple):
    """What changes while a stream runs."""

    # The newest samples in the user's units, the newest last
    samples: Annotated[Floats, Array("L", "C", range=OBSERVED, first=np.nan)]
    trend: Annotated[Floats, Array("C", range=BOUNDED)]  # μ, in scaled units
    weights: Annotated[Floats32, Array("P")]  # θ
    good: Annotated[Floats32, Array("P", seldom=True)]  # a copy of the weights known to be finite
    reach: Annotated[Floats, Array(1, range=ANY)]  # an upper bound on the size of any weight
    counts: Annotated[Ints, STEP_COUNTS]


class StepParams(NamedTuple):
    """What the loop follows: as `fit` left it, but for the thresholds."""

    mean: Annotated[Floats, Array("C")]  # of history
    scale: Annotated[Floats, Array("C", range=POSITIVE)]  # of history
    fitted: Annotated[Floats32, Array("P", seldom=True)]  # the weights as fitted
    stride: Annotated[int, Scalar(1, 1e9)]
    alarm_threshold: Annotated[float, Scalar()]  # a sample that scores this or more is anomalous
    learn_threshold: Annotated[float, Scalar()]  # a sample that scores less is learned from
    decay: Annotated[float, Scalar(0, 1)]  # γ per cycle; 1 holds the trend
    lr: Annotated[np.float32, Scalar(0, 3.5e38)]  # η; 0 holds the weights


class StepOut(NamedTuple):
    """Verdicts: a row for each pending sample, then a row for each new one."""

    scores: Floats
    anomalous: Bools
    expected: Floats  # (rows, C)
    shares: Floats32  # (rows, C)


class StepWork(NamedTuple):
    """Working memory of `advance`, the window while it is judged.

    What it holds before is not read, but for the list `ahead`.

    Loops over it have no branches, so that they vectorise: a missing value is a 0 in `there`, and
    counts for nothing wherever that is a factor.
    """

    scaled: Floats  # (L, C) standardised by history, 0 where missing
    there: Floats  # (L, C) 1 where observed, 0 where missing
    observed: Floats  # (L,) how many channels of a sample are observed
    squares: Floats  # (L, C) squared residuals, 0 where missing
    scores: Floats  # (L,) NaN where nothing is observed
    units: Floats32  # (N,) the input and every layer's output; padding is 0
    deltas: Floats32  # (N,) their gradients
    active: Ints  # (widest layer,) the units that are not at zero
    ahead: Ints  # what to `request` meanwhile: see kernels.mlp


def blank_out(rows: int, channels: int) -> StepOut:
    """Return room for verdicts; `advance` writes every row."""
    return StepOut(
        np.empty(rows),
        np.empty(rows, np.bool_),
        np.empty((rows, channels)),
        np.empty((rows, channels), np.float32),
    )


@compiled
def blank_work(window: int, channels: int, widths: Ints, lines: int) -> StepWork:
    """Return working memory for a network of the given widths, padding included.

    `lines` is the length of `ahead`, NOTHING_AHEAD at least.
    """
    units = widest = 0
    for k in range(len(widths)):
        units += widths[k]
        widest = max(widest, widths[k])
    ahead = np.empty(lines, np.int64)
    ahead[:] = NOTHING_AHEAD
    return StepWork(
        np.empty((window, channels)),
        np.empty((window, channels)),
        np.empty(window),
        np.empty((window, channels)),
        np.empty(window),
        np.empty(units, np.float32),
        np.empty(units, np.float32),
        np.empty(widest, np.int64),
        ahead,
    )


@linked
@inner
def advance_in(
    work: StepWork,
    samples: Floats,
    flush: bool,
    widths: Ints,
    state: StepState,
    params: StepParams,
    out: StepOut,
) -> None:
    """Do what `advance` does, in working memory that is handed in.

    For compiled callers alone: from Python, handing in each array costs more than making it.
    """
    # Arrays are taken out of their tuples once, here: Numba counts a reference each time.
    recent, trend, weights, good, reach, counts = state
    mean, scale, fitted, stride, alarm_threshold, learn_threshold, decay, lr = params
    scaled, there, observed, squares, scores, units, deltas, active, ahead = work
    out_scores, out_anomalous, out_expected, out_shares = out
    L, C = recent.shape
    made = len(units) - widths[-1]  # where the reconstruction begins in `units`
    units[:] = 0
    deltas[:] = 0

    out_scores[:] = np.nan
    out_anomalous[:] = False
    out_expected[:] = np.nan
    out_shares[:] = np.nan
    row = 0  # the next row without a verdict
    for t in range(len(samples) + 1):
        if t < len(samples):
            _push(samples, t, recent)
            counts[SEEN] += 1
            counts[HELD] = min(counts[HELD] + 1, L)
            counts[PENDING] += 1
            counts[CYCLE] = 1 if counts[CYCLE] == L else counts[CYCLE] + 1
            due = counts[HELD] == L and counts[PENDING] >= stride
            ends_cycle = counts[CYCLE] == L
        else:
            due = flush and counts[HELD] == L and counts[PENDING] > 0
            ends_cycle = True
        if not due:
            continue

        _standardise(recent, mean, scale, scaled, there, observed)
        if ends_cycle:
            _update_trend(trend, scaled, there, decay)
        _enter(scaled, there, trend, units)
        _forward(weights, widths, units, active, ahead)
        if not _score(units, made, there, observed, squares, scores):
            _restore(
                weights,
                good,
                fitted,
                widths,
                units,
                active,
                ahead,
                there,
                observed,
                squares,
                scores,
                counts,
            )
        for k in range(L - counts[PENDING], L):
            out_scores[row] = scores[k]
            out_anomalous[row] = decide(scores[k], alarm_threshold, learn_threshold)[0]
            _expect(made + k * C, units, trend, mean, scale, out_expected, row)
            _share(k, squares, scores[k] * observed[k], out_shares, row)
            row += 1
        counts[PENDING] = 0

        if ends_cycle:
            counts[CYCLE] = L  # after a flush, the next cycle starts afresh
            if lr != 0 and _pull(units, made, there, observed, scores, learn_threshold, deltas):
                reach[0] += _descend(weights, widths, units, deltas, lr, active)
                counts[LEARNED] += 1
                counts[AGE] += 1
                if counts[AGE] >= COPY_EVERY or not reach[0] < _SAFE:
                    _guard(weights, good, reach, counts)


@compiled
def advance(
    samples: Floats, flush: bool, widths: Ints, state: StepState, params: StepParams, out: StepOut
) -> None:
    """Consume samples (T, C), which hold no infinity, and write the verdicts that became final.

    The model is an MLP of the given `widths`, padding included. With `flush`, samples still
    pending at the end are judged in one last window made of the newest L samples, which ends the
    cycle.
    """
    L, C = state.samples.shape
    advance_in(blank_work(L, C, widths, NOTHING_AHEAD), samples, flush, widths, state, params, out)


@inlined
def copy(source: NDArray[Any], target: NDArray[Any]) -> None:
    """Copy a vector into another."""
    for i in range(len(source)):
        target[i] = source[i]


@inlined
def _push(source: Floats, t: int, recent: Floats) -> None:
    """Drop the oldest row of `recent` and put row `t` of `source` behind the newest."""
    L, C = recent.shape
    for k in range(L - 1):
        for c in range(C):
            recent[k, c] = recent[k + 1, c]
    for c in range(C):
        recent[L - 1, c] = source[t, c]


@inlined
def _standardise(
    recent: Floats, mean: Floats, scale: Floats, scaled: Floats, there: Floats, observed: Floats
) -> None:
    """Standardise by history, within ±SATURATION, and note what is missing."""
    L, C = recent.shape
    for k in range(L):
        count = 0.0
        for c in range(C):
            z = (recent[k, c] - mean[c]) / scale[c]
            present = 0.0 if np.isnan(z) else 1.0
            z = 0.0 if np.isnan(z) else z
            z = SATURATION if z > SATURATION else z
            z = -SATURATION if z < -SATURATION else z
            scaled[k, c] = z
            there[k, c] = present
            count += present
        observed[k] = count


@inlined
def _update_trend(trend: Floats, scaled: Floats, there: Floats, decay: float) -> None:
    """μ ← γ·μ + (1 - γ)·mean(window), each channel's mean over its observed samples."""
    L, C = scaled.shape
    for c in range(C):
        total = 0.0
        count = 0.0
        for k in range(L):
            total += scaled[k, c]
            count += there[k, c]
        if count > 0:
            trend[c] = decay * trend[c] + (1 - decay) * (total / count)


@inlined
def _enter(scaled: Floats, there: Floats, trend: Floats, units: Floats32) -> None:
    """Write the detrended window into the network's input; a missing value enters as 0."""
    L, C = scaled.shape
    for k in range(L):
        for c in range(C):
            units[_at(k * C + c)] = there[k, c] * (scaled[k, c] - trend[c])


@inlined
def _score(
    units: Floats32, out: int, there: Floats, observed: Floats, squares: Floats, scores: Floats
) -> bool:
    """Score each sample by its mean squared residual over observed channels, NaN without any.

    Returns whether every score that exists is finite.
    """
    L, C = there.shape
    sums = 0.0
    for k in range(L):
        total = 0.0
        for c in range(C):
            i = k * C + c
            residual = np.float64(units[_at(out + i)]) - np.float64(units[_at(i)])
            squares[k, c] = there[k, c] * residual * residual
            total += squares[k, c]
        scores[k] = total / observed[k] if observed[k] > 0 else np.nan
        sums += total
    return bool(np.isfinite(sums))


@linked
@inner
def _restore(
    weights: Floats32,
    good: Floats32,
    fitted: Floats32,
    widths: Ints,
    units: Floats32,
    active: Ints,
    ahead: Ints,
    there: Floats,
    observed: Floats,
    squares: Floats,
    scores: Floats,
    counts: Ints,
) -> None:
    """Score again with the good copy or, should even that fail, with the weights as fitted."""
    out = len(units) - widths[-1]
    counts[RESTORED] += 1
    counts[AGE] = 0
    copy(good, weights)
    _forward(weights, widths, units, active, ahead)
    if not _score(units, out, there, observed, squares, scores):
        copy(fitted, weights)
        copy(fitted, good)
        _forward(weights, widths, units, active, ahead)
        _score(units, out, there, observed, squares, scores)


@inlined
def _expect(
    at: int, units: Floats32, trend: Floats, mean: Floats, scale: Floats, expected: Floats, row: int
) -> None:
    """Write the reconstruction that begins at `at` plus the trend, in the user's units."""
    for c in range(len(trend)):
        value = (np.float64(units[_at(at + c)]) + trend[c]) * scale[c] + mean[c]
        value = LARGEST if value > LARGEST else value
        expected[row, c] = -LARGEST if value < -LARGEST else value


@inlined
def _share(k: int, squares: Floats, total: float, shares: Floats32, row: int) -> None:
    """Write each channel's share of the score of sample `k`."""
    per_square = 1 / total if total > 0 else total  # 0 stays 0, NaN stays NaN
    for c in range(squares.shape[1]):
        shares[row, c] = squares[k, c] * per_square


@inlined
def _pull(
    units: Floats32,
    out: int,
    there: Floats,
    observed: Floats,
    scores: Floats,
    learn_threshold: float,
    deltas: Floats32,
) -> bool:
    """Write the loss's gradient with respect to the reconstruction.

    The loss is the sum of the learnable samples' scores divided by the window's length. Returns
    whether there are any.
    """
    L, C = there.shape
    any_learnable = False
    for k in range(L):
        learnable = decide(scores[k], learn_threshold, learn_threshold)[1]
        any_learnable = any_learnable or learnable
        pull = 2 / (observed[k] * L) if learnable else 0.0
        for c in range(C):
            i = k * C + c
            residual = np.float64(units[_at(out + i)]) - np.float64(units[_at(i)])
            deltas[_at(out + i)] = there[k, c] * pull * residual
    return any_learnable


@linked
@inner
def _guard(weights: Floats32, good: Floats32, reach: Floats, counts: Ints) -> None:
    """Put the good copy back if a weight is not finite; renew the copy when it is old."""
    total = 0.0  # NaN or infinite if a weight is
    for i in range(len(weights)):
        total += abs(np.float64(weights[i]))
    if not np.isfinite(total):
        copy(good, weights)
        counts[RESTORED] += 1
        counts[AGE] = 0
        return
    reach[0] = total
    if counts[AGE] >= COPY_EVERY:
        copy(weights, good)
        counts[AGE] = 0
