"""Any River anomaly detector as the detector's model: ``model="river:HalfSpaceTrees"``.

Needs the extra `river`.
"""

from __future__ import annotations

import inspect
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from typing import Any, ClassVar

import numpy as np

from newnormal.errors import ParameterError, extra
from newnormal.models.base import Block, Model, Training
from newnormal.types import Bools, Floats, Floats32


class RiverModel(Model):
    """A River detector behind the detector's interface: it scores samples one by one, and learns.

    `fit` hands it each sample of history in turn (`learn_one`). Live, each sample is scored by
    `score_one`, and the learnable samples of a window are learned at its end. It has no step size:
    any `lr` above 0 learns alike. It cannot be saved, since River offers pickle alone; nor can
    `accept_after` go with adaptation, since what it learned cannot be undone.

    Samples are scaled to 0 to 1 by history, which HalfSpaceTrees expects. Missing values are
    history's mean to it, and samples with nothing observed are left out. It keeps River's own
    defaults; HalfSpaceTrees scores 0 until it has learned from 250 samples.
    """

    detector_name: ClassVar[str]  # of the detector's class in River
    reconstructs: ClassVar[bool] = False
    scaling: ClassVar[str] = "range"
    holds_objects: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The model's name in messages."""
        return f"river:{self.detector_name}"

    @property
    def adaptable(self) -> tuple[str, ...]:
        """The detector itself."""
        return (self.detector_name,)

    def _fit(self, history: Floats, training: Training) -> tuple[Floats32, list[float]]:
        """Learn the samples of scaled history (T, C) in which something was observed, in turn."""
        kind = _detectors()[self.detector_name]
        takes = inspect.signature(kind).parameters
        self.objects = kind(**({"seed": training.seed} if "seed" in takes else {}))
        there = ~np.isnan(history)
        for row in np.where(there, history, self.center)[there.any(axis=1)]:
            self.objects.learn_one(_features(row))
        return np.empty(0, dtype=np.float32), []

    def _score(self, weights: Floats32, block: Block) -> tuple[Floats, None]:
        """Score the samples that get their verdict now."""
        del weights
        B, L, _ = block.windows.shape
        wanted = np.arange(L) >= L - block.newest[:, None]  # (B, L)
        wanted &= block.there.any(axis=2)
        scores = np.full((B, L), np.nan)
        rows = np.where(block.there, block.windows, self.center)[wanted]
        scores[wanted] = [self.objects.score_one(_features(row)) for row in rows]
        return scores, None

    def _learn(self, weights: Floats32, block: Block, learnable: Bools, lr: float) -> None:
        """Learn the learnable samples in turn."""
        del weights, lr
        rows = np.where(block.there, block.windows, self.center)[0]
        for row in rows[learnable]:
            self.objects.learn_one(_features(row))


def _features(row: Floats) -> dict[int, float]:
    return dict(enumerate(row.tolist()))


@cache
def adapter(name: str) -> type[RiverModel]:
    """Return the model that is River's detector class `name`, such as "HalfSpaceTrees"."""
    known = _detectors()
    if name not in known:
        lowered = {each.lower(): each for each in known}
        near = [f"river:{lowered[each]}" for each in get_close_matches(name.lower(), lowered)]
        raise ParameterError(
            "model: expected river: and the name of a River anomaly detector, "
            f"found 'river:{name}'",
            hint=f"did you mean {' or '.join(near)}?" if near else f"one of {', '.join(known)}",
        )
    return type(name, (RiverModel,), {"detector_name": name, "__doc__": RiverModel.__doc__})


@cache
def _detectors() -> dict[str, Any]:
    """Return River's detectors of samples without a target, by class name."""
    with extra("river", "river"):
        anomaly = import_module("river.anomaly")
    kinds = {name: getattr(anomaly, name) for name in sorted(anomaly.__all__)}
    return {name: kind for name, kind in kinds.items() if _takes_samples_alone(kind)}


def _takes_samples_alone(kind: Any) -> bool:
    """Whether it can be made without arguments, and scores by the features alone."""
    given = inspect.signature(kind).parameters.values()
    scored = list(inspect.signature(kind.score_one).parameters)
    return scored == ["self", "x"] and all(each.default is not each.empty for each in given)
