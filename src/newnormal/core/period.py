"""The period of a series without times, by autocorrelation."""

from __future__ import annotations

import numpy as np

from newnormal.types import Floats

# Samples. What repeats sooner is within the windows of other members.
SHORTEST = 48
_SOONEST = 8  # the shortest cycle
TURNS = 3  # periods that the series must have
# A phase by number runs away from the stream unless the period is exact. Days and weeks are, at the
# usual times between samples: 30, 15, 10, 5 min and 1 min; 1 h to 5 min for weeks. Of 14 other
# periods found in benchmark streams (SMAP, SKAB, UCR), 8 explained nothing of the live part.
CALENDAR = (48, 96, 144, 288, 1440, 168, 336, 672, 1008, 2016)
# Relative distance at which a period is one of these: the error of a daily sine with noise, found
# over few periods, is up to 0.014 divided by their number.
_NEAR, _NEAR_ONCE = 0.002, 0.015
_MEASURED = 7  # periods over which any other must be a whole number, to one sample
_OTHER = 96  # samples that any other must have
CORRELATED = 0.5  # autocorrelation at the period, at least
_NEARLY = 0.9  # of the highest peak: the shortest lag as high as this is the period
_FADED = 0.5  # of the first peak: multiples of the period are measured while as high as this
_CLIP = 3.0  # standard deviations: spikes do not count


def find_period(scaled: Floats) -> int | None:
    """Return the period of a series (T, C) in samples, or None if there is no plain one.

    It is a lag at which the channel that repeats best does so: a day or a week at a usual time
    between samples, or else a whole number, measured over seven periods.

    >>> wave = np.sin(2 * np.pi * np.arange(2000) / 125)[:, None]
    >>> find_period(wave), find_period(np.random.default_rng(0).normal(size=(2000, 1)))
    (125, None)
    """
    longest = len(scaled) // TURNS
    if longest < SHORTEST:
        return None
    best, period = CORRELATED, None
    for column in scaled.T:
        correlation = _autocorrelation(column)
        lag = _first_peak(correlation[: longest + 2])
        if lag and correlation[lag] > best:
            best, period = float(correlation[lag]), _exact(*_refined(correlation, lag))
    return period


def find_cycle(scaled: Floats, longest: int) -> int | None:
    """Return the cycle of all channels of a series (T, C), in samples, or None if there is none.

    It is the shortest lag at which their mean autocorrelation has a plain peak.

    >>> wave = np.sin(2 * np.pi * np.arange(2000) / 60)[:, None]
    >>> find_cycle(wave, 100), find_cycle(wave, 50)
    (60, None)
    """
    seen = [column[~np.isnan(column)] for column in scaled.T]
    moving = [c for c, values in enumerate(seen) if len(values) and values.std() > 0]
    if not moving or longest >= len(scaled) // TURNS:
        return None
    mean = np.mean([_autocorrelation(scaled[:, c]) for c in moving], axis=0)
    return _first_peak(mean[: longest + 2], _SOONEST) or None


def _exact(period: float, turns: int) -> int | None:
    """Return the period as a whole number, or None if it may be none."""
    nearest = min(CALENDAR, key=lambda length: abs(period - length))
    if abs(period - nearest) <= (_NEAR + _NEAR_ONCE / turns) * nearest:
        return nearest
    whole = round(period)
    exact = turns >= _MEASURED and abs(period - whole) * turns <= 1
    return whole if exact and whole >= _OTHER else None


def _autocorrelation(values: Floats) -> Floats:
    """Return the autocorrelation at lags up to two thirds of the series."""
    T = len(values)
    present = ~np.isnan(values)
    if not present.any():
        return np.zeros(2 * T // 3 + 1)
    centre, size = np.median(values[present]), np.std(values[present])
    clipped = np.where(present, np.clip(values - centre, -_CLIP * size, _CLIP * size), 0.0)
    clipped = np.where(present, clipped - clipped[present].mean(), 0.0)
    length = 2 ** int(np.ceil(np.log2(2 * T)))
    spectrum = np.abs(np.fft.rfft(clipped, length)) ** 2
    lags = 2 * T // 3 + 1
    raw = np.fft.irfft(spectrum, length)[:lags] / (T - np.arange(lags))
    return raw / raw[0] if raw[0] > 0 else np.zeros(lags)


def _first_peak(correlation: Floats, shortest: int = SHORTEST) -> int:
    """Return the shortest lag of a peak nearly as high as the highest; 0 if there is none."""
    below = np.flatnonzero(correlation < 0)
    first = max(shortest, int(below[0])) if len(below) else len(correlation)
    middle = correlation[1:-1]
    peaks = 1 + np.flatnonzero((middle >= correlation[:-2]) & (middle > correlation[2:]))
    peaks = peaks[peaks >= first]
    if not len(peaks) or correlation[peaks].max() < CORRELATED:
        return 0
    shoulder = int(peaks[correlation[peaks] >= _NEARLY * correlation[peaks].max()][0])
    until = shoulder + shoulder // 5  # noise has peaks of its own before the top
    return shoulder + int(correlation[shoulder : until + 1].argmax())


def _refined(correlation: Floats, lag: int) -> tuple[float, int]:
    """Return the period from the peak at its farthest multiple, and which multiple that is."""
    period, turns = _top(correlation, lag, lag), 1
    while True:
        guess = round(period * (turns + 1))
        if guess + lag // 8 >= len(correlation) or correlation[guess] < _FADED * correlation[lag]:
            return period, turns
        turns += 1
        period = _top(correlation, guess, lag) / turns


def _top(correlation: Floats, guess: int, lag: int) -> float:
    """Return where the peak near `guess` is, from a parabola through an eighth to either side."""
    reach = lag // 8
    near = np.arange(max(guess - reach, 0), min(guess + reach + 1, len(correlation)))
    curve, slope, _ = np.polyfit(near - guess, correlation[near], 2)
    return guess + float(np.clip(-slope / (2 * curve), -reach, reach)) if curve < 0 else guess
