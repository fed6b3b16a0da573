"""Alarms, changes and events in the zone that their stream's times are given out in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from newnormal.alarms.sentences import change_sentence
from newnormal.types import Alarm, Change, Event

_Found = TypeVar("_Found", bound=Alarm | Change | Event)


def in_zone(found: _Found, zone: str | None) -> _Found:
    """Return an alarm, a change or an event whose times are given out in a zone.

    Only the sentence of a change has a time in it: it is written anew.

    >>> import numpy as np
    >>> when = np.datetime64("2026-07-01T10:00", "ns")
    >>> event = Event("rolled_back", 7, when)
    >>> in_zone(event, "Europe/Berlin").as_dict()["time"]
    '2026-07-01T12:00:00+02:00'
    """
    if found.zone == zone:
        return found
    changes: dict[str, Any] = {"zone": zone}
    if isinstance(found, Event):
        for name in ("alarm", "change"):
            part = getattr(found, name)
            changes[name] = None if part is None else in_zone(part, zone)
    elif isinstance(found, Change) and found.start_time is not None and found.sentence:
        changes["sentence"] = change_sentence(replace(found, zone=zone))
    return replace(found, **changes)
