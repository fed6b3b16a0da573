"""Fits what is expected of each channel by itself: `newnormal.kernels.channels` judges by it.

Faults in history are what a channel did a few times, far beyond what it does otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np

from newnormal.alarms.threshold import Peaks
from newnormal.core.rhythm import Rhythm
from newnormal.core.scaling import Scaler
from newnormal.kernels.channels import (
    HORIZONS,
    LONGEST,
    PAST,
    ChannelParams,
    errors_hidden,
    smoothed,
)
from newnormal.kernels.decision import GAP
from newnormal.models.experts import decay_of, rest_of
from newnormal.texts import between_text, counted, number_texts
from newnormal.types import Bools, Floats, Floats32, Times, time_text

MEMORY = 300.0  # half-life of a channel's level, in samples
_RIDGE = 1e-3  # of a channel's variance, in its forecast
_CLIPPED = 0.999  # quantile of distances: what is farther counts as this far in a forecast
_CLIPPED_LEFT = 0.99  # the same in what the others explain
_UNEXPLAINED = 0.05  # of a channel's variance, that no other may explain
_WITHIN = 0.995  # of the distances of a hidden channel on history, half its range
_STARTS = 200  # of these on history
_LEAST = 3.0  # root mean squares of what a forecast leaves, the least limit
_SMALLEST = 1e-3  # of history's standard deviation, likewise
# A channel with at most so many values, or one of them so often, is a flag or a command: that it
# changes is normal. Judged by itself it cost 5.8 false alarms a day on MSL.
_FEW_VALUES = 4
_OFTEN = 0.9
# Times as rare as where its tail begins, that a limit is at most: there are 30 peaks in a tail, so
# this is once in 30 histories.
_FARTHEST_TAIL = 900.0
MARGIN = 0.1  # of history's range, beyond which a value is outside of it
_ALWAYS = 0.99  # of its steps, for a channel that grows: a counter, a disk
_MOVES = 30  # of these at least


def fit_channels(
    history: Floats,
    rate: float,
    day: float,
    rhythmic: Bools | None,
    base: Floats | None,
    period: float = 0.0,
) -> ChannelParams:
    """Fit the channels on scaled history (T, C), NaN where missing.

    `rate`: false alarms a sample, of all channels together; 0: no limit. `day`: samples a day.
    `rhythmic`, `base`: the channels that have a rhythm, (C,), and its levels at each sample, (T,
    C); or None. `period`: between samples, in ns; 0 where it is not known.
    """
    C = history.shape[1]
    rhythmic = np.zeros(C, np.bool_) if rhythmic is None else rhythmic
    plain = history if base is None else np.where(rhythmic, history - base, history)
    rest = without_levels(plain)
    lags = forecast_lags(rest)
    half = len(rest) // 2
    # Each half is forecast by the other's lags: what they leave of samples they never saw.
    left = np.concatenate(
        [
            forecast_errors(rest, forecast_lags(rest[half:]))[:half],
            forecast_errors(rest, forecast_lags(rest[:half]))[half:],
        ]
    )
    flags = np.array([is_flag(history[:, c]) for c in range(C)])
    others = _others(left, ~flags)
    widths = _widths(rest, left, lags, others)
    kinds = left, rest, smoothed(rest, widths[:, -1].copy())
    tails = np.array([[_tail(part[PAST:, c]) for c in range(C)] for part in kinds])
    limits = limits_of(tails, flags, rate)
    lows, highs = _range_of(history, history)
    low_levels, high_levels = _range_of(np.where(flags, history, plain - rest), history)
    return ChannelParams(
        lags=lags,
        others=others,
        limits=limits[0],
        slow_limits=limits[1],
        lasting_limits=limits[2],
        tails=tails,
        widths=widths,
        lows=lows,
        highs=highs,
        low_levels=low_levels,
        high_levels=high_levels,
        steps=_steps(history),
        rhythmic=(rhythmic & ~flags).astype(
            np.int64
        ),  # what is expected of a flag is its last value
        flags=flags.astype(np.int64),
        keep=decay_of(MEMORY),
        day=day,
        period=period,
    )


def _range_of(values: Floats, history: Floats) -> tuple[Floats, Floats]:
    """Return the least and the largest values (C,), with a margin; infinity where history grows."""
    lows, highs = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
    margins, grow = MARGIN * (highs - lows), np.array([growth(column) for column in history.T])
    return np.where(grow < 0, -np.inf, lows - margins), np.where(grow > 0, np.inf, highs + margins)


def without_levels(plain: Floats) -> Floats:
    """Return values (T, C) minus the level that each channel had before them."""
    filled = np.where(np.isnan(plain), 0.0, plain)
    begin, start = plain[: max(PAST, len(plain) // 20)], filled.mean(axis=0)
    known = ~np.isnan(begin).all(axis=0)
    start[known] = np.nanmedian(begin[:, known], axis=0)
    after = plain - start - rest_of(plain - start, MEMORY) + start  # the level after each sample
    return np.asarray(plain - np.concatenate([start[None], after[:-1]]))


def forecast_lags(rest: Floats) -> Floats:
    """Return the forecast of each channel from its last PAST values, by Yule and Walker.

    From these equations no forecast grows with its horizon.
    """
    lags = np.zeros((rest.shape[1], PAST))
    if len(rest) <= 2 * PAST:
        return lags
    known = np.where(np.isnan(rest), 0.0, rest)
    most = np.quantile(np.abs(known), _CLIPPED, axis=0)
    known = known.clip(-most, most)
    products = np.array(
        [(known[k:] * known[: len(known) - k]).sum(axis=0) for k in range(PAST + 1)]
    )  # sums: of means no such matrix need be positive, and forecasts could grow
    apart = np.abs(np.subtract.outer(np.arange(PAST), np.arange(PAST)))
    for c in np.flatnonzero(products[0] > 0).tolist():
        matrix = products[apart, c] + _RIDGE * products[0, c] * np.eye(PAST)
        lags[c] = np.linalg.solve(matrix, products[1:, c])
    return lags


def forecast_errors(rest: Floats, lags: Floats) -> Floats:
    """Return what forecasts leave of values (T, C); NaN where missing."""
    known = np.where(np.isnan(rest), 0.0, rest)
    left = rest.copy()
    for k in range(1, PAST + 1):
        left[k:] -= lags[:, k - 1] * known[:-k]
    left[:PAST] = 0.0
    return left


def _others(left: Floats, used: Bools) -> Floats32:
    """Return the regression of what is left of each channel on that of the others, (C, C)."""
    known = np.where(np.isnan(left), 0.0, left)
    most = np.quantile(np.abs(known), _CLIPPED_LEFT, axis=0)
    known = known.clip(-most, most)
    covariance = known.T @ known / len(known)
    size = np.sqrt(np.maximum(np.diag(covariance), 1e-12))
    correlation = covariance / np.outer(size, size)
    inverse = np.linalg.inv(correlation + _UNEXPLAINED * np.eye(len(size)))
    others = -inverse / np.diag(inverse)[:, None] * np.outer(size, 1 / size)
    np.fill_diagonal(others, 0.0)
    others = np.where(used, others, 0.0).clip(-1e6, 1e6)
    return np.ascontiguousarray(others, dtype=np.float32)


def limits_of(tails: Floats, flags: Bools, rate: float) -> Floats:
    """Return the limits of each channel, (3, C), given the rate of all together; else infinity."""
    limits = np.full(tails.shape[:2], np.inf)
    if rate > 0:
        # A channel that is noisy beyond two of its limits is so beyond all three.
        own = rate / max(2 * int((~flags).sum()), 1)
        for kind, c in product(range(len(tails)), np.flatnonzero(~flags).tolist()):
            start, often, scale, shape, least = tails[kind, c].tolist()
            times = min(often / own, _FARTHEST_TAIL)
            grown = math.log(times) if shape == 0 else (math.pow(times, shape) - 1) / shape
            limits[kind, c] = max(start + scale * grown, least)
    return limits


def _tail(left: Floats) -> list[float]:
    """Return the tail of what a forecast leaves of a channel: see `ChannelParams.tails`."""
    distances = np.abs(left[~np.isnan(left)])
    if len(distances) == 0:
        return [0.0, 1.0, 1.0, 0.0, 1.0]
    peaks = Peaks.of(distances, GAP)
    least = max(_LEAST * float(np.sqrt((distances**2).mean())), _SMALLEST)
    start = peaks.location + peaks.spread * peaks.start
    return [start, peaks.rate, peaks.spread * peaks.scale, peaks.shape, least]


def _widths(rest: Floats, left: Floats, lags: Floats, others: Floats32) -> Floats:
    """Return half the range of a hidden channel, by how long it has been hidden."""
    horizon = min(LONGEST, max(1, len(rest) // 4))
    widths = np.zeros((rest.shape[1], HORIZONS))
    if len(rest) <= PAST + horizon + 1:
        widths[:] = np.nanmax(np.abs(rest), axis=0)[:, None]
        return widths
    starts = np.linspace(PAST + 1, len(rest) - horizon - 1, _STARTS).astype(np.int64)
    errors = errors_hidden(rest, left, lags, others, starts, horizon)
    begin = 0
    for at in range(HORIZONS):
        part = errors[:, :, begin : 1 << at].reshape(len(widths), -1)
        if begin < horizon:
            known = ~np.isnan(part).all(axis=1)
            widths[known, at] = np.nanquantile(part[known], _WITHIN, axis=1)
        begin = 1 << at
    return np.maximum.accumulate(widths, axis=1)


def _steps(history: Floats) -> Floats:
    """Return the mean absolute step of each channel; a small number where it never moves."""
    moves = np.abs(np.diff(history, axis=0))
    known = ~np.isnan(moves)
    count = np.maximum(known.sum(axis=0), 1)
    return np.asarray(np.maximum(np.where(known, moves, 0).sum(axis=0) / count, 1e-9))


def growth(values: Floats) -> int:
    """Return 1 for a channel that always grows, -1 for one that always falls, else 0."""
    known = values[~np.isnan(values)]
    for sign in (1, -1):
        steps = sign * np.diff(known)
        steps = steps[steps != 0]
        if len(steps) >= _MOVES and (steps > 0).mean() >= _ALWAYS:
            return sign
    return 0


def is_flag(values: Floats) -> bool:
    """Whether a channel is a flag or a command: few values, or nearly always the same."""
    _, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    return bool(len(counts) <= _FEW_VALUES or counts.max() >= _OFTEN * counts.sum())


_BLOCK = 10  # samples, of which the farthest counts
_TAIL, _LEAST_BLOCKS = (
    4,
    25,
)  # one block in so many is of the tail; with fewer, nothing is named
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
    if len(plain) < _BLOCK * _TAIL * _LEAST_BLOCKS:
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
