"""Alarms as events: opened, updated, closed with the reason."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newnormal.alarms.budget import Judged
from newnormal.errors import InputError
from newnormal.kernels.anchor import HOME
from newnormal.types import Times, time_text

__all__ = [
    "ACCEPTED",
    "BACK_TO_NORMAL",
    "CANDIDATE",
    "CLOSED",
    "DISTANCE",
    "END_OF_STREAM",
    "IN_ALARM",
    "OPENED",
    "REJECTED",
    "SCORE",
    "UPDATED",
    "Alarm",
    "AlarmEvent",
    "Peak",
    "Tracker",
]

# Kinds of event.
OPENED = "opened"
UPDATED = "updated"
CLOSED = "closed"

# Why an alarm was closed.
BACK_TO_NORMAL = "score back to normal"
ACCEPTED = "new normal accepted"
END_OF_STREAM = "end of stream"

# Why it was opened.
SCORE = "score"
DISTANCE = "distance from the accepted normal"

# What is thought of an open one.
IN_ALARM = "in alarm"
CANDIDATE = "candidate new normal"
REJECTED = "rejected"

# A peak is news when its ratio is this many times the one last told: a score that climbs for
# ever to a hundred times the threshold makes seven events.
_NEWS = 2.0
# The channels named are the fewest that make up this share of the score, and not more than this.
_NAMED_SHARE = 0.5
_NAMED = 5

_LARGEST = sys.float_info.max


@dataclass(frozen=True)
class Peak:
    """The worst sample of an alarm so far: that of the highest score.

    Attributes
    ----------
    sample, time
        Where it is; the time is None where the stream has none.
    score, ratio, p_value
        What was said of it; infinite is told as the largest float, which JSON can hold.
    channels
        The channels with the largest shares of the score, largest first.
    """

    sample: int
    time: np.datetime64 | None
    score: float
    ratio: float
    p_value: float
    channels: Mapping[str, float]


@dataclass(frozen=True)
class Alarm:
    """Consecutive anomalous samples as one: where, how bad, and which channels.

    Attributes
    ----------
    number
        Counted from 1 over the life of a stream.
    start, end
        The first and the newest sample that is anomalous, or away from the accepted normal.
    start_time, end_time
        Their times; None where the stream has none.
    peak
        The worst of them.
    reason
        Why it was closed; None while it is open.
    cause
        Why it was opened: the ``"score"``, or the ``"distance from the accepted normal"`` of a
        stream that went there too slowly for any score.
    state
        ``"in alarm"``, ``"candidate new normal"`` once what it is about is predictable and stable,
        or ``"rejected"`` by a person.
    """

    number: int
    start: int
    start_time: np.datetime64 | None
    end: int
    end_time: np.datetime64 | None
    peak: Peak
    reason: str | None = None
    cause: str = SCORE
    state: str = IN_ALARM

    @property
    def open(self) -> bool:
        """Whether it is open."""
        return self.reason is None

    @property
    def channels(self) -> Mapping[str, float]:
        """The channels with the largest shares at the peak, largest first."""
        return self.peak.channels

    def as_dict(self) -> dict[str, Any]:
        """Return the documented JSON form as plain Python values.

        `number`; `start` and `end` with `start_time` and `end_time` (ISO 8601, or None); `peak`,
        an object of `sample`, `time`, `score`, `ratio`, `p_value` and `channels` (shares by
        name, largest first); `open`; `reason` (None while open); `cause`; and `state`.
        """
        return {
            "number": self.number,
            "start": self.start,
            "start_time": _text(self.start_time),
            "end": self.end,
            "end_time": _text(self.end_time),
            "peak": {
                **vars(self.peak),
                "time": _text(self.peak.time),
                "channels": dict(self.peak.channels),
            },
            "open": self.open,
            "reason": self.reason,
            "cause": self.cause,
            "state": self.state,
        }

    @classmethod
    def from_dict(cls, alarm: Mapping[str, Any]) -> Alarm:
        """Return what `as_dict` was made from."""
        return cls(
            number=alarm["number"],
            start=alarm["start"],
            start_time=_time(alarm["start_time"]),
            end=alarm["end"],
            end_time=_time(alarm["end_time"]),
            peak=Peak(**{**alarm["peak"], "time": _time(alarm["peak"]["time"])}),
            reason=alarm["reason"],
            cause=alarm["cause"],
            state=alarm["state"],
        )


@dataclass(frozen=True)
class AlarmEvent:
    """Something to tell a person: an alarm was opened, got markedly worse, or was closed.

    Attributes
    ----------
    kind
        ``"opened"``, ``"updated"`` or ``"closed"``.
    sample, time
        The sample at which this was known: nothing later has a part in it.
    alarm
        The alarm as it stood.
    """

    kind: str
    sample: int
    time: np.datetime64 | None
    alarm: Alarm

    def as_dict(self) -> dict[str, Any]:
        """Return `event`, `sample`, `time` and `alarm` as plain Python values."""
        return {
            "event": self.kind,
            "sample": self.sample,
            "time": _text(self.time),
            "alarm": self.alarm.as_dict(),
        }

    @classmethod
    def from_dict(cls, event: Mapping[str, Any]) -> AlarmEvent:
        """Return what `as_dict` was made from."""
        alarm = Alarm.from_dict(event["alarm"])
        return cls(event["event"], event["sample"], _time(event["time"]), alarm)

    def to_json(self) -> str:
        """Return the event as one line of JSON."""
        return json.dumps(self.as_dict(), ensure_ascii=False, allow_nan=False)


class Tracker:
    """Turns judgements into alarms and events.

    An alarm is told when it opens, whenever its peak has doubled since it was last told, and when
    it closes; and whenever another is thought of it.

    Parameters
    ----------
    channels
        The channels' names, in the order of the shares.

    Examples
    --------
    >>> from newnormal.alarms import Gauge
    >>> gauge, tracker = Gauge.at(4.0, np.ones(100), gap=2), Tracker()
    >>> scores = np.array([1.0, 5.0, 6.0, 1.0, 1.0, 1.0])
    >>> for event in tracker.track(gauge.judge(scores)):
    ...     print(event.kind, event.sample, event.alarm.peak.sample, event.alarm.reason)
    opened 1 1 None
    closed 4 2 score back to normal
    """

    def __init__(self, channels: Sequence[str] = ()) -> None:
        self.channels = tuple(channels)
        self.alarm: Alarm | None = None  # the open one
        self._told = 0.0  # the ratio that its newest event spoke of

    def track(
        self,
        judged: Judged,
        shares: NDArray[np.floating] | None = None,
        times: Times | None = None,
        where: NDArray[np.int64] | None = None,
    ) -> list[AlarmEvent]:
        """Return what there is to tell of consecutive samples, in order.

        In pieces or at once comes to the same.

        Parameters
        ----------
        judged
            The judgement on each sample.
        shares
            Each channel's share of the score, (T, C); None where the model has none.
        times
            The samples' times, or None.
        where
            The channel that is farthest from the accepted normal at each sample, -1 for none; it
            is named where that distance opens the alarm.
        """
        if shares is not None and shares.shape != (len(judged), len(self.channels)):
            raise InputError(
                f"shares: expected {len(judged)} samples of {len(self.channels)} channels, "
                f"found {shares.shape}",
                hint="name the channels: Tracker(channels)",
            )
        events: list[AlarmEvent] = []
        for rows in _stretches(judged.alarms):
            number = int(judged.alarms[rows.start])
            if self.alarm is not None and self.alarm.number != number:
                at = judged.first + rows.start
                events += self.close(BACK_TO_NORMAL, at, _at(times, rows.start))
            if number:
                events += self._follow(number, rows, judged, shares, times, where)
        return events

    def close(
        self, reason: str, sample: int, time: np.datetime64 | None = None
    ) -> list[AlarmEvent]:
        """Close the open alarm for a reason; return the event, or none if no alarm is open.

        The gauge has to be told as well: see `Gauge.close`.
        """
        if self.alarm is None:
            return []
        closed, self.alarm = replace(self.alarm, reason=reason), None
        return [AlarmEvent(CLOSED, sample, time, closed)]

    def mark(self, state: str, sample: int, time: np.datetime64 | None = None) -> list[AlarmEvent]:
        """Say what is thought of the open alarm; return the event, or none if that is no news."""
        if self.alarm is None or self.alarm.state == state:
            return []
        self.alarm = replace(self.alarm, state=state)
        return [AlarmEvent(UPDATED, sample, time, self.alarm)]

    def to_json(self) -> dict[str, Any]:
        """Return the state as values JSON knows."""
        return {
            "alarm": None if self.alarm is None else self.alarm.as_dict(),
            "told": self._told,
        }

    @classmethod
    def from_json(cls, channels: Sequence[str], state: Mapping[str, Any]) -> Tracker:
        """Return the tracker that `to_json` was called on."""
        tracker = cls(channels)
        tracker.alarm = None if state["alarm"] is None else Alarm.from_dict(state["alarm"])
        tracker._told = state["told"]
        return tracker

    def _follow(
        self,
        number: int,
        rows: slice,
        judged: Judged,
        shares: NDArray[np.floating] | None,
        times: Times | None,
        where: NDArray[np.int64] | None,
    ) -> list[AlarmEvent]:
        """Go through the rows of one open alarm; return what there is to tell."""
        events = []
        for row in self._records(rows, judged):
            here, when = judged.first + row, _at(times, row)
            peak = Peak(
                here,
                when,
                min(float(judged.scores[row]), _LARGEST),
                min(float(judged.ratios[row]), _LARGEST),
                float(judged.p_values[row]),
                self._largest(shares, row),
            )
            cause = SCORE if judged.scores[row] >= judged.thresholds[row] else DISTANCE
            if cause == DISTANCE:  # its score is about nothing: name what is away
                peak = replace(peak, channels=self._farthest(where, row))
            if self.alarm is None:
                kind, self._told = OPENED, -math.inf
                self.alarm = Alarm(number, here, when, here, when, peak, cause=cause)
            else:
                kind = UPDATED
                self.alarm = _extended(self.alarm, slice(rows.start, row + 1), judged, times)
                self.alarm = replace(self.alarm, peak=peak)
            if kind == OPENED or peak.ratio >= max(1.0, _NEWS * self._told):
                events.append(AlarmEvent(kind, here, when, self.alarm))
                self._told = peak.ratio
        if self.alarm is not None:
            self.alarm = _extended(self.alarm, rows, judged, times)
        return events

    def _records(self, rows: slice, judged: Judged) -> list[int]:
        """Return the rows whose score is higher than any before it in the alarm."""
        known = -math.inf if self.alarm is None else self.alarm.peak.score
        scores = judged.scores[rows]
        scores = np.where(np.isnan(scores), -math.inf, np.minimum(scores, _LARGEST))
        before = np.maximum.accumulate(np.append(known, scores))[:-1]
        return [rows.start + row for row in np.flatnonzero(scores > before).tolist()]

    def _farthest(self, where: NDArray[np.int64] | None, row: int) -> dict[str, float]:
        if where is None or where[row] < 0:
            return {}
        return {self.channels[where[row]]: 1.0}

    def _largest(self, shares: NDArray[np.floating] | None, row: int) -> dict[str, float]:
        if shares is None or not np.isfinite(shares[row]).all():
            return {}
        named: dict[str, float] = {}
        for channel in np.argsort(-shares[row], kind="stable")[:_NAMED].tolist():
            share = float(shares[row, channel])
            if share <= 0 or sum(named.values()) >= _NAMED_SHARE:
                break
            named[self.channels[channel]] = share
        return named


def _extended(alarm: Alarm, rows: slice, judged: Judged, times: Times | None) -> Alarm:
    """Return the alarm with its end at the newest sample of the rows that is not normal."""
    out = judged.scores[rows] >= judged.thresholds[rows]
    if judged.away is not None:
        out |= judged.away[rows] != HOME
    anomalous = np.flatnonzero(out)
    if len(anomalous) == 0:
        return alarm
    last = rows.start + int(anomalous[-1])
    return replace(alarm, end=judged.first + last, end_time=_at(times, last))


def _stretches(numbers: NDArray[np.int64]) -> list[slice]:
    """Return the stretches of rows with one and the same number."""
    if len(numbers) == 0:
        return []
    edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    return [slice(start, stop) for start, stop in pairwise(edges)]


def _at(times: Times | None, row: int) -> np.datetime64 | None:
    when = None if times is None else times[row]
    return None if when is None or np.isnat(when) else when


def _text(time: np.datetime64 | None) -> str | None:
    return None if time is None else time_text(time)


def _time(text: str | None) -> np.datetime64 | None:
    return None if text is None else np.datetime64(text, "ns")
