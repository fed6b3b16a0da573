"""The committee's compiled loop equals its obvious twin, after every step."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from newnormal.core.state import arrays
from newnormal.kernels import step
from newnormal.kernels.committee import CommitteeState
from newnormal.kernels.members import HELD as HELD_MEMBERS
from newnormal.kernels.members import KINDS, LEAST, MembersParams
from newnormal.models.committee import Committee
from newnormal.models.members import blank_members
from newnormal.models.plan import Plan, Vote
from newnormal.types import Floats, Floats32
from tests import naive
from tests.naive import assert_near
from tests.naive_members import NaiveMembers
from tests.strategies import HUGE, ORDINARY, Setting, nasty_series, settings_of_the_method

MEAN = np.array([0.5, -1.0, 0.0, 3.0])
SCALE = np.array([1.0, 2.0, 0.5, 1.5])
setting_with = partial(Setting, decay=0.0, lr=1.0, threshold=1.0)
FOUR = (Vote(0, False), Vote(1, False), Vote(2, False), Vote(1, True))


def plan_of(**changes: Any) -> Plan:
    """Return a plan with four votes of experts, not smoothed."""
    return Plan(**{"votes": FOUR, "smoothing": 0.0, **changes})


PLANS = (
    plan_of(memories=(3.0, 20.0, math.inf), rates=(0.1, 0.02, 0.0)),
    plan_of(
        memories=(1.0, 8.0),
        rates=(0.0, 0.05),
        votes=(Vote(1, True, 2.0), Vote(0, True), Vote(1, False, 0.5)),
        smoothing=2.0,
        rank=1,
    ),
    plan_of(memories=(5.0,), rates=(0.05,), votes=(Vote(0, False),), smoothing=0.5),
)
FULL = Plan(memories=(3.0, 20.0), rates=(0.1, 0.02), members=(1.0, 1.0, 1.0, 1.0, 1.0))
NEW_PLANS = (
    FULL,
    replace(FULL, members=(2.0, 0.0, 0.5, 0.0, 1.0), smoothing=0.0),
    replace(FULL, votes=tuple(replace(vote, weight=0.0) for vote in FULL.votes)),
)


class Pair:
    """A committee and its twin, side by side from the same start, on a history nobody had."""

    def __init__(self, setting: Setting, plan: Plan) -> None:
        self.setting = setting = replace(setting, stride=1)  # each sample has its verdict at once
        C, J, V = setting.channels, len(plan.memories), len(plan.weights)
        rng = np.random.default_rng(setting.seed)
        self.model = Committee(setting.window, C, setting.latent, plan)
        network = self.model.network
        weights = np.concatenate([network.initial_weights(rng) for _ in range(J)])
        rank = min(plan.rank, C // 2)
        bases = {j: np.linalg.qr(rng.normal(size=(C, C)))[0][:rank].copy() for j in range(J)}
        members = random_members(C, V, rng)
        params = self.model._uncalibrated(rng.uniform(0.3, 2.0, (J, C)), bases, members)
        self.model.params = params = params._replace(
            learn_below=rng.uniform(0.3, 3.0, J),
            residual_scale=rng.uniform(0.1, 2.0, (V, C)),
            centers=rng.normal(size=V),
            spreads=rng.uniform(0.5, 2.0, V),
        )
        self.state = self.model.initial(weights)
        mean, scale = MEAN[:C].copy(), SCALE[:C].copy()
        self.params = step.StepParams(
            mean,
            scale,
            weights.copy(),
            setting.stride,
            setting.threshold,
            setting.threshold,
            setting.decay,
            np.float32(setting.lr),
        )
        experts = [
            naive.NaiveExpert(
                0.5 ** (1 / memory),
                params.scales[j],
                naive.NaiveStream(
                    np.zeros(C),
                    params.scales[j],
                    naive.copy_layers(network.layers(part)),
                    setting.window,
                    setting.stride,
                    float(params.learn_below[j]),
                    1.0,
                    float(np.float32(plan.rates[j])) if setting.lr else 0.0,
                    True,
                ),
            )
            for j, (memory, part) in enumerate(
                zip(plan.memories, np.split(weights, J), strict=True)
            )
        ]
        total = sum(plan.weights)
        votes = [
            naive.NaiveVote(
                vote.expert,
                bases[vote.expert] if vote.linear else None,
                params.residual_scale[v],
                float(params.centers[v]),
                float(params.spreads[v]),
                vote.weight / total,
            )
            for v, vote in enumerate(plan.votes)
        ]
        keep = 0.5 ** (1 / plan.smoothing) if plan.smoothing else 0.0
        self.ref = naive.NaiveCommittee(
            mean,
            scale,
            experts,
            votes,
            keep,
            (J - 1) // 2,
            setting.threshold,
            setting.decay == 1,
            NaiveMembers(params.members),
            [
                naive.NaiveMemberVote(
                    kind,
                    params.residual_scale[len(votes) + v],
                    float(params.centers[len(votes) + v]),
                    float(params.spreads[len(votes) + v]),
                    weight / total,
                )
                for v, (kind, weight) in enumerate(zip(KINDS, plan.members, strict=True))
            ],
        )
        self.phases: Floats | None = None  # of the series that is walked

    def walk(self, series: Floats, cuts: tuple[int, ...] | None = None) -> None:
        """Hand both the series: a sample at a time, or to the committee in stretches."""
        if cuts is None:
            cuts = tuple(range(len(series) + 1))
        phases = np.full(len(series), np.nan) if self.phases is None else self.phases
        for begin, end in pairwise(cuts):
            ref, votes = [], []
            for sample, phase in zip(series[begin:end], phases[begin:end], strict=True):
                found = self.ref.step(sample, float(phase))
                ref += found
                silent = np.isnan(found[0].score)
                votes.append(np.full(self.votes, np.nan) if silent else self.ref.newest)
            self.compare(ref, self.advance(series[begin:end], False, phases[begin:end]))
            if votes:
                assert_near_votes(self.each, np.array(votes))

    def flush(self) -> None:
        self.compare(self.ref.flush(), self.advance(np.empty((0, self.setting.channels)), True))

    @property
    def votes(self) -> int:
        return len(self.model.plan.weights)

    def advance(self, samples: Floats, flush: bool, phases: Floats | None = None) -> step.StepOut:
        rows = int(self.comp.counts[step.PENDING]) + len(samples)
        out = step.blank_out(rows, self.setting.channels)
        self.each = np.empty((rows, self.votes), np.float32)
        self.model.advance(samples, flush, self.state, self.params, out, phases, self.each)
        return out

    @property
    def comp(self) -> step.StepState:
        return self.state.step

    @property
    def own(self) -> CommitteeState:
        own: CommitteeState = self.state.own
        return own

    def compare(self, ref: list[naive.NaiveVerdict], comp: step.StepOut) -> None:
        own = self.own
        experts = self.ref.experts
        for j, expert in enumerate(experts):
            stream, tally = expert.stream, own.counts[j]
            held = min(len(stream.samples), stream.window)
            assert tally[step.SEEN] == len(stream.samples)
            assert tally[step.HELD] == stream.window
            assert tally[step.PENDING] == len(stream.samples) - stream.judged
            assert tally[step.CYCLE] % stream.window == len(stream.samples) - stream.cycle_began
            assert (tally[step.LEARNED], tally[step.RESTORED]) == (stream.learned, stream.restored)
            assert tally[step.AGE] == stream.age
            assert_near(own.levels[j], expert.level, rtol=1e-9, atol=1e-12)
            if held:
                for kept, all_ in ((own.residuals, expert.rests), (own.past_trends, expert.trails)):
                    assert_near(kept[j, -held:], np.array(all_[-held:]), rtol=1e-9, atol=1e-12)
            self.compare_weights(j)
        counts = self.comp.counts
        np.testing.assert_array_equal(counts[: step.LEARNED], own.counts[0, : step.LEARNED])
        assert counts[step.LEARNED] == max(expert.stream.learned for expert in experts)
        assert counts[step.RESTORED] == sum(expert.stream.restored for expert in experts)
        np.testing.assert_array_equal(self.comp.trend, own.levels[self.ref.spokesman])
        if self.ref.smooth is None:
            assert np.isnan(own.smooth[0])
        else:
            assert_near(own.smooth[0], self.ref.smooth, rtol=1e-3, atol=1e-3)

        assert np.isnan(comp.scores[len(ref) :]).all()
        assert not comp.anomalous[len(ref) :].any()
        assert np.isnan(comp.shares[len(ref) :]).all()
        for row, verdict in enumerate(ref):
            assert_near(comp.scores[row], verdict.score, rtol=2e-3)
            assert comp.anomalous[row] == (comp.scores[row] >= self.params.alarm_threshold)
            if not math.isclose(verdict.score, self.params.alarm_threshold, rel_tol=1e-2):
                assert comp.anomalous[row] == verdict.anomalous
            if verdict.sample > 0:  # then a trend leaves but rounding
                assert_near(comp.shares[row], verdict.shares, rtol=5e-3, atol=5e-3)

    def compare_weights(self, j: int) -> None:
        size = self.model.network.size
        part = slice(j * size, (j + 1) * size)
        stream = self.ref.experts[j].stream
        for packed, layers in ((self.comp.weights, stream.layers), (self.comp.good, stream.good)):
            for comp, ref in zip(self.model.network.layers(packed[part]), layers, strict=True):
                assert_near(comp[0], ref[0], rtol=1e-4, atol=1e-5)
                assert_near(comp[1], ref[1], rtol=1e-4, atol=1e-5)


def random_members(C: int, V: int, rng: np.random.Generator) -> MembersParams:
    """Return parameters as no history gives them, with a rhythm of seven bins."""
    blank = blank_members(C, V, 7)
    found = {
        name: rng.normal(scale=0.3, size=array.shape).astype(np.float32)
        for name, array in blank._asdict().items()
        if name != "block"
    }
    rank, n = blank.windows_basis.shape
    basis = np.linalg.qr(rng.normal(size=(n, rank)))[0].T
    basis[-1] = 0  # not used
    root = rng.normal(size=(C, C))
    return MembersParams(**found, block=int(rng.integers(2, 11)))._replace(
        windows_basis=np.ascontiguousarray(basis, np.float32),
        level_inverse=(root @ root.T).astype(np.float32),
        rhythm_spreads=rng.uniform(0.3, 2.0, blank.rhythm_spreads.shape).astype(np.float32),
        usual_votes=rng.uniform(0.0, 0.5, blank.usual_votes.shape).astype(np.float32),
    )


def assert_near_votes(comp: Floats32, ref: Floats) -> None:
    np.testing.assert_array_equal(np.isnan(comp), np.isnan(ref))
    # A residual of next to nothing has a logarithm that float32 does not know well.
    assert_near(comp[ref > -3], ref[ref > -3], rtol=2e-3, atol=5e-3)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(settings_of_the_method(ORDINARY))
def test_the_committee_equals_its_twin_after_every_step(setting: Setting) -> None:
    pair = Pair(setting, PLANS[setting.seed % len(PLANS)])
    pair.walk(setting.series())
    pair.flush()


@pytest.mark.parametrize("kind", ORDINARY)
@pytest.mark.parametrize("plan", range(len(PLANS)))
def test_the_committee_equals_its_twin_on_every_nasty_series(kind: str, plan: int) -> None:
    pair = Pair(setting_with(kind=kind, length=40), PLANS[plan])
    pair.walk(pair.setting.series())
    pair.flush()


@pytest.mark.parametrize(
    "cuts", [(0, 60), (0, 1, 2, 30, 60), (0, 3, 3, 4, 59, 60), (0, 17, 34, 51, 60)]
)
def test_however_the_samples_arrive_the_verdicts_are_the_twins(cuts: tuple[int, ...]) -> None:
    pair = Pair(setting_with(kind="some missing"), PLANS[1])
    pair.walk(pair.setting.series(), cuts)
    pair.flush()


@pytest.mark.parametrize("channels", [1, 2, 4])
@pytest.mark.parametrize("window", [1, 5])
def test_flushes_in_between_are_the_twins_too(channels: int, window: int) -> None:
    pair = Pair(setting_with(window=window, channels=channels), PLANS[0])
    series = pair.setting.series()
    for begin, end in ((0, 3), (3, 11), (11, 12), (12, 12), (12, 60)):
        pair.walk(series[begin:end])
        pair.flush()
    assert pair.ref.experts[0].stream.learned > 8
    assert pair.ref.experts[2].stream.learned == 0  # its rate is 0


def test_with_neither_trend_nor_learning_only_the_window_moves() -> None:
    pair = Pair(setting_with(decay=1.0, lr=0.0), PLANS[0])
    pair.walk(pair.setting.series())
    np.testing.assert_array_equal(pair.own.levels, pair.own.levels[:1].repeat(3, axis=0))
    assert np.array_equal(pair.comp.weights, pair.params.fitted)


@pytest.mark.parametrize("expert", [0, 1])
def test_weights_that_overflow_are_restored_in_the_expert_that_has_them(expert: int) -> None:
    pair = Pair(setting_with(), PLANS[0])
    series = pair.setting.series()
    pair.walk(series[:8])
    size = pair.model.network.size
    spoilt = pair.comp.weights[expert * size : (expert + 1) * size]
    spoilt[:] = 1e30  # finite, but its products are not
    pair.own.weight_bounds[expert] = 1e32
    network = pair.model.network
    pair.ref.experts[expert].stream.layers = naive.copy_layers(network.layers(spoilt))
    pair.walk(series[8:])
    restored = [twin.stream.restored for twin in pair.ref.experts]
    assert restored == [int(expert == j) for j in range(3)]
    assert pair.comp.counts[step.RESTORED] == 1
    assert np.isfinite(pair.comp.weights).all()


def test_learning_that_diverges_is_undone_in_the_committee_as_alone() -> None:
    plan = plan_of(memories=(3.0, 20.0), rates=(1e35, 0.0), votes=(Vote(0, False), Vote(1, False)))
    pair = Pair(setting_with(threshold=math.inf), plan)
    pair.model.params = pair.model.params._replace(learn_below=np.full(2, np.inf))
    for expert in pair.ref.experts:
        expert.stream.threshold = np.inf
    pair.walk(nasty_series("none missing", 24, 3) * 1e10)
    assert pair.ref.experts[0].stream.restored == 6
    assert pair.ref.experts[1].stream.restored == 0
    first = slice(pair.model.network.size)
    assert np.array_equal(pair.comp.weights[first], pair.params.fitted[first])


# ------------------------------------------------------------------ members without a trend


def new_pair(plan: int, **changes: Any) -> Pair:
    setting = setting_with(**{"stride": 1, "window": 5, "length": 140, **changes})
    pair = Pair(setting, NEW_PLANS[plan])
    rng = np.random.default_rng(pair.setting.seed)
    pair.phases = np.where(
        rng.random(pair.setting.length) < 0.2, np.nan, rng.uniform(0, 7, pair.setting.length)
    )
    return pair


@pytest.mark.parametrize("kind", ORDINARY)
@pytest.mark.parametrize("plan", range(len(NEW_PLANS)))
def test_every_member_equals_its_twin_after_every_sample(kind: str, plan: int) -> None:
    pair = new_pair(plan, kind=kind)
    pair.walk(pair.setting.series())
    assert pair.own.members.counts[HELD_MEMBERS] == 100
    pair.flush()  # nothing is pending


@pytest.mark.parametrize("channels", [1, 2, 4])
def test_members_of_other_widths_are_the_twins_too(channels: int) -> None:
    pair = new_pair(0, channels=channels, kind="some missing", seed=channels)
    pair.walk(pair.setting.series())


@pytest.mark.parametrize(
    "cuts", [(0, 140), (0, 1, 2, 30, 99, 100, 101, 140), (0, 17, 17, 120, 140)]
)
def test_members_give_the_same_bits_however_the_samples_arrive(cuts: tuple[int, ...]) -> None:
    pair, alone = new_pair(0, kind="some missing"), new_pair(0, kind="some missing")
    series, phases = pair.setting.series(), pair.phases
    assert phases is not None
    comp = [
        (pair.advance(series[begin:end], False, phases[begin:end]), pair.each)
        for begin, end in pairwise(cuts)
    ]
    ref = [
        (alone.advance(series[t : t + 1], False, phases[t : t + 1]), alone.each)
        for t in range(len(series))
    ]
    for column in ("scores", "anomalous", "shares"):
        made, twin = ([getattr(out, column) for out, _ in each] for each in (comp, ref))
        np.testing.assert_array_equal(np.concatenate(made), np.concatenate(twin))
    np.testing.assert_array_equal(
        np.concatenate([each for _, each in comp]), np.concatenate([each for _, each in ref])
    )
    for one, other in zip(arrays(pair.state), arrays(alone.state), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_first_sample_has_its_verdict_at_once_and_absent_votes_count_as_0() -> None:
    pair = new_pair(0)
    pair.phases = None
    out = pair.advance(pair.setting.series()[:1], False)
    assert np.isfinite(out.scores).all()
    there = ~np.isnan(pair.each[0])
    assert there.tolist() == [True] * 2 + [False, True, False, False, False]
    weights = pair.model.params.weights[there]
    assert out.scores[0] == pytest.approx(
        math.exp(weights @ np.maximum(pair.each[0, there], 0)), rel=1e-5
    )


@pytest.mark.parametrize("kind", HUGE)
def test_huge_values_leave_the_members_finite(kind: str) -> None:
    pair = new_pair(0, kind=kind, channels=2)
    out = pair.advance(pair.setting.series(), True, pair.phases)
    assert np.isfinite(out.scores).all()
    assert np.isfinite(out.shares).all()
    assert all(np.isfinite(array).all() for array in pair.own.members)


@pytest.mark.parametrize("kind", HUGE)
def test_huge_values_leave_everything_finite(kind: str) -> None:
    pair = Pair(setting_with(kind=kind, channels=2), PLANS[0])
    out = pair.advance(pair.setting.series(), True)
    assert np.isfinite(out.scores).all()
    assert np.isfinite(out.shares).all()
    for array in (pair.comp.weights, pair.own.levels, pair.own.smooth):
        assert np.isfinite(array).all()


def test_a_residual_of_nothing_has_a_score_and_no_shares() -> None:
    votes = (Vote(0, True),)
    plan = plan_of(memories=(math.inf,), rates=(0.0,), votes=votes, members=(0.0,) * len(KINDS))
    pair = Pair(setting_with(channels=1), plan)
    pair.walk(np.full((8, 1), MEAN[0]))  # exactly history's mean
    out = pair.advance(np.full((4, 1), MEAN[0]), False)
    params = pair.model.params
    nothing = (math.log(LEAST) - params.centers[0]) / params.spreads[0]
    np.testing.assert_allclose(out.scores, math.exp(max(nothing, 0.0)))
    assert not out.shares.any()
