"""What a model is: three methods for its author, the rest is here.

A model scores windows of samples by how badly they fit what history looked like. Its parameters are
one packed vector of float32, which belongs to the stream and not to the model: it is what adapts,
what the state file holds, and what `reset` puts back.

An author writes `_fit`, `_score` and, for a model that can adapt, `_learn`; what the model can do
is data (`reconstructs`, `scaling`, ...). `newnormal.testing.check_model` finds what is wrong with
it, and docs/guides/extending.md has an example.

One module because it is one class, what its author writes and what the detector asks of it, and
the loop of models that are not compiled.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from newnormal.core.rhythm import Rhythm
from newnormal.core.scaling import Scaler
from newnormal.core.stages import Scorer
from newnormal.core.state import aligned
from newnormal.errors import ParameterError, StateError
from newnormal.kernels.decision import decide
from newnormal.kernels.step import (
    AGE,
    COPY_EVERY,
    CYCLE,
    HELD,
    LEARNED,
    PENDING,
    RESTORED,
    SEEN,
    StepOut,
    StepParams,
    StepState,
    blank_out,
)
from newnormal.kernels.stream import ModelState
from newnormal.types import Bools, Floats, Floats32, Ints

_CHUNK = 65_536  # samples scored at once: verdicts in full are much larger than their scores

OnEpoch: TypeAlias = Callable[[int, float], None]  # (epochs done, mean loss of the last one)
OnPhase: TypeAlias = Callable[[str, float], None]  # (what is done now, share of the fit so far)


@dataclass(frozen=True)
class Training:
    """How a model is trained; a model is free not to use what it has no need for."""

    stride: int  # between training windows
    epochs: int
    batch: int
    seed: int  # the only source of chance: the same seed must give the same parameters
    lr: float = 1e-3
    on_epoch: OnEpoch | None = None  # to be called after each epoch
    phases: Floats | None = None  # (T,) of history in its rhythm; None: it has none
    rhythm: Rhythm | None = None


class Block(NamedTuple):
    """Windows scored at once: scaled, the trend subtracted, 0 where missing."""

    windows: Floats  # (B, L, C)
    there: Bools  # (B, L, C) whether observed
    newest: Ints  # (B,) how many of a window's last samples get their verdict


class Model(Scorer, ABC):
    """A model of normal windows.

    Parameters
    ----------
    window, channels, latent
        As for the detector; a model is free not to use `latent`.

    Attributes
    ----------
    reconstructs
        Whether `_score` returns a reconstruction; if not, verdicts have no `expected` and `shares`.
    learns
        Whether it can adapt; a class that has `_learn` does.
    scaling
        What the samples are scaled to: ``"standard"``, or ``"range"`` for 0 to 1.
    at_once
        Windows scored in one call, at most, where nothing is learned between them.
    holds_objects
        Whether it has objects that cannot be a part of the packed parameters, such as another
        library's detector. `_fit` stores them as `objects`. Each stream gets a copy, which is
        `self.objects` while `_score` and `_learn` run. Such a model cannot be saved.
    objects
        Those objects; None for most models.

    Examples
    --------
    A model in full: a sample's score is its mean squared distance from a center that learns.

    >>> class Center(Model):
    ...     reconstructs = False
    ...
    ...     def _fit(self, history, training):
    ...         return np.nanmean(history, axis=0).astype(np.float32), []
    ...
    ...     def _score(self, weights, block):
    ...         squares = block.there * (block.windows - weights) ** 2
    ...         return squares.sum(axis=2) / np.maximum(block.there.sum(axis=2), 1), None
    ...
    ...     def _learn(self, weights, block, learnable, lr):
    ...         for sample in block.windows[0, learnable]:
    ...             weights += np.float32(lr) * (sample - weights)

    Notes
    -----
    `_score` and `_learn` must leave `self` alone: a model is shared by all streams of one fit, and
    only `weights` (and a copy of `objects`) belong to a stream.
    """

    reconstructs: ClassVar[bool] = True
    learns: ClassVar[bool] = False
    scaling: ClassVar[str] = "standard"
    at_once: ClassVar[int] = 256
    holds_objects: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        if "_learn" in vars(cls) and "learns" not in vars(cls):
            cls.learns = True

    def __init__(self, window: int, channels: int, latent: int) -> None:
        self.window = window
        self.channels = channels
        self.latent = latent
        self.center: Floats = np.zeros(channels)  # history's mean, scaled: the trend starts there
        self.size = 0  # parameters in the packed vector, known once fitted
        self.objects: Any = None

    # ------------------------------------------------------------------ for authors

    @abstractmethod
    def _fit(self, history: Floats, training: Training) -> tuple[Floats32, list[float]]:
        """Train on scaled history (T, C), NaN where missing.

        Returns the parameters as one float32 vector (empty where there is nothing to adapt), and
        each epoch's mean loss, or an empty list. What else scoring needs goes into attributes, and
        into `_tensors`.
        """

    @abstractmethod
    def _score(self, weights: Floats32, block: Block) -> tuple[Floats, Floats | None]:
        """Score windows: scores (B, L), and the reconstruction (B, L, C) if it `reconstructs`.

        Scores point up. Those of the last `block.newest` samples of a window become verdicts; those
        of samples with nothing observed are not used. Windows are scored independently of each
        other: how many come at once is up to the caller.
        """

    def _learn(self, weights: Floats32, block: Block, learnable: Bools, lr: float) -> None:
        """Take one step of size `lr` on the learnable samples (L,) of the block's one window.

        Change `weights` in place; the next window is scored with them.
        """
        raise NotImplementedError

    def _tensors(self) -> dict[str, NDArray[Any]]:
        """Return what `_fit` found besides the parameters, as arrays of numbers, for the file."""
        return {}

    def _restore(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `_tensors` returned; raise a StateError where shapes do not fit."""

    # ------------------------------------------------------------------ for the detector

    @property
    def parameters(self) -> int:
        """How many parameters there are."""
        return self.size

    @property
    def adaptable(self) -> tuple[str, ...]:
        """The names of the parameters that may change at test time."""
        return ("weights",) if self.learns else ()

    def scaler(self, history: Floats) -> Scaler:
        """Return the scaling this model wants, fitted on history (T, C)."""
        return Scaler.fit_range(history) if self.scaling == "range" else Scaler.fit(history)

    def fit(self, history: Floats, training: Training) -> tuple[Floats32, list[float]]:
        """Return the parameters learned from scaled history (T, C), and each epoch's loss."""
        if self.scaling == "range":
            self.center = np.nanmean(history, axis=0)
        weights: Any
        weights, losses = self._fit(history, training)
        if not isinstance(weights, np.ndarray) or weights.ndim != 1 or weights.dtype != np.float32:
            raise ParameterError(
                f"model: expected one float32 vector of parameters from {self.name}._fit, "
                f"found {_described(weights)}",
                hint="return np.concatenate([...]).astype(np.float32), losses",
            )
        self.size = len(weights)
        return weights, losses

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return what `fit` found besides the parameters, for the state file."""
        self.check_savable()
        own = {f"own.{name}": array for name, array in self._tensors().items()}
        return {"center": self.center, **own}

    def restore(self, tensors: Mapping[str, NDArray[Any]], size: int) -> None:
        """Take back what `tensors` returned; `size` is that of the packed parameters."""
        center = np.array(tensors["center"])
        if center.shape != (self.channels,) or center.dtype != np.float64:
            raise StateError(
                f"model.center: expected {self.channels} numbers, found {center.shape}"
            )
        self.center, self.size = center, size
        own = {name[4:]: array for name, array in tensors.items() if name.startswith("own.")}
        self._restore(own)

    def check_savable(self) -> None:
        """Raise a StateError if this model cannot be a part of a state file."""
        if self.holds_objects:
            raise StateError(
                f"{self.name} cannot be saved: it holds objects of its own, and a state file holds "
                "nothing that could run",
                hint="fit it again where it is needed, or choose one of newnormal's own models",
            )

    @property
    def name(self) -> str:
        """The model's name in messages."""
        return type(self).__name__

    # ------------------------------------------------------------------ a stream

    def initial(self, weights: Floats32) -> ModelState:
        """Return the state before the first sample: trend at history's mean, weights as given."""
        step = StepState(
            samples=np.full((self.window, self.channels), np.nan),
            trend=np.zeros(self.channels),
            weights=aligned(weights),
            good=aligned(weights),
            reach=np.abs(weights, dtype=np.float64).sum(keepdims=True),
            counts=np.zeros(7, dtype=np.int64),
        )
        # In a list, so that `_learn` may also bind another object.
        own = [copy.deepcopy(self.objects)] if self.holds_objects else None
        return ModelState(step, own)

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
        """Consume samples (T, C) and write the verdicts that became final.

        `phases` (T,) is where each sample is in the rhythm of the stream, NaN where unknown.
        `votes`, a column for each of `vote_kinds` and a row for each of `out`, gets the votes.
        """
        _advance(self, samples, flush, state, params, out)

    def score_block(
        self, block: Block, state: ModelState, params: StepParams
    ) -> tuple[Floats, Floats | None]:
        """Score a block; weights that give a score that is not finite are replaced."""
        step, unseen = state.step, ~block.there.any(axis=2)
        scores, reconstruction = self.scored(block, state)
        for source in (step.good, params.fitted):
            if not len(step.weights) or np.isfinite(scores[~unseen]).all():
                break
            step.weights[:] = source
            if source is params.fitted:
                step.good[:] = source
            else:
                step.counts[RESTORED] += 1
                step.counts[AGE] = 0
            scores, reconstruction = self.scored(block, state)
        return np.where(unseen, np.nan, scores), reconstruction

    def scored(self, block: Block, state: ModelState) -> tuple[Floats, Floats | None]:
        """Return what `_score` gives for a block, with the weights and objects of a stream."""
        with self._of(state) as model:
            return model._score(state.step.weights, block)

    @contextmanager
    def _of(self, state: ModelState) -> Iterator[Self]:
        """Give this model with the stream's own objects."""
        if not self.holds_objects:
            yield self
            return
        model = copy.copy(self)
        (model.objects,) = state.own
        yield model
        state.own[0] = model.objects

    def learn_block(
        self, block: Block, learnable: Bools, state: ModelState, params: StepParams
    ) -> None:
        """Take one step on the learnable samples of the block's only window, and check it."""
        if not learnable.any():
            return
        step = state.step
        with self._of(state) as model:
            model._learn(step.weights, block, learnable, float(params.lr))
        step.counts[LEARNED] += 1
        step.counts[AGE] += 1
        if not np.isfinite(step.weights).all():
            step.weights[:] = step.good
            step.counts[RESTORED] += 1
            step.counts[AGE] = 0
        elif step.counts[AGE] >= COPY_EVERY:
            step.good[:] = step.weights
            step.counts[AGE] = 0

    def drop_pending(self, state: ModelState, count: int) -> None:
        """Forget the newest `count` samples, none of which has a verdict yet."""
        step = state.step
        if not 0 <= count <= step.counts[PENDING]:
            raise ValueError(f"{count} samples to drop, {step.counts[PENDING]} pending")
        if count:
            step.samples[count:] = step.samples[:-count].copy()
            step.samples[:count] = np.nan
            for position in (SEEN, HELD, PENDING, CYCLE):
                step.counts[position] -= count

    def forget_samples(self, state: ModelState, *, anew: bool = False) -> None:
        """Forget the newest samples and keep what was learned; with `anew`, count from 0."""
        step = state.step
        step.samples[:] = np.nan
        if anew:
            step.counts[:] = 0
        for position in (HELD, PENDING, CYCLE):
            step.counts[position] = 0

    def snapshot(self, state: ModelState) -> tuple[Floats32, Floats]:
        """Return copies of what was learned: the weights, and the trend."""
        return state.step.weights.copy(), state.step.trend.copy()

    def restore_learned(self, state: ModelState, weights: Floats32, trend: Floats) -> None:
        """Restore what `snapshot` returned; the samples stay."""
        step = state.step
        step.weights[:] = weights
        step.good[:] = weights
        step.reach[:] = np.abs(weights, dtype=np.float64).sum()
        step.counts[AGE] = 0
        self._restore_trend(state, trend)

    def _restore_trend(self, state: ModelState, trend: Floats) -> None:
        state.step.trend[:] = trend

    def shift_trend(self, state: ModelState, jump: Floats, age: int, decay: float) -> None:
        """Shift the trend by what it has not yet followed of a jump `age` samples ago.

        The jump (C,) is in the model's scaling; `decay` is that of the parameters.
        """
        state.step.trend[:] += jump * decay ** (age / self.window)

    @property
    def sizes(self) -> dict[str, Any]:
        """How long the axes of its arrays are, by the letters of `newnormal.types.tables`."""
        C = self.channels
        return {"L": self.window, "C": C, "P": self.size, "T": (C,), "V": self.vote_count}

    def expected_spread(self, params: StepParams) -> Floats | None:  # noqa: ARG002
        """Return the usual distance of each channel from what is expected, or None: not known."""
        return None


