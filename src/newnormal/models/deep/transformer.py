"""Anomaly Transformer (Xu et al. 2022): the attention of a sample shows how normal it is.

Each head of each layer makes two distributions over the window for each of its samples: the
*series association*, which is ordinary self-attention, and the *prior association*, a Gaussian
around the sample whose width is learned. An anomaly has little in common with the rest of its
window, so its attention stays near it, where the Gaussian is: their discrepancy is small.

Shapes: B windows in a batch, L window length, C channels, H heads, D width.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from newnormal.models.deep.base import BatchScores, DeepModel, WindowBatch, descend

_WIDTH = 128  # its authors: 512
_HEADS = 8
_LAYERS = 3
_FEED_FORWARD = 128
_K = 3.0  # weight of the discrepancy in the loss, λ in the paper
_TEMPERATURE = 50.0
_FLOOR = 1e-4  # added to probabilities under a logarithm: far from the sample the Gaussian is 0


class AnomalyTransformer(DeepModel):
    """Scores a sample by its reconstruction error, weighted by how near its attention stays.

    The window is the context: 100 samples in the paper, and a few are too few for an association
    to mean anything. Adaptation descends on the reconstruction error alone.

    Notes
    -----
    With P and S the prior and series associations and D = KL(P‖S) + KL(S‖P), mean over heads, the
    loss is ‖x - x̂‖² ∓ k·D: the series association is moved away from the prior (held), then the
    prior towards the series association (held). Both gradients are taken at the same weights, so
    one backward pass over their sum does it. The score is softmax(-50·ΣD) · ‖x - x̂‖², where the
    sum is over layers (the paper's equation has their mean and no temperature; its authors'
    figures have these) and the softmax over the window.

    References
    ----------
    Xu, Wu, Wang, Long: Anomaly Transformer: Time Series Anomaly Detection with Association
    Discrepancy. ICLR 2022. Equations 2-6.
    """

    keeps_best = False  # the error alone does not show how far the minimax has come

    def build(self) -> nn.Module:
        """Return the network."""
        return _TransformerNetwork(self.window, self.channels)

    def judge(self, batch: WindowBatch) -> BatchScores:
        """Score by reconstruction error times the softmax of minus the discrepancy."""
        made, associations = self.network(batch.windows)
        nearness = torch.softmax(-_TEMPERATURE * _discrepancy(associations), dim=-1)  # (B, L)
        return BatchScores(nearness * batch.mean_squares(made - batch.windows), made)

    def errors(self, batch: WindowBatch) -> Tensor:
        """Return the reconstruction errors."""
        made, _ = self.network(batch.windows)
        return batch.mean_squares(made - batch.windows)

    def step(
        self, optimisers: list[torch.optim.Optimizer], batch: WindowBatch, epoch: int
    ) -> float:
        """Step down the minimax loss, at a rate that is halved each epoch after the second."""
        (optimiser,) = optimisers
        optimiser.param_groups[0]["lr"] = optimiser.defaults["lr"] * 0.5 ** max(epoch - 1, 0)
        loss, reported = self._losses(batch)
        descend(optimiser, loss)
        return reported.item()

    def _losses(self, batch: WindowBatch) -> tuple[Tensor, Tensor]:
        """Return the minimax loss, and the reconstruction error in it."""
        made, associations = self.network(batch.windows)
        error = batch.mean_squares(made - batch.windows).mean()
        held_prior = [_Association(each.prior.detach(), each.series) for each in associations]
        held_series = [_Association(each.prior, each.series.detach()) for each in associations]
        away = _discrepancy(held_prior).mean() / len(associations)
        near = _discrepancy(held_series).mean() / len(associations)
        return 2 * error - _K * away + _K * near, error


class _Association(NamedTuple):
    """Two distributions over the window's samples, for each of them."""

    prior: Tensor  # (B, H, L, L)
    series: Tensor  # (B, H, L, L)


