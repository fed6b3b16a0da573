"""PCA: the linear subspace of history's samples, as a model that does not learn from the stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newnormal.models.base import Block, Model, Training
from newnormal.types import Floats, Floats32

__all__ = ["COMPONENTS", "PCA"]

COMPONENTS = 10


class PCA(Model):
    """Scores each sample by its distance from history's first principal components.

    There are min(10, C) of them, so that with ten channels or fewer every score is 0. A missing
    value counts as history's mean.

    Notes
    -----
    With z a sample standardised by history and V the components: score = mean_c (z - V Vᵀ z)².
    """

    reconstructs = False
    learns = False
    at_once = 4096

    def __init__(self, window: int, channels: int, latent: int) -> None:
        super().__init__(window, channels, latent)
        self.basis: Floats = np.zeros((channels, 0))

    @property
    def parameters(self) -> int:
        """The number of values in the components."""
        return self.basis.size

    def _fit(self, history: Floats, training: Training) -> tuple[Floats32, list[float]]:
        del training
        rows = np.nan_to_num(history)
        _, directions = np.linalg.eigh(rows.T @ rows)  # by variance, the largest last
        self.basis = directions[:, ::-1][:, : min(COMPONENTS, self.channels)]
        return np.empty(0, dtype=np.float32), []

    def _score(self, weights: Floats32, block: Block) -> tuple[Floats, None]:
        del weights
        residuals = block.windows - (block.windows @ self.basis) @ self.basis.T
        squares = block.there * residuals**2
        with np.errstate(invalid="ignore"):  # 0 of 0 channels
            return squares.sum(axis=2) / block.there.sum(axis=2), None

    def _tensors(self) -> dict[str, NDArray[Any]]:
        return {"basis": np.ascontiguousarray(self.basis)}

    def _restore(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        self.basis = tensors["basis"].copy()
