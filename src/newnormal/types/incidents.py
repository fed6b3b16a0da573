"""Incidents of a fleet, and the events that report them, as values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from newnormal import hooks
from newnormal.types.arrays import text_of_time, time_of_text, zone_of_text

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
        return {
            **{name: value for name, value in vars(self).items() if name != "zone"},
            "start_time": text_of_time(self.start_time, self.zone),
            "end_time": text_of_time(self.end_time, self.zone),
            "streams": dict(self.streams),
        }

    @classmethod
    def from_dict(cls, incident: Mapping[str, Any]) -> Incident:
        """Return what `as_dict` was made from."""
        return cls(
            **{
                **incident,
                "start_time": time_of_text(incident["start_time"]),
                "end_time": time_of_text(incident["end_time"]),
                "streams": dict(incident["streams"]),
                "zone": zone_of_text(incident["start_time"]),
            }
        )


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
