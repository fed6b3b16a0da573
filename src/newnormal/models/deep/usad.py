"""USAD: two autoencoders that share an encoder and are trained against each other."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from newnormal.models.deep.base import BatchScores, DeepModel, WindowBatch, descend


class USAD(DeepModel):
    """One encoder E, two decoders D1 and D2: AE1 = D1∘E and AE2 = D2∘E.

    The second autoencoder learns to distinguish windows from the first one's reconstructions, and
    the first one learns to prevent that, with a weight that grows with every epoch. Reconstructions
    lie between 0 and 1, so history is scaled to that range; 30 epochs are the paper's. A verdict's
    expected values are AE1's.

    Notes
    -----
    Audibert et al., *USAD: UnSupervised Anomaly Detection on Multivariate Time Series*, KDD 2020.
    In epoch n, with squared errors (their equations 7 and 8)::

        loss1 = 1/n ‖x - AE1(x)‖² + (1 - 1/n) ‖x - AE2(AE1(x))‖²
        loss2 = 1/n ‖x - AE2(x)‖² - (1 - 1/n) ‖x - AE2(AE1(x))‖²

    and the score is 0.1 ‖x - AE1(x)‖² + 0.9 ‖x - AE2(AE1(x))‖². Each loss has an Adam over all
    parameters, as in the experiments of *When Model Meets New Normals*, whose widths these are.
    The epoch with the lowest sum of both losses is kept, although losses of different epochs weigh
    different things: in later ones the second autoencoder may diverge from the first. The
    paper's figures come out of this, and not of the last epoch, whose AUROC on CreditCard is 0.3
    instead of 0.9. Adaptation leaves the adversarial terms out and descends on the mean of both
    autoencoders' reconstruction errors.
    """

    scaling = "range"

    def build(self) -> nn.Module:
        """Return encoder and decoders, with the widths of the MLP autoencoder."""
        n = self.window * self.channels
        widths = [n, max(n // 2, 1), max(n // 4, 1), self.latent]
        decoders = {name: _layers(widths[::-1], nn.Sigmoid()) for name in ("decoder1", "decoder2")}
        return nn.ModuleDict({"encoder": _layers(widths, nn.ReLU()), **decoders})

    def judge(self, batch: WindowBatch) -> BatchScores:
        """Score by both residuals: of the first reconstruction, and of that one's own."""
        first = self._decoded(batch.windows, "decoder1")
        again = self._decoded(first, "decoder2")
        scores = 0.1 * self._error(batch, first) + 0.9 * self._error(batch, again)
        return BatchScores(scores, first)

    def errors(self, batch: WindowBatch) -> Tensor:
        """Return the mean error of the two autoencoders."""
        both = [self._decoded(batch.windows, name) for name in ("decoder1", "decoder2")]
        return (self._error(batch, both[0]) + self._error(batch, both[1])) / 2

    def optimisers(self, lr: float) -> list[torch.optim.Optimizer]:
        """Return an Adam for each of the two losses."""
        parameters = [*self.network.parameters()]
        return [torch.optim.Adam(parameters, lr=lr, fused=True) for _ in range(2)]

    def step(
        self, optimisers: list[torch.optim.Optimizer], batch: WindowBatch, epoch: int
    ) -> float:
        """Step down one loss after the other; return their sum."""
        return sum(
            descend(optimiser, self._losses(batch, epoch + 1)[which])
            for which, optimiser in enumerate(optimisers)
        )

    def _losses(self, batch: WindowBatch, epoch: int) -> tuple[Tensor, Tensor]:
        first = self._decoded(batch.windows, "decoder1")
        second = self._decoded(batch.windows, "decoder2")
        again = self._error(batch, self._decoded(first, "decoder2")).mean()
        share = 1 / epoch
        return (
            share * self._error(batch, first).mean() + (1 - share) * again,
            share * self._error(batch, second).mean() - (1 - share) * again,
        )

    def _decoded(self, windows: Tensor, decoder: str) -> Tensor:
        parts: nn.ModuleDict = self.network  # type: ignore[assignment]
        made: Tensor = parts[decoder](parts["encoder"](windows.flatten(1)))
        return made.view_as(windows)

    def _error(self, batch: WindowBatch, made: Tensor) -> Tensor:
        return batch.mean_squares(made - batch.windows)


def _layers(widths: list[int], last: nn.Module) -> nn.Sequential:
    """Return linear layers with ReLU between them and `last` at the end."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1], last)
