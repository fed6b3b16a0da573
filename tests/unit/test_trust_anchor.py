"""Where a stream is, beside its accepted normal: against a slow twin, and what it must notice."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newnormal.kernels.anchor import AWAY, FAR, HOME
from newnormal.trust import Anchor
from newnormal.types import Floats


class NaiveAnchor:
    """The rule again, one channel and one sample at a time, from an anchor's chart."""

    def __init__(self, anchor: Anchor) -> None:
        self.chart = anchor.chart
        C = len(self.chart.mean)
        self.levels, self.steps, self.still = [0.0] * C, [0.0] * C, [0] * C
        self.last: list[float | None] = [None] * C
        self.missing = [0] * C
        self.seen = 0
        self.mark: tuple[int, list[float]] | None = None
        self.position: list[float] = []
        self.distance = self.jump = 0.0
        self.where = 0

    def step(self, sample: Floats) -> int:
        self.seen += 1
        for c, value in enumerate(sample):
            self.missing[c] = self.missing[c] + 1 if math.isnan(value) else 0
            if math.isnan(value):
                continue
            z = (float(value) - self.chart.mean[c]) / self.chart.scale[c]
            if abs(z) > 20:
                z = math.copysign(min(20 + 4 * math.log10(abs(z) / 20), 40), z)
            slow = max(1 - 0.5 ** (1 / 30), 1 / self.seen)
            quick = max(1 - 0.5 ** (1 / 12), 1 / self.seen)
            self.levels[c] = (1 - slow) * self.levels[c] + slow * z
            before = self.last[c]
            if before is not None:
                self.steps[c] = (1 - quick) * self.steps[c] + quick * min(abs(z - before), 5.0)
                self.still[c] = self.still[c] + 1 if z == before else 0
            self.last[c] = z
        if self.seen >= 60 and self.seen % 8 == 0:
            self.measure()
        if self.distance > 1:
            return FAR
        return AWAY if self.distance > 0.25 or self.jump > 1 else HOME

    def measure(self) -> None:
        chart = self.chart
        level = np.array(self.levels) - chart.centre
        rough = [math.log(step + 0.001) for step in self.steps]
        still = [math.log(count + 1) for count in self.still]
        C = len(level)
        unexplained = self.position[:C] or [0.0] * C
        if all(count <= 30 for count in self.missing):
            unexplained = list(chart.blend @ level)
        self.position = [*unexplained, *level, *rough, *still]
        out = [
            max(low - p, p - high) / margin
            for p, low, high, margin in zip(
                self.position, chart.lows, chart.highs, chart.margins, strict=True
            )
        ]
        self.distance = max(0.0, *out)
        if self.distance > 0:
            self.where = int(np.argmax(out)) % C
        if self.mark is not None:
            since, start = self.mark
            lag = self.seen - since
            k = min(max(0, math.ceil(math.log2(lag / 8))), len(chart.wanders) - 1)
            self.jump = max(
                abs(p - s) / w
                for p, s, w in zip(self.position, start, chart.wanders[k], strict=True)
            )

    def set_mark(self) -> None:
        if self.seen >= 60:
            self.mark = (self.seen, self.position)
            self.jump = 0.0


def daily(seed: int, length: int, channels: int = 3) -> Floats:
    """Channels that share a slow cycle, each with noise of its own."""
    rng = np.random.default_rng(seed)
    cycle = np.sin(2 * np.pi * np.arange(length) / 600)[:, None]
    values: Floats = 3 * cycle + rng.normal(0, 0.3, (length, channels))
    return values


@settings(max_examples=30, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), channels=st.integers(1, 4), marked=st.integers(0, 500))
def test_compiled_loop_equals_its_slow_twin_after_every_sample(
    seed: int, channels: int, marked: int
) -> None:
    rng = np.random.default_rng(seed)
    comp = Anchor.fit(daily(seed, 400, channels))
    ref = NaiveAnchor(comp)
    live = daily(seed + 1, 500, channels)
    live[200:] += rng.normal(0, 4, channels)
    live[300:400, 0] = 2.0
    live[rng.random(live.shape) < 0.02] = np.nan
    live[100] = 1e300
    live[410:, channels - 1] = np.nan
    for number, sample in enumerate(live):
        if number == marked:
            comp.mark()
            ref.set_mark()
        bearing = comp.follow(sample[None])
        assert bearing.flags[0] == ref.step(sample)
        assert bearing.where[0] == ref.where
        assert comp.distance == pytest.approx(ref.distance, rel=1e-9, abs=1e-9)
        assert comp.away == (ref.distance > 0.25 or ref.jump > 1)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(cuts=st.lists(st.integers(0, 700), max_size=5))
def test_samples_in_pieces_equal_samples_at_once_also_saved_in_between(cuts: list[int]) -> None:
    whole = Anchor.fit(daily(0, 1_000))
    parted = Anchor.restore(whole.tensors())
    live = daily(1, 700)
    live[300:] += 4
    flags = whole.follow(live).flags
    pieces = []
    edges = [0, *sorted(cuts), 700]
    for start, stop in itertools.pairwise(edges):
        parted = Anchor.restore(parted.tensors())
        pieces.append(parted.follow(live[start:stop]).flags)
    np.testing.assert_array_equal(flags, np.concatenate(pieces))
    np.testing.assert_array_equal(whole.position, parted.position)