def checked(tensors: Mapping[str, NDArray[Any]], name: str, like: NDArray[Any]) -> NDArray[Any]:
    """Return a tensor of a state file, for `_restore`, if it is finite and in form `like` another.

    Raises
    ------
    StateError
        If it is not there, or is not what it must be.
    """
    if (tensor := tensors.get(name)) is None:
        raise StateError(f"expected a tensor model.own.{name}, found none")
    if tensor.shape != like.shape or tensor.dtype != like.dtype:
        raise StateError(
            f"model.own.{name}: expected {like.dtype} of shape {like.shape}, "
            f"found {tensor.dtype} of shape {tensor.shape}"
        )
    if not np.isfinite(tensor).all():
        raise StateError(f"model.own.{name}: expected finite numbers, found others")
    return np.array(tensor)


def scores(
    model: Model, params: StepParams, values: Floats, phases: Floats | None = None
) -> Floats:
    """Run over a series (T, C), tail included, from the fitted state; return its scores alone."""
    state = model.initial(params.fitted)
    parts = []
    for at in range(0, len(values), _CHUNK):
        chunk = values[at : at + _CHUNK]
        pending = int(state.step.counts[PENDING])
        out = blank_out(pending + len(chunk), values.shape[1])
        own = None if phases is None else phases[at : at + _CHUNK]
        model.advance(chunk, at + _CHUNK >= len(values), state, params, out, own)
        parts.append(out.scores[: len(out.scores) - int(state.step.counts[PENDING])])
    return np.concatenate(parts)


