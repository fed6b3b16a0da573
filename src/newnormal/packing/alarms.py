"""Alarms and their events as facts of a state file, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from newnormal.alarms import log
from newnormal.core.state import LogState
from newnormal.errors import StateError
from newnormal.state.schema import Facts, as_json
from newnormal.types import CLOSED, OPENED, UPDATED, Alarm, Event, Peak

__all__ = ["event_facts", "event_of", "log_facts", "log_of"]

_KINDS = (OPENED, UPDATED, CLOSED)
_LONGEST_TIME = 40  # characters


def log_facts(state: LogState, channels: tuple[str, ...]) -> dict[str, Any] | None:
    """Return the open alarm, or None."""
    alarm = log.open_alarm(state, channels)
    if alarm is None:
        return None
    return {**_alarm_facts(alarm), "reported": as_json(float(state.levels[log.REPORTED]))}


def event_facts(event: Event) -> dict[str, Any]:
    """Return an event that has not been taken yet."""
    return {**event.as_dict(), "alarm": _alarm_facts(event.alarm)}


def _alarm_facts(alarm: Alarm) -> dict[str, Any]:
    """Return an alarm; its channels are pairs, since keys of JSON objects are sorted on the way."""
    found = alarm.as_dict()
    peak = found["peak"]
    return {**found, "peak": {**peak, "channels": [[*each] for each in peak["channels"].items()]}}


def log_of(facts: Facts | None, channels: tuple[str, ...]) -> LogState:
    """Return the state of the log, given the open alarm."""
    state = LogState.initial()
    if facts is None:
        return state
    reported = facts.number("reported")
    alarm = _alarm_of(facts)
    if alarm.reason is not None:
        raise StateError("alarm.open.reason: expected null, found a reason")
    peak = alarm.peak
    state.counts[:] = (
        alarm.number,
        alarm.start,
        alarm.end,
        peak.sample,
        log.CAUSES.index(alarm.cause),
        log.STATES.index(alarm.state),
    )
    state.levels[:] = peak.score, peak.ratio, peak.p_value, reported
    for at, when in enumerate((alarm.start_time, alarm.end_time, peak.time)):
        if when is not None:
            state.times[at] = when.astype(np.int64)
    for at, (name, share) in enumerate(peak.channels.items()):
        if name not in channels:
            raise StateError(f"alarm.open.peak.channels: expected known names, found {name!r}")
        state.channels[at], state.shares[at] = channels.index(name), share
    return state


def event_of(found: object) -> Event:
    """Return an event that has not been taken yet."""
    facts = Facts(found, "events.")
    kind = facts.text("event")
    if kind not in _KINDS:
        raise facts.wrong("event", "opened, updated or closed", kind)
    alarm = _alarm_of(facts.part("alarm"))
    event = Event(kind, facts.count("sample", -1), _time(facts, "time"), alarm)
    facts.done()
    return event


def _alarm_of(facts: Facts) -> Alarm:
    own = facts.part("peak")
    peak = Peak(
        own.count("sample"),
        _time(own, "time"),
        own.number("score"),
        own.number("ratio"),
        own.number("p_value", 0, 1),
        _channels(own),
    )
    own.done()
    reason, cause, state = facts.take("reason"), facts.text("cause"), facts.text("state")
    if reason is not None and not isinstance(reason, str):
        raise facts.wrong("reason", "a text or null", reason)
    if cause not in log.CAUSES:
        raise facts.wrong("cause", " or ".join(log.CAUSES), cause)
    if state not in log.STATES:
        raise facts.wrong("state", ", ".join(log.STATES), state)
    if facts.flag("open") != (reason is None):
        raise facts.wrong("open", "true without a reason", reason)
    alarm = Alarm(
        facts.count("number", 1),
        facts.count("start"),
        _time(facts, "start_time"),
        facts.count("end"),
        _time(facts, "end_time"),
        peak,
        reason,
        cause,
        state,
    )
    facts.done()
    return alarm


def _channels(facts: Facts) -> dict[str, float]:
    found: dict[str, float] = {}
    for each in facts.list("channels", log.NAMED):
        fits = isinstance(each, list) and len(each) == 2 and isinstance(each[0], str)
        share = each[1] if fits else None
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 2:
            raise facts.wrong("channels", "pairs of a name and a share", each)
        found[each[0]] = float(share)
    return found


def _time(facts: Facts, name: str) -> np.datetime64 | None:
    found = facts.take(name)
    if found is None:
        return None
    try:
        if isinstance(found, str) and len(found) <= _LONGEST_TIME:
            when = np.datetime64(found, "ns")
            if not np.isnat(when):
                return when
    except (ValueError, OverflowError):
        pass
    raise facts.wrong(name, "a time or null", found)
