"""What a watch writes to: the sink of one stream, or of a fleet."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from newnormal.alarms.words import Note, event_note, incident_event_note
from newnormal.fleet import FleetEvent, FleetVerdicts
from newnormal.io.sinks.base import Sink, SinkOptions
from newnormal.io.sinks.lines import JsonLinesSink
from newnormal.io.sinks.text import TextSink
from newnormal.types import IncidentEvent

_MOST_NAME = 24  # characters: a longer name of a stream is not what others are aligned to


class FleetSink(Protocol):
    """What a watch of a fleet writes to."""

    def write_fleet_verdicts(self, verdicts: FleetVerdicts) -> None:
        """Write verdicts."""

    def write_fleet_events(
        self, events: Sequence[FleetEvent], incidents: Sequence[IncidentEvent]
    ) -> None:
        """Write events of streams, and then those of the fleet."""

    def write_left(self, verdicts: Sequence[str], events: Sequence[str]) -> None:
        """Write lines that a killed watch did not, where the output is lines of JSON."""

    def flush(self) -> None:
        """Return once everything written so far would survive the end of this process."""


class OneStreamSink:
    """A sink of one stream as one of a fleet that has no other."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write_fleet_verdicts(self, verdicts: FleetVerdicts) -> None:
        """Write the verdicts of the stream."""
        if "" in verdicts:
            self._sink.write_verdicts(verdicts[""])

    def write_fleet_events(
        self, events: Sequence[FleetEvent], incidents: Sequence[IncidentEvent]
    ) -> None:
        """Write the events of the stream; one stream has no incidents."""
        del incidents
        if events:
            self._sink.write_events([event.event for event in events])

    def write_left(self, verdicts: Sequence[str], events: Sequence[str]) -> None:
        """Write lines that a killed watch did not."""
        if isinstance(self._sink, JsonLinesSink):
            self._sink.write_lines(events if self._sink.options.alarms_only else verdicts)

    def flush(self) -> None:
        """Hand everything on."""
        self._sink.flush()


class FleetJsonSink(JsonLinesSink):
    """One JSON line a verdict, or one an event where only events are wanted."""

    def write_fleet_verdicts(self, verdicts: FleetVerdicts) -> None:
        """Write a line a verdict, unless only events are wanted."""
        if not self.options.alarms_only:
            self.write_lines(verdicts.json_lines())

    def write_left(self, verdicts: Sequence[str], events: Sequence[str]) -> None:
        """Write lines that a killed watch did not."""
        self.write_lines(events if self.options.alarms_only else verdicts)

    def write_fleet_events(
        self, events: Sequence[FleetEvent], incidents: Sequence[IncidentEvent]
    ) -> None:
        """Write a line an event, if only events are wanted."""
        if self.options.alarms_only:
            self.write_lines([event.to_json() for event in events])
            self.write_lines(['{"stream": null, ' + event.to_json()[1:] for event in incidents])


class FleetTextSink(TextSink):
    """A block of text an event, with the name of its stream first."""

    def __init__(self, target: str, options: SinkOptions) -> None:
        super().__init__(target, options)
        self.name_width = 0  # the width that the names of streams are given

    def align(self, names: Sequence[str]) -> None:
        """Give names the width of the longest."""
        self.name_width = min(max(map(len, names), default=0), _MOST_NAME)

    def write_fleet_verdicts(self, verdicts: FleetVerdicts) -> None:
        """Show on the screen, if there is one, how far it is."""
        if self.screen is not None and len(verdicts):
            times = verdicts.times
            timed = None if times is None else times[~np.isnat(times)]
            newest = None if timed is None or not len(timed) else timed.max()
            self.screen.count(len(verdicts), newest, verdicts.zone)

    def write_left(self, verdicts: Sequence[str], events: Sequence[str]) -> None:
        """Write nothing: `newnormal alarms` lists what was left, in words."""

    def write_fleet_events(
        self, events: Sequence[FleetEvent], incidents: Sequence[IncidentEvent]
    ) -> None:
        """Write what happened in streams and to the fleet, by time where all of it has times.

        Without times the incidents follow. Of a whole file they would be hours after their alarms.
        """
        notes: list[tuple[Note, str | None]] = []
        for row in events:
            if self.screen is not None:
                self.screen.note(row.stream, row.event)
            deciding = self.deciding._replace(stream=row.stream)
            notes.append((event_note(row.event, deciding), row.stream))
        notes += [(incident_event_note(event), "") for event in incidents]
        times = [row.event.time for row in events]
        times += [event.incident.end_time for event in incidents]
        if incidents and all(time is not None for time in times):
            order = np.argsort(np.array(times, dtype="datetime64[ns]"), kind="stable")
            notes = [notes[position] for position in order.tolist()]
        self.write_notes(notes, self.name_width)
