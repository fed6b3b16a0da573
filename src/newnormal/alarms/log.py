"""Alarms by the score as events: opened, updated, closed with the reason.

An alarm is reported when it opens, whenever its peak has doubled since it was last reported, and
when it closes.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from newnormal.alarms.moving import judge_moving
from newnormal.alarms.silence import close_silence, find_silence, forget_silence, open_silence
from newnormal.alarms.words import alarm_sentence, ended
from newnormal.kernels.alarm import (
    OPEN,
    AlarmOut,
    blank_out,
    judge_scores,
)
from newnormal.kernels.stream import (
    END_TIME,
    EXPECTED_VALUE,
    HIGHEST,
    LOG_END,
    LOG_NEWEST,
    LOG_NUMBER,
    LOG_PEAK,
    LOG_START,
    LOWEST,
    NAMED,
    OBSERVED_VALUE,
    PEAK_P_VALUE,
    PEAK_RATIO,
    PEAK_SCORE,
    PEAK_TIME,
    REPORTED,
    START_TIME,
    LogState,
)
from newnormal.types import (
    BACK_TO_NORMAL,
    CLOSED,
    OPENED,
    SCORE,
    UPDATED,
    Alarm,
    Event,
    Evidence,
    Floats,
    Floats32,
    Ints,
    Peak,
    Verdicts,
    ns_of_time,
    time_at,
    time_of_ns,
)

if TYPE_CHECKING:
    from newnormal.core.state import Fitted, StreamState
    from newnormal.kernels.stream import LogState

# A peak is reported when its ratio is this many times the one last reported: a score that climbs
# to a hundred times the threshold makes seven events.
_NEWS = 2.0
# The channels named are the fewest that make up this share of the score, and not more than this.
_NAMED_SHARE = 0.5
_SPREADS = 3.0  # the range of a channel: so many of its usual distances from what is expected

_LARGEST = sys.float_info.max
_LEAST = 1e-30  # a score below this is as good as 0
_NO_SHARES = np.zeros((0, 0), np.float32)


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
        samples: Floats,
        votes: Floats32 | None,
    ) -> list[Event]:
        """Write what is known of alarms into rows that became final; return the events.

        `samples` (R, C) and `votes` (R, V) are those of these rows.
        """
        events: list[Event] = []
        times = None if verdicts.times is None else verdicts.times[rows]
        start = rows.start
        for found in find_silence(fitted, state.silence, times, samples):
            at = rows.start + found.row
            part = slice(start, at)  # alarms before that row have numbers before
            events += self._judge(fitted, state, verdicts, part, samples, votes, rows.start)
            if found.gap or found.samples:
                events += open_silence(fitted, state, verdicts, at, found)
            else:
                events += close_silence(fitted, state, verdicts, at)
            start = at
        rest = slice(start, rows.stop)
        return events + self._judge(fitted, state, verdicts, rest, samples, votes, rows.start)

    def _judge(
        self,
        fitted: Fitted,
        state: StreamState,
        verdicts: Verdicts,
        rows: slice,
        samples: Floats,
        votes: Floats32 | None,
        first: int,
    ) -> list[Event]:
        assert verdicts.ratios is not None  # the room that `columns` made
        assert verdicts.p_values is not None and verdicts.alarms is not None
        if rows.start == rows.stop:
            return []
        scores = np.ascontiguousarray(verdicts.scores[rows])
        known = state.alarm, fitted.alarm, fitted.tail_chances
        if state.moving is not None:
            out = judge_moving(fitted.rule, state.moving, scores, *known)
        else:
            out = blank_out(len(scores))
            shares = _NO_SHARES if verdicts.shares is None else verdicts.shares[rows]
            judge_scores(scores, shares, *known, out)
        verdicts.thresholds[rows] = out.thresholds
        verdicts.anomalous[rows] = out.anomalous
        verdicts.ratios[rows] = out.ratios
        verdicts.p_values[rows] = out.p_values
        verdicts.alarms[rows] = out.alarms
        if state.log.counts[LOG_NUMBER] == 0 and not out.alarms.any():
            return []
        own = slice(rows.start - first, rows.stop - first)
        return track(
            state.log,
            out,
            verdicts,
            rows.start,
            samples[own],
            None if votes is None else votes[own],
            fitted.spread,
            fitted.has_rhythm,
        )


def track(
    log: LogState,
    out: AlarmOut,
    verdicts: Verdicts,
    start: int,
    samples: Floats,
    votes: Floats32 | None = None,
    spread: Floats | None = None,
    at_this_hour: bool = False,
) -> list[Event]:
    """Follow alarms over consecutive samples; in pieces or at once gives the same events.

    The rows of `out`, `samples` and `votes` are those of `verdicts` from `start` on.
    """
    events: list[Event] = []
    for rows in _stretches(out.alarms):
        number = int(out.alarms[rows.start])
        if log.counts[LOG_NUMBER] not in (0, number):
            row = start + rows.start
            time = time_at(verdicts.times, row)
            sample = verdicts.first + row
            events += close(log, verdicts.channels, BACK_TO_NORMAL, sample, time, at_this_hour)
        if number:
            events += _follow(
                log, number, rows, out, verdicts, start, samples, votes, spread, at_this_hour
            )
    return events


def margins(fitted: Fitted) -> Floats | None:
    """Return how far from what is expected nearly all values lie, a channel (C,); or None."""
    return None if fitted.spread is None else _SPREADS * fitted.spread


def log_scores(scores: Floats) -> Floats:
    """Return the logarithms by which a limit on alarms judges: distances mean the same anywhere."""
    logs: Floats = np.log(np.clip(scores, _LEAST, _LARGEST))
    return logs


def open_alarm(
    log: LogState, channels: tuple[str, ...], at_this_hour: bool = False
) -> Alarm | None:
    """Return the open alarm, or None."""
    return newest_alarm(log, channels, at_this_hour) if log.counts[LOG_NUMBER] else None


def newest_alarm(
    log: LogState, channels: tuple[str, ...], at_this_hour: bool = False
) -> Alarm | None:
    """Return the newest alarm, or None before the first; a closed one as it closed by itself."""
    counts = log.counts.tolist()
    if counts[LOG_NEWEST] == 0:
        return None
    times = [time_of_ns(ns) for ns in log.times.tolist()]
    named = zip(log.channels.tolist(), log.shares.tolist(), strict=True)
    peak = Peak(
        counts[LOG_PEAK],
        times[PEAK_TIME],
        float(log.levels[PEAK_SCORE]),
        float(log.levels[PEAK_RATIO]),
        float(log.levels[PEAK_P_VALUE]),
        {channels[channel]: share for channel, share in named if channel >= 0},
    )
    evidence = tuple(
        Evidence(channels[channel], *map(_known, values))
        for channel, values in zip(log.channels.tolist(), log.evidence.T.tolist(), strict=True)
        if channel >= 0 and not all(map(math.isnan, values))  # older state files have none
    )
    alarm = Alarm(
        counts[LOG_NEWEST],
        counts[LOG_START],
        times[START_TIME],
        counts[LOG_END],
        times[END_TIME],
        peak,
        cause=SCORE,
        evidence=evidence,
        sentence=alarm_sentence(evidence, None, at_this_hour),
        votes=tuple(log.votes.tolist()),
    )
    return alarm if counts[LOG_NUMBER] else ended(alarm, BACK_TO_NORMAL, at_this_hour)


def close(
    log: LogState,
    channels: tuple[str, ...],
    reason: str,
    sample: int,
    time: np.datetime64 | None = None,
    at_this_hour: bool = False,
) -> list[Event]:
    """Close the open alarm for a reason; return the event, or none if no alarm is open."""
    alarm = open_alarm(log, channels, at_this_hour)
    if alarm is None:
        return []
    log.counts[LOG_NUMBER] = 0
    return [Event(CLOSED, sample, time, ended(alarm, reason, at_this_hour))]


def forget(state: StreamState) -> None:
    """Forget the open alarms, as for another series; the threshold stays."""
    state.alarm.counts[OPEN] = 0
    state.log.counts[LOG_NUMBER] = 0
    forget_silence(state.silence)


def _follow(
    log: LogState,
    number: int,
    rows: slice,
    out: AlarmOut,
    verdicts: Verdicts,
    start: int,
    samples: Floats,
    votes: Floats32 | None,
    spread: Floats | None,
    at_this_hour: bool,
) -> list[Event]:
    """Go through the rows of one open alarm; return the events."""
    events = []
    counts = log.counts
    scores = verdicts.scores[start : start + len(out.alarms)]
    since = rows.start
    for at in _records(log, rows, scores):
        row = start + at
        here, time = verdicts.first + row, ns_of_time(time_at(verdicts.times, row))
        kind = OPENED if counts[LOG_NUMBER] == 0 else UPDATED
        if kind == OPENED:
            counts[:] = number, here, here, here, number
            log.times[:] = time
            log.levels[REPORTED] = -math.inf
            log.votes[:] = -math.inf
        else:
            _extend(log, slice(since, at + 1), out, verdicts, start, votes)
            counts[LOG_PEAK], log.times[PEAK_TIME] = here, time
        if votes is not None:
            np.fmax(log.votes, votes[at], out=log.votes)
        since = at + 1
        _observe(log, verdicts, row, samples[at], spread, anew=kind == OPENED)
        log.levels[PEAK_SCORE] = min(float(scores[at]), _LARGEST)
        log.levels[PEAK_RATIO] = ratio = min(float(out.ratios[at]), _LARGEST)
        log.levels[PEAK_P_VALUE] = out.p_values[at]
        if kind == OPENED or ratio >= max(1.0, _NEWS * float(log.levels[REPORTED])):
            alarm = open_alarm(log, verdicts.channels, at_this_hour)
            events.append(Event(kind, here, time_at(verdicts.times, row), alarm))
            log.levels[REPORTED] = ratio
    _extend(log, slice(since, rows.stop), out, verdicts, start, votes)
    return events


def _records(log: LogState, rows: slice, scores: Floats) -> list[int]:
    """Return the rows whose score is higher than any before it in the alarm."""
    known = -math.inf if log.counts[LOG_NUMBER] == 0 else float(log.levels[PEAK_SCORE])
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
    votes: Floats32 | None,
) -> None:
    """Move the alarm's end to the newest of the rows that is not quiet, and keep high votes."""
    quiet = out.quiet[rows]
    if not quiet.all():
        last = start + rows.stop - 1 - int(quiet[::-1].argmin())
        log.counts[LOG_END] = verdicts.first + last
        log.times[END_TIME] = ns_of_time(time_at(verdicts.times, last))
    if votes is not None and rows.stop > rows.start:
        np.fmax(log.votes, np.fmax.reduce(votes[rows], axis=0), out=log.votes)


