"""A pull source in memory, and checks for pull sources."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from newnormal.errors import InputError
from newnormal.io.arrivals import Arrival
from newnormal.io.sources.pull import PullSource, check_arrivals

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
            Arrival(
                each.stream, each.channels, each.times[row : row + 1], each.values[row : row + 1]
            )
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
        joined: list[list[Arrival]] = []
        for each in taken:
            if joined and joined[-1][0][:2] == each[:2]:
                joined[-1].append(each)
            else:
                joined.append([each])
        return [
            Arrival(
                some[0].stream,
                some[0].channels,
                np.concatenate([each.times for each in some]),
                np.concatenate([each.values for each in some]),
            )
            for some in joined
        ]

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

    Raises
    ------
    AssertionError
        With what was expected and what was found.

    Examples
    --------
    >>> times = np.arange(20) * 10**9
    >>> arrival = Arrival("press-1", ("temp",), times, np.ones((20, 1)))
    >>> check_pull_source(lambda: MemoryPullSource([arrival]))
    """
    source = make()
    _expect(
        isinstance(source, PullSource),
        "a subclass of newnormal.io.PullSource",
        type(source).__name__,
    )
    for name in ("secrets", "private"):
        found = getattr(source, name)
        good = isinstance(found, tuple) and all(isinstance(each, str) for each in found)
        _expect(good, f"{name} to be a tuple of names of options", repr(found))
    said: Any = source.check()
    _expect(isinstance(said, str) and said != "", "check to return a sentence, or to raise", said)
    _snapshot(source)
    whole, _ = _read(source, 10_000)
    _expect(len(whole) >= 3, "an input of at least 3 samples", len(whole))
    source.close()
    source.close()  # a second time does no harm
    for limit in (1, 3):
        source = make()
        found, snapshots = _read(source, limit)
        source.close()
        _expect(
            found == whole, f"the same samples in batches of {limit}", _difference(whole, found)
        )
    for given, snapshot in (snapshots[0], snapshots[len(snapshots) // 2], snapshots[-1]):
        _check_resuming(make, whole, given, snapshot)
    if other is not None:
        different = other()
        taken: Any = different.resume(snapshots[0][1])
        different.close()
        _expect(taken is False, "resume to return False for the snapshot of another input", taken)


def _check_resuming(
    make: Callable[[], PullSource],
    whole: set[Sample],
    given: set[Sample],
    snapshot: dict[str, Any],
) -> None:
    """Check that nothing is left out after the samples that were given before a snapshot."""
    source = make()
    taken: Any = source.resume(snapshot)
    _expect(taken is True, "resume to return True for a snapshot of the same input", repr(taken))
    rest, _ = _read(source, 10_000)
    source.close()
    where = f"after {len(given)} of {len(whole)} values"
    _expect(rest | given == whole, f"all of the rest when resumed {where}", "some are missing")


def _read(source: PullSource, limit: int) -> tuple[set[Sample], list[tuple[set[Sample], Any]]]:
    """Return all values of a source; and after each batch those given so far, and its snapshot."""
    found: set[Sample] = set()
    snapshots = []
    quiet = 0
    while quiet < _QUIET:
        batch = source.next_batch(limit)
        if batch is None:
            _expect(source.next_batch(limit) is None, "None again after the end", "a batch")
            break
        try:
            count = check_arrivals("next_batch", batch, limit)
        except (InputError, TypeError, AttributeError) as error:
            raise AssertionError(
                f"expected a sequence of newnormal.io.Arrival, found {error}"
            ) from error
        quiet = 0 if count else quiet + 1
        for each in batch:
            found |= _samples(each)
        snapshots.append((set(found), _snapshot(source)))
        source.acknowledge()
    return found, snapshots


def _samples(arrival: Arrival) -> set[Sample]:
    return {
        (arrival.stream, int(time), channel, float(value))
        for time, row in zip(arrival.times, arrival.values, strict=True)
        for channel, value in zip(arrival.channels, row, strict=True)
        if not np.isnan(value)
    }


def _snapshot(source: PullSource) -> dict[str, Any]:
    """Return a snapshot as it comes back from the log."""
    found: Any = source.snapshot()
    _expect(isinstance(found, dict), "snapshot to return a dictionary", type(found).__name__)
    try:
        back: dict[str, Any] = json.loads(json.dumps(found, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise AssertionError(
            f"expected a snapshot of JSON values, found {found!r}: {error}"
        ) from None
    _expect(back == found, f"a snapshot that JSON gives back unchanged, {back!r}", repr(found))
    _expect(source.snapshot() == found, f"the same snapshot when asked twice, {found!r}", "another")
    return back


def _difference(expected: set[Sample], found: set[Sample]) -> str:
    missing, more = len(expected - found), len(found - expected)
    return f"{missing} values missing and {more} others"


def _expect(holds: bool, expected: str, found: object) -> None:
    if not holds:
        raise AssertionError(f"expected {expected}, found {found}")
