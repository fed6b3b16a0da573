"""Small series for checks: normal ones, and one with anomalies that are known."""

from __future__ import annotations

import numpy as np

from newnormal.types import Bools, Floats


def plant(samples: int, channels: int, seed: int) -> Floats:
    """Return one slow wave seen by several sensors, every other one upside down, and noise."""
    rng = np.random.default_rng(seed)
    wave = np.sin((np.arange(samples) + rng.integers(1000)) / 8)[:, None]
    signs = np.where(np.arange(channels) % 2 == 0, 1.0, -1.0)
    series: Floats = wave * signs + 0.05 * rng.normal(size=(samples, channels))
    return series


def with_anomalies(series: Floats) -> tuple[Floats, Bools]:
    """Return a copy in which some samples are far from all others, and which those are."""
    spoiled, labels = series.copy(), np.zeros(len(series), dtype=np.bool_)
    for at in range(20, len(series) - 4, 20):
        spoiled[at : at + 2] += 6.0
        labels[at : at + 2] = True
    return spoiled, labels
