"""A threshold that another rule moves: one score at a time."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from newnormal.errors import ParameterError
from newnormal.kernels.alarm import HEIGHT, AlarmOut, AlarmParams, AlarmState, judge_scores
from newnormal.types import Floats, Floats32, Ints


class Moves(Protocol):
    """What a rule does while a stream runs: see `newnormal.thresholds.MovingThreshold`."""

    def threshold(self, state: Floats) -> float:
        """Return what the next score is compared with."""
        ...

    def update(self, state: Floats, score: float, anomalous: bool) -> None:
        """Change the state in place after a score was compared."""
        ...


def threshold_of(rule: Moves, moving: Floats) -> float:
    """Return where a rule puts the threshold, if that is a number."""
    level = float(rule.threshold(moving))
    if math.isnan(level):
        raise ParameterError(
            f"threshold: expected a number from {type(rule).__name__}.threshold, found NaN",
            hint="it must return the score from which on a sample is anomalous, whatever the state",
        )
    return level


def judge_moving(
    rule: Moves,
    moving: Floats,
    scores: Floats,
    channels: Floats32,
    episodes: Ints,
    state: AlarmState,
    params: AlarmParams,
    chances: Floats,
    out: AlarmOut,
) -> None:
    """Judge as `newnormal.kernels.alarm.judge_scores` does, and update the rule after each score.

    `params` are those of a threshold that stays; `moving` is the rule's own state. The order within
    a sample: the rule puts the threshold, the score is judged, the rule updates its state.
    """
    for t in range(len(scores)):
        state.levels[HEIGHT] = threshold_of(rule, moving)
        row = slice(t, t + 1)
        part = AlarmOut._make(column[row] for column in out)
        judge_scores(scores[row], channels[row], episodes[row], state, params, chances, part)
        if not np.isnan(scores[t]):
            rule.update(moving, float(scores[t]), bool(part.anomalous[0]))
    state.levels[HEIGHT] = threshold_of(rule, moving)
