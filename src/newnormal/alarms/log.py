"""Alarms as events: opened, updated, closed with the reason.

An alarm is reported when it opens, whenever its peak has doubled since it was last reported, when
its state changes, and when it closes.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from newnormal.alarms.moving import judge_moving
from newnormal.kernels.alarm import OPEN, AlarmOut, judge
from newnormal.kernels.drift import INSIDE, DriftOut
from newnormal.types import (
    BACK_TO_NORMAL,
    CANDIDATE,
    CLOSED,
    DISTANCE,
    IN_ALARM,
    OPENED,
    REJECTED,
    SCORE,
    UPDATED,
    Alarm,
    AlarmEvent,
    Floats,
    Floats32,
    Ints,
    Peak,
    Times,
    Verdicts,
    time_at,
)

if TYPE_CHECKING:
    from newnormal.core.state import Fitted, LogState, StreamState

__all__ = [
    "CAUSES",
    "NAMED",
    "STATES",
    "AlarmLog",
    "close",
    "forget",
    "log_scores",
    "mark",
    "open_alarm",
    "track",
]

# Positions in LogState.counts.
NUMBER = 0  # of the open alarm; 0 without one
START = 1  # samples
END = 2
PEAK = 3
CAUSE = 4  # a position in CAUSES
STATE = 5  # a position in STATES

# Positions in LogState.levels: the peak's, and the ratio that the newest event reported.
PEAK_SCORE = 0
PEAK_RATIO = 1
PEAK_P_VALUE = 2
REPORTED = 3

# Positions in LogState.times.
START_TIME = 0
END_TIME = 1
PEAK_TIME = 2

CAUSES = (SCORE, DISTANCE)
STATES = (IN_ALARM, CANDIDATE, REJECTED)

# A peak is reported when its ratio is this many times the one last reported: a score that climbs
# to a hundred times the threshold makes seven events.
_NEWS = 2.0
# The channels named are the fewest that make up this share of the score, and not more than this.
_NAMED_SHARE = 0.5
NAMED = 5

_LARGEST = sys.float_info.max
_LEAST = 1e-30  # a score below this is as good as 0
_NO_TIME = np.iinfo(np.int64).min  # NaT, as nanoseconds


class AlarmLog:
    """The alarm stage of the loop: compares scores with the alarm threshold, and reports alarms."""

    active = True

    def columns(self, rows: int) -> tuple[Floats, Floats, Ints]:
        """Return room for the columns of alarms: ratios, p-values and numbers of alarms."""
        numbers = np.empty((2, rows))
        numbers.fill(np.nan)
        return numbers[0], numbers[1], np.zeros(rows, np.int64)

    def judge(
        self,
        fitted: Fitted,
        state: StreamState,
        verdicts: Verdicts,
        rows: slice,
        drift: DriftOut | None,
    ) -> list[AlarmEvent]:
        """Write what is known of alarms into rows that became final; return the events."""
        assert verdicts.ratios is not None  # the room that `columns` made
        assert verdicts.p_values is not None and verdicts.alarms is not None
        scores = np.ascontiguousarray(verdicts.scores[rows])
        flags = None if drift is None else drift.flags
        known = state.alarm, fitted.alarm, fitted.tail_chances
        if state.moving is not None:
            out = judge_moving(fitted.rule, state.moving, scores, flags, *known)
            verdicts.thresholds[rows] = out.thresholds
        elif fitted.alarm.rate:
            out = judge(log_scores(scores), flags, *known)
            verdicts.thresholds[rows] = np.exp(out.thresholds)
        else:
            out = judge(scores, flags, *known)
            verdicts.thresholds[rows] = out.thresholds
        verdicts.anomalous[rows] = out.anomalous
        verdicts.ratios[rows] = out.ratios
        verdicts.p_values[rows] = out.p_values
        verdicts.alarms[rows] = out.alarms
        if state.log.counts[NUMBER] == 0 and not out.alarms.any():
            return []
        return track(state.log, out, verdicts, rows.start, drift)


def track(
    log: LogState, out: AlarmOut, verdicts: Verdicts, start: int, drift: DriftOut | None
) -> list[AlarmEvent]:
    """Follow alarms over consecutive samples; in pieces or at once gives the same events.

    The rows of `out` and `drift` are those of `verdicts` from `start` on. `drift.where` is the
    channel farthest from the accepted normal at each sample, -1 for none: it is named where that
    distance opens the alarm.
    """
    events: list[AlarmEvent] = []
    for rows in _stretches(out.alarms):
        number = int(out.alarms[rows.start])
        if log.counts[NUMBER] not in (0, number):
            row = start + rows.start
            time = time_at(verdicts.times, row)
            events += close(log, verdicts.channels, BACK_TO_NORMAL, verdicts.first + row, time)
        if number:
            events += _follow(log, number, rows, out, verdicts, start, drift)
    return events


def log_scores(scores: Floats) -> Floats:
    """Return the logarithms by which a budget judges: distances mean the same everywhere."""
    logs: Floats = np.log(np.maximum(scores, _LEAST))
    return logs


def open_alarm(log: LogState, channels: tuple[str, ...]) -> Alarm | None:
    """Return the open alarm, or None."""
    counts = log.counts.tolist()
    if counts[NUMBER] == 0:
        return None
    times = [None if each == _NO_TIME else np.datetime64(each, "ns") for each in log.times.tolist()]
    named = zip(log.channels.tolist(), log.shares.tolist(), strict=True)
    peak = Peak(
        counts[PEAK],
        times[PEAK_TIME],
        float(log.levels[PEAK_SCORE]),
        float(log.levels[PEAK_RATIO]),
        float(log.levels[PEAK_P_VALUE]),
        {channels[channel]: share for channel, share in named if channel >= 0},
    )
    return Alarm(
        counts[NUMBER],
        counts[START],
        times[START_TIME],
        counts[END],
        times[END_TIME],
        peak,
        cause=CAUSES[counts[CAUSE]],
        state=STATES[counts[STATE]],
    )


def close(
    log: LogState,
    channels: tuple[str, ...],
    reason: str,
    sample: int,
    time: np.datetime64 | None = None,
) -> list[AlarmEvent]:
    """Close the open alarm for a reason; return the event, or none if no alarm is open."""
    alarm = open_alarm(log, channels)
    if alarm is None:
        return []
    log.counts[NUMBER] = 0
    return [AlarmEvent(CLOSED, sample, time, replace(alarm, reason=reason))]


def mark(
    log: LogState,
    channels: tuple[str, ...],
    state: str,
    sample: int,
    time: np.datetime64 | None = None,
) -> list[AlarmEvent]:
    """Change the state of the open alarm; return the event, or none if it has that state."""
    alarm = open_alarm(log, channels)
    if alarm is None or alarm.state == state:
        return []
    log.counts[STATE] = STATES.index(state)
    return [AlarmEvent(UPDATED, sample, time, replace(alarm, state=state))]


def forget(state: StreamState) -> None:
    """Forget the open alarm, as for another series; the threshold stays."""
    state.alarm.counts[OPEN] = 0
    state.log.counts[NUMBER] = 0


def _follow(
    log: LogState,
    number: int,
    rows: slice,
    out: AlarmOut,
    verdicts: Verdicts,
    start: int,
    drift: DriftOut | None,
) -> list[AlarmEvent]:
    """Go through the rows of one open alarm; return the events."""
    events = []
    counts = log.counts
    scores = verdicts.scores[start : start + len(out.alarms)]
    for at in _records(log, rows, scores):
        row = start + at
        here, time = verdicts.first + row, _nanoseconds(verdicts.times, row)
        by_score = bool(out.anomalous[at])
        if by_score:
            _name(log, _largest(verdicts.shares, row))
        else:  # the score is within normal: name the channel that is far from it
            where = -1 if drift is None else int(drift.where[at])
            _name(log, {where: 1.0} if where >= 0 else {})
        kind = OPENED if counts[NUMBER] == 0 else UPDATED
        if kind == OPENED:
            cause = CAUSES.index(SCORE if by_score else DISTANCE)
            counts[:] = number, here, here, here, cause, STATES.index(IN_ALARM)
            log.times[:] = time
            log.levels[REPORTED] = -math.inf
        else:
            _extend(log, slice(rows.start, at + 1), out, verdicts, start, drift)
            counts[PEAK], log.times[PEAK_TIME] = here, time
        log.levels[PEAK_SCORE] = min(float(scores[at]), _LARGEST)
        log.levels[PEAK_RATIO] = ratio = min(float(out.ratios[at]), _LARGEST)
        log.levels[PEAK_P_VALUE] = out.p_values[at]
        if kind == OPENED or ratio >= max(1.0, _NEWS * float(log.levels[REPORTED])):
            alarm = open_alarm(log, verdicts.channels)
            assert alarm is not None
            events.append(AlarmEvent(kind, here, time_at(verdicts.times, row), alarm))
            log.levels[REPORTED] = ratio
    _extend(log, rows, out, verdicts, start, drift)
    return events


def _records(log: LogState, rows: slice, scores: Floats) -> list[int]:
    """Return the rows whose score is higher than any before it in the alarm."""
    known = -math.inf if log.counts[NUMBER] == 0 else float(log.levels[PEAK_SCORE])
    own = scores[rows]
    if not (own > known).any():
        return []
    own = np.where(np.isnan(own), -math.inf, np.minimum(own, _LARGEST))
    before = np.maximum.accumulate(np.append(known, own))[:-1]
    return [rows.start + row for row in np.flatnonzero(own > before).tolist()]


def _extend(
    log: LogState,
    rows: slice,
    out: AlarmOut,
    verdicts: Verdicts,
    start: int,
    drift: DriftOut | None,
) -> None:
    """Move the alarm's end to the newest sample of the rows that is not normal."""
    abnormal = out.anomalous[rows]
    if drift is not None:
        abnormal = abnormal | (drift.flags[rows] != INSIDE)
    if abnormal.any():
        last = start + rows.stop - 1 - int(abnormal[::-1].argmax())
        log.counts[END] = verdicts.first + last
        log.times[END_TIME] = _nanoseconds(verdicts.times, last)


def _largest(shares: Floats32 | None, row: int) -> dict[int, float]:
    """Return the channels with the largest shares of a sample's score, the largest first."""
    if shares is None or not np.isfinite(shares[row]).all():
        return {}
    named: dict[int, float] = {}
    for channel in np.argsort(-shares[row], kind="stable")[:NAMED].tolist():
        share = float(shares[row, channel])
        if share <= 0 or sum(named.values()) >= _NAMED_SHARE:
            break
        named[channel] = share
    return named


def _name(log: LogState, named: Mapping[int, float]) -> None:
    log.channels[:], log.shares[:] = -1, 0.0
    for at, (channel, share) in enumerate(named.items()):
        log.channels[at], log.shares[at] = channel, share


def _stretches(numbers: Ints) -> list[slice]:
    """Return the stretches of rows with one and the same number."""
    if len(numbers) < 2:
        return [slice(0, len(numbers))] * len(numbers)
    edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    return [slice(start, stop) for start, stop in pairwise(edges)]


def _nanoseconds(times: Times | None, row: int) -> int:
    when = time_at(times, row)
    return _NO_TIME if when is None else int(when.astype("datetime64[ns]").astype(np.int64))
