"""What samples must keep to before they are taken in, and what requests may take meanwhile."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Self

import numpy as np

from newnormal.arrivals.arrival import Arrival
from newnormal.engine.streams import StreamRecords, size_of_names
from newnormal.errors import InputError, StateError
from newnormal.io.decoders.base import TooManyError
from newnormal.service.config import Limits
from newnormal.types.arrays import time_text


class LimitError(InputError):
    """A limit of the configuration would be exceeded."""


class ServiceBusy(StateError):  # noqa: N818  (it is a state, and not a fault)
    """The service is too far behind, or stops: the same request can be made again later."""


class Arriving:
    """Streams and channels that were taken in and are not applied yet: they count, too."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._channels: dict[str, Counter[str]] = {}  # how many entries on their way have each
        self._names: Counter[str] = Counter()  # bytes of names on their way, by writer

    def admit(
        self,
        arrivals: Sequence[Arrival],
        streams: StreamRecords,
        limits: Limits,
        now: int,
        writer: str = "",
    ) -> Callable[[], None] | None:
        """Check samples as `check_limits`; return what to call once they are applied, if any."""
        with self._lock:
            size = check_limits(arrivals, streams, limits, now, self._channels)
            if size:
                self._check_names(streams, limits.names, size, writer)
                self._names[writer] += size
            new = [arrival for arrival in arrivals if not _is_known(arrival, streams)]
            for arrival in new:
                self._channels.setdefault(arrival.stream, Counter()).update(arrival.channels)
        return (lambda: self._applied(new, writer, size)) if new else None

    def _check_names(self, streams: StreamRecords, most: int, size: int, writer: str) -> None:
        """Raise a LimitError if new names of a writer take so much memory that it is too much."""
        taken = streams.names
        of_writer = taken[writer] + self._names[writer] + size
        of_all = taken.total() + self._names.total() + size
        for found, limit, whose in ((of_writer, most // 2, f" of {writer}"), (of_all, most, "")):
            if found > limit:
                raise LimitError(
                    f"expected names of streams and channels{whose} that take at most {limit:,} "
                    f"bytes of memory, found {found:,}",
                    hint="leave out of names what is new each time, remove streams, or raise "
                    "limits.names in the configuration",
                )

    def _applied(self, arrivals: Sequence[Arrival], writer: str, size: int) -> None:
        with self._lock:
            self._names[writer] -= size
            self._names = +self._names
            for arrival in arrivals:
                left = self._channels[arrival.stream]
                left.subtract(arrival.channels)
                self._channels[arrival.stream] = left = +left
                if not left:
                    del self._channels[arrival.stream]


def _is_known(arrival: Arrival, streams: StreamRecords) -> bool:
    stream = streams.named(arrival.stream)
    return stream is not None and arrival.channels == stream.order.channels


def check_limits(
    arrivals: Sequence[Arrival],
    streams: StreamRecords,
    limits: Limits,
    now: int,
    coming: Mapping[str, Iterable[str]] = MappingProxyType({}),
) -> int:
    """Return how many bytes new names take; raise a LimitError unless samples keep to the limits.

    The channels of streams that were taken in and are not applied yet are `coming`; `now` is in ns.
    """
    new: dict[str, set[str]] = {}  # channels by stream
    latest = now + limits.max_future
    size = 0
    for arrival in arrivals:
        # A wrong time would make all samples that come after it late.
        if len(arrival.times) and arrival.times.max() > latest:
            raise LimitError(
                f"stream {arrival.stream!r}: expected times up to {_text(latest)}, found "
                f"{_text(int(arrival.times.max()))}",
                hint="set the sender's clock, or limits.max_future in the configuration",
            )
        if _is_known(arrival, streams):
            continue
        stream = streams.named(arrival.stream)
        channels = new.get(arrival.stream)
        if channels is None:
            known = () if stream is None else stream.order.channels
            channels = new[arrival.stream] = {*known, *coming.get(arrival.stream, ())}
            if stream is None and not channels:
                size += size_of_names(arrival.stream, ())
        size += size_of_names(None, set(arrival.channels) - channels)
        channels.update(arrival.channels)
        if len(channels) > limits.channels:
            raise LimitError(
                f"stream {arrival.stream!r}: expected at most {limits.channels} channels, "
                f"found {len(channels)}",
                hint="limits.channels in the configuration",
            )
    begun = {name for name in new if streams.named(name) is None}
    if not begun or len(streams) + len(begun) + len(coming) <= limits.streams:
        return size
    begun.update(name for name in list(coming) if streams.named(name) is None)
    if len(streams) + len(begun) > limits.streams:
        raise LimitError(
            f"expected at most {limits.streams} streams, found {len(streams) + len(begun)}",
            hint="remove streams, or set limits.streams in the configuration",
        )
    return size


def _text(time: int) -> str:
    return time_text(np.datetime64(time, "ns"))


class SharedLimit:
    """An amount that requests share.

    Half of it is for small requests, half for larger ones, and a writer has half of either at most.
    A request that finds nothing taken is always given what it takes.

    `what`: what is taken, for errors, such as ``"bytes of requests"``. `small`: up to how much of
    it a request is a small one.

    `refused`: how often a request was refused. `freed`: how much larger requests gave back since
    this was set to 0.
    """

    def __init__(self, what: str, small: int) -> None:
        self._what, self._small = what, small
        self._lock = threading.Lock()
        self._taken: Counter[tuple[bool, str | None]] = Counter()  # by size and writer; None: all
        self.refused = self.freed = 0

    @property
    def taken(self) -> int:
        """How much is taken now."""
        return self._taken[True, None] + self._taken[False, None]

    def hold(self, lease: "Lease", amount: int) -> None:
        """Have a lease hold this amount; a ServiceBusy if there is no room for it."""
        if lease.longest is not None and amount > lease.longest:
            raise TooManyError(
                f"expected a request that takes at most {lease.longest:,} {self._what}, found one "
                f"that takes more",
                hint="send less in a request, or raise limits.memory",
            )
        with self._lock:
            small = amount <= self._small
            before = lease.amount if small == (lease.amount <= self._small) else 0
            for writer, most in ((None, lease.most // 2), (lease.writer, lease.most // 4)):
                others = self._taken[small, writer] - before
                if others and amount > before and others + amount > most:
                    self.refused += 1
                    raise ServiceBusy(
                        f"expected at most {most:,} {self._what} at once"
                        f"{'' if writer is None else f' of {writer}'}, found {others + amount:,}",
                        hint="send the same again in a moment: samples that are there already are "
                        "counted once",
                    )
            for writer in (None, lease.writer):
                self._taken[lease.amount <= self._small, writer] -= lease.amount
                self._taken[small, writer] += amount
            self._taken = +self._taken
            self.freed += max(0, lease.amount - amount) if lease.amount > self._small else 0
            lease.amount = amount

    def lease(self, writer: str, most: int, longest: int | None = None) -> "Lease":
        """Return what a request of a writer takes: nothing yet.

        `most`: how much there is to share. `longest`: how much the request may take where nothing
        else is taken; None: all that it needs.
        """
        return Lease(self, writer, most, longest)


class Lease:
    """What one request takes, until it is closed."""

    def __init__(self, budget: SharedLimit, writer: str, most: int, longest: int | None) -> None:
        self._budget = budget
        self.writer, self.most, self.longest = writer, most, longest
        self.amount = 0

    def take(self, amount: int) -> None:
        """Take more; a ServiceBusy if there is no room for it."""
        self._budget.hold(self, self.amount + amount)

    def close(self) -> None:
        """Give back what was taken."""
        self._budget.hold(self, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
