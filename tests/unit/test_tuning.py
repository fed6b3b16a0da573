"""What is chosen from history, by which rules and scenarios, and how it is explained."""

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from newnormal import Detector, NewnormalWarning
from newnormal.core.state import arrays, copied
from newnormal.kernels.step import StepParams
from newnormal.models.base import Training, scores
from newnormal.models.committee import Committee
from newnormal.models.plan import Plan, Vote
from newnormal.tuning import WINDOW, Choice, Member, choose, early_samples, explain
from newnormal.tuning.choice import COPIES, LEARNED_NOTHING, NO_RHYTHM, TOO_SHORT
from newnormal.tuning.choose import Chosen
from newnormal.tuning.scenarios import _APART, _SHARE, change, plant_faults, scenarios
from newnormal.types import Bools, Floats, Floats32
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
    assert sum(member.weight for member in found.members) == pytest.approx(1)
    if samples < LEAST:
        assert (found.held_out, found.plan.votes) == (0, Plan().votes)
        assert all(math.isnan(member.average_precision) for member in found.members)
        assert math.isnan(found.ensemble_ap)
    else:
        assert found.held_out == int(0.3 * samples) == samples - early_samples(samples)
        for member in found.members:
            tested = member.dropped not in (TOO_SHORT, NO_RHYTHM)
            assert math.isnan(member.average_precision) != tested
        assert 0 < found.ensemble_ap <= 1


@pytest.mark.parametrize(
    ("samples", "short"),
    [
        (10, {"forecast", "windows", "shapes"}),
        (18, {"windows", "shapes"}),
        (60, {"shapes"}),
        (199, {"shapes"}),
        (427, {"shapes"}),  # 299 of these are early
        (430, set()),
    ],
)
def test_a_member_needs_three_times_its_samples(samples: int, short: set[str]) -> None:
    found = chosen(nasty_series("none missing", samples, 2)).choice
    assert {member.kind for member in found.members if member.dropped == TOO_SHORT} == short
    for member in found.members:
        assert (member.weight == 0) == bool(member.dropped)


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
    assert (1_000_000 - WINDOW) // 11 + 1 <= 96_000
    assert training.epochs == 2  # at least


@pytest.mark.parametrize(
    ("samples", "epochs", "batch", "wanted"),
    [
        (10, None, None, (1, 200, 64)),  # at most
        (3_000, None, None, (1, 9, 64)),
        (96_000, None, None, (1, 2, 64)),
        (96_001, None, None, (2, 2, 64)),
        (23_700, 5, 32, (1, 5, 32)),  # as given
    ],
)
def test_training_goes_on_for_400_steps_or_as_asked(
    samples: int, epochs: int | None, batch: int | None, wanted: tuple[int, int, int]
) -> None:
    training = CHOOSE._training(samples, 0, epochs, batch)
    assert (training.stride, training.epochs, training.batch) == wanted


@pytest.mark.parametrize("smoothing", [0.0, 1.0, 4.0])
def test_a_threshold_is_of_the_running_committees_scores(history: Floats, smoothing: float) -> None:
    plan = Plan(votes=(Vote(0, False, 2.0), Vote(0, True)), smoothing=smoothing)
    model = Committee(WINDOW, 3, 2, plan)
    fitted, _ = model.fit(history, Training(1, 2, 64, 0))
    series = nasty_series("every third sample missing", 123, 3, seed=8)
    params = StepParams(np.zeros(3), np.ones(3), fitted, 1, np.inf, np.inf, 0.0, np.float32(1))
    ref = scores(model, params, series)
    np.testing.assert_array_equal(CHOOSE._scores(model, fitted, series), ref)

    votes = model.votes(series, fitted, plan.rates)
    silent = np.isnan(series).all(axis=1)
    votes = np.maximum(np.where(np.isnan(votes), 0, votes), 0)
    parts = np.array(plan.weights)[:, None] * votes / sum(plan.weights)
    late = np.array(plan.smoothed)
    mean, at_once = parts[late].sum(axis=0), parts[~late].sum(axis=0)
    keep = 0.5 ** (1 / smoothing) if smoothing else 0.0
    smooth = math.nan
    for t in np.flatnonzero(~silent):
        before = mean[t] if math.isnan(smooth) else smooth
        smooth = keep * before + (1 - keep) * mean[t]
        assert ref[t] == pytest.approx(math.exp(smooth + at_once[t]), rel=1e-9)
    assert np.isnan(ref).sum() == 41


