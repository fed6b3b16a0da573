"""A source in memory, and checks for sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from newnormal.io.sources.base import Batch, Source, SourceOptions
from newnormal.tabular import default_channels, to_table
from newnormal.testing.expecting import check_kind, check_other, check_snapshot, expect

_EMPTY = 1000  # empty batches in a row after which a source is taken to hang


class MemorySource(Source):
    """Samples from an array.

    Parameters
    ----------
    values
        Samples by channels, (T, C).
    times
        The samples' times, or None.
    channels
        The channels' names; by default their positions.

    Examples
    --------
    >>> source = MemorySource([[1.0], [2.0], [3.0]])
    >>> source.next_batch(2).values.tolist(), source.snapshot()
    ([[1.0], [2.0]], {'at': 2})
    >>> again = MemorySource([[1.0], [2.0], [3.0]])
    >>> again.resume({"at": 2}), again.next_batch(2).values.tolist(), again.next_batch(2)
    (True, [[3.0]], None)
    """

    record = "sample"

    def __init__(
        self, values: ArrayLike, times: Any = None, channels: tuple[str, ...] | None = None
    ) -> None:
        table = to_table(np.asarray(values), times=times)
        names = channels or default_channels(table.values.shape[1])
        super().__init__("memory", SourceOptions(names))
        self._values, self._times = table.values, table.times
        self._at = 0

    def next_batch(self, limit: int) -> Batch | None:
        """Return the next samples."""
        here = slice(self._at, self._at + limit)
        values = self._values[here]
        if not len(values):
            return None
        self._at += len(values)
        return Batch(values, None if self._times is None else self._times[here])

    def snapshot(self) -> dict[str, Any]:
        """Return how many samples were given out."""
        return {"at": self._at}

    def resume(self, snapshot: Mapping[str, Any]) -> bool:
        """Go on behind that many samples."""
        self._at = snapshot["at"]
        return True


def check_source(make: Callable[[], Source], *, other: Callable[[], Source] | None = None) -> None:
    """Check that a source keeps what `newnormal.io.Source` promises.

    Parameters
    ----------
    make
        Makes the source at its beginning, each time of the same input. That must end, and hold at
        least three samples.
    other
        Makes a source of another input, which must not resume from a snapshot of the first.

    Examples
    --------
    >>> check_source(lambda: MemorySource(np.ones((20, 2))))
    """
    source = make()
    check_kind(source, Source)
    _check_snapshot(source)
    whole = _read(source, 10_000)
    expect(len(whole[0]) >= 3, "an input of at least 3 samples", len(whole[0]))
    expect(source.next_batch(1) is None, "None again when asked after the end", "a batch")
    _check_snapshot(source)
    source.close()
    source.close()  # a second time does no harm
    for limit in (1, 3):
        source = make()
        _same(whole, _read(source, limit), f"the same samples in batches of {limit}")
        source.close()
    for count in sorted({0, 1, len(whole[0]) // 2, len(whole[0])}):
        _check_resuming(make, whole, count)
    if other is not None:
        source, different = make(), other()
        source.next_batch(1)
        check_other(different.resume(_check_snapshot(source)))
        source.close()
        different.close()


def _check_resuming(make: Callable[[], Source], whole: tuple[Any, Any], count: int) -> None:
    """Check that a source resumed after `count` samples goes on with the next one."""
    source = make()
    read = 0
    while read < count:
        batch = source.next_batch(count - read)
        expect(batch is not None, f"{count} samples", f"the end after {read}")
        read += 0 if batch is None else len(batch)
    snapshot = _check_snapshot(source)
    source.close()
    resumed = make()
    taken = resumed.resume(snapshot)
    where = f"after {count} of {len(whole[0])} samples"
    expect(isinstance(taken, bool), "resume to return True or False", repr(taken))
    if taken and not resumed.repeats:
        values, times = whole
        rest = values[count:], None if times is None else times[count:]
        _same(rest, _read(resumed, 10_000), f"exactly the rest when resumed {where}")
    resumed.close()


def _check_snapshot(source: Source) -> dict[str, Any]:
    """Return a snapshot as it comes back from a state file."""
    back = check_snapshot(source.snapshot)
    reserved = sorted({"kind", "zone"} & set(back))
    expect(not reserved, "a snapshot without the reserved keys kind and zone", reserved)
    return back


def _read(source: Source, limit: int) -> tuple[Any, Any]:
    values, times = [np.empty((0, len(source.options.channels)))], []
    empty = 0
    while True:
        if (batch := source.next_batch(limit)) is None:
            break
        expect(isinstance(batch, Batch), "a newnormal.io.Batch or None", type(batch).__name__)
        _check_batch(batch, limit, len(source.options.channels))
        empty = 0 if len(batch) or batch.problems else empty + 1
        expect(empty < _EMPTY, "samples or the end", f"{_EMPTY} empty batches in a row")
        values.append(batch.values)
        if len(batch) and batch.times is not None:
            times.append(batch.times)
        all_or_none = sum(map(len, times)) in (0, sum(map(len, values)))
        expect(all_or_none, "times in every batch or in none", "some batches without")
    joined = np.concatenate(times) if times else None
    if joined is not None:
        expect(bool((joined[1:] > joined[:-1]).all()), "times that increase", "one that does not")
    return np.concatenate(values), joined


def _check_batch(batch: Batch, limit: int, channels: int) -> None:
    values, times = batch.values, batch.times
    expect(isinstance(values, np.ndarray), "values as a NumPy array", type(values).__name__)
    expect(values.dtype == np.float64, "values as float64", values.dtype)
    good = values.ndim == 2 and values.shape[1] == channels
    expect(good, f"values of shape (T, {channels}), one column a channel", values.shape)
    expect(len(values) <= limit, f"at most limit={limit} samples in a batch", len(values))
    expect(not np.isinf(values).any(), "finite values or NaN", "an infinite one")
    if times is not None:
        expect(times.dtype == "datetime64[ns]", "times as datetime64[ns]", times.dtype)
        expect(times.shape == values.shape[:1], f"{len(values)} times, one a sample", times.shape)
        expect(not np.isnat(times).any(), "a time for every sample", "NaT")
    if batch.numbers is not None:
        count = len(batch.numbers)
        expect(count == len(values), f"{len(values)} numbers, one a sample", count)


def _same(expected: tuple[Any, Any], read: tuple[Any, Any], what: str) -> None:
    expect(len(read[0]) == len(expected[0]), f"{what}: {len(expected[0])}", len(read[0]))
    different = ~((read[0] == expected[0]) | (np.isnan(read[0]) & np.isnan(expected[0])))
    expect(not different.any(), what, f"another value at sample {_first(different.any(axis=1))}")
    if expected[1] is not None:
        expect(read[1] is not None or not len(expected[1]), f"{what}, with times", "no times")
        if read[1] is not None:
            moved = read[1] != expected[1]
            expect(not moved.any(), what, f"another time at sample {_first(moved)}")


def _first(flags: Any) -> int:
    return int(np.argmax(flags)) if len(flags) else 0
