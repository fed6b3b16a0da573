"""LSTM encoder-decoder, scored by how unusual a sample's errors are beside history's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from newnormal.errors import StateError
from newnormal.models.base import checked
from newnormal.models.deep.base import Batches, BatchScores, DeepModel, WindowBatch

_AT_ONCE = 256  # windows of history whose errors are taken at once
_RIDGE = 1e-4  # of the channels' mean variance
_LEAST = 1e-8  # variance of an error, in scaled units, where history has none


class LSTM(DeepModel):
    """An LSTM reads the window, another one writes it again, from the last sample to the first.

    The score is the Mahalanobis distance of a sample's errors from history's, so a channel that is
    always hard to reconstruct counts for little. It does not use `latent`: its layers are 128 wide.

    Notes
    -----
    Malhotra et al., *LSTM-based Encoder-Decoder for Multi-sensor Anomaly Detection*, 2016: with
    e = |x - x̂|, the score is (e - m)ᵀ S⁻¹ (e - m), m and S the mean and covariance of history's
    errors; here over the channels observed, and divided by their number. S gets a ridge, because
    the errors of a channel that never moved in history hardly vary. The decoder feeds on its own
    output in training too; sizes and dropout are those of *When Model Meets New Normals*.
    Adaptation descends on the squared error; m and S stay.
    """

    hidden: ClassVar[int] = 128
    layers: ClassVar[int] = 3
    dropout: ClassVar[float] = 0.1

    def __init__(self, window: int, channels: int, latent: int) -> None:
        super().__init__(window, channels, latent)
        self.error_mean = torch.zeros(channels, dtype=torch.float64)
        self.error_covariance = torch.eye(channels, dtype=torch.float64)

    def build(self) -> nn.Module:
        """Return encoder and decoder."""
        return _EncoderDecoder(self.channels, self.hidden, self.layers, self.dropout)

    def judge(self, batch: WindowBatch) -> BatchScores:
        """Score by the errors' distance from history's."""
        made = self.network(batch.windows)
        distances = self._distances(*self._vectors(batch, made))
        return BatchScores(distances.view(batch.windows.shape[:2]), made)

    def errors(self, batch: WindowBatch) -> Tensor:
        """Return the mean squared residuals."""
        return batch.mean_squares(self.network(batch.windows) - batch.windows)

    def optimisers(self, lr: float) -> list[torch.optim.Optimizer]:
        """Return Adam, which descends on the reconstruction error."""
        return [torch.optim.Adam(self.network.parameters(), lr=lr, fused=True)]

    def calibrate(self, batches: Batches) -> None:
        """Take the mean and covariance of history's errors."""
        count = torch.zeros(self.channels, dtype=torch.float64)
        total = torch.zeros_like(count)
        products = torch.zeros_like(self.error_covariance)
        for errors, there in self._of_history(batches):
            count += there.sum(0)
            total += (errors * there).sum(0)
        count.clamp_(min=1)
        self.error_mean = total / count
        for errors, there in self._of_history(batches):
            deviations = (errors - self.error_mean) * there
            products += deviations.T @ deviations
        # Where values are missing, dividing by the pair's own count would not keep it positive.
        self.error_covariance = products / (count[:, None] * count).sqrt()

    def _tensors(self) -> dict[str, NDArray[Any]]:
        """Return the errors' mean and covariance too."""
        return {
            "error_mean": self.error_mean.numpy(),
            "error_covariance": self.error_covariance.numpy(),
        }

    def _restore(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `tensors` returned."""
        mean = checked(tensors, "error_mean", self.error_mean.numpy())
        covariance = checked(tensors, "error_covariance", self.error_covariance.numpy())
        values = np.linalg.eigvalsh(covariance)
        slack = 1e-9 * abs(values[-1])  # rounding
        if not np.allclose(covariance, covariance.T, atol=slack) or values[0] < -slack:
            raise StateError("model.own.error_covariance: expected a covariance, found another")
        self.error_mean = torch.from_numpy(mean)
        self.error_covariance = torch.from_numpy(covariance)

    def _of_history(self, batches: Batches) -> Iterator[tuple[Tensor, Tensor]]:
        for at in range(0, len(batches.starts), _AT_ONCE):
            batch = batches.take(batches.starts[at : at + _AT_ONCE])
            yield self._vectors(batch, self.network(batch.windows))

    def _vectors(self, batch: WindowBatch, made: Tensor) -> tuple[Tensor, Tensor]:
        """Return the samples' error vectors and what of them was observed, (N, C) with N = B·L."""
        residuals = (made - batch.windows).double()
        return self._error(residuals).flatten(0, 1), batch.there.double().flatten(0, 1)

    def _error(self, residuals: Tensor) -> Tensor:
        return residuals.abs()

    def _distances(self, errors: Tensor, there: Tensor) -> Tensor:
        """Return each sample's distance (N,), from what of its errors (N, C) was observed."""
        ridge = _RIDGE * self.error_covariance.diagonal().mean() + _LEAST
        covariance = self.error_covariance + ridge * torch.eye(self.channels)
        distances = torch.zeros(len(errors), dtype=torch.float64)
        patterns, which = torch.unique(there, dim=0, return_inverse=True)
        for k, pattern in enumerate(patterns > 0):
            rows = which == k
            deviations = (errors - self.error_mean)[rows][:, pattern]
            root = torch.linalg.cholesky(covariance[pattern][:, pattern])
            white = torch.linalg.solve_triangular(root, deviations.T, upper=False)
            distances[rows] = white.square().sum(0) / pattern.sum().clamp(min=1)
        return distances


class DiagonalLSTM(LSTM):
    """The same network with the score behind the tables of *When Model Meets New Normals*.

    For comparison with those tables; `LSTM` has the score its authors meant.

    Notes
    -----
    With e the *squared* errors, the score is the sum over channels of (eᶜ - mᶜ)² times the diagonal
    element of S⁺, the pseudo-inverse of their covariance; here the mean over observed channels.
    It differs from `LSTM` where errors of several channels go together, and grows with the fourth
    power of an error.
    """

    def _error(self, residuals: Tensor) -> Tensor:
        return residuals.square()

    def _distances(self, errors: Tensor, there: Tensor) -> Tensor:
        precision: Tensor = torch.linalg.pinv(self.error_covariance, hermitian=True).diagonal()
        squares = (errors - self.error_mean).square() * precision * there
        return squares.sum(1) / there.sum(1).clamp(min=1)


class _EncoderDecoder(nn.Module):
    """Reads windows (B, L, C) and returns them reconstructed."""

    def __init__(self, channels: int, hidden: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.encoder, self.decoder = (
            nn.LSTM(channels, hidden, layers, dropout=dropout, batch_first=True) for _ in range(2)
        )
        self.output = nn.Linear(hidden, channels)

    def forward(self, windows: Tensor) -> Tensor:
        _, state = self.encoder(windows)
        made = [torch.zeros_like(windows[:, :1])]
        for _ in range(windows.shape[1]):
            hidden, state = self.decoder(made[-1], state)
            made.append(self.output(hidden))  # (B, 1, C)
        return torch.cat(made[1:], 1).flip(1)