def test_the_threshold_comes_from_samples_the_committee_was_not_trained_on(history: Floats) -> None:
    found = chosen(history)
    held_out = history[-found.choice.held_out :]
    assert len(found.scores) == (~np.isnan(held_out).all(axis=1)).sum()


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


def test_a_rate_is_chosen_where_learning_helps_and_none_where_it_hurts_or_may_not_be(
    learned: tuple[Committee, Floats32],
) -> None:
    other = mixed(2000, 2, MIXING[:, [2, 0, 3, 1]] * [1, -1, 1, 1])  # another plant
    assert CHOOSE._rates(*learned, other) == (0.001, 0.001)
    disturbed = mixed(600, 2)  # nothing new, but for noise between
    rng = np.random.default_rng(3)
    for at in range(0, 600, 10):
        disturbed[at : at + 5] = rng.normal(scale=2, size=(5, 4))
    assert CHOOSE._rates(*learned, disturbed) == (0.0, 0.0)
    model, fitted = learned
    held = Committee(WINDOW, 4, 4, PLAN)
    held.params = model.params._replace(learn_below=np.zeros(2))
    assert CHOOSE._rates(held, fitted, mixed(100, 2)) == (0.0, 0.0)


class Stub:
    """Gives fixed votes: each one's first value is what it finds in the test."""

    plan = Plan(members=(1.0, 1.0, 1.0, 1.0, 0.0))

    def __init__(self, found: Sequence[float]) -> None:
        self.found = found

    def votes(self, series: Floats, *_: object) -> Floats:
        return np.tile(np.array(self.found)[:, None], len(series))

    def with_plan(self, plan: Plan) -> Plan:
        return plan


def decided(
    monkeypatch: pytest.MonkeyPatch,
    found: Sequence[float] = (1.0,) * 6,
    left: Sequence[float] = (0.0,),
    rates: tuple[float, ...] = (0.003,),
) -> Choice:
    """Return what is chosen where votes find, and autoencoders leave, that much."""
    monkeypatch.setattr(CHOOSE, "ranked_precision", lambda _, vote: float(vote[0]))
    monkeypatch.setattr(CHOOSE, "_left", lambda *_: np.array(left))
    monkeypatch.setattr(CHOOSE, "_scores", lambda *_: np.ones(1))
    monkeypatch.setattr(CHOOSE, "_rates", lambda *_: rates)
    held_out = nasty_series("none missing", 60, 2)
    stub, dropped = Stub((*found, 0.0)), [""] * 6 + [NO_RHYTHM]
    fitted = np.zeros(0, np.float32)
    decided_on: Choice = CHOOSE._tested(stub, fitted, held_out, None, dropped, 0)
    return decided_on


