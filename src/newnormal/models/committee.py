"""A committee: autoencoders with memories of different length, and members of other kinds.

It is the model of `Detector`. `newnormal.tuning` decides which votes count.

One module because it is one class, and what puts its votes in units of their own.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from newnormal.core.scaling import deviations
from newnormal.core.state import StreamState, known_phases
from newnormal.errors import StateError
from newnormal.kernels.accepted import PLACES, AcceptedState
from newnormal.kernels.channels import ChannelOut
from newnormal.kernels.committee import (
    FARTHEST,
    CommitteeParams,
    CommitteeState,
    ObservedState,
    advance,
    advance_beside,
)
from newnormal.kernels.compiled import Entries
from newnormal.kernels.members import FAR, KINDS, LEAST, LEVEL, MembersParams
from newnormal.kernels.step import AGE, CYCLE, HELD, PENDING, SEEN, StepOut, StepParams, blank_out
from newnormal.kernels.stream import ModelState
from newnormal.models import places
from newnormal.models.base import Block, Model, Training
from newnormal.models.experts import basis_of, decay_of, neutral_params, rest_of
from newnormal.models.members import (
    MOST_BINS,
    blank_members,
    fit_members,
    members_sizes,
    usual_votes,
)
from newnormal.models.mlp import MLP
from newnormal.models.plan import Plan
from newnormal.types import Bools, Floats, Floats32, Ints
from newnormal.types.tables import Array, check_array, declared, first, flatten, read

_CHUNK = 8192  # samples calibrated at once


class Committee(Model):
    """Experts that each subtract a trend of their own memory and vote on what is left, and others.

    An expert's autoencoder is trained on history less the trend it will subtract live. Its score
    of a sample is the mean over channels of squared residuals, each in units of what history left
    of that channel, so that a channel that is always noisy does not outweigh the others; the
    logarithm of that, standardised by history, is its vote. The members without a trend
    (`newnormal.kernels.members`) vote in the same way. The committee's score is the exponential of
    the mean vote, where a vote below 0 counts as 0: 1 is usual.

    With x a sample, μ ← γ·μ + (1 - γ)·x an expert's trend, r the residual of x - μ, and s, m, d
    the mean square of each channel's residual, the mean and the standard deviation of the
    logarithm on history: vote = (log mean_c(r²/s) - m) / d. What the vote usually is at this phase
    of the rhythm is subtracted. The score is the weighted mean of max(vote, 0). Where the plan
    has a `smoothing`, the votes that say where the stream is, or in which shape, are smoothed by an
    exponential moving average; those of what expects a sample count at once. A vote that does not
    exist, as that of a window that is not full yet, counts as 0.
    """

    learns: ClassVar[bool] = True

    def __init__(self, window: int, channels: int, latent: int, plan: Plan | None = None) -> None:
        super().__init__(window, channels, latent)
        self.plan = plan or Plan()
        self.network = MLP(window, channels, latent, bounded=True)
        self.size = len(self.plan.memories) * self.network.size
        self._vote_count = len(self.plan.weights)
        self.params: CommitteeParams  # known once fitted
        self._kernels = Entries()
        # Empty, and lies at C numbers of its own: see kernels.committee.advance_in.
        self._no_squares = np.empty(channels)[:0].reshape((0, 0, 0))

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
        experts = len(self.plan.memories) * self.network.parameters + linear * rank * self.channels
        members = blank_members(self.channels, 0)
        return experts + sum(each.size for each in members if isinstance(each, np.ndarray))

    @property
    def sizes(self) -> dict[str, Any]:
        """How long the axes of its arrays are, by their letters."""
        plan = self.plan
        J, V = len(plan.memories), len(plan.weights)
        rank = min(plan.rank, self.channels // 2)
        own = {"J": J, "T": (J, self.channels), "E": len(plan.votes), "V": V, "R": rank}
        return super().sizes | own | members_sizes(self.channels)

    @property
    def vote_count(self) -> int:
        """How many members vote."""
        return self._vote_count

    @property
    def vote_kinds(self) -> tuple[str, ...]:
        """The kind of each vote."""
        experts = ("linear subspace" if vote.linear else "autoencoder" for vote in self.plan.votes)
        return (*experts, *KINDS)

    # ------------------------------------------------------------------ fit

    def _fit(self, history: Floats, training: Training) -> tuple[Floats32, list[float]]:
        """Train each expert on scaled history (T, C) minus its trend, and calibrate the votes.

        The members without a trend are fitted on history as it is.
        """
        packed, losses, scales, bases = [], [], [], {}
        for j, memory in enumerate(self.plan.memories):
            rest = rest_of(history, memory)
            scale = deviations(rest)
            scale[scale == 0] = 1.0
            scales.append(scale)
            rest /= scale
            seed = replace(training, seed=training.seed + j)
            weights, losses_j = self.network.fit(rest, seed)
            packed.append(weights)
            losses += losses_j
            bases[j] = basis_of(rest, min(self.plan.rank, self.channels // 2))
        fitted = np.concatenate(packed)
        votes, length = len(self.plan.weights), self.plan.shape_length
        members = fit_members(history, votes, training.seed, training.rhythm, length)
        self.params = self._uncalibrated(np.array(scales), bases, members)
        self.params = calibrated(self, history, fitted, training.phases)
        return fitted, losses

    def uncalibrated_params(self) -> CommitteeParams:
        """Return the parameters before history is known: those that follow from the plan."""
        J, C, rank = len(self.plan.memories), self.channels, min(self.plan.rank, self.channels // 2)
        bases = {j: np.zeros((rank, C)) for j in range(J)}
        return self._uncalibrated(np.ones((J, C)), bases)

    def _uncalibrated(
        self, scales: Floats, bases: Mapping[int, Floats], members: MembersParams | None = None
    ) -> CommitteeParams:
        plan, V = self.plan, len(self.plan.weights)
        total = sum(plan.weights)
        return CommitteeParams(
            decays=np.array([decay_of(memory) for memory in plan.memories]),
            scales=scales,
            learn_below=np.full(len(plan.memories), np.inf),
            rates=np.array(plan.rates, dtype=np.float32),
            bases=np.array([bases[vote.expert] for vote in plan.votes]),
            experts=np.array([vote.expert for vote in plan.votes], dtype=np.int64),
            linear=np.array([vote.linear for vote in plan.votes], dtype=np.int64),
            residual_scale=np.ones((V, self.channels)),
            centers=np.zeros(V),
            spreads=np.ones(V),
            weights=np.array([weight / total for weight in plan.weights]),
            smoothed=np.array(plan.smoothed, dtype=np.int64),
            keep=0.0 if plan.smoothing == 0 else decay_of(plan.smoothing),
            reported_expert=plan.reported_expert,
            members=members or blank_members(self.channels, V, 1, plan.shape_length),
            level_limit=np.inf,
        )

    def squares(
        self,
        history: Floats,
        fitted: Floats32,
        phases: Floats | None = None,
        *,
        learning: bool = False,
    ) -> Iterator[tuple[Floats, Bools]]:
        """Give each vote's squared residuals (V, T, C) and what was observed, part by part."""
        params = neutral_params(self.channels, fitted, learning)
        state = self.initial(fitted)
        V = len(self.plan.weights)
        for at in range(0, len(history), _CHUNK):
            part = history[at : at + _CHUNK]
            pending = int(state.step.counts[PENDING])
            rows = pending + len(part)
            before = state.step.samples[self.window - pending :].copy()
            squares = np.zeros((V, rows, self.channels))
            out = blank_out(rows, self.channels)
            last = at + _CHUNK >= len(history)
            when = known_phases(None if phases is None else phases[at : at + _CHUNK], len(part))
            model = (self.network.padded, state.step, state.own, params, self.params)
            missing, votes = np.full(part.shape, np.nan), np.empty((rows, V), np.float32)
            advance(np.ascontiguousarray(part), missing, when, last, *model, out, squares, votes)
            final = rows - int(state.step.counts[PENDING])
            samples = np.concatenate([before, part])[:final]
            yield squares[:, :final], ~np.isnan(samples)

    def votes(
        self, series: Floats, fitted: Floats32, rates: Sequence[float], phases: Floats | None = None
    ) -> Floats:
        """Return each vote on each sample of a scaled series (T, C), (V, T).

        It starts from the given weights and learns at the given rates. NaN where nothing was
        observed, or a member has no vote; what is usual at a phase is not subtracted.
        """
        params = self.params
        twin = self.with_rates(rates)
        parts = []
        for squares, observed in twin.squares(series, fitted, phases, learning=True):
            counts = observed.sum(axis=1)
            with np.errstate(invalid="ignore"):  # 0 of 0 channels
                means = (squares / params.residual_scale[:, None]).sum(axis=2) / counts
            parts.append(np.log(means + LEAST))
        logs = np.concatenate(parts, axis=1)
        votes: Floats = (logs - params.centers[:, None]) / params.spreads[:, None]
        return votes

    def with_params(self, params: CommitteeParams) -> Self:
        """Return the committee with these parameters."""
        twin = copy.copy(self)
        twin.params = params
        return twin

    def experts_alone(self) -> Self:
        """Return the committee without the votes of the other members, which takes less time."""
        weights = self.params.weights.copy()
        weights[len(self.plan.votes) :] = 0
        return self.with_params(self.params._replace(weights=weights))

    def with_rates(self, rates: Sequence[float]) -> Self:
        """Return the committee that learns at these rates."""
        return self.with_params(self.params._replace(rates=np.array(rates, dtype=np.float32)))

    def with_plan(self, plan: Plan) -> Self:
        """Return the committee with the weights, rates and smoothing of a plan of one shape."""
        total = sum(plan.weights)
        twin = self.with_rates(plan.rates)
        twin.plan = plan
        twin.params = twin.params._replace(
            weights=np.array([weight / total for weight in plan.weights]),
            keep=0.0 if plan.smoothing == 0 else decay_of(plan.smoothing),
        )
        return twin

    # ------------------------------------------------------------------ live

    def initial(self, weights: Floats32) -> ModelState:
        """Return the state before the first sample."""
        state = super().initial(weights)
        each = np.abs(weights, dtype=np.float64).reshape(len(self.plan.memories), -1).sum(axis=1)
        own = first(CommitteeState, self.sizes, weight_bounds=each[:, None].copy())
        state = state._replace(own=own)
        self._begin(state)
        return state

    def _begin(self, state: ModelState) -> None:
        """Begin with a window of missing samples: each sample gets its verdict at once."""
        state.step.counts[HELD] = self.window
        state.own.counts[:, HELD] = self.window

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
        """Consume samples (T, C) and write the verdicts that became final.

        `votes` (R, V) gets every vote after what is usual at this phase was subtracted; NaN where
        there is none. `clean` (T, C) scaled is what replaces missing values; None: the last ones.
        """
        self._begin_trends(samples, state, params)
        clean = np.full(samples.shape, np.nan) if clean is None else clean
        if votes is None:
            votes = np.empty((len(out.scores), len(self.params.weights)), np.float32)
        model = (self.network.padded, state.step, state.own, params, self.params)
        when = known_phases(phases, len(samples))
        own = (out, self._no_squares, votes)
        self._kernels.call(advance, samples, clean, when, flush, *model, *own)
        if len(samples):
            state.step.trend[:] = state.own.levels[self.params.reported_expert]

    def _begin_trends(self, samples: Floats, state: ModelState, params: StepParams) -> None:
        """Begin each trend at the first sample: history's mean may be far from it."""
        if len(samples) and state.step.counts[SEEN] == 0:
            with np.errstate(over="ignore"):
                first = (samples[0] - params.mean) / params.scale
            state.own.levels[:] = np.clip(np.nan_to_num(first), -FAR, FAR)

    def advance_beside(
        self,
        samples: Floats,
        channels: ChannelOut,
        state: StreamState,
        params: StepParams,
        out: StepOut,
        phases: Floats | None,
        votes: Floats32 | None,
    ) -> Floats:
        """Consume samples as their channels were judged; return the scores of them as observed."""
        model, observed = state.model, state.observed
        assert observed is not None and votes is not None
        away = np.count_nonzero(model.own.accepted.used[: PLACES // 2])  # `any` takes 1 µs longer
        if not away and observed.left[0] == 0 and not np.count_nonzero(channels.hidden):
            self.advance(samples, False, model, params, out, phases, votes, channels.clean)
            return out.scores
        scores = np.empty(len(samples))
        self._begin_trends(samples, model, params)
        given = (samples, channels, known_phases(phases, len(samples)), False, self.network.padded)
        models = (model.step, model.own, observed, params, self.params)
        own = (out, self._no_squares, votes, scores)
        self._kernels.call(advance_beside, *given, *models, *own)
        if len(samples):
            model.step.trend[:] = model.own.levels[self.params.reported_expert]
        return scores

    @property
    def rhythm_levels(self) -> Floats32:
        """The rhythm's levels, (B, C)."""
        return self.params.members.rhythm_levels

    def _score(self, weights: Floats32, block: Block) -> tuple[Floats, Floats | None]:
        raise NotImplementedError  # the compiled loop does it

    def forget_samples(self, state: ModelState, *, anew: bool = False) -> None:
        """Forget the newest samples; the trends stay."""
        super().forget_samples(state, anew=anew)
        own: CommitteeState = state.own
        own.residuals[:] = np.nan
        own.past_trends[:] = own.levels[:, None]
        own.smooth[:] = np.nan
        own.members.recent[:] = 0
        own.members.counts[:] = 0
        own.members.filled[:] = 0
        own.counts[:, slice(None) if anew else [HELD, PENDING, CYCLE]] = 0
        self._begin(state)

    def snapshot(self, state: ModelState) -> tuple[Floats32, Floats]:
        """Return copies of what was learned: the weights, and each expert's trend."""
        return state.step.weights.copy(), state.own.levels.copy()

    def _restore_trend(self, state: ModelState, trend: Floats) -> None:
        own: CommitteeState = state.own
        weights = np.abs(state.step.weights, dtype=np.float64)
        own.weight_bounds[:, 0] = weights.reshape(len(own.weight_bounds), -1).sum(axis=1)
        own.counts[:, AGE] = 0
        self._move(state, trend)

    def shift_trend(self, state: ModelState, jump: Floats, age: int, decay: float) -> None:  # noqa: ARG002
        """Shift each trend by what it has not yet followed of a jump `age` samples ago."""
        left = self.params.decays[:, None] ** age
        self._move(state, state.own.levels + left * jump)

    def _move(self, state: ModelState, trends: Floats) -> None:
        """Set the trends, for the samples at hand too."""
        own: CommitteeState = state.own
        scaled = own.residuals + own.past_trends
        own.levels[:] = trends
        own.past_trends[:] = own.levels[:, None]
        own.residuals[:] = scaled - own.past_trends
        state.step.trend[:] = own.levels[self.params.reported_expert]

    def _tensors(self) -> dict[str, NDArray[Any]]:
        """Return what `_fit` found besides the weights."""
        return dict(flatten(self.params))

    def _restore(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        levels = tensors.get("members.rhythm_levels")
        bins = len(levels) if levels is not None and levels.ndim else 0
        if not 1 <= bins <= MOST_BINS:
            raise StateError(
                f"model.own.members.rhythm_levels: expected 1 to {MOST_BINS} rows, found {bins}"
            )
        sizes = {**self.sizes, "B": bins}

        def take(name: str, line: Array) -> NDArray[Any]:
            if name not in tensors:
                raise StateError(f"expected a tensor model.own.{name}, found none")
            check_array(f"model.own.{name}", tensors[name], line, sizes)
            return tensors[name].copy()

        params, plan = read(CommitteeParams, "", take), self.uncalibrated_params()
        if unknown := sorted(set(tensors) - set(declared(CommitteeParams))):
            raise StateError(f"model.own.{unknown[0]}: not a tensor of this version")
        if self.center.any():
            raise StateError("model.center: expected 0, found other numbers")
        for name in ("decays", "rates", "experts", "linear", "weights", "smoothed", "keep"):
            # Another machine's powers may differ in the last bit.
            if not np.allclose(getattr(params, name), getattr(plan, name), rtol=1e-12, atol=0):
                raise StateError(f"model.own.{name}: expected those of the choice, found others")
        if params.members.block != plan.members.block:
            raise StateError("model.own.members.block: expected that of the choice, found another")
        if params.reported_expert != plan.reported_expert:
            raise StateError("model.own.reported_expert: expected that of the choice")
        self.params = params

    # ------------------------------------------------------------------ places and patterns

    @property
    def translates(self) -> bool:
        """Whether it judges a changed stream as if it had stayed where it was."""
        return True

    def translate(self, state: ModelState, slot: int, shift: Floats, age: int) -> None:
        """Judge a stream that moved by `shift` (C,) scaled `age` samples ago from where it is."""
        places.set_place(state.own, self.params, slot, shift, age)

    def seen_levels(self, seen: ObservedState, ages: Ints) -> Floats:
        """Return the mean of what was `seen` of each channel in so many samples; NaN: not known."""
        if not seen.left[0]:
            return np.full(len(ages), np.nan)
        return places.seen_levels(seen.own, ages, self.params.members.block)

    def recall(
        self, state: ModelState, seen: ObservedState, channels: Bools, shift: Floats, age: int
    ) -> None:
        """Remember what was `seen` of channels that moved by `shift` (C,) `age` samples ago."""
        if seen.left[0]:
            near = channels & (np.abs(shift) < FARTHEST / 2)
            state.step.samples[:, near] = seen.samples[:, near]
            places.recall(state.own, seen.own, self.params, near, shift, age)

    def accept_translation(self, state: ModelState, slot: int, *, stays: bool = True) -> None:
        """Accept a shift, the way there and the way back as normal; it may be over."""
        places.accept_place(state.own, slot, stays=stays)

    def newest_translation(self, state: ModelState) -> Floats | None:
        """Return the shift that was accepted last, or None if the stream is not there."""
        return places.newest_accepted(state.own)

    def drop_translation(self, state: ModelState, slot: int) -> None:
        """Forget a shift."""
        places.drop_place(state.own, self.params, slot)

    def accept_pattern(
        self, state: ModelState, votes: Floats, channels: Bools, *, grows: bool = False
    ) -> None:
        """Accept samples with votes no higher than these, in these channels (C,), as normal."""
        places.accept_pattern(state.own, votes, channels, grows=grows)

    def accepted(self, state: ModelState) -> AcceptedState:
        """Return what was accepted besides the weights and the trend."""
        accepted: AcceptedState = state.own.accepted
        return accepted

    def restore_accepted(self, state: ModelState, kept: AcceptedState | None) -> None:
        """Restore what `accepted` returned."""
        if kept is not None:
            places.restore(state.own, kept)

    def with_learning_margin(self, factor: float) -> Self:
        """Return a committee whose experts learn also from samples so many times as bad."""
        return self.with_params(self.params._replace(learn_below=factor * self.params.learn_below))


_STILL = 0.1  # of the others' usual residual, that of a channel that never moved in history
_FLOOR = 1e-3  # of a channel's usual residual, as a share of the mean channel's
_NARROW = 1e-6  # a spread below this is that of a constant
_WITHIN = 2.0  # the vote on a sample's level up to which it is within history's range


def calibrated(
    model: Committee, history: Floats, fitted: Floats32, phases: Floats | None
) -> CommitteeParams:
    """Return the parameters with each vote in units of its own on scaled history (T, C)."""
    plan, params = model.plan, model.params
    E, V, C = len(plan.votes), len(plan.weights), model.channels
    sums, counts = np.zeros((V, C)), np.zeros((V, C))
    own: list[Floats] = []  # each expert's plain mean square, a sample
    for squares, observed in model.squares(history, fitted, phases):
        known = ~np.isnan(squares[:, :, 0])
        sums += np.where(known[:, :, None], squares, 0).sum(axis=1)
        counts += known.astype(np.float64) @ observed
        seen = observed.any(axis=1)
        own.append(squares[:E, seen].sum(axis=2) / observed[seen].sum(axis=1))
    scale = np.where(counts > 0, sums / np.maximum(counts, 1), 0)
    mean = (scale.sum(axis=1) / np.maximum((counts > 0).sum(axis=1), 1))[:, None]
    scale = np.where(counts > 0, scale, mean)  # of a channel never observed
    # T² is one number.
    scale[E + LEVEL] = sums[E + LEVEL].sum() / max(counts[E + LEVEL].sum(), 1)
    # How far a channel may move that never did in history is not known.
    there = ~np.isnan(history)
    most = np.where(there, history, -np.inf).max(axis=0)
    still = (most == np.where(there, history, np.inf).min(axis=0)) & there.any(axis=0)
    if still.any() and not still.all():
        moving = scale[:, ~still].mean(axis=1, keepdims=True)
        scale = np.where(still, np.maximum(scale, _STILL * moving), scale)
    scale = np.maximum(scale, np.maximum(_FLOOR * mean, LEAST))
    counted = plan.counted
    scale[[at for at in range(V) if at not in counted]] = 1.0
    params = params._replace(residual_scale=scale)
    logs = model.with_params(params).votes(history, fitted, [0.0] * len(plan.memories), phases)
    centers, spreads = np.zeros(V), np.ones(V)
    for at in counted:
        there = logs[at, ~np.isnan(logs[at])]
        if len(there):
            centers[at] = there.mean()
            spreads[at] = there.std() if there.std() >= _NARROW else 1.0
    scores = np.concatenate(own, axis=1)
    learn_below = params.learn_below.copy()
    for at, vote in enumerate(plan.votes):
        if not vote.linear and vote.weight > 0:
            learn_below[vote.expert] = np.quantile(scores[at], plan.learns_below)
    members = params.members
    if phases is not None:
        votes = (logs - centers[:, None]) / spreads[:, None]
        usual = usual_votes(votes, phases, len(members.rhythm_levels))
        members = members._replace(usual_votes=usual)
    params = params._replace(
        learn_below=learn_below, centers=centers, spreads=spreads, members=members
    )
    return limited(plan, params)


def limited(plan: Plan, params: CommitteeParams) -> CommitteeParams:
    """Return the parameters with the T² of a vote that hardly any sample of history has."""
    at = len(plan.votes) + LEVEL
    usual = params.residual_scale.shape[1] * float(params.residual_scale[at, 0])
    log = float(params.centers[at] + _WITHIN * params.spreads[at])
    return params._replace(level_limit=usual * math.exp(min(log, 700.0)))
