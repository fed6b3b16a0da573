"""The alarm threshold of the joint score, and the alarms of a stream, in one compiled loop.

`advance` is the whole of it. A score is judged by its height: how many spreads it is above the
location, the score that is typical. A sample is anomalous where its ratio is 1 or more: the highest
of its channels' (`newnormal.kernels.channels`) and of the joint score's, which is its height in
units of the threshold's. The order within a sample is a contract:

1. the score is compared with the threshold as it was;
2. the joint score's episode opens, goes on, or closes (`newnormal.kernels.decision`); an alarm is
   open as long as that or an episode of a channel is;
3. location and threshold move, for the next sample.

Where there is a limit on alarms, these things move, and all come back:

- the threshold's height rises by `step` of its start with every episode that was just beyond it, to
  RAISED times its start at most, and sinks by `rate` of that with every sample out of one, to its
  start at least;
- an episode that stays open for `stand` samples is judged from where the scores are then: the
  location rises to their median. It closes when the scores are quiet there, and what happens next
  opens another. The location follows the scores back, to its start at least.

Shapes: T scores, C channels, K knots of the tail, N scores kept.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from newnormal.kernels.compiled import compiled, uncounted
from newnormal.kernels.decision import (
    AGE,
    CLOSES,
    COUNTED,
    JUST_BEYOND,
    OPENS,
    RAISED,
    decide,
    follow,
    is_beyond,
)
from newnormal.kernels.linking import linked
from newnormal.types import Bools, Floats, Floats32, Ints
from newnormal.types.tables import INCREASING, KNOWN, TAIL, Array, Counter, Scalar, counters

KNOTS = 257  # points at which the distribution of scores is kept, the start of the tail included
RECENT_DAYS = 7  # that the recent rate is about
RECENT = 60  # scores kept, of which the location takes the median

# Share of the way to a score that a location above its start moves: half of it in 34 samples.
_FOLLOW = 0.02
_NO_CHANNELS = np.zeros((0, 0), np.float32)
_NO_EPISODES = np.zeros(0, np.int64)
_LEAST = 1e-30  # a score below this is as good as 0
_LARGEST = np.finfo(np.float64).max

# Positions in AlarmState.levels.
LOCATION = 0  # the typical score
HEIGHT = 1  # of the threshold, in spreads above the location
PEAK = 2  # of the joint score's episode, in units of the threshold's height
RECENT_ALARMS = 3  # alarms opened, those of `span` samples ago counting 1/e
RECENT_SAMPLES = 4  # samples, counted likewise
START_HEIGHT = 5  # the threshold's height that fitting, or the newest acceptance, left
START_LOCATION = 6  # the location likewise

# Positions in AlarmState.counts, after those of the joint score's episode.
SEEN = 7  # samples with a score
ALARMS = 8  # the number of the newest alarm, of any cause
OPEN = 9  # the number of the open alarm; 0 without one
NEXT = 10  # where the next score goes in `recent`
_COUNTS = counters(
    **COUNTED,
    samples=SEEN,
    alarms=ALARMS,
    open=Counter(OPEN, 0, "alarms"),
    next=Counter(NEXT, 0, RECENT - 1),
)


class AlarmState(NamedTuple):
    """What changes while a stream runs."""

    levels: Annotated[Floats, Array(7, range=KNOWN)]
    counts: Annotated[Ints, _COUNTS]
    recent: Annotated[Floats, Array(RECENT, range=KNOWN)]  # the newest scores, in a ring
    # Increasing scores up to the start of the tail; then +inf
    tail_levels: Annotated[Floats, Array(KNOTS, range=INCREASING, seldom=True)]
    # Where the tail begins, the chance to reach it, its scale and shape
    tail_excess: Annotated[Floats, Array(4, range=TAIL)]


class AlarmParams(NamedTuple):
    """What stays as fitting left it."""

    location: Annotated[float, Scalar(-1e300, 1e300)]
    spread: Annotated[float, Scalar(0, 1e300, above=True)]
    rate: Annotated[float, Scalar(0, 1)]  # alarms a sample; 0 where there is no limit
    # By which an alarm raises the threshold's height, of its start; 0 holds it
    step: Annotated[float, Scalar(0, 1e300)]
    gap: Annotated[float, Scalar(1, 1e15)]  # samples of quiet that close an alarm
    # Samples after which an alarm is judged from where it is; infinity: never
    stand: Annotated[float, Scalar(1)]
    day: Annotated[float, Scalar(0, 1e300, above=True)]  # samples


class AlarmOut(NamedTuple):
    """What is known of each score: a row a score."""

    thresholds: Floats
    ratios: Floats  # 0 at the location, 1 at the threshold; NaN without a score
    anomalous: Bools
    alarms: Ints  # the number of the open alarm, 0 where none is
    p_values: Floats  # the chance of such a score or a higher one, at the present threshold
    joint: Floats  # the ratio of the joint score alone


def judge(scores: Floats, state: AlarmState, params: AlarmParams, chances: Floats) -> AlarmOut:
    """Judge the scores of consecutive samples and follow them; in pieces or at once is the same.

    Where there is a limit on alarms, scores are logarithms of the detector's. `chances` (K,) belong
    to `state.tail_levels`.
    """
    out = blank_out(len(scores))
    advance(scores, _NO_CHANNELS, _NO_EPISODES, state, params, out)
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
        np.empty(rows),
    )


@compiled
def judge_scores(
    scores: Floats,
    channels: Floats32,
    episodes: Ints,
    state: AlarmState,
    params: AlarmParams,
    chances: Floats,
    out: AlarmOut,
) -> None:
    """Judge the detector's scores (T,): by their logarithms where there is a limit on alarms.

    `channels` (T, C) are the channels' ratios and `episodes` (T,) how many of these are open; both
    are empty where channels are not judged. Thresholds are written as scores of the detector.
    """
    T = len(scores)
    is_limited = params.rate > 0
    levels = scores
    if is_limited:
        levels = np.empty(T)
        for t in range(T):
            levels[t] = np.log(min(max(scores[t], _LEAST), _LARGEST))
            if np.isnan(scores[t]):
                levels[t] = np.nan
    advance(levels, channels, episodes, state, params, out)
    _write_p_values(levels, state, params, chances, out)
    if is_limited:
        for t in range(T):
            out.thresholds[t] = np.exp(out.thresholds[t])


linked_judge_scores = linked(judge_scores)


@compiled
def _write_p_values(
    scores: Floats, state: AlarmState, params: AlarmParams, chances: Floats, out: AlarmOut
) -> None:
    """Write the chances of ratios: where the threshold moves, of what they were in history."""
    reach = params.spread * state.levels[START_HEIGHT]
    then = np.empty(len(scores))
    for t in range(len(scores)):
        then[t] = scores[t]
        if reach > 0 and (params.rate > 0 or out.ratios[t] > out.joint[t]):
            then[t] = params.location + out.ratios[t] * reach
    p_values(then, state.tail_levels, chances, state.tail_excess, out.p_values)


@uncounted
def advance(
    scores: Floats,
    channels: Floats32,
    episodes: Ints,
    state: AlarmState,
    params: AlarmParams,
    out: AlarmOut,
) -> None:
    """Judge scores (T,), NaN where there is none, and follow them; see `judge_scores`."""
    levels, counts, recent, _, _ = state
    _, spread, rate, step, gap, stand, day = params
    thresholds, ratios, anomalous, alarms, _, joint = out
    location, height = levels[LOCATION], levels[HEIGHT]
    start, height0 = levels[START_LOCATION], levels[START_HEIGHT]
    N, span = len(recent), RECENT_DAYS * day
    for t in range(len(scores)):
        score = scores[t]
        threshold = threshold_at(location, spread, height)
        thresholds[t] = threshold
        highest = 0.0 if len(channels) else -np.inf
        for c in range(channels.shape[1] if len(channels) else 0):
            highest = max(highest, channels[t, c])
        opened = len(episodes) > 0 and episodes[t] > 0
        joint[t] = ratios[t] = np.nan
        if np.isnan(score):  # nothing to judge, nothing to learn, and no sign of quiet either
            ratios[t] = highest if len(channels) else np.nan
        else:
            x = (score - location) / spread
            if height > 0:
                joint[t] = x / height
            else:
                joint[t] = np.inf if decide(score, threshold, threshold)[0] else 0.0
            ratios[t] = max(joint[t], highest)
            counts[SEEN] += 1
            recent[counts[NEXT]] = score
            counts[NEXT] = (counts[NEXT] + 1) % N
            levels[RECENT_SAMPLES] += 1 - levels[RECENT_SAMPLES] / span
            levels[RECENT_ALARMS] -= levels[RECENT_ALARMS] / span
            above = decide(score, threshold, threshold)[0]
            event = follow(counts, above, False, int(gap), day)
            if event == OPENS:
                levels[PEAK] = joint[t]
            elif counts[AGE] > 0:
                levels[PEAK] = max(levels[PEAK], joint[t])
                if (counts[AGE] - 1) % stand == 0 and counts[SEEN] >= N:
                    location = max(location, _median(recent))
            elif event == CLOSES and levels[PEAK] < JUST_BEYOND:
                height = max(height, min(height + step * height0, RAISED * height0))
            if counts[AGE] == 0:
                height = max(min(height, height0), height - step * height0 * rate)
                if location > start:
                    location = max(start, location + _FOLLOW * (score - location))
        anomalous[t] = is_beyond(ratios[t])
        if counts[OPEN] == 0 and (counts[AGE] > 0 or opened):
            counts[ALARMS] += 1
            counts[OPEN] = counts[ALARMS]
            levels[RECENT_ALARMS] += 1
        elif counts[OPEN] and not (counts[AGE] > 0 or opened):
            counts[OPEN] = 0
        alarms[t] = counts[OPEN]
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
            low = 0 if decide(heights[t], level, level)[0] else low + 1
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
