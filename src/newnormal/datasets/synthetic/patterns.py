"""NeurIPS-TS: waves with five kinds of outlier, after Lai et al. (2021).

K.-H. Lai, D. Zha, J. Xu, Y. Zhao, G. Wang, X. Hu: Revisiting Time Series Outlier Detection:
Definitions and Benchmarks. NeurIPS 2021, Datasets and Benchmarks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from newnormal.datasets.base import Dataset
from newnormal.errors import ParameterError
from newnormal.types import Bools, Floats, Ints


@dataclass(frozen=True)
class Wave:
    """A noisy sine: amplitude · (sin(2π · frequency · t + phase) + noise · ε) + offset."""

    amplitude: float = 1.5  # half the height of the wave
    offset: float = 0.0  # the level it swings about
    phase: float = 0.0  # in radians; π/2 makes it a cosine
    frequency: float = 0.04  # cycles a sample
    noise: float = 0.05  # standard deviation of the noise, as a share of the amplitude

    def at(self, times: Ints, rng: np.random.Generator, speed: float = 1.0) -> Floats:
        """Return the wave at the given times, `speed` times as fast, shape (T,)."""
        angle = 2 * np.pi * self.frequency * speed * times + self.phase
        noise = self.noise * rng.standard_normal(len(times))
        values: Floats = self.amplitude * (np.sin(angle) + noise) + self.offset
        return values


@dataclass(frozen=True)
class Outliers:
    """How many outliers of each kind there are, and how large they are."""

    # share of the samples that outliers of one kind cover; at least one outlier is made
    ratio: float = 0.05
    # half the length of a shapelet, seasonal or trend outlier, and the neighbourhood of a point
    # whose spread a point outlier is measured by
    radius: int = 5
    # a global point leaves the wave's range by this many neighbourhood spreads
    point_global: float = 3.5
    # a contextual point is off by this many neighbourhood spreads, within the wave's range
    point_contextual: float = 2.5
    square_levels: int = 20  # harmonics of the square wave that a shapelet outlier follows
    square_noise: float = 0.03  # its noise, as a share of the amplitude
    season: float = 3.0  # how many times as fast a seasonal outlier swings
    slope: float = 0.5  # how much a trend outlier climbs or falls a sample

    def __post_init__(self) -> None:
        if not 0 < self.ratio <= 0.1:
            raise ParameterError(
                f"ratio: expected a share above 0 and up to 0.1, found {self.ratio}",
                hint="five kinds of outlier must leave room for normal samples",
            )
        if self.radius < 1:
            raise ParameterError(f"radius: expected at least 1 sample, found {self.radius}")


def neurips_ts_uni(
    seed: int = 0,
    *,
    length: int = 10_000,
    kinds: Sequence[str] = ("global", "contextual"),
    shift: float = 4.5,
    shift_at: float = 0.5,
    wave: Wave = Wave(),  # noqa: B008 - frozen
    outliers: Outliers = Outliers(),  # noqa: B008 - frozen
) -> Dataset:
    """Return one wave whose level moves permanently half-way through the live part.

    The level after the shift is a new normal, not an anomaly: a detector that has learned
    history alone flags every sample of it.

    Parameters
    ----------
    seed
        Same seed, same data.
    length
        Samples of train, and samples of test.
    kinds
        Kinds of outlier, of ``"global"``, ``"contextual"``, ``"shapelet"``, ``"seasonal"`` and
        ``"trend"``.
    shift
        How far the level moves. The default is as far as one trend outlier carries it; 0 keeps
        the level.
    shift_at
        Where in the live part it moves, from 0 to 1.
    wave
        The normal signal.
    outliers
        Number and size of the outliers.

    Examples
    --------
    >>> data = neurips_ts_uni(seed=0)
    >>> data
    Dataset('NeurIPS-TS-UNI', 1 channel, 10000 train and 10000 test samples, 1000 anomalous)
    >>> data.shifts
    (5000,)

    Notes
    -----
    The illustration of the paper this package implements (its figure of the trend estimate and
    the update) shows such a series: frequency 0.04, amplitude 1.5, noise 0.05, global points
    (ratio 0.05, factor 3.5, radius 5) and contextual ones (0.05, 2.5, 5).
    """
    if not 0 <= shift_at <= 1:
        raise ParameterError(f"shift_at: expected a share from 0 to 1, found {shift_at}")
    rng = np.random.default_rng(seed)
    train, series = _history_and_live(wave, length, outliers, rng)
    for kind in sorted(kinds, key=_order):
        series.add(kind, rng)
    if shift:
        series.move(int(length * shift_at), shift)
    return Dataset(
        name="NeurIPS-TS-UNI",
        train=train[:, None],
        test=series.observed[:, None],
        labels=series.anomalous.astype(np.int64),
        channels=("value",),
        shifts=tuple(sorted(series.shifts)),
    )


_MUL = (
    ("global", Wave(amplitude=1.5)),
    ("contextual", Wave(amplitude=2.5, phase=np.pi / 2)),
    ("shapelet", Wave(amplitude=1.5)),
    ("seasonal", Wave(amplitude=2.5, phase=np.pi / 2, offset=2.0)),
    ("trend", Wave(amplitude=1.5, offset=-2.0)),
)


def neurips_ts_mul(
    seed: int = 0,
    *,
    length: int = 10_000,
    outliers: Outliers = Outliers(),  # noqa: B008 - frozen
) -> Dataset:
    """Return five waves, each with one kind of outlier; the channel is named by the kind.

    Each trend outlier leaves the level of its channel moved permanently, so that channel wanders.

    Parameters
    ----------
    seed
        Same seed, same data.
    length
        Samples of train, and samples of test.
    outliers
        Number and size of the outliers.

    Examples
    --------
    >>> data = neurips_ts_mul(seed=0, length=2_000)
    >>> data.channels
    ('global', 'contextual', 'shapelet', 'seasonal', 'trend')
    >>> data.train.shape, len(data.shifts)
    ((2000, 5), 10)
    """
    rng = np.random.default_rng(seed)
    pairs = [_history_and_live(wave, length, outliers, rng) for _, wave in _MUL]
    for (kind, _), (_, series) in zip(_MUL, pairs, strict=True):
        series.add(kind, rng)
    return Dataset(
        name="NeurIPS-TS-MUL",
        train=np.column_stack([train for train, _ in pairs]),
        test=np.column_stack([series.observed for _, series in pairs]),
        labels=np.any([series.anomalous for _, series in pairs], axis=0).astype(np.int64),
        channels=tuple(kind for kind, _ in _MUL),
        shifts=tuple(sorted(shift for _, series in pairs for shift in series.shifts)),
    )


class _Series:
    """A live part in the making: what is normal, what was put in its place, how the level moved."""

    def __init__(self, wave: Wave, times: Ints, outliers: Outliers, clean: Floats) -> None:
        self.wave = wave
        self.times = times
        self.outliers = outliers
        self.clean = clean
        self.values = clean.copy()
        self.drift = np.zeros_like(clean)
        self.anomalous: Bools = np.zeros(len(clean), dtype=np.bool_)
        self.shifts: list[int] = []

    @property
    def observed(self) -> Floats:
        return self.values + self.drift

    def add(self, kind: str, rng: np.random.Generator) -> None:
        _KINDS[kind](self, rng)

    def move(self, start: int, distance: float) -> None:
        """Move the level permanently from sample `start` on."""
        self.drift[start:] += distance
        if start < len(self.drift):
            self.shifts.append(start)

    def points(self, rng: np.random.Generator) -> Ints:
        """Choose samples that are still normal, and mark them."""
        count = max(1, round(self.outliers.ratio * len(self.values)))
        chosen = rng.choice(np.flatnonzero(~self.anomalous), size=count, replace=False)
        self.anomalous[chosen] = True
        return chosen

    def stretches(self, rng: np.random.Generator) -> list[slice]:
        """Choose stretches of 2 · radius samples that are still normal, and mark them."""
        width = 2 * self.outliers.radius
        count = max(1, round(self.outliers.ratio * len(self.values) / width))
        offset = rng.integers(len(self.values) % width + 1)
        starts = np.arange(offset, len(self.values) - width + 1, width)
        free = [start for start in starts if not self.anomalous[start : start + width].any()]
        chosen = sorted(rng.choice(free, size=min(count, len(free)), replace=False))
        for start in chosen:
            self.anomalous[start : start + width] = True
        return [slice(start, start + width) for start in chosen]

    def spread(self, points: Ints) -> Floats:
        """Return the standard deviation of the clean signal around each point."""
        around = points[:, None] + np.arange(-self.outliers.radius, self.outliers.radius + 1)
        spread: Floats = self.clean[np.clip(around, 0, len(self.clean) - 1)].std(axis=1)
        return spread

    def outward(self, points: Ints) -> Floats:
        """Return 1 where the clean signal is above its offset, else -1."""
        return np.where(self.clean[points] >= self.wave.offset, 1.0, -1.0)


def _global(series: _Series, rng: np.random.Generator) -> None:
    points = series.points(rng)
    side = series.outward(points)
    off = side * series.outliers.point_global * series.spread(points)
    edge = np.where(side > 0, series.clean.max(), series.clean.min())
    reached = series.clean[points] + off
    series.values[points] = np.where(side > 0, np.maximum(reached, edge), np.minimum(reached, edge))


def _contextual(series: _Series, rng: np.random.Generator) -> None:
    points = series.points(rng)
    off = -series.outward(points) * series.outliers.point_contextual * series.spread(points)
    # 0.95 of the amplitude: inside the range, so that only the context shows it.
    reach = 0.95 * series.wave.amplitude
    low, high = series.wave.offset - reach, series.wave.offset + reach
    series.values[points] = np.clip(series.clean[points] + off, low, high)


def _shapelet(series: _Series, rng: np.random.Generator) -> None:
    wave, outliers = series.wave, series.outliers
    odd = 2 * np.arange(outliers.square_levels) + 1
    angle = 2 * np.pi * wave.frequency * series.times + wave.phase
    for stretch in series.stretches(rng):
        square = (np.sin(odd[:, None] * angle[stretch]) / odd[:, None]).sum(axis=0)
        noise = outliers.square_noise * rng.standard_normal(len(square))
        series.values[stretch] = wave.amplitude * (square + noise) + wave.offset


def _seasonal(series: _Series, rng: np.random.Generator) -> None:
    for stretch in series.stretches(rng):
        series.values[stretch] = series.wave.at(
            series.times[stretch], rng, speed=series.outliers.season
        )


def _trend(series: _Series, rng: np.random.Generator) -> None:
    for stretch in series.stretches(rng):
        climb = rng.choice((-1.0, 1.0)) * series.outliers.slope
        steps = climb * np.arange(stretch.stop - stretch.start)
        series.values[stretch] += steps
        series.move(stretch.stop, steps[-1])


# Stretches come first: they need room that scattered points would take.
_KINDS: dict[str, Callable[[_Series, np.random.Generator], None]] = {
    "shapelet": _shapelet,
    "seasonal": _seasonal,
    "trend": _trend,
    "global": _global,
    "contextual": _contextual,
}


def _order(kind: str) -> int:
    if kind not in _KINDS:
        raise ParameterError(f"kinds: expected {', '.join(_KINDS)}, found {kind!r}")
    return list(_KINDS).index(kind)


def _history_and_live(
    wave: Wave, length: int, outliers: Outliers, rng: np.random.Generator
) -> tuple[Floats, _Series]:
    needed = 20 * outliers.radius
    if length < needed:
        raise ParameterError(
            f"length: expected at least {needed} samples at radius {outliers.radius}, "
            f"found {length}"
        )
    times = np.arange(2 * length, dtype=np.int64)
    train = wave.at(times[:length], rng)
    live = times[length:]
    return train, _Series(wave, live, outliers, wave.at(live, rng))