def test_a_normal_stream_is_at_home() -> None:
    anchor = Anchor.fit(daily(0, 5_000))
    flags = anchor.follow(daily(1, 5_000)).flags
    assert (flags == HOME).all()
    assert anchor.distance == 0


@pytest.mark.parametrize("fault", ["offset of one", "shift of all", "stuck", "noisy"])
def test_what_lasts_and_is_not_normal_is_far_however_it_came_about(fault: str) -> None:
    anchor = Anchor.fit(daily(0, 5_000))
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
    bearing = anchor.follow(live)
    assert (bearing.flags[200:] == FAR).any()
    assert (bearing.flags[200:] != HOME).mean() > 0.9
    if fault != "shift of all":
        assert np.bincount(bearing.where[bearing.flags == FAR]).argmax() == 1


def test_slow_drift_is_noticed_though_every_step_of_it_is_small() -> None:
    anchor = Anchor.fit(daily(0, 5_000))
    drift = np.linspace(0, 8, 20_000)[:, None] * [0, 0, 1]
    bearing = anchor.follow(daily(1, 20_000) + drift)
    first = int(np.flatnonzero(bearing.flags == FAR)[0])
    assert bearing.where[first] == 2
    assert drift[first, 2] < 4, "long before it is over"


def test_drift_is_noticed_also_beyond_what_is_measured_in_full() -> None:
    anchor = Anchor.fit(daily(0, 5_000))
    anchor.follow(daily(1, 1_000) + 100)
    anchor.widen([anchor.position])
    assert anchor.distance == 0
    anchor.follow(daily(2, 1_000) + 10_000)
    assert anchor.distance > 1


def test_channel_that_is_gone_is_where_it_was_and_the_others_are_where_they_are() -> None:
    anchor = Anchor.fit(daily(0, 5_000))
    live = daily(1, 3_000)
    live[500:, 1] = np.nan
    assert (anchor.follow(live).flags == HOME).all()
    away = Anchor.fit(daily(0, 5_000))
    live[400:500, 1] += 5
    assert (away.follow(live).flags[500:] == FAR).all(), "it did not come back"
    assert (
        anchor.follow(daily(2, 300) * np.array([1, np.nan, 1]) + np.array([0, 0, 30])).flags[-1]
        == FAR
    )


def test_one_absurd_value_is_not_a_place() -> None:
    anchor = Anchor.fit(daily(0, 5_000))
    live = daily(1, 600)
    live[300, 0] = 1e300
    assert (anchor.follow(live).flags < FAR).all()


def test_jump_within_the_range_of_normal_is_away_from_the_mark_and_back_again() -> None:
    anchor = Anchor.fit(daily(0, 5_000, 1))
    live = daily(1, 1_200, 1)
    anchor.follow(live[:600])
    assert not bool(anchor.away)
    anchor.mark()
    anchor.follow(live[600:648] + 4.4)  # from the middle of the cycle to above its top
    assert anchor.away
    assert anchor.distance < 0.25
    anchor.follow(live[648:850])
    assert not bool(anchor.away)


def test_widened_normal_is_at_home_where_it_was_far() -> None:
    anchor = Anchor.fit(daily(0, 5_000))
    live = daily(1, 1_200) + 20
    anchor.follow(live[:600])
    assert anchor.distance > 1
    lows, highs = anchor.chart.lows.copy(), anchor.chart.highs.copy()
    anchor.widen([anchor.position])
    assert anchor.distance == 0
    assert (anchor.follow(live[600:]).flags == HOME).all()
    anchor.moved(lows, highs)
    assert anchor.distance > 1, "and back"


def test_soon_after_a_jump_it_says_where_that_leads() -> None:
    anchor = Anchor.fit(daily(0, 5_000, 2))
    live = daily(1, 700, 2)
    anchor.follow(live[:600])
    anchor.mark()
    anchor.follow(live[600:640] + np.array([10.0, 0.0]))
    level = anchor.level(anchor.ahead(40)) - live[620:640].mean(axis=0)
    np.testing.assert_allclose(level, [10, 0], atol=1.0)


@pytest.mark.parametrize("length", [2, 10, 61, 130])
def test_a_short_history_is_enough(length: int) -> None:
    anchor = Anchor.fit(daily(0, length))
    assert np.isfinite(anchor.chart.margins).all()
    anchor.follow(daily(1, 300))
    assert math.isfinite(anchor.distance)


def test_constant_channel_is_at_home_where_it_was_and_nowhere_else() -> None:
    history = daily(0, 2_000)
    history[:, 0] = 7.0
    anchor = Anchor.fit(history)
    live = daily(1, 500)
    live[:, 0] = 7.0
    assert (anchor.follow(live).flags == HOME).all()
    live[:, 0] = 9.0
    assert (anchor.follow(live).flags[100:] == FAR).all()


def test_accepted_standstill_is_accepted_for_ever_and_only_there() -> None:
    anchor = Anchor.fit(daily(0, 5_000))
    live = daily(1, 20_000)
    live[:, 1] = 0.5
    anchor.follow(live[:500])
    assert anchor.distance > 1
    anchor.widen([anchor.position])
    anchor.follow(live[500:])
    assert anchor.distance <= 1
    still = anchor.chart.highs[9:]
    assert np.isinf(still).tolist() == [False, True, False]
