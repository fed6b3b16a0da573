"""What must hold of a detector whatever the series and the settings.

That pieces, steps, saving and loading give the bits of one run is in `tests/fuzz`.
"""

import math
import tempfile
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import newnormal
from newnormal import M2N2, Detector, Fixed, NewnormalWarning, Verdicts
from newnormal.base import BaseDetector
from newnormal.kernels.step import LEARNED
from newnormal.state import codec
from tests.inside import params, set_params, stream
from tests.strategies import NASTY, nasty_series

CHANNELS = 2
COLUMNS = ("scores", "thresholds", "anomalous", "expected", "shares")
kinds = st.sampled_from(sorted(NASTY))
lengths = st.integers(0, 40)
FEW = settings(max_examples=60, deadline=None, derandomize=True)


@cache
def _fitted(options: tuple[tuple[str, Any], ...]) -> BaseDetector:
    history = nasty_series("some missing", 60, CHANNELS, seed=99)
    return M2N2(**({"latent": 2, "epochs": 2, "lr": 0.05} | dict(options))).fit(history)


def fitted(**options: Any) -> BaseDetector:
    """Return a fresh detector; those of one setting share their training."""
    return _fitted(tuple(sorted(options.items()))).reset()


@cache
def _chosen(samples: int, sluggish: bool, threshold: float | Fixed) -> BaseDetector:
    history = nasty_series("none missing", samples, CHANNELS, seed=99)
    if sluggish:  # neighbours are related, so that the score is smoothed
        history = history.cumsum(axis=0)
    history[::7, 0] = np.nan
    return Detector(epochs=1, threshold=threshold).fit(history)


@st.composite
def committees(draw: st.DrawFn) -> BaseDetector:
    """Detectors that choose for themselves: 60 samples are too few for a test, 260 are not."""
    detector = _chosen(
        draw(st.sampled_from([60, 260])),
        draw(st.booleans()),
        draw(st.sampled_from([0.5, 0.99, Fixed(math.inf)])),
    )
    return detector.reset()


@st.composite
def detectors(draw: st.DrawFn) -> BaseDetector:
    if draw(st.integers(0, 2)) == 0:
        return draw(committees())
    window, stride = draw(st.sampled_from([(1, 1), (4, 4), (4, 2), (4, 1), (6, 3)]))
    return fitted(
        window=window,
        stride=stride,
        threshold=draw(st.sampled_from([0.5, 0.99, Fixed(math.inf), Fixed(-math.inf)])),
        decay=draw(st.sampled_from([0.5, 0.99])),
        adapt=draw(st.booleans()),
        detrend=draw(st.booleans()),
    )


def run(detector: BaseDetector, series: Any, **options: Any) -> Verdicts:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NewnormalWarning)
        return detector.run(series, **options)


def as_bytes(detector: BaseDetector) -> bytes:
    """Return the state file's content: two detectors are one if these are equal."""
    return codec.encode(detector.to_state())


def resumed(detector: BaseDetector) -> BaseDetector:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.nn"
        detector.save(path)
        return newnormal.load(path)


def assert_same(comp: Verdicts, ref: Verdicts) -> None:
    """Bit for bit, NaN equal to NaN."""
    assert (comp.first, comp.channels) == (ref.first, ref.channels)
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(comp, name), getattr(ref, name), err_msg=name)


@FEW
@given(detectors(), kinds, st.integers(0, 20))
def test_looking_changes_nothing(detector: BaseDetector, kind: str, seen: int) -> None:
    series = nasty_series(kind, 30, CHANNELS)
    run(detector, series[:seen], flush=False)
    before = as_bytes(detector)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NewnormalWarning)
        detector.score_frozen(series)
        scores = detector.decision_function(series)
        labels = detector.predict(series)
        detector.get_params()
        repr(detector)
        _ = detector.counters, detector.trend_, detector.last_time_
    assert as_bytes(detector) == before
    ref = run(detector, series)
    np.testing.assert_array_equal(scores, ref.scores)
    np.testing.assert_array_equal(labels, ref.anomalous.astype(int))


@FEW
@given(detectors(), kinds, lengths)
def test_reset_returns_to_the_fitted_state(detector: BaseDetector, kind: str, length: int) -> None:
    fresh = as_bytes(detector)
    series = nasty_series(kind, length, CHANNELS)
    ref = run(detector, series)
    assert as_bytes(detector.reset()) == fresh
    assert_same(run(detector, series), ref)


@FEW
@given(detectors(), kinds, lengths)
def test_verdicts_obey_their_own_definition(detector: BaseDetector, kind: str, length: int) -> None:
    series = nasty_series(kind, length, CHANNELS)
    verdicts = run(detector, series)
    window = 1 if isinstance(detector, Detector) else detector.window_  # a committee judges at once
    assert len(verdicts) == len(verdicts.samples) == length
    judged = ~np.isnan(series).all(axis=1) & (length >= window)
    np.testing.assert_array_equal(np.isfinite(verdicts.scores), judged)
    assert (verdicts.scores[judged] >= 0).all()
    assert (verdicts.thresholds == detector.threshold_).all()
    beyond = verdicts.scores >= detector.threshold_
    if isinstance(detector, Detector):
        assert verdicts.ratios is not None
        beyond = verdicts.ratios >= 1
    np.testing.assert_array_equal(verdicts.anomalous, judged & beyond)
    shares = verdicts.shares
    assert shares is not None
    assert np.isnan(shares[~judged]).all()
    positive = judged & (verdicts.scores > 0)
    ratios, observed = verdicts.channel_ratios, ~np.isnan(series)
    # Of a first sample that is hidden whole nothing is left to share.
    hidden = 0 if ratios is None else (observed & (ratios >= 1)).sum(axis=1)
    some = positive & (hidden < observed.sum(axis=1))
    np.testing.assert_allclose(shares[some].sum(axis=1), 1, rtol=1e-5)
    assert (shares[judged & ~positive] == 0).all()
    assert (shares[judged][np.isnan(series[judged])] == 0).all()


