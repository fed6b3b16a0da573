"""A committee: autoencoders with memories of different length, and a linear subspace.

It is the model of `Detector`. `newnormal.tuning` decides which votes count.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from newnormal.core.scaling import deviations
from newnormal.core.state import ModelState
from newnormal.kernels.committee import (
    LEAST,
    CommitteeParams,
    CommitteeState,
    advance,
    advance_squares,
    detrend,
)
from newnormal.kernels.step import (
    AGE,
    CYCLE,
    HELD,
    PENDING,
    SEEN,
    StepOut,
    StepParams,
    blank_out,
)
from newnormal.models.base import Block, Model, Training
from newnormal.models.mlp import MLP
from newnormal.types import Bools, Floats, Floats32

__all__ = ["Committee", "Plan", "Vote"]

_CHUNK = 16_384  # samples calibrated at once
_FLOOR = 1e-3  # of a channel's usual residual, as a share of the mean channel's
_NARROW = 1e-6  # a spread below this is that of a constant
_LEFT = 1e-4  # of history's variance stays outside a linear subspace, at least
_COUNTS = 7  # see kernels.step
# Of the parameters, what fitting finds; the others follow from the plan.
_FITTED = (
    "decays",
    "scales",
    "learn_below",
    "rates",
    "bases",
    "residual_scale",
    "centers",
    "spreads",
)


@dataclass(frozen=True)
class Vote:
    """One score of what an expert's memory leaves of the stream.

    Attributes
    ----------
    expert
        Which memory of the plan.
    linear
        Whether it is the linear subspace's score, not the autoencoder's.
    weight
        Its weight beside the others'; 0 is not counted.
    """

    expert: int
    linear: bool
    weight: float = 1.0


@dataclass(frozen=True)
class Plan:
    """What a committee is made of.

    Attributes
    ----------
    memories
        Half-life of each expert's trend, in samples; infinity keeps history's mean.
    rates
        Learning rate of each expert's autoencoder.
    votes
        The scores that are averaged, the same four in every committee, with their weights.
    smoothing
        Half-life of the smoothing of the score, in samples; 0 does not smooth.
    rank
        Of the linear subspaces.
    learns_below
        The quantile of an expert's own scores on history below which it learns from a sample.
    """

    memories: tuple[float, ...] = (15.0, 60.0, 300.0)
    rates: tuple[float, ...] = (0.003, 0.003, 0.003)
    votes: tuple[Vote, ...] = (Vote(0, False), Vote(1, False), Vote(2, False), Vote(1, True))
    smoothing: float = 0.0
    rank: int = 10
    learns_below: float = 0.99

    @property
    def counted(self) -> list[int]:
        """Which votes have a weight."""
        return [at for at, vote in enumerate(self.votes) if vote.weight > 0]

    @property
    def reported_expert(self) -> int:
        """The expert whose expected values are reported: that of the middle memory."""
        return len(self.memories) // 2

    def to_json(self) -> dict[str, Any]:
        """Return it as values of JSON."""
        return {
            "memories": [None if math.isinf(each) else each for each in self.memories],
            "rates": list(self.rates),
            "votes": [[vote.expert, vote.linear, vote.weight] for vote in self.votes],
            "smoothing": self.smoothing,
            "rank": self.rank,
            "learns_below": self.learns_below,
        }

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Plan:
        """Return what `to_json` was made from."""
        return cls(
            tuple(math.inf if each is None else float(each) for each in facts["memories"]),
            tuple(map(float, facts["rates"])),
            tuple(Vote(int(at), bool(linear), float(w)) for at, linear, w in facts["votes"]),
            float(facts["smoothing"]),
            int(facts["rank"]),
            float(facts["learns_below"]),
        )


class Committee(Model):
    """Experts that each subtract a trend of their own memory, and vote on what is left.

    An expert's autoencoder is trained on history less the trend it will subtract live. Its score
    of a sample is the mean over channels of squared residuals, each in units of what history left
    of that channel, so that a channel that is always noisy does not outweigh the others; the
    logarithm of that, standardised by history, is its vote. The committee's score is the
    exponential of the mean vote: 1 is usual, and each vote's doubling counts alike.

    Notes
    -----
    With x a sample, μ ← γ·μ + (1 - γ)·x an expert's trend, r the residual of x - μ, and s, m, d
    the mean square of each channel's residual, the mean and the standard deviation of the
    logarithm on history: vote = (log mean_c(r²/s) - m) / d. The votes' weighted mean is smoothed
    by an exponential moving average where the plan has a `smoothing`.
    """

    learns: ClassVar[bool] = True

    def __init__(self, window: int, channels: int, latent: int, plan: Plan | None = None) -> None:
        super().__init__(window, channels, latent)
        self.plan = plan or Plan()
        self.network = MLP(window, channels, latent)
        self.size = len(self.plan.memories) * self.network.size
        self.params: CommitteeParams  # known once fitted

    @property
    def adaptable(self) -> tuple[str, ...]:
        """Every matrix and bias of every expert."""
        experts = range(len(self.plan.memories))
        return tuple(f"expert{j + 1}.{name}" for j in experts for name in self.network.adaptable)

    @property
    def parameters(self) -> int:
        """How many parameters there are."""
        linear = sum(vote.linear and vote.weight > 0 for vote in self.plan.votes)
        rank = min(self.plan.rank, self.channels // 2)
        return len(self.plan.memories) * self.network.parameters + linear * rank * self.channels

    # ------------------------------------------------------------------ fit

    def _fit(self, history: Floats, training: Training) -> tuple[Floats32, list[float]]:
        """Train each expert on scaled history (T, C) minus its trend, and calibrate the votes."""
        packed, losses, scales, bases = [], [], [], {}
        for j, memory in enumerate(self.plan.memories):
            rest = _rest(history, memory)
            scale = deviations(rest)
            scale[scale == 0] = 1.0
            scales.append(scale)
            rest /= scale
            seed = replace(training, seed=training.seed + j)
            weights, losses_j = self.network.fit(rest, seed)
            packed.append(weights)
            losses += losses_j
            bases[j] = _basis(rest, min(self.plan.rank, self.channels // 2))
        fitted = np.concatenate(packed)
        self.params = self._uncalibrated(np.array(scales), bases)
        self.params = self._calibrated(history, fitted)
        return fitted, losses

    def uncalibrated_params(self) -> CommitteeParams:
        """Return the parameters before history is known: those that follow from the plan."""
        J, C, rank = len(self.plan.memories), self.channels, min(self.plan.rank, self.channels // 2)
        bases = {j: np.zeros((rank, C)) for j in range(J)}
        return self._uncalibrated(np.ones((J, C)), bases)

    def _uncalibrated(self, scales: Floats, bases: Mapping[int, Floats]) -> CommitteeParams:
        plan, V = self.plan, len(self.plan.votes)
        total = sum(vote.weight for vote in plan.votes)
        return CommitteeParams(
            decays=np.array([_decay(memory) for memory in plan.memories]),
            scales=scales,
            learn_below=np.full(len(plan.memories), np.inf),
            rates=np.array(plan.rates, dtype=np.float32),
            bases=np.array([bases[vote.expert] for vote in plan.votes]),
            experts=np.array([vote.expert for vote in plan.votes], dtype=np.int64),
            linear=np.array([vote.linear for vote in plan.votes], dtype=np.int64),
            residual_scale=np.ones((V, self.channels)),
            centers=np.zeros(V),
            spreads=np.ones(V),
            weights=np.array([vote.weight / total for vote in plan.votes]),
            keep=0.0 if plan.smoothing == 0 else _decay(plan.smoothing),
            reported_expert=plan.reported_expert,
        )

    def _calibrated(self, history: Floats, fitted: Floats32) -> CommitteeParams:
        """Return the parameters with each vote in units of its own on history."""
        V, C = len(self.plan.votes), self.channels
        sums, counts = np.zeros((V, C)), np.zeros(C)
        own: list[Floats] = []  # each vote's plain mean square, a sample
        for squares, observed in self._squares(history, fitted):
            sums += squares.sum(axis=1)
            counts += observed.sum(axis=0)
            seen = observed.any(axis=1)
            own.append(squares[:, seen].sum(axis=2) / observed[seen].sum(axis=1))
        scale = sums / np.maximum(counts, 1)
        mean = scale[:, counts > 0].mean(axis=1, keepdims=True)
        scale[:, counts == 0] = mean  # of a channel never observed, nothing else is known
        scale = np.maximum(scale, np.maximum(_FLOOR * mean, LEAST))
        counted = self.plan.counted
        scale[[at for at in range(V) if at not in counted]] = 1.0
        self.params = self.params._replace(residual_scale=scale)
        votes = self.votes(history, fitted, [0.0] * len(self.plan.memories))[counted]
        votes = votes[:, ~np.isnan(votes).any(axis=0)]
        centers, spreads = np.zeros(V), np.ones(V)
        centers[counted] = votes.mean(axis=1)
        spread = votes.std(axis=1)
        spreads[counted] = np.where(spread < _NARROW, 1.0, spread)
        scores = np.concatenate(own, axis=1)
        learn_below = self.params.learn_below.copy()
        for at in counted:
            if not self.plan.votes[at].linear:
                expert = self.plan.votes[at].expert
                learn_below[expert] = np.quantile(scores[at], self.plan.learns_below)
        return self.params._replace(
            learn_below=learn_below, residual_scale=scale, centers=centers, spreads=spreads
        )

    def _squares(
        self, history: Floats, fitted: Floats32, *, learning: bool = False
    ) -> Iterator[tuple[Floats, Bools]]:
        """Give each vote's squared residuals (V, T, C) and what was observed, part by part."""
        params = _neutral(self.channels, fitted, self.window, learning)
        state = self.initial(fitted)
        for at in range(0, len(history), _CHUNK):
            part = history[at : at + _CHUNK]
            pending = int(state.step.counts[PENDING])
            rows = pending + len(part)
            before = state.step.samples[self.window - pending :].copy()
            squares = np.zeros((len(self.plan.votes), rows, self.channels))
            out = blank_out(rows, self.channels)
            last = at + _CHUNK >= len(history)
            advance_squares(
                np.ascontiguousarray(part),
                last,
                self.network.padded,
                state.step,
                state.own,
                params,
                self.params,
                out,
                squares,
            )
            final = rows - int(state.step.counts[PENDING])
            samples = np.concatenate([before, part])[:final]
            yield squares[:, :final], ~np.isnan(samples)

    def votes(self, series: Floats, fitted: Floats32, rates: Sequence[float]) -> Floats:
        """Return each vote on each sample of a scaled series (T, C), (V, T).

        It starts from the given weights and learns at the given rates. NaN where nothing was
        observed.
        """
        params = self.params
        twin = copy.copy(self)
        twin.params = params._replace(rates=np.array(rates, dtype=np.float32))
        parts = []
        for squares, observed in twin._squares(series, fitted, learning=True):
            counts = observed.sum(axis=1)
            with np.errstate(invalid="ignore"):  # 0 of 0 channels
                means = (squares / params.residual_scale[:, None]).sum(axis=2) / counts
            parts.append(np.log(means + LEAST))
        logs = np.concatenate(parts, axis=1)
        votes: Floats = (logs - params.centers[:, None]) / params.spreads[:, None]
        return votes

    # ------------------------------------------------------------------ live

    def initial(self, weights: Floats32) -> ModelState:
        """Return the state before the first sample."""
        state = super().initial(weights)
        J, L, C = len(self.plan.memories), self.window, self.channels
        each = np.abs(weights, dtype=np.float64).reshape(J, -1).sum(axis=1)
        own = CommitteeState(
            levels=np.zeros((J, C)),
            trails=np.zeros((J, L, C)),
            residuals=np.full((J, L, C), np.nan),
            reaches=each[:, None].copy(),
            counts=np.zeros((J, _COUNTS), dtype=np.int64),
            smooth=np.full(1, np.nan),
        )
        return state._replace(own=own)

    def advance(
        self, samples: Floats, flush: bool, state: ModelState, params: StepParams, out: StepOut
    ) -> None:
        """Consume samples (T, C) and write the verdicts that became final."""
        padded = self.network.padded
        advance(samples, flush, padded, state.step, state.own, params, self.params, out)
        state.step.trend[:] = state.own.levels[self.plan.reported_expert]

    def _score(self, weights: Floats32, block: Block) -> tuple[Floats, Floats | None]:
        raise NotImplementedError  # the compiled loop does it

    def drop_pending(self, state: ModelState, count: int) -> None:
        """Forget the newest `count` samples, and what they did to the trends."""
        super().drop_pending(state, count)
        if count == 0:
            return
        own: CommitteeState = state.own
        for at in (SEEN, HELD, PENDING, CYCLE):
            own.counts[:, at] -= count
        for kept, blank in ((own.residuals, np.nan), (own.trails, 0.0)):
            kept[:, count:] = kept[:, :-count].copy()
            kept[:, :count] = blank
        own.levels[:] = own.trails[:, -1]
        state.step.trend[:] = own.levels[self.plan.reported_expert]

    def forget_samples(self, state: ModelState, *, anew: bool = False) -> None:
        """Forget the newest samples; the trends stay."""
        super().forget_samples(state, anew=anew)
        own: CommitteeState = state.own
        own.residuals[:] = np.nan
        own.trails[:] = own.levels[:, None]
        own.smooth[:] = np.nan
        for at in range(_COUNTS) if anew else (HELD, PENDING, CYCLE):
            own.counts[:, at] = 0

    def snapshot(self, state: ModelState) -> tuple[Floats32, Floats]:
        """Return copies of what was learned: the weights, and each expert's trend."""
        return state.step.weights.copy(), state.own.levels.copy()

    def _restore_trend(self, state: ModelState, trend: Floats) -> None:
        own: CommitteeState = state.own
        weights = np.abs(state.step.weights, dtype=np.float64)
        own.reaches[:, 0] = weights.reshape(len(own.reaches), -1).sum(axis=1)
        own.counts[:, AGE] = 0
        self._move(state, trend)

    def shift_trend(self, state: ModelState, jump: Floats, age: int, decay: float) -> None:  # noqa: ARG002
        """Shift each trend by what it has not yet followed of a jump `age` samples ago."""
        left = self.params.decays[:, None] ** age
        self._move(state, state.own.levels + left * jump)

    def _move(self, state: ModelState, trends: Floats) -> None:
        """Set the trends, for the samples at hand too."""
        own: CommitteeState = state.own
        scaled = own.residuals + own.trails
        own.levels[:] = trends
        own.trails[:] = own.levels[:, None]
        own.residuals[:] = scaled - own.trails
        state.step.trend[:] = own.levels[self.plan.reported_expert]

    def _tensors(self) -> dict[str, NDArray[Any]]:
        """Return what `_fit` found besides the parameters; the rest follows from the plan."""
        return {name: getattr(self.params, name) for name in _FITTED}

    def _restore(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        found: dict[str, Any] = {name: tensors[name].copy() for name in _FITTED}
        self.params = self.uncalibrated_params()._replace(**found)

    def eager(self, factor: float) -> Self:
        """Return a committee whose experts learn also from samples so many times as bad."""
        twin = copy.copy(self)
        twin.params = self.params._replace(learn_below=factor * self.params.learn_below)
        return twin


def _decay(half_life: float) -> float:
    """Return the share kept at each sample; all of it where the half-life is infinite."""
    return float(0.5 ** (1 / half_life))


def _rest(history: Floats, memory: float) -> Floats:
    rest, trail = np.empty_like(history), np.empty_like(history)
    scaled = np.ascontiguousarray(history)
    detrend(scaled, _decay(memory), False, np.zeros(history.shape[1]), trail, rest)
    return rest


def _basis(rest: Floats, rank: int) -> Floats:
    """Return the directions of largest variance, (rank, C), but for those that leave nothing.

    A subspace that held all of history would have no scale for what lies outside of it, and would
    score the smallest residual as high as any other.
    """
    filled = np.where(np.isnan(rest), 0, rest)
    values, vectors = np.linalg.eigh(filled.T @ filled / len(filled))
    held = np.cumsum(np.maximum(values[::-1], 0))
    basis = np.ascontiguousarray(vectors[:, ::-1][:, :rank].T)
    basis[held[-1] - held[:rank] <= _LEFT * held[-1]] = 0
    return basis


def _neutral(channels: int, fitted: Floats32, stride: int, learning: bool = False) -> StepParams:
    """Return parameters for samples that are scaled already, none of them anomalous."""
    zeros, ones = np.zeros(channels), np.ones(channels)
    return StepParams(zeros, ones, fitted, stride, np.inf, np.inf, 0.0, np.float32(learning))
