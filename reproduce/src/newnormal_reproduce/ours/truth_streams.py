"""Generated streams with and without faults, for `newnormal_reproduce.ours.truth`.

The values without a fault are known, and so is every sample of a fault.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.signal import lfilter

from newnormal_reproduce.engine.arrays import Floats, Times

KINDS = ("flat", "daily", "load", "walk", "bursty", "weekly")
WIDTHS = (1, 3, 6, 12)
PERIODS = (2, 15, 60, 300)  # seconds
# Faults with a direction; noise has none, and is for finding alone.
DIRECTED = ("step", "spikes", "ramp")
SHAPES = (*DIRECTED, "noise")
HISTORY = 10_080  # samples: a week at one a minute
LIVE = 1_600  # samples at least; three days where that is more
QUIET_DAYS = 3
STUCK = 240  # samples: four hours at one a minute

_PERIODS_OF = {"daily": PERIODS[2:], "weekly": PERIODS[3:]}  # history has to hold the cycle
_EVERY = 3  # samples from one spike to the next
# Of the channels: requests, load in percent, seconds, bytes and so on.
_LEVELS = (850.0, 40.0, 0.07, 1e10, 12.0, 6e9, 310.0, 1.01e5, 0.0033, 5.0, 2400.0, 1.7e6)


class Place(NamedTuple):
    """What a stream is like: its kind, channels, seconds between samples, and seed."""

    kind: str
    channels: int
    period: int
    seed: int

    def __str__(self) -> str:
        return f"{self.kind}-{self.channels}, every {self.period} s, seed {self.seed}"


class PlantedFault(NamedTuple):
    """A fault in one channel; its size is in standard deviations, negative for downwards."""

    shape: str
    channel: int
    start: int
    length: int
    size: float

    @property
    def last(self) -> int:
        """Its last sample."""
        return self.start + self.length - 1

    @property
    def direction(self) -> str:
        """The word for its direction."""
        return "high" if self.size > 0 else "low"


@dataclass(frozen=True, eq=False)
class TruthStream:
    """History, the live values without a fault, and their times."""

    place: Place
    history: Floats
    normal: Floats
    history_times: Times
    times: Times
    deviations: Floats  # of each channel's history

    def with_faults(self, *faults: PlantedFault, normal: Floats | None = None) -> Floats:
        """Return the live values, or `normal` ones like these, with some faults."""
        values = (self.normal if normal is None else normal).copy()
        for fault in faults:
            column = values[fault.start : fault.last + 1, fault.channel]
            size, count = fault.size * self.deviations[fault.channel], len(column)
            if fault.shape == "stuck":
                column[:] = values[fault.start - 1, fault.channel]
            elif fault.shape == "spikes":
                column[::_EVERY] += size
            elif fault.shape == "ramp":
                column += size * np.arange(1, count + 1) / count
            elif fault.shape == "noise":
                rng = np.random.default_rng([fault.start, count])
                column += size * rng.choice([-1.0, 1.0], count) * rng.uniform(0.5, 1, count)
            else:
                column += size
        return values


def places(seed: int) -> list[Place]:
    """Return the places of a seed: every kind with every width; periods differ from seed to seed.

    Examples
    --------
    >>> len(places(2021)), str(places(2021)[0])
    (24, 'flat-1, every 15 s, seed 2021')
    """
    found = []
    for row, kind in enumerate(KINDS):
        periods = _PERIODS_OF.get(kind, PERIODS)
        for nth, width in enumerate(WIDTHS):
            found.append(Place(kind, width, periods[(row + nth + seed) % len(periods)], seed))
    return found


def stream_of(place: Place, *, missing: float = 0.0) -> TruthStream:
    """Generate the stream of a place, with a share of missing values."""
    rng = np.random.default_rng([place.seed, KINDS.index(place.kind), place.channels, place.period])
    live = max(LIVE, QUIET_DAYS * 86_400 // place.period)
    count = HISTORY + live
    seconds = np.arange(count) * place.period
    values = np.array(_LEVELS[: place.channels]) * _shape(place, seconds / 86_400, rng)
    if missing:
        values[rng.random(values.shape) < missing] = np.nan
    times = np.datetime64("2024-01-01", "ns") + seconds * np.timedelta64(1, "s")
    history = values[:HISTORY]
    return TruthStream(
        place,
        history,
        values[HISTORY:],
        times[:HISTORY],
        times[HISTORY:],
        np.asarray(np.nanstd(history, axis=0)),
    )


def draw(
    rng: np.random.Generator, stream: TruthStream, start: int, shapes: tuple[str, ...]
) -> PlantedFault:
    """Draw a fault of 12 to 45 samples and of 4 to 9 deviations, in any channel.

    In a stream of positive values with bursts it is upwards: downwards would be below zero.
    """
    shape = shapes[int(rng.integers(len(shapes)))]
    length = int(rng.integers(12, 46))
    if shape == "spikes":
        length = 13 + _EVERY * (min(length - 12, 32) // _EVERY)  # up to 43: the last is a spike
    size = float(rng.uniform(4, 9))
    downwards = shape in ("step", "ramp") and stream.place.kind != "bursty" and rng.random() < 0.5
    channel = int(rng.integers(stream.place.channels))
    return PlantedFault(shape, channel, start, length, -size if downwards else size)


def _shape(place: Place, days: Floats, rng: np.random.Generator) -> Floats:
    """Return the values of all channels relative to their levels."""
    count, width = len(days), place.channels
    noise = _wander(rng, rng.uniform(0.3, 0.9, width), count)
    cycles = 2 * np.pi * (days[:, None] + rng.uniform(0, 0.2, width))
    if place.kind == "bursty":
        return np.asarray(np.exp(0.5 * noise))
    if place.kind == "daily":
        shape = np.sin(cycles) + 0.3 * np.sin(2 * cycles) + 0.25 * noise
    elif place.kind == "weekly":
        weekend = (days[:, None] % 7 >= 5) * 1.0
        shape = (np.sin(cycles) + 1) * (1 - 0.6 * weekend) + 0.2 * noise
    elif place.kind == "load":
        load = 0.5 * _wander(rng, np.array([0.995]), count)
        if place.period >= 60:
            load = load + np.sin(2 * np.pi * days[:, None])
        bends = rng.uniform(0, 0.2, width)
        shape = load + bends * load**2 + 0.2 * noise
    elif place.kind == "walk":
        shape = _wander(rng, np.full(width, 0.998), count) + 0.1 * noise
    else:
        shape = noise
    return np.asarray(1 + shape / 14)


def _wander(rng: np.random.Generator, keeps: Floats, count: int) -> Floats:
    """Return columns of noise of deviation 1, each sample keeping a share of the one before."""
    warm = 3_000
    noise = rng.normal(size=(count + warm, len(keeps))) * np.sqrt(1 - keeps**2)
    columns = [lfilter([1.0], [1.0, -keep], noise[:, nth]) for nth, keep in enumerate(keeps)]
    return np.stack(columns, axis=1)[warm:]
