"""What the PyTorch models share: parameters as one packed vector, training, and learning.

A model of this folder says what its network is, how it is trained, how it scores windows, and which
errors adaptation descends on; `DeepModel` does the rest. The guard is that of
`newnormal.kernels.step`, for any model.

Shapes: B windows in a batch, L window length, C channels.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from newnormal.core.scaling import Scaler
from newnormal.core.windows import starts
from newnormal.errors import MissingExtraError
from newnormal.kernels.decision import is_learnable
from newnormal.kernels.step import AGE, COPY_EVERY, LEARNED, RESTORED, Rules, Sheet, Stream
from newnormal.models import loop
from newnormal.models.base import Live, OnEpoch, Training
from newnormal.models.loop import Block
from newnormal.types import Floats, Floats32

try:
    import torch
    from torch import Tensor, nn
except ImportError:
    raise MissingExtraError.of("deep", "torch") from None

__all__ = ["Batch", "Batches", "DeepModel", "Judged"]


class Batch(NamedTuple):
    """Standardised windows, 0 where missing, and what of them was observed."""

    windows: Tensor  # (B, L, C)
    there: Tensor  # (B, L, C) 1 where observed, 0 where missing

    def mean_squares(self, residuals: Tensor) -> Tensor:
        """Return each sample's mean squared residual over its observed channels, (B, L)."""
        squares = residuals.square() * self.there
        return squares.sum(-1) / self.there.sum(-1).clamp(min=1)


class Judged(NamedTuple):
    """What a model says of a batch."""

    scores: Tensor  # (B, L)
    reconstruction: Tensor | None  # (B, L, C)


class Batches:
    """Shuffled batches of training windows, a different order each epoch."""

    def __init__(self, history: Floats, window: int, training: Training) -> None:
        missing = np.isnan(history)
        self._values = np.where(missing, 0, history).astype(np.float32)
        self._there = (~missing).astype(np.float32)
        self._window = window
        self._size = training.batch
        self._rng = np.random.default_rng(training.seed)
        self.starts = starts(len(history), window, training.stride)

    def __len__(self) -> int:
        return math.ceil(len(self.starts) / self._size)

    def epoch(self, shuffled: bool = True) -> Iterator[Batch]:
        """Go once through all windows."""
        order = self._rng.permutation(len(self.starts)) if shuffled else np.arange(len(self.starts))
        for at in range(0, len(order), self._size):
            yield self.take(self.starts[order[at : at + self._size]])

    def take(self, chosen: NDArray[np.int64]) -> Batch:
        """Return the windows that start at `chosen`."""
        rows = chosen[:, None] + np.arange(self._window)
        return Batch(torch.from_numpy(self._values[rows]), torch.from_numpy(self._there[rows]))


