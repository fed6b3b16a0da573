"""What a source of samples is, and where it goes on."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from newnormal.arrivals.arrival import Arrival
from newnormal.errors import InputError
from newnormal.io.options import Connector

# The hint of an error about a position in the input.
FRESH = "delete the folder to read the input from the start"


class Source(Connector):
    """Where samples come from. Derive from it, and name your class.

    In `[sources]` of the service, a table of the configuration has the options. With `newnormal
    watch --source`, the name is INPUT, and so is the one option, `input`.

    Making it reads the options and connects to nothing: the service makes one and closes it to
    check a configuration. A new one gets `resume` with the position that was logged last, if there
    is one, and then in turn: `next_batch`, `snapshot`, and once these samples are durable
    `acknowledge`. In the service, after an error, it is closed, and after a wait another one is
    made and resumed; `watch` ends.

    Attributes
    ----------
    past
        Whether the last batch is of the time before the source was first started: alarms that began
        and ended in it make no alerts.
    zone
        The zone that the times were in before they were UTC: an IANA name, or an offset such as
        "+02:00". The output of `watch` has it then. None: they had none.

    Notes
    -----
    **A batch** is a sequence of `Arrival`s with at most `limit` samples together; those without
    the name of a stream are of the stream that is called as the source. If nothing has arrived,
    wait for a second at most and return an empty one: between two batches decisions are applied,
    and the program may stop. None is the end; it is returned again if asked again.

    **A snapshot** is the position behind the last batch, a dictionary of JSON values (`kind` and
    `zone` are reserved keys). It is written to the log together with the samples of that batch, so
    a position and the samples before it are kept both or not at all. Include what tells your input
    from another, such as its address.

    **Resuming**: a new source goes to the position of a snapshot and returns True; it returns False
    if that belongs to another input, and then begins where it would without one. `watch --strict`
    also resumes a source in the middle of the stream, to end exactly before a sample. Samples that
    come twice are harmless; samples that are left out are lost.

    **Acknowledging**: everything up to the last snapshot is durable. What a broker keeps until
    then can be released.

    Raise any error if nothing can be fetched: the service reports its message, and tries again
    after 1 s, later after 30 s. `watch` saves everything and stops with the message of an
    `InputError`.
    """

    role = "source"
    past: bool = False
    zone: str | None = None

    @abstractmethod
    def next_batch(self, limit: int) -> Sequence[Arrival] | None:
        """Return the next samples, at most `limit`; an empty one if none came; None at the end."""

    @abstractmethod
    def snapshot(self) -> dict[str, Any]:
        """Return the position behind the last batch as JSON values."""

    @abstractmethod
    def resume(self, snapshot: Mapping[str, Any]) -> bool:
        """Go to the position of a snapshot; return False if it belongs to another input."""

    def acknowledge(self) -> None:
        """Take note that all samples of the last batch are durable."""
        return

    def notice(self) -> str:
        """Return what people should know while it works, in a sentence; empty: nothing.

        Such as how many messages could not be read and why the last could not. The service shows
        it beside the source, which then is not well; `watch` reports it.
        """
        return ""


def check_arrivals(where: str, arrivals: Sequence[Arrival], limit: int) -> int:
    """Return how many samples a batch has; raise an `InputError` if it is not as promised."""
    check = "newnormal.testing.check_source checks a source"
    total = 0
    for arrival in arrivals:
        stream, channels, times, values = arrival
        named = f"{where}: {stream}" if stream else where
        shape = (len(times), len(channels))
        if len(set(channels)) != len(channels):
            raise InputError(
                f"{named}: expected channels that differ, found {channels!r}", hint=check
            )
        if times.dtype != np.int64 or values.dtype != np.float64 or values.shape != shape:
            raise InputError(
                f"{named}: expected times of int64 and values of float64 and shape "
                f"{shape}, found {times.dtype}, {values.dtype} and {values.shape}",
                hint=check,
            )
        if np.isinf(values).any():
            raise InputError(
                f"{named}: expected finite values, found an infinite one",
                hint="where it means that nothing was measured, pass NaN",
            )
        total += len(times)
    if total > limit:
        raise InputError(
            f"{where}: expected at most {limit} samples, found {total}",
            hint="return the rest with the next batch",
        )
    return total
