"""Alarms and changes in one sentence each."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from newnormal.types import Change, Evidence, time_text

__all__ = [
    "alarm_sentence",
    "change_sentence",
    "duration_text",
    "number_text",
    "seconds_between",
    "silence_sentence",
]

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def number_text(value: float) -> str:
    """Return a number with three significant digits, and all digits before the point.

    Examples
    --------
    >>> [number_text(value) for value in (71.04, 0.012345, 123456.7, -3.0, 1e-9)]
    ['71', '0.0123', '123457', '-3', '1e-09']
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if not 1e-4 <= abs(value) < 1e9:
        return f"{value:.3g}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def duration_text(samples: int, seconds: float | None) -> str:
    """Return a length of time, or as many samples where times are not known.

    Examples
    --------
    >>> duration_text(12, 720.0), duration_text(3, None), duration_text(1, None)
    ('12 min', '3 samples', '1 sample')
    """
    if seconds is None or not seconds > 0:
        return f"{samples} sample{'' if samples == 1 else 's'}"
    size, unit = next(
        ((size, unit) for size, unit in _UNITS if seconds >= 1.5 * size or size == 1), _UNITS[-1]
    )
    return f"{number_text(float(f'{seconds / size:.2g}'))} {unit}"


def alarm_sentence(
    evidence: Sequence[Evidence], samples: int, seconds: float | None, at_this_hour: bool
) -> str:
    """Return what the channels of an alarm show, and for how long."""
    length = duration_text(samples, seconds)
    if not evidence:
        return f"unusual for {length}"
    first, *others = evidence
    text = f"{first.channel} {_observed(first)}{_expected(first)}"
    if at_this_hour and first.expected is not None:
        text += " at this hour"
    unusual = "unusual" if first.direction == "within" else first.direction
    text += f"; {unusual} for {length}"
    if others:
        text += f"; also {', '.join(each.channel for each in others)}"
    return text


def _observed(evidence: Evidence) -> str:
    return "missing" if evidence.observed is None else number_text(evidence.observed)


def _expected(evidence: Evidence) -> str:
    if evidence.low is not None and evidence.high is not None:
        return f", expected {number_text(evidence.low)} to {number_text(evidence.high)}"
    if evidence.expected is not None:
        return f", expected {number_text(evidence.expected)}"
    return ""


def silence_sentence(
    channels: Sequence[str], samples: int, seconds: float | None, period: float | None
) -> str:
    """Return what was silent, and for how long; no channels: there were no samples."""
    if channels:
        return f"{', '.join(channels)} missing for {duration_text(samples, seconds)}"
    usual = "" if period is None else f", expected one every {duration_text(1, period)}"
    return f"no sample for {duration_text(samples, seconds)}{usual}"


def change_sentence(change: Change) -> str:
    """Return what moved, from where to where, and since when."""
    since = f"sample {change.start}"
    if change.start_time is not None:
        since = time_text(change.start_time, change.zone)
    if not change.channels:
        return f"the model's weights have moved far from the accepted ones since {since}"
    moves = [
        f"{name} from {number_text(change.before[name])} to {number_text(change.after[name])}"
        for name in change.channels[:5]
    ]
    more = len(change.channels) - len(moves)
    if more:
        moves.append(f"{more} more")
    return f"{', '.join(moves)} since {since}"


def seconds_between(start: np.datetime64 | None, end: np.datetime64 | None) -> float | None:
    """Return the seconds from one time to another, or None where either is not known."""
    if start is None or end is None:
        return None
    return float((end - start) / np.timedelta64(1, "s"))
