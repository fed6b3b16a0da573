"""A series to measure on: correlated channels, a few seasons, some noise."""

from __future__ import annotations

import numpy as np

from newnormal.types import Floats


def correlated(samples: int, channels: int, seed: int = 0) -> Floats:
    """Return (samples, channels) of noise around mixtures of a quarter as many seasons.

    Half the work is skipped where ReLU leaves a unit at zero, so speed depends on the weights,
    and these must come from something worth learning.
    """
    rng = np.random.default_rng(seed)
    seasons = max(channels // 4, 1)
    period = rng.uniform(20, 200, seasons)
    phase = rng.uniform(0, 2 * np.pi, seasons)
    mixing = rng.normal(size=(seasons, channels))
    waves = np.sin(2 * np.pi * np.arange(samples)[:, None] / period + phase)
    return np.asarray(waves @ mixing + rng.normal(0, 0.3, (samples, channels)))
