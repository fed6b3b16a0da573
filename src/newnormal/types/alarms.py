"""Alarms as values: where, how bad, which channels; and the events that report them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from newnormal.types.arrays import time_text

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

# The state of an open one.
IN_ALARM = "in alarm"
CANDIDATE = "candidate new normal"
REJECTED = "rejected"


@dataclass(frozen=True)
class Peak:
    """The worst sample of an alarm so far: that of the highest score.

    Attributes
    ----------
    sample, time
        Where it is; the time is None where the stream has none.
    score, ratio, p_value
        Of that sample; an infinite one is given as the largest float, which JSON can hold.
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
        The first and the newest sample that is anomalous, or outside the accepted normal.
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
    """An alarm was opened, got markedly worse, changed its state, or was closed.

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


def _text(time: np.datetime64 | None) -> str | None:
    return None if time is None else time_text(time)


def _time(text: str | None) -> np.datetime64 | None:
    return None if text is None else np.datetime64(text, "ns")
