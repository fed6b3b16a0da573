"""The samples of each stream of a fleet in order."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from newnormal.errors import StateError
from newnormal.io.sources.base import FRESH
from newnormal.tabular import Reading
from newnormal.tabular.ordering.live import LiveOrder, OrderedSamples
from newnormal.types import Floats, Ints, Times


class FleetOrder:
    """What `LiveOrder` is for one stream, for all streams of a fleet.

    Parameters
    ----------
    reading
        What is asked for.
    channels
        Of each stream.
    period
        The time between samples, where it is known.
    newest
        The newest time of each stream that was judged before.
    continues, repeats
        Whether the input goes on from an earlier start, and whether samples that were taken before
        may come again, as those of a pipe whose sender starts over.
    """

    def __init__(
        self,
        reading: Reading,
        channels: Mapping[str, Sequence[str]],
        period: np.timedelta64 | None,
        newest: Mapping[str, np.datetime64],
        *,
        continues: bool = False,
        repeats: bool = False,
    ) -> None:
        self._reading, self._channels, self._period = reading, channels, period
        self._newest, self._continues, self._repeats = newest, continues, repeats
        self._by_stream: dict[str, LiveOrder] = {}
        self.zone: str | None = None  # of the times in messages

    @property
    def far(self) -> int:
        """How many streams hold back samples because their times are far ahead."""
        return sum(live.waiting() is not None for live in self._by_stream.values())

    def push(self, name: str, values: Floats, times: Times | None, numbers: Ints) -> OrderedSamples:
        """Return the samples of a stream whose turn it is."""
        live = self._by_stream.get(name)
        if live is None:
            live = self._by_stream[name] = self._new(name)
        live.zone = self.zone
        return live.push(values, times, numbers)

    def flush(self) -> Iterator[tuple[str, OrderedSamples]]:
        """Give what is held back, by stream: the input has ended."""
        for name, live in self._by_stream.items():
            yield name, live.flush()

    def facts(self) -> dict[str, Any]:
        """Return what it remembers as JSON values, {} where that is nothing."""
        return {name: live.facts() for name, live in self._by_stream.items() if not live.plain}

    def restore(self, facts: object) -> None:
        """Restore what `facts` returned."""
        if not isinstance(facts, Mapping):
            raise StateError(f"place: expected orders as an object, found {facts!r}", hint=FRESH)
        for name, of_stream in facts.items():
            if name in self._channels:
                live = self._by_stream[name] = self._new(name)
                live.restore(of_stream, self._repeats)

    def mark(self, name: str) -> dict[str, Any]:
        """Return what `go_back` needs, before samples of a stream are pushed."""
        live = self._by_stream.get(name)
        return (self._new(name) if live is None else live).facts()

    def go_back(self, marks: Mapping[str, Mapping[str, Any]]) -> None:
        """Forget what was pushed since."""
        for name, facts in marks.items():
            self._by_stream[name] = LiveOrder(self._reading, self._channels[name], self._period)
            self._by_stream[name].restore(facts)

    def _new(self, name: str) -> LiveOrder:
        live = LiveOrder(self._reading, self._channels[name], self._period)
        live.begin(self._newest.get(name), continues=self._continues, repeats=self._repeats)
        return live
