"""The linear subspace of history's samples: PCA, as a model that learns nothing live."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newnormal.core.scaling import Scaler
from newnormal.errors import ParameterError
from newnormal.kernels.step import Rules, Sheet, Stream
from newnormal.models import loop
from newnormal.models.base import Live, OnEpoch, Training
from newnormal.models.loop import Block
from newnormal.types import Floats, Floats32

__all__ = ["COMPONENTS", "PCA", "principal", "residuals"]

COMPONENTS = 10


def principal(rows: Floats, components: int) -> Floats:
    """Return the directions in which standardised rows (T, C) vary most, (C, components)."""
    _, directions = np.linalg.eigh(rows.T @ rows)  # in order of how much, the most last
    basis: Floats = directions[:, ::-1][:, :components]
    return basis


def residuals(rows: Floats, basis: Floats) -> Floats:
    """Return what the subspace leaves of rows (..., C)."""
    rest: Floats = rows - (rows @ basis) @ basis.T
    return rest


class PCA(Live):
    """Judges each sample by its distance from history's first principal components.

    There are min(10, C) of them, so that of ten channels or fewer nothing is left to judge by.
    Missing values are history's mean to it.

    Notes
    -----
    With z a sample standardised by history and V the components: score = mean_c (z - V Vᵀ z)².
    """

    reconstructs = False
    adaptable: tuple[str, ...] = ()
    size = 0
    at_once = 4096

    def __init__(self, window: int, channels: int, latent: int) -> None:
        del latent
        self.window = window
        self.channels = channels
        self.center: Floats = np.zeros(channels)
        self.basis: Floats = np.zeros((channels, 0))

    @property
    def parameters(self) -> int:
        """How many numbers there are in the components."""
        return self.basis.size

    def scaler(self, history: Floats) -> Scaler:
        """Return the standard scaling."""
        return Scaler.fit(history)

    def fit(
        self, history: Floats, training: Training, on_epoch: OnEpoch | None = None
    ) -> tuple[Floats32, list[float]]:
        """Find the components of scaled history (T, C)."""
        del training, on_epoch
        self.basis = principal(np.nan_to_num(history), min(COMPONENTS, self.channels))
        return np.empty(0, dtype=np.float32), []

    def advance(
        self, samples: Floats, flush: bool, stream: Stream, rules: Rules, sheet: Sheet
    ) -> None:
        """Consume samples (T, C) and write the verdicts that became final."""
        loop.advance(self, samples, flush, stream, rules, sheet)

    def scored(self, block: Block, stream: Stream, rules: Rules) -> tuple[Floats, None]:
        """Score each sample of the windows."""
        del stream, rules
        squares = block.there * residuals(block.windows, self.basis) ** 2
        with np.errstate(invalid="ignore"):  # 0 of 0 channels
            return squares.sum(axis=2) / block.there.sum(axis=2), None

    def learn(self, block: Block, scores: Floats, stream: Stream, rules: Rules) -> None:
        """Refuse."""
        del block, scores, stream, rules
        raise ParameterError(
            "adapt: PCA cannot learn from the stream, found adapt=True", hint="pass adapt=False"
        )

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the components."""
        return {"basis": np.ascontiguousarray(self.basis)}

    def restore(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `tensors` returned."""
        self.basis = tensors["basis"].copy()