def _described(found: object) -> str:
    if isinstance(found, np.ndarray):
        return f"{found.dtype} of shape {found.shape}"
    return f"a {type(found).__name__}"


def _advance(
    model: Model, samples: Floats, flush: bool, state: ModelState, params: StepParams, out: StepOut
) -> None:
    """Run the loop of `newnormal.kernels.step` in Python: the same order, the same counting.

    Where nothing is learned between windows, many are judged at once. Shapes: B windows judged at
    once, L window length, C channels.
    """
    step = state.step
    L = len(step.samples)
    out.scores[:] = out.expected[:] = out.shares[:] = np.nan
    out.anomalous[:] = False
    series = np.concatenate([step.samples, samples])
    points = _points(len(samples), flush, L, params.stride, step.counts)
    scaled = Scaler(params.mean, params.scale).apply(series)
    windows = sliding_window_view(scaled, L, axis=0).transpose(0, 2, 1)  # (T + 1, L, C)
    at = row = 0
    while at < len(points):
        until = _until(points, at, model.at_once, learning=params.lr != 0)
        z = windows[[point.consumed for point in points[at:until]]]  # (B, L, C)
        offsets = np.empty((until - at, 1, z.shape[2]))
        for k, point in enumerate(points[at:until]):
            if point.ends_cycle:
                _update_trend(step.trend, z[k], params.decay, model.center)
            offsets[k, 0] = step.trend
        missing = np.isnan(z)
        newest = np.array([point.newest for point in points[at:until]], dtype=np.int64)
        block = Block(np.where(missing, 0, z - offsets), ~missing, newest)
        scores, reconstruction = model.score_block(block, state, params)
        for k in range(until - at):
            _report(block, k, scores, reconstruction, offsets, params, out, row)
            row += int(newest[k])
        if params.lr != 0 and points[at].ends_cycle:
            threshold = params.learn_threshold
            learnable = np.array([decide(score, threshold, threshold)[1] for score in scores[0]])
            model.learn_block(block, learnable, state, params)
        at = until
    step.samples[:] = series[-L:]


