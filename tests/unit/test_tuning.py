"""What is chosen from history, by which rules, and how it is explained."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from newnormal.core.state import arrays, copied
from newnormal.kernels.step import StepParams
from newnormal.models.base import Training, scores
from newnormal.models.committee import Committee, Plan, Vote
from newnormal.tuning import WINDOW, Choice, choose, explain
from newnormal.tuning.choose import Chosen, Member
from newnormal.types import Floats, Floats32
from tests.strategies import nasty_series

LEAST = 200  # samples of a history that is tested on
CHOOSE = sys.modules["newnormal.tuning.choose"]  # the package has a function of that name


def chosen(history: Floats, seed: int = 0) -> Chosen:
    return choose(history, seed=seed, epochs=1)


def as_json(choice: Choice) -> str:
    return json.dumps(choice.to_json(), allow_nan=False)


@pytest.fixture(scope="module")
def history() -> Floats:
    return nasty_series("some missing", 400, 3, seed=5)


# ------------------------------------------------------------------ from history alone


def test_the_same_seed_gives_the_same_choice_bit_for_bit(history: Floats) -> None:
    ref, comp = chosen(history), chosen(history)
    assert as_json(comp.choice) == as_json(ref.choice)
    np.testing.assert_array_equal(comp.fitted, ref.fitted)
    np.testing.assert_array_equal(comp.scores, ref.scores)
    assert comp.losses == ref.losses
    assert as_json(chosen(history, seed=1).choice) != as_json(ref.choice)


def test_nothing_beyond_the_end_of_history_is_looked_at(history: Floats) -> None:
    ref = chosen(history)
    for tail in (np.nan, 1e9):
        longer = np.concatenate([history, np.full((300, 3), tail)])
        comp = chosen(longer[: len(history)])  # a view: what follows is in memory right behind
        assert as_json(comp.choice) == as_json(ref.choice)
        np.testing.assert_array_equal(comp.fitted, ref.fitted)
        np.testing.assert_array_equal(comp.scores, ref.scores)


def test_history_is_left_as_it_was(history: Floats) -> None:
    before = history.copy()
    chosen(history)
    np.testing.assert_array_equal(history, before)


@pytest.mark.parametrize("samples", [10, LEAST - 1, LEAST, 401])
def test_below_200_samples_nothing_is_tested(history: Floats, samples: int) -> None:
    found = chosen(nasty_series("none missing", samples, 2)).choice
    assert found.samples == samples
    if samples < LEAST:
        assert (found.held_out, found.plan) == (0, Plan())
        assert [member.weight for member in found.members] == [0.25] * 4
        assert all(math.isnan(each) for each in (found.ensemble_ap, found.autocorrelation))
    else:
        assert found.held_out == int(0.3 * samples)
        assert all(0 < member.average_precision <= 1 for member in found.members)
        assert 0 < found.ensemble_ap <= 1


@pytest.mark.parametrize("missing", [slice(0, 300), slice(300, 400), slice(0, 400, 2)])
def test_samples_that_are_missing_do_not_count(history: Floats, missing: slice) -> None:
    gaps = history.copy()
    gaps[missing] = np.nan
    gaps[-1] = 0.0
    comp = chosen(gaps)
    observed = np.flatnonzero((~np.isnan(gaps)).any(axis=1))
    enough = (observed < 280).sum() >= 140 and (observed >= 280).sum() >= 60
    assert (comp.choice.held_out > 0) == enough
    assert np.isfinite(comp.scores).all()


def test_a_long_history_is_tested_on_its_newest_20_000_and_trained_on_96_000_windows() -> None:
    assert CHOOSE._LONGEST == 20_000
    training = CHOOSE._training(1_000_000, 3, None, None)
    assert (training.stride, training.batch, training.seed) == (11, 64, 3)
    windows = (1_000_000 - WINDOW) // 11 + 1
    assert windows <= 96_000
    assert training.epochs == math.ceil(3000 / (windows / 64)) == 3


@pytest.mark.parametrize(
    ("samples", "epochs", "batch", "wanted"),
    [
        (10, None, None, (1, 200, 64)),  # at most
        (23_700, None, None, (1, 9, 64)),
        (96_000, None, None, (1, 3, 64)),
        (96_001, None, None, (2, 5, 64)),
        (23_700, 5, 32, (1, 5, 32)),  # as given
    ],
)
def test_training_goes_on_for_3000_steps_or_as_asked(
    samples: int, epochs: int | None, batch: int | None, wanted: tuple[int, int, int]
) -> None:
    training = CHOOSE._training(samples, 0, epochs, batch)
    assert (training.stride, training.epochs, training.batch) == wanted


# ------------------------------------------------------------------ scores


@pytest.mark.parametrize("smoothing", [0.0, 1.0, 4.0])
def test_the_scores_a_threshold_is_taken_from_are_those_of_the_running_committee(
    history: Floats, smoothing: float
) -> None:
    plan = Plan(votes=(Vote(0, False, 2.0), Vote(1, True)), smoothing=smoothing)
    model = Committee(WINDOW, 3, 2, plan)
    fitted, _ = model.fit(history, Training(1, 2, 64, 0))
    series = nasty_series("every third sample missing", 123, 3, seed=8)
    comp = CHOOSE._scores(plan, model.votes(series, fitted, plan.rates))
    params = StepParams(np.zeros(3), np.ones(3), fitted, WINDOW, np.inf, np.inf, 0.0, np.float32(1))
    ref = scores(model, params, series)
    np.testing.assert_allclose(comp, ref, rtol=1e-9)
    assert np.isnan(comp).sum() == 41


def test_the_threshold_comes_from_samples_the_committee_was_not_trained_on(
    history: Floats,
) -> None:
    found = chosen(history)
    held_out = history[-found.choice.held_out :]
    assert len(found.scores) == (~np.isnan(held_out).all(axis=1)).sum()


# ------------------------------------------------------------------ learning rates

PLAN = Plan(memories=(5.0, 50.0), rates=(0.0, 0.0), votes=(Vote(0, False), Vote(1, False)))
MIXING = np.array([[1.0, 1.0, 0.5, -1.0], [0.0, 1.0, -1.0, 0.5]])


def mixed(samples: int, seed: int, mixing: Floats = MIXING) -> Floats:
    """Return four channels that two sources drive."""
    rng = np.random.default_rng(seed)
    series = rng.normal(size=(samples, 2)) @ mixing + 0.05 * rng.normal(size=(samples, 4))
    return np.asarray(series / series.std(axis=0))


@pytest.fixture(scope="module")
def learned() -> tuple[Committee, Floats32]:
    model = Committee(WINDOW, 4, 4, PLAN)
    fitted, _ = model.fit(mixed(1000, 1), Training(1, 60, 64, 0))
    model.params = model.params._replace(learn_below=np.full(2, np.inf))  # learns from everything
    return model, fitted


def test_the_largest_rate_is_chosen_where_learning_helps(
    learned: tuple[Committee, Floats32],
) -> None:
    other = mixed(2000, 2, MIXING[:, [2, 0, 3, 1]] * [1, -1, 1, 1])  # another plant
    assert CHOOSE._rates(*learned, other) == (0.01, 0.01)


def test_no_learning_is_chosen_where_learning_hurts(learned: tuple[Committee, Floats32]) -> None:
    disturbed = mixed(600, 2)  # nothing new, but for noise between
    rng = np.random.default_rng(3)
    for at in range(0, 600, 10):
        disturbed[at : at + 5] = rng.normal(scale=2, size=(5, 4))
    assert CHOOSE._rates(*learned, disturbed) == (0.0, 0.0)


def test_an_expert_that_may_learn_from_nothing_gets_rate_0(
    learned: tuple[Committee, Floats32],
) -> None:
    model, fitted = learned
    held = Committee(WINDOW, 4, 4, PLAN)
    held.params = model.params._replace(learn_below=np.zeros(2))
    assert CHOOSE._rates(held, fitted, mixed(100, 2)) == (0.0, 0.0)


# ------------------------------------------------------------------ the rules


class Stub:
    """Gives fixed votes: each one's first value is what it finds in the test."""

    plan = Plan()

    def __init__(self, found: Sequence[float]) -> None:
        self.found = found

    def votes(self, series: Floats, fitted: Floats32, rates: Sequence[float]) -> Floats:
        return np.tile(np.array(self.found)[:, None], len(series))


