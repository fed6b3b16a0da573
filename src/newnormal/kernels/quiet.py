"""A stream while nothing is reported of it, for `newnormal.kernels.fleet`.

What `newnormal.alarms.silence`, `newnormal.alarms.log` and `newnormal.acceptance` do in Python as
long as no alarm opens, gets worse or closes, no value goes missing for too long, and a review finds
nothing. Where something is to be reported, the functions here say so and change nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from newnormal.kernels import drift as drifting
from newnormal.kernels.accepted import (
    PATTERNS,
    PLACES,
)
from newnormal.kernels.alarm import (
    HEIGHT,
    KNOTS,
    LOCATION,
    LOW_RATIO,
    START_HEIGHT,
    START_LOCATION,
)
from newnormal.kernels.block_names import (
    AT_CHANGES,
    AT_FITTED_WEIGHTS,
    AT_LAST_QUIET,
    AT_LAST_TIME,
    AT_LOG_COUNTS,
    AT_LOG_LEVELS,
    AT_LOG_TIMES,
    AT_LOG_VOTES,
    AT_MISSING,
    AT_NUMBERS,
    AT_REVIEW_COUNTS,
    AT_REVIEW_LEVELS,
    AT_SILENCE_COUNTS,
    AT_SILENCE_TIMES,
    AT_SILENT,
    AT_STEP_COUNTS,
    AT_TIMES,
    AT_TIMES_COUNTS,
    AT_WATCHED,
    AT_WEIGHTS,
    LONGEST_SILENCE,
    MOST_MISSING,
    NUMBERS,
)
from newnormal.kernels.blocks import (
    Dims,
    alarm_at,
    drift_at,
    drift_params_at,
    model_at,
)
from newnormal.kernels.compiled import (
    inner,
    uncounted,
)
from newnormal.kernels.drift import (
    CROSSED,
    MARK,
    WARM,
)
from newnormal.kernels.linking import linked
from newnormal.kernels.memory import bools, floats, floats32, ints, ints2
from newnormal.kernels.step import (
    SEEN,
    copy,
)
from newnormal.types import (
    NO_TIME,
    Bools,
    Floats,
    Floats32,
    Ints,
)

# Positions in LogState, SilenceState, ReviewState, ChangeState, Shadow and SampleTimes: those of
# `newnormal.alarms`, `newnormal.acceptance` and `newnormal.core.times`, which a test compares.
LOG_NUMBER, LOG_START, LOG_END, LOG_NEWEST = 0, 1, 2, 4
PEAK_SCORE = 0
END_TIME = 1
SILENCE_NUMBER, SILENCE_ALL, SILENCE_ANY = 0, 2, 3
LAST_TIME = 1
REVIEWS, LAST_ALARM = 0, 2
MOVED, MOVES = 0, 1
CHANGE_NUMBER, CHANGE_STATE, IS_REJECTED = 0, 4, 2
SHADOW_TRAINS, SHADOW_SCORES, SHADOW_NEXT = 0, 1, 2
TIMES_HELD, TIMES_TIMED = 0, 1
WEIGHTS_LIMIT, FARTHEST_WEIGHTS = 0.5, 1e9
RECENT_REVIEWS = 2


class Columns(NamedTuple):
    """What is known of each row; `Verdicts` has the same columns."""

    scores: Floats
    thresholds: Floats
    anomalous: Bools
    expected: Floats  # (N, C)
    shares: Floats32  # (N, C)
    ratios: Floats
    p_values: Floats
    alarms: Ints
    distances: Floats
    changes: Ints
    votes: Floats32  # (N, V)


@uncounted
def quiet_rows(
    base: int,
    at: Ints,
    fit: int,
    fit_at: Ints,
    dims: Dims,
    samples: Floats,
    times: Ints,
    start: int,
    end: int,
) -> int:
    """Return the first row at which an alarm by silence opens, grows or closes; `end` for none.

    The state of silence is that before this row: see `newnormal.alarms.silence.find_silence`.
    """
    C = dims.channels
    counts, newest = ints(base + at[AT_SILENCE_COUNTS], 4), ints(base + at[AT_SILENCE_TIMES], 2)
    missing = ints(base + at[AT_MISSING], C)
    numbers = floats(fit + fit_at[AT_NUMBERS], NUMBERS)
    most, longest = numbers[MOST_MISSING], numbers[LONGEST_SILENCE]
    for row in range(start, end):
        before, now = newest[LAST_TIME], times[row]
        if before != NO_TIME and now != NO_TIME and (now - before) / 1e9 > longest:
            return row
        absent = 0
        for c in range(C):
            absent += np.isnan(samples[row, c])
        if absent or counts[SILENCE_ANY]:
            channels = ints(base + at[AT_SILENT], 5)
            watched = bools(fit + fit_at[AT_WATCHED], C)
            if _is_news(samples[row], counts, missing, channels, watched, most):
                return row
            for c in range(C):
                missing[c] = missing[c] + 1 if np.isnan(samples[row, c]) else 0
            counts[SILENCE_ALL] = counts[SILENCE_ALL] + 1 if absent == C else 0
            counts[SILENCE_ANY] = 1 if absent else 0
        if now != NO_TIME:
            newest[LAST_TIME] = now
    return end


@uncounted
def _is_news(
    sample: Floats, counts: Ints, missing: Ints, channels: Ints, watched: Bools, most: float
) -> bool:
    """Whether an alarm by silence opens, grows or closes with this sample."""
    C = len(sample)
    every = True
    for c in range(C):
        every = every and np.isnan(sample[c])
    every = every and counts[SILENCE_ALL] + 1 > most
    is_open = counts[SILENCE_NUMBER] != 0
    is_room = not is_open
    for k in range(len(channels)):
        is_room = is_room or channels[k] < 0
    stays = False
    grows = False
    for c in range(C):
        is_gone = np.isnan(sample[c]) and missing[c] + 1 > most and (every or watched[c])
        is_known = False
        for k in range(len(channels)):
            is_known = is_known or (is_open and channels[k] == c)
        stays = stays or (is_gone and is_known)
        grows = grows or (is_gone and not is_known and is_room)
    return grows or (is_open and not stays)


@uncounted
def follow(
    base: int,
    at: Ints,
    dims: Dims,
    columns: Columns,
    times: Ints,
    start: int,
    stop: int,
    end: int,
) -> bool:
    """Follow the alarm through rows; False where it opens, gets worse or closes there.

    The model has consumed the rows up to `end`.
    """
    counts = ints(base + at[AT_LOG_COUNTS], 5)
    number = counts[LOG_NUMBER]
    peak = floats(base + at[AT_LOG_LEVELS], 4)[PEAK_SCORE]
    for row in range(start, stop):
        if columns.alarms[row] != number or (number and columns.scores[row] > peak):
            return False
    if number == 0:
        return True
    log_times, highest = (
        ints(base + at[AT_LOG_TIMES], 3),
        floats(base + at[AT_LOG_VOTES], dims.votes),
    )
    seen = ints(base + at[AT_STEP_COUNTS], 7)[SEEN]
    for row in range(start, stop):
        if columns.anomalous[row] or columns.ratios[row] >= LOW_RATIO:
            counts[LOG_END] = seen - end + row
            log_times[END_TIME] = times[row]
        for v in range(dims.votes):
            if columns.votes[row, v] > highest[v]:  # not so for NaN
                highest[v] = columns.votes[row, v]
    return True


@uncounted
def is_quiet(base: int, at: Ints, fit: int, fit_at: Ints, dims: Dims, length: int) -> bool:
    """Whether a review finds nothing: no change is open, and none can open."""
    changes = ints2(base + at[AT_CHANGES], dims.changes, 7)
    for row in range(dims.changes):
        if changes[row, CHANGE_NUMBER] != 0:
            return False
    counts = ints(base + at[AT_LOG_COUNTS], 5)
    if counts[LOG_NEWEST] > ints(base + at[AT_REVIEW_COUNTS], 4)[LAST_ALARM]:
        reviews = (ints(base + at[AT_STEP_COUNTS], 7)[SEEN] - counts[LOG_START]) / length
        if counts[LOG_NUMBER] != 0 or reviews <= RECENT_REVIEWS:
            return False
    return _moves(base, at, fit, fit_at, dims) <= 1


@uncounted
def _moves(base: int, at: Ints, fit: int, fit_at: Ints, dims: Dims) -> float:
    """Return how far the weights have moved since they were accepted; 1 is the limit."""
    weights = floats32(base + at[AT_WEIGHTS], dims.weights)
    fitted = floats32(fit + fit_at[AT_FITTED_WEIGHTS], dims.weights)
    moved = min(drifting.weights_moved(weights, fitted), FARTHEST_WEIGHTS)
    return max(0.0, moved - floats(base + at[AT_REVIEW_LEVELS], 2)[MOVED]) / WEIGHTS_LIMIT


@linked
@inner
def review(base: int, at: Ints, fit: int, fit_at: Ints, dims: Dims) -> None:
    """Review a stream without alarm or change: keep what is normal; see `acceptance.review`."""
    drift = drift_at(base, at, dims)
    levels = floats(base + at[AT_REVIEW_LEVELS], 2)
    ints(base + at[AT_REVIEW_COUNTS], 4)[REVIEWS] += 1
    drift.counts[CROSSED] = 0
    levels[MOVES] = _moves(base, at, fit, fit_at, dims)
    is_warm = drift.counts[drifting.SEEN] >= WARM
    if is_warm:
        drifting.measure(drift, drift_params_at(fit, fit_at, dims))
    if ints(base + at[AT_LOG_COUNTS], 5)[LOG_NUMBER] != 0:
        return
    k = AT_LAST_QUIET
    C, J, V = dims.channels, dims.experts, dims.votes
    step, own = model_at(base, at, dims)
    alarm = alarm_at(base, at, dims)
    copy(step.weights, floats32(base + at[k], dims.weights))
    copy(own.levels.reshape(J * C), floats(base + at[k + 1], J * C))
    copy(drift.lows, floats(base + at[k + 2], 4 * C))
    copy(drift.highs, floats(base + at[k + 3], 4 * C))
    copy(alarm.tail_levels, floats(base + at[k + 4], KNOTS))
    copy(alarm.tail_excess, floats(base + at[k + 5], 4))
    kept = floats(base + at[k + 6], 5)
    kept[0] = alarm.levels[LOCATION]
    kept[1] = alarm.levels[HEIGHT]
    kept[2] = alarm.levels[START_HEIGHT]
    kept[3] = alarm.levels[START_LOCATION]
    kept[4] = levels[MOVED]
    copy(own.accepted.shifts.reshape(PLACES * C), floats(base + at[k + 7], PLACES * C))
    copy(own.accepted.used, ints(base + at[k + 8], PLACES))
    copy(own.accepted.at, ints(base + at[k + 9], PLACES))
    copy(own.accepted.peaks.reshape(PATTERNS * V), floats(base + at[k + 10], PATTERNS * V))
    copy(own.accepted.channels.reshape(PATTERNS * C), floats(base + at[k + 11], PATTERNS * C))
    copy(own.accepted.counts, ints(base + at[k + 12], 3))
    if is_warm:
        copy(drift.position, drift.start)
        drift.jumps[:] = 0
        drift.counts[MARK] = drift.counts[drifting.SEEN]


@uncounted
def add_times(times: Ints, base: int, at: Ints, dims: Dims) -> None:
    """Append the times of samples about to come: see `newnormal.core.times.SampleTimes`."""
    L = dims.window
    held, newest = ints(base + at[AT_TIMES], L), ints(base + at[AT_LAST_TIME], 1)
    counts = ints(base + at[AT_TIMES_COUNTS], 2)
    for t in range(max(0, len(times) - L), len(times)):
        if counts[TIMES_HELD] < L:
            counts[TIMES_HELD] += 1
        if times[t] == NO_TIME and counts[TIMES_TIMED] == 0:
            continue
        for k in range(L - 1):
            held[k] = held[k + 1]
        held[L - 1] = times[t]
        if times[t] != NO_TIME:
            counts[TIMES_TIMED] = 1
            newest[0] = times[t]
