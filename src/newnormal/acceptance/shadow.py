"""The shadow of a pending change: a model that learns what the running one does not."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from newnormal.core.state import ModelState, Shadow
from newnormal.types import Floats

# Positions in Shadow.counts.
TRAINS = 0  # 1 once the shadow's model learns
SCORES = 1  # scores kept, of all that the ring holds
NEXT = 2  # where the next one goes
POSITIONS = 3  # positions kept


class Timing(NamedTuple):
    """How long things take, in samples."""

    accept_after: float  # before which nothing is accepted without a person; infinity: never
    review_length: int  # samples between reviews
    scores: int  # that a shadow keeps
    positions: int  # that a shadow keeps, one a review


def blank_shadow(model: ModelState, timing: Timing, width: int) -> Shadow:
    """Return a shadow that has kept nothing yet; positions are `width` wide."""
    scores = timing.scores if math.isfinite(timing.accept_after) else 1  # it never trains
    return Shadow(
        model, np.zeros(scores), np.zeros((timing.positions, width)), np.zeros(4, np.int64)
    )


def ordered(shadow: Shadow) -> Floats:
    """Return the shadow's scores, the newest last."""
    count, at = shadow.counts[[SCORES, NEXT]].tolist()
    if count < len(shadow.scores):
        return shadow.scores[:count].copy()
    return np.roll(shadow.scores, -at)
