"""Lengths of time as people read them."""

import numpy as np

from newnormal.config import duration_text
from newnormal.texts import seconds_text


def seconds(value: np.timedelta64) -> float:
    """Return a length of time in seconds."""
    return float(value / np.timedelta64(1, "ns")) / 1e9


def length(value: np.timedelta64) -> str:
    """Return a length of time: exact where that is short to read, else in two digits.

    >>> length(np.timedelta64(90, "s")), length(np.timedelta64(1_000_000, "s"))
    ('1m30s', '12 d')
    """
    exact = duration_text(value)
    return exact if len(exact) <= 6 else seconds_text(seconds(value))
