"""What the PyTorch models share: parameters as one packed vector, training, and learning.

A model of this folder defines its network, how it is trained, how it scores windows, and which
errors adaptation descends on; `DeepModel` does the rest. The guard is that of
`newnormal.kernels.step`, for any model.

Shapes: B windows in a batch, L window length, C channels.
"""

from __future__ import annotations

import math
import threading
from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from newnormal.core.windows import starts
from newnormal.kernels.step import StepOut, StepParams
from newnormal.kernels.stream import ModelState
from newnormal.models.base import Block, Model, Training
from newnormal.types import Bools, Floats, Floats32

# A network is shared by all streams of one fit, and bound to one stream's weights at a time.
_BOUND = threading.RLock()


class WindowBatch(NamedTuple):
    """Standardised windows, 0 where missing, and what of them was observed."""

    windows: Tensor  # (B, L, C)
    there: Tensor  # (B, L, C) 1 where observed, 0 where missing

    def mean_squares(self, residuals: Tensor) -> Tensor:
        """Return each sample's mean squared residual over its observed channels, (B, L)."""
        squares = residuals.square() * self.there
        return squares.sum(-1) / self.there.sum(-1).clamp(min=1)


class BatchScores(NamedTuple):
    """A model's result for a batch."""

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

    def epoch(self, shuffled: bool = True) -> Iterator[WindowBatch]:
        """Go once through all windows."""
        order = self._rng.permutation(len(self.starts)) if shuffled else np.arange(len(self.starts))
        for at in range(0, len(order), self._size):
            yield self.take(self.starts[order[at : at + self._size]])

    def take(self, chosen: NDArray[np.int64]) -> WindowBatch:
        """Return the windows that start at `chosen`."""
        rows = chosen[:, None] + np.arange(self._window)
        return WindowBatch(
            torch.from_numpy(self._values[rows]), torch.from_numpy(self._there[rows])
        )


class DeepModel(Model):
    """Base of the PyTorch models.

    Parameters
    ----------
    window, channels, latent
        As for the detector; a model whose width the paper fixes does not use `latent`.
    """

    keeps_best: ClassVar[bool] = True  # the epoch of the lowest mean loss, not the last one

    def __init__(self, window: int, channels: int, latent: int) -> None:
        super().__init__(window, channels, latent)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.network = self.build()
        self.network.eval()
        self.size = sum(parameter.numel() for parameter in self.network.parameters())

    # ------------------------------------------------------------------ for authors

    @abstractmethod
    def build(self) -> nn.Module:
        """Return the network, untrained."""

    @abstractmethod
    def judge(self, batch: WindowBatch) -> BatchScores:
        """Score a batch; called without gradients and in evaluation mode."""

    @abstractmethod
    def errors(self, batch: WindowBatch) -> Tensor:
        """Return the errors (B, L) that adaptation descends on."""

    def prepare(self, batches: Batches) -> None:
        """Take from history what training needs."""

    def optimisers(self, lr: float) -> list[torch.optim.Optimizer]:
        """Return what takes the steps of training."""
        return [torch.optim.Adam(self.network.parameters(), lr=lr)]

    def loss(self, batch: WindowBatch) -> Tensor:
        """Return what training descends on."""
        return self.errors(batch).mean()

    def step(
        self,
        optimisers: list[torch.optim.Optimizer],
        batch: WindowBatch,
        epoch: int,  # noqa: ARG002 - a schedule uses it
    ) -> float:
        """Take a step of training on a batch, in an epoch counted from 0; return the loss."""
        return descend(optimisers[0], self.loss(batch))

    def calibrate(self, batches: Batches) -> None:
        """Take from history what scoring needs besides the parameters."""

    # ------------------------------------------------------------------ for the detector

    @property
    def adaptable(self) -> tuple[str, ...]:
        """The parameters that may change at test time."""
        return tuple(name for name, _ in self.network.named_parameters())

    def _fit(self, history: Floats, training: Training) -> tuple[Floats32, list[float]]:
        """Train on scaled history (T, C); the same seed gives the same parameters."""
        batches = Batches(history, self.window, training)
        losses: list[float] = []
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(training.seed)
            self.network = self.build()
            best = self._packed()
            self.network.train()
            self.prepare(batches)
            optimisers = self.optimisers(training.lr)
            for epoch in range(training.epochs):
                total = 0.0
                for batch in batches.epoch():
                    total += self.step(optimisers, batch, epoch) * len(batch.windows)
                loss = total / len(batches.starts)
                losses.append(loss)
                if not self.keeps_best or loss == min(losses):
                    best = self._packed()
                if training.on_epoch is not None:
                    training.on_epoch(len(losses), loss)
        self._bind(best)
        self.network.eval()
        with torch.no_grad():
            self.calibrate(batches)
        return best, losses

    def advance(
        self,
        samples: Floats,
        flush: bool,
        state: ModelState,
        params: StepParams,
        out: StepOut,
        phases: Floats | None = None,
        votes: Floats32 | None = None,
        clean: Floats | None = None,
    ) -> None:
        """Consume samples (T, C) and write the verdicts that became final."""
        with _BOUND:
            self._bind(state.step.weights)
            super().advance(samples, flush, state, params, out, phases, votes, clean)

    def _score(self, weights: Floats32, block: Block) -> tuple[Floats, Floats | None]:
        """Score a block with the network, whose parameters are views of `weights`."""
        del weights
        with torch.no_grad():
            judged = self.judge(_batch(block))
        made = judged.reconstruction
        return judged.scores.double().numpy(), None if made is None else made.double().numpy()

    def _learn(self, weights: Floats32, block: Block, learnable: Bools, lr: float) -> None:
        """Take one SGD step on the learnable samples' errors, divided by the window's length."""
        del weights
        parameters = list(self.network.parameters())
        errors = self.errors(_batch(block))[0]
        loss = (errors * torch.from_numpy(learnable.astype(np.float32))).sum() / self.window
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                if gradient is not None:
                    parameter.sub_(gradient, alpha=lr)

    # ------------------------------------------------------------------ inside

    def _packed(self) -> Floats32:
        parameters = [each.detach().reshape(-1) for each in self.network.parameters()]
        packed: Floats32 = torch.cat(parameters).numpy().astype(np.float32)
        return packed

    def _bind(self, weights: Floats32) -> None:
        """Make the network's parameters views of a packed vector."""
        flat, at = torch.from_numpy(weights), 0
        for parameter in self.network.parameters():
            count = parameter.numel()
            parameter.data = flat[at : at + count].view(parameter.shape)
            at += count


def descend(optimiser: torch.optim.Optimizer, loss: Tensor) -> float:
    """Take a step down a loss, and return it."""
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()
    return loss.item()


def _batch(block: Block) -> WindowBatch:
    """Return windows as the network takes them."""
    windows, there = block.windows.astype(np.float32), block.there.astype(np.float32)
    return WindowBatch(torch.from_numpy(windows), torch.from_numpy(there))
