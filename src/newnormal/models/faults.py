"""Faults in history: what a channel did a few times, far beyond what it does otherwise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from newnormal.core.rhythm import Rhythm
from newnormal.core.scaling import Scaler
from newnormal.kernels.channels import PAST
from newnormal.models.channels import (
    forecast_errors,
    forecast_lags,
    growth,
    is_flag,
    without_levels,
)
from newnormal.texts import between_text, counted, number_texts
from newnormal.types import Floats, Times, time_text

_BLOCK = 10  # samples, of which the farthest counts
_TAIL, _LEAST = 4, 25  # one block in so many is of the tail; with fewer blocks nothing is named
_STEPS = 0.1  # of where a tail begins, its scale at least: for values in steps
# Histories without faults, in which one value is this far out: of 200 faults of 4 to 9 standard
# deviations in 40 generated histories 186 were named, and nothing without any.
_HISTORIES = 10
_MOST = 5  # faults of one channel, and in a sentence; what comes more often belongs to the channel
_APART = 60  # samples between two faults


def history_faults(
    history: Floats,
    scaler: Scaler,
    plain: Floats,
    channels: Sequence[str],
    rhythm: Rhythm | None,
    times: Times | None,
) -> str:
    """Return the faults of history (T, C), `plain` where scaled, in one sentence; "" without any.

    A value is compared with the forecast from its channel's past, and with its slow level. Limits
    are from the distances between the farthest values in order, the i-th one times i, which are
    exponential (Rényi): a few faults do not move their median.
    """
    if len(plain) < _BLOCK * _TAIL * _LEAST:
        return ""
    if rhythm is not None:
        base = rhythm.levels_at(rhythm.phases(times, -len(plain), len(plain)))
        plain = np.where(rhythm.explained, plain - base, plain)
    rest = without_levels(plain)
    parts = np.nan_to_num(np.stack([forecast_errors(rest, forecast_lags(rest)), rest]))
    for k in range(1, PAST + 1):  # no forecast where the past is missing
        parts[0, k:][np.isnan(rest[:-k])] = 0
    limits = _limits(np.abs(parts))
    ratios = np.abs(parts) / limits[:, None]
    faults: dict[int, tuple[float, str, int]] = {}  # by their first sample
    for c in np.flatnonzero((ratios >= 1).any(axis=(0, 1))).tolist():
        beyond = np.flatnonzero((ratios[:, :, c] >= 1).any(axis=0))
        groups = np.split(beyond, np.flatnonzero(np.diff(beyond) > _APART) + 1)
        if len(groups) > _MOST or is_flag(history[:, c]) or growth(history[:, c]):
            continue
        for own in groups:
            at, ratio = int(own[0]), float(ratios[:, own, c].max())
            kind = int(ratios[:, at, c].argmax())
            away, limit = parts[kind, at, c], limits[kind, c]
            values = history[at, c] - np.array([0, away + limit, away - limit]) * scaler.scale[c]
            observed, *around = number_texts(*values.tolist())
            when = f"sample {at}" if times is None else f"sample {at} ({time_text(times[at])})"
            text = f"{channels[c]!r} {observed} at {when}, expected {between_text(around)}"
            same = next((first for first in faults if abs(first - at) <= _APART), at)
            before, known, more = faults.pop(same, (0.0, "", -1))
            faults[same] = max((before, known, more + 1), (ratio, text, more + 1))
    named = [
        text + (f" and in {counted(more, 'other channel')}" if more else "")
        for _, text, more in sorted(faults.values(), reverse=True)
    ]
    named[_MOST:] = [f"and {len(named) - _MOST} more"] if len(named) > _MOST else []
    return f"{counted(len(faults), 'likely fault')} in history: {'; '.join(named)}" if named else ""


def _limits(distances: Floats) -> Floats:
    """Return how far each channel's distances (K, T, C) go without a fault, (K, C)."""
    K, T, C = distances.shape
    blocks = T // _BLOCK
    tail = blocks // _TAIL
    tops = distances[:, : blocks * _BLOCK].reshape(K, blocks, _BLOCK, C).max(axis=2)
    tops = np.sort(tops, axis=1)[:, ::-1][:, : tail + 1]
    between = np.arange(1, tail + 1)[:, None] * -np.diff(tops, axis=1)
    scale = np.maximum(np.median(between, axis=1) / np.log(2), _STEPS * tops[:, -1])
    return np.asarray(tops[:, -1] + scale * np.log(tail * K * C * _HISTORIES) + 1e-3)
