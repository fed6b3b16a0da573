"""What each channel is like: empty, constant, a label, a counter, a time, a number of rows."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np

from newnormal.checks.facts import ChannelFacts
from newnormal.checks.findings import Finding, Remedies
from newnormal.checks.texts import amount, percent
from newnormal.types import Floats, Times

_FEW = 12  # different values at most of a channel of few values
_LOOKED_AT = 4_096  # values that show whether there are more
_NEAR_EMPTY = 0.05  # of the samples have a value
_RARE = 0.05  # of the values of a label are 1, where the name does not show that it is one
_STEPS = 30  # that a counter, a time and a number of rows must have
_RISES = 0.5  # of the steps of a counter, at least
_RESETS = 0.002  # of the steps of a counter, at most; one is allowed in any case
_RESET_TO = 0.1  # of the way back up, at most: where a counter starts again
_SPAN = 0.01  # by how much the span of a column of times differs from that of the times
_AT_END = 0.05  # of the values are exactly the highest or the lowest: the sensor's range ends
_MANY = 50  # different values among those looked at, for that to mean anything

_LABEL = re.compile(
    r"anomal|outlier|changepoint|change_point"
    r"|(?:^|_)(?:label|labels|lable|fault|faults|faulty|failure|class|target|attack|y|truth|gt)(?:_|$)"
)
_CLASS = re.compile(r"anomal|(?:^|_)(?:label|labels|class|fault|attack)(?:_|$)")
_TIME = re.compile(r"time|date|stamp|epoch|unix|(?:^|_)ts(?:_|$)")
_UNIX_2000, _UNIX_2100 = 946_684_800, 4_102_444_800  # in seconds


def channel_facts(name: str, column: Floats) -> ChannelFacts:
    """Return a channel in numbers.

    >>> channel_facts("a", np.array([1.0, np.nan, 3.0, 1.0]))
    ChannelFacts(name='a', missing=1, low=1.0, high=3.0, median=1.0, distinct=2)
    """
    seen = column[~np.isnan(column)]
    missing = len(column) - len(seen)
    if len(seen) == 0:
        return ChannelFacts(name, missing, None, None, None, 0)
    median = float(np.median(seen))
    return ChannelFacts(
        name,
        missing,
        float(seen.min()),
        float(seen.max()),
        median if math.isfinite(median) else None,
        _distinct(seen),
    )


def channel_finding(
    facts: ChannelFacts, column: Floats, times: Times | None, remedies: Remedies
) -> Finding | None:
    """Return what is suspicious about a channel: the first that holds; None if nothing is."""
    seen = column[~np.isnan(column)]
    for suspicion in _SUSPICIONS:
        finding = suspicion(facts, seen, times, remedies)
        if finding is not None:
            return finding
    return None


def named_like_a_label(name: str) -> bool:
    """Return whether a name is one that labels have.

    >>> [named_like_a_label(each) for each in ("isAnomaly", "Attack Label", "y", "yaw", "target_t")]
    [True, True, True, False, True]
    """
    return _LABEL.search(_words(name)) is not None


def _words(name: str) -> str:
    """Return the words of a name, in lower case, joined by underscores."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"[^a-z0-9]+", "_", apart.lower())


