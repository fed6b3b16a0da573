"""Thresholds as somebody else would write them, in a file of their own outside the package."""

from typing import Any

import numpy as np

from newnormal.types import Floats


class Trailing:
    """So many deviations above the mean of recent scores, what is anomalous left out."""

    def __init__(self, deviations: float = 4.0, memory: float = 100.0) -> None:
        self.deviations = deviations
        self.memory = memory

    def start(self, scores: Floats) -> Floats:
        return np.array([scores.mean(), scores.var()])

    def threshold(self, state: Floats) -> float:
        mean, variance = state
        return float(mean + self.deviations * variance**0.5)

    def update(self, state: Floats, score: float, anomalous: bool) -> None:
        if anomalous:
            return
        gap = score - state[0]
        state[0] += gap / self.memory
        state[1] += (gap**2 - state[1]) / self.memory

    def to_json(self) -> dict[str, Any]:
        return {"deviations": self.deviations, "memory": self.memory}


class Largest:
    """A little above history's largest score: a rule that stays, and has options to be saved."""

    def __init__(self, factor: float = 1.1) -> None:
        self.factor = factor

    def fit(self, scores: Floats) -> float:
        return float(self.factor * scores.max())

    def to_json(self) -> dict[str, Any]:
        return {"factor": self.factor}


class Unnamed:
    """One that moves and cannot be saved: it has no `to_json`."""

    def start(self, scores: Floats) -> Floats:
        return np.array([scores.max()])

    def threshold(self, state: Floats) -> float:
        return float(state[0])

    def update(self, state: Floats, score: float, anomalous: bool) -> None:
        state[0] = 0.99 * state[0] + 0.02 * min(score, 1e6)
