"""What is chosen from history, by which rules, and in which words."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from newnormal.core import live
from newnormal.kernels.step import Rules
from newnormal.models.base import Training, scores
from newnormal.models.committee import Committee, Plan, Vote
from newnormal.tuning import WINDOW, Choice, choice, choose
from newnormal.tuning.choice import Chosen, Member
from newnormal.types import Floats, Floats32
from tests.strategies import nasty_series

LEAST = 200  # samples of a history that is rehearsed on


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
def test_below_200_samples_nothing_is_rehearsed(history: Floats, samples: int) -> None:
    found = chosen(nasty_series("none missing", samples, 2)).choice
    assert found.samples == samples
    if samples < LEAST:
        assert (found.rehearsed, found.plan) == (0, Plan())
        assert [member.weight for member in found.members] == [0.25] * 4
        assert all(math.isnan(each) for each in (found.together, found.related))
    else:
        assert found.rehearsed == int(0.3 * samples)
        assert all(0 < member.found <= 1 for member in found.members)
        assert 0 < found.together <= 1


@pytest.mark.parametrize("missing", [slice(0, 300), slice(300, 400), slice(0, 400, 2)])
def test_samples_that_are_missing_do_not_count(history: Floats, missing: slice) -> None:
    gaps = history.copy()
    gaps[missing] = np.nan
    gaps[-1] = 0.0
    comp = chosen(gaps)
    observed = np.flatnonzero((~np.isnan(gaps)).any(axis=1))
    enough = (observed < 280).sum() >= 140 and (observed >= 280).sum() >= 60
    assert (comp.choice.rehearsed > 0) == enough
    assert np.isfinite(comp.scores).all()


def test_a_long_history_is_rehearsed_on_its_newest_20_000_and_trained_on_96_000_windows() -> None:
    assert choice._LONGEST == 20_000
    training = choice._training(1_000_000, 3, None, None)
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
    training = choice._training(samples, 0, epochs, batch)
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
    comp = choice._scores(plan, model.hear(series, fitted, plan.rates))
    rules = Rules(np.zeros(3), np.ones(3), fitted, WINDOW, np.inf, 0.0, np.float32(1))
    ref = scores(model, model.fresh(fitted), rules, series)
    np.testing.assert_allclose(comp, ref, rtol=1e-9)
    assert np.isnan(comp).sum() == 41


def test_the_threshold_comes_from_samples_the_committee_was_not_trained_on(
    history: Floats,
) -> None:
    found = chosen(history)
    held_out = history[-found.choice.rehearsed :]
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
    model.charter = model.charter._replace(taus=np.full(2, np.inf))  # learns from everything
    return model, fitted


def test_the_largest_rate_is_chosen_where_learning_helps(
    learned: tuple[Committee, Floats32],
) -> None:
    other = mixed(2000, 2, MIXING[:, [2, 0, 3, 1]] * [1, -1, 1, 1])  # another plant
    assert choice._rates(*learned, other) == (0.01, 0.01)


def test_no_learning_is_chosen_where_learning_hurts(learned: tuple[Committee, Floats32]) -> None:
    disturbed = mixed(600, 2)  # nothing new, but for noise between
    rng = np.random.default_rng(3)
    for at in range(0, 600, 10):
        disturbed[at : at + 5] = rng.normal(scale=2, size=(5, 4))
    assert choice._rates(*learned, disturbed) == (0.0, 0.0)


def test_an_expert_that_may_learn_from_nothing_is_not_said_to_learn(
    learned: tuple[Committee, Floats32],
) -> None:
    model, fitted = learned
    deaf = Committee(WINDOW, 4, 4, PLAN)
    deaf.charter = model.charter._replace(taus=np.zeros(2))
    assert choice._rates(deaf, fitted, mixed(100, 2)) == (0.0, 0.0)


# ------------------------------------------------------------------ the rules


class Stub:
    """Votes as told: each one's first value is what it finds in rehearsal."""

    plan = Plan()

    def __init__(self, found: Sequence[float]) -> None:
        self.found = found

    def hear(self, series: Floats, fitted: Floats32, rates: Sequence[float]) -> Floats:
        return np.tile(np.array(self.found)[:, None], len(series))


def decided(
    monkeypatch: pytest.MonkeyPatch,
    found: Sequence[float] = (1.0, 1.0, 1.0, 1.0),
    related: float = 0.0,
    rates: tuple[float, ...] = (0.003, 0.003, 0.003),
) -> Choice:
    """Return what is chosen where votes find that much and neighbours are so related."""
    monkeypatch.setattr(choice, "average_precision", lambda _, vote: float(vote[0]))
    monkeypatch.setattr(choice, "_related", lambda _: related)
    monkeypatch.setattr(choice, "_rates", lambda *_: rates)
    held_out = nasty_series("none missing", 60, 2)
    stub = Stub(found)
    return choice._rehearsed(stub, np.zeros(0, np.float32), held_out, 0, 200)[0]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "heard"),
    [
        ((0.75, 0.75, 0.75, 0.75), (0, 1, 2, 3)),
        ((0.75, 0.25, 0.2499, 0.0), (0, 1)),
        ((0.0, 0.1, 0.9, 0.0), (2,)),
        ((0.0, 0.0, 0.0, 0.9), (3,)),
        ((0.0, 0.0, 0.0, 0.0), (0, 1, 2, 3)),  # nobody is better than another
    ],
)
def test_a_vote_that_finds_less_than_a_third_of_the_best_is_not_heard(
    monkeypatch: pytest.MonkeyPatch, found: tuple[float, ...], heard: tuple[int, ...]
) -> None:
    comp = decided(monkeypatch, found)
    assert comp.plan.votes == tuple(Plan().votes[at] for at in heard)
    say = [1 / len(heard) if at in heard else 0.0 for at in range(4)]
    assert [member.weight for member in comp.members] == pytest.approx(say)
    assert [member.found for member in comp.members] == pytest.approx(found)


