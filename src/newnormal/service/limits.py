"""What samples must keep to before they are taken in."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from newnormal.errors import InputError, StateError
from newnormal.io.arrivals import Arrival
from newnormal.service.config import Limits
from newnormal.service.engine.streams import StreamRecords
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

    def admit(
        self, arrivals: Sequence[Arrival], streams: StreamRecords, limits: Limits, now: int
    ) -> Callable[[], None] | None:
        """Check samples as `check_limits`; return what to call once they are applied, if any."""
        with self._lock:
            check_limits(arrivals, streams, limits, now, self._channels)
            new = [arrival for arrival in arrivals if not _is_known(arrival, streams)]
            for arrival in new:
                self._channels.setdefault(arrival.stream, Counter()).update(arrival.channels)
        return (lambda: self._applied(new)) if new else None

    def _applied(self, arrivals: Sequence[Arrival]) -> None:
        with self._lock:
            for arrival in arrivals:
                left = self._channels[arrival.stream]
                left.subtract(arrival.channels)
                self._channels[arrival.stream] = left = +left
                if not left:
                    del self._channels[arrival.stream]


def _is_known(arrival: Arrival, streams: StreamRecords) -> bool:
    stream = streams.named(arrival.stream)
    return stream is not None and arrival.channels == stream.aligner.channels


def check_limits(
    arrivals: Sequence[Arrival],
    streams: StreamRecords,
    limits: Limits,
    now: int,
    coming: Mapping[str, Iterable[str]] = MappingProxyType({}),
) -> None:
    """Raise a LimitError unless samples keep to the limits.

    The channels of streams that were taken in and are not applied yet are `coming`; `now` is in ns.
    """
    new: set[str] = set()
    latest = now + limits.max_future
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
        if stream is None:
            new.add(arrival.stream)
        seen = () if stream is None else stream.aligner.channels
        count = len({*seen, *coming.get(arrival.stream, ()), *arrival.channels})
        if count > limits.channels:
            raise LimitError(
                f"stream {arrival.stream!r}: expected at most {limits.channels} channels, "
                f"found {count}",
                hint="limits.channels in the configuration",
            )
    if not new or len(streams) + len(new) + len(coming) <= limits.streams:
        return
    new.update(name for name in list(coming) if streams.named(name) is None)
    if len(streams) + len(new) > limits.streams:
        raise LimitError(
            f"expected at most {limits.streams} streams, found {len(streams) + len(new)}",
            hint="remove streams, or set limits.streams in the configuration",
        )


def _text(time: int) -> str:
    return time_text(np.datetime64(time, "ns"))
