"""What each channel is like: empty, constant, a label, a counter, a time, another over again."""

import math
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from newnormal.checks.facts import ChannelFacts
from newnormal.checks.findings import Finding, Level, Remedies
from newnormal.texts import between_text, number_text, number_texts, share_text
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
_ROWS = 2_000  # that show which pairs to look at
_LEAST = 20  # values that both must have
_ALIKE = 1 - 1e-6  # the correlation of a pair to look at
_LINEAR = 1e-3  # standard deviations that a value may be off a straight line, at most


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


class _Column(NamedTuple):
    """A channel, its values that are there, the times of all samples, and what to do."""

    facts: ChannelFacts
    seen: Floats
    times: Times | None
    remedies: Remedies

    def finding(
        self, level: Level, code: str, text: str, remedy: Callable[[str], str] | None = None
    ) -> Finding:
        name = self.facts.name
        option = None if remedy is None else remedy(name)
        return Finding(level, code, name, f"{name!r} {text}", option)


def channel_finding(
    facts: ChannelFacts, values: Floats, times: Times | None, remedies: Remedies
) -> Finding | None:
    """Return what is suspicious about a channel: the first that holds; None if nothing is."""
    column = _Column(facts, values[~np.isnan(values)], times, remedies)
    findings = (suspicion(column) for suspicion in _SUSPICIONS)
    return next((finding for finding in findings if finding is not None), None)


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


def _empty(column: _Column) -> Finding | None:
    seen, drop = column.seen, column.remedies.drop
    samples = column.facts.missing + len(seen)
    if len(seen) == 0:
        return column.finding("error", "empty", "has no values", drop)
    if len(seen) < _NEAR_EMPTY * samples:
        text = f"has a value in only {share_text(len(seen) / samples)} of the samples"
        return column.finding("warning", "near_empty", text, drop)
    return None


def _label(column: _Column) -> Finding | None:
    facts, seen, remedies = column.facts, column.seen, column.remedies
    if facts.distinct is None or facts.low is None or facts.high is None:
        return None
    if not float(facts.low).is_integer() or not bool(np.all(seen == np.rint(seen))):
        return None
    is_named = named_like_a_label(facts.name)
    binary = facts.low >= 0 and facts.high <= 1
    ones = float(np.count_nonzero(seen == 1) / len(seen))
    if binary and is_named:
        which = f"0 or 1, {share_text(ones)} of it 1"
        if facts.distinct == 1:
            which = f"always {number_text(facts.low)} here"
        text = f"looks like a label ({which})"
        return column.finding("warning", "label_like", text, remedies.label)
    signs = facts.distinct <= 2 and {facts.low, facts.high} <= {-1.0, 0.0, 1.0}
    is_class = _CLASS.search(_words(facts.name)) is not None
    classes = facts.low in (0, 1) and facts.high <= 20 and is_class
    if is_named and (signs or classes):
        reach = between_text(number_texts(facts.low, facts.high))
        which = f"{facts.distinct} whole numbers, {reach}"
        text = f"looks like a label ({which})"
        return column.finding("warning", "label_like", text, remedies.drop)
    if binary and facts.distinct == 2 and ones <= _RARE:
        text = f"may be a label (0 or 1, {share_text(ones)} of it 1)"
        return column.finding("note", "label_like", text, remedies.label)
    return None


def _constant(column: _Column) -> Finding | None:
    if column.facts.distinct != 1 or len(column.seen) < 2:
        return None
    text = f"is constant, {number_text(float(column.seen[0]))}: any other value will be a change"
    return column.finding("note", "constant", text, column.remedies.drop)


def _time(column: _Column) -> Finding | None:
    facts, seen, times = column.facts, column.seen, column.times
    if facts.low is None or facts.high is None or len(seen) < _STEPS:
        return None
    units = [
        (name, size)
        for name, size in (("s", 1.0), ("ms", 1e3), ("us", 1e6), ("ns", 1e9))
        if facts.low >= _UNIX_2000 * size and facts.high <= _UNIX_2100 * size
    ]
    if not units:
        return None
    unit, size = units[0]
    steps = np.diff(seen)
    if np.mean(steps >= 0) < 0.99:
        return None
    if times is None:
        even = np.mean(np.abs(steps - np.median(steps)) <= 0.01 * np.abs(np.median(steps)))
        alike = even >= 0.5
    else:
        span = float((times[-1] - times[0]) / np.timedelta64(1, "ns")) / 1e9 * size
        alike = abs((facts.high - facts.low) - span) <= _SPAN * span
    if not alike and _TIME.search(_words(facts.name)) is None:
        return None
    remedy = column.remedies.time if times is None else column.remedies.drop
    return column.finding("warning", "time_like", f"looks like Unix time in {unit}", remedy)