def test_an_autoencoder_nobody_hears_does_not_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    comp = decided(monkeypatch, (0.9, 0.1, 0.1, 0.9), rates=(0.001, 0.003, 0.01))
    assert comp.plan.rates == (0.001, 0.0, 0.0)  # the second's trend is the linear subspace's too
    assert [member.lr for member in comp.members] == [0.001, 0.003, 0.01, 0.0]


@pytest.mark.parametrize(
    ("related", "smoothing"),
    [(-0.5, 0), (0.2499, 0), (0.25, 1), (0.5, 1), (0.8499, 1), (0.85, 0), (1.0, 0)],
)
def test_the_score_is_smoothed_where_neighbours_are_related_but_not_the_same(
    monkeypatch: pytest.MonkeyPatch, related: float, smoothing: float
) -> None:
    assert decided(monkeypatch, related=related).plan.smoothing == smoothing


def test_neighbours_are_related_by_their_correlation() -> None:
    assert choice._related(np.tile([1.0, -1.0], 50)) == pytest.approx(-1)
    assert choice._related(np.arange(50.0)) == pytest.approx(1)
    assert abs(choice._related(np.random.default_rng(0).normal(size=10_000))) < 0.05
    for nothing in ([], [1.0], [1.0, 2.0], [3.0] * 9):
        assert choice._related(np.array(nothing)) == 0


# ------------------------------------------------------------------ words and JSON


def example() -> Choice:
    plan = Plan(rates=(0.0, 0.003, 0.0), votes=Plan().votes[1:2] + Plan().votes[3:], smoothing=1.0)
    members = (
        Member(15.0, False, 0.001, 0.1234, 0.0),
        Member(60.0, False, 0.003, 0.625, 0.5),
        Member(math.inf, False, 0.0, 0.2, 0.0),
        Member(60.0, True, 0.0, 0.5, 0.5),
    )
    return Choice(plan, members, 1296, 0.6666, 0.4567, 4320)


def test_the_choice_is_explained_in_plain_words_and_one_table() -> None:
    assert example().explain() == (
        "A committee, chosen from 4,320 samples of history; no setting was given. Its\n"
        "members were trained on all but the newest 1,296, rehearsed on those, with\n"
        "faults planted and with changes that are no faults, and trained on all.\n"
        "\n"
        "  member           memory      learns at   found  say\n"
        "  autoencoder      15 samples  0.001       0.12   not heard\n"
        "  autoencoder      60 samples  0.003       0.62   50%\n"
        "  autoencoder      endless     not at all  0.20   not heard\n"
        "  linear subspace  60 samples  -           0.50   50%\n"
        "  together                                 0.67\n"
        "\n"
        "memory     half-life of the trend that a member subtracts before it looks\n"
        "learns at  its learning rate: the one that expected the held-out samples best\n"
        "found      average precision on the planted faults; 1 puts them above all else\n"
        "say        its part of the score; a member that finds less than a third of what\n"
        "           the best one finds is not heard\n"
        "\n"
        "The score is smoothed with a half-life of one sample: neighbouring scores\n"
        "correlate by 0.46."
    )


@pytest.mark.parametrize(
    ("related", "why"),
    [
        (0.1, "neighbouring scores correlate by 0.10, too little to help each other."),
        (0.9, "neighbouring scores correlate by 0.90, smooth already."),
    ],
)
def test_it_is_said_why_the_score_is_not_smoothed(related: float, why: str) -> None:
    plain = replace(example().plan, smoothing=0.0)
    said = replace(example(), plan=plain, related=related).explain()
    assert " ".join(said.split()).endswith(f"The score is not smoothed: {why}")


def test_it_is_said_when_nothing_was_rehearsed() -> None:
    assert chosen(nasty_series("none missing", 50, 2)).choice.explain() == (
        "A committee, chosen from 50 samples of history; no setting was given. Nothing\n"
        "was rehearsed: that takes 200 samples that are not missing, the newest 30% among\n"
        "them.\n"
        "\n"
        "  member           memory       learns at  found  say\n"
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
        explained = replace(found, samples=samples, rehearsed=min(samples, 20_000)).explain()
        assert max(map(len, explained.split("\n"))) <= 80


def test_a_choice_goes_into_json_and_back(history: Floats) -> None:
    for found in (example(), chosen(history).choice):
        assert Choice.from_json(json.loads(as_json(found))) == found
    short = chosen(history[:50]).choice  # NaN, which is not equal to itself
    assert as_json(Choice.from_json(json.loads(as_json(short)))) == as_json(short)
    assert Choice.from_json(short.to_json()).explain() == short.explain()


def test_a_fresh_stream_of_what_was_chosen_is_ready(history: Floats) -> None:
    found = chosen(history)
    stream = found.model.fresh(found.fitted)
    for ref, comp in zip(stream, live.copied(stream), strict=True):
        np.testing.assert_array_equal(comp, ref)
    assert stream.weights.shape == (found.model.size,)
