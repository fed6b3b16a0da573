"""JSON lines to standard output or to a file."""

from __future__ import annotations

from collections.abc import Sequence

from newnormal.io.sinks.lines import LinesSink
from newnormal.types import Event, Verdicts


class JsonLinesSink(LinesSink):
    """One JSON line a verdict, or one an event where only events are wanted.

    The target ``"-"`` is standard output; any other is a file that is appended to.
    """

    def write_verdicts(self, verdicts: Verdicts) -> None:
        """Write a line a verdict, unless only events are wanted."""
        if not self.options.alarms_only:
            self.write_lines(verdicts.json_lines())

    def write_events(self, events: Sequence[Event]) -> None:
        """Write a line an event, if only events are wanted."""
        if self.options.alarms_only:
            self.write_lines(event.to_json() for event in events)