def decided(
    monkeypatch: pytest.MonkeyPatch,
    found: Sequence[float] = (1.0, 1.0, 1.0, 1.0),
    correlation: float = 0.0,
    rates: tuple[float, ...] = (0.003, 0.003, 0.003),
) -> Choice:
    """Return what is chosen where votes find that much and neighbours correlate so."""
    monkeypatch.setattr(CHOOSE, "average_precision", lambda _, vote: float(vote[0]))
    monkeypatch.setattr(CHOOSE, "_autocorrelation", lambda _: correlation)
    monkeypatch.setattr(CHOOSE, "_rates", lambda *_: rates)
    held_out = nasty_series("none missing", 60, 2)
    stub = Stub(found)
    decided_on: Choice = CHOOSE._tested(stub, np.zeros(0, np.float32), held_out, 0, 200)[0]
    return decided_on


@pytest.mark.parametrize(
    ("found", "counted"),
    [
        ((0.75, 0.75, 0.75, 0.75), (0, 1, 2, 3)),
        ((0.75, 0.25, 0.2499, 0.0), (0, 1)),
        ((0.0, 0.1, 0.9, 0.0), (2,)),
        ((0.0, 0.0, 0.0, 0.9), (3,)),
        ((0.0, 0.0, 0.0, 0.0), (0, 1, 2, 3)),  # none is better than another
    ],
)
def test_a_vote_that_finds_less_than_a_third_of_the_best_gets_weight_0(
    monkeypatch: pytest.MonkeyPatch, found: tuple[float, ...], counted: tuple[int, ...]
) -> None:
    comp = decided(monkeypatch, found)
    weights = [1.0 if at in counted else 0.0 for at in range(4)]
    assert [vote.weight for vote in comp.plan.votes] == weights
    assert [(vote.expert, vote.linear) for vote in comp.plan.votes] == [
        (vote.expert, vote.linear) for vote in Plan().votes
    ]
    assert tuple(comp.plan.counted) == counted
    shares = [each / len(counted) for each in weights]
    assert [member.weight for member in comp.members] == pytest.approx(shares)
    assert [member.average_precision for member in comp.members] == pytest.approx(found)


