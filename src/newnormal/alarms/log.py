"""Alarms as events: opened, updated, closed with the reason.

An alarm is reported when it opens, when another channel joins it, when it gets more severe, and
when it closes. `newnormal.kernels.alarm_log` follows it.
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from newnormal.alarms.silence import close_silence, find_silence, forget_silence, open_silence
from newnormal.alarms.threshold import judge_moving
from newnormal.alarms.words import alarm_sentence, channels_text, ended, pace_text
from newnormal.core.stages import Alarms
from newnormal.kernels import stream
from newnormal.kernels.alarm import OPEN, AlarmOut, judge_scores
from newnormal.kernels.alarm_log import LogRows, follow
from newnormal.kernels.decision import AGE, GAP
from newnormal.types import (
    BACK_TO_NORMAL,
    BECAME_CHANGE,
    CLOSED,
    NO_TIME,
    OPENED,
    SCORE,
    SEVERITY_WORDS,
    UPDATED,
    Alarm,
    Event,
    Evidence,
    Floats,
    Floats32,
    Ints,
    Peak,
    Times,
    Verdicts,
    time_at,
    time_of_ns,
)

if TYPE_CHECKING:
    from newnormal.core.state import Fitted, StreamState
    from newnormal.kernels.channels import ChannelOut

_FOLLOWS = 0.5  # of a channel's usual distance from its forecast, that another one explains
_SPREADS = 3.0  # the range of a channel: so many of its usual distances from what is expected
_LARGEST = sys.float_info.max
_LEAST = 1e-30  # a score below this is as good as 0
_NO_SHARES = np.zeros((0, 0), np.float32)
_NO_VALUES = np.zeros((0, 0))
_NO_EPISODES = np.zeros(0, np.int64)


class AlarmLog(Alarms):
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
        joint: Floats,
        votes: Floats32 | None,
        channels: ChannelOut | None,
    ) -> list[Event]:
        """Write what is known of alarms into rows that became final; return the events.

        `samples` (R, C), `joint` scores (R,), `votes` (R, V) and `channels` are those of these
        rows.
        """
        events: list[Event] = []
        times = None if verdicts.times is None else verdicts.times[rows]
        start = rows.start
        for silence in find_silence(fitted, state.silence, times, samples):
            row = rows.start + silence.row
            part = slice(start - rows.start, silence.row)  # its alarms have numbers before
            events += self._judge(
                fitted, state, verdicts, rows.start, part, samples, joint, votes, channels
            )
            if silence.gap or silence.samples:
                events += open_silence(fitted, state, verdicts, row, silence)
            else:
                events += close_silence(fitted, state, verdicts, row)
            start = row
        rest = slice(start - rows.start, rows.stop - rows.start)
        return events + self._judge(
            fitted, state, verdicts, rows.start, rest, samples, joint, votes, channels
        )

    def _judge(
        self,
        fitted: Fitted,
        state: StreamState,
        verdicts: Verdicts,
        first: int,
        span: slice,
        samples: Floats,
        joint: Floats,
        votes: Floats32 | None,
        channels: ChannelOut | None,
    ) -> list[Event]:
        if span.start == span.stop:
            return []
        rows = slice(first + span.start, first + span.stop)
        scores = np.ascontiguousarray(joint[span])
        columns: Any = verdicts.thresholds, verdicts.ratios, verdicts.anomalous, verdicts.alarms
        room = [column[rows] for column in (*columns, verdicts.p_values)]
        out = AlarmOut._make([*room, np.empty(len(scores))])
        ratios, episodes = _NO_SHARES, _NO_EPISODES
        if channels is not None:
            ratios, episodes = channels.ratios[span], channels.open[span]
        arguments = scores, ratios, episodes, state.alarm, fitted.alarm, fitted.tail_chances, out
        if state.moving is not None:
            judge_moving(fitted.rule, state.moving, *arguments)
        else:
            fitted.kernels.call(judge_scores, *arguments)
        if state.log.counts[stream.LOG_NUMBER] == 0 and not np.count_nonzero(out.alarms):
            return []
        part = None if votes is None else votes[span]
        paces = None if channels is None else channels.paces[span]
        log_rows = rows_of(fitted, verdicts, rows, out, samples[span], part, paces)
        return track(fitted, state, log_rows, verdicts, rows.start)


def rows_of(
    fitted: Fitted,
    verdicts: Verdicts,
    rows: slice,
    out: AlarmOut,
    samples: Floats,
    votes: Floats32 | None,
    paces: Floats32 | None,
) -> LogRows:
    """Return what the log takes of rows of verdicts."""
    expected, lows, highs = _NO_VALUES, _NO_VALUES, _NO_VALUES
    if verdicts.expected is not None:
        expected = verdicts.expected[rows]
        if verdicts.lows is not None and verdicts.highs is not None:
            lows, highs = verdicts.lows[rows], verdicts.highs[rows]
        elif fitted.spread is not None:
            with np.errstate(over="ignore"):
                margin = _SPREADS * fitted.spread
                lows, highs = expected - margin, expected + margin
    return LogRows(
        np.ascontiguousarray(samples),
        _ns(verdicts.times, rows),
        out.alarms,
        np.ascontiguousarray(verdicts.scores[rows]),
        out.ratios,
        out.joint,
        out.p_values,
        _NO_SHARES if verdicts.channel_ratios is None else verdicts.channel_ratios[rows],
        expected,
        lows,
        highs,
        _NO_SHARES if verdicts.shares is None else verdicts.shares[rows],
        _NO_SHARES if paces is None else paces,
        _NO_SHARES if votes is None else np.ascontiguousarray(votes),
    )


def _ns(times: Times | None, rows: slice) -> Ints:
    if times is None:
        return np.full(rows.stop - rows.start, NO_TIME)
    return np.ascontiguousarray(times[rows].astype("datetime64[ns]").view(np.int64))


def track(
    fitted: Fitted,
    state: StreamState,
    rows: LogRows,
    verdicts: Verdicts,
    start: int,
    stopped: int | None = None,
) -> list[Event]:
    """Follow alarms over consecutive samples; in pieces or at once gives the same events.

    `rows` are those of `verdicts` from `start` on. `stopped` is where they were followed to.
    """
    events: list[Event] = []
    row = 0
    while row < len(rows.alarms):
        row = follow(state.log, rows, row, verdicts.first + start) if stopped is None else stopped
        stopped = None
        if row == len(rows.alarms):
            break
        events.append(event_at(fitted, state, rows, verdicts, start, row))
        row += events[-1].kind != CLOSED  # the next alarm may open with the same row
    return events


def event_at(
    fitted: Fitted, state: StreamState, rows: LogRows, verdicts: Verdicts, start: int, row: int
) -> Event:
    """Return the event of the row where `follow` stopped."""
    log = state.log
    sample, time = verdicts.first + start + row, time_at(verdicts.times, start + row)
    if log.counts[stream.LOG_NUMBER] != rows.alarms[row]:
        change = _goes_on_as(state)
        reason = BECAME_CHANGE if change else BACK_TO_NORMAL
        return close(fitted, log, reason, sample, time, change)[0]
    is_new = log.levels[stream.REPORTED] < 0
    alarm = newest_alarm(fitted, log)
    assert alarm is not None  # it is open
    log.levels[stream.REPORTED] = SEVERITY_WORDS.index(alarm.severity_word)
    return Event(OPENED if is_new else UPDATED, sample, time, alarm)


def margins(fitted: Fitted) -> Floats | None:
    """Return how far from what is expected nearly all values lie, a channel (C,); or None."""
    return None if fitted.spread is None else _SPREADS * fitted.spread


def log_scores(scores: Floats) -> Floats:
    """Return the logarithms by which a limit on alarms judges: distances mean the same anywhere."""
    logs: Floats = np.log(np.clip(scores, _LEAST, _LARGEST))
    return logs


def open_alarm(fitted: Fitted, log: stream.LogState) -> Alarm | None:
    """Return the open alarm, or None."""
    return newest_alarm(fitted, log) if log.counts[stream.LOG_NUMBER] else None


def newest_alarm(fitted: Fitted, log: stream.LogState) -> Alarm | None:
    """Return the newest alarm, or None before the first; a closed one as it closed by itself."""
    counts = log.counts.tolist()
    if counts[stream.LOG_NEWEST] == 0:
        return None
    times = [time_of_ns(ns) for ns in log.times.tolist()]
    evidence = _evidence(fitted, log)
    peak = Peak(
        counts[stream.LOG_PEAK],
        times[stream.PEAK_TIME],
        float(log.levels[stream.PEAK_SCORE]),
        float(log.levels[stream.PEAK_RATIO]),
        float(log.levels[stream.PEAK_P_VALUE]),
        _shares(fitted.channels, log),
    )
    alarm = Alarm(
        counts[stream.LOG_NEWEST],
        counts[stream.LOG_START],
        times[stream.START_TIME],
        counts[stream.LOG_END],
        times[stream.END_TIME],
        peak,
        cause=SCORE,
        evidence=evidence,
        severity=int(log.levels[stream.SEVERITY]),
        votes=tuple(log.votes.tolist()),
    )
    if not counts[stream.LOG_NUMBER]:
        return ended(alarm, BACK_TO_NORMAL, fitted.has_rhythm)
    return alarm.with_sentence(alarm_sentence(alarm, None, fitted.has_rhythm))


def _evidence(fitted: Fitted, log: stream.LogState) -> tuple[Evidence, ...]:
    """Return what channels beyond their limits show, or those of a joint score; the worst first."""
    channels, evidence = fitted.channels, []
    for c in _beyond(log):
        observed, expected, low, high = map(_known, log.values[:, c].tolist())
        start, end, sample, pause = log.spans[c].tolist()
        where = start, end, sample, float(log.ratios[c])
        unit = fitted.units.get(channels[c], "")
        part = Evidence(channels[c], observed, expected, low, high, *where, unit=unit)
        evidence.append(replace(part, comes_and_goes=pause >= GAP))
    if not evidence:
        for c, values in zip(log.channels.tolist(), log.evidence.T.tolist(), strict=True):
            observed, expected, low, high, pace = map(_known, values)
            if c >= 0:
                unit = fitted.units.get(channels[c], "")
                if observed is not None and expected is not None:
                    # To tell apart what differs by rounding takes sixteen digits of a sentence.
                    expected = observed if math.isclose(observed, expected) else expected
                part = Evidence(channels[c], observed, expected, low, high, pace=pace, unit=unit)
                part = replace(part, comes_and_goes=bool(log.counts[stream.LOG_PAUSE] >= GAP))
                if part.direction == "within" and low is not None:
                    part = replace(part, unusual=pace_text(pace) or _course(fitted, log, c))
                evidence.append(part)
    return tuple(evidence)


def _course(fitted: Fitted, log: stream.LogState, c: int) -> str:
    """Return what is unusual about a channel of a joint score, which changes as fast as usual.

    The first one, which follows another one on history, does not follow it now if that one is not
    beside it, or if that one's distance from its forecast does not explain its own.
    """
    leaders = [leader for leader in log.channels.tolist() if leader >= 0]
    others, params = [fitted.channels[leader] for leader in leaders if leader != c], fitted.channel
    if params is not None and c == leaders[0]:
        sizes = params.tails[0, :, 4]  # of what is left of a forecast, times the same number
        partner = int((np.abs(params.others[c]) * sizes).argmax())
        weight = float(params.others[c, partner])
        explains = abs(weight) * sizes[partner] >= _FOLLOWS * sizes[c]
        if explains and partner in leaders:
            left = log.evidence[stream.OBSERVED_VALUE] - log.evidence[stream.EXPECTED_VALUE]
            left[: len(leaders)] /= fitted.step.scale[leaders]
            explains = abs(left[0] - weight * left[leaders.index(partner)]) >= abs(left[0])
        if explains:
            return f"does not follow {fitted.channels[partner]}"
    if others:
        return f"is not usual together with {channels_text(others)}"
    spans = () if fitted.choice is None else fitted.choice.plan.spans
    member = int(log.votes.argmax()) - len(log.votes) + len(spans) if len(log.votes) else -1
    span = max(fitted.config.window, spans[member] if member >= 0 else 0)
    return f"is not usual over its last {span} samples"


def _beyond(log: stream.LogState) -> list[int]:
    """Return the channels that were beyond their limits, the farthest first."""
    beyond = np.flatnonzero(log.ratios)
    order: list[int] = beyond[np.argsort(-log.ratios[beyond], kind="stable")].tolist()
    return order


def _shares(channels: tuple[str, ...], log: stream.LogState) -> dict[str, float]:
    """Return each channel's share: of how far those beyond limits are, or of the joint score."""
    if not (order := _beyond(log)):
        named = zip(log.channels.tolist(), log.shares.tolist(), strict=True)
        return {channels[c]: share for c, share in named if c >= 0}
    far = np.log1p(log.ratios)  # of the largest floats, too, a share is a number
    total = float(far[order].sum())
    return {channels[c]: float(far[c]) / total for c in order}


