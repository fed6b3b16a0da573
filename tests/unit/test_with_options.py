"""A fit is used again with other options, without training."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import newnormal
from newnormal import M2N2, Detector, Fixed, NotFittedError, ParameterError
from newnormal.base import BaseDetector
from newnormal.kernels.alarm import START_HEIGHT
from newnormal.kernels.channels import HIDDEN
from newnormal.types import Floats, Verdicts
from tests.strategies import nasty_series


@pytest.fixture(scope="module")
def history() -> Floats:
    return nasty_series("some missing", 400, 3)


LIVE = nasty_series("some missing", 300, 3)[::-1].copy()


def same(one: Verdicts, other: Verdicts) -> None:
    for name in ("scores", "thresholds", "anomalous", "ratios", "alarms"):
        ref, comp = getattr(one, name), getattr(other, name)
        assert (ref is None) == (comp is None), name
        if ref is not None:
            np.testing.assert_array_equal(ref, comp, err_msg=name)


@pytest.mark.parametrize(
    ("kind", "given", "options"),
    [
        (M2N2, {}, {"decay": 0.5, "lr": 0.1}),
        (M2N2, {}, {"detrend": False, "adapt": False}),
        (M2N2, {}, {"threshold": 0.9}),
        (M2N2, {}, {"threshold": Fixed(2.0)}),
        (M2N2, {}, {"alarms_per_day": 5.0}),
        (M2N2, {"alarms_per_day": 5.0}, {"alarms_per_day": None, "threshold": 0.9}),
        (M2N2, {"accept_after": 100}, {"accept_after": 50}),
        (M2N2, {"accept_after": 100}, {"accept_after": None}),
        (M2N2, {"accept_after": 100, "alarms_per_day": 5.0}, {"accept_after": None}),
        (Detector, {}, {"threshold": 0.9}),
        (Detector, {}, {"alarms_per_day": 5.0}),
        (Detector, {"alarms_per_day": 5.0}, {"alarms_per_day": None, "threshold": Fixed(3.0)}),
        (Detector, {"alarms_per_day": 5.0}, {"accept_after": 60}),
    ],
)
def test_it_is_what_a_fit_with_these_options_gives(
    history: Floats, kind: type[Any], given: dict[str, Any], options: dict[str, Any]
) -> None:
    training = {"epochs": 2} if kind is Detector else {"epochs": 2, "window": 5}
    ref: BaseDetector = kind(**training, **(given | options)).fit(history)
    before: BaseDetector = kind(**training, **given).fit(history)
    before.run(LIVE[:50])
    comp = before.with_options(**options)
    assert comp.get_params() == ref.get_params()
    assert before.get_params() != comp.get_params()
    assert comp.counters["seen"] == 0
    same(ref.run(LIVE), comp.run(LIVE))


def test_a_loaded_detector_needs_the_scores_of_history(history: Floats, tmp_path: Path) -> None:
    fitted = Detector(epochs=2, alarms_per_day=5).fit(history)
    fitted.save(tmp_path / "plant.nn")
    loaded = newnormal.load(tmp_path / "plant.nn")
    assert loaded.history_scores_ is None
    with pytest.raises(ParameterError) as caught:
        loaded.with_options(alarms_per_day=None, threshold=Fixed(4.0))
    assert str(caught.value) == (
        "scores: expected history's scores for this threshold, found none\n"
        "hint: pass scores=, or threshold=newnormal.Fixed(...) where there was no budget"
    )
    ref = Detector(epochs=2, alarms_per_day=2).fit(history).run(LIVE)
    for scores in (None, fitted.history_scores_):  # the tail for another limit is in the state
        same(ref, loaded.with_options(alarms_per_day=2.0, scores=scores).run(LIVE))


# ---------------------------------------------------------------------- of a live stream


def tensors(detector: BaseDetector, part: str = "") -> dict[str, bytes]:
    arrays = detector.to_state().tensors.items()
    return {name: array.tobytes() for name, array in arrays if name.startswith(part)}


@pytest.mark.parametrize("kind", [Detector, M2N2])
@pytest.mark.parametrize("options", [{"alarms_per_day": 40.0}, {"risk": 1e-4}])
def test_a_limit_set_live_gives_the_limits_of_a_fit_with_it(
    history: Floats, tmp_path: Path, kind: type[Any], options: dict[str, float]
) -> None:
    training = {"epochs": 2} if kind is Detector else {"epochs": 2, "window": 5}
    ref: BaseDetector = kind(**training, **options).fit(history)
    kind(**training, alarms_per_day=1).fit(history).save(tmp_path / "plant.nn")
    new, live = (newnormal.load(tmp_path / "plant.nn") for _ in range(2))
    live.run(LIVE)
    weights = tensors(live, "live.model.")
    for detector in (new, live):
        assert detector.set_options(**options).get_params() == ref.get_params()
    assert tensors(new) == tensors(ref)
    assert tensors(live, "fitted.") == tensors(ref, "fitted.")
    assert tensors(live, "live.model.") == weights
    same(ref.run(LIVE), new.run(LIVE))


def test_a_limit_set_live_counts_at_the_next_sample_and_leaves_all_that_is_open(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(2)
    history, live = rng.normal(size=(3000, 3)), rng.normal(size=(4000, 3))
    live[60:, 0] += 9
    live[150:, 1] += 9
    live[230:300, 2] += 30
    detector = Detector(epochs=1, accept_after=400).fit(history)
    detector.run(live[:120], flush=False)
    detector.accept().run(live[120:240], flush=False)
    opened = detector.alarms_, detector.changes_, detector.past_
    state = detector._state
    assert all(opened) and state.channel is not None and state.channel.counts[2, HIDDEN]
    few = detector.from_state(detector.to_state())
    detector.set_options(alarms_per_day=50)
    assert opened == (detector.alarms_, detector.changes_, detector.past_)
    detector.save(tmp_path / "many.nn")
    many = newnormal.load(tmp_path / "many.nn")
    same(detector.run(live[240:]), many.run(live[240:]))
    assert tensors(detector) == tensors(many)
    assert few.run(live[240:]).thresholds[0] > detector.alarm_threshold_
    assert many.alarm_rate_.alarms > 3 * few.alarm_rate_.alarms
    start = Detector(epochs=1, alarms_per_day=50).fit(history)._state.alarm.levels[START_HEIGHT]
    assert many.rollback()._state.alarm.levels[START_HEIGHT] == start  # the limit stays


@pytest.mark.parametrize(
    ("given", "options", "text"),
    [
        ({}, {}, "expected either alarms_per_day or risk, found neither"),
        ({}, {"alarms_per_day": 0}, "alarms_per_day: expected a number above 0, found 0"),
        ({}, {"alarms_per_day": 1440}, "alarms_per_day: expected less than the 1440 samples"),
        (
            {},
            {"accept_after": "2d"},
            "accept_after: expected an option that a live stream can change, found accept_after\n"
            "hint: these are alarms_per_day and risk; with_options has the other options that need "
            "no training and begins a stream anew, fit has the rest",
        ),
        (
            {"threshold": 0.9, "alarms_per_day": None},
            {"alarms_per_day": 1},
            "alarms_per_day: expected a detector with a limit on alarms, found one with a "
            "threshold, which has no tail to take a limit from\n"
            "hint: with_options(threshold=None, alarms_per_day=1) begins a stream anew with a limit",
        ),
    ],
)
def test_an_option_that_cannot_be_set_live_changes_nothing(
    history: Floats, given: dict[str, Any], options: dict[str, Any], text: str
) -> None:
    detector = M2N2(**{"epochs": 1, "window": 5, "alarms_per_day": 2, **given}).fit(history)
    before = detector.get_params(), tensors(detector)
    with pytest.raises(ParameterError) as caught:
        detector.set_options(**options)
    assert str(caught.value).startswith(text)
    assert before == (detector.get_params(), tensors(detector))


def test_a_fixed_threshold_needs_no_scores(history: Floats, tmp_path: Path) -> None:
    M2N2(window=5, epochs=1).fit(history).save(tmp_path / "plant.nn")
    loaded = newnormal.load(tmp_path / "plant.nn").with_options(threshold=Fixed(1.5))
    assert loaded.threshold_ == loaded.alarm_threshold_ == 1.5


def test_training_options_are_refused(history: Floats) -> None:
    with pytest.raises(ParameterError, match="epochs: expected an option that needs no training"):
        M2N2(window=5, epochs=1).fit(history).with_options(epochs=3)


def test_acceptance_cannot_be_added_to_a_fit_without_it(history: Floats) -> None:
    with pytest.raises(ParameterError) as caught:
        M2N2(window=5, epochs=1).fit(history).with_options(accept_after=100)
    assert str(caught.value) == (
        "accept_after: expected None for a detector that was fitted without acceptance, found 100\n"
        "hint: fit a new detector with it: the range of normal is taken from history"
    )


def test_scores_that_are_given_are_used_also_for_the_threshold_as_it_was(history: Floats) -> None:
    detector = M2N2(window=5, epochs=1, threshold=0.5).fit(history)
    assert detector.with_options(scores=np.array([1.0, 2.0, 3.0])).threshold_ == 2.0
    assert detector.with_options().threshold_ == detector.threshold_


def test_a_budget_refuses_scores_that_have_lost_their_order(history: Floats) -> None:
    detector = M2N2(window=5, epochs=1).fit(history)
    with pytest.raises(ParameterError) as caught:
        detector.with_options(alarms_per_day=5.0, scores=detector.history_scores_)
    assert str(caught.value) == (
        "scores: expected them in the order of time for a limit on alarms, found them sorted\n"
        "hint: leave scores out, or pass a score for each of history's samples in their order"
    )


def test_scores_of_history_before_a_fit_are_an_error() -> None:
    with pytest.raises(NotFittedError):
        _ = M2N2().history_scores_
