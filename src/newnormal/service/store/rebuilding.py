"""Points that are not in the database, made again from the levels below."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from newnormal.service.store.columns import SAMPLES, Columns, join
from newnormal.service.store.levels import BLOCK, FEWER, thin
from newnormal.types import Ints

_UNKNOWN = -(1 << 63)  # the time of a sample that is gone
_SECOND = 10**9

# Gives a block by level and number; None if it is not there.
Find = Callable[[int, int], Columns | None]


def rebuilt(level: int, number: int, rows: int, find: Find, later: int) -> Columns:
    """Return the first points of a block that is not there.

    They are those that it had, as far as the levels below are kept. The others have missing values,
    and times that come before those of the rest.

    Parameters
    ----------
    level, number
        Which block; level 1 or above.
    rows
        How many points of it: those of full blocks of the level below.
    find
        Gives blocks of the levels below.
    later
        A time after all of them, in ns.
    """
    found = _points(level, number, rows, find)
    times = _with_times(found["times"], later)
    return Columns(found.layout, found.channels, {**found.arrays, "times": times})


def _points(level: int, number: int, rows: int, find: Find) -> Columns:
    parts = []
    for below in range(number * FEWER, number * FEWER + rows * FEWER // BLOCK):
        block = find(level - 1, below)
        if block is None:
            block = _points(level - 1, below, BLOCK, find) if level > 1 else _missing()
        parts.append(thin(block, FEWER))
    return join(parts)


def _missing() -> Columns:
    """Return a block of samples of which nothing is known."""
    block = Columns.empty(SAMPLES, (), BLOCK)
    block["times"][:] = _UNKNOWN
    block["scores"][:] = block["thresholds"][:] = np.nan
    block["anomalous"][:] = False
    return block


def _with_times(times: Ints, later: int) -> Ints:
    """Return times where those that are not known go on backwards from the next one."""
    known = times != _UNKNOWN
    steps = np.diff(times[known])
    step = int(steps.min()) if len(steps) else _SECOND
    found = times.copy()
    for at in np.flatnonzero(~known)[::-1].tolist():
        found[at] = (found[at + 1] if at + 1 < len(found) else later) - step
    return found
