"""A source in memory, and checks for sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from newnormal.arrivals.arrival import Arrival
from newnormal.errors import InputError
from newnormal.io.sources.base import Source, check_arrivals
from newnormal.tabular import default_channels, to_table
from newnormal.testing.expecting import check_connector, check_other, check_snapshot, expect
from newnormal.types import NO_TIME

_QUIET = 3  # empty batches in a row after which an input has no more

Sample = tuple[str, int, str, float]  # stream, time, channel, value


class MemorySource(Source):
    """Gives out samples that it was made with, and ends.

    Parameters
    ----------
    samples
        Arrivals of any streams; or samples of one, as `fit` takes them, or an array (T, C).
    name, options
        As of any source; the name tells one input from another.
    times, channels
        The samples' times, and the names of their channels, unless they have their own; channels
        without names are called by their positions.

    Attributes
    ----------
    acknowledged
        How many samples were given out when `acknowledge` was last called.

    Examples
    --------
    >>> source = MemorySource([[1.0], [2.0], [3.0]])
    >>> [arrival.values.tolist() for arrival in source.next_batch(2)], source.snapshot()
    ([[[1.0], [2.0]]], {'input': 'memory', 'at': 2})
    >>> again = MemorySource([[1.0], [2.0], [3.0]])
    >>> again.resume(source.snapshot()), len(again.next_batch(2)[0].times), again.next_batch(2)
    (True, 1, None)
    """

    def __init__(
        self,
        samples: Any,
        name: str = "memory",
        options: Mapping[str, Any] | None = None,
        *,
        times: Any = None,
        channels: Sequence[str] | None = None,
    ) -> None:
        super().__init__(name, options or {})
        self._arrivals = _arrivals(samples, times, channels)
        self._ends = np.cumsum([len(arrival.times) for arrival in self._arrivals]).tolist()
        self._at = 0
        self.acknowledged = 0

    def next_batch(self, limit: int) -> Sequence[Arrival] | None:
        """Return the next samples."""
        begin, self._at = self._at, min(self._at + limit, max(self._ends, default=0))
        batch = []
        for arrival, end in zip(self._arrivals, self._ends, strict=True):
            start = end - len(arrival.times)
            rows = slice(max(begin - start, 0), max(self._at - start, 0))
            if len(times := arrival.times[rows]):
                batch.append(arrival._replace(times=times, values=arrival.values[rows]))
        return batch or None

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


def _arrivals(samples: Any, times: Any, names: Sequence[str] | None) -> list[Arrival]:
    if isinstance(samples, Sequence) and all(isinstance(part, Arrival) for part in samples):
        return list(samples)
    table = to_table(np.asarray(samples) if isinstance(samples, Sequence) else samples, times=times)
    channels = table.channels or names or default_channels(table.values.shape[1])
    count = len(table.values)
    moments = np.full(count, NO_TIME) if table.times is None else table.times.view(np.int64)
    return [Arrival("", tuple(channels), moments, table.values)]


def check_source(make: Callable[[], Source], *, other: Callable[[], Source] | None = None) -> None:
    """Check that a source keeps what `newnormal.io.Source` promises.

    Parameters
    ----------
    make
        Makes the source at its beginning, each time of the same input. That must have at least
        three values, all different where they have no times, and then end or be quiet.
    other
        Makes a source of another input, which must not resume from a snapshot of the first.

    Examples
    --------
    >>> check_source(lambda: MemorySource(np.arange(40.0).reshape(20, 2)))
    """
    source = make()
    check_connector(source, Source)
    _check_snapshot(source)
    whole, _ = _read(source, 10_000)
    expect(len(whole) >= 3, "an input of at least 3 values", len(whole))
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
    make: Callable[[], Source],
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


def _check_snapshot(source: Source) -> dict[str, Any]:
    """Return a snapshot as it comes back from a file."""
    back = check_snapshot(source.snapshot)
    reserved = sorted({"kind", "order", "zone"} & set(back))
    expect(not reserved, "a snapshot without the reserved keys kind, order and zone", reserved)
    return back


def _read(source: Source, limit: int) -> tuple[set[Sample], list[tuple[set[Sample], Any]]]:
    samples: set[Sample] = set()
    snapshots = []
    quiet = 0
    while quiet < _QUIET:
        if (batch := source.next_batch(limit)) is None:
            expect(source.next_batch(limit) is None, "None again after the end", "a batch")
            break
        try:
            count = check_arrivals("next_batch", batch, limit)
        except (InputError, TypeError, ValueError, AttributeError) as error:
            raise AssertionError(
                f"expected a sequence of newnormal.io.Arrival, found {error}"
            ) from error
        quiet = 0 if count else quiet + 1
        for arrival in batch:
            samples |= _samples(arrival)
        snapshots.append((set(samples), _check_snapshot(source)))
        source.acknowledge()
    return samples, snapshots


def _samples(arrival: Arrival) -> set[Sample]:
    return {
        (arrival.stream, int(time), channel, float(value))
        for time, row in zip(arrival.times, arrival.values, strict=True)
        for channel, value in zip(arrival.channels, row, strict=True)
        if not np.isnan(value)
    }
