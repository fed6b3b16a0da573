"""Rules that turn history's scores into the threshold."""

import math
from typing import Any

import numpy as np
import pytest

from newnormal import M2N2, Detector, Fixed, ParameterError, Quantile, StateError, Threshold
from newnormal.thresholds import as_threshold, from_json, to_json
from newnormal.types import Floats
from tests.errors import raised
from tests.strategies import nasty_series


def test_a_quantile_interpolates_linearly_between_scores() -> None:
    scores = np.array([4.0, 1.0, 3.0, 2.0])
    found = [Quantile(q).fit(scores) for q in (0.0, 0.5, 0.9, 1.0)]
    np.testing.assert_allclose(found, [1.0, 2.5, 3.7, 4.0])
    assert all(type(value) is float for value in found)


def test_a_fixed_threshold_looks_at_no_scores() -> None:
    assert Fixed(4).fit(np.array([])) == 4.0
    assert Fixed(-math.inf).fit(np.array([1.0])) == -math.inf


@pytest.mark.parametrize("q", [-0.1, 1.1, 99, math.nan, math.inf, True])
def test_a_quantile_outside_0_and_1_is_an_error(q: Any) -> None:
    assert str(raised(ParameterError, lambda: Quantile(q))) == (
        f"threshold: expected a quantile between 0 and 1, found {q!r}\n"
        "hint: 0.99 flags about one history sample in a hundred; "
        "for a score of your own use newnormal.Fixed(score)"
    )


@pytest.mark.parametrize("value", [math.nan, "4", None, True])
def test_a_fixed_threshold_that_is_no_number_is_an_error(value: Any) -> None:
    assert str(raised(ParameterError, lambda: Fixed(value))) == (
        f"threshold: expected a number, found {value!r}\n"
        "hint: a score at or above this number is called anomalous"
    )


@pytest.mark.parametrize("value", ["0.99", True, [0.9], Quantile, object()])
def test_what_is_neither_a_quantile_nor_a_rule_is_an_error(value: Any) -> None:
    with pytest.raises(ParameterError, match="expected a quantile between 0 and 1 or a Threshold"):
        Detector(threshold=value)


def test_a_number_is_a_quantile_and_a_rule_is_itself() -> None:
    assert as_threshold(0.9) == Quantile(0.9)
    assert as_threshold(np.float64(0.5)) == Quantile(0.5)
    assert as_threshold(1) == Quantile(1)
    rule = Fixed(3.0)
    assert as_threshold(rule) is rule


class TwiceTheMean:
    def fit(self, scores: Floats) -> float:
        return 2 * float(scores.mean())


class Undecided:
    def fit(self, scores: Floats) -> float:
        return math.nan


def test_anything_with_a_fit_is_a_rule_unless_it_returns_nan() -> None:
    rule = TwiceTheMean()
    assert isinstance(rule, Threshold)
    history = nasty_series("none missing", 48, 2)
    detector = M2N2(window=4, epochs=1, threshold=rule).fit(history)
    ref = M2N2(window=4, epochs=1, adapt=False, detrend=False).fit(history).run(history).scores
    assert detector.threshold_ == pytest.approx(2 * ref.mean(), rel=1e-9)
    with pytest.raises(ParameterError, match=r"threshold: expected a number from .*, found NaN"):
        M2N2(window=4, epochs=1, threshold=Undecided()).fit(nasty_series("zero", 48, 2))


@pytest.mark.parametrize(
    "rule", [Quantile(0.25), Quantile(1), Fixed(0.1), Fixed(math.inf), Fixed(-math.inf)]
)
def test_rules_come_back_from_json(rule: Any) -> None:
    assert from_json(to_json(rule)) == rule


def test_an_unknown_kind_of_rule_in_a_file_is_an_error() -> None:
    with pytest.raises(
        StateError, match="expected quantile, fixed, or a class and its options, found 'budget'"
    ):
        from_json({"kind": "budget"})