@pytest.mark.parametrize(
    ("found", "counted"),
    [
        ((0.75, 0.75, 0.75), (0, 1)),
        ((0.75, 0.25, 0.0), (0, 1)),
        ((0.75, 0.2499, 0.0), (0,)),
        ((0.0, 0.1, 0.9), ()),  # the best may be another member
        ((0.0, 0.0, 0.0), (0, 1)),  # none is better than another
    ],
)
def test_an_experts_vote_that_finds_less_than_a_third_of_the_best_gets_weight_0(
    monkeypatch: pytest.MonkeyPatch, found: tuple[float, ...], counted: tuple[int, ...]
) -> None:
    comp = decided(monkeypatch, (*found, 0.0, 0.0, 0.0))
    weights = [1 / len(counted) if at in counted else 0.0 for at in range(2)]
    assert [vote.weight for vote in comp.plan.votes] == weights
    assert [(vote.expert, vote.linear) for vote in comp.plan.votes] == [
        (vote.expert, vote.linear) for vote in Plan().votes
    ]
    assert comp.plan.members == (1.0, 1.0, 1.0, 1.0, 0.0)  # whatever they find
    total = 4 + sum(weights)
    shares = [each / total for each in (*weights, 1, 1, 1, 1, 0)]
    assert [member.weight for member in comp.members] == pytest.approx(shares)
    precision = [member.average_precision for member in comp.members]
    assert precision[:3] == pytest.approx(found)
    assert math.isnan(precision[-1])
    why = [member.dropped for member in comp.members[:2]]
    assert why == ["" if at in counted else COPIES for at in range(2)]


@pytest.mark.parametrize(
    ("left", "why"),
    [
        ((0.8999,), ("",)),
        ((0.9,), (LEARNED_NOTHING,)),
        ((1.3,), (LEARNED_NOTHING,)),
    ],
)
def test_an_autoencoder_that_leaves_nine_tenths_learned_nothing(
    monkeypatch: pytest.MonkeyPatch, left: tuple[float, ...], why: tuple[str, ...]
) -> None:
    comp = decided(monkeypatch, left=left)
    assert tuple(member.dropped for member in comp.members[:2]) == (*why, "")
    left_over = 1 + sum(not each for each in why)  # the linear subspace among them
    weights = [0.0 if each else 1 / left_over for each in why]
    assert [vote.weight for vote in comp.plan.votes[:1]] == weights
    assert comp.learned_nothing == all(why)


def test_what_an_autoencoder_leaves_is_relative(learned: tuple[Committee, Floats32]) -> None:
    assert (CHOOSE._left(*learned, mixed(500, 2), (0.0, 0.0)) < 0.8).all()
    model, fitted = learned
    nothing = CHOOSE._left(model, np.zeros_like(fitted), mixed(500, 2), (0.0, 0.0))
    np.testing.assert_allclose(nothing, 1.0, rtol=1e-6)
    np.testing.assert_array_equal(CHOOSE._left(*learned, np.zeros((50, 4)), (0.0, 0.0)), 1.0)


def test_fit_warns_where_no_autoencoder_learned_anything() -> None:
    white = np.random.default_rng(0).normal(size=(300, 20))
    with pytest.warns(NewnormalWarning, match="no autoencoder learned anything from history"):
        detector = Detector(epochs=1).fit(white)
    assert detector.rates_ == (0.0,)
    assert "it learned nothing" in " ".join(detector.explain().split())


def test_an_autoencoder_of_weight_0_does_not_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    comp = decided(monkeypatch, (0.1, 0.9, 0.9, 0.9, 0.9, 0.9), rates=(0.001,))
    assert comp.plan.rates == (0.0,)  # its trend is the linear subspace's too
    assert [member.lr for member in comp.members[:3]] == [0.001, 0.0, 0.0]


def example() -> Choice:
    votes = (replace(Plan().votes[0], weight=0.0), *Plan().votes[1:])
    plan = Plan(rates=(0.0,), votes=votes)
    members = (
        Member("autoencoder", 60.0, 0.001, 0.1234, 0.0, LEARNED_NOTHING),
        Member("linear subspace", 60.0, 0.0, 0.1, 0.0, COPIES),
        Member("forecast", 6.0, 0.0, 0.625, 0.4),
        Member("level", 1.0, 0.0, 0.5, 0.3),
        Member("windows", 20.0, 0.0, 0.5, 0.3),
        Member("shapes", 100.0, 0.0, math.nan, 0.0, TOO_SHORT),
        Member("rhythm", 1.0, 0.0, math.nan, 0.0, NO_RHYTHM),
    )
    return Choice(plan, members, 1296, 0.6666, 4320, ("Two values were left out.",))


