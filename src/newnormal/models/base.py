"""What a model is to the detector."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from newnormal.core import live
from newnormal.core.scaling import Scaler
from newnormal.kernels.step import PENDING, Rules, Sheet, Stream
from newnormal.types import Floats, Floats32

__all__ = ["Live", "Model", "OnEpoch", "Training", "scores"]

_CHUNK = 65_536  # samples scored at once: verdicts in full are much larger than their scores

OnEpoch: TypeAlias = Callable[[int, float], None]  # (epochs done, mean loss of the last one)


@dataclass(frozen=True)
class Training:
    """How a model is trained."""

    stride: int  # between training windows
    epochs: int
    batch: int
    seed: int
    lr: float = 1e-3


class Live:
    """How a model's stream begins and is wound back, for models with no state of their own."""

    window: int
    channels: int

    def fresh(self, weights: Floats32) -> Stream:
        """Return the state before the first sample."""
        return live.fresh(self.window, self.channels, weights)

    def drop_pending(self, stream: Stream, count: int) -> None:
        """Forget the newest `count` samples, none of which has a verdict yet."""
        live.drop_pending(stream, count)

    def forget_samples(self, stream: Stream, *, anew: bool = False) -> None:
        """Forget the newest samples and keep what was learned; with `anew`, count from 0."""
        live.forget_samples(stream, anew=anew)

    def learned(self, stream: Stream) -> tuple[Floats32, Floats]:
        """Return copies of what was learned: the weights, and the trend."""
        return stream.weights.copy(), stream.trend.copy()

    def recall(self, stream: Stream, weights: Floats32, trend: Floats) -> None:
        """Let the stream know what `learned` returned, and nothing later; its samples stay."""
        live.recall(stream, weights)
        stream.trend[:] = trend

    def catch_up(self, stream: Stream, jump: Floats, age: int, decay: float) -> None:
        """Let the trend make up for what it has not yet followed of a jump `age` samples ago."""
        stream.trend[:] += jump * decay ** (age / self.window)

    def eager(self, factor: float) -> Self:  # noqa: ARG002 - the protocol's signature
        """Return the model that learns also from samples that many times as bad.

        What it learns from by the rules' threshold is for the caller to change.
        """
        return self


class Model(Protocol):
    """A model of normal windows, whose parameters are one packed vector of float32.

    The vector belongs to the stream, not to the model: it is what adapts, what the state file
    holds, and what `reset` puts back.
    """

    def __init__(self, window: int, channels: int, latent: int) -> None: ...

    center: Floats  # (C,) history's mean, scaled as the model has it; the trend counts from there

    @property
    def reconstructs(self) -> bool:
        """Whether it says what it expected; if not, verdicts have no `expected` and `shares`."""
        ...

    @property
    def adaptable(self) -> tuple[str, ...]:
        """The names of the parameters that may change at test time."""
        ...

    def scaler(self, history: Floats) -> Scaler:
        """Return the scaling this model wants, fitted on history (T, C)."""
        ...

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return what `fit` found besides the parameters, for the state file."""
        ...

    def restore(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `tensors` returned."""
        ...

    @property
    def parameters(self) -> int:
        """How many parameters there are."""
        ...

    @property
    def size(self) -> int:
        """How long their packed vector is."""
        ...

    def fit(
        self, history: Floats, training: Training, on_epoch: OnEpoch | None = None
    ) -> tuple[Floats32, list[float]]:
        """Return the parameters learned from scaled history (T, C), and each epoch's loss."""
        ...

    def advance(
        self, samples: Floats, flush: bool, stream: Stream, rules: Rules, sheet: Sheet
    ) -> None:
        """Consume samples (T, C) in the user's units, as `newnormal.kernels.step` says."""
        ...

    def fresh(self, weights: Floats32) -> Stream:
        """Return the state before the first sample."""
        ...

    def drop_pending(self, stream: Stream, count: int) -> None:
        """Forget the newest `count` samples, none of which has a verdict yet."""
        ...

    def forget_samples(self, stream: Stream, *, anew: bool = False) -> None:
        """Forget the newest samples and keep what was learned; with `anew`, count from 0."""
        ...

    def learned(self, stream: Stream) -> tuple[Floats32, Floats]:
        """Return copies of what was learned: the weights, and the trend."""
        ...

    def recall(self, stream: Stream, weights: Floats32, trend: Floats) -> None:
        """Let the stream know what `learned` returned, and nothing later; its samples stay."""
        ...

    def catch_up(self, stream: Stream, jump: Floats, age: int, decay: float) -> None:
        """Let the trend make up for what it has not yet followed of a jump `age` samples ago.

        The jump (C,) is in the model's scaling; `decay` is the rules'.
        """
        ...

    def eager(self, factor: float) -> Self:
        """Return the model that learns also from samples that many times as bad.

        What it learns from by the rules' threshold is for the caller to change.
        """
        ...


def scores(model: Model, stream: Stream, rules: Rules, values: Floats) -> Floats:
    """Run over a series (T, C), tail included, and return its scores alone."""
    parts = []
    for at in range(0, len(values), _CHUNK):
        chunk = values[at : at + _CHUNK]
        sheet = live.blank_sheet(int(stream.counts[PENDING]) + len(chunk), values.shape[1])
        model.advance(chunk, at + _CHUNK >= len(values), stream, rules, sheet)
        parts.append(sheet.scores[: len(sheet.scores) - int(stream.counts[PENDING])])
    return np.concatenate(parts)
