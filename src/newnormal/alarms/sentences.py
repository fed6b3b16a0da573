"""Alarms and changes in one sentence each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from newnormal.types import SILENCE, Alarm, Change, Evidence, time_text

_ALIKE_DIGITS = 7  # of numbers beside each other, of which some resemble each other
_MOST_DIGITS = 17  # of one that is the same as another with fewer: as many as a float has
_PLAIN = {True: 1e9, False: 1e17}  # numbers below are written without an exponent
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
    if not 1e-4 <= abs(value) < _PLAIN[significant <= _ALIKE_DIGITS]:
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
    >>> number_texts(1e15, 1e15 + 12), number_texts(5e12, 5e12 + 0.5, 2)
    (['1000000000000000', '1000000000000012'], ['5000000000000', '5000000000000.5', '2'])
    """
    texts: list[str] = []
    for significant in range(3, _ALIKE_DIGITS + 1):
        texts = [number_text(value, significant) for value in values]
        if len(set(texts)) == len(set(values)):
            return texts
    for significant in range(_ALIKE_DIGITS + 1, _MOST_DIGITS + 1):
        found: dict[str, set[float]] = {}
        for value, text in zip(values, texts, strict=True):
            found.setdefault(text, set()).add(value)
        texts = [
            number_text(value, significant) if len(found[text]) > 1 else text
            for value, text in zip(values, texts, strict=True)
        ]
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


def length_text(alarm: Alarm) -> str:
    """Return how long an alarm lasted, from its first sample to its last."""
    samples = alarm.end - alarm.start + 1
    seconds = seconds_between(alarm.start_time, alarm.end_time)
    if seconds is not None and samples > 1 and alarm.cause != SILENCE:
        seconds *= samples / (samples - 1)  # the last sample lasts as long as the others
    return duration_text(samples, seconds)


def ended(alarm: Alarm, reason: str, at_this_hour: bool = False) -> Alarm:
    """Return an open alarm as one that closed for a reason: its sentence has its length."""
    length = length_text(alarm)
    if alarm.cause == SILENCE:
        sentence = missing_sentence([each.channel for each in alarm.evidence], length)
    else:
        sentence = alarm_sentence(alarm.evidence, length, at_this_hour)
    return replace(alarm, reason=reason, sentence=sentence)


def alarm_sentence(evidence: Sequence[Evidence], length: str | None, at_this_hour: bool) -> str:
    """Return what the channels of an alarm show, and for how long; no length while it is open."""
    lasted = "" if length is None else f" for {length}"
    if not evidence:
        return f"unusual{lasted}"
    first, *others = evidence
    text = f"{first.channel} {_values(first)}"
    if at_this_hour and first.expected is not None:
        text += " at this hour"
    if in_range(first):
        text += f", but its course {'is' if length is None else 'was'} unusual{lasted}"
    elif first.direction != "missing" or lasted:
        text += f"; {'unusual' if first.direction == 'within' else first.direction}{lasted}"
    if others:
        text += f"; also {', '.join(each.channel for each in others)}"
    return text


def in_range(evidence: Evidence) -> bool:
    """Whether a value lies in the range that is known of its channel."""
    return evidence.direction == "within" and None not in (evidence.low, evidence.high)


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
    how = "within" if in_range(evidence) else "expected"
    return f"{observed}, {how} {' to '.join(texts)}" if texts else observed


def missing_sentence(channels: Sequence[str], length: str | None = None) -> str:
    """Return which channels have no values, and for how long; no length while that goes on."""
    return f"{', '.join(channels)} missing{'' if length is None else f' for {length}'}"


def silence_sentence(
    channels: Sequence[str], samples: int, seconds: float | None, period: float | None
) -> str:
    """Return what was silent, and for how long; no channels: there were no samples."""
    if channels:
        return missing_sentence(channels, duration_text(samples, seconds))
    return f"no sample for {duration_text(samples, seconds)}{_usual(period)}"


def quiet_sentence(period: float | None) -> str:
    """Return that no samples come, while that lasts; `period` in s.

    >>> quiet_sentence(60.0)
    'no samples, expected one every 60 s'
    """
    return f"no samples{_usual(period)}"


def _usual(period: float | None) -> str:
    return "" if period is None else f", expected one every {duration_text(1, period)}"


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
