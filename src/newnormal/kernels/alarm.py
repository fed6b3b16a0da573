"""The alarm threshold and the alarms it opens and closes, score by score, in one compiled loop.

`advance` is the whole of it. A score is judged by its height: how many spreads it is above the
location, the score that is typical now. The order within a sample is a contract:

1. the score is compared with the threshold as it was, which decides whether it is anomalous;
2. the alarm opens, goes on, or closes;
3. location and threshold move, for the next sample.

A stream outside its accepted normal (`newnormal.kernels.drift`) keeps its alarm open, however quiet
its scores; one beyond the limit opens one.

While an alarm is open nothing moves: a fault cannot silence its own alarm. Only what outlasts
`accept_after` and is inside the accepted normal is followed again: by the location at its pace, and
it costs as much as another alarm every `accept_after` samples.

Heights and `spread` are as history left them; what follows the stream are two numbers:

- the location goes up or down by `pace` spreads a sample, whichever way the score lies, and so
  stays at the running median;
- the threshold's height sinks by `rate · step` with every sample and rises by `step` with every
  alarm, which balances at `rate` alarms a sample, whatever the scores' distribution.

Shapes: T scores, K knots of the tail.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from newnormal.kernels.compiled import compiled
from newnormal.kernels.decision import decide
from newnormal.kernels.drift import BEYOND, INSIDE
from newnormal.types import Bools, Floats, Ints

__all__ = [
    "AGE",
    "ALARMS",
    "HEIGHT",
    "KNOTS",
    "LOCATION",
    "LOW",
    "LOW_RATIO",
    "OPEN",
    "PEAK",
    "QUIET",
    "RECENT_ALARMS",
    "RECENT_SAMPLES",
    "SEEN",
    "SEVERE_CHARGE",
    "SEVERE_GAPS",
    "START_HEIGHT",
    "TIME_COUNTS",
    "AlarmOut",
    "AlarmParams",
    "AlarmState",
    "advance",
    "judge",
    "p_values",
    "peaks",
    "threshold_at",
]

_ALL_INSIDE = np.zeros(0, np.int8)
KNOTS = 257  # points at which the distribution of scores is kept, the start of the tail included

# An alarm is over when the score has stayed below this share of the threshold's height for `gap`
# samples: lower lets alarms grow into the body of the scores, 1 is no hysteresis.
LOW_RATIO = 0.75
# A severe alarm, of a peak hardly ever seen without a cause or far from the accepted normal, must
# also stay below the threshold itself for this many gaps: a fault that flickers opens one alarm.
SEVERE_GAPS = 5
# What a severe alarm costs: the budget is for what normal scores raise. Not nothing, or a stream
# whose scores have all become severe would never be followed.
SEVERE_CHARGE = 0.1

# Of what an alarm costs, its own time makes up for this share at most.
TIME_COUNTS = 0.25

# Positions in AlarmState.levels.
LOCATION = 0  # the typical score
HEIGHT = 1  # of the threshold, in spreads above the location
PEAK = 2  # of the open alarm, in spreads above the location; infinite where it was BEYOND
RECENT_ALARMS = 3  # alarms opened, those of `span` samples ago counting 1/e
RECENT_SAMPLES = 4  # samples, counted likewise
START_HEIGHT = 5  # the threshold's height that fitting, or the newest acceptance, left

# Positions in AlarmState.counts.
SEEN = 0  # samples with a score
ALARMS = 1  # alarms opened, which is the number of the newest
OPEN = 2  # 1 while the newest is open
AGE = 3  # samples since it opened
LOW = 4  # newest samples below LOW_RATIO of the threshold's height
QUIET = 5  # newest samples below the threshold


class AlarmState(NamedTuple):
    """What changes while a stream runs."""

    levels: Floats  # (6,) see the positions above
    counts: Ints  # (6,)
    tail_levels: Floats  # (K,) increasing scores up to the start of the tail; then +inf
    tail_excess: Floats  # (4,) where the tail begins, the chance to reach it, its scale and shape


class AlarmParams(NamedTuple):
    """What stays as fitting left it."""

    location: float
    spread: float
    floor: float  # the least height
    severe: float  # how far above the threshold a peak is severe, in spreads; infinity: none is
    rate: float  # alarms a sample; 0 where there is no budget
    step: float  # by which an alarm raises the threshold, in spreads; 0 holds it
    pace: float  # of the location, in spreads a sample; 0 holds it
    gap: float
    accept_after: float
    span: float  # samples that the recent rate remembers


class AlarmOut(NamedTuple):
    """What is known of each score: a row a score."""

    thresholds: Floats
    ratios: Floats  # 0 at the location, 1 at the threshold; NaN without a score
    anomalous: Bools
    alarms: Ints  # the number of the open alarm, 0 where none is
    p_values: Floats  # the chance of such a score or a higher one, at the present threshold


def judge(
    scores: Floats,
    drift: NDArray[np.int8] | None,
    state: AlarmState,
    params: AlarmParams,
    chances: Floats,
) -> AlarmOut:
    """Judge the scores of consecutive samples and follow them; in pieces or at once is the same.

    `drift` is None where all samples are inside the accepted normal. `chances` (K,) belong to
    `state.tail_levels`.
    """
    rows = len(scores)
    out = AlarmOut(
        np.empty(rows),
        np.empty(rows),
        np.empty(rows, np.bool_),
        np.empty(rows, np.int64),
        np.empty(rows),
    )
    advance(scores, _ALL_INSIDE if drift is None else drift, state, params, out)
    if params.rate:  # the threshold follows: the chance of what the score was in history
        reach = params.spread * state.levels[START_HEIGHT]
        scores = params.location + out.ratios * reach
    p_values(scores, state.tail_levels, chances, state.tail_excess, out.p_values)
    return out


@compiled
def advance(
    scores: Floats,
    drift: NDArray[np.int8],
    state: AlarmState,
    params: AlarmParams,
    out: AlarmOut,
) -> None:
    """Judge scores (T,), NaN where there is none, and follow them.

    `drift` holds INSIDE, OUTSIDE or BEYOND for each sample; empty: all are inside.
    """
    levels, counts = state.levels, state.counts
    _, spread, floor, severe, rate, step, pace, gap, accept_after, span = params
    thresholds, ratios, anomalous, alarms, _ = out
    location, height, height0 = levels[LOCATION], levels[HEIGHT], levels[START_HEIGHT]
    for t in range(len(scores)):
        score = scores[t]
        threshold = threshold_at(location, spread, height)
        thresholds[t] = threshold
        alarms[t] = counts[ALARMS] if counts[OPEN] else 0
        if np.isnan(score):  # nothing to judge, nothing to learn, and no sign of quiet either
            ratios[t] = np.nan
            anomalous[t] = False
            continue
        x = (score - location) / spread
        above = decide(score, threshold, threshold)[0]
        anomalous[t] = above
        where = drift[t] if len(drift) else INSIDE
        if height > 0:
            ratios[t] = x / height
        else:
            ratios[t] = np.inf if above else 0.0
        counts[SEEN] += 1
        levels[RECENT_SAMPLES] += 1 - levels[RECENT_SAMPLES] / span
        levels[RECENT_ALARMS] -= levels[RECENT_ALARMS] / span

        if counts[OPEN]:
            low = LOW_RATIO * height if height > 0 else height
            counts[AGE] += 1
            counts[LOW] = counts[LOW] + 1 if x < low and where == INSIDE else 0
            counts[QUIET] = 0 if above or where != INSIDE else counts[QUIET] + 1
            levels[PEAK] = np.inf if where == BEYOND else max(levels[PEAK], x)
            is_severe = levels[PEAK] >= max(height, height0) + severe
            if counts[LOW] >= gap and counts[QUIET] >= (SEVERE_GAPS * gap if is_severe else gap):
                counts[OPEN] = 0
                # Its time counts for the budget too, but for a part of what it costs only: alarms
                # that run into each other must raise the threshold.
                charge = SEVERE_CHARGE if is_severe else 1.0
                height += step * charge * (1 - min(rate * counts[AGE], TIME_COUNTS))
        elif above or where == BEYOND:
            counts[ALARMS] += 1
            counts[OPEN] = 1
            counts[AGE] = counts[LOW] = counts[QUIET] = 0
            levels[PEAK] = np.inf if where == BEYOND else x
            levels[RECENT_ALARMS] += 1
        alarms[t] = counts[ALARMS] if counts[OPEN] else 0

        if not counts[OPEN]:
            height = max(floor, height - step * rate)
        elif counts[AGE] > 0 and counts[AGE] % accept_after == 0 and where == INSIDE:
            height += step
        if not counts[OPEN] or (counts[AGE] >= accept_after and where == INSIDE):
            if score > location:
                location += pace * spread
            elif score < location:
                location -= pace * spread
    levels[LOCATION], levels[HEIGHT] = location, height


@compiled
def threshold_at(location: float, spread: float, height: float) -> float:
    """Return the threshold at a height; compiled, so that it is rounded alike everywhere."""
    return location + spread * height


@compiled
def peaks(heights: Floats, level: float, gap: int, out: Floats) -> int:
    """Write the peaks of the alarms that heights (T,) open at a level; return how many.

    The rule is that of `advance` with nothing severe: alarms are counted as they will open.
    """
    count = 0
    is_open = False
    low = 0
    for t in range(len(heights)):
        if is_open:
            out[count - 1] = max(out[count - 1], heights[t])
            low = low + 1 if heights[t] < LOW_RATIO * level else 0
            is_open = low < gap
        elif decide(heights[t], level, level)[0]:
            out[count] = heights[t]
            count += 1
            is_open = True
            low = 0
    return count


@compiled
def p_values(scores: Floats, levels: Floats, chances: Floats, excess: Floats, out: Floats) -> None:
    """Write the chance of each score (T,) or a higher one.

    Between increasing `levels`, of which `chances` are known, it is interpolated; from the last
    on it is a generalised Pareto tail: see `newnormal.alarms.Tail`.
    """
    start, chance, scale, shape = excess
    for t in range(len(scores)):
        score = scores[t]
        if np.isnan(score):
            out[t] = np.nan
        elif score >= start:
            above = (score - start) / scale
            if shape == 0:
                out[t] = chance * np.exp(-above)
            else:
                out[t] = chance * (1 + shape * above) ** (-1 / shape)
        elif score < levels[0]:
            out[t] = 1.0
        else:
            k = np.searchsorted(levels, score, side="right")
            share = (score - levels[k - 1]) / (levels[k] - levels[k - 1])
            out[t] = chances[k - 1] + share * (chances[k] - chances[k - 1])
