"""What history must be, and how far apart its samples are."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from newnormal.errors import InputError, ParameterError
from newnormal.texts import did_you_mean
from newnormal.types import Floats, Times

MINIMUM_WINDOWS = 2


def check_history(values: Floats, channels: tuple[str, ...], window: int) -> None:
    """Raise an InputError unless there is enough history (T, C), and some for every channel."""
    least = MINIMUM_WINDOWS * window
    if len(values) < least:
        raise InputError(
            f"history: expected at least {least} samples ({MINIMUM_WINDOWS} windows of {window}), "
            f"found {len(values)}",
            hint="give more history, or a smaller window",
        )
    never = np.flatnonzero(np.isnan(values).all(axis=0))
    if len(never):
        others = f", nor are {len(never) - 1} others" if len(never) > 1 else ""
        raise InputError(
            f"history: channel {channels[never[0]]!r} is never observed{others}",
            hint="leave it out, or give history in which it has values",
        )


def channel_units(
    chosen: Mapping[str, str] | None, written: Mapping[str, str], channels: Collection[str]
) -> dict[str, str]:
    """Return the units of channels: those that the user gave, else those that a file has.

    >>> channel_units({"disk": "B"}, {"cpu": "%", "note": "-"}, ("cpu", "disk"))
    {'cpu': '%', 'disk': 'B'}
    """
    for name in chosen or ():
        if name not in channels:
            raise ParameterError(
                f"units: expected the name of a channel, found {name!r}",
                hint=did_you_mean(name, channels) or f"the channels are {', '.join(channels)}",
            )
    units = {**written, **(chosen or {})}
    return {name: units[name] for name in channels if name in units}


def median_period(times: Times | None) -> np.timedelta64 | None:
    """Return the median time between samples, or None where that cannot be known."""
    if times is None or len(times) < 2:
        return None
    return np.timedelta64(int(np.median(np.diff(times).astype(np.int64))), "ns")
