"""What a report is about: one stream, or the streams of a fleet and its incidents."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from newnormal.errors import InputError
from newnormal.fleet.results import FleetVerdicts
from newnormal.texts import counted, listed
from newnormal.types import IncidentEvent, Timeline, Verdicts


@dataclass(frozen=True, eq=False)
class Contents:
    """The streams of a report."""

    name: str  # for the title
    timelines: tuple[Timeline, ...]  # one a stream
    incidents: Sequence[IncidentEvent] = ()
    fleet: bool = False  # whether there may be many streams

    @classmethod
    def of(cls, verdicts: Any, name: str = "", labels: Any = None) -> Self:
        """Return it for verdicts of a detector or of a fleet, for a timeline, or by stream."""
        if isinstance(verdicts, cls):
            return verdicts
        if isinstance(verdicts, Timeline):
            return cls(name or verdicts.name, (verdicts,))
        if isinstance(verdicts, Verdicts):
            return cls(name, (Timeline.of(verdicts, name, labels),))
        if not isinstance(verdicts, FleetVerdicts | Mapping):
            raise InputError(
                f"expected verdicts, found {type(verdicts).__name__}",
                hint="take those that detector.run(series) or fleet.run(series) returns",
            )
        if isinstance(verdicts, FleetVerdicts) and verdicts.observed is None:
            raise InputError(
                "expected verdicts of series that are over, found none that know their samples",
                hint="take those that fleet.run(series) returns, without flush=False",
            )
        truth = _labels_by_stream(verdicts, labels)
        timelines = tuple(
            Timeline.of(_checked(verdicts[stream], stream), stream, truth.get(stream))
            for stream in verdicts
        )
        incidents = verdicts.incidents if isinstance(verdicts, FleetVerdicts) else ()
        return cls(name, timelines, incidents, fleet=True)

    def summary(self) -> str:
        """Return how many alarms, changes and incidents there are, in words."""
        alarms = [alarm for timeline in self.timelines for alarm in timeline.alarms]
        still = sum(alarm.open for alarm in alarms)
        parts = [counted(len(self.timelines), "stream")] if self.fleet else []
        parts.append(counted(len(alarms), "alarm") + (f" ({still:,} open)" if still else ""))
        changes = [span.change for timeline in self.timelines for span in timeline.changes]
        states = Counter(change.state for change in changes)
        parts += [f"{counted(count, 'change')} {state}" for state, count in states.items()]
        if incidents := {event.incident.number for event in self.incidents}:
            parts.append(counted(len(incidents), "incident"))
        return ", ".join(parts)


def _checked(verdicts: Any, stream: str) -> Verdicts:
    if isinstance(verdicts, Verdicts):
        return verdicts
    raise InputError(
        f"expected verdicts by stream, found {type(verdicts).__name__} of {stream!r}",
        hint="take those that detector.run(series) returns",
    )


def _labels_by_stream(
    verdicts: Mapping[str, Any] | FleetVerdicts, labels: Any
) -> Mapping[str, Any]:
    """Return the labels of each stream that has any; raise an InputError if they are not that."""
    if labels is None:
        return {}
    if not isinstance(labels, Mapping):
        raise InputError(
            f"labels: expected those of each stream by its name, found {type(labels).__name__}",
            hint='such as labels={"web-1": truth}',
        )
    streams = tuple(verdicts)
    if unknown := [name for name in labels if name not in streams]:
        raise InputError(
            f"labels: expected names of streams, found {unknown[0]!r}",
            hint=f"the streams are {listed(streams)}",
        )
    return labels
