"""THOC (Shen et al. 2020): how far a sample's past, seen at several scales, lies from normal ones.

A recurrent network of three layers, each reaching further back than the one below, describes the
past of a sample at three scales. Scale by scale the descriptions are softly assigned to clusters,
merged with the next scale's, and assigned again. Normal samples end near the clusters' centres.

Shapes: B windows in a batch, L window length, C channels, H hidden, K clusters.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from newnormal.kernels import gru
from newnormal.models.deep.base import BatchScores, DeepModel, WindowBatch

_HIDDEN = 64
_DILATIONS = (1, 2, 4)
_CLUSTERS = 6
_TEMPERATURE = 1.0
_WEIGHT_DECAY = 1e-6


class THOC(DeepModel):
    """Scores a window's last sample by its distance from the centres of what is normal.

    The window's other samples get the same score: use ``stride=1``, so that each sample is the
    last of a window, and ``fit_stride=1``, as the paper does. Every sample then costs a pass over
    a whole window. There is no reconstruction, so verdicts have no `expected` and no `shares`.

    Notes
    -----
    With f the features that enter a level (those of the level below, merged with the state of the
    next scale), c its centres, P = softmax(cos(f, c)) the assignment, and R ← R·P how much of the
    sample has reached each cluster, the score is the mean of R·(1 - cos(f, c)) over features,
    clusters and levels. The loss is the score, plus ‖C·Cᵀ - I‖ of the centres, plus the mean
    squared error of predicting each sample from the state one dilation before it.

    This is THOC as *When Model Meets New Normals* (2024) used it. THOC's own paper measures the
    distance once, at the top: on MSL P-15 (one seed) an AUROC of 0.23, 0.33 here.

    References
    ----------
    Shen, Li, Kwok: Timeseries Anomaly Detection using Temporal Hierarchical One-Class Network.
    NeurIPS 2020. Equations 4-12.
    """

    reconstructs: ClassVar[bool] = False
    network: _THOCNetwork

    def build(self) -> _THOCNetwork:
        """Return the network."""
        return _THOCNetwork(self.channels)

    def judge(self, batch: WindowBatch) -> BatchScores:
        """Give all samples of a window the score of its last one."""
        return BatchScores(self._scores(batch)[:, None].expand(-1, self.window), None)

    def errors(self, batch: WindowBatch) -> Tensor:
        """Return the score at the last sample, and 0 at the others."""
        return nn.functional.pad(self._scores(batch)[:, None], (self.window - 1, 0))

    def optimisers(self, lr: float) -> list[torch.optim.Optimizer]:
        """Return AdamW."""
        parameters = self.network.parameters()
        return [torch.optim.AdamW(parameters, lr=lr, weight_decay=_WEIGHT_DECAY)]

    def loss(self, batch: WindowBatch) -> Tensor:
        """Return distance, and what orthogonal centres and a prediction lack."""
        network, scales = self.network, self.network.scales(batch.windows)
        distances = network.distances([scale[:, -1] for scale in scales])
        return distances.mean() + network.overlap() + network.surprise(scales, batch)

    def _scores(self, batch: WindowBatch) -> Tensor:
        return self.network.distances(self.network.endings(batch.windows))


class DilatedGRU(nn.Module):
    """A GRU whose state follows the one `dilation` steps before."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.given = nn.Linear(inputs, 3 * hidden)
        self.weight = nn.Parameter(torch.empty(hidden, 3 * hidden))
        self.bias = nn.Parameter(torch.empty(3 * hidden))
        for parameter in self.parameters():  # as PyTorch's own GRU
            nn.init.uniform_(parameter, -1 / math.sqrt(hidden), 1 / math.sqrt(hidden))

    def forward(self, sequences: Tensor, dilation: int) -> Tensor:
        """Return the states (B, L, H) for sequences (B, L, inputs)."""
        states: Tensor = _Recurrence.apply(  # type: ignore[no-untyped-call]
            self.given(sequences), self.weight, self.bias, dilation
        )
        return states