def _distinct(seen: Floats) -> int | None:
    """Return how many different values there are, None if more than a few."""
    some = seen[:: max(1, len(seen) // _LOOKED_AT)]
    if len(np.unique(some)) > _FEW:
        return None
    count = len(np.unique(seen))
    return count if count <= _FEW else None


def _empty(
    facts: ChannelFacts, seen: Floats, times: Times | None, remedies: Remedies
) -> Finding | None:
    del times
    name, samples = facts.name, facts.missing + len(seen)
    if len(seen) == 0:
        sentence = f"{name!r} has no values"
        return Finding("error", "empty", name, sentence, remedies.drop(name))
    if len(seen) < _NEAR_EMPTY * samples:
        sentence = f"{name!r} has a value in only {percent(len(seen) / samples)} of the samples"
        return Finding("warning", "near_empty", name, sentence, remedies.drop(name))
    return None


def _label(
    facts: ChannelFacts, seen: Floats, times: Times | None, remedies: Remedies
) -> Finding | None:
    del times
    name, words = facts.name, _words(facts.name)
    if facts.distinct is None or facts.low is None or facts.high is None:
        return None
    if not float(facts.low).is_integer() or not bool(np.all(seen == np.rint(seen))):
        return None
    named = named_like_a_label(name)
    binary = facts.low >= 0 and facts.high <= 1
    ones = float(np.count_nonzero(seen == 1) / len(seen))
    if binary and named:
        if facts.distinct == 1:
            which = f"always {amount(facts.low)} here"
        else:
            which = f"0 or 1, {percent(ones)} of it 1"
        sentence = f"{name!r} looks like a label ({which})"
        return Finding("warning", "label_like", name, sentence, remedies.label(name))
    signs = facts.distinct <= 2 and {facts.low, facts.high} <= {-1.0, 0.0, 1.0}
    classes = facts.low in (0, 1) and facts.high <= 20 and _CLASS.search(words) is not None
    if named and (signs or classes):
        which = f"{facts.distinct} whole numbers, {amount(facts.low)} to {amount(facts.high)}"
        sentence = f"{name!r} looks like a label ({which})"
        return Finding("warning", "label_like", name, sentence, remedies.drop(name))
    if binary and facts.distinct == 2 and ones <= _RARE:
        sentence = f"{name!r} may be a label (0 or 1, {percent(ones)} of it 1)"
        return Finding("note", "label_like", name, sentence, remedies.label(name))
    return None


def _constant(
    facts: ChannelFacts, seen: Floats, times: Times | None, remedies: Remedies
) -> Finding | None:
    del times
    if facts.distinct != 1 or len(seen) < 2:
        return None
    name = facts.name
    sentence = f"{name!r} is constant, {amount(float(seen[0]))}: any other value will be a change"
    return Finding("note", "constant", name, sentence, remedies.drop(name))


def _time(
    facts: ChannelFacts, seen: Floats, times: Times | None, remedies: Remedies
) -> Finding | None:
    if facts.low is None or facts.high is None or len(seen) < _STEPS:
        return None
    unit = next(
        (
            (name, size)
            for name, size in (("s", 1.0), ("ms", 1e3), ("us", 1e6), ("ns", 1e9))
            if facts.low >= _UNIX_2000 * size and facts.high <= _UNIX_2100 * size
        ),
        None,
    )
    if unit is None:
        return None
    steps = np.diff(seen)
    if np.mean(steps >= 0) < 0.99:
        return None
    if times is None:
        even = np.mean(np.abs(steps - np.median(steps)) <= 0.01 * np.abs(np.median(steps)))
        alike = even >= 0.5
    else:
        span = float((times[-1] - times[0]) / np.timedelta64(1, "ns")) / 1e9 * unit[1]
        alike = abs((facts.high - facts.low) - span) <= _SPAN * span
    if not alike and _TIME.search(_words(facts.name)) is None:
        return None
    name = facts.name
    sentence = f"{name!r} looks like Unix time in {unit[0]}"
    option = remedies.time(name) if times is None else remedies.drop(name)
    return Finding("warning", "time_like", name, sentence, option)


def _row_number(
    facts: ChannelFacts, seen: Floats, times: Times | None, remedies: Remedies
) -> Finding | None:
    del times
    if facts.missing or len(seen) < _STEPS or not bool(np.all(np.diff(seen) == 1)):
        return None
    name = facts.name
    sentence = f"{name!r} is a number of rows ({amount(seen[0])}, {amount(seen[1])}, ...)"
    return Finding("warning", "row_number", name, sentence, remedies.drop(name))


def _counter(
    facts: ChannelFacts, seen: Floats, times: Times | None, remedies: Remedies
) -> Finding | None:
    del times
    if facts.low is None or facts.low < 0 or len(seen) <= _STEPS or facts.distinct is not None:
        return None
    steps = np.diff(seen)
    falls = np.flatnonzero(steps < 0)
    if len(falls) > max(1, int(_RESETS * len(steps))):
        return None
    if np.count_nonzero(steps > 0) < _RISES * len(steps):
        return None
    before, after = seen[falls] - facts.low, seen[falls + 1] - facts.low
    if not bool(np.all(after <= _RESET_TO * before)):
        return None
    resets = f", with {len(falls)} resets" if len(falls) > 1 else ", with a reset"
    name = facts.name
    sentence = f"{name!r} looks like a counter: it only rises{resets if len(falls) else ''}"
    return Finding("warning", "counter_like", name, sentence, remedies.rate(name))


def _few(
    facts: ChannelFacts, seen: Floats, times: Times | None, remedies: Remedies
) -> Finding | None:
    del times, remedies
    if facts.distinct is None or len(seen) < 10 * _FEW:
        return None
    name = facts.name
    return Finding(
        "note", "few_values", name, f"{name!r} has only {facts.distinct} different values"
    )


def _saturated(
    facts: ChannelFacts, seen: Floats, times: Times | None, remedies: Remedies
) -> Finding | None:
    del times, remedies
    if facts.distinct is not None or len(seen) < _LOOKED_AT // 16:
        return None
    if len(np.unique(seen[:: max(1, len(seen) // _LOOKED_AT)])) < _MANY:
        return None
    name = facts.name
    for end, word in ((facts.high, "highest"), (facts.low, "lowest")):
        share = float(np.count_nonzero(seen == end) / len(seen))
        if end and share >= _AT_END:  # many things have a natural 0
            sentence = (
                f"{name!r} may be clipped: {percent(share)} of its values are its {word}, "
                f"{amount(end)}"
            )
            return Finding("note", "saturated", name, sentence)
    return None


_Suspicion = Callable[[ChannelFacts, Floats, Times | None, Remedies], Finding | None]
_SUSPICIONS: tuple[_Suspicion, ...] = (
    _empty,
    _label,
    _constant,
    _time,
    _row_number,
    _counter,
    _few,
    _saturated,
)