class _Point(NamedTuple):
    """A moment at which a window is judged."""

    consumed: int  # of the samples handed in
    newest: int  # samples that get their verdict
    ends_cycle: bool


def _points(arriving: int, flush: bool, window: int, stride: int, counts: Ints) -> list[_Point]:
    """Count samples in, as `kernels.step.advance` does, and return when windows are judged."""
    points = []
    for t in range(arriving + 1):
        if t < arriving:
            counts[SEEN] += 1
            counts[HELD] = min(counts[HELD] + 1, window)
            counts[PENDING] += 1
            counts[CYCLE] = 1 if counts[CYCLE] == window else counts[CYCLE] + 1
            due = counts[HELD] == window and counts[PENDING] >= stride
            ends_cycle = bool(counts[CYCLE] == window)
        else:
            due = flush and counts[HELD] == window and counts[PENDING] > 0
            ends_cycle = True
        if due:
            points.append(_Point(min(t + 1, arriving), int(counts[PENDING]), ends_cycle))
            counts[PENDING] = 0
            if ends_cycle:
                counts[CYCLE] = window
    return points


def _until(points: list[_Point], at: int, most: int, learning: bool) -> int:
    """Return where the block that begins `at` ends: a window that is learned from is alone."""
    if not learning:
        return min(len(points), at + most)
    until = at + 1
    while (
        not points[at].ends_cycle
        and until < min(len(points), at + most)
        and not points[until].ends_cycle
    ):
        until += 1
    return until