def test_the_choice_is_explained_in_sentences_and_one_table() -> None:
    assert explain(example()) == (
        "A committee, chosen from 4,320 samples of history. Its members were trained on "
        "all but the newest 1,296, tested on those with planted faults and with changes "
        "that are no faults, and then trained on all.\n"
        "\n"
        "  member           takes        learns at  planted  weight\n"
        "  autoencoder      60 samples   0.001      0.12     0%\n"
        "  linear subspace  60 samples   -          0.10     0%\n"
        "  forecast         6 samples    -          0.62     40%\n"
        "  level            1 sample     -          0.50     30%\n"
        "  windows          20 samples   -          0.50     30%\n"
        "  shapes           100 samples  -          -        0%\n"
        "  rhythm           the phase    -          -        0%\n"
        "  all members                              0.67\n"
        "\n"
        "takes      half-life of the trend that it subtracts, or length of its window\n"
        "learns at  its learning rate: the one of smallest error on the held-out samples\n"
        "planted    average precision on planted faults; 1 ranks them above all else\n"
        "weight     its part of the score\n"
        "\n"
        "The autoencoder of 60 samples has weight 0: it learned nothing. On held-out "
        "history it leaves 90% or more of the variance.\n"
        "The linear subspace has weight 0: it reproduces faults. Its average precision on "
        "planted faults is less than a third of the best member's.\n"
        "The member 'shapes' has weight 0: history is too short for it.\n"
        "The member 'rhythm' has weight 0: history has no rhythm.\n"
        "Two values were left out.\n"
        "The autoencoder and the forecast vote at once; the other votes are smoothed with "
        "a half-life of 1 sample."
    )


def test_the_reason_is_given_when_nothing_was_tested() -> None:
    assert explain(chosen(nasty_series("none missing", 50, 2)).choice) == (
        "A committee, chosen from 50 samples of history. Nothing was tested: that takes "
        "200 samples that are not missing, the newest 30% among them.\n"
        "\n"
        "  member           takes        learns at  planted  weight\n"
        "  autoencoder      60 samples   0.003      -        22%\n"
        "  linear subspace  60 samples   -          -        11%\n"
        "  forecast         6 samples    -          -        33%\n"
        "  level            1 sample     -          -        33%\n"
        "  windows          20 samples   -          -        0%\n"
        "  shapes           100 samples  -          -        0%\n"
        "  rhythm           the phase    -          -        0%\n"
        "\n"
        "The member 'windows' has weight 0: history is too short for it.\n"
        "The member 'shapes' has weight 0: history is too short for it.\n"
        "The member 'rhythm' has weight 0: history has no rhythm.\n"
        "The autoencoder and the forecast vote at once; the other votes are smoothed with "
        "a half-life of 1 sample."
    )


def test_a_choice_goes_into_json_and_back(history: Floats) -> None:
    for found in (example(), chosen(history).choice, chosen(history[:50]).choice):
        comp = Choice.from_json(json.loads(as_json(found)))
        assert as_json(comp) == as_json(found)  # NaN is not equal to itself
        assert explain(comp) == explain(found)
        assert comp.plan == found.plan


def test_a_fresh_stream_of_what_was_chosen_is_ready(history: Floats) -> None:
    found = chosen(history)
    stream = found.model.initial(found.fitted)
    for ref, comp in zip(arrays(stream), arrays(copied(stream)), strict=True):
        np.testing.assert_array_equal(comp, ref)
    assert stream.step.weights.shape == (found.model.size,)


KINDS = (
    *("none missing", "some missing", "most missing", "every third sample missing"),
    *("a channel always missing", "all missing for long", "a constant channel", "zero"),
)


