"""What holds of the metrics for any labels, scores and predictions."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from newnormal import metrics
from newnormal.types import Bools, Floats
from tests import naive_metrics as naive

Case = tuple[Bools, Floats]

# Few distinct values, so that ties are common; NaN is a sample without a score.
LEVELS = [*np.linspace(-2, 3, 11).tolist(), float("nan")]


@st.composite
def cases(draw: st.DrawFn, *, both_classes: bool = True) -> Case:
    """Labels made of runs, and a score for each sample."""
    lengths = draw(st.lists(st.integers(1, 9), min_size=1, max_size=8))
    first = draw(st.booleans())
    labels = np.repeat(np.arange(len(lengths)) % 2 == int(first), lengths)
    assume(not both_classes or 0 < labels.sum() < len(labels))
    levels = st.lists(st.sampled_from(LEVELS), min_size=len(labels), max_size=len(labels))
    return labels, np.array(draw(levels))


always = settings(deadline=None, derandomize=True, max_examples=80)


@always
@given(cases(both_classes=False), st.sampled_from(LEVELS[:-1]))
def test_point_adjustment_equals_its_twin_and_is_idempotent(case: Case, threshold: float) -> None:
    labels, scores = case
    predictions = scores >= threshold
    adjusted = metrics.point_adjust(labels, predictions)
    np.testing.assert_array_equal(adjusted, naive.point_adjust(labels, predictions))
    np.testing.assert_array_equal(adjusted, metrics.point_adjust(labels, adjusted))
    np.testing.assert_array_equal(adjusted[~labels], predictions[~labels])


@always
@given(cases(), st.integers(0, 30))
def test_perfect_scores_give_one(case: Case, window: int) -> None:
    labels, _ = case
    result = metrics.report(labels, labels, threshold=1, window=window)
    assert result.accuracy == result.precision == result.recall == result.f1 == 1
    assert result.adjusted_f1 == result.best_f1 == result.best_f1_adjusted == 1
    assert result.auroc == result.auprc == result.average_precision == 1
    assert result.vus_roc == pytest.approx(1, abs=1e-12)
    assert result.vus_pr == pytest.approx(1, abs=1e-12)
    assert result.affiliation_precision == result.affiliation_recall == 1
    assert result.mean_delay == result.missed == result.false_alarms == 0


@always
@given(cases(), st.sampled_from(LEVELS[:-1]), st.integers(0, 30))
def test_metrics_lie_between_zero_and_one(case: Case, threshold: float, window: int) -> None:
    labels, scores = case
    result = metrics.report(labels, scores, threshold, window=window).as_dict()
    counts = ("samples", "labelled", "events", "detected", "missed", "false_alarms")
    for name, value in result.items():
        if name.endswith(("tp", "fp", "fn", "tn", "threshold", "delay")) or name in counts:
            continue
        assert value is None or -1e-12 <= value <= 1 + 1e-12, name


@always
@given(cases(both_classes=False), st.sampled_from(LEVELS[:-1]))
def test_the_counts_cover_every_sample(case: Case, threshold: float) -> None:
    labels, scores = case
    result = metrics.report(labels, scores, threshold)
    assert result.tp + result.fp + result.fn + result.tn == len(labels)
    assert result.adjusted_tp + result.adjusted_fn == result.tp + result.fn == labels.sum()
    assert result.detected + result.missed == result.events == len(naive.spans(labels))


@settings(deadline=None, derandomize=True, max_examples=300)
@given(cases(), st.integers(0, 20) | st.just(150), st.integers(2, 40))
def test_the_kernel_equals_the_naive_twin(case: Case, window: int, thresholds: int) -> None:
    labels, scores = case
    filled = np.where(np.isnan(scores), -np.inf, scores)
    comp = [
        metric(labels, scores, window=window, thresholds=thresholds)
        for metric in (metrics.range_auc_roc, metrics.range_auc_pr)
    ]
    ref = naive.range_aucs(labels, filled, window, thresholds)
    np.testing.assert_allclose(comp, ref, atol=1e-12)
