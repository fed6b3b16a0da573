"""Alarms, changes, incidents of a fleet, and the events that report them, as values.

One module because an event has all of them, and all have one form in JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from newnormal import hooks
from newnormal.texts import between_text, number_texts
from newnormal.types.arrays import text_of_time, time_of_text, time_text, zone_of_text

# Kinds of event: of an alarm, of a change, and of neither.
OPENED = "opened"
UPDATED = "updated"
CLOSED = "closed"
CHANGED = "changed"
ACCEPTED = "accepted"
REJECTED = "rejected"
REVERTED = "reverted"
UNDONE = "undone"

# Why an alarm was closed; ACCEPTED where a person accepted it.
BACK_TO_NORMAL = "back to normal"
SAMPLES_AGAIN = "values again"
END_OF_STREAM = "end of stream"
BECAME_CHANGE = "changed"

# Why it was opened.
SCORE = "score"
SILENCE = "silence"

# The state of a change; or ACCEPTED, REJECTED, REVERTED.
PENDING = "pending"

CHANGE_KINDS = ("level", "still", "never")  # what changed
SEVERITY_WORDS = ("low", "medium", "high", "critical")  # from 0, 25, 50 and 75 on

WEIGHTS = "the model's weights"  # what a change is about that no channel shows


# What the JSON form of an alarm has, in this order; that of the others has their attributes.
_OF_AN_ALARM = (
    *("number", "start", "start_time", "end", "end_time", "peak", "open", "reason", "cause"),
    *("evidence", "severity", "severity_word", "sentence"),
)


@dataclass(frozen=True)
class Evidence:
    """What one channel showed, in the user's units.

    Attributes
    ----------
    channel
        Its name.
    observed
        The value; None where it was missing.
    expected, low, high
        The value expected, and the range in which nearly all values lie; None where not known.
    start, end, sample
        The first and the last sample at which it was beyond its limit, and that of these values,
        where it was farthest; None where it was not.
    ratio
        How far it was then, in units of its limit; None likewise.
    pace
        How many times its usual size its steps were, where the joint score was highest; None for
        other alarms.
    unit
        Of the values, as the user gave it; empty where that is not known.
    unusual
        What is unusual about it, where the value lies in its range: ``"stands still"``.
    comes_and_goes
        Whether it was quiet for ten samples or more between `start` and `end`.
    """

    channel: str
    observed: float | None
    expected: float | None = None
    low: float | None = None
    high: float | None = None
    start: int | None = None
    end: int | None = None
    sample: int | None = None
    ratio: float | None = None
    pace: float | None = None
    unit: str = ""
    unusual: str = ""
    comes_and_goes: bool = False

    @property
    def direction(self) -> str:
        """``"high"`` or ``"low"``; ``"missing"``, or ``"within"`` the range."""
        if self.observed is None:
            return "missing"
        if self.high is not None and self.observed > self.high:
            return "high"
        if self.low is not None and self.observed < self.low:
            return "low"
        return "within"

    @property
    def texts(self) -> dict[str, str]:
        """Observed, expected, low and high with the unit, as far as they are known."""
        names = ("observed", "expected", "low", "high")
        known = {name: value for name in names if (value := getattr(self, name)) is not None}
        return dict(zip(known, number_texts(*known.values(), unit=self.unit), strict=True))

    @property
    def text(self) -> str:
        """What was observed, and the range; or what was expected."""
        texts = self.texts
        text = texts.get("observed", "missing")
        if "low" in texts and "high" in texts:
            is_within = self.direction == "within"
            reach = between_text([texts["low"], texts["high"]])
            return f"{text}, {'within' if is_within else 'expected'} {reach}"
        return f"{text}, expected {texts['expected']}" if "expected" in texts else text

    def __repr__(self) -> str:
        return f"Evidence({self.channel}: {self.text}; {self.direction})"

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain Python values."""
        return {**vars(self), "direction": self.direction}

    @classmethod
    def from_dict(cls, evidence: Mapping[str, Any]) -> Evidence:
        """Return what `as_dict` was made from."""
        return cls(**{name: evidence[name] for name in cls.__dataclass_fields__})


