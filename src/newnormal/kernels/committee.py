"""A committee's turn: each expert sees the stream less its own trend, and all are heard.

An expert follows the stream with a memory of its own, an exponential moving average moved by every
sample, and looks at what is left: with an autoencoder, by the loop of `newnormal.kernels.step`, and
some also with a linear subspace. Each look is a vote: the mean over channels of the squared
residual, in units of what history left of that channel; its logarithm, standardised by history.

Shapes: T samples handed in, J experts, L window length, C channels, P weights of an expert,
V votes, K rank of a subspace, R rows of the sheet.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from newnormal.kernels.compiled import compiled, inlined
from newnormal.kernels.decision import is_anomalous
from newnormal.kernels.step import (
    LEARNED,
    PENDING,
    RESTORED,
    SATURATION,
    Rules,
    Sheet,
    Stream,
    advance,
)
from newnormal.types import Floats, Floats32, Ints

__all__ = ["FARTHEST", "LEAST", "Chamber", "Charter", "deliberate", "detrend", "leftover"]

LEAST = 1e-12  # a residual of exactly nothing still has a logarithm
# In history's standard deviations: one absurd value must not drag a trend along for days.
FARTHEST = 1e3


class Chamber(NamedTuple):
    """What changes of a committee while its stream runs, besides its `Stream`."""

    levels: Floats  # (J, C) each expert's trend, in history's standard deviations
    trails: Floats  # (J, L, C) the trends that were subtracted from the newest samples
    rests: Floats  # (J, L, C) the newest samples, less those trends
    reaches: Floats  # (J, 1) as Stream.reach, an expert each
    tallies: Ints  # (J, 7) as Stream.counts, an expert each
    smooth: Floats  # (1,) the smoothed vote; NaN before the first


class Charter(NamedTuple):
    """What stays as `fit` left it, besides the `Rules`."""

    decays: Floats  # (J,) share of its trend that an expert keeps at each sample
    scales: Floats  # (J, C) what is left of a channel on history, as a standard deviation
    taus: Floats  # (J,) an expert learns from samples whose own score is below
    rates: Floats32  # (J,) and at this rate
    bases: Floats  # (V, K, C) orthonormal rows; unused ones are 0
    experts: Ints  # (V,) whose look a vote is
    linear: Ints  # (V,) 1 where it is the subspace's and not the autoencoder's
    usual: Floats  # (V, C) mean squared residual of each channel on history
    centers: Floats  # (V,) of the logarithm on history
    spreads: Floats  # (V,)
    weights: Floats  # (V,) of the votes, 1 in all
    keep: float  # share of the smoothed vote that a sample keeps; 0 does not smooth
    spokesman: int  # the expert whose expectation is reported


@compiled
def detrend(
    scaled: Floats, decay: float, hold: bool, level: Floats, trail: Floats, rest: Floats
) -> None:
    """Fill `rest` with scaled samples (T, C) less the trend, and `trail` with that trend.

    The trend includes the sample itself; a missing value leaves it as it was. With `hold` it does
    not move. A value farther from it than FARTHEST moves it as one at that distance.
    """
    T, C = scaled.shape
    for t in range(T):
        for c in range(C):
            z = scaled[t, c]
            if not hold and not np.isnan(z):
                pull = min(max(z, level[c] - FARTHEST), level[c] + FARTHEST)
                level[c] = decay * level[c] + (1 - decay) * pull
            trail[t, c] = level[c]
            rest[t, c] = z - level[c]


@inlined
def leftover(rest: Floats, basis: Floats, squares: Floats, scratch: Floats) -> None:
    """Fill the squared residual of one sample (C,) outside a subspace; a missing value is 0."""
    K, C = basis.shape
    for c in range(C):
        scratch[c] = 0.0 if np.isnan(rest[c]) else rest[c]
        squares[c] = scratch[c]
    for k in range(K):
        length = 0.0
        for c in range(C):
            length += basis[k, c] * scratch[c]
        for c in range(C):
            squares[c] -= length * basis[k, c]
    for c in range(C):
        squares[c] = 0.0 if np.isnan(rest[c]) else squares[c] * squares[c]


@compiled
def deliberate(
    samples: Floats,
    flush: bool,
    widths: Ints,
    stream: Stream,
    chamber: Chamber,
    rules: Rules,
    charter: Charter,
    sheet: Sheet,
    squares: Floats,
) -> None:
    """Consume samples (T, C) and write the committee's verdicts that became final.

    `squares`, where it is not empty, is filled with each vote's squared residuals, (V, R, C).
    `rules.decay` of 1 holds the trends, `rules.lr` of 0 the weights.
    """
    recent, counts = stream.samples, stream.counts
    J, L, C = chamber.rests.shape
    V = len(charter.experts)
    P = len(stream.weights) // J
    pending = counts[PENDING]
    R = len(sheet.scores)

    # The sheet's rows are the samples pending so far and then the new ones.
    scaled = np.empty((R, C))
    for r in range(R):
        for c in range(C):
            x = recent[L - pending + r, c] if r < pending else samples[r - pending, c]
            z = (x - rules.mean[c]) / rules.scale[c]
            z = SATURATION if z > SATURATION else z
            scaled[r, c] = -SATURATION if z < -SATURATION else z

    trails = np.empty((J, R, C))
    rests = np.empty((J, R, C))
    seen = Sheet(np.empty(R), np.empty(R, np.bool_), np.empty((R, C)), np.empty((R, C), np.float32))
    nothing, held = np.zeros(C), np.zeros(C)
    votes = np.zeros(R)
    sheet.shares[:] = 0
    unit, scratch, square = np.empty(C), np.empty(C), np.empty(C)
    for j in range(J):
        for r in range(pending):
            trails[j, r] = chamber.trails[j, L - pending + r]
            rests[j, r] = chamber.rests[j, L - pending + r]
        detrend(
            scaled[pending:],
            charter.decays[j],
            rules.decay == 1,
            chamber.levels[j],
            trails[j, pending:],
            rests[j, pending:],
        )
        part = slice(j * P, (j + 1) * P)
        expert = Stream(
            chamber.rests[j],
            held,
            stream.weights[part],
            stream.good[part],
            chamber.reaches[j],
            chamber.tallies[j],
            stream.rest[:0],
        )
        terms = Rules(
            nothing,
            charter.scales[j],
            rules.fitted[part],
            rules.stride,
            charter.taus[j],
            1.0,
            charter.rates[j] if rules.lr != 0 else np.float32(0),
        )
        advance(rests[j, pending:], flush, widths, expert, terms, seen)
        _follow(trails[j, pending:], chamber.trails[j])
        if j == charter.spokesman:
            for r in range(R):
                for c in range(C):
                    z = seen.expected[r, c] + trails[j, r, c]
                    sheet.expected[r, c] = z * rules.scale[c] + rules.mean[c]
        for v in range(V):
            if charter.experts[v] != j:
                continue
            for r in range(R):
                if np.isnan(seen.scores[r]):
                    votes[r] = np.nan
                    continue
                observed = 0.0
                for c in range(C):
                    observed += 0.0 if np.isnan(rests[j, r, c]) else 1.0
                if charter.linear[v]:
                    for c in range(C):
                        unit[c] = rests[j, r, c] / charter.scales[j, c]
                    leftover(unit, charter.bases[v], square, scratch)
                else:
                    for c in range(C):
                        square[c] = seen.shares[r, c] * (seen.scores[r] * observed)
                total = 0.0
                for c in range(C):
                    if squares.size:
                        squares[v, r, c] = square[c]
                    square[c] /= charter.usual[v, c]
                    total += square[c]
                vote = (np.log(total / observed + LEAST) - charter.centers[v]) / charter.spreads[v]
                votes[r] += charter.weights[v] * vote
                for c in range(C):
                    if total > 0:
                        sheet.shares[r, c] += charter.weights[v] * square[c] / total
    _conclude(votes, charter.keep, chamber.smooth, rules.threshold, sheet)
    counts[:] = chamber.tallies[0]
    counts[LEARNED] = chamber.tallies[:, LEARNED].max()
    counts[RESTORED] = chamber.tallies[:, RESTORED].sum()
    _follow(samples, recent)


@inlined
def _follow(source: Floats, newest: Floats) -> None:
    """Let the last rows of `source` follow those of `newest`, whose oldest go."""
    L, T = len(newest), len(source)
    kept = max(L - T, 0)
    for k in range(kept):
        newest[k] = newest[L - kept + k]
    for k in range(kept, L):
        newest[k] = source[T - L + k]


@inlined
def _conclude(votes: Floats, keep: float, smooth: Floats, threshold: float, sheet: Sheet) -> None:
    """Smooth the votes, which are logarithms, and write scores and what is anomalous."""
    for r in range(len(votes)):
        score = np.nan
        if not np.isnan(votes[r]):
            if np.isnan(smooth[0]):
                smooth[0] = votes[r]
            smooth[0] = keep * smooth[0] + (1 - keep) * votes[r]
            score = np.exp(min(smooth[0], 700.0))
            _apportion(sheet.shares[r])
        else:
            sheet.shares[r, :] = np.nan
        sheet.scores[r] = score
        sheet.anomalous[r] = is_anomalous(score, threshold)


@inlined
def _apportion(shares: Floats32) -> None:
    """Let shares sum to 1, also where a vote with no residual at all gave none."""
    total = 0.0
    for c in range(len(shares)):
        total += shares[c]
    for c in range(len(shares)):
        shares[c] = shares[c] / total if total > 0 else 0.0
