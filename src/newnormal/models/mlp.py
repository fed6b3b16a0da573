"""The paper's MLP autoencoder: trained with BLAS, run by the compiled loop."""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from newnormal.core.windows import starts
from newnormal.kernels.mlp import PAD
from newnormal.kernels.step import StepOut, StepParams, advance
from newnormal.kernels.stream import ModelState
from newnormal.kernels.training import activate, adam_step, pull_back
from newnormal.models.base import Block, Model, Training
from newnormal.models.blas import one_thread
from newnormal.types import Floats, Floats32, Ints

_LATENTS = (1, 2, 4, 8, 16)
_OUTER = (16, 64)
_INNER = (8, 32)
_BOTTLENECK = 2  # the layer that leads to it


def widths_of(n: int) -> tuple[int, ...]:
    """Return the bounded widths of an autoencoder of `n` values.

    The bottleneck is at most half of the values, so that it cannot copy them, and the layers
    around it are wide enough to learn. They are the same for all streams of one shape.

    >>> widths_of(5), widths_of(1000)
    ((5, 16, 8, 2, 8, 16, 5), (1000, 64, 32, 16, 32, 64, 1000))
    """
    latent = max(each for each in _LATENTS if each <= max(n // 2, 1))
    outer = min(max(n // 2, _OUTER[0]), _OUTER[1])
    inner = min(max(n // 4, _INNER[0]), _INNER[1])
    return n, outer, inner, latent, inner, outer, n


class MLP(Model):
    """n → n/2 → n/4 → latent → n/4 → n/2 → n with n = window × channels.

    ReLU after every layer but the last, the latent one included. Parameters are one packed
    vector; `newnormal.kernels.mlp` describes its layout.

    `window`: samples in a window. `channels`: channels in a sample. `latent`: width of the
    bottleneck. `bounded`: whether the widths are those of `widths_of` instead.
    """

    learns: ClassVar[bool] = True  # in the compiled loop

    def __init__(self, window: int, channels: int, latent: int, *, bounded: bool = False) -> None:
        super().__init__(window, channels, latent)
        self.bounded = bounded
        n = window * channels
        outer, inner = max(n // 2, 1), max(n // 4, 1)
        widths = widths_of(n) if bounded else (n, outer, inner, latent, inner, outer, n)
        self.widths: Ints = np.array(widths, dtype=np.int64)
        # As they are laid out: see kernels.mlp.
        self.padded = np.where(self.widths < PAD, self.widths, -(-self.widths // PAD) * PAD)
        inputs, outputs = self.padded[:-1], self.padded[1:]
        self.size = int(((inputs + 1) * outputs).sum())  # of the packed vector, padding included

    @property
    def adaptable(self) -> tuple[str, ...]:
        """Every matrix and bias."""
        layers = range(1, len(self.widths))
        return tuple(f"layer{layer}.{part}" for layer in layers for part in ("matrix", "bias"))

    @property
    def parameters(self) -> int:
        """How many parameters there are."""
        inputs, outputs = self.widths[:-1], self.widths[1:]
        return int(((inputs + 1) * outputs).sum())

    def layers(self, packed: Floats32) -> list[tuple[Floats32, Floats32]]:
        """Return each layer's matrix (in, out) and bias (out,) as views into a packed vector."""
        return [
            (matrix[:inputs, :outputs], bias[:outputs])
            for (matrix, bias), (inputs, outputs) in zip(
                self.padded_layers(packed), pairwise(self.widths.tolist()), strict=True
            )
        ]

    def padded_layers(self, packed: Floats32) -> list[tuple[Floats32, Floats32]]:
        """Return the same with the padding."""
        views, at = [], 0
        for layer, (inputs, outputs) in enumerate(pairwise(self.padded.tolist())):
            matrix = packed[at : at + inputs * outputs]
            if layer == 0:
                matrix = matrix.reshape(outputs, inputs).T
            else:
                matrix = matrix.reshape(inputs, outputs)
            at += inputs * outputs
            views.append((matrix, packed[at : at + outputs]))
            at += outputs
        return views

    def initial_weights(self, rng: np.random.Generator) -> Floats32:
        """Return untrained parameters, uniform within ±1/√(inputs of the layer).

        With bounded widths the bottleneck's bias is 1: of its few units none begins below zero for
        all windows, where a ReLU has no gradient and it would learn nothing.
        """
        packed = np.zeros(self.size, dtype=np.float32)
        for matrix, bias in self.layers(packed):
            bound = 1 / np.sqrt(len(matrix))
            matrix[:] = rng.uniform(-bound, bound, size=matrix.shape[::-1]).T
            bias[:] = rng.uniform(-bound, bound, size=bias.shape)
        if self.bounded:
            self.layers(packed)[_BOTTLENECK][1][:] = 1.0
        return packed

    def _fit(self, history: Floats, training: Training) -> tuple[Floats32, list[float]]:
        """Train with AdamW on shuffled windows, and keep the epoch with the lowest mean loss.

        There is no trend in training: history is standardised, and μ is 0.
        """
        rng = np.random.default_rng(training.seed)
        weights = self.initial_weights(rng)
        trainer = _Trainer(self, weights, history, training)
        best, losses = weights.copy(), []
        with one_thread():
            for epoch in range(training.epochs):
                losses.append(trainer.epoch(rng.permutation(len(trainer.starts))))
                if losses[-1] == min(losses):
                    best[:] = weights
                if training.on_epoch is not None:
                    training.on_epoch(epoch + 1, losses[-1])
        return best, losses

    def advance(
        self,
        samples: Floats,
        flush: bool,
        state: ModelState,
        params: StepParams,
        out: StepOut,
        phases: Floats | None = None,  # noqa: ARG002 - a committee uses it
        votes: Floats32 | None = None,  # noqa: ARG002
        clean: Floats | None = None,  # noqa: ARG002
    ) -> None:
        """Run the compiled loop, which scores and learns."""
        advance(samples, flush, self.padded, state.step, params, out)

    def _score(self, weights: Floats32, block: Block) -> tuple[Floats, Floats | None]:
        raise NotImplementedError  # the compiled loop does it


class _Trainer:
    """Forward, backward and AdamW over batches of windows, in buffers made once."""

    def __init__(self, model: MLP, weights: Floats32, history: Floats, training: Training) -> None:
        n = model.window * model.channels
        self.starts = starts(len(history), model.window, training.stride)
        missing = np.isnan(history)
        # (windows, n) views, not copies: with stride 1 copies would be `window` times the data.
        self.inputs = _windows(np.where(missing, 0, history).astype(np.float32), n)
        self.weighting: NDArray[np.float32] | None = None  # of each square in the mean
        if missing.any():
            observed = np.maximum((~missing).sum(axis=1, keepdims=True), 1)
            self.weighting = _windows(
                (~missing * (model.channels / observed)).astype(np.float32), n
            )
        self.channels = model.channels
        self.batch = min(training.batch, len(self.starts))
        self.lr = training.lr
        self.steps = 0
        self.weights = weights
        self.gradient = np.zeros_like(weights)
        self.first = np.zeros_like(weights)
        self.second = np.zeros_like(weights)
        self.layers = model.padded_layers(weights)
        self.gradients = model.padded_layers(self.gradient)
        shape = [(self.batch, int(width)) for width in model.padded]
        self.units = [np.zeros(each, dtype=np.float32) for each in shape]
        self.deltas = [np.zeros(each, dtype=np.float32) for each in shape]

    def epoch(self, order: Ints) -> float:
        """Take a step on each batch of windows, in the given order, and return the mean loss."""
        total = 0.0
        for at in range(0, len(order), self.batch):
            chosen = self.starts[order[at : at + self.batch]] * self.channels
            total += self.step(chosen) * len(chosen)
        return total / len(order)

    def step(self, chosen: Ints) -> float:
        """Take one step on the windows that start at `chosen`, and return their mean loss."""
        size, n = len(chosen), int(self.inputs.shape[1])
        units, deltas = self.units, self.deltas
        if size < self.batch:
            units, deltas = [each[:size] for each in units], [each[:size] for each in deltas]
        units[0][:, :n] = self.inputs[chosen]
        last = len(self.layers) - 1
        # np.dot, which starts faster than np.matmul: there are 17 products in a step.
        for layer, (matrix, bias) in enumerate(self.layers):
            np.dot(units[layer], matrix, out=units[layer + 1])
            activate(units[layer + 1], bias, layer < last)

        residual = deltas[-1]
        np.subtract(units[-1], units[0], out=residual)
        if self.weighting is None:
            loss = float(np.vdot(residual, residual)) / (size * n)
        else:
            weighted = residual[:, :n] * self.weighting[chosen]
            loss = float(np.vdot(residual[:, :n], weighted)) / (size * n)
            residual[:, :n] = weighted
        residual *= 2 / (size * n)

        for layer in range(last, -1, -1):
            matrix_gradient, bias_gradient = self.gradients[layer]
            pull_back(deltas[layer + 1], units[layer + 1], layer < last, bias_gradient)
            if layer == 0:  # its matrix is stored (out, in): see kernels.mlp
                np.dot(deltas[1].T, units[0], out=matrix_gradient.T)
            else:
                np.dot(units[layer].T, deltas[layer + 1], out=matrix_gradient)
                np.dot(deltas[layer + 1], self.layers[layer][0].T, out=deltas[layer])
        self.steps += 1
        adam_step(self.weights, self.gradient, self.first, self.second, self.steps, self.lr)
        return loss


def _windows(series: Floats32, n: int) -> Floats32:
    """Return every run of `n` values of a (T, C) series as a row of a view."""
    return sliding_window_view(series.reshape(-1), n)
