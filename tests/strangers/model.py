"""Models as somebody else would write them, in a file of their own outside the package."""

from typing import ClassVar

import numpy as np

from newnormal.models.base import Block, Model, Training
from newnormal.types import Bools, Floats, Floats32


class Codebook(Model):
    """Scores a sample by its distance from the nearest of `latent` samples of history."""

    def _fit(self, history: Floats, training: Training) -> tuple[Floats32, list[float]]:
        rows = np.nan_to_num(history)
        chosen = np.random.default_rng(training.seed).choice(len(rows), self.latent, replace=False)
        return rows[chosen].ravel().astype(np.float32), []

    def _score(self, weights: Floats32, block: Block) -> tuple[Floats, Floats]:
        nearest = self._nearest(weights, block)
        squares = block.there * (block.windows - nearest) ** 2
        return squares.sum(axis=2) / np.maximum(block.there.sum(axis=2), 1), nearest

    def _learn(self, weights: Floats32, block: Block, learnable: Bools, lr: float) -> None:
        codes = weights.reshape(-1, self.channels)
        for sample in block.windows[0, learnable]:
            at = int(((codes - sample) ** 2).sum(axis=1).argmin())
            codes[at] += np.float32(lr) * (sample - codes[at])

    def _nearest(self, weights: Floats32, block: Block) -> Floats:
        codes = weights.reshape(-1, self.channels).astype(np.float64)
        apart = (block.there[:, :, None] * (block.windows[:, :, None] - codes) ** 2).sum(axis=3)
        found: Floats = codes[apart.argmin(axis=2)]
        return found


class Cells(Model):
    """Scores a sample by how rarely its cell of space was visited: a dict, which is an object."""

    reconstructs: ClassVar[bool] = False
    holds_objects: ClassVar[bool] = True

    def _fit(self, history: Floats, training: Training) -> tuple[Floats32, list[float]]:
        self.objects: dict[bytes, int] = {}
        for row in np.nan_to_num(history):
            self._visit(row)
        return np.empty(0, dtype=np.float32), []

    def _score(self, weights: Floats32, block: Block) -> tuple[Floats, None]:
        visits = [[self.objects.get(_cell(row), 0) for row in rows] for rows in block.windows]
        return 1 / (1 + np.array(visits, dtype=np.float64)), None

    def _learn(self, weights: Floats32, block: Block, learnable: Bools, lr: float) -> None:
        for row in block.windows[0, learnable]:
            self._visit(row)

    def _visit(self, row: Floats) -> None:
        self.objects[_cell(row)] = self.objects.get(_cell(row), 0) + 1


def _cell(row: Floats) -> bytes:
    return np.round(row).astype(np.int64).tobytes()
