"""A fit is used again with other options, without training."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import newnormal
from newnormal import M2N2, Detector, Fixed, NotFittedError, ParameterError
from newnormal.base import BaseDetector
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
    for options in ({"alarms_per_day": 2.0}, {"alarms_per_day": None, "threshold": Fixed(4.0)}):
        with pytest.raises(ParameterError) as caught:
            loaded.with_options(**options)
        assert str(caught.value) == (
            "scores: expected history's scores for this threshold, found none\n"
            "hint: pass scores=, or threshold=newnormal.Fixed(...) where there was no budget"
        )
    assert fitted.history_scores_ is not None
    comp = loaded.with_options(alarms_per_day=2.0, scores=fitted.history_scores_)
    same(Detector(epochs=2, alarms_per_day=2).fit(history).run(LIVE), comp.run(LIVE))


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
