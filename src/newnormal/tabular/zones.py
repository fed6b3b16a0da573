"""Which zone times are in, before they become UTC."""

import re
from datetime import datetime, timedelta, tzinfo
from typing import Any

import numpy as np

_OFFSET = re.compile(r"[T ]\d\d:\d\d[^Z+-]*(Z|[+-]\d\d(?::?\d\d)?)\s*$")
_DAY = 86_400 * 10**9
_FIXED = re.compile(r"(?:UTC|GMT)?([+-])(\d\d):?(\d\d)?")


def zone_of(time: Any) -> str | None:
    """Return the zone of one time: its IANA name, or its offset; None where it has none.

    >>> zone_of("2026-07-01T12:00:00+02:00"), zone_of("2026-07-01T12:00:00"), zone_of(1767225600)
    ('+02:00', None, None)
    """
    if isinstance(time, str):
        match = _OFFSET.search(time)
        return None if match is None else _named(match[1])
    zone = getattr(time, "tzinfo", None)
    return _of_tzinfo(zone, time) if isinstance(zone, tzinfo) else None


def zone_of_times(times: Any) -> str | None:
    """Return the zone of times in any form that `parse_times` takes.

    Where each time has an offset of its own, that of the last one.
    """
    if times is None or isinstance(times, str):
        return None
    if isinstance(times, np.ndarray) and times.dtype.kind == "M":
        return None
    dtype = getattr(times, "dtype", None)
    zone = getattr(dtype, "time_zone", None) or getattr(dtype, "tz", None)  # polars, pandas
    if isinstance(zone, str):
        return _named(zone)
    try:
        last = None if len(times) == 0 else times.iloc[-1] if hasattr(times, "iloc") else times[-1]
    except (TypeError, KeyError, IndexError):
        return None
    return _of_tzinfo(zone, last) if isinstance(zone, tzinfo) else zone_of(last)


def _of_tzinfo(zone: tzinfo, time: Any) -> str | None:
    name = getattr(zone, "key", None) or getattr(zone, "zone", None)  # zoneinfo, pytz
    if isinstance(name, str):
        return _named(name)
    offset = zone.utcoffset(time if isinstance(time, datetime) else None)
    return None if offset is None else _offset(offset)


def _named(zone: str) -> str:
    """Return a zone's name in one form.

    >>> _named("UTC+0530"), _named("Z"), _named("Europe/Berlin")
    ('+05:30', 'UTC', 'Europe/Berlin')
    """
    if (match := _FIXED.fullmatch(zone)) is not None:
        minutes = int(match[2]) * 60 + int(match[3] or 0)
        return _offset(timedelta(minutes=-minutes if match[1] == "-" else minutes))
    return "UTC" if zone == "Z" else zone


def _offset(offset: timedelta) -> str:
    minutes = round(offset.total_seconds() / 60)
    if minutes == 0:
        return "UTC"
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
