"""A threshold held to a limit: against its slow twin, and against what it promises."""

import itertools
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newnormal.alarms import AlarmThreshold, Tail
from newnormal.alarms.threshold import Peaks
from newnormal.core.state import copied
from newnormal.errors import InputError, ParameterError
from newnormal.kernels.alarm import (
    LOCATION,
    START_HEIGHT,
    START_LOCATION,
    AlarmOut,
    advance,
    blank_out,
    peaks,
)
from newnormal.thresholds import Budget
from newnormal.types import Bools, Floats
from tests.naive_loop import NaiveThreshold

DAY = 1440


def eventful(seed: int, length: int) -> Floats:
    """Scores that wander, with faults of all sizes and lengths, flickering ones, and gaps."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=length) + np.cumsum(rng.normal(0, 0.03, length))
    for _ in range(length // 60):
        start, long = int(rng.integers(length)), int(rng.integers(1, 60))
        lift = rng.uniform(1, 9) * (rng.random(long) < rng.uniform(0.1, 1))
        scores[start : start + long] += lift[: length - start]
    scores[rng.random(length) < 0.02] = np.nan
    return scores


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10_000),
    history=st.integers(1, 3_000),
    rate=st.sampled_from([1e-4, 1e-3, 1e-2, 0.05]),
    gap=st.integers(1, 15),
    channels=st.sampled_from([0, 1, 4]),
)
def test_compiled_loop_equals_its_slow_twin_after_every_sample(
    seed: int, history: int, rate: float, gap: int, channels: int
) -> None:
    rng = np.random.default_rng(seed)
    comp = Budget(risk=rate, gap=gap, samples_per_day=200).calibrate(rng.normal(size=history))
    ref = NaiveThreshold.of(comp)
    scores = eventful(seed, 400)
    for score in scores.tolist():
        ratios = np.exp(rng.normal(-2, 1, (min(channels, 1), channels))).astype(np.float32)
        episodes = rng.integers(0, 2, len(ratios))
        judged = blank_out(1)
        advance(np.array([score]), ratios, episodes, comp.state, comp.params, judged)
        found = ref.judge(score, ratios.ravel().tolist(), int(episodes.sum()))
        threshold, ratio, anomalous, number = found
        assert judged.thresholds[0] == pytest.approx(threshold, rel=1e-9, abs=1e-9)
        assert judged.ratios[0] == pytest.approx(ratio, rel=1e-7, abs=1e-7, nan_ok=True)
        assert judged.joint[0] == pytest.approx(ref.joint, rel=1e-7, abs=1e-7, nan_ok=True)
        assert judged.anomalous[0] == anomalous
        assert judged.alarms[0] == number == comp.alarm
        assert comp.threshold == pytest.approx(ref.threshold, rel=1e-9, abs=1e-9)
    assert comp.alarm_rate.alarms == ref.alarms
    assert comp.alarm_rate.samples == ref.seen == np.isfinite(scores).sum()


def columns(judged: AlarmOut) -> list[Any]:
    return [*judged]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), cuts=st.lists(st.integers(0, 600), max_size=6))
def test_scores_in_pieces_equal_scores_at_once(seed: int, cuts: list[int]) -> None:
    scores = eventful(seed, 600)
    whole = Budget(risk=0.01).calibrate(eventful(seed + 1, 400))
    parted = copied(whole)
    ref = columns(whole.judge(scores))
    edges = [0, *sorted(cuts), len(scores)]
    pieces = []
    for start, stop in itertools.pairwise(edges):
        parted = copied(parted)  # nothing but the state goes on
        pieces.append(columns(parted.judge(scores[start:stop])))
    for column, parts in zip(ref, zip(*pieces, strict=True), strict=True):
        np.testing.assert_array_equal(column, np.concatenate(parts))
    assert whole.alarm_rate == parted.alarm_rate


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10_000), shift=st.floats(-100, 100), scale=st.sampled_from([0.25, 2.0, 8.0])
)
def test_unit_and_zero_of_the_score_do_not_matter(seed: int, shift: float, scale: float) -> None:
    history, scores = eventful(seed + 1, 400), eventful(seed, 500)
    budget = Budget(risk=0.01)
    one, other = budget.calibrate(history), budget.calibrate(history * scale + shift)
    ref, comp = one.judge(scores), other.judge(scores * scale + shift)
    np.testing.assert_array_equal(ref.alarms, comp.alarms)
    np.testing.assert_allclose(ref.ratios, comp.ratios, rtol=1e-6, atol=1e-6)
    # The tail begins at a score of history: the last bit of that may move its rank by one. Only
    # then may p-values differ, and by that rank alone.
    rank = 1 / (np.isfinite(history).sum() + 1)
    apart = abs(one.state.tail_excess[1] - other.state.tail_excess[1])
    moved = apart > 1e-12 or one.knots != other.knots
    assert apart <= 1.001 * rank
    slack = 1.001 * rank if moved else 1e-9
    np.testing.assert_allclose(ref.p_values, comp.p_values, rtol=1e-4, atol=slack)


def test_anomalous_alarm_and_ratio_of_one_come_together() -> None:
    limit = Budget(alarms_per_day=10).calibrate(eventful(1, 4_000))
    scores = eventful(0, 4_000)
    judged = limit.judge(scores)
    above = scores >= judged.thresholds
    assert above.any()
    np.testing.assert_array_equal(above, judged.anomalous)
    np.testing.assert_array_equal(above, judged.ratios >= 1)
    assert (judged.alarms[above] > 0).all()
    assert (np.diff(np.unique(judged.alarms)) == 1).all()


def openings(alarms: Any) -> Bools:
    before = np.concatenate([[0], alarms[:-1]])
    return np.asarray((alarms > 0) & (alarms != before))


def noise(seed: int, days: float, memory: float = 0.0) -> Floats:
    scores = np.random.default_rng(seed).normal(size=int(days * DAY))
    for t in range(1, len(scores) if memory else 0):
        scores[t] = memory * scores[t - 1] + math.sqrt(1 - memory**2) * scores[t]
    return scores


@pytest.mark.parametrize("per_day", [1, 3, 10])
@pytest.mark.parametrize("memory", [0.0, 0.9])
def test_alarms_of_normal_operation_keep_within_the_limit(per_day: int, memory: float) -> None:
    opened = 0
    for seed in range(3):
        scores = noise(seed, 21, memory)
        limit = Budget(alarms_per_day=per_day).calibrate(scores[: 7 * DAY])
        opened += openings(limit.judge(scores[7 * DAY :]).alarms).sum()
    assert opened / (3 * 14) < 1.5 * per_day


@pytest.mark.parametrize("quiet", [-30.0, 0.0])
def test_threshold_of_a_stream_where_nothing_happens_stays_at_its_start(quiet: float) -> None:
    limit = Budget(alarms_per_day=10).calibrate(noise(0, 7))
    start = limit.threshold
    judged = limit.judge(np.full(30 * DAY, quiet))
    assert (judged.thresholds == start).all()
    assert not judged.alarms.any()


@settings(max_examples=30, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), rate=st.sampled_from([1e-3, 0.02]))
def test_threshold_rises_from_its_start_and_so_far(seed: int, rate: float) -> None:
    limit = Budget(risk=rate).calibrate(noise(seed, 1))
    height = limit.state.levels[START_HEIGHT]
    rng = np.random.default_rng(seed)
    scores = 0.3 * noise(seed + 1, 1)
    scores[rng.integers(50) :: 200] = 1.3 * limit.threshold  # alarms that do not come and go
    judged = limit.judge(scores)
    # An alarm that lasts moves the location: none does here.
    assert limit.state.levels[LOCATION] == limit.state.levels[START_LOCATION]
    heights = (judged.thresholds - limit.params.location) / limit.params.spread
    assert heights.min() >= height * (1 - 1e-9)
    assert 1.05 * height < heights.max() <= 2 * height * (1 + 1e-9)


@pytest.mark.parametrize(("times", "rises"), [(1.3, True), (1.8, False)])
def test_threshold_rises_by_what_is_just_beyond_it_and_comes_back(times: float, rises: Any) -> None:
    limit = Budget(alarms_per_day=10).calibrate(noise(0, 7))
    start = limit.threshold
    scores = np.zeros(2 * DAY)
    scores[::150] = times * start
    assert limit.judge(scores).alarms.max() > 3
    assert (limit.threshold > start) == rises
    limit.judge(np.zeros(2 * DAY))
    assert limit.threshold == pytest.approx(start)


@pytest.fixture
def limit() -> AlarmThreshold:
    return Budget(alarms_per_day=1).calibrate(noise(0, 7))


def test_spike_is_one_alarm_that_closes_after_ten_quiet_samples(limit: AlarmThreshold) -> None:
    scores = np.zeros(100)
    scores[40] = 30.0
    assert limit.judge(scores).alarms.tolist() == [0] * 40 + [1] * 10 + [0] * 50


def test_fault_that_flickers_faster_than_the_gap_is_one_alarm(limit: AlarmThreshold) -> None:
    scores = np.zeros(60)
    scores[10:40:5] = 30.0
    assert set(limit.judge(scores).alarms[10:45]) == {1}


def test_fault_that_comes_and_goes_for_long_is_three_alarms(limit: AlarmThreshold) -> None:
    scores = np.zeros(400)
    for at in range(20, 260, 17):  # on for five samples, off for twelve
        scores[at : at + 5] = 30.0
    alarms = limit.judge(scores).alarms
    assert set(alarms[54:258]) == {3}
    assert alarms[-1] == 0


@pytest.mark.parametrize("last", [1, 100])
def test_fault_that_only_grows_is_one_alarm(limit: AlarmThreshold, last: int) -> None:
    scores = limit.threshold * np.geomspace(1.1, 50, 50)
    scores[-1] *= last
    assert set(limit.judge(scores).alarms) == {1}


def test_alarm_that_stays_high_is_judged_from_there_hiding_nothing(limit: AlarmThreshold) -> None:
    high = 3 * limit.threshold
    start = limit.threshold
    scores = high + 0.1 * noise(1, 0.5)
    scores[400] += 2 * high
    alarms = limit.judge(scores).alarms
    assert set(alarms[:50]) == {1}
    assert not alarms[100:400].any()
    assert alarms[400] == 2
    # The stream comes back, and so does the threshold.
    limit.judge(np.zeros(DAY))
    assert limit.state.levels[LOCATION] == pytest.approx(limit.params.location, abs=0.05)
    assert limit.threshold <= 1.5 * start


@pytest.mark.parametrize("count", [1, 2, 10, 40])
def test_a_few_scores_are_enough_to_start_from(count: int) -> None:
    history = noise(3, 1)[:count]
    limit = Budget(alarms_per_day=1).calibrate(history)
    assert history.max() < limit.threshold < history.max() + 10
    limit.judge(noise(4, 14))
    assert limit.alarm_rate.per_day < 3


def test_constant_history_alarms_at_what_is_far_above_it_and_not_at_itself() -> None:
    limit = Budget(alarms_per_day=1).calibrate(np.full(300, -2.5))
    assert limit.params.spread == 1
    judged = limit.judge(np.array([-2.5] * 500 + [8.0]))
    assert judged.alarms.tolist() == [0] * 500 + [1]
    assert judged.p_values[0] == 1


def test_scores_of_two_values_are_not_in_alarm_for_good() -> None:
    history = np.tile([0.0, 1.0], 500)
    limit = Budget(alarms_per_day=1).calibrate(history)
    assert limit.threshold > 1
    assert (limit.judge(np.tile(history, 40)).alarms > 0).mean() < 0.1


def test_missing_and_infinite_scores_of_history_are_left_out_or_clipped() -> None:
    history = noise(0, 1)
    odd = np.concatenate([history, [np.nan, np.nan]])
    budget = Budget(alarms_per_day=1)
    assert budget.fit(odd) == budget.fit(history)
    assert math.isfinite(budget.fit(np.append(history, [-np.inf, np.inf])))


def test_missing_score_changes_nothing_and_infinite_ones_are_judged() -> None:
    limit = Budget(alarms_per_day=1).calibrate(noise(0, 1))
    limit.judge(np.array([50.0]))
    before = copied(limit)
    judged = limit.judge(np.full(100, np.nan))
    assert np.isnan(judged.ratios).all()
    assert np.isnan(judged.p_values).all()
    assert (judged.alarms == 1).all()
    for ref, comp in zip(before.state, limit.state, strict=True):
        np.testing.assert_array_equal(ref, comp)
    limit = Budget(alarms_per_day=1).calibrate(noise(0, 1))
    judged = limit.judge(np.array([-np.inf, np.inf, 0.0]))
    assert judged.alarms.tolist() == [0, 1, 1]
    assert judged.p_values[:2].tolist() == [1, 0]
    assert math.isfinite(limit.threshold)


def test_risk_and_alarms_a_day_are_one_limit_and_a_tighter_one_has_a_higher_threshold() -> None:
    history = noise(0, 7)
    assert Budget(alarms_per_day=1.44).fit(history) == Budget(risk=1e-3).fit(history)
    assert Budget(alarms_per_day=1, samples_per_day=24).rate == pytest.approx(1 / 24)
    history = noise(0, 7, 0.9)
    found = [Budget(risk=risk).fit(history) for risk in (0.05, 0.01, 1e-3, 1e-4, 1e-6)]
    assert found == sorted(found)
    assert len(set(found)) == len(found)


def test_alarm_rate_stands_beside_the_limit() -> None:
    limit = Budget(alarms_per_day=2).calibrate(noise(0, 7))
    assert str(limit.alarm_rate) == "0 alarms in 0 samples; limit on false ones: 2 a day"
    scores = np.zeros(20 * DAY)
    scores[:DAY:144] = 90  # ten on the first day, none after
    limit.judge(scores)
    rate = limit.alarm_rate
    assert (rate.alarms, rate.samples) == (10, 20 * DAY)
    assert rate.per_day == pytest.approx(0.5)
    assert 0 < rate.recent_per_day < 0.15
    assert rate.limit_per_day == pytest.approx(2)


def test_fixed_threshold_stays_and_its_ratio_is_the_score_over_it_also_in_a_long_alarm() -> None:
    limit = AlarmThreshold.at(4.0, np.linspace(0, 2, 50))
    judged = limit.judge(np.array([1.0, 8.0, 3.5, np.nan]))
    assert judged.thresholds.tolist() == [4.0] * 4
    assert judged.ratios[:3].tolist() == [0.25, 2.0, 0.875]
    assert judged.alarms.tolist() == [0, 1, 1, 1]
    assert judged.p_values[0] == pytest.approx(0.5, abs=0.02)
    assert math.isnan(limit.alarm_rate.limit_per_day)
    limit.judge(np.full(10, 0.5))
    assert limit.alarm == 0
    judged = AlarmThreshold.at(4.0, np.ones(100)).judge(np.full(1_000, 8.0))
    assert set(judged.alarms) == {1}
    assert set(judged.thresholds) == {4.0}


@pytest.mark.parametrize(
    ("threshold", "number"), [(math.inf, 0), (-math.inf, 1), (0.0, 1), (-2.0, 1)]
)
def test_any_fixed_threshold_works(threshold: float, number: int) -> None:
    judged = AlarmThreshold.at(threshold, np.ones(5)).judge(np.array([1.0, 2.0, 3.0]))
    assert judged.alarms.tolist() == [number] * 3
    assert not np.isnan(judged.ratios).any()


def test_lifted_threshold_knows_the_new_normal_and_rises_with_the_typical_score() -> None:
    limit = Budget(alarms_per_day=1).calibrate(noise(0, 7))
    limit.judge(noise(1, 1) + 30)
    limit.close()
    before = limit.alarm_rate.alarms
    limit.lift(30.0)
    limit.judge(noise(2, 7) + 30)
    assert limit.alarm_rate.alarms - before <= 14
    assert limit.judge(np.array([45.0])).anomalous.all()
    scores = np.random.default_rng(0).lognormal(size=5_000)
    limit = AlarmThreshold.at(9.0, scores)
    usual = limit.judge(scores[:50]).p_values
    limit.lift(2 * limit.typical)
    assert limit.threshold == pytest.approx(18.0)
    np.testing.assert_allclose(limit.judge(2 * scores[:50]).p_values, usual)
    limit.lift(0.5)
    assert limit.threshold == pytest.approx(18.0), "it never falls"


def test_closed_alarm_costs_nothing_and_the_next_score_may_open_another() -> None:
    limit = Budget(alarms_per_day=1).calibrate(noise(0, 1))
    limit.judge(np.array([50.0]))
    before = limit.threshold
    limit.close()
    assert (limit.alarm, limit.age, limit.threshold) == (0, 0, before)
    assert limit.judge(np.array([50.0])).alarms.tolist() == [2]


@pytest.mark.parametrize(
    "budget", [Budget(alarms_per_day=1), Budget(risk=1e-4, gap=3, samples_per_day=96)]
)
def test_budget_has_a_json_form(budget: Budget) -> None:
    text = json.dumps(budget.to_json(), allow_nan=False)
    assert Budget.from_json(json.loads(text)) == budget


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "expected either alarms_per_day or risk, found neither"),
        ({"alarms_per_day": 1, "risk": 0.1}, "expected either alarms_per_day or risk, found both"),
        ({"alarms_per_day": 0}, "alarms_per_day: expected a number above 0, found 0"),
        (
            {"alarms_per_day": 24, "samples_per_day": 24},
            "alarms_per_day: expected less than the 24 samples a day, found 24",
        ),
        ({"alarms_per_day": "many"}, "alarms_per_day: expected a number above 0"),
        ({"alarms_per_day": math.nan}, "alarms_per_day: expected a number above 0"),
        ({"risk": 1.0}, "risk: expected a chance a sample between 0 and 1, found 1.0"),
        ({"risk": True}, "risk: expected a chance a sample between 0 and 1, found True"),
        (
            {"risk": 0.1, "samples_per_day": 0},
            "samples_per_day: expected a number above 0, found 0",
        ),
        ({"risk": 0.1, "gap": 0}, "gap: expected a whole number of samples, 1 or more, found 0"),
        ({"risk": 0.1, "gap": 1.5}, "gap: expected a whole number of samples, 1 or more"),
    ],
)
def test_impossible_budgets_say_what_was_expected(options: Any, message: str) -> None:
    with pytest.raises(ParameterError) as error:
        Budget(**options)
    assert message in str(error.value)
    assert "\nhint: " in str(error.value)


@pytest.mark.parametrize("scores", [[], [math.nan, math.nan], [math.inf]])
def test_history_without_a_score_is_an_error(scores: list[float]) -> None:
    with pytest.raises(InputError) as error:
        Budget(alarms_per_day=1).calibrate(np.array(scores))
    assert str(error.value) == (
        f"expected history's scores, found {len(scores)} and none of them a number\n"
        "hint: fit on history that can be judged: a sample needs at least one observed channel"
    )


STREAMS = st.lists(
    st.floats(-50, 50) | st.sampled_from([0.0, 1.0, 1.0]), min_size=1, max_size=200
).map(np.array)


def naive_peaks(heights: Floats, level: float, gap: int) -> list[float]:
    """An alarm ends where the last `gap` heights are below the level."""
    found: list[float] = []
    alarm: list[float] = []
    for height in heights.tolist():
        if alarm:
            alarm.append(height)
            found[-1] = max(alarm)
            after = alarm[1:]
            if len(after) >= gap and max(after[-gap:]) < level:
                alarm = []
        elif height >= level:
            alarm = [height]
            found.append(height)
    return found


@settings(max_examples=80, deadline=None, derandomize=True)
@given(heights=STREAMS, level=st.floats(0.1, 20), gap=st.integers(1, 12))
def test_peaks_equal_their_slow_twin(heights: Floats, level: float, gap: int) -> None:
    room = np.empty(len(heights))
    assert room[: peaks(heights, level, gap, room)].tolist() == naive_peaks(heights, level, gap)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(history=STREAMS, scores=STREAMS)
def test_p_values_fall_with_the_score_and_are_never_0(history: Floats, scores: Floats) -> None:
    tail, scores = Tail.of(history), np.sort(scores)
    p_values = tail.p_values(scores)
    begin, _, scale, _ = tail.excess
    assert np.all(p_values[scores < begin + 700 * scale] > 0)  # beyond, no double is as small
    assert np.all(p_values <= 1)
    assert np.all(np.diff(p_values) <= 1e-12)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), count=st.integers(1, 250))
def test_p_value_within_a_short_history_is_the_rank(seed: int, count: int) -> None:
    history = np.random.default_rng(seed).normal(size=count)
    tail = Tail.of(history)
    body = np.sort(history[history < tail.levels[-1]])
    ranks = [(np.sum(history >= score) + 1) / (count + 1) for score in body]
    np.testing.assert_allclose(tail.p_values(body), ranks)


def test_p_values_of_like_scores_are_uniform_and_go_on_beyond_history() -> None:
    rng = np.random.default_rng(0)
    p_values = Tail.of(rng.exponential(size=20_000)).p_values(rng.exponential(size=200_000))
    for chance in (0.5, 0.1, 0.01, 0.001):
        assert (p_values <= chance).mean() == pytest.approx(chance, rel=0.25)
    tail = Tail.of(np.random.default_rng(1).exponential(size=20_000))
    found = tail.p_values(np.array([12.0, 15.0]))
    np.testing.assert_allclose(np.log(found), [-12, -15], rtol=0.2)


def test_tied_scores_share_their_p_value_and_missing_ones_have_none() -> None:
    found = Tail.of(np.repeat([0.0, 1.0, 2.0], 100)).p_values(np.array([0.0, 1.0, 2.0, 2.5]))
    np.testing.assert_allclose(found[:3], [1, 201 / 301, 101 / 301])
    assert found[3] < found[2]
    tail = Tail.of(np.array([0.0, np.nan, 1.0, 2.0]))
    found = tail.p_values(np.array([np.nan, -np.inf, np.inf]))
    np.testing.assert_array_equal(found, [np.nan, 1, 0])


def test_height_is_where_history_or_ten_times_as_much_had_that_many_alarms() -> None:
    scores = np.random.default_rng(2).normal(size=20_000)
    fit = Peaks.of(scores, gap=10)
    heights = (scores - fit.location) / fit.spread
    room = np.empty(len(heights))
    for rate in (0.002, 0.005, 0.01):
        count = peaks(heights, fit.height(rate), 10, room)
        assert count == pytest.approx(rate * len(scores), rel=0.1)
    scores = np.random.default_rng(3).exponential(size=200_000)
    fit = Peaks.of(scores[:20_000], gap=10)
    heights = (scores - fit.location) / fit.spread
    assert 10 <= peaks(heights, fit.height(1e-4), 10, np.empty(len(heights))) <= 40


def test_careful_limit_leaves_more_the_fewer_alarms_it_allowed_in_history() -> None:
    fit = Peaks.of(np.random.default_rng(3).exponential(size=20_000), gap=10)
    for allowed in (0.25, 1, 4):
        rate = allowed / 20_000
        assert fit.careful(rate) == pytest.approx(rate * allowed / (allowed + 1), rel=0.1)


def test_heavy_tail_is_found_and_a_light_one_has_no_end() -> None:
    rng = np.random.default_rng(4)
    assert Peaks.of(rng.pareto(3, 20_000), gap=10).shape > 0.15
    assert Peaks.of(rng.random(20_000), gap=10).shape == 0


def test_rate_that_no_height_has_gives_the_height_with_the_most_alarms() -> None:
    fit = Peaks.of(np.random.default_rng(5).normal(size=2_000), gap=10)
    assert fit.height(0.9) == fit.floor
    assert fit.counted[1].max() < 0.1
