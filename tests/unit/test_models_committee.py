"""The committee as a model, and as what a detector is that was given nothing."""

import logging
import math
from pathlib import Path

import numpy as np
import pytest

from newnormal import Detector
from newnormal.core.scaling import deviations
from newnormal.core.state import arrays
from newnormal.kernels.step import RESTORED, blank_out
from newnormal.models.base import Training
from newnormal.models.committee import Committee
from newnormal.models.members import blank_members
from newnormal.models.mlp import widths_of
from newnormal.models.plan import Plan, Vote
from newnormal.types import Floats, Floats32
from tests.present import present
from tests.strategies import nasty_series

TRAINING = Training(stride=1, epochs=3, batch=64, seed=0)
PLAN = Plan(
    memories=(3.0, 20.0, math.inf),
    rates=(0.01, 0.02, 0.0),
    votes=(Vote(0, False), Vote(1, False), Vote(2, False), Vote(1, True)),
)


def chosen(history: Floats, **options: float) -> Detector:
    return Detector(epochs=1, **options).fit(history)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def history() -> Floats:
    series = nasty_series("some missing", 300, 3, seed=5)
    series[40:50] = np.nan
    return series


@pytest.fixture(scope="module")
def _fitted(history: Floats) -> Detector:
    return chosen(history)


@pytest.fixture
def detector(_fitted: Detector) -> Detector:
    return _fitted.reset()


def trained(history: Floats, plan: Plan = PLAN) -> tuple[Committee, Floats32]:
    model = Committee(5, history.shape[1], 2, plan)
    weights, _ = model.fit(history, TRAINING)
    return model, weights


# ------------------------------------------------------------------ what fit finds


def test_on_history_each_vote_has_mean_0_and_deviation_1(history: Floats) -> None:
    model, weights = trained(history)
    votes = model.votes(history, weights, [0.0] * 3)
    assert votes.shape == (9, 300)
    silent = np.isnan(history).all(axis=1)
    first = (0, 0, 0, 0, 5, 0, 19, 99)  # samples before the first vote; there is no rhythm
    for vote, before in zip(votes[:8], first, strict=True):
        np.testing.assert_array_equal(np.isnan(vote), silent | (np.arange(300) < before))
    np.testing.assert_allclose(np.nanmean(votes[:8], axis=1), 0, atol=1e-9)
    np.testing.assert_allclose(np.nanstd(votes[:8], axis=1), 1, rtol=1e-9)


def test_each_channels_residual_is_measured_in_what_history_left_of_it(history: Floats) -> None:
    louder = history * np.array([1.0, 30.0, 1.0])  # as if nobody had scaled it
    model, weights = trained(louder)
    for squares, observed in model.squares(louder, weights):
        for v in (0, 1, 2, 3, 4, 6, 7):
            there = ~np.isnan(squares[v, :, 0])
            means = squares[v, there].sum(axis=0) / observed[there].sum(axis=0)
            usual = np.maximum(means, 1e-3 * means.mean())
            np.testing.assert_allclose(model.params.residual_scale[v], usual, rtol=1e-9)
        level = squares[5].sum() / observed.sum()  # one number
        np.testing.assert_allclose(model.params.residual_scale[5], level, rtol=1e-9)
    shares = present(chosen(louder).run(louder[:200]).shares)
    assert (np.nanmean(shares, axis=0) > 0.2).all()  # none drowns the others


def test_an_expert_learns_below_the_quantile_of_its_own_scores_of_samples_with_values(
    history: Floats,
) -> None:
    model, weights = trained(history)
    for squares, observed in model.squares(history, weights):
        seen = observed.any(axis=1)
        scores = squares[:3, seen].sum(axis=2) / observed[seen].sum(axis=1)
        np.testing.assert_allclose(model.params.learn_below, np.quantile(scores, 0.99, axis=1))
    model, _ = trained(np.insert(history[:200], np.arange(0, 200, 5).repeat(25), np.nan, axis=0))
    assert (model.params.learn_below > 0).all()


