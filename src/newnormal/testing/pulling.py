"""A pull source in memory, and checks for pull sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from newnormal.arrivals.arrival import Arrival
from newnormal.errors import InputError
from newnormal.io.sources.pull import PullSource, check_arrivals
from newnormal.testing.expecting import check_connector, check_other, check_snapshot, expect

_QUIET = 3  # empty batches in a row after which an input has no more

Sample = tuple[str, int, str, float]  # stream, time, channel, value


class MemoryPullSource(PullSource):
    """Gives out arrivals that it was made with, and ends.

    Parameters
    ----------
    arrivals
        The samples, of any streams.

    Attributes
    ----------
    acknowledged
        How many samples were given out when `acknowledge` was last called.

    Examples
    --------
    >>> times = np.arange(3) * 10**9
    >>> source = MemoryPullSource([Arrival("press-1", ("temp",), times, np.ones((3, 1)))])
    >>> [len(each.times) for each in source.next_batch(2)], source.snapshot()
    ([2], {'input': 'memory', 'at': 2})
    """

    def __init__(
        self,
        arrivals: Sequence[Arrival],
        name: str = "memory",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(name, options or {})
        self._samples = [
            each._replace(times=each.times[row : row + 1], values=each.values[row : row + 1])
            for each in arrivals
            for row in range(len(each.times))
        ]
        self._at = 0
        self.acknowledged = 0

    def next_batch(self, limit: int) -> Sequence[Arrival] | None:
        """Return the next samples; those of one stream that follow each other as one arrival."""
        if self._at == len(self._samples):
            return None
        taken = self._samples[self._at : self._at + limit]
        self._at += len(taken)
        return [_joined(list(samples)) for _, samples in groupby(taken, lambda each: each[:2])]

    def snapshot(self) -> dict[str, Any]:
        """Return how many samples were given out."""
        return {"input": self.name, "at": self._at}

    def resume(self, snapshot: Mapping[str, Any]) -> bool:
        """Go on behind that many samples."""
        if snapshot["input"] != self.name:
            return False
        self._at = snapshot["at"]
        return True

    def acknowledge(self) -> None:
        """Take note of it."""
        self.acknowledged = self._at


def _joined(samples: Sequence[Arrival]) -> Arrival:
    return samples[0]._replace(
        times=np.concatenate([sample.times for sample in samples]),
        values=np.concatenate([each.values for each in samples]),
    )


def check_pull_source(
    make: Callable[[], PullSource], *, other: Callable[[], PullSource] | None = None
) -> None:
    """Check that a source keeps what `newnormal.io.PullSource` promises.

    Parameters
    ----------
    make
        Makes the source at its beginning, each time of the same input. That must have at least
        three samples, and then end or be quiet.
    other
        Makes a source of another input, which must not resume from a snapshot of the first.

    Examples
    --------
    >>> times = np.arange(20) * 10**9
    >>> arrival = Arrival("press-1", ("temp",), times, np.ones((20, 1)))
    >>> check_pull_source(lambda: MemoryPullSource([arrival]))
    """
    source = make()
    check_connector(source, PullSource)
    check_snapshot(source.snapshot)
    whole, _ = _read(source, 10_000)
    expect(len(whole) >= 3, "an input of at least 3 samples", len(whole))
    source.close()
    source.close()  # a second time does no harm
    for limit in (1, 3):
        source = make()
        samples, snapshots = _read(source, limit)
        source.close()
        missing, more = len(whole - samples), len(samples - whole)
        difference = f"{missing} values missing and {more} others"
        expect(samples == whole, f"the same samples in batches of {limit}", difference)
    for before, snapshot in (snapshots[0], snapshots[len(snapshots) // 2], snapshots[-1]):
        _check_resuming(make, whole, before, snapshot)
    if other is not None:
        different = other()
        taken: Any = different.resume(snapshots[0][1])
        different.close()
        check_other(taken)


def _check_resuming(
    make: Callable[[], PullSource],
    whole: set[Sample],
    before: set[Sample],
    snapshot: dict[str, Any],
) -> None:
    """Check that nothing is left out after the samples that came before a snapshot."""
    source = make()
    taken: Any = source.resume(snapshot)
    expect(taken is True, "resume to return True for a snapshot of the same input", repr(taken))
    rest, _ = _read(source, 10_000)
    source.close()
    where = f"after {len(before)} of {len(whole)} values"
    expect(rest | before == whole, f"all of the rest when resumed {where}", "some are missing")


def _read(source: PullSource, limit: int) -> tuple[set[Sample], list[tuple[set[Sample], Any]]]:
    samples: set[Sample] = set()
    snapshots = []
    quiet = 0
    while quiet < _QUIET:
        if (batch := source.next_batch(limit)) is None:
            expect(source.next_batch(limit) is None, "None again after the end", "a batch")
            break
        try:
            count = check_arrivals("next_batch", batch, limit)
        except (InputError, TypeError, AttributeError) as error:
            raise AssertionError(
                f"expected a sequence of newnormal.io.Arrival, found {error}"
            ) from error
        quiet = 0 if count else quiet + 1
        for arrival in batch:
            samples |= _samples(arrival)
        snapshots.append((set(samples), check_snapshot(source.snapshot)))
        source.acknowledge()
    return samples, snapshots


def _samples(arrival: Arrival) -> set[Sample]:
    return {
        (arrival.stream, int(time), channel, float(value))
        for time, row in zip(arrival.times, arrival.values, strict=True)
        for channel, value in zip(arrival.channels, row, strict=True)
        if not np.isnan(value)
    }