def _goes_on_as(state: StreamState) -> int:
    """Return the number of the open change that began with the open alarm; 0 for none."""
    if state.changes is None or state.channel is None:
        return 0
    counts = state.changes.counts
    begun = counts[:, stream.CHANGE_ALARM] == state.log.counts[stream.LOG_NUMBER]
    return int(counts[begun, stream.CHANGE_NUMBER].max(initial=0))


def close(
    fitted: Fitted,
    log: stream.LogState,
    reason: str,
    sample: int,
    time: np.datetime64 | None = None,
    change: int = 0,
) -> list[Event]:
    """Close the open alarm for a reason; return the event, or none if no alarm is open.

    `change` is the number of the change as which it goes on.
    """
    if (alarm := open_alarm(fitted, log)) is None:
        return []
    log.counts[stream.LOG_NUMBER] = 0
    alarm = ended(alarm, reason, fitted.has_rhythm)
    if change:
        alarm = alarm.with_sentence(f"{alarm.sentence}; goes on as change {change}")
    return [Event(CLOSED, sample, time, alarm)]


def forget(state: StreamState) -> None:
    """Forget the open alarms, as for another series; the threshold stays."""
    state.alarm.counts[[OPEN, AGE]] = 0
    if state.channel is not None:
        state.channel.counts[:, AGE] = 0
        state.channel.smooth[:] = np.nan
        state.channel.lasting[:] = 0
    state.log.counts[stream.LOG_NUMBER] = 0
    forget_silence(state.silence)


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
