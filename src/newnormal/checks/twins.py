"""Channels that are another channel over again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from newnormal.checks.findings import Finding, Remedies
from newnormal.types import Floats

_ROWS = 2_000  # that show which pairs to look at
_LEAST = 20  # values that both must have
_ALIKE = 1 - 1e-6  # the correlation of a pair to look at
_LINEAR = 1e-3  # standard deviations that a value may be off a straight line, at most


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
    tail = f" {sign} {rest:.3g}" if rest > _LINEAR * y.std() else ""
    return f"is {slope:.3g} times {{one}}{tail}"
