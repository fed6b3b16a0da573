"""Arrays by the kind of number they hold."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "NO_TIME",
    "Bools",
    "Floats",
    "Floats32",
    "Ints",
    "Times",
    "text_of_time",
    "time_at",
    "time_of_text",
    "time_text",
]

Floats: TypeAlias = NDArray[np.float64]
Floats32: TypeAlias = NDArray[np.float32]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Times: TypeAlias = NDArray[np.datetime64]

NO_TIME = np.iinfo(np.int64).min  # NaT, as nanoseconds


def time_at(times: Times | None, row: int) -> np.datetime64 | None:
    """Return the time in a row, None where it is not known."""
    when = None if times is None else times[row]
    return None if when is None or np.isnat(when) else when


def time_text(time: np.datetime64) -> str:
    """Return a time as ISO 8601 with no more digits than it needs.

    >>> time_text(np.datetime64("2026-01-01T00:00:00.500", "ns"))
    '2026-01-01T00:00:00.5'
    """
    text = str(time.astype("datetime64[ns]"))
    return text.rstrip("0").rstrip(".") if "." in text else text


def text_of_time(time: np.datetime64 | None) -> str | None:
    """Return a time that may not be known as text, or None."""
    return None if time is None else time_text(time)


def time_of_text(text: str | None) -> np.datetime64 | None:
    """Return what `text_of_time` was made from."""
    return None if text is None else np.datetime64(text, "ns")
