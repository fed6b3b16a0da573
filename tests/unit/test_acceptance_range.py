"""How far a stream is from its accepted normal: against a slow twin, and what it must notice."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newnormal.acceptance import NormalRange
from newnormal.core.state import copied
from newnormal.kernels.drift import CROSSED, NEAR
from newnormal.types import Floats
from tests.naive_loop import NaiveRange


def daily(seed: int, length: int, channels: int = 3) -> Floats:
    """Channels that share a slow cycle, each with noise of its own."""
    rng = np.random.default_rng(seed)
    cycle = np.sin(2 * np.pi * np.arange(length) / 600)[:, None]
    values: Floats = 3 * cycle + rng.normal(0, 0.3, (length, channels))
    return values


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10_000),
    channels=st.integers(1, 4),
    marked=st.integers(0, 500),
    in_change=st.integers(0, 500),
)
def test_compiled_loop_equals_its_slow_twin_after_every_sample(
    seed: int, channels: int, marked: int, in_change: int
) -> None:
    rng = np.random.default_rng(seed)
    comp = NormalRange.fit(daily(seed, 400, channels))
    ref = NaiveRange(comp)
    live = daily(seed + 1, 500, channels)
    live[200:] += rng.normal(0, 4, channels)
    live[300:400, 0] = 2.0
    live[rng.random(live.shape) < 0.02] = np.nan
    live[100] = 1e300
    live[410:, channels - 1] = np.nan
    for number, sample in enumerate(live):
        if number == marked:
            comp.mark()
            ref.mark()
        if number == in_change:  # as when a change of the first channel opens, and a review comes
            comp.state.in_change[0] = 1
            ref.in_change = {0}
            comp.state.counts[CROSSED] = 0
            ref.has_crossed = False
        drift = comp.measure(sample[None])
        assert drift.crossings[0] == ref.step(sample.tolist())
        assert drift.distances[0] == pytest.approx(ref.distance, rel=1e-9, abs=1e-9)
        assert comp.state.distances.tolist() == pytest.approx(ref.distances, rel=1e-9, abs=1e-9)
        assert comp.outside.tolist() == ref.outside


@settings(max_examples=20, deadline=None, derandomize=True)
@given(cuts=st.lists(st.integers(0, 700), max_size=5))
def test_samples_in_pieces_equal_samples_at_once_also_copied_in_between(cuts: list[int]) -> None:
    whole = NormalRange.fit(daily(0, 1_000))
    parted = copied(whole)
    live = daily(1, 700)
    live[300:] += 20
    ref = whole.measure(live)
    pieces = []
    for start, stop in itertools.pairwise([0, *sorted(cuts), 700]):
        parted = copied(parted)
        pieces.append(parted.measure(live[start:stop]))
    for column, parts in zip(ref, zip(*pieces, strict=True), strict=True):
        np.testing.assert_array_equal(column, np.concatenate(parts))
    assert ref.crossings.sum() == 1, "once until the next review"
    np.testing.assert_array_equal(whole.state.position, parted.state.position)


def test_a_normal_stream_is_inside_and_one_absurd_value_is_not_a_place() -> None:
    drift = NormalRange.fit(daily(0, 5_000)).measure(daily(1, 5_000))
    assert drift.distances.max() <= NEAR
    assert not drift.crossings.any()
    normal = NormalRange.fit(daily(0, 5_000))
    live = daily(1, 600)
    live[300, 0] = 1e300
    assert not normal.measure(live).crossings.any()


@pytest.mark.parametrize("fault", ["offset of one", "shift of all", "stuck", "noisy"])
def test_what_lasts_and_is_not_normal_is_beyond_however_it_came_about(fault: str) -> None:
    normal = NormalRange.fit(daily(0, 5_000))
    live = daily(1, 1_200)
    rng = np.random.default_rng(2)
    if fault == "offset of one":  # well within the range of that channel
        live[:, 1] += 2.5
    elif fault == "shift of all":  # as if the cycle they share went beyond all bounds
        live += 20
    elif fault == "stuck":
        live[:, 1] = 0.5
    else:
        live[:, 1] += rng.normal(0, 30, len(live))
    drift = normal.measure(live)
    assert drift.crossings.sum() == 1
    assert (drift.distances[200:] > NEAR).mean() > 0.9
    if fault != "shift of all":
        assert normal.state.crossing.argmax() == normal.state.distances.argmax() == 1


def test_slow_drift_is_noticed_though_its_steps_are_small_and_beyond_what_is_measured_in_full() -> (
    None
):
    normal = NormalRange.fit(daily(0, 5_000))
    ramp = np.linspace(0, 8, 20_000)[:, None] * [0, 0, 1]
    (first,) = np.flatnonzero(normal.measure(daily(1, 20_000) + ramp).crossings).tolist()
    assert normal.state.crossing.argmax() == 2
    assert ramp[first, 2] < 4, "long before it is over"
    normal = NormalRange.fit(daily(0, 5_000))
    normal.measure(daily(1, 1_000) + 100)
    normal.widen([normal.state.position])
    assert normal.distance == 0
    normal.measure(daily(2, 1_000) + 10_000)
    assert normal.distance > 1


def test_channel_that_is_gone_is_where_it_was_and_the_others_are_where_they_are() -> None:
    normal = NormalRange.fit(daily(0, 5_000))
    live = daily(1, 3_000)
    live[500:, 1] = np.nan
    assert (normal.measure(live).distances <= NEAR).all()
    other = NormalRange.fit(daily(0, 5_000))
    live[400:500, 1] += 5
    assert (other.measure(live).distances[504:] > 1).all(), "it did not come back"
    moved = daily(2, 300) * np.array([1, np.nan, 1]) + np.array([0, 0, 30])
    assert normal.measure(moved).distances[-1] > 1
    assert normal.state.distances.argmax() == 2


def test_jump_within_the_range_of_normal_is_outside_after_the_mark_and_back_again() -> None:
    normal = NormalRange.fit(daily(0, 5_000, 1))
    live = daily(1, 1_200, 1)
    normal.measure(live[:600])
    assert not normal.outside.any()
    normal.mark()
    normal.measure(live[600:648] + 4.4)  # from the middle of the cycle to above its top
    assert normal.outside.all()
    assert normal.distance < 0.25
    normal.measure(live[648:850])
    assert not normal.outside.any()


def test_widened_normal_is_inside_where_it_was_beyond() -> None:
    normal = NormalRange.fit(daily(0, 5_000))
    live = daily(1, 1_200) + 20
    normal.measure(live[:600])
    assert normal.distance > 1
    lows, highs = normal.state.lows.copy(), normal.state.highs.copy()
    normal.widen([normal.state.position])
    assert normal.distance == 0
    assert (normal.measure(live[600:]).distances <= NEAR).all()
    normal.move(lows, highs)
    assert normal.distance > 1, "and back"


def test_soon_after_a_jump_its_end_is_extrapolated() -> None:
    normal = NormalRange.fit(daily(0, 5_000, 2))
    live = daily(1, 700, 2)
    normal.measure(live[:600])
    normal.mark()
    normal.measure(live[600:640] + np.array([10.0, 0.0]))
    level = normal.level(normal.extrapolated(40)) - live[620:640].mean(axis=0)
    np.testing.assert_allclose(level, [10, 0], atol=1.0)


@pytest.mark.parametrize("length", [2, 10, 61, 130])
def test_a_short_history_is_enough(length: int) -> None:
    normal = NormalRange.fit(daily(0, length))
    assert np.isfinite(normal.params.margins).all()
    normal.measure(daily(1, 300))
    assert math.isfinite(normal.distance)


def test_constant_channel_is_inside_where_it_was_and_nowhere_else() -> None:
    history = daily(0, 2_000)
    history[:, 0] = 7.0
    normal = NormalRange.fit(history)
    live = daily(1, 500)
    live[:, 0] = 7.0
    assert (normal.measure(live).distances <= NEAR).all()
    live[:, 0] = 9.0
    assert (normal.measure(live).distances[100:] > 1).all()


def test_accepted_standstill_stays_accepted_and_only_there() -> None:
    normal = NormalRange.fit(daily(0, 5_000))
    live = daily(1, 20_000)
    live[:, 1] = 0.5
    normal.measure(live[:500])
    assert normal.distance > 1
    normal.widen([normal.state.position])
    normal.measure(live[500:])
    assert normal.distance <= 1
    assert np.isinf(normal.state.highs[9:]).tolist() == [False, True, False]
