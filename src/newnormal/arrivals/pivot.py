"""Values one by one as samples: long becomes wide. Of two values at one time the last counts."""

from collections.abc import Sequence

import numpy as np

from newnormal.arrivals.arrival import Arrival
from newnormal.types import Floats, Ints


def table(times: Ints, columns: Ints, values: Floats, width: int) -> tuple[Ints, Floats]:
    """Return the times in order, each once, and (T, width) their values, NaN where there is none.

    `times`, `columns`, `values`: (N,) each, of the values in any order.

    >>> table(np.array([2, 1, 2]), np.array([0, 1, 0]), np.array([5.0, 6.0, 7.0]), 2)
    (array([1, 2]), array([[nan,  6.],
           [ 7., nan]]))
    """
    steps, rows = np.unique(times, return_inverse=True)
    wide = np.full((len(steps), width), np.nan)
    wide[rows, columns] = values  # of several for one place NumPy keeps the last
    return steps, wide


def arrivals(
    stream: str,
    channels: Sequence[str],
    times: Ints,
    columns: Ints,
    values: Floats,
    tolerance: int = 0,
) -> list[Arrival]:
    """Return the samples of a stream in order, those that follow with the same channels together.

    A sample has the channels that came for it and no others, so that memory is that of the values,
    and a stream sees what may come still.

    Parameters
    ----------
    channels
        Names, which `columns` numbers.
    times, columns, values
        (N,) each, of the values in any order.
    tolerance
        Times of one sample may differ by this many ns, unless they have a channel twice.

    Examples
    --------
    >>> found = arrivals("a", ["x", "y"], np.array([1, 2, 1]), np.array([0, 0, 1]), np.ones(3))
    >>> [(each.channels, each.times.tolist()) for each in found]
    [(('x', 'y'), [1]), (('x',), [2])]
    """
    order = np.lexsort((columns, times))
    times, columns, values = times[order], columns[order], values[order]
    last = np.append((np.diff(times) != 0) | (np.diff(columns) != 0), True)
    if not last.all():
        times, columns, values = times[last], columns[last], values[last]
    if tolerance and len(times):
        times = _together(times, columns, tolerance)
        order = np.lexsort((columns, times))
        times, columns, values = times[order], columns[order], values[order]
    starts = np.flatnonzero(np.append(True, np.diff(times) != 0)[: len(times)])
    sizes = np.diff(np.append(starts, len(times)))
    found = []
    bounds = np.append(_changes(columns, starts, sizes), len(starts))
    for first, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        begin, size = starts[first], sizes[first]
        wide = values[begin : begin + (end - first) * size].reshape(end - first, size)
        names = tuple(channels[column] for column in columns[begin : begin + size].tolist())
        found.append(Arrival(stream, names, times[starts[first:end]], wide))
    return found


def _changes(columns: Ints, starts: Ints, sizes: Ints) -> Ints:
    """Return which samples have other columns than the one before."""
    if not len(starts):
        return starts
    width = np.repeat(sizes, sizes)
    before = np.maximum(np.arange(len(columns)) - width, 0)
    same = np.logical_and.reduceat(columns == columns[before], starts)
    same[1:] &= sizes[1:] == sizes[:-1]
    same[0] = False
    return np.flatnonzero(~same)


def _together(times: Ints, columns: Ints, tolerance: int) -> Ints:
    """Return the times of samples, each that of its first value."""
    steps = np.diff(times)
    if not ((steps > 0) & (steps <= tolerance)).any():
        return times
    starts = np.flatnonzero(np.append(True, steps > 0))
    joined, begun, seen = times.copy(), int(times[0]), set[int]()
    for first, part in zip(starts.tolist(), np.split(columns, starts[1:]), strict=True):
        time, came = int(times[first]), set(part.tolist())
        if time - begun > tolerance or came & seen:
            begun, seen = time, set()
        seen |= came
        joined[first : first + len(part)] = begun
    return joined