def _row_number(column: _Column) -> Finding | None:
    seen = column.seen
    if column.facts.missing or len(seen) < _STEPS or not bool(np.all(np.diff(seen) == 1)):
        return None
    text = f"is a number of rows ({', '.join(number_texts(*seen[:2]))}, ...)"
    return column.finding("warning", "row_number", text, column.remedies.drop)


def _counter(column: _Column) -> Finding | None:
    facts, seen = column.facts, column.seen
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
    text = f"looks like a counter: it only rises{resets if len(falls) else ''}"
    return column.finding("warning", "counter_like", text, column.remedies.rate)


def _few(column: _Column) -> Finding | None:
    distinct = column.facts.distinct
    if distinct is None or len(column.seen) < 10 * _FEW:
        return None
    return column.finding("note", "few_values", f"has only {distinct} different values")


def _saturated(column: _Column) -> Finding | None:
    facts, seen = column.facts, column.seen
    if facts.distinct is not None or len(seen) < _LOOKED_AT // 16:
        return None
    if len(np.unique(seen[:: max(1, len(seen) // _LOOKED_AT)])) < _MANY:
        return None
    for end, word in ((facts.high, "highest"), (facts.low, "lowest")):
        share = float(np.count_nonzero(seen == end) / len(seen))
        if end and share >= _AT_END:  # many things have a natural 0
            text = f"may be clipped: {share_text(share)} of its values are its {word}, "
            text += number_text(end)
            return column.finding("note", "saturated", text)
    return None


_SUSPICIONS = (_empty, _label, _constant, _time, _row_number, _counter, _few, _saturated)


def twin_findings(
    values: Floats, names: Sequence[str], channels: Sequence[int], remedies: Remedies
) -> list[Finding]:
    """Return which of some channels have the values of an earlier one, or lie on a line with it.

    >>> load = np.random.default_rng(0).normal(size=100)
    >>> values = np.stack([load, 1.8 * load + 32, load**2], axis=1)
    >>> [each.line for each in twin_findings(values, "abc", range(3), Remedies(shell=True))]
    ["'b' is 1.8 times 'a' plus 32: --drop b"]
    """
    if len(channels) < 2 or len(values) < _LEAST:
        return []
    some = values[:: max(1, len(values) // _ROWS), list(channels)]
    seen = ~np.isnan(some).all(axis=0)
    some, channels = some[:, seen], np.asarray(channels)[seen].tolist()
    with np.errstate(all="ignore"):
        mean, size = np.nanmean(some, axis=0), np.nanstd(some, axis=0)
        scaled = np.nan_to_num((some - mean) / np.where(size > 0, size, 1), posinf=0, neginf=0)
    correlation = np.abs(scaled.T @ scaled)
    lengths = np.sqrt(np.maximum(np.diag(correlation), 1e-300))
    pairs = np.argwhere(np.triu(correlation >= _ALIKE * np.outer(lengths, lengths), 1))
    findings: list[Finding] = []
    taken: set[int] = set()
    for first, second in pairs.tolist():
        if first in taken or second in taken:
            continue
        text = _related(values[:, channels[first]], values[:, channels[second]])
        if text is None:
            continue
        taken.add(second)
        one, other = names[channels[first]], names[channels[second]]
        sentence = f"{other!r} {text.format(one=repr(one))}"
        findings.append(Finding("note", "duplicate_of", other, sentence, remedies.drop(other)))
    return findings


def _related(one: Floats, other: Floats) -> str | None:
    """Return how the second column follows from the first; None if it does not."""
    if np.array_equal(one, other, equal_nan=True):
        return "has the values of {one}"
    both = ~(np.isnan(one) | np.isnan(other))
    if both.sum() < _LEAST or both.sum() < max((~np.isnan(one)).sum(), (~np.isnan(other)).sum()):
        return None
    x, y = one[both], other[both]
    with np.errstate(all="ignore"):
        size = x.std()
        slope = float(((x - x.mean()) * (y - y.mean())).mean() / size**2) if size > 0 else np.nan
        offset = float(y.mean() - slope * x.mean())
        off = np.abs(y - offset - slope * x).max()
        linear = bool(np.isfinite(slope) and off <= _LINEAR * y.std())
    if not linear:
        return None
    sign, rest = ("plus", offset) if offset >= 0 else ("minus", -offset)
    tail = f" {sign} {number_text(rest)}" if rest > _LINEAR * y.std() else ""
    return f"is {number_text(slope)} times {{one}}{tail}"
