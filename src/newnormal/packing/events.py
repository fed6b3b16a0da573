"""Alarms, changes and their events as facts of a state file, and back."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from newnormal import types
from newnormal.alarms.words import in_zone
from newnormal.errors import StateError
from newnormal.state.facts import Facts, as_json
from newnormal.types.arrays import time_of_text

_OF_ALARMS = (types.OPENED, types.UPDATED, types.CLOSED)
_OF_CHANGES = (types.CHANGED, types.ACCEPTED, types.REJECTED, types.REVERTED)
_KINDS = (*_OF_ALARMS, *_OF_CHANGES, types.UNDONE)
_IF_ANY = (
    "unit",
    "unusual",
    "units",
    "comes_and_goes",
)  # facts that are not there where they are empty
_LONGEST_TIME = 40  # characters
# Characters of the past, a third of what a file may have: a change of 200 channels takes 20,000.
_ROOM = 1_000_000


def event_facts(event: types.Event) -> dict[str, Any]:
    """Return an event that has not been taken yet; times are UTC in a file, in whatever zone."""
    event = in_zone(event, None)
    return {
        **event.as_dict(),
        "alarm": None if event.alarm is None else _alarm_facts(event.alarm),
        "change": None if event.change is None else _change_facts(event.change),
    }


def past_facts(past: Iterable[types.Alarm | types.Change]) -> list[dict[str, Any]]:
    """Return alarms and changes that may be over: the newest ones, as far as there is room."""
    newest: list[dict[str, Any]] = []
    room = _ROOM
    for each in reversed(list(past)):
        facts = {
            "alarm": _alarm_facts(each) if isinstance(each, types.Alarm) else None,
            "change": None if isinstance(each, types.Alarm) else _change_facts(each),
        }
        room -= len(json.dumps(facts))
        if room < 0:
            break
        newest.append(facts)
    return newest[::-1]


def _alarm_facts(alarm: types.Alarm) -> dict[str, Any]:
    """Return an alarm; its channels are pairs, since keys of JSON objects are sorted on the way."""
    facts = in_zone(alarm, None).as_dict()
    peak = facts["peak"]
    return {
        **facts,
        "peak": {**peak, "channels": [[*each] for each in peak["channels"].items()]},
        "evidence": [_without_empty(vars(each)) for each in alarm.evidence],
        "votes": [as_json(vote) for vote in alarm.votes],
    }


def _change_facts(change: types.Change) -> dict[str, Any]:
    facts = {**in_zone(change, None).as_dict(), "distance": as_json(change.distance)}
    return _without_empty(facts)


def _without_empty(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if value or name not in _IF_ANY}


class EventReader:
    """Checks alarms, changes and events of a stream with these channels and so many votes.

    What is checked has the documented form of JSON, which `newnormal.types` decodes.
    """

    def __init__(self, channels: Collection[str], votes: int) -> None:
        self.channels = frozenset(channels)
        self.votes = votes

    def event(self, facts: Facts) -> types.Event:
        """Return an event that has not been taken yet."""
        kind = _one_of(_KINDS, facts, "event")
        sample, time = facts.count("sample", -1), _time(facts, "time")
        alarm, change = self._either(facts)
        if (kind in _OF_ALARMS) != (alarm is not None) and kind != types.CHANGED:
            raise facts.wrong("alarm", f"one where {', '.join(_OF_ALARMS)}", kind)
        if (kind in _OF_CHANGES) != (change is not None) and kind != types.UNDONE:
            raise facts.wrong("change", f"one where {', '.join(_OF_CHANGES)}", kind)
        return types.Event.from_dict(
            {"event": kind, "sample": sample, "time": time, "alarm": alarm, "change": change}
        )

    def past(self, facts: list[Facts]) -> list[types.Alarm | types.Change]:
        """Return alarms and changes that may be over, each of its own number."""
        past: list[types.Alarm | types.Change] = []
        for part in facts:
            alarm, change = self._either(part)
            if alarm is not None and change is None:
                past.append(types.Alarm.from_dict(alarm))
            elif change is not None and alarm is None:
                past.append(types.Change.from_dict(change))
            else:
                raise part.wrong("alarm", "an alarm or a change", "both or none")
        if len({(type(item), item.number) for item in past}) < len(past):
            raise StateError("past: expected different numbers, found one twice")
        return past

    def _either(self, facts: Facts) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
        """Take the rest of the facts out: an alarm, a change, both or none."""
        alarm = facts.nullable("alarm", lambda name: self._alarm(facts.part(name)))
        change = facts.nullable("change", lambda name: self._change(facts.part(name)))
        facts.done()
        return alarm, change

    def _alarm(self, facts: Facts) -> dict[str, Any]:
        peak, reason = facts.part("peak"), facts.nullable("reason", facts.text)
        if facts.flag("open") != (reason is None):
            raise facts.wrong("open", "true without a reason", reason)
        votes = facts.numbers("votes", self.votes)
        if len(votes) not in (0, self.votes):
            raise facts.wrong("votes", f"none or {self.votes}", votes)
        alarm = {
            "number": facts.count("number", 1),
            "start": facts.count("start"),
            "start_time": _time(facts, "start_time"),
            "end": facts.count("end"),
            "end_time": _time(facts, "end_time"),
            "peak": {
                "sample": peak.count("sample"),
                "time": _time(peak, "time"),
                "score": peak.number("score"),
                "ratio": peak.number("ratio"),
                "p_value": peak.number("p_value", 0, 1),
                "channels": self._shares(peak),
            },
            "reason": reason,
            "cause": _one_of((types.SCORE, types.SILENCE), facts, "cause", " or "),
            "evidence": list(map(self._evidence, facts.parts("evidence", len(self.channels)))),
            "severity": facts.count("severity", 0, 100),
            "sentence": facts.text("sentence"),
            "votes": votes,
        }
        facts.take("severity_word")
        for part in (peak, facts):
            part.done()
        return alarm

    def _change(self, facts: Facts) -> dict[str, Any]:
        channels = facts.list("channels", len(self.channels))
        if not all(isinstance(name, str) and name in self.channels for name in channels):
            raise facts.wrong("channels", "known names", channels)
        before, after = facts.part("before"), facts.part("after")
        units = facts.part("units") if facts.has("units") else Facts({})
        change = {
            "number": facts.count("number", 1),
            "start": facts.count("start"),
            "start_time": _time(facts, "start_time"),
            "channels": channels,
            "before": {name: before.number(name) for name in channels},
            "after": {name: after.number(name) for name in channels},
            "state": _one_of(
                (types.PENDING, types.ACCEPTED, types.REJECTED, types.REVERTED), facts, "state"
            ),
            "alarm": facts.nullable("alarm", facts.count, 1),
            "distance": facts.number("distance", 0),
            "kind": _one_of(types.CHANGE_KINDS, facts, "kind"),
            "sentence": facts.text("sentence"),
            "units": {name: units.text(name) for name in channels if units.has(name)},
        }
        for part in (before, after, units, facts):
            part.done()
        return change

    def _shares(self, facts: Facts) -> dict[str, float]:
        shares: dict[str, float] = {}
        for pair in facts.list("channels", len(self.channels)):
            fits = isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)
            share = pair[1] if fits else None
            if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 2:
                raise facts.wrong("channels", "pairs of a name and a share", pair)
            self._check_name(facts, "channels", pair[0])
            shares[pair[0]] = float(share)
        return shares

    def _evidence(self, facts: Facts) -> dict[str, Any]:
        evidence: dict[str, Any] = {"channel": facts.text("channel")}
        for name in ("unit", "unusual"):
            evidence[name] = facts.text(name) if facts.has(name) else ""
        evidence["comes_and_goes"] = facts.has("comes_and_goes") and facts.flag("comes_and_goes")
        self._check_name(facts, "channel", evidence["channel"])
        for name in ("observed", "expected", "low", "high", "ratio", "pace"):
            evidence[name] = facts.nullable(name, facts.number)
        for name in ("start", "end", "sample"):
            evidence[name] = facts.nullable(name, facts.count)
        facts.done()
        return evidence

    def _check_name(self, facts: Facts, name: str, channel: str) -> None:
        if channel not in self.channels:
            raise facts.wrong(name, "known names", channel)


def _time(facts: Facts, name: str) -> str | None:
    if (text := facts.take(name)) is None:
        return None
    try:
        if isinstance(text, str) and len(text) <= _LONGEST_TIME:
            time = time_of_text(text)
            if time is not None and not np.isnat(time):
                return text
    except (ValueError, OverflowError):
        pass
    raise facts.wrong(name, "a time or null", text)


def _one_of(texts: Sequence[str], facts: Facts, name: str, between: str = ", ") -> str:
    text = facts.text(name)
    if text not in texts:
        raise facts.wrong(name, between.join(texts), text)
    return text
