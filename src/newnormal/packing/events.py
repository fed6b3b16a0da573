"""Alarms, changes and their events as facts of a state file, and back."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

from newnormal.alarms.log import NAMED
from newnormal.alarms.words import in_zone
from newnormal.errors import StateError
from newnormal.state.schema import Facts, as_json
from newnormal.types import (
    ACCEPTED,
    CHANGED,
    CLOSED,
    OPENED,
    PENDING,
    REJECTED,
    REVERTED,
    ROLLED_BACK,
    SCORE,
    SILENCE,
    UPDATED,
    Alarm,
    Change,
    Event,
    Evidence,
    Peak,
)
from newnormal.types.arrays import time_of_text

_OF_ALARMS = (OPENED, UPDATED, CLOSED)
_OF_CHANGES = (CHANGED, ACCEPTED, REJECTED, REVERTED)
_KINDS = (*_OF_ALARMS, *_OF_CHANGES, ROLLED_BACK)
_CAUSES = (SCORE, SILENCE)
_STATES = (PENDING, ACCEPTED, REJECTED, REVERTED)
_LONGEST_TIME = 40  # characters
# Characters of the past, a third of what a file may have: a change of 200 channels takes 20,000.
_ROOM = 1_000_000


def event_facts(event: Event) -> dict[str, Any]:
    """Return an event that has not been taken yet; times are UTC in a file, in whatever zone."""
    event = in_zone(event, None)
    return {
        **event.as_dict(),
        "alarm": None if event.alarm is None else _alarm_facts(event.alarm),
        "change": None if event.change is None else _change_facts(event.change),
    }


def past_facts(past: Iterable[Alarm | Change]) -> list[dict[str, Any]]:
    """Return alarms and changes that may be over: the newest ones, as far as there is room."""
    found: list[dict[str, Any]] = []
    room = _ROOM
    for each in reversed(list(past)):
        facts = {
            "alarm": _alarm_facts(each) if isinstance(each, Alarm) else None,
            "change": None if isinstance(each, Alarm) else _change_facts(each),
        }
        room -= len(json.dumps(facts))
        if room < 0:
            break
        found.append(facts)
    return found[::-1]


def _alarm_facts(alarm: Alarm) -> dict[str, Any]:
    """Return an alarm; its channels are pairs, since keys of JSON objects are sorted on the way."""
    found = in_zone(alarm, None).as_dict()
    peak = found["peak"]
    return {
        **found,
        "peak": {**peak, "channels": [[*each] for each in peak["channels"].items()]},
        "evidence": [vars(each) for each in alarm.evidence],
        "votes": [as_json(vote) for vote in alarm.votes],
    }


def _change_facts(change: Change) -> dict[str, Any]:
    return {**in_zone(change, None).as_dict(), "distance": as_json(change.distance)}


class EventReader:
    """Reads alarms, changes and events of a stream with these channels and so many votes."""

    def __init__(self, channels: Collection[str], votes: int) -> None:
        self.channels = frozenset(channels)
        self.votes = votes

    def event(self, facts: Facts) -> Event:
        """Return an event that has not been taken yet."""
        kind = facts.text("event")
        if kind not in _KINDS:
            raise facts.wrong("event", ", ".join(_KINDS), kind)
        sample, time = facts.count("sample", -1), _time(facts, "time")
        alarm, change = self._either(facts)
        if (kind in _OF_ALARMS) != (alarm is not None) and kind != CHANGED:
            raise facts.wrong("alarm", f"one where {', '.join(_OF_ALARMS)}", kind)
        if (kind in _OF_CHANGES) != (change is not None):
            raise facts.wrong("change", f"one where {', '.join(_OF_CHANGES)}", kind)
        return Event(kind, sample, time, alarm, change)

    def past(self, facts: list[Facts]) -> list[Alarm | Change]:
        """Return alarms and changes that may be over, each of its own number."""
        found: list[Alarm | Change] = []
        for each in facts:
            alarm, change = self._either(each)
            if alarm is not None and change is None:
                found.append(alarm)
            elif change is not None and alarm is None:
                found.append(change)
            else:
                raise each.wrong("alarm", "an alarm or a change", "both or none")
        if len({(type(each), each.number) for each in found}) < len(found):
            raise StateError("past: expected different numbers, found one twice")
        return found

    def _either(self, facts: Facts) -> tuple[Alarm | None, Change | None]:
        """Take the rest of the facts out: an alarm, a change, both or none."""
        has_alarm, has_change = facts.has("alarm"), facts.has("change")
        alarm = self._alarm(facts.part("alarm")) if has_alarm else facts.take("alarm")
        change = self._change(facts.part("change")) if has_change else facts.take("change")
        facts.done()
        return alarm, change

    def _alarm(self, facts: Facts) -> Alarm:
        own = facts.part("peak")
        peak = Peak(
            own.count("sample"),
            _time(own, "time"),
            own.number("score"),
            own.number("ratio"),
            own.number("p_value", 0, 1),
            self._shares(own),
        )
        own.done()
        reason, cause = facts.take("reason"), facts.text("cause")
        if reason is not None and not isinstance(reason, str):
            raise facts.wrong("reason", "a text or null", reason)
        if cause not in _CAUSES:
            raise facts.wrong("cause", " or ".join(_CAUSES), cause)
        if facts.flag("open") != (reason is None):
            raise facts.wrong("open", "true without a reason", reason)
        votes = facts.numbers("votes", self.votes)
        if len(votes) not in (0, self.votes):
            raise facts.wrong("votes", f"none or {self.votes}", votes)
        alarm = Alarm(
            facts.count("number", 1),
            facts.count("start"),
            _time(facts, "start_time"),
            facts.count("end"),
            _time(facts, "end_time"),
            peak,
            reason,
            cause,
            tuple(map(self._evidence, facts.parts("evidence", NAMED))),
            facts.text("sentence"),
            tuple(votes),
        )
        facts.done()
        return alarm

    def _change(self, facts: Facts) -> Change:
        channels = tuple(facts.list("channels", len(self.channels)))
        if not all(isinstance(name, str) and name in self.channels for name in channels):
            raise facts.wrong("channels", "known names", list(channels))
        state = facts.text("state")
        if state not in _STATES:
            raise facts.wrong("state", ", ".join(_STATES), state)
        before, after = facts.part("before"), facts.part("after")
        change = Change(
            facts.count("number", 1),
            facts.count("start"),
            _time(facts, "start_time"),
            channels,
            {name: before.number(name) for name in channels},
            {name: after.number(name) for name in channels},
            state,
            facts.count("alarm", 1) if facts.has("alarm") else facts.take("alarm"),
            facts.number("distance", 0),
            facts.text("sentence"),
        )
        for each in (before, after, facts):
            each.done()
        return change

    def _shares(self, facts: Facts) -> dict[str, float]:
        found: dict[str, float] = {}
        for each in facts.list("channels", NAMED):
            fits = isinstance(each, list) and len(each) == 2 and isinstance(each[0], str)
            share = each[1] if fits else None
            if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 2:
                raise facts.wrong("channels", "pairs of a name and a share", each)
            self._check_name(facts, "channels", each[0])
            found[each[0]] = float(share)
        return found

    def _evidence(self, facts: Facts) -> Evidence:
        name = facts.text("channel")
        self._check_name(facts, "channel", name)
        values = [
            facts.number(each) if facts.has(each) else facts.take(each)
            for each in ("observed", "expected", "low", "high")
        ]
        facts.done()
        return Evidence(name, *values)

    def _check_name(self, facts: Facts, name: str, found: str) -> None:
        if found not in self.channels:
            raise facts.wrong(name, "known names", found)


def _time(facts: Facts, name: str) -> np.datetime64 | None:
    found = facts.take(name)
    if found is None:
        return None
    try:
        if isinstance(found, str) and len(found) <= _LONGEST_TIME:
            when = time_of_text(found)
            if when is not None and not np.isnat(when):
                return when
    except (ValueError, OverflowError):
        pass
    raise facts.wrong(name, "a time or null", found)
