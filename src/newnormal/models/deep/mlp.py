"""The paper's MLP autoencoder in PyTorch: the same model as the compiled one, for comparison."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from newnormal.models.deep.base import BatchScores, DeepModel, WindowBatch


class TorchMLP(DeepModel):
    """n → n/2 → n/4 → latent → n/4 → n/2 → n with n = window × channels, ReLU between."""

    def build(self) -> nn.Module:
        """Return the network."""
        n = self.window * self.channels
        outer, inner = max(n // 2, 1), max(n // 4, 1)
        widths = [n, outer, inner, self.latent, inner, outer, n]
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise(widths):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        return nn.Sequential(*layers[:-1])

    def judge(self, batch: WindowBatch) -> BatchScores:
        """Score by the mean squared residual."""
        made = self._reconstruct(batch)
        return BatchScores(batch.mean_squares(made - batch.windows), made)

    def errors(self, batch: WindowBatch) -> Tensor:
        """Return the scores."""
        return batch.mean_squares(self._reconstruct(batch) - batch.windows)

    def optimisers(self, lr: float) -> list[torch.optim.Optimizer]:
        """Return AdamW, which descends on the reconstruction error."""
        return [torch.optim.AdamW(self.network.parameters(), lr=lr, weight_decay=0.0)]

    def _reconstruct(self, batch: WindowBatch) -> Tensor:
        made: Tensor = self.network(batch.windows.flatten(1))
        return made.view_as(batch.windows)
