"""What a threshold is: a rule that stays where history put it, or one that moves."""

from __future__ import annotations

from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np

from newnormal.errors import ParameterError
from newnormal.types import Floats

MOST_STATE = 65_536  # numbers that a rule that moves may keep


@runtime_checkable
class Threshold(Protocol):
    """A rule that stays: anything with this `fit` can be a detector's `threshold`."""

    def fit(self, scores: Floats) -> float:
        """Return τ, given history's scores."""
        ...


@runtime_checkable
class MovingThreshold(Protocol):
    """A rule that moves with the stream: anything with these three methods can be a `threshold`.

    What it keeps of a stream is one small float64 array, its state, and nothing else: the rule
    itself is shared by all streams of one fit. What may be learned from does not move with it.

    To be saved, it also has `to_json`, which returns its options as a dict of plain values; loading
    hands them to the class. A state file names the class, and loading it takes an entry point in
    the group ``newnormal.thresholds`` or ``newnormal.load(path, threshold=Mine)``.
    """

    def start(self, scores: Floats) -> Floats:
        """Return the state at a stream's start, given history's scores in the order of time."""
        ...

    def threshold(self, state: Floats) -> float:
        """Return what the next score is compared with; must not change the state."""
        ...

    def update(self, state: Floats, score: float, anomalous: bool) -> None:
        """Change the state in place after a score was compared; not called without a score."""
        ...


def start_of(rule: MovingThreshold, scores: Floats) -> Floats:
    """Return the state in which a rule starts, checked."""
    state: Any = rule.start(scores[~np.isnan(scores)])
    fits = isinstance(state, np.ndarray) and state.dtype == np.float64 and state.ndim == 1
    if not fits or not 1 <= len(state) <= MOST_STATE:
        found = f"{state.dtype} of shape {state.shape}" if isinstance(state, np.ndarray) else state
        raise ParameterError(
            f"threshold: expected a state of 1 to {MOST_STATE} float64 numbers from "
            f"{type(rule).__name__}.start, found {found!s}",
            hint="return np.array([...], dtype=np.float64)",
        )
    checked: Floats = state.copy()
    return checked


_BITS = 1000  # of a whole number that can still be a float


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a number, and not a truth value."""
    if isinstance(value, int) and value.bit_length() > _BITS:
        return False
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)