@FEW
@given(kinds, lengths, st.sampled_from([(4, 4), (4, 1)]))
def test_infinite_thresholds_learn_all(kind: str, length: int, cycle: tuple[int, int]) -> None:
    window, stride = cycle
    detector = fitted(window=window, stride=stride, threshold=Fixed(math.inf))
    series = nasty_series(kind, length, CHANNELS)
    assert not run(detector, series, flush=False).anomalous.any()
    ends = range(window, length + 1, window)
    observed = [end for end in ends if not np.isnan(series[end - window : end]).all()]
    assert stream(detector).counts[LEARNED] == len(observed)


@FEW
@given(kinds, lengths, st.sampled_from([(4, 4), (4, 1)]))
def test_minus_infinity_leaves_the_weights(kind: str, length: int, cycle: tuple[int, int]) -> None:
    window, stride = cycle
    detector = fitted(window=window, stride=stride, threshold=Fixed(-math.inf))
    verdicts = run(detector, nasty_series(kind, length, CHANNELS))
    np.testing.assert_array_equal(verdicts.anomalous, np.isfinite(verdicts.scores))
    assert stream(detector).weights.tobytes() == params(detector).fitted.tobytes()
    assert detector.counters["learned"] == 0


@FEW
@given(kinds, lengths, st.sampled_from([1, 2, 4]))
def test_without_detrending_rate_0_is_the_frozen_model(kind: str, length: int, stride: int) -> None:
    series = nasty_series(kind, length, CHANNELS)
    settled = {"window": 4, "stride": stride, "detrend": False}
    ref = run(fitted(**settled, adapt=False), series)
    assert_same(run(fitted(**settled, lr=0.0), series), ref)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NewnormalWarning)
        assert_same(fitted(**settled, lr=0.05).score_frozen(series), ref)


@FEW
@given(kinds, lengths, st.sampled_from([1, 2, 4]))
def test_a_decay_of_1_is_a_fixed_shift(kind: str, length: int, stride: int) -> None:
    series = nasty_series(kind, length, CHANNELS)
    detector = fitted(window=4, stride=stride, decay=1.0)
    comp = run(detector, series)
    assert (stream(detector).trend == 0).all()
    assert_same(comp, run(fitted(window=4, stride=stride, detrend=False), series))


ORDINARY = sorted(kind for kind in NASTY if "huge" not in kind)


@FEW
@given(st.sampled_from(ORDINARY), st.integers(0, 24))
def test_trend_and_weights_move_at_the_same_samples_at_any_stride(kind: str, length: int) -> None:
    series = nasty_series(kind, length, CHANNELS)
    # The same training and the same threshold: only the stride differs.
    each = [fitted(window=4, stride=stride, threshold=Fixed(1.0)) for stride in (4, 2, 1)]
    for sample in series:
        for detector in each:
            detector.step(sample)
        ref = stream(each[0])
        for detector in each[1:]:
            comp = stream(detector)
            np.testing.assert_array_equal(comp.trend, ref.trend)
            np.testing.assert_array_equal(comp.weights, ref.weights)


@FEW
@given(st.sampled_from(ORDINARY), st.integers(8, 40))
def test_a_verdict_is_unchanged_by_the_update_it_causes(kind: str, length: int) -> None:
    """Whether the window's own step is taken or not, and however large, its verdicts are one."""
    series = nasty_series(kind, length // 4 * 4, CHANNELS)
    detector = fitted(window=4, threshold=Fixed(1.0))
    run(detector, series[:-4])
    other = resumed(detector)
    set_params(other, lr=np.float32(0))
    ref, comp = run(other, series[-4:]), run(detector, series[-4:])
    assert_same(comp, ref)


@FEW
@given(st.sampled_from(ORDINARY), st.sampled_from([(4, 4), (4, 2), (6, 3)]))
def test_score_holds_the_present_weights_and_trend(kind: str, cycle: tuple[int, int]) -> None:
    window, stride = cycle
    detector = fitted(window=window, stride=stride, threshold=Fixed(math.inf), decay=0.5)
    run(detector, nasty_series("shifted", 48, CHANNELS))
    series = nasty_series(kind, 24, CHANNELS)
    ref = detector.score_frozen(series)
    # Nothing is carried from window to window, so each by itself is judged as among the others.
    for at in range(0, 24, window):
        alone = detector.score_frozen(series[at : at + window])
        last = slice(at + window - stride, at + window)
        np.testing.assert_array_equal(alone.scores[-stride:], ref.scores[last])
    weights, trend = stream(detector).weights.copy(), stream(detector).trend.copy()
    assert not np.array_equal(weights, params(detector).fitted)
    held = resumed(detector).reset()
    stream(held).weights[:], stream(held).trend[:] = weights, trend
    set_params(held, decay=1.0, lr=np.float32(0))
    assert_same(run(held, series), ref)
