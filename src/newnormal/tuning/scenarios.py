"""Scenarios: held-out history with planted faults, and with changes that are no faults.

Nothing here depends on the stream to come or on any label: what is planted is known.
"""

import numpy as np

from newnormal.core.scaling import deviations
from newnormal.types import Bools, Floats, Ints

_LENGTHS = (1, 1, 3, 10, 30, 100)  # samples a fault lasts
_SHARE = 0.05  # of the samples are made faulty
_APART = 20  # samples between faults
_SPREADS = (0.05, 0.2, 0.5)  # share of the channels a fault touches
_KINDS = ("level", "noise", "stuck", "elsewhere", "drift", "lively")


def scenarios(held_out: Floats, rounds: int, seed: int) -> list[tuple[Floats, Bools]]:
    """Return scaled held-out history (T, C), changed and with faults, and where those are."""
    rng = np.random.default_rng(seed)
    return [plant_faults(change(held_out, rng), rng) for _ in range(rounds)]


def change(series: Floats, rng: np.random.Generator) -> Floats:
    """Return the series with a new normal from somewhere on: level, scale or dynamics."""
    series = series.copy()
    T, C = series.shape
    since = int(T * rng.uniform(0.2, 0.5))
    part = np.asarray(rng.random(C) < 0.5)
    count = int(part.sum())
    after = series[since:, part]
    kind = rng.integers(3)
    if kind == 0:
        after = after + rng.normal(size=count)
    elif kind == 1:
        middle = _mean(series[:, part])
        after = middle + (after - middle) * rng.uniform(0.6, 1.6, size=count)
    else:  # what was quick becomes sluggish
        keep = rng.uniform(0.0, 0.6)
        for t in range(1, len(after)):
            slow = keep * after[t - 1] + (1 - keep) * after[t]
            after[t] = np.where(np.isnan(slow), after[t], slow)
    series[since:, part] = after
    return series


def plant_faults(series: Floats, rng: np.random.Generator) -> tuple[Floats, Bools]:
    """Return the series with faults of many kinds and lengths, and where they are.

    What is missing stays missing, and nothing else goes missing.
    """
    series = series.copy()
    T, C = series.shape
    faulty: Bools = np.zeros(T, dtype=np.bool_)
    size = deviations(series)
    moving = np.flatnonzero(size > 0)
    if len(moving) == 0:
        moving, size = np.arange(C), np.ones(C)
    tries = 0
    while faulty.sum() < _SHARE * T and tries < T:
        tries += 1
        length = min(int(rng.choice(_LENGTHS)), max(T // 10, 1))
        at = int(rng.integers(0, T - length + 1))
        if faulty[max(0, at - _APART) : at + length + _APART].any():
            continue
        count = max(1, rng.binomial(len(moving), rng.choice(_SPREADS)))
        channels = rng.choice(moving, count, replace=False)
        made = _fault(series, at, length, channels, size[channels], rng)
        if made is not None:
            series[at : at + length, channels] = made
            faulty[at : at + length] = True
    return series, faulty


def _fault(
    series: Floats, at: int, length: int, channels: Ints, size: Floats, rng: np.random.Generator
) -> Floats | None:
    """Return one fault in place of what is there, or None where it would show nothing."""
    there = series[at : at + length][:, channels]
    amount = rng.uniform(1, 4) * size * rng.choice([-1, 1], len(channels))
    kinds = ("level", "noise") if length < 10 else _KINDS
    match rng.choice(kinds):
        case "noise":
            made = there + 0.7 * amount * rng.normal(size=there.shape)
        case "stuck":
            made = np.repeat(there[:1], length, axis=0)
        case "elsewhere":
            other = int(rng.integers(0, len(series) - length + 1))
            made = series[other : other + length][:, channels]
        case "drift":
            made = there + amount * np.linspace(0, 1, length + 1)[1:, None]
        case "lively":
            middle = _mean(there)
            made = middle + (there - middle) * rng.choice([0.2, 3.0])
        case _:
            made = there + amount
    made = np.where(np.isnan(there) | np.isnan(made), there, made)
    return None if np.array_equal(made, there, equal_nan=True) else made


def _mean(part: Floats) -> Floats:
    """Return each channel's mean, 0 where nothing was observed."""
    there = ~np.isnan(part)
    return np.asarray(np.where(there, part, 0).sum(axis=0) / np.maximum(there.sum(axis=0), 1))
