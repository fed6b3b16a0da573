"""What a fleet shows of its streams."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from newnormal import hooks
from newnormal.base import BaseDetector
from newnormal.fleet.incidents import IncidentTracker
from newnormal.fleet.results import FleetVerdicts
from newnormal.fleet.stream import Stream
from newnormal.fleet.streams import Streams
from newnormal.tabular import StreamTables
from newnormal.types import NO_TIME, Alarm, Change, Incident
from newnormal.types.zones import common_zone


class StreamViews:
    """The part of a `Fleet` that shows its streams, and what is open in them."""

    detector: BaseDetector
    _streams: Streams
    _tracker: IncidentTracker
    _lock: threading.RLock
    _reading: dict[str, Any]
    _live_zone: str | None = None  # that all streams were given at last; "": each its own

    def __repr__(self) -> str:
        count = len(self._streams)
        return f"Fleet({count:,} stream{'' if count == 1 else 's'}, {self.detector!r})"

    def _repr_html_(self) -> str:
        """Return it as a notebook shows it."""
        return hooks.html(self)

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
        return [self._zoned(each) for each in self._tracker.incidents]

    @property
    def zones_(self) -> dict[str, str]:
        """The zone that times are given out in, of each stream that has one."""
        return {stream.name: zone for stream in self._streams if (zone := stream.zone) is not None}

    def see_zone(self, zone: str | None) -> None:
        """Take note of the zone of an input that all streams are in."""
        if zone != self._live_zone:
            for stream in self._streams:
                stream.live_zone = zone
        self._live_zone = zone

    def _see_zones(self, tables: StreamTables) -> None:
        """Take note of the zone of each stream's times."""
        for name, table in tables.tables.items():
            if table.times is not None and name in self._streams:
                self._streams[name].live_zone = table.zone
        self._live_zone = ""

    def in_zones(self, verdicts: FleetVerdicts) -> FleetVerdicts:
        """Return verdicts whose events have the zones that their streams have by now."""
        zones = self.zones_
        return FleetVerdicts(
            verdicts.parts,
            verdicts.errors,
            tuple(each.in_zone(zones.get(each.stream)) for each in verdicts.events),
            tuple(
                replace(each, incident=self._zoned(each.incident)) for each in verdicts.incidents
            ),
        )

    def _zoned(self, incident: Incident) -> Incident:
        """Return an incident in the zone that its streams have in common."""
        known = [name for name in incident.streams if name in self._streams]
        zone = common_zone({self._streams[name].zone for name in known})
        return incident if zone is None else replace(incident, zone=zone)

    @property
    def alarms_(self) -> dict[str, list[Alarm]]:
        """The open alarms of each stream that has any."""
        return self._opened("alarms_")

    @property
    def changes_(self) -> dict[str, list[Change]]:
        """The open changes of each stream that has any."""
        return self._opened("changes_")

    @property
    def past_(self) -> dict[str, list[Alarm | Change]]:
        """The last hundred alarms and changes of each stream that had any, the oldest first."""
        return self._opened("past_")

    def opened(self, names: Iterable[str]) -> dict[str, tuple[Alarm | Change, ...]]:
        """Return the open alarms and changes of each of some streams that has any."""
        found: dict[str, tuple[Alarm | Change, ...]] = {}
        for name in names:
            # Without any event nothing was ever opened.
            if name in self._streams and self._streams[name].past:
                live = self._streams[name].live()
                found[name] = (*live.alarms_, *live.changes_)
        return {name: each for name, each in found.items() if each}

    def _opened(self, what: str) -> dict[str, list[Any]]:
        with self._lock:
            found = {
                stream.name: list(getattr(stream.live(), what))
                for stream in self._streams
                if stream.past  # without any event nothing was ever opened
            }
        return {name: each for name, each in found.items() if each}
