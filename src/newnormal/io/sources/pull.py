"""What a source is that the service asks for samples of any number of streams."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from newnormal.arrivals.arrival import Arrival
from newnormal.errors import InputError
from newnormal.io.options import Connector


class PullSource(Connector):
    """Where the service fetches samples. Derive from it and name your class in `[sources]`.

    Making it reads the options and connects to nothing: the service makes one and closes it to
    check a configuration. It makes another in a thread of its own, calls `resume` with the position
    that its log has for a source of this name, if there is one, and then repeats: `next_batch`,
    `snapshot`, and once these samples are durable `acknowledge`. After an error it calls `close`,
    waits, makes another one and resumes that.

    Attributes
    ----------
    past
        Whether the last batch is of the time before the source was first started: alarms that began
        and ended in it make no alerts.

    Notes
    -----
    **A batch** is a sequence of `Arrival`s with at most `limit` samples together. If nothing has
    arrived, wait for a second at most and return an empty one: between two batches the service may
    stop. None is the end; the service closes the source and reports that.

    **A snapshot** is the position behind the last batch, a dictionary of JSON values. It is written
    to the log together with the samples of that batch, so a position and the samples before it are
    kept both or not at all. Include what tells your input from another, such as its address.

    **Resuming**: a new source goes to the position of a snapshot and returns True; it returns False
    if that belongs to another input, and then begins where it would without one. Samples that come
    twice are harmless; samples that are left out are lost.

    **Acknowledging**: everything up to the last snapshot is durable. What a broker keeps until
    then can be released.

    Raise any error if nothing can be fetched: the service reports its message, and tries again
    after 1 s, later after 30 s.
    """

    role = "source"
    past: bool = False

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
        it beside the source, which then is not well.
        """
        return ""


def check_arrivals(where: str, arrivals: Sequence[Arrival], limit: int) -> int:
    """Return how many samples a batch has; raise an `InputError` if it is not as promised."""
    check = "newnormal.testing.check_pull_source checks a source"
    total = 0
    for each in arrivals:
        count, width = len(each.times), len(each.channels)
        shape, times, values = (count, width), each.times, each.values
        if not each.stream or len(set(each.channels)) != width:
            raise InputError(
                f"{where}: expected a stream's name and channels that differ, "
                f"found {each.stream!r} and {each.channels!r}",
                hint=check,
            )
        if times.dtype != np.int64 or values.dtype != np.float64 or values.shape != shape:
            raise InputError(
                f"{where}: {each.stream}: expected times of int64 and values of float64 and shape "
                f"{shape}, found {times.dtype}, {values.dtype} and {values.shape}",
                hint=check,
            )
        if np.isinf(values).any():
            raise InputError(
                f"{where}: {each.stream}: expected finite values, found an infinite one",
                hint="where it means that nothing was measured, pass NaN",
            )
        total += count
    if total > limit:
        raise InputError(f"{where}: expected at most {limit} samples, found {total}", hint=check)
    return total
