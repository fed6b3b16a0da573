"""Arrays by the kind of number they hold."""

import re
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Floats32: TypeAlias = NDArray[np.float32]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Times: TypeAlias = NDArray[np.datetime64]

_OFFSET = re.compile(r"(.*T.*?)(Z|([+-])(\d\d):(\d\d)(?::(\d\d))?)")

NO_TIME = np.iinfo(np.int64).min  # ns: the time of a sample that has none; a view of NaT


def time_at(times: Times | None, row: int) -> np.datetime64 | None:
    """Return the time in a row, None where it is not known."""
    when = None if times is None else times[row]
    return None if when is None or np.isnat(when) else when


def ns_of_time(time: np.datetime64 | None) -> int:
    """Return a time in ns since 1970; `NO_TIME` where it is not known.

    >>> ns_of_time(np.datetime64("1970-01-01T00:00:02")), ns_of_time(None) == NO_TIME
    (2000000000, True)
    """
    return NO_TIME if time is None else int(time.astype("datetime64[ns]").astype(np.int64))


def time_of_ns(ns: int) -> np.datetime64 | None:
    """Return what `ns_of_time` was made from."""
    return None if ns == NO_TIME else np.datetime64(ns, "ns")


def time_text(time: np.datetime64, zone: str | None = None) -> str:
    """Return a time as ISO 8601 with no more digits than it needs; in a zone, with its offset.

    >>> time = np.datetime64("2026-01-01T00:00:00.500", "ns")
    >>> time_text(time), time_text(time, "Europe/Berlin"), time_text(time, "UTC")
    ('2026-01-01T00:00:00.5', '2026-01-01T01:00:00.5+01:00', '2026-01-01T00:00:00.5Z')
    """
    if zone is not None:
        from newnormal.types.zones import zoned_texts

        return zoned_texts(np.array([time]), zone)[0]
    text = str(time.astype("datetime64[ns]"))
    return text.rstrip("0").rstrip(".") if "." in text else text


def text_of_time(time: np.datetime64 | None, zone: str | None = None) -> str | None:
    """Return a time that may not be known as text, or None."""
    return None if time is None else time_text(time, zone)


def time_of_text(text: str | None) -> np.datetime64 | None:
    """Return what `text_of_time` was made from, in whatever zone.

    >>> time_of_text("2026-01-01T01:00:00.5+01:00")
    np.datetime64('2026-01-01T00:00:00.500000000')
    """
    if text is None:
        return None
    if (match := _OFFSET.fullmatch(text)) is None:
        return np.datetime64(text, "ns")
    time = np.datetime64(match[1], "ns")
    if match[2] == "Z":
        return time
    hours, minutes, seconds = (int(part or 0) for part in match.group(4, 5, 6))
    offset = np.timedelta64(hours * 3600 + minutes * 60 + seconds, "s")
    return time + offset if match[3] == "-" else time - offset


def zone_of_text(text: str | None) -> str | None:
    """Return the offset that a time of `text_of_time` has, as a zone; None without.

    >>> zone_of_text("2026-01-01T01:00:00+01:00"), zone_of_text("2026-01-01T01:00:00Z")
    ('+01:00', 'UTC')
    """
    match = None if text is None else _OFFSET.fullmatch(text)
    if match is None:
        return None
    return "UTC" if match[2] == "Z" else match[2]
