"""What samples must keep to before they are taken in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from newnormal.errors import InputError
from newnormal.io.arrivals import Arrival
from newnormal.service.config import Limits
from newnormal.service.engine.streams import KeptStreams
from newnormal.types.arrays import time_text

__all__ = ["LimitError", "check_limits"]


class LimitError(InputError):
    """A limit of the configuration would be exceeded."""


def check_limits(
    arrivals: Sequence[Arrival], streams: KeptStreams, limits: Limits, now: int
) -> None:
    """Raise a LimitError unless samples keep to the limits.

    Parameters
    ----------
    arrivals
        The samples.
    streams
        Those that there are.
    limits
        Of the configuration.
    now
        The time in ns.
    """
    new: set[str] = set()
    latest = now + limits.ahead
    for arrival in arrivals:
        # A wrong time would make all samples that come after it late.
        if len(arrival.times) and arrival.times.max() > latest:
            raise LimitError(
                f"stream {arrival.stream!r}: expected times up to {_text(latest)}, found "
                f"{_text(int(arrival.times.max()))}",
                hint="set the sender's clock, or limits.ahead in the configuration",
            )
        stream = streams.named(arrival.stream)
        if stream is None:
            new.add(arrival.stream)
            count = len(arrival.channels)
        elif arrival.channels == stream.aligner.channels:
            continue
        else:
            count = len({*stream.aligner.channels, *arrival.channels})
        if count > limits.channels:
            raise LimitError(
                f"stream {arrival.stream!r}: expected at most {limits.channels} channels, "
                f"found {count}",
                hint="limits.channels in the configuration",
            )
    if new and len(streams) + len(new) > limits.streams:
        raise LimitError(
            f"expected at most {limits.streams} streams, found {len(streams) + len(new)}",
            hint="remove streams, or set limits.streams in the configuration",
        )


def _text(time: int) -> str:
    return time_text(np.datetime64(time, "ns"))
