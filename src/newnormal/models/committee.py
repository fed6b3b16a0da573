"""A committee: autoencoders with memories of different length, and a linear subspace.

It is what `Detector()` is when nobody tunes it. `newnormal.tuning` decides who sits in it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from newnormal.core import live
from newnormal.core.scaling import Scaler, deviations
from newnormal.kernels.committee import LEAST, Chamber, Charter, deliberate, detrend
from newnormal.kernels.step import AGE, CYCLE, HELD, PENDING, SEEN, Rules, Sheet, Stream
from newnormal.models.base import Live, OnEpoch, Training
from newnormal.models.mlp import MLP
from newnormal.types import Bools, Floats, Floats32

__all__ = ["Committee", "Plan", "Vote"]

_CHUNK = 16_384  # samples calibrated at once
_FLOOR = 1e-3  # of a channel's usual residual, as a share of the mean channel's
_NARROW = 1e-6  # a spread below this is that of a constant
_LEFT = 1e-4  # of history's variance stays outside a linear subspace, at least
_COUNTS = len(live.COUNTS)


@dataclass(frozen=True)
class Vote:
    """One look at what an expert's memory leaves of the stream.

    Attributes
    ----------
    expert
        Which memory of the plan.
    linear
        Whether the look is the linear subspace's, not the autoencoder's.
    weight
        Its say, beside the others'.
    """

    expert: int
    linear: bool
    weight: float = 1.0


@dataclass(frozen=True)
class Plan:
    """Who sits in a committee.

    Attributes
    ----------
    memories
        Half-life of each expert's trend, in samples; infinity keeps history's mean.
    rates
        Learning rate of each expert's autoencoder.
    votes
        Whose looks are heard.
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
    def spokesman(self) -> int:
        """The expert whose expectation is reported: of the middle memory."""
        return len(self.memories) // 2

    def to_json(self) -> dict[str, Any]:
        """Return it as values JSON knows."""
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