def prior_association(widths: Tensor) -> Tensor:
    """Return the Gaussian around each sample over the window, rows summing to 1.

    `widths`: their standard deviations, in samples, (B, H, L).

    Examples
    --------
    >>> widths = torch.full((1, 1, 3), 0.5, dtype=torch.float64)
    >>> prior_association(widths)[0, 0].round(decimals=2).tolist()
    [[0.88, 0.12, 0.0], [0.11, 0.79, 0.11], [0.0, 0.12, 0.88]]
    """
    at = torch.arange(widths.shape[-1], dtype=widths.dtype)
    distances = (at[:, None] - at).square()  # (L, L)
    # The Gaussian's own normalisation cancels when rows are rescaled.
    gaussian = torch.exp(-distances / (2 * widths.square()[..., None]))  # (B, H, L, L)
    return gaussian / gaussian.sum(-1, keepdim=True)


def divergence(p: Tensor, q: Tensor) -> Tensor:
    """Return KL(p‖q) over the last axis, with probabilities floored at 1e-4."""
    return (p * ((p + _FLOOR).log() - (q + _FLOOR).log())).sum(-1)


def _discrepancy(associations: list[_Association]) -> Tensor:
    """Return KL(P‖S) + KL(S‖P), mean over heads and summed over layers, (B, L)."""
    layers = [
        (divergence(prior, series) + divergence(series, prior)).mean(1)
        for prior, series in associations
    ]
    return torch.stack(layers).sum(0)


class _TransformerNetwork(nn.Module):
    """Embedding, layers of anomaly attention, and a linear way back to the channels."""

    positions: Tensor

    def __init__(self, window: int, channels: int) -> None:
        super().__init__()
        self.embedding = nn.Conv1d(
            channels, _WIDTH, 3, padding=1, padding_mode="circular", bias=False
        )
        nn.init.kaiming_normal_(self.embedding.weight, nonlinearity="leaky_relu")
        self.register_buffer("positions", _positions(window), persistent=False)
        self.layers = nn.ModuleList([_Layer() for _ in range(_LAYERS)])
        self.norm = nn.LayerNorm(_WIDTH)
        self.output = nn.Linear(_WIDTH, channels)

    def forward(self, windows: Tensor) -> tuple[Tensor, list[_Association]]:
        x = self.embedding(windows.transpose(1, 2)).transpose(1, 2) + self.positions  # (B, L, D)
        associations = []
        for layer in self.layers:
            x, association = layer(x)
            associations.append(association)
        return self.output(self.norm(x)), associations


class _Layer(nn.Module):
    """Anomaly attention, then a feed-forward net, each with a residual and a norm after it."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = _AnomalyAttention()
        self.norm1 = nn.LayerNorm(_WIDTH)
        self.widen = nn.Linear(_WIDTH, _FEED_FORWARD)
        self.narrow = nn.Linear(_FEED_FORWARD, _WIDTH)
        self.norm2 = nn.LayerNorm(_WIDTH)

    def forward(self, x: Tensor) -> tuple[Tensor, _Association]:
        attended, association = self.attention(x)
        x = self.norm1(x + attended)
        return self.norm2(x + self.narrow(nn.functional.gelu(self.widen(x)))), association


class _AnomalyAttention(nn.Module):
    """Self-attention that also makes the Gaussian it is compared with."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(_WIDTH, _WIDTH)
        self.key = nn.Linear(_WIDTH, _WIDTH)
        self.value = nn.Linear(_WIDTH, _WIDTH)
        self.sigma = nn.Linear(_WIDTH, _HEADS)
        self.output = nn.Linear(_WIDTH, _WIDTH)

    def forward(self, x: Tensor) -> tuple[Tensor, _Association]:
        B, L, _ = x.shape

        def heads(projected: Tensor) -> Tensor:
            return projected.view(B, L, _HEADS, -1).transpose(1, 2)  # (B, H, L, D/H)

        q, k, v = heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
        series = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), dim=-1)
        # Between 0 and 2 samples: its authors' choice, which the paper does not give.
        widths = 3 ** (torch.sigmoid(5 * self.sigma(x)) + 1e-5) - 1  # (B, L, H)
        mixed = (series @ v).transpose(1, 2).reshape(B, L, _WIDTH)
        return self.output(mixed), _Association(prior_association(widths.transpose(1, 2)), series)


def _positions(window: int) -> Tensor:
    """Return the sines and cosines of position of Vaswani et al. 2017, (L, D)."""
    at = torch.arange(window)[:, None]
    rates = torch.exp(-math.log(10_000.0) * torch.arange(0, _WIDTH, 2) / _WIDTH)
    return torch.stack([torch.sin(at * rates), torch.cos(at * rates)], dim=-1).flatten(1)
