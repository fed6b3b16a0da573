"""A stream while nothing is reported of it, for `newnormal.kernels.fleet`.

What `newnormal.alarms.silence` and `newnormal.acceptance` do in Python as long as no value goes
missing for too long, and a review finds nothing. Where something is to be reported, the functions
here say so and change nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from newnormal.kernels import drift as drifting
from newnormal.kernels.accepted import copy_accepted
from newnormal.kernels.alarm import HEIGHT, LOCATION, START_HEIGHT, START_LOCATION
from newnormal.kernels.blocks import (
    Dims,
    alarm_at,
    changes_at,
    channel_at,
    committee_at,
    drift_at,
    drift_params_at,
    last_quiet_at,
    limits_at,
    log_at,
    review_at,
    silence_at,
    step_at,
    step_params_at,
    times_at,
    watched_at,
)
from newnormal.kernels.channels import OUTSIDE, copy_normal
from newnormal.kernels.compiled import inner, uncounted
from newnormal.kernels.decision import AGE
from newnormal.kernels.drift import CROSSED, MARK, WARM
from newnormal.kernels.linking import linked
from newnormal.kernels.step import copy
from newnormal.kernels.stream import (
    CHANGE_NUMBER,
    CHANGES,
    FARTHEST_WEIGHTS,
    LAST_TIME,
    LOG_NUMBER,
    MOVED,
    MOVES,
    NEVER_SEEN,
    REVIEWS,
    SILENCE_ALL,
    SILENCE_ANY,
    SILENCE_NUMBER,
    STANDS,
    TIMES_HELD,
    TIMES_KNOWN,
    WEIGHTS_LIMIT,
)
from newnormal.types import NO_TIME, Bools, Floats, Floats32, Ints


class Columns(NamedTuple):
    """What is known of each row; `Verdicts` has these columns, too."""

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
    lows: Floats  # (N, C)
    highs: Floats  # (N, C)
    channel_ratios: Floats32  # (N, C)
    # What `Verdicts` does not have: votes, and of `AlarmOut` and `ChannelOut` the rest
    votes: Floats32  # (N, V)
    joint: Floats  # the joint scores
    joint_ratios: Floats
    clean: Floats  # (N, C)
    hidden: Ints  # (N, C)
    paces: Floats32  # (N, C)
    episodes: Ints
    ranks: Floats


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
    counts, newest, missing, channels = silence_at(base, at, dims)
    limits = limits_at(fit, fit_at, dims)
    most, longest = limits.most_missing, limits.longest_silence
    for row in range(start, end):
        before, now = newest[LAST_TIME], times[row]
        if before != NO_TIME and now != NO_TIME and (now - before) / 1e9 > longest:
            return row
        absent = 0
        for c in range(C):
            absent += np.isnan(samples[row, c])
        if absent or counts[SILENCE_ANY]:
            watched = watched_at(fit, fit_at, dims)
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
def review_is_trivial(base: int, at: Ints, fit: int, fit_at: Ints, dims: Dims, length: int) -> bool:
    """Whether a review finds nothing: no change is open, and none can open."""
    changes = changes_at(base, at, dims).counts
    for row in range(CHANGES):
        if changes[row, CHANGE_NUMBER] != 0:
            return False
    counts = channel_at(base, at, dims).counts
    for c in range(dims.channels):
        if counts[c, AGE] >= STANDS * length or counts[c, OUTSIDE] >= NEVER_SEEN:
            return False
    return _moves(base, at, fit, fit_at, dims) <= 1


@uncounted
def _moves(base: int, at: Ints, fit: int, fit_at: Ints, dims: Dims) -> float:
    """Return how far the weights have moved since they were accepted; 1 is the limit."""
    weights, fitted = step_at(base, at, dims).weights, step_params_at(fit, fit_at, dims).fitted
    moved = min(drifting.weights_moved(weights, fitted), FARTHEST_WEIGHTS)
    return max(0.0, moved - review_at(base, at, dims).levels[MOVED]) / WEIGHTS_LIMIT


@linked
@inner
def review(base: int, at: Ints, fit: int, fit_at: Ints, dims: Dims) -> None:
    """Review a stream without alarm or change: keep what is normal; see `acceptance.review`."""
    drift, review = drift_at(base, at, dims), review_at(base, at, dims)
    review.counts[REVIEWS] += 1
    drift.counts[CROSSED] = 0
    review.levels[MOVES] = _moves(base, at, fit, fit_at, dims)
    is_warm = drift.counts[drifting.SEEN] >= WARM
    if is_warm:
        drifting.measure(drift, drift_params_at(fit, fit_at, dims))
    if log_at(base, at, dims).counts[LOG_NUMBER] != 0:
        return
    own, kept = committee_at(base, at, dims), last_quiet_at(base, at, dims)
    alarm = alarm_at(base, at, dims)
    copy(step_at(base, at, dims).weights, kept.weights)
    copy(own.levels.reshape(own.levels.size), kept.trend.reshape(own.levels.size))
    copy(drift.lows, kept.lows)
    copy(drift.highs, kept.highs)
    copy(alarm.tail_levels, kept.tail_levels)
    copy(alarm.tail_excess, kept.tail_excess)
    kept.levels[0] = alarm.levels[LOCATION]
    kept.levels[1] = alarm.levels[HEIGHT]
    kept.levels[2] = alarm.levels[START_HEIGHT]
    kept.levels[3] = alarm.levels[START_LOCATION]
    kept.levels[4] = review.levels[MOVED]
    copy_accepted(own.accepted, kept.accepted)
    copy_normal(channel_at(base, at, dims), kept.normal)
    if is_warm:
        copy(drift.position, drift.start)
        drift.jumps[:] = 0
        drift.counts[MARK] = drift.counts[drifting.SEEN]


@uncounted
def add_times(times: Ints, base: int, at: Ints, dims: Dims) -> None:
    """Append the times of samples about to come: see `newnormal.core.times.SampleTimes`."""
    L = dims.window
    held, newest, counts = times_at(base, at, dims)
    for t in range(max(0, len(times) - L), len(times)):
        if counts[TIMES_HELD] < L:
            counts[TIMES_HELD] += 1
        if times[t] == NO_TIME and counts[TIMES_KNOWN] == 0:
            continue
        for k in range(L - 1):
            held[k] = held[k + 1]
        held[L - 1] = times[t]
        if times[t] != NO_TIME:
            counts[TIMES_KNOWN] = 1
            newest[0] = times[t]