@dataclass(frozen=True)
class Peak:
    """The worst sample of an alarm so far: that of the highest score.

    `sample`, `time`: where it is; the time is None where the stream has none. `score`, `ratio`,
    `p_value`: of that sample; an infinite one is given as the largest float, which JSON can hold.
    `channels`: the channels beyond their limits and each one's share of how far they are; where
    there are none, those with the largest shares of the joint score. Largest first.
    """

    sample: int
    time: np.datetime64 | None
    score: float
    ratio: float
    p_value: float
    channels: Mapping[str, float]


@dataclass(frozen=True)
class Alarm:
    """Something happens now: where, how bad, and which channels.

    Attributes
    ----------
    number
        Counted from 1 over the life of a stream.
    start, end
        The first sample that is anomalous, and the newest.
    start_time, end_time
        Their times; None where the stream has none.
    peak
        The worst of them.
    reason
        Why it was closed; None while it is open.
    cause
        Why it was opened: the ``"score"``, or ``"silence"``.
    evidence
        What each channel beyond its limit showed where it was farthest out, the farthest first; or
        what the channels showed that lead a joint score, where that was highest.
    severity
        How severe it is, from 0 to 100: by how far it is out, in how many channels, and for how
        long. It never falls while the alarm is open.
    sentence
        All of it in one sentence.
    votes
        The highest vote of each member of the committee while it was open; empty for other models.
    zone
        The zone that times are given out in; None: as they are. The times themselves are UTC.
    """

    number: int
    start: int
    start_time: np.datetime64 | None
    end: int
    end_time: np.datetime64 | None
    peak: Peak
    reason: str | None = None
    cause: str = SCORE
    evidence: tuple[Evidence, ...] = ()
    severity: int = 0
    sentence: str = ""
    votes: tuple[float, ...] = field(default=(), repr=False)
    zone: str | None = field(default=None, repr=False, compare=False)

    @property
    def open(self) -> bool:
        """Whether it is open."""
        return self.reason is None

    @property
    def severity_word(self) -> str:
        """``"low"``, ``"medium"``, ``"high"`` or ``"critical"``: from 0, 25, 50 and 75."""
        return SEVERITY_WORDS[min(self.severity, 99) * len(SEVERITY_WORDS) // 100]

    def with_sentence(self, sentence: str) -> Alarm:
        """Return the same alarm with this sentence."""
        return replace(self, sentence=sentence)

    @property
    def channels(self) -> Mapping[str, float]:
        """The channels that it is about, with their shares, largest first."""
        return self.peak.channels

    def __repr__(self) -> str:
        state = "open" if self.open else "closed"
        since = _moment(self.start, self.start_time, self.zone)
        return f"Alarm({self.number}, {state}, since {since}: {self.sentence})"

    _repr_html_ = hooks.html

    def as_dict(self) -> dict[str, Any]:
        """Return the documented JSON form as plain Python values.

        `number`; `start` and `end` with `start_time` and `end_time` (ISO 8601, or None); `peak`,
        an object of `sample`, `time`, `score`, `ratio`, `p_value` and `channels` (shares by
        name, largest first); `open`; `reason` (None while open); `cause`; `evidence`, a list of
        objects of `channel`, `observed`, `expected`, `low`, `high`, `start`, `end`, `sample`,
        `ratio`, `pace`, `unit`, `unusual` and `direction`; `severity`, from 0 to 100, and
        `severity_word`; `sentence`.
        """
        return _as_dict(self, self.zone, _OF_AN_ALARM)

    @classmethod
    def from_dict(cls, alarm: Mapping[str, Any]) -> Alarm:
        """Return what `as_dict` was made from; votes only where there are any."""
        peak = Peak(**_values(Peak, alarm["peak"]))
        evidence = tuple(map(Evidence.from_dict, alarm["evidence"]))
        return cls(**{**_values(cls, alarm), "peak": peak, "evidence": evidence})


@dataclass(frozen=True)
class Change:
    """The stream stands away from its accepted normal.

    Attributes
    ----------
    number
        Counted from 1 over the life of a stream.
    start, start_time
        Since when: the first sample of the alarm it began with, or the sample at which it was
        known.
    channels
        Which channels; none where it is about the model's weights.
    before, after
        Their levels, in the user's units: when last normal, and now; of one that has reverted, when
        they were farthest away.
    state
        ``"pending"``, ``"accepted"``, ``"rejected"`` or ``"reverted"``.
    alarm
        The number of the alarm it began with, or None.
    distance
        How far it is from the accepted normal; 1 is the limit.
    kind
        ``"level"``; ``"still"`` where channels stand still; ``"never"`` where they have values that
        history never had.
    sentence
        All of it in one sentence.
    units
        Of the channels, as the user gave them; none where that is not known.
    zone
        The zone that times are given out in, as in an `Alarm`.
    """

    number: int
    start: int
    start_time: np.datetime64 | None
    channels: tuple[str, ...]
    before: Mapping[str, float]
    after: Mapping[str, float]
    state: str = PENDING
    alarm: int | None = None
    distance: float = 0.0
    kind: str = "level"
    sentence: str = ""
    units: Mapping[str, str] = field(default_factory=dict, repr=False)
    zone: str | None = field(default=None, repr=False, compare=False)

    @property
    def open(self) -> bool:
        """Whether the stream still stands away: pending, or rejected."""
        return self.state in (PENDING, REJECTED)

    def __repr__(self) -> str:
        return f"Change({self.number}, {self.state}: {self.sentence})"

    _repr_html_ = hooks.html

    def as_dict(self) -> dict[str, Any]:
        """Return the documented JSON form as plain Python values: the attributes by name."""
        return _as_dict(self, self.zone)

    @classmethod
    def from_dict(cls, change: Mapping[str, Any]) -> Change:
        """Return what `as_dict` was made from; what else was added, as by a service, is left."""
        return cls(**_values(cls, change))


@dataclass(frozen=True)
class Event:
    """Something happened to an alarm or to a change.

    Attributes
    ----------
    kind
        Of an alarm: ``"opened"``, ``"updated"`` (it got markedly worse) or ``"closed"``. Of a
        change: ``"changed"``, ``"accepted"``, ``"rejected"`` or ``"reverted"``; ``"undone"`` of an
        acceptance: with the change that is open again, if it was one.
    sample, time
        The sample at which this was known: nothing later has a part in it.
    alarm
        The alarm as it stood; for ``"changed"`` the one that the change began with, or None.
    change
        The change as it stood; None for events of an alarm.
    zone
        The zone that times are given out in, as in an `Alarm`.
    """

    kind: str
    sample: int
    time: np.datetime64 | None
    alarm: Alarm | None = None
    change: Change | None = None
    zone: str | None = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        item = self.change or self.alarm
        about = "" if item is None else f": {item!r}"
        return f"Event({self.kind} at {_moment(self.sample, self.time, self.zone)}{about})"

    _repr_html_ = hooks.html

    def as_dict(self) -> dict[str, Any]:
        """Return `event`, `sample`, `time`, `alarm` and `change` as plain Python values."""
        return {
            "event": self.kind,
            "sample": self.sample,
            "time": text_of_time(self.time, self.zone),
            "alarm": None if self.alarm is None else self.alarm.as_dict(),
            "change": None if self.change is None else self.change.as_dict(),
        }

    @classmethod
    def from_dict(cls, event: Mapping[str, Any]) -> Event:
        """Return what `as_dict` was made from."""
        alarm, change = event["alarm"], event["change"]
        return cls(
            event["event"],
            event["sample"],
            time_of_text(event["time"]),
            None if alarm is None else Alarm.from_dict(alarm),
            None if change is None else Change.from_dict(change),
            zone_of_text(event["time"]),
        )

    def to_json(self) -> str:
        """Return the event as one line of JSON."""
        return json.dumps(self.as_dict(), ensure_ascii=False, allow_nan=False)


def _moment(sample: int, time: np.datetime64 | None, zone: str | None) -> str:
    return f"sample {sample}" if time is None else time_text(time, zone)


# Kinds of event of an incident.
INCIDENT = "incident"
INCIDENT_ENDED = "incident_ended"


@dataclass(frozen=True)
class Incident:
    """Alarms opened in many streams of a fleet at about the same time.

    Attributes
    ----------
    number
        Counted from 1 over the life of a fleet.
    start, end
        The moments at which the first and the newest of its alarms opened: nanoseconds since 1970,
        or the number of a sample where streams have no times.
    start_time, end_time
        The same as times; None where streams have none.
    streams
        The number of the first alarm of each stream, in the order in which they opened.
    open
        Whether it goes on.
    sentence
        All of it in one sentence.
    zone
        The zone that times are given out in: that of its streams, UTC where they differ.
    """

    number: int
    start: int
    start_time: np.datetime64 | None
    end: int
    end_time: np.datetime64 | None
    streams: Mapping[str, int]
    open: bool = True
    sentence: str = ""
    zone: str | None = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        state = "open" if self.open else "ended"
        return f"Incident({self.number}, {state}: {self.sentence})"

    _repr_html_ = hooks.html

    def as_dict(self) -> dict[str, Any]:
        """Return the documented JSON form as plain Python values: the attributes by name."""
        return _as_dict(self, self.zone)

    @classmethod
    def from_dict(cls, incident: Mapping[str, Any]) -> Incident:
        """Return what `as_dict` was made from."""
        return cls(**_values(cls, incident))


@dataclass(frozen=True)
class IncidentEvent:
    """An incident began or ended.

    >>> incident = Incident(1, 7, None, 8, None, {"web-1": 3, "web-2": 1, "db": 2})
    >>> IncidentEvent(INCIDENT, incident).as_dict()["incident"]["streams"]
    {'web-1': 3, 'web-2': 1, 'db': 2}
    """

    kind: str  # "incident" or "incident_ended"
    incident: Incident  # as it stood

    def as_dict(self) -> dict[str, Any]:
        """Return `event` and `incident` as plain Python values."""
        return {"event": self.kind, "incident": self.incident.as_dict()}

    @classmethod
    def from_dict(cls, event: Mapping[str, Any]) -> IncidentEvent:
        """Return what `as_dict` was made from."""
        return cls(event["event"], Incident.from_dict(event["incident"]))

    def to_json(self) -> str:
        """Return the event as one line of JSON."""
        return json.dumps(self.as_dict(), ensure_ascii=False, allow_nan=False)


def _as_dict(item: object, zone: str | None, names: Sequence[str] = ()) -> dict[str, Any]:
    """Return attributes, or all but the zone, as plain Python values."""
    names = names or [name for name in vars(item) if name != "zone"]
    return {name: _plain(getattr(item, name), zone) for name in names}


def _plain(value: Any, zone: str | None) -> Any:
    if isinstance(value, np.datetime64):
        return text_of_time(value, zone)
    if isinstance(value, Evidence):
        return value.as_dict()
    if isinstance(value, Peak):
        return _as_dict(value, zone)
    if isinstance(value, tuple):
        return [_plain(each, zone) for each in value]
    return dict(value) if isinstance(value, Mapping) else value


def _values(kind: Any, item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a kind in `_as_dict`'s form as they are; what else is there not."""
    known = {name: item[name] for name in kind.__dataclass_fields__ if name in item}
    for name, value in known.items():
        if name in ("start_time", "end_time", "time"):
            known[name] = time_of_text(value)
        elif isinstance(value, list):
            known[name] = tuple(value)
    return known | ({"zone": zone_of_text(item["start_time"])} if "start_time" in item else {})
