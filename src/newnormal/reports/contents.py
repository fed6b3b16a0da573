"""What a report is about: one stream, or the streams of a fleet and its incidents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from newnormal.errors import InputError
from newnormal.fleet.results import FleetVerdicts
from newnormal.tabular.columns import listed
from newnormal.texts import counted
from newnormal.types import IncidentEvent, Timeline, Verdicts


@dataclass(frozen=True, eq=False)
class Contents:
    """The streams of a report.

    Attributes
    ----------
    name
        For the title.
    timelines
        One a stream.
    incidents
        What happened to incidents.
    fleet
        Whether there may be many streams.
    """

    name: str
    timelines: tuple[Timeline, ...]
    incidents: Sequence[IncidentEvent] = ()
    fleet: bool = False

    @classmethod
    def of(cls, found: Any, name: str = "", labels: Any = None) -> Self:
        """Return it for verdicts of a detector or of a fleet, for a timeline, or by stream."""
        if isinstance(found, cls):
            return found
        if isinstance(found, Timeline):
            return cls(name or found.name, (found,))
        if isinstance(found, Verdicts):
            return cls(name, (Timeline.of(found, name, labels),))
        if not isinstance(found, FleetVerdicts | Mapping):
            raise InputError(
                f"expected verdicts, found {type(found).__name__}",
                hint="take those that detector.run(series) or fleet.run(series) returns",
            )
        if isinstance(found, FleetVerdicts) and found.observed is None:
            raise InputError(
                "expected verdicts of series that are over, found none that know their samples",
                hint="take those that fleet.run(series) returns, without flush=False",
            )
        given = _labels_by_stream(found, labels)
        timelines = tuple(
            Timeline.of(_verdicts_of(found[each], each), each, given.get(each)) for each in found
        )
        incidents = found.incidents if isinstance(found, FleetVerdicts) else ()
        return cls(name, timelines, incidents, fleet=True)

    def summary(self) -> str:
        """Return how many alarms, changes and incidents there are, in words."""
        alarms = [alarm for each in self.timelines for alarm in each.alarms]
        still = sum(alarm.open for alarm in alarms)
        parts = [counted(len(self.timelines), "stream")] if self.fleet else []
        parts.append(counted(len(alarms), "alarm") + (f" ({still:,} open)" if still else ""))
        states = Counter(span.change.state for each in self.timelines for span in each.changes)
        parts += [f"{counted(count, 'change')} {state}" for state, count in states.items()]
        incidents = {event.incident.number for event in self.incidents}
        if incidents:
            parts.append(counted(len(incidents), "incident"))
        return ", ".join(parts)


def _verdicts_of(found: Any, stream: str) -> Verdicts:
    if isinstance(found, Verdicts):
        return found
    raise InputError(
        f"expected verdicts by stream, found {type(found).__name__} of {stream!r}",
        hint="take those that detector.run(series) returns",
    )


def _labels_by_stream(found: Mapping[str, Any] | FleetVerdicts, labels: Any) -> Mapping[str, Any]:
    """Return the labels of each stream that has any; raise an InputError if they are not that."""
    if labels is None:
        return {}
    if not isinstance(labels, Mapping):
        raise InputError(
            f"labels: expected those of each stream by its name, found {type(labels).__name__}",
            hint='such as labels={"web-1": truth}',
        )
    known = list(found)
    unknown = [each for each in labels if each not in known]
    if unknown:
        raise InputError(
            f"labels: expected names of streams, found {unknown[0]!r}",
            hint=f"the streams are {listed(tuple(known))}",
        )
    return labels
