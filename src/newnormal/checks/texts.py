"""Shares, lengths of time and names as people read them."""

from collections.abc import Sequence

import numpy as np

from newnormal.config import duration_text
from newnormal.texts import number_text
from newnormal.types import time_text
from newnormal.types.zones import utc_offset

_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
_QUARTER = 900 * 10**9  # ns
_NAMED = 3  # names in a line


def shown(text: str) -> str:
    r"""Return text with its control characters escaped, so that a terminal only shows them.

    >>> shown("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def percent(share: float) -> str:
    """Return a share; one that is neither none nor all does not read as such.

    >>> percent(0.5), percent(0.0001), percent(0.9999)
    ('50%', 'under 0.1%', 'over 99.9%')
    """
    if 0 < share < 0.001:
        return "under 0.1%"
    if 0.999 < share < 1:
        return "over 99.9%"
    return f"{100 * share:.1f}%" if 0 < share < 0.1 or 0.9 < share < 1 else f"{share:.0%}"


def seconds(value: np.timedelta64) -> float:
    """Return a length of time in seconds."""
    return float(value / np.timedelta64(1, "ns")) / 1e9


def length(value: np.timedelta64) -> str:
    """Return a length of time: exact where that is short to read, else in two digits.

    >>> length(np.timedelta64(90, "s")), length(np.timedelta64(1_000_000, "s"))
    ('1m30s', '12 d')
    """
    exact = duration_text(value)
    if len(exact) <= 6:
        return exact
    total = seconds(value)
    unit, size = next(((unit, size) for unit, size in _UNITS if total >= 2 * size), _UNITS[-1])
    return f"{number_text(total / size, digits=2)} {unit}"


def moment(time: np.datetime64, zone: str | None) -> str:
    """Return a time in its zone, with the offset; without a zone as it is.

    >>> moment(np.datetime64("2026-07-01T10:00", "ns"), "Europe/Berlin")
    '2026-07-01T12:00:00+02:00'
    """
    if zone is None:
        return time_text(time)
    ns = int(time.astype("datetime64[ns]").astype(np.int64))
    offset = utc_offset(zone)(ns // _QUARTER)
    hours, minutes = divmod(abs(offset) // 10**9 // 60, 60)
    local = time_text(np.datetime64(ns + offset, "ns"))
    return f"{local}{'-' if offset < 0 else '+'}{hours:02}:{minutes:02}"


def named(names: Sequence[str]) -> str:
    """Return the first few names, and how many more there are.

    >>> named(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    more = len(names) - _NAMED
    listed = ", ".join(map(shown, names[:_NAMED] if more > 1 else names[: _NAMED + 1]))
    return f"{listed} and {more:,} more" if more > 1 else listed