def _observe(
    log: LogState,
    verdicts: Verdicts,
    row: int,
    sample: Floats,
    spread: Floats | None,
    *,
    anew: bool,
) -> None:
    """Keep the channels of a score that is higher than any before, and what they show.

    Later in a fault the trend has followed it, and what is expected is near what is observed: the
    sample that is farthest from its expectation stays.
    """
    channels = _largest(verdicts.shares, row)
    named = list(channels)
    evidence = np.full_like(log.evidence, np.nan)
    evidence[OBSERVED_VALUE, : len(named)] = sample[named]
    if verdicts.expected is not None:
        expected = verdicts.expected[row, named]
        evidence[EXPECTED_VALUE, : len(named)] = expected
        if spread is not None:
            evidence[LOWEST, : len(named)] = expected - _SPREADS * spread[named]
            evidence[HIGHEST, : len(named)] = expected + _SPREADS * spread[named]
    if anew or not _apart(evidence) < _apart(log.evidence):
        _name(log, channels)
        log.evidence[:] = evidence


def _apart(evidence: Floats) -> float:
    """Return how far the farthest channel is from its expectation, in its range; NaN if unknown."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        width = evidence[HIGHEST] - evidence[LOWEST]
        far = np.abs(evidence[OBSERVED_VALUE] - evidence[EXPECTED_VALUE]) / width
    known = far[~np.isnan(far)]
    return float(known.max()) if len(known) else math.nan


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


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
