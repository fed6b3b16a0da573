"""Part of the samples of a running stream: what `rows`, `from_` and `until` ask for."""

from __future__ import annotations

import numpy as np

from newnormal.tabular.ordering.lateness import TimedRows
from newnormal.tabular.reading import Reading


class RowSelector:
    """Takes part of the samples of a stream that is in order.

    Attributes
    ----------
    needed
        Whether less than all is asked for.
    seen
        How many samples were counted for `rows`.

    Examples
    --------
    >>> taking = RowSelector(Reading.of(rows="2:5"))
    >>> taking.take(4), taking.take(4)
    (slice(2, 4, None), slice(0, 1, None))
    """

    def __init__(self, reading: Reading) -> None:
        self._first, self._last = reading.rows or (None, None)
        self._from, self._until = reading.from_, reading.until
        bounds = (self._first, self._last, self._from, self._until)
        self.needed = any(each is not None for each in bounds)
        self.seen = 0

    def take(self, count: int) -> slice:
        """Count the next samples; return which of them are wanted by their number."""
        first = min(max((self._first or 0) - self.seen, 0), count)
        last = count
        if self._last is not None:
            last = min(max(self._last - self.seen, 0), count)
        self.seen += count
        return slice(first, max(first, last))

    def at_times(self, rows: TimedRows, zone: str | None) -> TimedRows:
        """Return those samples whose times, of this zone, are wanted."""
        if self._from is None and self._until is None:
            return rows
        times = rows.times.view("datetime64[ns]")
        wanted = np.ones(len(rows), dtype=bool)
        if self._from is not None:
            wanted &= times >= self._from.in_zone(zone)
        if self._until is not None:
            wanted &= times < self._until.in_zone(zone)
        return rows.take(np.flatnonzero(wanted))
