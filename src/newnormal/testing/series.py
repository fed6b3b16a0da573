"""Small series for checks, and a detector over one sample by sample."""

import numpy as np

from newnormal.detector import M2N2
from newnormal.types import Bools, Floats, Verdict


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
    for row in range(20, len(series) - 4, 20):
        spoiled[row : row + 2] += 6.0
        labels[row : row + 2] = True
    return spoiled, labels


def stepwise(detector: M2N2, series: Floats) -> list[Verdict]:
    """Return the verdicts of a series whose samples are judged one by one."""
    return [verdict for sample in series for verdict in detector.step(sample)] + detector.flush()
