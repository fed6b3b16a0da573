"""The compiled loop equals the obvious twin, after every step."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings

from newnormal.core.scaling import Scaler
from newnormal.core.windows import starts, threshold_scores
from newnormal.detector import M2N2
from newnormal.kernels import step as kernel
from newnormal.models.base import Training
from newnormal.models.mlp import MLP
from newnormal.types import Floats
from tests import naive
from tests.naive import assert_near
from tests.strategies import HUGE, NASTY, ORDINARY, Setting, nasty_series, settings_of_the_method

MEAN = np.array([0.5, -1.0, 0.0, 3.0])
SCALE = np.array([1.0, 2.0, 0.5, 1.5])


class Pair:
    """The compiled loop and its twin, side by side from the same start."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.model = MLP(setting.window, setting.channels, setting.latent)
        weights = self.model.initial_weights(np.random.default_rng(setting.seed))
        self.state = self.model.initial(weights)
        self.comp: kernel.StepState = self.state.step
        mean, scale = MEAN[: setting.channels].copy(), SCALE[: setting.channels].copy()
        self.params = kernel.StepParams(
            mean,
            scale,
            weights.copy(),
            setting.stride,
            setting.threshold,
            setting.threshold,
            setting.decay,
            np.float32(setting.lr),
        )
        self.ref = naive.NaiveStream(
            mean,
            scale,
            naive.copy_layers(self.model.layers(weights)),
            setting.window,
            setting.stride,
            setting.threshold,
            setting.decay,
            float(np.float32(setting.lr)),
        )

    def set_lr(self, lr: float) -> None:
        self.params = self.params._replace(lr=np.float32(lr))
        self.ref.lr = float(np.float32(lr))

    def step(self, sample: Floats) -> None:
        self.compare(self.ref.step(sample), self.advance(sample[None], False))

    def flush(self) -> None:
        self.compare(self.ref.flush(), self.advance(np.empty((0, self.setting.channels)), True))

    def advance(self, samples: Floats, flush: bool) -> kernel.StepOut:
        out = kernel.blank_out(
            int(self.comp.counts[kernel.PENDING]) + len(samples), self.setting.channels
        )
        self.model.advance(samples, flush, self.state, self.params, out)
        return out

    def compare(self, ref: list[naive.NaiveVerdict], comp: kernel.StepOut) -> None:
        twin, counts = self.ref, self.comp.counts
        assert counts[kernel.SEEN] == len(twin.samples)
        assert counts[kernel.HELD] == min(len(twin.samples), twin.window)
        assert counts[kernel.PENDING] == len(twin.samples) - twin.judged
        assert counts[kernel.CYCLE] % twin.window == len(twin.samples) - twin.cycle_began
        assert counts[kernel.LEARNED] == twin.learned
        assert counts[kernel.RESTORED] == twin.restored
        assert counts[kernel.AGE] == twin.age
        assert_near(self.comp.trend, twin.trend, rtol=1e-9, atol=1e-12)
        self.compare_layers(self.comp.weights, twin.layers)
        self.compare_layers(self.comp.good, twin.good)
        assert not self.comp.reach[0] < np.abs(self.comp.weights).max()

        if not ref:  # every row is blank
            assert np.isnan(comp.scores).all()
            assert not comp.anomalous.any()
            assert np.isnan(comp.expected).all()
            assert np.isnan(comp.shares).all()
            return
        assert len(comp.scores) == len(ref)
        # A residual is a difference of float32: what it can be off by grows with what is compared.
        recent = naive.standardise(np.array(twin.samples[-twin.window :]), twin.mean, twin.scale)
        size = 1 + float(np.nanmax(np.abs(recent), initial=0)) + float(np.abs(twin.trend).max())
        for row, verdict in enumerate(ref):
            assert_near(comp.scores[row], verdict.score, rtol=1e-4, atol=1e-5 * size**2)
            assert bool(comp.anomalous[row]) == verdict.anomalous
            assert_near(comp.expected[row], verdict.expected, rtol=1e-4, atol=1e-4 * size)
            if verdict.score > 1e-3 * size**2:
                assert_near(comp.shares[row], verdict.shares, rtol=1e-3, atol=1e-3)
            else:
                assert np.isnan(comp.shares[row]).all() == math.isnan(verdict.score)

    def compare_layers(self, packed: np.ndarray, layers: list[naive.Layer]) -> None:
        for (matrix, bias), (ref_matrix, ref_bias) in zip(
            self.model.layers(packed), layers, strict=True
        ):
            for comp, ref in ((matrix, ref_matrix), (bias, ref_bias)):
                size = max(1.0, float(np.abs(ref).max()))
                assert_near(comp, ref, rtol=1e-4, atol=1e-5 * size)