def differs(one: Floats, other: Floats) -> Bools:
    """Whether anything of a sample is another; missing equals missing."""
    return np.asarray(~((one == other) | (np.isnan(one) & np.isnan(other))).all(axis=1))


def stretches(faulty: Bools) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], faulty, [False]]).astype(int)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_labels_are_where_the_series_differs(kind: str, seed: int) -> None:
    series = nasty_series(kind, 600, 4)
    before = series.copy()
    planted, faulty = plant_faults(series, np.random.default_rng(seed))
    np.testing.assert_array_equal(series, before)
    changed = differs(planted, series)
    assert not changed[~faulty].any()
    found = stretches(faulty)
    assert found
    for begin, end in found:
        assert changed[begin:end].any()
        assert end - begin <= 60
    for (_, end), (begin, _) in pairwise(found):
        assert begin - end >= _APART


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_what_is_missing_stays_missing_and_nothing_else_goes(kind: str, seed: int) -> None:
    series = nasty_series(kind, 400, 4)
    rng = np.random.default_rng(seed)
    for made in (change(series, rng), plant_faults(series, rng)[0]):
        np.testing.assert_array_equal(np.isnan(made), np.isnan(series))


@pytest.mark.parametrize("length", [60, 200])
def test_for_a_thousand_seeds_there_are_faults_and_not_too_many(length: int) -> None:
    series = nasty_series("none missing", length, 2)
    for seed in range(1000):
        _, faulty = plant_faults(series, np.random.default_rng(seed))
        assert 1 <= faulty.sum() < _SHARE * length + length // 10


def test_channels_that_stand_still_are_not_made_faulty_while_others_move() -> None:
    series = nasty_series("none missing", 400, 4)
    series[:, 2] = 0.0
    for seed in range(20):
        planted, _ = plant_faults(series, np.random.default_rng(seed))
        np.testing.assert_array_equal(planted[:, 2], 0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_begins_somewhere_and_stays_and_is_no_fault(kind: str) -> None:
    series = nasty_series(kind, 400, 4)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        before = series.copy()
        changed = change(series, rng)
        np.testing.assert_array_equal(series, before)
        assert not differs(changed, series)[:80].any()
        planted, faulty = plant_faults(changed, rng)
        ((comp, labels),) = scenarios(series, 1, seed)
        np.testing.assert_array_equal(comp, planted)
        np.testing.assert_array_equal(labels, faulty)
        assert not differs(comp, changed)[~labels].any()


def test_changes_are_of_level_scale_and_dynamics() -> None:
    series = nasty_series("none missing", 400, 1)
    found = set()
    for seed in range(40):
        changed = change(series, np.random.default_rng(seed))
        if not differs(changed, series).any():
            found.add("none")  # half of the channels change, and here there is one
            continue
        since = int(np.argmax(differs(changed, series)))
        old, new = series[since + 1 :, 0], changed[since + 1 :, 0]
        if np.ptp(new - old) < 1e-9:
            found.add("level")
        elif abs(np.corrcoef(old, new)[0, 1]) > 1 - 1e-9:
            found.add("scale")
        else:
            found.add("dynamics")
            assert np.abs(np.diff(new)).mean() < np.abs(np.diff(old)).mean()
    assert found == {"none", "level", "scale", "dynamics"}


def test_the_same_seed_gives_the_same_scenarios_and_each_round_is_another() -> None:
    series = nasty_series("none missing", 300, 3)
    one, other = scenarios(series, 3, 5), scenarios(series, 3, 5)
    for (series_1, faulty_1), (series_2, faulty_2) in zip(one, other, strict=True):
        np.testing.assert_array_equal(series_1, series_2)
        np.testing.assert_array_equal(faulty_1, faulty_2)
    assert not np.array_equal(one[0][1], one[1][1])
    assert not np.array_equal(one[0][1], scenarios(series, 3, 6)[0][1])