def test_an_autoencoder_of_weight_0_does_not_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    comp = decided(monkeypatch, (0.9, 0.1, 0.1, 0.9), rates=(0.001, 0.003, 0.01))
    assert comp.plan.rates == (0.001, 0.0, 0.0)  # the second's trend is the linear subspace's too
    assert [member.lr for member in comp.members] == [0.001, 0.003, 0.01, 0.0]


@pytest.mark.parametrize(
    ("correlation", "smoothing"),
    [(-0.5, 0), (0.2499, 0), (0.25, 1), (0.5, 1), (0.8499, 1), (0.85, 0), (1.0, 0)],
)
def test_the_score_is_smoothed_where_neighbours_correlate_but_are_not_the_same(
    monkeypatch: pytest.MonkeyPatch, correlation: float, smoothing: float
) -> None:
    assert decided(monkeypatch, correlation=correlation).plan.smoothing == smoothing


def test_neighbours_correlate_as_numpy_computes_it() -> None:
    assert CHOOSE._autocorrelation(np.tile([1.0, -1.0], 50)) == pytest.approx(-1)
    assert CHOOSE._autocorrelation(np.arange(50.0)) == pytest.approx(1)
    assert abs(CHOOSE._autocorrelation(np.random.default_rng(0).normal(size=10_000))) < 0.05
    for nothing in ([], [1.0], [1.0, 2.0], [3.0] * 9):
        assert CHOOSE._autocorrelation(np.array(nothing)) == 0


# ------------------------------------------------------------------ sentences and JSON


