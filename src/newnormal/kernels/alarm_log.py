"""The newest alarm of a stream, followed row by row: where it is, how far, and which channels.

`follow` stops where there is something to report: an alarm opens, another channel joins it, it gets
more severe, or it closes. `newnormal.alarms.log` makes the event there and calls it again.

Shapes: T rows, C channels, V votes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from newnormal.kernels.compiled import inner, uncounted
from newnormal.kernels.decision import is_beyond, severity, severity_class
from newnormal.kernels.linking import linked
from newnormal.kernels.stream import (
    END_TIME,
    EXPECTED_VALUE,
    HIGHEST,
    JOINT_RATIO,
    LOG_END,
    LOG_NEWEST,
    LOG_NUMBER,
    LOG_PAUSE,
    LOG_PEAK,
    LOG_START,
    LOWEST,
    NAMED,
    OBSERVED_VALUE,
    PACE,
    PAUSED,
    PEAK_P_VALUE,
    PEAK_RATIO,
    PEAK_SCORE,
    PEAK_TIME,
    REPORTED,
    SEVERITY,
    START_TIME,
    LogState,
)
from newnormal.types import Floats, Floats32, Ints

# The channels named of a joint score are the fewest that make up this share of it.
_NAMED_SHARE = 0.5
_LARGEST = np.finfo(np.float64).max


class LogRows(NamedTuple):
    """What is known of T rows; arrays of channels are (0, 0) where a model has none."""

    samples: Floats  # (T, C)
    times: Ints  # (T,) in ns
    alarms: Ints  # (T,) the number of the open alarm
    scores: Floats
    ratios: Floats  # (T,) the highest
    joint: Floats  # (T,) of the joint score
    p_values: Floats
    channels: Floats32  # (T, C) the channels' ratios
    expected: Floats  # (T, C)
    lows: Floats  # (T, C)
    highs: Floats  # (T, C)
    shares: Floats32  # (T, C) of the joint score
    paces: Floats32  # (T, C)
    votes: Floats32  # (T, V)


@uncounted
def follow(log: LogState, rows: LogRows, start: int, first: int) -> int:
    """Follow the alarm from row `start` on; return the row where there is an event, or T.

    `first` is the sample number of row 0. Where the alarm closes, `log` still has it open.
    """
    for t in range(start, len(rows.alarms)):
        number = rows.alarms[t]
        if number != log.counts[LOG_NUMBER] and log.counts[LOG_NUMBER] != 0:
            return t
        if number == 0:
            continue
        is_new = log.counts[LOG_NUMBER] == 0
        if is_new:
            _open(log, number, first + t, rows.times[t])
        joins = _extend(log, rows, t, first)
        if is_new or joins or severity_class(log.levels[SEVERITY]) > log.levels[REPORTED]:
            return t
    return len(rows.alarms)


linked_follow = linked(follow)


@inner
def _open(log: LogState, number: int, sample: int, time: int) -> None:
    log.counts[LOG_NUMBER] = log.counts[LOG_NEWEST] = number
    log.counts[LOG_START] = log.counts[LOG_END] = log.counts[LOG_PEAK] = sample
    log.counts[LOG_PAUSE] = 0
    for k in range(len(log.times)):
        log.times[k] = time
    for k in range(len(log.levels)):
        log.levels[k] = 0.0
    log.levels[PEAK_P_VALUE] = 1.0
    log.levels[PEAK_RATIO] = -1.0
    log.levels[REPORTED] = -1.0
    for c in range(len(log.ratios)):
        log.ratios[c] = 0.0
        for k in range(log.spans.shape[1]):
            log.spans[c, k] = -1
    for k in range(NAMED):
        log.channels[k] = -1
        log.shares[k] = 0.0
        for i in range(len(log.evidence)):
            log.evidence[i, k] = np.nan
    for v in range(len(log.votes)):
        log.votes[v] = -np.inf


@inner
def _extend(log: LogState, rows: LogRows, t: int, first: int) -> bool:
    """Take a row into the open alarm; return whether a channel joins it."""
    sample, time = first + t, rows.times[t]
    joins = False
    if is_beyond(rows.ratios[t]):
        log.counts[LOG_PAUSE] = max(log.counts[LOG_PAUSE], sample - log.counts[LOG_END] - 1)
        log.counts[LOG_END], log.times[END_TIME] = sample, time
    for c in range(rows.channels.shape[1] if len(rows.channels) else 0):
        ratio = rows.channels[t, c]
        if not is_beyond(ratio):
            continue
        if log.spans[c, START_TIME] < 0:
            joins = True
            log.spans[c, START_TIME] = log.spans[c, END_TIME] = sample
        pause = max(sample - log.spans[c, END_TIME] - 1, 0)
        log.spans[c, PAUSED] = max(log.spans[c, PAUSED], pause)
        log.spans[c, END_TIME] = sample
        if ratio > log.ratios[c]:
            log.ratios[c] = min(ratio, _LARGEST)
            log.spans[c, PEAK_TIME] = sample
            log.values[OBSERVED_VALUE, c] = rows.samples[t, c]
            log.values[EXPECTED_VALUE, c] = rows.expected[t, c]
            log.values[LOWEST, c] = rows.lows[t, c]
            log.values[HIGHEST, c] = rows.highs[t, c]
    if rows.ratios[t] > log.levels[PEAK_RATIO]:
        log.levels[PEAK_RATIO] = min(rows.ratios[t], _LARGEST)
        known = not np.isnan(rows.scores[t])
        log.levels[PEAK_SCORE] = min(rows.scores[t], _LARGEST) if known else 0.0
        log.levels[PEAK_P_VALUE] = 1.0 if np.isnan(rows.p_values[t]) else rows.p_values[t]
        log.counts[LOG_PEAK], log.times[PEAK_TIME] = sample, time
    if rows.joint[t] > log.levels[JOINT_RATIO]:
        log.levels[JOINT_RATIO] = min(rows.joint[t], _LARGEST)
        if len(rows.shares):
            _name(log, rows, t)
    for v in range(rows.votes.shape[1] if len(rows.votes) else 0):
        if rows.votes[t, v] > log.votes[v]:  # not so for NaN
            log.votes[v] = rows.votes[t, v]
    highest, count = 0.0, 0
    for c in range(len(log.ratios)):
        highest = max(highest, log.ratios[c])
        count += log.ratios[c] > 0
    length = log.counts[LOG_END] - log.counts[LOG_START] + 1
    now = severity(highest, log.levels[JOINT_RATIO], count, length)
    log.levels[SEVERITY] = max(log.levels[SEVERITY], now)
    return joins


@inner
def _name(log: LogState, rows: LogRows, t: int) -> None:
    """Keep the channels with the largest shares of the joint score, and what they show."""
    C = rows.shares.shape[1]
    named = 0.0
    for k in range(NAMED):
        best = -1
        for c in range(C):
            known = False
            for i in range(k):
                known = known or log.channels[i] == c
            if not known and rows.shares[t, c] > 0:
                if best < 0 or rows.shares[t, c] > rows.shares[t, best]:
                    best = c
        if named >= _NAMED_SHARE:
            best = -1
        log.channels[k] = best
        log.shares[k] = 0.0
        for i in range(len(log.evidence)):
            log.evidence[i, k] = np.nan
        if best >= 0:
            named += rows.shares[t, best]
            log.shares[k] = rows.shares[t, best]
            log.evidence[OBSERVED_VALUE, k] = rows.samples[t, best]
            if len(rows.expected):
                log.evidence[EXPECTED_VALUE, k] = rows.expected[t, best]
            if len(rows.lows):
                log.evidence[LOWEST, k] = rows.lows[t, best]
                log.evidence[HIGHEST, k] = rows.highs[t, best]
            if len(rows.paces):
                log.evidence[PACE, k] = rows.paces[t, best]