class Committee(Live):
    """Experts that each subtract a trend of their own memory, and vote on what is left.

    An expert's autoencoder is trained on history less the trend it will subtract live. Its score
    of a sample is the mean over channels of squared residuals, each in units of what history left
    of that channel, so that a channel that is always noisy does not drown the others; the
    logarithm of that, standardised by history, is its vote. The committee's score is the
    exponential of the mean vote: 1 is usual, and each vote's doubling counts alike.

    Notes
    -----
    With x a sample, μ ← γ·μ + (1 - γ)·x an expert's trend, r the residual of x - μ, and s, m, d
    the mean square of each channel's residual, the mean and the standard deviation of the
    logarithm on history: vote = (log mean_c(r²/s) - m) / d. The votes' weighted mean is smoothed
    by an exponential moving average where the plan says so.
    """

    reconstructs = True

    def __init__(self, window: int, channels: int, latent: int, plan: Plan | None = None) -> None:
        self.window = window
        self.channels = channels
        self.plan = plan or Plan()
        self.network = MLP(window, channels, latent)
        self.center: Floats = np.zeros(channels)
        self.charter: Charter

    @property
    def adaptable(self) -> tuple[str, ...]:
        """Every matrix and bias of every expert."""
        experts = range(len(self.plan.memories))
        return tuple(f"expert{j + 1}.{name}" for j in experts for name in self.network.adaptable)

    @property
    def parameters(self) -> int:
        """How many parameters there are."""
        linear = sum(vote.linear for vote in self.plan.votes)
        rank = min(self.plan.rank, self.channels // 2)
        return len(self.plan.memories) * self.network.parameters + linear * rank * self.channels

    @property
    def size(self) -> int:
        """How long the packed vector of the experts' parameters is."""
        return len(self.plan.memories) * self.network.size

    def scaler(self, history: Floats) -> Scaler:
        """Return the standard scaling."""
        return Scaler.fit(history)

    # ------------------------------------------------------------------ fit

    def fit(
        self, history: Floats, training: Training, on_epoch: OnEpoch | None = None
    ) -> tuple[Floats32, list[float]]:
        """Train each expert on scaled history (T, C) less its trend, and calibrate the votes."""
        packed, losses, scales, bases = [], [], [], {}
        for j, memory in enumerate(self.plan.memories):
            rest = _rest(history, memory)
            scale = deviations(rest)
            scale[scale == 0] = 1.0
            scales.append(scale)
            rest /= scale
            seed = replace(training, seed=training.seed + j)
            weights, losses_j = self.network.fit(rest, seed, on_epoch)
            packed.append(weights)
            losses += losses_j
            bases[j] = _basis(rest, min(self.plan.rank, self.channels // 2))
        fitted = np.concatenate(packed)
        self.charter = self._uncalibrated(np.array(scales), bases)
        self.charter = self._calibrated(history, fitted)
        return fitted, losses

    def _uncalibrated(self, scales: Floats, bases: Mapping[int, Floats]) -> Charter:
        plan, V = self.plan, len(self.plan.votes)
        total = sum(vote.weight for vote in plan.votes)
        return Charter(
            decays=np.array([_decay(memory) for memory in plan.memories]),
            scales=scales,
            taus=np.full(len(plan.memories), np.inf),
            rates=np.array(plan.rates, dtype=np.float32),
            bases=np.array([bases[vote.expert] for vote in plan.votes]),
            experts=np.array([vote.expert for vote in plan.votes], dtype=np.int64),
            linear=np.array([vote.linear for vote in plan.votes], dtype=np.int64),
            usual=np.ones((V, self.channels)),
            centers=np.zeros(V),
            spreads=np.ones(V),
            weights=np.array([vote.weight / total for vote in plan.votes]),
            keep=0.0 if plan.smoothing == 0 else _decay(plan.smoothing),
            spokesman=plan.spokesman,
        )

    def _calibrated(self, history: Floats, fitted: Floats32) -> Charter:
        """Return the charter with each vote in units of its own on history."""
        V, C = len(self.plan.votes), self.channels
        sums, counts = np.zeros((V, C)), np.zeros(C)
        own: list[Floats] = []  # each vote's plain mean square, a sample
        for squares, observed in self._squares(history, fitted):
            sums += squares.sum(axis=1)
            counts += observed.sum(axis=0)
            seen = observed.any(axis=1)
            own.append(squares[:, seen].sum(axis=2) / observed[seen].sum(axis=1))
        usual = sums / np.maximum(counts, 1)
        mean = usual[:, counts > 0].mean(axis=1, keepdims=True)
        usual[:, counts == 0] = mean  # of a channel never observed, nothing else is known
        usual = np.maximum(usual, np.maximum(_FLOOR * mean, LEAST))
        self.charter = self.charter._replace(usual=usual)
        votes = self.hear(history, fitted, [0.0] * len(self.plan.memories))
        votes = votes[:, ~np.isnan(votes).any(axis=0)]
        spreads = votes.std(axis=1)
        scores = np.concatenate(own, axis=1)
        taus = self.charter.taus.copy()
        for at, vote in enumerate(self.plan.votes):
            if not vote.linear:
                taus[vote.expert] = np.quantile(scores[at], self.plan.learns_below)
        return self.charter._replace(
            taus=taus,
            usual=usual,
            centers=votes.mean(axis=1),
            spreads=np.where(spreads < _NARROW, 1.0, spreads),
        )

    def _squares(
        self, history: Floats, fitted: Floats32, *, learning: bool = False
    ) -> Iterator[tuple[Floats, Bools]]:
        """Give each vote's squared residuals (V, T, C) and what was observed, part by part."""
        rules = _neutral(self.channels, fitted, self.window, learning)
        stream = self.fresh(fitted)
        for at in range(0, len(history), _CHUNK):
            part = history[at : at + _CHUNK]
            pending = int(stream.counts[PENDING])
            rows = pending + len(part)
            before = stream.samples[self.window - pending :].copy()
            sheet = live.blank_sheet(rows, self.channels)
            squares = np.zeros((len(self.plan.votes), rows, self.channels))
            last = at + _CHUNK >= len(history)
            deliberate(
                np.ascontiguousarray(part),
                last,
                self.network.padded,
                stream,
                self.chamber(stream),
                rules,
                self.charter,
                sheet,
                squares,
            )
            final = rows - int(stream.counts[PENDING])
            samples = np.concatenate([before, part])[:final]
            yield squares[:, :final], ~np.isnan(samples)

    def hear(self, series: Floats, fitted: Floats32, rates: Sequence[float]) -> Floats:
        """Return each vote on each sample of a scaled series (T, C), (V, T).

        It starts from the given weights and learns at the given rates. NaN where nothing was
        observed.
        """
        charter = self.charter
        self.charter = charter._replace(rates=np.array(rates, dtype=np.float32))
        try:
            parts = []
            for squares, observed in self._squares(series, fitted, learning=True):
                counts = observed.sum(axis=1)
                with np.errstate(invalid="ignore"):  # 0 of 0 channels
                    means = (squares / charter.usual[:, None]).sum(axis=2) / counts
                parts.append(np.log(means + LEAST))
        finally:
            self.charter = charter
        logs = np.concatenate(parts, axis=1)
        votes: Floats = (logs - charter.centers[:, None]) / charter.spreads[:, None]
        return votes

    # ------------------------------------------------------------------ live

    def fresh(self, weights: Floats32) -> Stream:
        """Return the state before the first sample."""
        J, C = len(self.plan.memories), self.channels
        stream = live.fresh(self.window, C, weights, _room(J, self.window, C))
        chamber = self.chamber(stream)
        chamber.rests[:] = np.nan
        chamber.trails[:] = 0
        each = np.abs(weights, dtype=np.float64).reshape(J, -1).sum(axis=1)
        chamber.reaches[:, 0] = each
        chamber.smooth[:] = np.nan
        return stream

    def chamber(self, stream: Stream) -> Chamber:
        """Return the committee's own part of a stream's state, as views."""
        J, L, C = len(self.plan.memories), self.window, self.channels
        # Not np.split, which takes as long as judging a hundred samples.
        rest = stream.rest
        a, b = J * C, J * L * C
        return Chamber(
            rest[:a].reshape(J, C),
            rest[a : a + b].reshape(J, L, C),
            rest[a + b : a + 2 * b].reshape(J, L, C),
            rest[a + 2 * b : a + 2 * b + J].reshape(J, 1),
            rest[a + 2 * b + J : -1].view(np.int64).reshape(J, _COUNTS),
            rest[-1:],
        )

    def advance(
        self, samples: Floats, flush: bool, stream: Stream, rules: Rules, sheet: Sheet
    ) -> None:
        """Consume samples (T, C) and write the verdicts that became final."""
        chamber = self.chamber(stream)
        deliberate(
            samples,
            flush,
            self.network.padded,
            stream,
            chamber,
            rules,
            self.charter,
            sheet,
            np.empty((0, 0, 0)),
        )
        stream.trend[:] = chamber.levels[self.plan.spokesman]

    def drop_pending(self, stream: Stream, count: int) -> None:
        """Forget the newest `count` samples, and what they did to the trends."""
        live.drop_pending(stream, count)
        if count == 0:
            return
        chamber = self.chamber(stream)
        for at in (SEEN, HELD, PENDING, CYCLE):
            chamber.tallies[:, at] -= count
        for kept, blank in ((chamber.rests, np.nan), (chamber.trails, 0.0)):
            kept[:, count:] = kept[:, :-count].copy()
            kept[:, :count] = blank
        chamber.levels[:] = chamber.trails[:, -1]
        stream.trend[:] = chamber.levels[self.plan.spokesman]

    def forget_samples(self, stream: Stream, *, anew: bool = False) -> None:
        """Forget the newest samples; the trends stay."""
        live.forget_samples(stream, anew=anew)
        chamber = self.chamber(stream)
        chamber.rests[:] = np.nan
        chamber.trails[:] = chamber.levels[:, None]
        chamber.smooth[:] = np.nan
        for at in range(_COUNTS) if anew else (HELD, PENDING, CYCLE):
            chamber.tallies[:, at] = 0

    def learned(self, stream: Stream) -> tuple[Floats32, Floats]:
        """Return copies of what was learned: the weights, and each expert's trend."""
        return stream.weights.copy(), self.chamber(stream).levels.copy()

    def recall(self, stream: Stream, weights: Floats32, trend: Floats) -> None:
        """Let the experts know what `learned` returned, and nothing later; the samples stay."""
        live.recall(stream, weights)
        chamber = self.chamber(stream)
        each = np.abs(weights, dtype=np.float64).reshape(len(chamber.reaches), -1).sum(axis=1)
        chamber.reaches[:, 0] = each
        chamber.tallies[:, AGE] = 0
        self._move(stream, trend)

    def catch_up(self, stream: Stream, jump: Floats, age: int, decay: float) -> None:  # noqa: ARG002
        """Let each trend make up for what it has not yet followed of a jump `age` samples ago."""
        left = self.charter.decays[:, None] ** age
        self._move(stream, self.chamber(stream).levels + left * jump)

    def _move(self, stream: Stream, trends: Floats) -> None:
        """Let the trends be these, for the samples at hand, too."""
        chamber = self.chamber(stream)
        scaled = chamber.rests + chamber.trails
        chamber.levels[:] = trends
        chamber.trails[:] = chamber.levels[:, None]
        chamber.rests[:] = scaled - chamber.trails
        stream.trend[:] = chamber.levels[self.plan.spokesman]

    def eager(self, factor: float) -> Self:
        """Return a committee whose experts learn also from samples that many times as bad."""
        twin = copy.copy(self)
        twin.charter = self.charter._replace(taus=factor * self.charter.taus)
        return twin

    # ------------------------------------------------------------------ state

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return what `fit` found besides the parameters."""
        return {name: np.atleast_1d(value) for name, value in self.charter._asdict().items()}

    def restore(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `tensors` returned."""
        values: dict[str, Any] = {name: tensors[name].copy() for name in Charter._fields}
        values |= {"keep": float(values["keep"][0]), "spokesman": int(values["spokesman"][0])}
        self.charter = Charter(**values)


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

    A subspace that held all of history would have no measure for what lies outside, and take the
    slightest trace of an event for another.
    """
    filled = np.where(np.isnan(rest), 0, rest)
    values, vectors = np.linalg.eigh(filled.T @ filled / len(filled))
    held = np.cumsum(np.maximum(values[::-1], 0))
    basis = np.ascontiguousarray(vectors[:, ::-1][:, :rank].T)
    basis[held[-1] - held[:rank] <= _LEFT * held[-1]] = 0
    return basis


def _neutral(channels: int, fitted: Floats32, stride: int, learning: bool = False) -> Rules:
    """Return rules for samples that are scaled already, none of them anomalous."""
    zeros, ones = np.zeros(channels), np.ones(channels)
    return Rules(zeros, ones, fitted, stride, np.inf, 0.0, np.float32(learning))


def _room(experts: int, window: int, channels: int) -> int:
    """Return how many numbers a chamber has: see `Committee.chamber`."""
    return experts * (channels * (1 + 2 * window) + 1 + _COUNTS) + 1