class DeepModel(Live, ABC):
    """Base of the PyTorch models.

    Parameters
    ----------
    window, channels, latent
        As for the detector; a model whose width the paper fixes does not use `latent`.
    """

    scaling: ClassVar[str] = "standard"
    reconstructs: ClassVar[bool] = True
    keeps_best: ClassVar[bool] = True  # the epoch of the lowest mean loss, not the last one
    at_once = 256  # windows judged at once where nothing is learned between them

    def __init__(self, window: int, channels: int, latent: int) -> None:
        self.window = window
        self.channels = channels
        self.latent = latent
        self.center: Floats = np.zeros(channels)  # history's mean, scaled as the model has it
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.network = self.build()
        self.network.eval()

    # ------------------------------------------------------------------ for authors

    @abstractmethod
    def build(self) -> nn.Module:
        """Return the network, untrained."""

    @abstractmethod
    def judge(self, batch: Batch) -> Judged:
        """Score a batch; called without gradients and in evaluation mode."""

    @abstractmethod
    def errors(self, batch: Batch) -> Tensor:
        """Return the errors (B, L) that adaptation descends on."""

    @abstractmethod
    def train(self, batches: Batches, training: Training) -> Iterator[float]:
        """Train the network, giving the mean loss of each epoch as it is done."""

    def calibrate(self, batches: Batches) -> None:
        """Take from history what scoring needs besides the parameters."""

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return what `fit` found besides the parameters, for the state file."""
        return {"center": self.center}

    def restore(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `tensors` returned."""
        self.center = np.array(tensors["center"])

    # ------------------------------------------------------------------ for the detector

    @property
    def parameters(self) -> int:
        """How many parameters there are."""
        return sum(parameter.numel() for parameter in self.network.parameters())

    @property
    def size(self) -> int:
        """How long their packed vector is."""
        return self.parameters

    @property
    def adaptable(self) -> tuple[str, ...]:
        """The parameters that may change at test time."""
        return tuple(name for name, _ in self.network.named_parameters())

    def scaler(self, history: Floats) -> Scaler:
        """Return the scaling this model wants."""
        return Scaler.fit_range(history) if self.scaling == "range" else Scaler.fit(history)

    def fit(
        self, history: Floats, training: Training, on_epoch: OnEpoch | None = None
    ) -> tuple[Floats32, list[float]]:
        """Train on scaled history (T, C); the same seed gives the same parameters."""
        if self.scaling == "range":
            self.center = np.nanmean(history, axis=0)
        batches = Batches(history, self.window, training)
        losses: list[float] = []
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(training.seed)
            self.network = self.build()
            best = self._packed()
            self.network.train()
            for loss in self.train(batches, training):
                losses.append(loss)
                if not self.keeps_best or loss == min(losses):
                    best = self._packed()
                if on_epoch is not None:
                    on_epoch(len(losses), loss)
        self._bind(best)
        self.network.eval()
        with torch.no_grad():
            self.calibrate(batches)
        return best, losses

    def advance(
        self, samples: Floats, flush: bool, stream: Stream, rules: Rules, sheet: Sheet
    ) -> None:
        """Consume samples (T, C) and write the verdicts that became final."""
        self._bind(stream.weights)
        loop.advance(self, samples, flush, stream, rules, sheet)

    # ------------------------------------------------------------------ for the loop

    def scored(self, block: Block, stream: Stream, rules: Rules) -> tuple[Floats, Floats | None]:
        """Judge a block; weights that give a score that is not finite are replaced."""
        batch, unseen = _batch(block), ~block.there.any(axis=2)
        scores = np.empty(unseen.shape)
        reconstruction: Floats | None = None
        for source in (None, stream.good, rules.fitted):
            if source is not None:
                stream.weights[:] = source
                if source is rules.fitted:
                    stream.good[:] = source
                else:
                    stream.counts[RESTORED] += 1
                    stream.counts[AGE] = 0
            with torch.no_grad():
                judged = self.judge(batch)
            scores = np.where(unseen, np.nan, judged.scores.double().numpy())
            if judged.reconstruction is not None:
                reconstruction = judged.reconstruction.double().numpy()
            if np.isfinite(scores[~unseen]).all():
                break
        return scores, reconstruction

    def learn(self, block: Block, scores: Floats, stream: Stream, rules: Rules) -> None:
        """Take one SGD step on the learnable samples' errors, divided by the window's length."""
        learnable = np.array([is_learnable(score, rules.threshold) for score in scores])
        if not learnable.any():
            return
        parameters = list(self.network.parameters())
        errors = self.errors(_batch(block))[0]
        loss = (errors * torch.from_numpy(learnable.astype(np.float32))).sum() / self.window
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                if gradient is not None:
                    parameter.sub_(gradient, alpha=float(rules.lr))
        stream.counts[LEARNED] += 1
        stream.counts[AGE] += 1
        if not np.isfinite(stream.weights).all():
            stream.weights[:] = stream.good
            stream.counts[RESTORED] += 1
            stream.counts[AGE] = 0
        elif stream.counts[AGE] >= COPY_EVERY:
            stream.good[:] = stream.weights
            stream.counts[AGE] = 0

    # ------------------------------------------------------------------ inside

    def _packed(self) -> Floats32:
        parameters = [each.detach().reshape(-1) for each in self.network.parameters()]
        packed: Floats32 = torch.cat(parameters).numpy().astype(np.float32)
        return packed

    def _bind(self, weights: Floats32) -> None:
        """Let the network's parameters be views of a packed vector."""
        flat, at = torch.from_numpy(weights), 0
        for parameter in self.network.parameters():
            count = parameter.numel()
            parameter.data = flat[at : at + count].view(parameter.shape)
            at += count


def _batch(block: Block) -> Batch:
    """Return windows as the network takes them."""
    windows, there = block.windows.astype(np.float32), block.there.astype(np.float32)
    return Batch(torch.from_numpy(windows), torch.from_numpy(there))