def walk(setting: Setting) -> Pair:
    pair = Pair(setting)
    for sample in setting.series():
        pair.step(sample)
    pair.flush()
    return pair


@settings(max_examples=200, deadline=None, derandomize=True)
@given(settings_of_the_method(ORDINARY))
def test_the_compiled_loop_equals_its_twin_after_every_step(setting: Setting) -> None:
    walk(setting)


@pytest.mark.parametrize("kind", NASTY)
@pytest.mark.parametrize("stride", [1, 2, 4])
@pytest.mark.parametrize("threshold", [-math.inf, 0.5, math.inf])
def test_the_compiled_loop_equals_its_twin_on_every_nasty_series(
    kind: str, stride: int, threshold: float
) -> None:
    # Huge values are judged, not learned from: what diverges is another test's business.
    lr = 0.0 if kind in HUGE else 0.05
    walk(Setting(kind=kind, stride=stride, threshold=threshold, lr=lr))


def test_a_step_follows_a_flush_as_a_new_cycle() -> None:
    pair = Pair(Setting(stride=2, kind="some missing", length=40))
    for number, sample in enumerate(pair.setting.series()):
        pair.step(sample)
        if number in (0, 5, 6, 13, 14, 15, 31):
            pair.flush()
    assert pair.ref.learned > 8


def test_the_twins_stay_together_over_a_long_stream() -> None:
    pair = walk(Setting(length=1500, decay=0.95, lr=0.05, threshold=2.0))
    assert pair.ref.learned > 300
    assert pair.ref.restored == 0


def test_the_good_copy_is_renewed_every_64_learning_steps_and_put_back_after_divergence() -> None:
    assert kernel.COPY_EVERY == naive.COPY_EVERY == 64
    pair = Pair(Setting(window=2, stride=2, channels=2, decay=1.0, lr=0.05))
    quiet = nasty_series("none missing", 2 * 150, 2)
    for sample in quiet[: 2 * 100]:
        pair.step(sample)
    assert (pair.ref.learned, pair.ref.age, pair.ref.restored) == (100, 36, 0)
    assert not np.array_equal(pair.comp.good, pair.comp.weights)
    good = pair.comp.good.copy()
    pair.set_lr(1e35)  # for one window of large values, which leaves hardly a weight finite
    for sample in quiet[200:202]:
        pair.step(sample * 1e10)
    assert pair.ref.restored == 1
    assert np.array_equal(pair.comp.weights, good)
    pair.set_lr(0.05)
    for sample in quiet[202:]:
        pair.step(sample)
    assert pair.ref.age == 49
    for sample in quiet[:30]:
        pair.step(sample)
    assert pair.ref.age == 0
    assert np.array_equal(pair.comp.weights, pair.comp.good)
    assert not np.array_equal(pair.comp.good, good)


@pytest.mark.parametrize("too", [False, True])
def test_scores_that_overflow_put_the_good_copy_or_the_fitted_weights_back(too: bool) -> None:
    """The fitted weights are put back if the good copy overflows too."""
    pair = Pair(Setting(window=2, stride=2, channels=2, decay=1.0, lr=0.0))
    for sample in nasty_series("none missing", 8, 2):
        pair.step(sample)
    # Finite weights whose products are not: what a large but not fatal step can leave behind.
    for packed in (pair.comp.weights, pair.comp.good)[: 1 + too]:
        packed[:] = 1e30
    pair.comp.reach[0] = 1e32
    pair.ref.layers = naive.copy_layers(pair.model.layers(pair.comp.weights))
    pair.ref.good = naive.copy_layers(pair.model.layers(pair.comp.good))
    pair.step(np.ones(2))
    pair.step(np.ones(2))
    assert pair.ref.restored == 1
    assert np.array_equal(pair.comp.weights, pair.params.fitted)
    assert np.array_equal(pair.comp.good, pair.params.fitted)


