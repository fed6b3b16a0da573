"""The alarm threshold and the alarms it opens and closes, score by score, in one compiled loop.

`advance` is the whole of it. A score is judged by its height: how many spreads it is above the
location, the score that is typical. The order within a sample is a contract:

1. the score is compared with the threshold as it was, which decides whether it is anomalous;
2. the alarm opens, goes on, or closes;
3. location and threshold move, for the next sample.

Where there is a limit on alarms, these things move, and all come back:

- the threshold's height rises by `step` with every alarm that opens, to `rise` times its start at
  most, and sinks by `rate · step` with every sample out of alarm, to its start at least;
- for scores led by the same channel as the alarm it rises further, by `raises` times its start, to
  twice its start at most, and comes back as slowly: what one channel does over and over is reported
  less and less, and no other channel for it;
- a score that is twice the open alarm's peak, after a sample of quiet or in another channel, is
  another alarm, so that none hides another;
- an alarm that stays open for `stand` samples is judged from where the scores are then: the
  location rises to their median. It closes when the scores are quiet there, and what happens next
  opens another. The location follows the scores back, to its start at least.

Shapes: T scores, K knots of the tail, N scores kept.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from newnormal.kernels.compiled import compiled, uncounted
from newnormal.kernels.decision import decide, is_quiet
from newnormal.kernels.linking import linked
from newnormal.types import Bools, Floats, Floats32, Ints
from newnormal.types.tables import (
    INCREASING,
    KNOWN,
    NOT_NEGATIVE,
    TAIL,
    Array,
    Counter,
    Scalar,
    counters,
)

KNOTS = 257  # points at which the distribution of scores is kept, the start of the tail included
RECENT = 60  # scores kept, of which the location takes the median

# Share of the way to a score that a location above its start moves: half of it in 34 samples.
_FOLLOW = 0.02
# Times its peak, from which on a score may be another alarm.
_WORSE = 2.0
_NO_LEADS = np.zeros(0, np.int64)
_LEAST = 1e-30  # a score below this is as good as 0
_LARGEST = np.finfo(np.float64).max
_MOST_RAISED = 2.0  # of its start, that the height is raised for a channel, at most

# Positions in AlarmState.levels.
LOCATION = 0  # the typical score
HEIGHT = 1  # of the threshold, in spreads above the location
PEAK = 2  # of the open alarm, in spreads above the location
RECENT_ALARMS = 3  # alarms opened, those of `span` samples ago counting 1/e
RECENT_SAMPLES = 4  # samples, counted likewise
START_HEIGHT = 5  # the threshold's height that fitting, or the newest acceptance, left
START_LOCATION = 6  # the location likewise

# Positions in AlarmState.counts.
SEEN = 0  # samples with a score
ALARMS = 1  # the number of the newest alarm, of any cause
OPEN = 2  # the number of the open alarm; 0 without one
AGE = 3  # samples since it opened
LOW = 4  # newest samples that are quiet
NEXT = 5  # where the next score goes in `recent`
LEAD = 6  # the channel with the largest share at the open alarm's peak; -1 where not known
_COUNTS = counters(
    samples=SEEN,
    alarms=ALARMS,
    open=Counter(OPEN, 0, "alarms"),
    age=AGE,
    low=LOW,
    next=Counter(NEXT, 0, RECENT - 1),
    lead=Counter(LEAD, -1, "C-1"),
)


class AlarmState(NamedTuple):
    """What changes while a stream runs."""

    levels: Annotated[Floats, Array(7, range=KNOWN)]
    counts: Annotated[Ints, _COUNTS]
    recent: Annotated[Floats, Array(RECENT, range=KNOWN)]  # the newest scores, in a ring
    # What is added to the height for scores led by a channel; or none
    raised: Annotated[Floats, Array("A", range=NOT_NEGATIVE)]
    # Increasing scores up to the start of the tail; then +inf
    tail_levels: Annotated[Floats, Array(KNOTS, range=INCREASING, seldom=True)]
    # Where the tail begins, the chance to reach it, its scale and shape
    tail_excess: Annotated[Floats, Array(4, range=TAIL)]


class AlarmParams(NamedTuple):
    """What stays as fitting left it."""

    location: Annotated[float, Scalar(-1e300, 1e300)]
    spread: Annotated[float, Scalar(0, 1e300, above=True)]
    rate: Annotated[float, Scalar(0, 1)]  # alarms a sample; 0 where there is no limit
    # By which an alarm raises the threshold, in spreads; 0 holds it
    step: Annotated[float, Scalar(0, 1e300)]
    rise: Annotated[float, Scalar(1, 1e300)]  # the most the height may be, in its start
    # Of its start, by which an alarm raises the height for its own channel
    raises: Annotated[float, Scalar(0, 1e300)]
    gap: Annotated[float, Scalar(1, 1e15)]  # samples of quiet that close an alarm
    # Samples after which an alarm is judged from where it is; infinity: never
    stand: Annotated[float, Scalar(1)]
    span: Annotated[float, Scalar(0, 1e300, above=True)]  # samples that the recent rate remembers


class AlarmOut(NamedTuple):
    """What is known of each score: a row a score."""

    thresholds: Floats
    ratios: Floats  # 0 at the location, 1 at the threshold; NaN without a score
    anomalous: Bools
    alarms: Ints  # the number of the open alarm, 0 where none is
    p_values: Floats  # the chance of such a score or a higher one, at the present threshold
    quiet: Bools  # whether an open alarm does not go on with it


def judge(
    scores: Floats, state: AlarmState, params: AlarmParams, chances: Floats, leads: Ints = _NO_LEADS
) -> AlarmOut:
    """Judge the scores of consecutive samples and follow them; in pieces or at once is the same.

    Where there is a limit on alarms, scores are logarithms of the detector's. `chances` (K,) belong
    to `state.tail_levels`. `leads` are the channels with the largest share of each score; empty:
    not known.
    """
    out = blank_out(len(scores))
    advance(scores, leads, state, params, out)
    _write_p_values(scores, state, params, chances, out)
    return out


def blank_out(rows: int) -> AlarmOut:
    """Return room for what is known of so many scores."""
    return AlarmOut(
        np.empty(rows),
        np.empty(rows),
        np.empty(rows, np.bool_),
        np.empty(rows, np.int64),
        np.empty(rows),
        np.empty(rows, np.bool_),
    )


@compiled
def judge_scores(
    scores: Floats,
    shares: Floats32,
    state: AlarmState,
    params: AlarmParams,
    chances: Floats,
    out: AlarmOut,
) -> None:
    """Judge the detector's scores (T,): by their logarithms where there is a limit on alarms.

    `shares` (T, C) are those of the channels; without a row, which channel leads is not known.
    Thresholds are written as scores of the detector.
    """
    T = len(scores)
    is_limited = params.rate > 0
    leads = np.empty(T if is_limited and len(shares) else 0, np.int64)
    levels = scores
    if is_limited:
        levels = np.empty(T)
        for t in range(T):
            levels[t] = np.log(min(max(scores[t], _LEAST), _LARGEST))
            if np.isnan(scores[t]):
                levels[t] = np.nan
        for t in range(len(leads)):
            leads[t] = _lead(shares[t])
    advance(levels, leads, state, params, out)
    _write_p_values(levels, state, params, chances, out)
    if is_limited:
        for t in range(T):
            out.thresholds[t] = np.exp(out.thresholds[t])


linked_judge_scores = linked(judge_scores)


@uncounted
def _lead(shares: Floats32) -> int:
    """Return the channel with the largest share, the first of several; 0 without a score."""
    lead = 0
    for c in range(1, len(shares)):
        if shares[c] > shares[lead]:
            lead = c
    return lead


@compiled
def _write_p_values(
    scores: Floats, state: AlarmState, params: AlarmParams, chances: Floats, out: AlarmOut
) -> None:
    """Write the chances; where the threshold moves, that of what the score was in history."""
    if params.rate == 0:
        p_values(scores, state.tail_levels, chances, state.tail_excess, out.p_values)
        return
    reach = params.spread * state.levels[START_HEIGHT]
    then = np.empty(len(scores))
    for t in range(len(scores)):
        then[t] = params.location + out.ratios[t] * reach
    p_values(then, state.tail_levels, chances, state.tail_excess, out.p_values)


@uncounted
def advance(
    scores: Floats, leads: Ints, state: AlarmState, params: AlarmParams, out: AlarmOut
) -> None:
    """Judge scores (T,), NaN where there is none, and follow them; `leads` as for `judge`."""
    levels, counts, recent, raised, _, _ = state
    _, spread, rate, step, rise, raises, gap, stand, span = params
    thresholds, ratios, anomalous, alarms, _, quiet = out
    location, height = levels[LOCATION], levels[HEIGHT]
    start, height0 = levels[START_LOCATION], levels[START_HEIGHT]
    N, C = len(recent), len(raised)
    for t in range(len(scores)):
        score = scores[t]
        lead = leads[t] if len(leads) else -1
        own = height + raised[lead] if 0 <= lead < C else height
        threshold = threshold_at(location, spread, own)
        thresholds[t] = threshold
        alarms[t] = counts[OPEN]
        quiet[t] = True
        if np.isnan(score):  # nothing to judge, nothing to learn, and no sign of quiet either
            ratios[t] = np.nan
            anomalous[t] = False
            continue
        x = (score - location) / spread
        above = decide(score, threshold, threshold)[0]
        anomalous[t] = above
        if own > 0:
            ratios[t] = x / own
        else:
            ratios[t] = np.inf if above else 0.0
        counts[SEEN] += 1
        recent[counts[NEXT]] = score
        counts[NEXT] = (counts[NEXT] + 1) % N
        levels[RECENT_SAMPLES] += 1 - levels[RECENT_SAMPLES] / span
        levels[RECENT_ALARMS] -= levels[RECENT_ALARMS] / span

        if counts[OPEN] and rate > 0 and above and x >= _WORSE * levels[PEAK]:
            if counts[LOW] > 0 or lead != counts[LEAD]:
                counts[OPEN] = 0  # closed, and opened anew just below

        if counts[OPEN]:
            quiet[t] = is_quiet(x, height)
            counts[AGE] += 1
            counts[LOW] = counts[LOW] + 1 if quiet[t] else 0
            if x > levels[PEAK]:
                levels[PEAK] = x
                counts[LEAD] = lead
            if counts[LOW] >= gap:
                counts[OPEN] = 0
            elif counts[AGE] % stand == 0 and counts[SEEN] >= N:
                location = max(location, _median(recent))
        elif above:
            quiet[t] = False
            counts[ALARMS] += 1
            counts[OPEN] = counts[ALARMS]
            counts[AGE] = counts[LOW] = 0
            counts[LEAD] = lead
            levels[PEAK] = x
            levels[RECENT_ALARMS] += 1
            height = max(height, min(height + step, rise * height0))
            if 0 <= lead < C:
                raised[lead] = max(
                    raised[lead], min(raised[lead] + raises * height0, _MOST_RAISED * height0)
                )
        alarms[t] = counts[OPEN]

        if counts[OPEN] == 0:
            height = max(min(height, height0), height - step * rate)
            for c in range(C):
                raised[c] = max(0.0, raised[c] - raises * height0 * rate)
            if location > start:
                location = max(start, location + _FOLLOW * (score - location))
    levels[LOCATION], levels[HEIGHT] = location, height


@linked
@compiled
def _median(recent: Floats) -> float:
    return float(np.median(recent))


@uncounted
def threshold_at(location: float, spread: float, height: float) -> float:
    """Return the threshold at a height; compiled, so that it is rounded alike everywhere."""
    return location + spread * height


@uncounted
def peaks(heights: Floats, level: float, gap: int, out: Floats) -> int:
    """Write the peaks of the alarms that heights (T,) open at a level; return how many.

    The rule is that of `advance`: alarms are counted as they will open.
    """
    count = 0
    is_open = False
    low = 0
    for t in range(len(heights)):
        if is_open:
            out[count - 1] = max(out[count - 1], heights[t])
            low = low + 1 if is_quiet(heights[t], level) else 0
            is_open = low < gap
        elif decide(heights[t], level, level)[0]:
            out[count] = heights[t]
            count += 1
            is_open = True
            low = 0
    return count


@uncounted
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
