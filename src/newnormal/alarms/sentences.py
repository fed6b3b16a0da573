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
    "number_texts",
    "seconds_between",
    "silence_sentence",
]

_MOST_DIGITS = 7  # of a number beside another that it resembles
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def number_text(value: float, significant: int = 3) -> str:
    """Return a number with three significant digits, and all digits before the point.

    Examples
    --------
    >>> [number_text(value) for value in (71.04, 0.012345, 123456.7, -3.0, 1e-9)]
    ['71', '0.0123', '123457', '-3', '1e-09']
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if not 1e-4 <= abs(value) < 1e9:
        return f"{value:.{significant}g}"
    digits = max(0, significant - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def number_texts(*values: float) -> list[str]:
    """Return numbers beside each other, with enough digits that different ones look different.

    Examples
    --------
    >>> number_texts(26.04, 25.91, 25.97), number_texts(71.04, 20, 30)
    (['26.04', '25.91', '25.97'], ['71', '20', '30'])
    """
    texts: list[str] = []
    for significant in range(3, _MOST_DIGITS + 1):
        texts = [number_text(value, significant) for value in values]
        if len(set(texts)) == len(set(values)):
            break
    return texts


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
    text = f"{first.channel} {_values(first)}"
    if at_this_hour and first.expected is not None:
        text += " at this hour"
    unusual = "unusual" if first.direction == "within" else first.direction
    text += f"; {unusual} for {length}"
    if others:
        text += f"; also {', '.join(each.channel for each in others)}"
    return text


def _values(evidence: Evidence) -> str:
    """Return what was observed, and what was expected."""
    expected: tuple[float, ...] = ()
    if evidence.low is not None and evidence.high is not None:
        expected = (evidence.low, evidence.high)
    elif evidence.expected is not None:
        expected = (evidence.expected,)
    if evidence.observed is None:
        observed, texts = "missing", number_texts(*expected)
    else:
        observed, *texts = number_texts(evidence.observed, *expected)
    return f"{observed}, expected {' to '.join(texts)}" if texts else observed


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
        f"{name} from {' to '.join(number_texts(change.before[name], change.after[name]))}"
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
