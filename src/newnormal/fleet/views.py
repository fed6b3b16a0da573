"""What a fleet shows of its streams."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from newnormal.fleet.incidents import IncidentTracker
from newnormal.fleet.stream import Stream
from newnormal.fleet.streams import Streams
from newnormal.types import NO_TIME, Alarm, Change, Incident

__all__ = ["StreamViews"]


class StreamViews:
    """The part of a `Fleet` that shows its streams, and what is open in them."""

    _streams: Streams
    _tracker: IncidentTracker
    _lock: threading.RLock
    _reading: dict[str, Any]

    @property
    def streams_(self) -> tuple[str, ...]:
        """The names of the streams, in the fleet's order."""
        return self._streams.names

    @property
    def nbytes_(self) -> int:
        """How many bytes the arrays of all streams take."""
        return self._streams.nbytes

    def blocks(self) -> Iterator[Stream]:
        """Give each stream as it lies in memory, in the fleet's order: to look at."""
        return iter(self._streams)

    @property
    def channels_(self) -> dict[str, tuple[str, ...]]:
        """The channels of each stream."""
        return {stream.name: stream.fitted.channels for stream in self._streams}

    @property
    def reading_(self) -> dict[str, Any] | None:
        """How history was read from a file, as JSON values; None if it was not."""
        return self._reading.get("file")

    @property
    def period_(self) -> np.timedelta64 | None:
        """The median of the streams' times between samples; None where none has one."""
        return self._streams.period

    @property
    def last_times_(self) -> dict[str, np.datetime64]:
        """The newest time of each stream that has one."""
        found: dict[str, np.datetime64] = {}
        for name in self._streams.names:
            group, at = self._streams.where(name)
            if group.newest[at] != NO_TIME:
                found[name] = np.datetime64(int(group.newest[at]), "ns")
        return found

    @property
    def incidents_(self) -> list[Incident]:
        """The newest incidents, open ones last."""
        return self._tracker.incidents

    @property
    def alarms_(self) -> dict[str, list[Alarm]]:
        """The open alarms of each stream that has any."""
        return self._opened("alarms_")

    @property
    def changes_(self) -> dict[str, list[Change]]:
        """The open changes of each stream that has any."""
        return self._opened("changes_")

    def _opened(self, what: str) -> dict[str, list[Any]]:
        with self._lock:
            found = {
                stream.name: list(getattr(stream.live(), what))
                for stream in self._streams
                if stream.past  # without any event nothing was ever opened
            }
        return {name: each for name, each in found.items() if each}
