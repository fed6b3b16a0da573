"""The shadow of a pending change: a model that learns what the running one does not."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from newnormal.kernels.stream import SHADOW_NEXT, SHADOW_SCORES, ModelState, Shadow
from newnormal.types import Floats
from newnormal.types.tables import first


class Timing(NamedTuple):
    """How long things take, in samples."""

    accept_after: float  # before which nothing is accepted without a person; infinity: never
    review_length: int  # samples between reviews
    scores: int  # that a shadow keeps
    positions: int  # that a shadow keeps, one a review

    @property
    def kept_scores(self) -> int:
        """Scores that a shadow has room for: one where nothing is ever accepted by time."""
        return self.scores if math.isfinite(self.accept_after) else 1


def blank_shadow(model: ModelState, timing: Timing, width: int) -> Shadow:
    """Return a shadow that has kept nothing yet; positions are `width` wide."""
    sizes = {"N": timing.kept_scores, "M": timing.positions, "C": width // 4}
    return first(Shadow, sizes, model=model)


def ordered(shadow: Shadow) -> Floats:
    """Return the shadow's scores, the newest last."""
    count, at = shadow.counts[[SHADOW_SCORES, SHADOW_NEXT]].tolist()
    if count < len(shadow.scores):
        return shadow.scores[:count].copy()
    return np.roll(shadow.scores, -at)
