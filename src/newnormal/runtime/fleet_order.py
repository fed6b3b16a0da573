"""The samples of each stream of a fleet in order: by their times, each time once."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from newnormal.arrivals.jumps import is_future, ordinary
from newnormal.core.times import is_rising
from newnormal.errors import InputError, StateError
from newnormal.io.sources.base import FRESH
from newnormal.tabular import Reading
from newnormal.tabular.ordering.arrival import LiveOrder, OrderedSamples
from newnormal.tabular.ordering.lateness import late_record_error
from newnormal.types import Floats, Ints, Times, ns_of_time


class Arrivals:
    """What `LiveOrder` is for one stream, for those streams of many that need it.

    A stream needs it where an option of `reading` asks for more than the samples as they come,
    or while it holds back samples whose times are far ahead. For all others one comparison is
    made a batch.

    `reading`: what is asked for. `channels`: the channels of each stream. `period`: the time
    between samples, where it is known. `newest`: the newest time of each stream that goes on from
    an earlier start.
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
        self._plain = plain.plain and not reading.rates
        self._shortest = plain.limit  # of all jumps
        self._limits: dict[str, int] = {}  # of streams that had a longer gap
        self._newest = {name: ns_of_time(time) for name, time in newest.items()}
        self._by_stream: dict[str, LiveOrder] = {}
        self.zone: str | None = None  # of the times in messages

    @property
    def held(self) -> int:
        """How many samples are held back."""
        return sum(arrival.held for arrival in self._by_stream.values())

    @property
    def far(self) -> int:
        """How many streams hold back samples because their times are far ahead."""
        return sum(arrival.waiting() is not None for arrival in self._by_stream.values())

    def push(
        self, name: str, values: Floats, times: Times | None, numbers: Ints
    ) -> OrderedSamples | None:
        """Return the samples of a stream whose turn it is; None: all of these, as they are."""
        arrival = self._by_stream.get(name)
        if arrival is None and self._plain and (times is None or self._is_ordinary(name, times)):
            return None
        if arrival is None:
            arrival = self._by_stream[name] = self._new(name)
        arrival.zone = self.zone
        arrived = arrival.push(values, times, numbers)
        if arrival.plain:
            self._forget(name, arrival)
        return None if arrived.values is values else arrived

    def flush(self) -> Iterator[tuple[str, OrderedSamples]]:
        """Give what is held back, by stream: the input has ended."""
        for name, arrival in list(self._by_stream.items()):
            yield name, arrival.flush()
            if arrival.plain:
                self._forget(name, arrival)

    def facts(self) -> dict[str, Any]:
        """Return what it remembers as JSON values, {} where that is nothing."""
        streams = {name: arrival.facts() for name, arrival in self._by_stream.items()}
        facts = {"streams": streams, "limits": dict(self._limits)}
        return {name: part for name, part in facts.items() if part}

    def restore(self, facts: object, again: bool = False) -> None:
        """Restore what `facts` returned; samples that were pushed before may come `again`."""
        if not isinstance(facts, Mapping):
            raise StateError(f"place: expected arrivals as an object, found {facts!r}", hint=FRESH)
        self._by_stream = {}
        try:
            limits = dict(facts.get("limits", {}))
            self._limits = {str(name): int(limit) for name, limit in limits.items()}
            for name, arrival in dict(facts.get("streams", {})).items():
                if name in self._channels:
                    self._by_stream[name] = self._new(name)
                    self._by_stream[name].restore(arrival, again)
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
        arrival = LiveOrder(self._reading, self._channels[name], self._period)
        limit = self._limits.get(name, self._shortest)
        arrival.restore({"newest": self._newest.get(name), "limit": limit})
        return arrival

    def _forget(self, name: str, arrival: LiveOrder) -> None:
        """Leave a stream to the comparison again."""
        facts = arrival.facts()
        self._newest[name] = facts["newest"]
        if facts["limit"] > self._shortest:
            self._limits[name] = facts["limit"]
        del self._by_stream[name]


class RowsInOrder(NamedTuple):
    """Which samples of a stream may be taken, where not all may."""

    rows: Ints  # their positions
    skipped: int  # how many were taken before, of an input that repeats
    # The positions of those whose time is not after the one before, with the errors.
    wrong: list[tuple[int, InputError]]


class Order:
    """Tells samples that may come next from those that may not.

    `newest`: the newest time of each stream that has one. `repeats`: whether samples that were
    taken before may come again, as those of a pipe whose sender starts over. They are skipped,
    until the stream has its first that is newer.

    Examples
    --------
    >>> order = Order({"a": np.datetime64("2026-01-02", "ns")}, repeats=True)
    >>> kept = order.rows("a", np.array(["2026-01-01", "2026-01-03"], "datetime64[ns]"))
    >>> kept.rows.tolist(), kept.skipped
    ([1], 1)
    """

    def __init__(self, newest: dict[str, np.datetime64], repeats: bool) -> None:
        self.newest = newest
        self._again = set(newest) if repeats else set()
        self.zone: str | None = None  # of the times in messages

    def rows(self, name: str, times: Times | None) -> RowsInOrder | None:
        """Return which samples may be taken; None if all may, which is usual."""
        if times is None or not len(times):
            return None
        newest = self.newest.get(name)
        if is_rising(times, newest):
            self._again.discard(name)
            return None
        return self._sorted_out(name, times, newest)

    def _sorted_out(self, name: str, times: Times, newest: np.datetime64 | None) -> RowsInOrder:
        rows: list[int] = []
        wrong: list[tuple[int, InputError]] = []
        skipped = 0
        for row, when in enumerate(times):
            if newest is None or is_rising(times[row : row + 1], newest):
                self._again.discard(name)
                newest = when
                rows.append(row)
            elif name in self._again:
                skipped += 1
            else:
                wrong.append((row, late_record_error(when, newest, self.zone)))
        return RowsInOrder(np.array(rows, dtype=np.int64), skipped, wrong)