def _update_trend(trend: Floats, scaled: Floats, decay: float, center: Floats) -> None:
    """μ ← γ·μ + (1 - γ)·mean(window), where μ counts from history's mean."""
    there = ~np.isnan(scaled)
    seen = there.any(axis=0)
    means = np.where(there, scaled, 0).sum(axis=0)[seen] / there.sum(axis=0)[seen]
    trend[seen] = decay * trend[seen] + (1 - decay) * (means - center[seen])


def _report(
    block: Block,
    k: int,
    scores: Floats,
    reconstruction: Floats | None,
    offsets: Floats,
    params: StepParams,
    out: StepOut,
    row: int,
) -> None:
    """Write the verdicts of a window's newest samples, from `row` on."""
    newest = int(block.newest[k])
    rows = slice(row, row + newest)
    new = slice(block.windows.shape[1] - newest, None)
    threshold = params.alarm_threshold
    out.scores[rows] = scores[k, new]
    out.anomalous[rows] = [decide(score, threshold, threshold)[0] for score in scores[k, new]]
    if reconstruction is not None:
        made = reconstruction[k, new]
        out.expected[rows] = (made + offsets[k]) * params.scale + params.mean
        given = block.windows[k, new].astype(np.float32)
        squares = block.there[k, new] * (made - given) ** 2
        total = squares.sum(axis=1, keepdims=True)
        shares = squares / np.where(total > 0, total, 1)
        out.shares[rows] = np.where(np.isnan(scores[k, new])[:, None], np.nan, shares)