class _Recurrence(torch.autograd.Function):
    """The compiled recurrence, and its gradient, for PyTorch."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor, dilation: int) -> Tensor:
        B, L, H = *inputs.shape[:2], len(weight)
        hidden, gates = inputs.new_empty(B, L, H), inputs.new_empty(B, L, 4 * H)
        given = inputs.detach().contiguous().numpy()
        matrix, offset = weight.detach().numpy(), bias.detach().numpy()
        gru.forward(given, matrix, offset, dilation, hidden.numpy(), gates.numpy())
        ctx.save_for_backward(weight, hidden, gates)
        ctx.dilation = dilation
        return hidden

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        weight, hidden, gates = ctx.saved_tensors
        d_hidden = upstream[0].clone(memory_format=torch.contiguous_format)
        d_inputs = hidden.new_empty(*hidden.shape[:2], weight.shape[1])
        d_pulls = torch.empty_like(d_inputs)
        gru.backward(
            weight.detach().numpy(),
            ctx.dilation,
            hidden.detach().numpy(),
            gates.numpy(),
            d_hidden.numpy(),
            d_inputs.numpy(),
            d_pulls.numpy(),
        )
        before, after = hidden[:, : -ctx.dilation], d_pulls[:, ctx.dilation :]
        d_weight = before.flatten(0, 1).T @ after.flatten(0, 1)
        return d_inputs, d_weight, d_pulls.sum((0, 1)), None


class _Level(NamedTuple):
    """What one level makes of the features that enter it: one, or one a cluster below."""

    cosines: Tensor  # (B, 1 or K, K) with the centres
    assigned: Tensor  # (B, 1 or K, K) their softmax
    reached: Tensor  # (B, K) how much of the sample is in each cluster; sums to 1


class _THOCNetwork(nn.Module):
    """Recurrent layers, the centres of each, and what merges and predicts."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        widths = [channels, *[_HIDDEN] * (len(_DILATIONS) - 1)]
        self.layers = nn.ModuleList([DilatedGRU(width, _HIDDEN) for width in widths])
        self.centers = nn.ParameterList(
            [nn.init.xavier_uniform_(torch.empty(_CLUSTERS, _HIDDEN)) for _ in _DILATIONS]
        )
        self.maps = nn.ModuleList([nn.Linear(_HIDDEN, _HIDDEN) for _ in _DILATIONS[1:]])
        self.merge = nn.Sequential(
            nn.Linear(2 * _HIDDEN, 2 * _HIDDEN),
            nn.ReLU(),
            nn.Linear(2 * _HIDDEN, _HIDDEN),
            nn.ReLU(),
            nn.Linear(_HIDDEN, _HIDDEN),
        )
        self.predictors = nn.ModuleList([nn.Linear(_HIDDEN, channels) for _ in _DILATIONS])

    def scales(self, windows: Tensor) -> list[Tensor]:
        """Return each layer's states, (B, L, H)."""
        scales = [windows]
        for layer, dilation in zip(self.layers, _DILATIONS, strict=True):
            scales.append(layer(scales[-1], dilation))
        return scales[1:]

    def endings(self, windows: Tensor) -> list[Tensor]:
        """Return each layer's last state (B, H), computing only what that depends on.

        The last state of a layer depends on every `dilation`-th state of the layer below, which
        follow each other there: 175 steps for a window of 100 instead of 300.
        """
        states, reach, endings = windows, 1, []
        for layer, dilation in zip(self.layers, _DILATIONS, strict=True):
            skip = dilation // reach
            states = layer(states[:, (states.shape[1] - 1) % skip :: skip], 1)
            reach = dilation
            endings.append(states[:, -1])
        return endings

    def levels(self, endings: list[Tensor]) -> Iterator[_Level]:
        """Assign the last sample's features to clusters, level by level."""
        features = endings[0][:, None]  # (B, 1, H), later (B, K, H)
        reached = features.new_ones(features.shape[:2])  # (B, 1), later (B, K)
        for level, centers in enumerate(self.centers):
            cosines = _cosines(features, centers)  # (B, 1 or K, K)
            assigned = torch.softmax(cosines / _TEMPERATURE, dim=-1)
            reached = (reached[:, None] @ assigned)[:, 0]
            yield _Level(cosines, assigned, reached)
            if level < len(self.maps):
                gathered = _gather(assigned, self.maps[level](features))
                above = endings[level + 1][:, None].expand_as(gathered)
                features = self.merge(torch.cat([gathered, above], dim=-1))

    def distances(self, endings: list[Tensor]) -> Tensor:
        """Return each window's distance from the centres, (B,)."""
        each = [
            (level.reached[:, None] * (1 - level.cosines)).mean((1, 2))
            for level in self.levels(endings)
        ]
        return torch.stack(each).mean(0)

    def overlap(self) -> Tensor:
        """Return how far the centres are from orthonormal, mean over levels."""
        unit = torch.eye(_CLUSTERS)
        norms = [torch.linalg.matrix_norm(centers @ centers.T - unit) for centers in self.centers]
        return torch.stack(norms).mean()

    def surprise(self, scales: list[Tensor], batch: WindowBatch) -> Tensor:
        """Return the error of predicting a sample one dilation ahead, mean over layers."""
        errors = []
        for scale, ahead, predict in zip(scales, _DILATIONS, self.predictors, strict=True):
            squares = (predict(scale[:, :-ahead]) - batch.windows[:, ahead:]).square()
            there = batch.there[:, ahead:]
            errors.append((squares * there).sum() / there.sum().clamp(min=1))
        return torch.stack(errors).mean()


def _cosines(features: Tensor, centers: Tensor) -> Tensor:
    """Return the cosine of each feature (B, from, H) with each centre (K, H)."""
    unit = nn.functional.normalize
    return unit(features, dim=-1, eps=1e-8) @ unit(centers, dim=-1, eps=1e-8).T


def _gather(assigned: Tensor, mapped: Tensor) -> Tensor:
    """Return each cluster's share of the mapped features, (B, K, H)."""
    return assigned.transpose(1, 2) @ torch.relu(mapped)
