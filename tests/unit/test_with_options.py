"""A fit is used again with other options, without training."""

from typing import Any

import numpy as np
import pytest

from newnormal import M2N2, Detector, Fixed, NotFittedError, ParameterError
from newnormal.base import BaseDetector
from newnormal.kernels.alarm import START_HEIGHT
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


def tensors(detector: BaseDetector, part: str = "") -> dict[str, bytes]:
    arrays = detector.to_state().tensors.items()
    return {name: array.tobytes() for name, array in arrays if name.startswith(part)}


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
        (Detector, {"alarms_per_day": 40.0}, {"alarms_per_day": None, "risk": 1e-4}),
        (M2N2, {"alarms_per_day": 5.0, "accept_after": 100}, {"alarms_per_day": 40.0}),
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
    if options.keys() <= {"alarms_per_day", "risk"} and before.alarm_rate_.limit_per_day > 0:
        live, trained = kind.from_state(before.to_state()), tensors(before, "live.model.")
        assert tensors(live.set_options(**options), "live.model.") == trained
        assert live.get_params() == ref.get_params() and tensors(live.reset()) == tensors(ref)
    same(ref.run(LIVE), comp.run(LIVE))


def test_a_loaded_detector_needs_the_scores_of_history(history: Floats) -> None:
    fitted = Detector(epochs=2, alarms_per_day=5).fit(history)
    loaded = Detector.from_state(fitted.to_state())
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


def test_a_limit_set_live_counts_at_the_next_sample_and_leaves_all_that_is_open() -> None:
    rng = np.random.default_rng(2)
    history, live = rng.normal(size=(3000, 3)), rng.normal(size=(4000, 3))
    live += np.where(np.arange(4000)[:, None] >= [60, 150, 230], [9, 9, 30], 0)
    few = Detector(epochs=1, accept_after=400).fit(history)
    few.run(live[:120], flush=False)
    few.accept().run(live[120:240], flush=False)
    many = few.from_state(few.to_state()).set_options(alarms_per_day=50)
    opened = few.alarms_, few.changes_, few.past_
    assert all(opened) and opened == (many.alarms_, many.changes_, many.past_)
    again = many.from_state(many.to_state())
    fewer, more = few.run(live[240:]), many.run(live[240:])
    same(more, again.run(live[240:]))
    assert fewer.thresholds[0] > more.thresholds[0]
    assert many.alarm_rate_.alarms > 3 * few.alarm_rate_.alarms
    start = Detector(epochs=1, alarms_per_day=50).fit(history)._state.alarm.levels[START_HEIGHT]
    assert many.undo()._state.alarm.levels[START_HEIGHT] == start  # the limit stays


def test_a_limit_that_cannot_be_set_live_changes_nothing(history: Floats) -> None:
    detector = M2N2(epochs=1, window=5, alarms_per_day=2).fit(history)
    before = detector.get_params(), tensors(detector)
    wrong: dict[str, dict[str, Any]] = {
        "expected either alarms_per_day or risk, found neither": {},
        "alarms_per_day: expected a number above 0, found 0": {"alarms_per_day": 0},
        "alarms_per_day: expected less than the 1440 samples": {"alarms_per_day": 1440},
        "lr: expected an option that a live stream can change, found lr\nhint: these": {"lr": 1},
    }
    for text, options in wrong.items():
        with pytest.raises(ParameterError, match=text):
            detector.set_options(**options)
        assert before == (detector.get_params(), tensors(detector))
    with pytest.raises(
        ParameterError, match="a limit on alarms, found one with a threshold, which"
    ):
        detector.with_options(alarms_per_day=None).set_options(alarms_per_day=1)


def test_a_fixed_threshold_needs_no_scores(history: Floats) -> None:
    loaded = M2N2.from_state(M2N2(window=5, epochs=1).fit(history).to_state())
    loaded = loaded.with_options(threshold=Fixed(1.5))
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
