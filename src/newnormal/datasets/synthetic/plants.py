"""A synthetic plant that is retuned twice: the demo's data; and what others are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from newnormal.datasets.base import Dataset
from newnormal.errors import ParameterError
from newnormal.types import Floats, Ints

_MINUTE = np.timedelta64(1, "m")
DAY = 1440  # samples
_CYCLE = 60  # samples: the machine's cycle before it is sped up
_ROOM = 64  # samples an anomaly needs, so that none touches another


class Channel(NamedTuple):
    """base + load_gain · load + cycle_gain · sin(phase - lag) + noise · ε, and what changes."""

    name: str
    base: float
    load_gain: float
    cycle_gain: float
    lag: float
    noise: float
    level: float = 0.0  # of the level shift, in `level_shift` standard deviations
    regain: float = 1.0  # factor on `cycle_gain` after the change of dynamics


CHANNELS = (
    Channel("temperature", 65.0, 4.0, 1.6, 1.2, 0.50, 1.0, 0.5),
    Channel("pressure", 6.0, 0.5, 0.25, 0.6, 0.06, -0.8, 1.0),
    Channel("flow", 120.0, 14.0, 5.0, 0.0, 1.8, 0.0, 1.6),
    Channel("power", 80.0, 10.0, 5.0, 0.3, 1.5, 1.0, 1.0),
    Channel("vibration", 2.0, 0.3, 0.25, 2.0, 0.06, 0.6, 1.6),
    Channel("level", 50.0, -4.0, 4.0, 2.5, 0.80, -0.5, 1.0),
)


def plant(
    seed: int = 0,
    *,
    history: int = 7 * DAY,
    live: int = 14 * DAY,
    anomalies: int = 48,
    level_shift: float = 3.0,
    speed_up: float = 1.5,
) -> Dataset:
    """Return a plant of six channels, one sample a minute, whose normal changes twice.

    A shared load (a day's rhythm and slow wandering) and a machine's cycle of an hour drive all
    channels. A fifth into the live part the levels of most channels move permanently; at 55 % the
    cycle gets faster and couples differently. Neither is an anomaly: `Dataset.shifts` has both.
    Labelled anomalies are spread over the whole live part, so most come after the first shift:
    spikes, sensors stuck at a wrong reading, sensors that stop following the others, and bursts
    of noise on three channels, in equal numbers.

    Parameters
    ----------
    seed
        Same seed, same data.
    history
        Samples of train; the default is a week.
    live
        Samples of test, at least 64 an anomaly; the default is two weeks.
    anomalies
        How many anomalies there are.
    level_shift
        How far levels move, in standard deviations of the history of each channel. At 0 the
        levels stay, and the first of `shifts` marks no change.
    speed_up
        How many times as fast the machine's cycle gets.

    Examples
    --------
    >>> data = plant(seed=0)
    >>> data
    Dataset('plant', 6 channels, 10080 train and 20160 test samples, 921 anomalous)
    >>> data.channels
    ('temperature', 'pressure', 'flow', 'power', 'vibration', 'level')
    >>> data.shifts
    (4032, 11088)
    >>> print(data.test_times[0], data.period)
    2024-01-08T00:00 1 minutes
    """
    if history < 2:
        raise ParameterError(f"history: expected at least 2 samples, found {history}")
    if anomalies < 1:
        raise ParameterError(f"anomalies: expected at least 1, found {anomalies}")
    if live < _ROOM * anomalies:
        raise ParameterError(
            f"live: expected at least {_ROOM} samples for each of {anomalies} anomalies, "
            f"found {live}",
            hint=f"pass live={_ROOM * anomalies} or more, or fewer anomalies",
        )
    rng = np.random.default_rng(seed)
    shifts = (live // 5, live * 55 // 100)
    clean = operation(history + live, rng, sped_up=(history + shifts[1], speed_up))
    centre = np.tile([channel.base for channel in CHANNELS], (history + live, 1))
    spread = clean[:history].std(axis=0)
    moved = level_shift * spread * np.array([channel.level for channel in CHANNELS])
    clean[history + shifts[0] :] += moved
    centre[history + shifts[0] :] += moved
    test = clean[history:]
    labels = place_faults(test, centre[history:], spread, anomalies, rng)
    times = np.datetime64("2024-01-01T00:00", "m") + np.arange(history + live) * _MINUTE
    return Dataset(
        name="plant",
        train=clean[:history],
        test=test,
        labels=labels,
        channels=tuple(channel.name for channel in CHANNELS),
        period=_MINUTE,
        train_times=times[:history],
        test_times=times[history:],
        shifts=shifts,
    )


def operation(
    count: int,
    rng: np.random.Generator,
    channels: Sequence[Channel] = CHANNELS,
    sped_up: tuple[int, float] | None = None,
) -> Floats:
    """Return `count` minutes without level shift or anomalies, (T, C).

    `sped_up` is the minute from which on the cycle is faster and couples differently, and by what
    factor.
    """
    minute = np.arange(count)
    since, speed_up = (count, 1.0) if sped_up is None else sped_up
    changed = minute >= since
    day = 2 * np.pi * minute / DAY
    load = np.sin(day - 2.0) + 0.3 * np.sin(2 * day) + 0.25 * _wander(count, rng)
    speed = np.where(changed, speed_up, 1.0)
    phase = rng.uniform(0, 2 * np.pi) + np.cumsum(2 * np.pi / _CYCLE * speed)
    values = np.empty((count, len(channels)))
    for column, channel in zip(values.T, channels, strict=True):
        gain = channel.cycle_gain * np.where(changed, channel.regain, 1.0)
        column[:] = (
            channel.base
            + channel.load_gain * load
            + gain * np.sin(phase - channel.lag)
            + channel.noise * rng.standard_normal(count)
        )
    return values


def place_faults(
    values: Floats, centre: Floats, spread: Floats, count: int, rng: np.random.Generator
) -> Ints:
    """Put anomalies of every kind into samples, spread evenly; return their labels."""
    labels = np.zeros(len(values), dtype=np.int64)
    for start, kind in _schedule(len(values), count, rng):
        rows = slice(start, start + int(rng.integers(kind.shortest, kind.longest + 1)))
        labels[rows] = 1
        for channel in rng.permutation(values.shape[1])[: kind.channels]:
            values[rows, channel] = kind.replace(
                rng, values[rows, channel], centre[rows, channel], spread[channel]
            )
    return labels


def _wander(count: int, rng: np.random.Generator) -> Floats:
    """Return noise of unit variance that remembers about an hour."""
    memory = np.exp(-np.arange(4 * _CYCLE) / _CYCLE)
    memory /= np.sqrt((memory**2).sum())
    return np.convolve(rng.standard_normal(count + len(memory) - 1), memory, mode="valid")


def _sign(rng: np.random.Generator) -> float:
    return float(rng.choice((-1.0, 1.0)))


# Each takes the samples of one channel, its levels at rest and its spread.
_Replace = Callable[[np.random.Generator, Floats, Floats, float], Floats]


def _spike(rng: np.random.Generator, values: Floats, _: Floats, spread: float) -> Floats:
    return values + _sign(rng) * rng.uniform(6, 9) * spread


def _stuck(rng: np.random.Generator, values: Floats, _: Floats, spread: float) -> Floats:
    return np.full_like(values, values[0] + _sign(rng) * rng.uniform(3, 4) * spread)


def _decoupled(rng: np.random.Generator, values: Floats, centre: Floats, spread: float) -> Floats:
    side = 1.0 if values[0] >= centre[0] else -1.0
    swing = 0.5 * np.sin(0.4 * np.arange(len(values)) + rng.uniform(0, 2 * np.pi))
    return np.asarray(centre - side * (2.0 + swing) * spread)


def _burst(rng: np.random.Generator, values: Floats, _: Floats, spread: float) -> Floats:
    return values + spread * rng.normal(scale=3, size=len(values))


class _AnomalyKind(NamedTuple):
    shortest: int
    longest: int
    channels: int
    replace: _Replace


_KINDS = (
    _AnomalyKind(1, 3, 1, _spike),
    _AnomalyKind(20, 40, 1, _stuck),
    _AnomalyKind(20, 40, 1, _decoupled),
    _AnomalyKind(10, 20, 3, _burst),
)


def _schedule(
    live: int, anomalies: int, rng: np.random.Generator
) -> list[tuple[int, _AnomalyKind]]:
    """Return where each anomaly starts: one in each equal part of the live part, kinds shuffled."""
    part = live // anomalies
    order = np.concatenate([rng.permutation(len(_KINDS)) for _ in range(anomalies)])[:anomalies]
    return [
        (index * part + int(rng.integers(part - _KINDS[kind].longest)), _KINDS[kind])
        for index, kind in enumerate(order)
    ]
