"""Times in a zone, as text: inside they are UTC, outside they have the offset of their stream."""

import re
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, lru_cache
from itertools import repeat
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from newnormal.errors import NewnormalWarning
from newnormal.types.arrays import Ints, Times

# Zones change their offset at whole quarters of an hour of UTC, since 1972 at least.
QUARTER = 900 * 10**9
FIXED = re.compile(r"[+-]\d\d:\d\d")
_SECOND = 10**9


def output_zone(live: str | None, history: str | None) -> str | None:
    """Return the zone that a stream's times are given out in: of the input now, or of history.

    >>> output_zone("+02:00", "Europe/Berlin"), output_zone(None, "Europe/Berlin")
    ('+02:00', 'Europe/Berlin')
    """
    return history if live is None else live


def common_zone(zones: set[str | None]) -> str | None:
    """Return the zone of what several streams have in common: theirs, or UTC where they differ.

    >>> common_zone({"+02:00"}), common_zone({"+02:00", None}), common_zone(set())
    ('+02:00', 'UTC', None)
    """
    return next(iter(zones), None) if len(zones) < 2 else "UTC"


@cache
def minutes_of(offset: str) -> int:
    """Return an offset in minutes, as it is written behind a time.

    >>> minutes_of("+05:30"), minutes_of("-0130"), minutes_of("+02"), minutes_of("Z")
    (330, -90, 120, 0)
    """
    if offset in ("", "Z", "UTC", "GMT"):
        return 0
    minutes = int(offset[1:3]) * 60 + (int(offset[-2:]) if len(offset) > 3 else 0)
    return -minutes if offset[0] == "-" else minutes


@cache
def utc_offset(zone: str | None) -> Callable[[int], int]:
    """Return the function from a quarter hour since 1970 in UTC to the zone's offset in ns.

    A zone that this machine has no data of counts as UTC, with a warning.

    >>> offset = utc_offset("Europe/Berlin")
    >>> january, july = 1767225600 // 900, 1782864000 // 900
    >>> offset(january) // 10**9, offset(july) // 10**9
    (3600, 7200)
    """
    if zone is None or zone == "UTC" or FIXED.fullmatch(zone) is not None:
        return _fixed(minutes_of(zone or "") * 60 * _SECOND)
    try:
        info = ZoneInfo(zone)
    except (KeyError, ValueError, OSError):  # ZoneInfoNotFoundError is a KeyError
        warnings.warn(
            f"zone {zone!r}: expected data of this zone on this machine, found none; times of day "
            "are taken in UTC\nhint: pip install tzdata",
            NewnormalWarning,
            stacklevel=2,
        )
        return _fixed(0)

    @lru_cache(maxsize=1024)
    def offset(quarter: int) -> int:
        try:
            delta = datetime.fromtimestamp(quarter * 900, UTC).astimezone(info).utcoffset()
        except (OverflowError, ValueError, OSError):  # a year that datetime does not have
            return 0
        return 0 if delta is None else round(delta.total_seconds()) * _SECOND

    return offset


def _fixed(offset: int) -> Callable[[int], int]:
    def always(quarter: int) -> int:
        del quarter
        return offset

    return always


@cache
def suffix_of(offset: int, zone: str) -> str:
    """Return how an offset in ns is written at the end of a time; UTC itself is "Z".

    >>> suffix_of(7200 * 10**9, "Europe/Berlin"), suffix_of(0, "UTC"), suffix_of(0, "Europe/London")
    ('+02:00', 'Z', '+00:00')
    """
    if zone == "UTC":
        return "Z"
    minutes, seconds = divmod(abs(offset) // _SECOND, 60)
    text = f"{'-' if offset < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}"
    return f"{text}:{seconds:02}" if seconds else text  # local mean time, before there were zones


def zoned_texts(times: Times, zone: str | None) -> list[str]:
    """Return times as ISO 8601 with no more digits than they need; NaT stays "NaT".

    >>> times = np.array(["2026-10-25T00:30", "2026-10-25T01:30", "NaT"], "datetime64[ns]")
    >>> zoned_texts(times, "Europe/Berlin")
    ['2026-10-25T02:30:00+02:00', '2026-10-25T02:30:00+01:00', 'NaT']
    >>> zoned_texts(times[:1], None), zoned_texts(times[:1], "UTC")
    (['2026-10-25T00:30:00'], ['2026-10-25T00:30:00Z'])
    """
    local, end = local_times(times, zone)
    # In ns, the texts have a point and nine digits behind it.
    texts: list[str] = np.datetime_as_string(local).tolist()
    ends = repeat(end, len(texts)) if isinstance(end, str) else end
    return [
        text if text == "NaT" else text.rstrip("0").rstrip(".") + end
        for text, end in zip(texts, ends, strict=True)
    ]


def local_times(times: Times, zone: str | None) -> tuple[Times, str | list[str]]:
    """Return times as a clock in the zone shows them, and what ends them as text: one, or each."""
    utc = times.astype("datetime64[ns]", copy=False)
    if zone is None or zone == "UTC":
        return utc, "" if zone is None else "Z"
    offset_at = utc_offset(zone)
    when: Ints = utc.view(np.int64)
    if len(when) == 1:
        offset = offset_at(int(when[0]) // QUARTER)
        one: Any = utc + np.timedelta64(offset, "ns")
        return one, suffix_of(offset, zone)
    quarters, inverse = np.unique(when // QUARTER, return_inverse=True)
    offsets = [offset_at(quarter) for quarter in quarters.tolist()]
    # NaT stays NaT, as it would not in whole numbers.
    local: Any = utc + np.array(offsets, "timedelta64[ns]")[inverse]
    if len(set(offsets)) == 1:
        return local, suffix_of(offsets[0], zone)
    ends = [suffix_of(offset, zone) for offset in offsets]
    return local, [ends[index] for index in inverse.tolist()]