def test_parts_are_calibrated_as_one(history: Floats, monkeypatch: pytest.MonkeyPatch) -> None:
    ref, weights = trained(history)
    votes = ref.votes(history, weights, PLAN.rates)
    monkeypatch.setattr("newnormal.models.committee._CHUNK", 33)  # no multiple of the window
    comp, weights = trained(history)
    for name, value in ref.tensors().items():
        np.testing.assert_allclose(comp.tensors()[name], value, rtol=1e-12, err_msg=name)
    np.testing.assert_allclose(comp.votes(history, weights, PLAN.rates), votes, rtol=1e-9)


def test_voting_leaves_the_committee_as_it_was(history: Floats) -> None:
    model, weights = trained(history)
    before = {name: value.copy() for name, value in model.tensors().items()}
    kept = weights.copy()
    first = model.votes(history, weights, [0.5] * 3)
    np.testing.assert_array_equal(model.votes(history, weights, [0.5] * 3), first)
    assert not np.array_equal(model.votes(history, weights, [0.0] * 3), first)
    np.testing.assert_array_equal(weights, kept)
    for name, value in model.tensors().items():
        np.testing.assert_array_equal(value, before[name])


def test_the_subspace_holds_the_directions_of_largest_variance() -> None:
    rng = np.random.default_rng(0)
    together = rng.normal(size=(500, 1)) @ np.array([[1.0, -1.0, 1.0, 0.0]])
    series = together + 0.1 * rng.normal(size=(500, 4))
    plan = Plan(memories=(math.inf,), rates=(0.0,), votes=(Vote(0, True),), rank=1)
    model, _ = trained(series, plan)
    (row,) = model.params.bases[0]
    np.testing.assert_allclose(np.abs(row), [3**-0.5] * 3 + [0], atol=0.1)
    assert row[0] * row[1] < 0 < row[0] * row[2]


@pytest.mark.parametrize(
    ("mixing", "directions"),
    [
        ([[0, 0, 0, 0, 0, 0]], 0),  # nothing moves
        ([[1, 0, 0, 0, 0, 0]], 0),
        ([[1, 1, 1, 0, 0, 0]], 0),  # copies of each other
        ([[1, 0, 0, 0, 0, 0], [0, 1, 1, 1, 0, 0]], 1),
        (np.eye(6), 3),
    ],
)
def test_a_subspace_never_holds_all_of_history(mixing: list[list[int]], directions: int) -> None:
    sources = np.random.default_rng(0).normal(size=(300, len(mixing)))
    plan = Plan(memories=(math.inf,), rates=(0.0,), votes=(Vote(0, True),))
    model, _ = trained(sources @ np.array(mixing, dtype=np.float64), plan)
    (basis,) = model.params.bases
    assert basis.shape == (3, 6)
    np.testing.assert_allclose(basis @ basis.T, np.diag(np.arange(3) < directions), atol=1e-9)


def test_one_blip_of_a_constant_channel_is_not_an_alarm_for_ever() -> None:
    history = nasty_series("none missing", 600, 3)
    history[:, 1:] = 7.0
    detector = Detector(epochs=5).fit(history)
    live = history[:400].copy()
    live[42, 1] = 8.0
    verdicts = detector.run(live)
    assert verdicts.anomalous[42]
    assert verdicts.anomalous[200:].mean() < 0.1


def test_training_moves_each_experts_weights_and_lowers_its_loss(history: Floats) -> None:
    model = Committee(5, 3, 2, PLAN)
    weights, losses = model.fit(history, TRAINING)
    assert len(losses) == 3 * TRAINING.epochs
    for j, part in enumerate(np.split(weights, 3)):
        untrained = model.network.initial_weights(np.random.default_rng(TRAINING.seed + j))
        assert not np.array_equal(part, untrained)
        assert losses[3 * j + 2] < losses[3 * j]


def test_what_fit_found_goes_into_tensors_and_back(history: Floats) -> None:
    model, _ = trained(history)
    other = Committee(5, 3, 2, PLAN)
    other.restore(model.tensors(), model.size)
    assert model.params._fields == other.params._fields
    for ref, comp in zip(model.params, other.params, strict=True):
        assert type(comp) is type(ref)
        if not isinstance(ref, tuple):
            np.testing.assert_array_equal(comp, ref)
    for ref, comp in zip(arrays(model.params), arrays(other.params), strict=True):
        np.testing.assert_array_equal(comp, ref)
        assert comp.dtype == ref.dtype


