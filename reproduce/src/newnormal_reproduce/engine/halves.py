"""The streams on which constants are chosen, and those that report, of collections used for both.

Constants of the default detector are chosen on generated data, on streams that are in no table,
and on half of the streams of SKAB, NAB and UCR. The other half of these reports.
"""

from collections.abc import Iterable
from typing import NamedTuple

HALVED = ("SKAB", "NAB", "UCR")


class Halves(NamedTuple):
    """Names of streams, sorted."""

    choosing: tuple[str, ...]
    reporting: tuple[str, ...]


def halves(owner: str, names: Iterable[str]) -> Halves:
    """Return the streams of a collection for choosing constants, and those that report.

    Of the names in sorted order the 1st, 3rd, 5th … choose and the 2nd, 4th … report. The names
    must be those of all streams of the collection that were found.

    Parameters
    ----------
    owner
        One of `HALVED`; of another collection every stream reports.
    names
        Names of streams; those of other collections are left out.

    Examples
    --------
    >>> halves("UCR", ["UCR/024_B", "UCR/011_A", "SMD/1-4", "UCR/026_C"])
    Halves(choosing=('UCR/011_A', 'UCR/026_C'), reporting=('UCR/024_B',))
    >>> halves("SMD", ["SMD/2-1", "SMD/1-4"])
    Halves(choosing=(), reporting=('SMD/1-4', 'SMD/2-1'))
    """
    mine = sorted(name for name in set(names) if name.startswith(f"{owner}/") or name == owner)
    if owner not in HALVED:
        return Halves((), tuple(mine))
    return Halves(tuple(mine[::2]), tuple(mine[1::2]))


def is_choosing(name: str, names: Iterable[str]) -> bool:
    """Return whether constants are chosen on a stream, one of all `names` that were found.

    >>> is_choosing("NAB/a", ["NAB/a", "NAB/b"]), is_choosing("NAB/b", ["NAB/a", "NAB/b"])
    (True, False)
    """
    return name in halves(name.partition("/")[0], names).choosing
