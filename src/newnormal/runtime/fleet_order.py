"""The order of the samples of each stream: by their times, each time once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from newnormal.core.times import is_rising
from newnormal.errors import InputError
from newnormal.tabular.ordering.lateness import late_record_error
from newnormal.types import Ints, Times


class Kept(NamedTuple):
    """Which samples of a stream may be taken, where not all may.

    Attributes
    ----------
    rows
        Their positions.
    skipped
        How many were taken before, of an input that repeats.
    wrong
        The positions of those whose time is not after the one before, with the errors.
    """

    rows: Ints
    skipped: int
    wrong: list[tuple[int, InputError]]


class Order:
    """Tells samples that may come next from those that may not.

    Parameters
    ----------
    newest
        The newest time of each stream that has one.
    repeats
        Whether samples that were taken before may come again, as those of a pipe whose sender
        starts over. They are skipped, until the stream has its first that is newer.

    Examples
    --------
    >>> order = Order({"a": np.datetime64("2026-01-02", "ns")}, repeats=True)
    >>> kept = order.rows("a", np.array(["2026-01-01", "2026-01-03"], "datetime64[ns]"))
    >>> kept.rows.tolist(), kept.skipped
    ([1], 1)
    """

    def __init__(self, newest: dict[str, np.datetime64], repeats: bool) -> None:
        self.newest = newest
        self._again = set(newest) if repeats else set()
        self.zone: str | None = None  # of the times in messages

    def rows(self, name: str, times: Times | None) -> Kept | None:
        """Return which samples may be taken; None if all may, which is usual."""
        if times is None or not len(times):
            return None
        newest = self.newest.get(name)
        if is_rising(times, newest):
            self._again.discard(name)
            return None
        return self._sorted_out(name, times, newest)

    def _sorted_out(self, name: str, times: Times, newest: np.datetime64 | None) -> Kept:
        rows: list[int] = []
        wrong: list[tuple[int, InputError]] = []
        skipped = 0
        for row, when in enumerate(times):
            if newest is None or is_rising(times[row : row + 1], newest):
                self._again.discard(name)
                newest = when
                rows.append(row)
            elif name in self._again:
                skipped += 1
            else:
                wrong.append((row, late_record_error(when, newest, self.zone)))
        return Kept(np.array(rows, dtype=np.int64), skipped, wrong)