def test_it_counts_and_names_its_parameters() -> None:
    model = Committee(5, 3, 2, PLAN)
    alone = model.network
    members = sum(each.size for each in blank_members(3, 0)[:-1])  # the last is a length
    assert model.parameters == 3 * alone.parameters + 1 * 3 + members  # a subspace of one direction
    assert model.size == 3 * alone.size
    assert len(model.adaptable) == 3 * len(alone.adaptable)
    assert model.adaptable[0] == "expert1.layer1.matrix"


@pytest.mark.parametrize("plan", [Plan(), PLAN, Plan(smoothing=2.0, votes=(Vote(2, True, 0.5),))])
def test_a_plan_goes_into_json_and_back(plan: Plan) -> None:
    assert Plan.from_json(plan.to_json()) == plan


# ------------------------------------------------------------------ widths


@pytest.mark.parametrize(
    ("channels", "widths"),
    [
        (1, (5, 16, 8, 2)),
        (2, (10, 16, 8, 4)),
        (5, (25, 16, 8, 8)),
        (38, (190, 64, 32, 16)),
        (200, (1000, 64, 32, 16)),
    ],
)
def test_widths_and_bottleneck_are_bounded(channels: int, widths: tuple[int, ...]) -> None:
    assert widths_of(5 * channels) == (*widths, *widths[2::-1])
    network = Committee(5, channels, 16).network
    assert tuple(network.widths) == widths_of(5 * channels)
    assert network.widths[3] <= max(5 * channels // 2, 1)


def test_one_channel_can_be_learned() -> None:
    noise = 0.1 * np.random.default_rng(0).normal(size=(600, 1))
    series = np.sin(np.arange(600.0) / 3)[:, None] + noise
    detector = Detector().fit(series)
    networks = [member for member in detector.members_ if member.kind == "autoencoder"]
    assert not any(member.dropped for member in networks)


@pytest.mark.parametrize("length", [1, 50])
def test_deviations_of_a_channel_that_is_never_observed_are_0(length: int) -> None:
    series = np.column_stack([np.arange(length), np.full(length, np.nan), np.full(length, 7.0)])
    np.testing.assert_allclose(deviations(series), [np.arange(length).std(), 0, 0])


# ------------------------------------------------------------------ odd histories


def usable(detector: Detector, series: Floats, tmp_path: Path) -> None:
    """Everything observed has a finite score, and a copy from a file goes on the same."""
    detector.run(series[:7], flush=False)
    detector.save(tmp_path / "state.nn")
    comp = Detector.load(tmp_path / "state.nn").run(series[7:])
    ref = detector.run(series[7:])
    np.testing.assert_array_equal(comp.scores, ref.scores)
    np.testing.assert_array_equal(comp.shares, ref.shares)
    np.testing.assert_array_equal(comp.expected, ref.expected)
    observed = ~np.isnan(series[7:]).all(axis=1)
    np.testing.assert_array_equal(np.isfinite(ref.scores), observed)
    assert ref.shares is not None and ref.channel_ratios is not None
    moves = np.nanmax(series, axis=0) > np.nanmin(series, axis=0)
    whole = 1 if moves.any() else 0  # a residual of nothing has no shares
    used = (~np.isnan(series[7:]) & (ref.channel_ratios < 1)).any(axis=1)  # not all hidden
    np.testing.assert_allclose(ref.shares[used].sum(axis=1), whole, rtol=1e-5)
    assert np.isnan(ref.shares[~used]).all()
    assert math.isfinite(detector.threshold_)


@pytest.mark.parametrize("samples", [10, 11, 199, 200, 300])
@pytest.mark.parametrize("channels", [1, 2])
def test_little_history_is_enough(samples: int, channels: int, tmp_path: Path) -> None:
    detector = chosen(nasty_series("none missing", samples, channels))
    assert (detector._fitted.choice.held_out > 0) == (samples >= 200)
    usable(detector, nasty_series("some missing", 60, channels, seed=1), tmp_path)


@pytest.mark.parametrize("constant", [(0,), (1, 2), (0, 1, 2)])
def test_constant_channels_are_no_trouble(constant: tuple[int, ...], tmp_path: Path) -> None:
    history = nasty_series("none missing", 300, 3)
    history[:, constant] = 7.0
    detector = chosen(history)
    usable(detector, history[:60], tmp_path)
    moved = history[:60].copy()
    moved[42, constant[0]] = 8.0
    verdicts = detector.reset().run(moved)
    assert np.argmax(np.diff(np.log(verdicts.scores))) == 41
    assert np.argmax(present(verdicts.shares)[42]) == constant[0]


@pytest.mark.parametrize(
    ("begin", "end"), [(0, 250), (150, 300), (1, 300)], ids=["early", "late", "nearly always"]
)
@pytest.mark.parametrize("channels", [(0,), (0, 1, 2)], ids=["one channel", "all"])
def test_channels_may_be_missing_from_a_part_of_history(
    begin: int, end: int, channels: tuple[int, ...], tmp_path: Path
) -> None:
    history = nasty_series("none missing", 300, 3)
    history[begin:end, channels] = np.nan
    usable(chosen(history), nasty_series("none missing", 60, 3, seed=1), tmp_path)


def test_a_channel_first_observed_in_the_test_is_taken_for_an_average_one(history: Floats) -> None:
    unseen = history.copy()
    unseen[:, 1] = np.nan
    model, _ = trained(unseen)
    np.testing.assert_allclose(
        model.params.residual_scale[:, 1], model.params.residual_scale[:, [0, 2]].mean(1)
    )
    np.testing.assert_array_equal(model.params.scales[:, 1], 1)


def test_a_sample_with_nothing_observed_has_no_score_smoothing_waits(detector: Detector) -> None:
    gaps = np.insert(nasty_series("none missing", 40, 3, seed=2), [10, 10, 25], np.nan, axis=0)
    verdicts = detector.run(gaps)
    silent = np.isnan(gaps).all(axis=1)
    assert np.isnan(verdicts.scores[silent]).all()
    assert not verdicts.anomalous[silent].any()
    assert np.isfinite(verdicts.scores[~silent]).all()
    assert np.isfinite(present(verdicts.expected)).all()


# ------------------------------------------------------------------ live


def test_score_holds_weights_and_trends_and_starts_smoothing_afresh() -> None:
    detector = chosen(nasty_series("none missing", 300, 2, seed=99).cumsum(axis=0))
    assert detector.smoothing_ > 0
    detector.run(nasty_series("shifted", 50, 2), flush=False)
    weights, levels = detector._state.model.step.weights.copy(), detector.trend_.copy()
    series = nasty_series("none missing", 20, 2)
    ref = detector.score_frozen(series)
    np.testing.assert_array_equal(detector.score_frozen(series[:5]).scores, ref.scores[:5])
    np.testing.assert_array_equal(detector._state.model.step.weights, weights)
    np.testing.assert_array_equal(detector.trend_, levels)
    assert not np.array_equal(detector.run(series).scores, ref.scores)


def test_each_sample_has_its_verdict_at_once_and_none_is_ever_pending(detector: Detector) -> None:
    for sample in nasty_series("some missing", 60, 3, seed=3):
        (verdict,) = detector.step(sample)
        assert np.isnan(verdict.score) == np.isnan(sample).all()
        assert detector.counters["pending"] == 0
    assert detector.drop_pending() == 0
    assert len(detector.flush()) == 0


def test_restart_keeps_what_was_learned_and_forgets_the_samples(detector: Detector) -> None:
    live = nasty_series("shifted", 63, 3, seed=3)
    detector.run(live, flush=False)
    weights, trend = detector._state.model.step.weights.copy(), detector.trend_.copy()
    seen = detector.counters["seen"]
    detector.restart()
    assert detector.counters["pending"] == 0
    assert detector.counters["seen"] == seen
    np.testing.assert_array_equal(detector._state.model.step.weights, weights)
    np.testing.assert_array_equal(detector.trend_, trend)
    assert [len(detector.step(sample)) for sample in live[:6]] == [1] * 6


def test_after_restart_members_wait_for_their_windows_again(detector: Detector) -> None:
    detector.run(nasty_series("shifted", 130, 3, seed=3))
    assert detector._state.model.own.members.counts.tolist() == [30, 100]
    members = detector.restart()._state.model.own.members
    assert members.counts.tolist() == [0, 0]
    assert not members.recent.any()


def test_wrong_weights_are_put_back(detector: Detector, caplog: pytest.LogCaptureFixture) -> None:
    live = nasty_series("none missing", 40, 3, seed=3)
    detector.run(live[:20], flush=False)
    detector._state.model.step.weights[:10] = np.nan
    with caplog.at_level(logging.WARNING, logger="newnormal"):
        verdicts = detector.run(live[20:])
    assert np.isfinite(verdicts.scores).all()
    assert np.isfinite(detector._state.model.step.weights).all()
    assert detector.counters["restored"] == 1
    assert detector._state.model.own.counts[:, RESTORED].tolist() == [1]
    assert "the weights went back to a good copy" in caplog.text


def test_a_clone_chooses_the_same(detector: Detector, history: Floats, tmp_path: Path) -> None:
    other = pytest.importorskip("sklearn.base").clone(detector)
    assert other.get_params() == detector.get_params() == Detector(epochs=1).get_params()
    assert not hasattr(other, "memories_")
    for name, each in (("one.nn", detector), ("other.nn", other.fit(history))):
        each.save(tmp_path / name)
    assert (tmp_path / "one.nn").read_bytes() == (tmp_path / "other.nn").read_bytes()


def test_what_was_chosen_is_in_attributes(detector: Detector) -> None:
    assert (detector.window_, detector.latent_) == (5, 16)
    assert not hasattr(detector, "window")  # an option of M2N2
    assert detector.memories_ == (60.0,)
    assert len(detector.rates_) == 1
    assert sum(member.weight for member in detector.members_) == pytest.approx(1)
    assert [member.kind for member in detector.members_] == [
        *("autoencoder", "linear subspace", "forecast", "level", "windows", "shapes", "rhythm"),
    ]
    assert detector.smoothing_ == 1.0
    assert detector.decay_ == 0.5 ** (5 / 60)


def test_the_trend_it_shows_is_the_middle_memorys_in_the_users_units(detector: Detector) -> None:
    live = nasty_series("none missing", 60, 3, seed=4)
    detector.run(live)
    decay, trend = 0.5 ** (1 / 60), live[0]
    for sample in live:
        trend = decay * trend + (1 - decay) * sample
    np.testing.assert_allclose(detector.trend_, trend, atol=1e-6)


def test_a_spike_is_found_and_its_channel_named(detector: Detector) -> None:
    live = nasty_series("none missing", 100, 3, seed=4)
    live[62, 1] += 5.0
    verdicts = detector.run(live)
    assert verdicts.shares is not None and verdicts.channel_ratios is not None
    assert np.argmax(np.diff(verdicts.scores)) == 61
    assert np.argmax(verdicts.channel_ratios[62]) == 1
    assert verdicts.channel_ratios[62, 1] >= 1 and verdicts.shares[62, 1] == 0


def test_at_a_new_level_the_experts_are_quiet_after_a_few_memories() -> None:
    history = nasty_series("none missing", 1000, 3, seed=6)
    live = nasty_series("none missing", 2000, 3, seed=7)
    live[100:] += 4.0
    detector = Detector(epochs=10).fit(history)
    step = detector._fitted.step
    model, state = detector._fitted.model, detector._state.model
    assert isinstance(model, Committee)
    votes = np.empty((len(live), model.vote_count), np.float32)
    model.advance(live, False, state, step, blank_out(len(live), 3), None, votes)
    subspace, level = votes[:, 1], votes[:, 3]
    assert subspace[100:105].mean() > 2
    assert abs(subspace[-500:].mean()) < 0.5
    assert level[-500:].mean() > 2  # which history knows alone
