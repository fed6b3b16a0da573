"""The samples of each stream of a fleet in order, as they come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from newnormal.errors import StateError
from newnormal.io.sources.base import FRESH
from newnormal.tabular import Reading
from newnormal.tabular.ordering.arrival import LiveOrder, OrderedSamples
from newnormal.tabular.ordering.jumps import is_future, ordinary
from newnormal.types import Floats, Ints, Times


class Arrivals:
    """What `LiveOrder` is for one stream, for those streams of many that need it.

    A stream needs it where an option of `reading` asks for more than the samples as they come,
    or while it holds back samples whose times are far ahead. For all others one comparison is
    made a batch.

    Parameters
    ----------
    reading
        What is asked for.
    channels
        The channels of each stream.
    period
        The time between samples, where it is known.
    newest
        The newest time of each stream that goes on from an earlier start.
    """

    def __init__(
        self,
        reading: Reading,
        channels: Mapping[str, Sequence[str]],
        period: np.timedelta64 | None,
        newest: Mapping[str, np.datetime64],
    ) -> None:
        self._reading, self._channels, self._period = reading, channels, period
        plain = LiveOrder(reading, (), period)
        self._plain = plain.plain and not reading.rate
        self._shortest = plain.limit  # of all jumps
        self._limits: dict[str, int] = {}  # of streams that had a longer gap
        self._newest = {name: int(time.astype(np.int64)) for name, time in newest.items()}
        self._own: dict[str, LiveOrder] = {}
        self.zone: str | None = None  # of the times in messages

    @property
    def held(self) -> int:
        """How many samples are held back."""
        return sum(each.held for each in self._own.values())

    @property
    def far(self) -> int:
        """How many streams hold back samples because their times are far ahead."""
        return sum(each.waiting() is not None for each in self._own.values())

    def push(
        self, name: str, values: Floats, times: Times | None, numbers: Ints
    ) -> OrderedSamples | None:
        """Return the samples of a stream whose turn it is; None: all of these, as they are."""
        own = self._own.get(name)
        if own is None and self._plain and (times is None or self._is_ordinary(name, times)):
            return None
        if own is None:
            own = self._own[name] = self._new(name)
        own.zone = self.zone
        arrived = own.push(values, times, numbers)
        if own.plain:
            self._forget(name, own)
        return None if arrived.values is values else arrived

    def flush(self) -> Iterator[tuple[str, OrderedSamples]]:
        """Give what is held back, by stream: the input has ended."""
        for name, own in list(self._own.items()):
            yield name, own.flush()
            if own.plain:
                self._forget(name, own)

    def facts(self) -> dict[str, Any]:
        """Return what it remembers as JSON values, {} where that is nothing."""
        found: dict[str, Any] = {}
        if self._own:
            found["streams"] = {name: own.facts() for name, own in self._own.items()}
        if self._limits:
            found["limits"] = dict(self._limits)
        return found

    def restore(self, facts: object, again: bool = False) -> None:
        """Restore what `facts` returned; samples that were pushed before may come `again`."""
        if not isinstance(facts, Mapping):
            raise StateError(f"place: expected arrivals as an object, found {facts!r}", hint=FRESH)
        self._own = {}
        try:
            limits = dict(facts.get("limits", {}))
            self._limits = {str(name): int(limit) for name, limit in limits.items()}
            for name, own in dict(facts.get("streams", {})).items():
                if name in self._channels:
                    self._own[name] = self._new(name)
                    self._own[name].restore(own, again)
        except (TypeError, ValueError) as error:
            raise StateError(
                f"place: expected arrivals with streams and limits, found {facts!r}", hint=FRESH
            ) from error

    def mark(self) -> tuple[dict[str, Any], dict[str, int]]:
        """Return what `go_back` needs."""
        return self.facts(), dict(self._newest)

    def go_back(self, mark: tuple[dict[str, Any], dict[str, int]]) -> None:
        """Forget what was pushed since `mark`."""
        facts, newest = mark
        self._newest = dict(newest)
        self.restore(facts)

    def _is_ordinary(self, name: str, times: Times) -> bool:
        """Return whether no time of a stream is far ahead; note the newest if so."""
        if not len(times):
            return True
        moments = times.view(np.int64)
        newest = self._newest.get(name)
        if newest is None:
            newest = int(moments[0])
            if is_future(newest):
                return False
        last = int(moments.max()) if len(moments) > 1 else int(moments[0])
        limit = self._limits.get(name, self._shortest)
        if last - newest > limit and ordinary(moments, 0, newest, limit)[0] < len(moments):
            return False
        self._newest[name] = max(newest, last)
        return True

    def _new(self, name: str) -> LiveOrder:
        newest = self._newest.get(name)
        found = LiveOrder(self._reading, self._channels[name], self._period)
        found.restore({"newest": newest, "limit": self._limits.get(name, self._shortest)})
        return found

    def _forget(self, name: str, own: LiveOrder) -> None:
        """Leave a stream to the comparison again."""
        facts = own.facts()
        self._newest[name] = facts["newest"]
        if facts["limit"] > self._shortest:
            self._limits[name] = facts["limit"]
        del self._own[name]