def example() -> Choice:
    plan = Plan(rates=(0.0, 0.003, 0.0), votes=Plan().votes[1:2] + Plan().votes[3:], smoothing=1.0)
    members = (
        Member(15.0, False, 0.001, 0.1234, 0.0),
        Member(60.0, False, 0.003, 0.625, 0.5),
        Member(math.inf, False, 0.0, 0.2, 0.0),
        Member(60.0, True, 0.0, 0.5, 0.5),
    )
    return Choice(plan, members, 1296, 0.6666, 0.4567, 4320)


def test_the_choice_is_explained_in_sentences_and_one_table() -> None:
    assert explain(example()) == (
        "A committee, chosen from 4,320 samples of history. Its members were trained on\n"
        "all but the newest 1,296, tested on those with planted faults and with changes\n"
        "that are no faults, and then trained on all.\n"
        "\n"
        "  member           memory      learns at  found  weight\n"
        "  autoencoder      15 samples  0.001      0.12   0%\n"
        "  autoencoder      60 samples  0.003      0.62   50%\n"
        "  autoencoder      endless     does not   0.20   0%\n"
        "  linear subspace  60 samples  -          0.50   50%\n"
        "  all members                             0.67\n"
        "\n"
        "memory     half-life of the trend that a member subtracts before it scores\n"
        "learns at  its learning rate: the one of smallest error on the held-out samples\n"
        "found      average precision on the planted faults; 1 ranks them above all else\n"
        "weight     its part of the score; a member that finds less than a third of what\n"
        "           the best one finds gets weight 0\n"
        "\n"
        "The score is smoothed with a half-life of one sample: neighbouring scores\n"
        "correlate by 0.46."
    )


@pytest.mark.parametrize(
    ("correlation", "why"),
    [
        (0.1, "neighbouring scores correlate by 0.10, too little for smoothing to help."),
        (0.9, "neighbouring scores correlate by 0.90, so they are smooth already."),
    ],
)
def test_the_reason_is_given_why_the_score_is_not_smoothed(correlation: float, why: str) -> None:
    plain = replace(example().plan, smoothing=0.0)
    text = explain(replace(example(), plan=plain, autocorrelation=correlation))
    assert " ".join(text.split()).endswith(f"The score is not smoothed: {why}")


def test_the_reason_is_given_when_nothing_was_tested() -> None:
    assert explain(chosen(nasty_series("none missing", 50, 2)).choice) == (
        "A committee, chosen from 50 samples of history. Nothing was tested: that takes\n"
        "200 samples that are not missing, the newest 30% among them.\n"
        "\n"
        "  member           memory       learns at  found  weight\n"
        "  autoencoder      15 samples   0.003      -      25%\n"
        "  autoencoder      60 samples   0.003      -      25%\n"
        "  autoencoder      300 samples  0.003      -      25%\n"
        "  linear subspace  60 samples   -          -      25%\n"
        "\n"
        "The score is not smoothed."
    )


@pytest.mark.parametrize("samples", [50, 400, 123_456_789])
def test_no_line_of_it_is_wider_than_80_columns(history: Floats, samples: int) -> None:
    for found in (chosen(history[: min(samples, 400)]).choice, example()):
        explained = explain(replace(found, samples=samples, held_out=min(samples, 20_000)))
        assert max(map(len, explained.split("\n"))) <= 80


def test_a_choice_goes_into_json_and_back(history: Floats) -> None:
    for found in (example(), chosen(history).choice):
        assert Choice.from_json(json.loads(as_json(found))) == found
    short = chosen(history[:50]).choice  # NaN, which is not equal to itself
    assert as_json(Choice.from_json(json.loads(as_json(short)))) == as_json(short)
    assert explain(Choice.from_json(short.to_json())) == explain(short)


def test_a_fresh_stream_of_what_was_chosen_is_ready(history: Floats) -> None:
    found = chosen(history)
    stream = found.model.initial(found.fitted)
    for ref, comp in zip(arrays(stream), arrays(copied(stream)), strict=True):
        np.testing.assert_array_equal(comp, ref)
    assert stream.step.weights.shape == (found.model.size,)
