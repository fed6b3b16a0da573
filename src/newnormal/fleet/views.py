"""What a fleet shows of its streams."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from newnormal.fleet.stream import Stream
from newnormal.fleet.streams import Streams
from newnormal.types import NO_TIME

__all__ = ["StreamViews"]


class StreamViews:
    """The part of a `Fleet` that shows what its streams are."""

    _streams: Streams

    def blocks(self) -> Iterator[Stream]:
        """Give each stream as it lies in memory, in the fleet's order: to look at."""
        return iter(self._streams)

    @property
    def channels_(self) -> dict[str, tuple[str, ...]]:
        """The channels of each stream."""
        return {stream.name: stream.fitted.channels for stream in self._streams}

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