def test_weights_that_overflow_at_once_are_put_back_before_the_next_sample() -> None:
    pair = Pair(Setting(lr=1e35, decay=1.0))
    for sample in nasty_series("none missing", 24, 3):
        pair.step(sample * 1e10)
        assert np.array_equal(pair.comp.weights, pair.params.fitted)
    assert pair.ref.restored == pair.ref.learned == 6


@pytest.mark.parametrize("kind", ORDINARY)
def test_the_scaler_equals_its_twin(kind: str) -> None:
    history = nasty_series(kind, 50, 3) * np.array([1.0, 1e6, 1e-6]) + np.array([0.0, 1e7, 1.0])
    if np.isnan(history).all(axis=0).any():
        return
    comp = Scaler.fit(history)
    mean, scale = naive.fit_scaler(history)
    np.testing.assert_allclose(comp.mean, mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(comp.scale, scale, rtol=1e-6)
    np.testing.assert_allclose(
        comp.apply(history), naive.standardise(history, mean, scale), rtol=1e-6, atol=1e-6
    )
    assert naive.SATURATION == kernel.SATURATION


@pytest.mark.parametrize("kind", ["none missing", "some missing", "every third sample missing"])
@pytest.mark.parametrize(("window", "stride"), [(4, 4), (4, 1), (3, 2), (1, 1)])
def test_training_equals_its_twin(kind: str, window: int, stride: int) -> None:
    scaled = nasty_series(kind, 42, 2)
    model = MLP(window, 2, 2)
    comp, losses = model.fit(scaled, Training(stride=stride, epochs=4, batch=8, seed=3))

    rng = np.random.default_rng(3)
    layers = naive.copy_layers(model.layers(model.initial_weights(rng)))
    begins = naive.window_starts(len(scaled), window, stride)
    windows = [scaled[start : start + window] for start in begins]
    orders = [rng.permutation(len(windows)).tolist() for _ in range(4)]
    ref, ref_losses = naive.train(layers, windows, orders, 8, 1e-3)

    np.testing.assert_allclose(losses, ref_losses, rtol=1e-5)
    for (matrix, bias), (ref_matrix, ref_bias) in zip(model.layers(comp), ref, strict=True):
        np.testing.assert_allclose(matrix, ref_matrix, rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(bias, ref_bias, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("length", [20, 21, 23, 24])
@pytest.mark.parametrize("kind", ["none missing", "some missing"])
def test_the_threshold_comes_from_the_scores_its_twin_finds(length: int, kind: str) -> None:
    history = nasty_series(kind, length, 2)
    detector = M2N2(window=4, threshold=0.9, epochs=2, latent=2).fit(history)
    layers = naive.copy_layers(MLP(4, 2, 2).layers(detector._fitted.step.fitted))
    scaled = naive.standardise(history, *naive.fit_scaler(history))
    ref = np.quantile(naive.history_scores(layers, scaled, 4), 0.9)
    np.testing.assert_allclose(detector.threshold_, ref, rtol=1e-5)


@pytest.mark.parametrize("length", range(6, 20))
@pytest.mark.parametrize(("window", "stride"), [(1, 1), (3, 1), (4, 2), (6, 6), (2, 5)])
def test_windows_start_where_the_twin_says(length: int, window: int, stride: int) -> None:
    assert starts(length, window, stride).tolist() == naive.window_starts(length, window, stride)


def test_history_scores_include_the_repeats_and_leave_out_as_many_of_the_smallest() -> None:
    scores = np.array([5.0, 1.0, 4.0, 2.0, 3.0, 9.0, 8.0])  # windows of 3: one sample is left over
    comp = threshold_scores(scores, np.array([30.0, 90.0, 8.0]), 3)
    assert comp.tolist() == [3.0, 4.0, 5.0, 8.0, 9.0, 30.0, 90.0]


@example(Setting(kind="huge once", lr=0.1))
@settings(max_examples=60, deadline=None, derandomize=True)
@given(settings_of_the_method(HUGE))
def test_huge_values_leave_everything_finite(setting: Setting) -> None:
    pair = Pair(setting)
    out = pair.advance(setting.series(), True)
    judged = len(setting.series()) if setting.length >= setting.window else 0
    assert np.isfinite(out.scores).sum() == judged
    assert np.isfinite(pair.comp.weights).all()
    assert np.isfinite(pair.comp.good).all()
    assert np.isfinite(pair.comp.trend).all()
