"""P-values and the heights alarms reach: ranks within history, a fitted tail beyond it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newnormal.alarms import Tail
from newnormal.alarms.tail import Peaks
from newnormal.kernels.alarm import peaks
from newnormal.types import Floats

STREAMS = st.lists(
    st.floats(-50, 50) | st.sampled_from([0.0, 1.0, 1.0]), min_size=1, max_size=200
).map(np.array)


def naive_peaks(heights: Floats, level: float, gap: int) -> list[float]:
    """An alarm ends where the last `gap` heights are below three quarters of the level."""
    found: list[float] = []
    alarm: list[float] = []
    for height in heights.tolist():
        if alarm:
            alarm.append(height)
            found[-1] = max(alarm)
            after = alarm[1:]
            if len(after) >= gap and max(after[-gap:]) < 0.75 * level:
                alarm = []
        elif height >= level:
            alarm = [height]
            found.append(height)
    return found


@settings(max_examples=80, deadline=None, derandomize=True)
@given(heights=STREAMS, level=st.floats(0.1, 20), gap=st.integers(1, 12))
def test_peaks_equal_their_slow_twin(heights: Floats, level: float, gap: int) -> None:
    room = np.empty(len(heights))
    count = peaks(heights, level, gap, room)
    assert room[:count].tolist() == naive_peaks(heights, level, gap)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(history=STREAMS, scores=STREAMS)
def test_p_values_fall_with_the_score_and_are_never_0(history: Floats, scores: Floats) -> None:
    p_values = Tail.of(history).p_values(np.sort(scores))
    assert np.all(p_values > 0)
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


def test_p_values_of_like_scores_are_uniform() -> None:
    rng = np.random.default_rng(0)
    p_values = Tail.of(rng.exponential(size=20_000)).p_values(rng.exponential(size=200_000))
    for chance in (0.5, 0.1, 0.01, 0.001):
        assert (p_values <= chance).mean() == pytest.approx(chance, rel=0.25)


def test_p_values_go_on_beyond_history_as_its_tail_does() -> None:
    rng = np.random.default_rng(1)
    tail = Tail.of(rng.exponential(size=20_000))
    found = tail.p_values(np.array([12.0, 15.0]))
    np.testing.assert_allclose(np.log(found), [-12, -15], rtol=0.2)


def test_tied_scores_share_their_p_value() -> None:
    tail = Tail.of(np.repeat([0.0, 1.0, 2.0], 100))
    found = tail.p_values(np.array([0.0, 1.0, 2.0, 2.5]))
    np.testing.assert_allclose(found[:3], [1, 201 / 301, 101 / 301])
    assert found[3] < found[2]


def test_missing_score_has_no_p_value() -> None:
    tail = Tail.of(np.array([0.0, np.nan, 1.0, 2.0]))
    found = tail.p_values(np.array([np.nan, -np.inf, np.inf]))
    np.testing.assert_array_equal(found, [np.nan, 1, 0])


def test_height_is_where_history_had_that_many_alarms() -> None:
    scores = np.random.default_rng(2).normal(size=20_000)
    fit = Peaks.of(scores, gap=10)
    heights = (scores - fit.location) / fit.spread
    room = np.empty(len(heights))
    for rate in (0.002, 0.005, 0.01):
        count = peaks(heights, fit.height(rate), 10, room)
        assert count == pytest.approx(rate * len(scores), rel=0.1)


def test_height_beyond_history_is_where_ten_times_as_much_history_has_it() -> None:
    scores = np.random.default_rng(3).exponential(size=200_000)
    fit = Peaks.of(scores[:20_000], gap=10)
    heights = (scores - fit.location) / fit.spread
    count = peaks(heights, fit.height(1e-4), 10, np.empty(len(heights)))
    assert 10 <= count <= 40


def test_heavy_tail_is_found_and_a_light_one_has_no_end() -> None:
    rng = np.random.default_rng(4)
    assert Peaks.of(rng.pareto(3, 20_000), gap=10).shape > 0.15
    assert Peaks.of(rng.random(20_000), gap=10).shape == 0


def test_rate_that_no_height_has_gives_the_height_with_the_most_alarms() -> None:
    scores = np.random.default_rng(5).normal(size=2_000)
    fit = Peaks.of(scores, gap=10)
    assert fit.height(0.9) == fit.floor
    assert fit.rates.max() < 0.1
