"""The linear subspace of history's samples: PCA, a model that learns nothing live."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from newnormal.models.base import Block, Model, Training, checked
from newnormal.types import Floats, Floats32


def principal(rows: Floats, components: int) -> Floats:
    """Return the directions in which standardised rows (T, C) vary most, (C, components)."""
    _, directions = np.linalg.eigh(rows.T @ rows)  # in order of how much, the most last
    basis: Floats = directions[:, ::-1][:, :components]
    return basis


def residuals(rows: Floats, basis: Floats) -> Floats:
    """Return what the subspace leaves of rows (..., C)."""
    rest: Floats = rows - (rows @ basis) @ basis.T
    return rest


class PCA(Model):
    """Scores each sample by its distance from history's first principal components.

    It has `latent` of them, but fewer than there are channels: all of them would leave nothing to
    score by. The window sets only how often the trend moves. Missing values count as history's
    mean.

    With z a sample standardised by history and V the components: score = mean_c (z - V Vᵀ z)².
    """

    at_once: ClassVar[int] = 4096

    def __init__(self, window: int, channels: int, latent: int) -> None:
        super().__init__(window, channels, latent)
        self.components = min(latent, channels - 1)
        self.basis: Floats = np.zeros((channels, self.components))

    @property
    def parameters(self) -> int:
        """How many numbers there are in the components."""
        return self.basis.size

    def _fit(self, history: Floats, training: Training) -> tuple[Floats32, list[float]]:
        """Find the components of scaled history (T, C)."""
        del training
        self.basis = np.ascontiguousarray(principal(np.nan_to_num(history), self.components))
        return np.empty(0, dtype=np.float32), []

    def _score(self, weights: Floats32, block: Block) -> tuple[Floats, Floats]:
        """Score each sample of the windows."""
        del weights
        rest = residuals(block.windows, self.basis)
        squares = block.there * rest**2
        observed = np.maximum(block.there.sum(axis=2), 1)
        return squares.sum(axis=2) / observed, block.windows - rest

    def _tensors(self) -> dict[str, NDArray[Any]]:
        return {"basis": self.basis}

    def _restore(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        self.basis = checked(tensors, "basis", self.basis)
