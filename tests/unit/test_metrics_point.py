"""Counts, ratios, point adjustment, the best F1 and the areas, on cases worked out by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as reference

from newnormal import metrics
from newnormal.metrics import Confusion
from newnormal.metrics.ranking import ranked_precision
from tests import naive_metrics as naive


@pytest.mark.parametrize("seed", range(5))
def test_the_ratios_equal_scikit_learns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels, predictions = rng.random(200) < 0.2, rng.random(200) < 0.3
    tn, fp, fn, tp = reference.confusion_matrix(labels, predictions).ravel().tolist()
    assert metrics.confusion(labels, predictions) == Confusion(tp, fp, fn, tn)
    assert metrics.accuracy(labels, predictions) == reference.accuracy_score(labels, predictions)
    assert metrics.precision(labels, predictions) == reference.precision_score(labels, predictions)
    assert metrics.recall(labels, predictions) == reference.recall_score(labels, predictions)
    assert metrics.f1(labels, predictions) == pytest.approx(
        reference.f1_score(labels, predictions), abs=1e-15
    )


@pytest.mark.parametrize(
    ("labels", "predictions"), [([0, 0], [0, 0]), ([1, 1], [0, 0]), ([0, 0], [1, 1])]
)
def test_a_ratio_with_no_denominator_is_zero(labels: list[int], predictions: list[int]) -> None:
    assert metrics.precision(labels, predictions) == 0
    assert metrics.recall(labels, predictions) == 0
    assert metrics.f1(labels, predictions) == 0


def test_adjusted_metrics_are_the_plain_ones_of_the_adjusted_predictions() -> None:
    labels, predictions = [1, 1, 1, 0, 0, 1, 1, 0], [0, 0, 1, 0, 1, 0, 0, 0]
    adjusted = metrics.point_adjust(labels, predictions)
    assert metrics.adjusted_confusion(labels, predictions) == Confusion(tp=3, fp=1, fn=2, tn=2)
    assert metrics.adjusted_accuracy(labels, predictions) == metrics.accuracy(labels, adjusted)
    assert metrics.adjusted_precision(labels, predictions) == metrics.precision(labels, adjusted)
    assert metrics.adjusted_recall(labels, predictions) == metrics.recall(labels, adjusted)
    assert metrics.adjusted_f1(labels, predictions) == metrics.f1(labels, adjusted) == 6 / 9


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("levels", [3, 1000])
def test_best_f1_equals_trying_every_threshold(seed: int, levels: int) -> None:
    rng = np.random.default_rng(seed)
    labels = np.repeat(rng.random(20) < 0.3, rng.integers(1, 6, 20))
    scores = rng.integers(0, levels, len(labels)) + rng.integers(0, levels) * labels
    every = np.unique(scores)[::-1]
    plain = [naive.f1(labels, scores >= tau) for tau in every]
    adjusted = [naive.f1(labels, naive.point_adjust(labels, scores >= tau)) for tau in every]
    assert metrics.best_f1(labels, scores) == (max(plain), every[np.argmax(plain)])
    assert metrics.best_f1_adjusted(labels, scores) == (max(adjusted), every[np.argmax(adjusted)])


def test_best_f1_without_a_label_is_zero_and_alarms_never() -> None:
    assert metrics.best_f1([0, 0, 0], [1, 2, 3]) == (0.0, np.inf)
    assert metrics.best_f1_adjusted([0, 0, 0], [1, 2, 3]) == (0.0, np.inf)


@pytest.mark.parametrize("levels", [4, 10**9])
def test_the_areas_are_scikit_learns(levels: int) -> None:
    rng = np.random.default_rng(3)
    labels = rng.random(500) < 0.1
    scores = (rng.integers(0, levels, 500) + levels * 0.3 * labels) / levels
    precision, recall, _ = reference.precision_recall_curve(labels, scores)
    area = reference.roc_auc_score(labels, scores)
    assert metrics.auroc(labels, scores) == pytest.approx(area, rel=1e-14)
    area = reference.auc(recall, precision)
    assert metrics.auprc(labels, scores) == pytest.approx(area, rel=1e-14)
    area = reference.average_precision_score(labels, scores)
    assert metrics.average_precision(labels, scores) == pytest.approx(area, rel=1e-14)


@settings(max_examples=100)
@given(
    st.lists(
        st.tuples(st.booleans(), st.sampled_from([np.nan, -1.0, 0.0, 0.5, 1.0, 2.0, 3.0])),
        min_size=1,
    )
)
def test_precision_is_scikit_learns_for_one_class_too(pairs: list[tuple[bool, float]]) -> None:
    faulty = np.array([label for label, _ in pairs])
    scores = np.array([score for _, score in pairs])
    comp = ranked_precision(faulty, scores)
    if not faulty.any():
        assert comp == 0
        return
    ref = reference.average_precision_score(faulty, np.nan_to_num(scores, nan=-9.0))
    np.testing.assert_allclose(comp, ref)
