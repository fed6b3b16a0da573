"""What holds of the metrics for any labels, scores and predictions."""

from collections.abc import Callable

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

RANKING = [
    *(metrics.auroc, metrics.auprc, metrics.average_precision, metrics.vus_pr, metrics.vus_roc),
    *(metrics.range_auc_pr, metrics.range_auc_roc),
]


@always
@given(cases(both_classes=False), st.sampled_from(LEVELS[:-1]))
def test_pa_f1_is_never_below_f1(case: Case, threshold: float) -> None:
    labels, scores = case
    predictions = scores >= threshold
    assert metrics.adjusted_f1(labels, predictions) >= metrics.f1(labels, predictions)
    assert metrics.adjusted_recall(labels, predictions) >= metrics.recall(labels, predictions)


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
@given(cases(both_classes=False), st.sampled_from([*LEVELS[:-1], -np.inf, np.inf]))
def test_no_threshold_beats_the_best_f1(case: Case, threshold: float) -> None:
    labels, scores = case
    predictions = scores >= threshold
    best, best_adjusted = metrics.best_f1(labels, scores), metrics.best_f1_adjusted(labels, scores)
    assert best.value >= metrics.f1(labels, predictions)
    assert best_adjusted.value >= metrics.adjusted_f1(labels, predictions)
    assert best.value == metrics.f1(labels, scores >= best.threshold)
    assert best_adjusted.value == metrics.adjusted_f1(labels, scores >= best_adjusted.threshold)
    assert best_adjusted.value >= best.value


@always
@given(cases(), st.sampled_from([np.exp, np.arctan, np.cbrt, lambda s: 1e9 * s - 5]))
def test_ranking_metrics_take_transforms(case: Case, transform: Callable[[Floats], Floats]) -> None:
    labels, scores = case
    moved = transform(scores)
    for metric in RANKING:
        assert metric(labels, moved) == metric(labels, scores)
    for best in (metrics.best_f1, metrics.best_f1_adjusted):
        assert best(labels, moved).value == best(labels, scores).value


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


@always
@given(cases(), st.integers(0, 20), st.integers(2, 40))
def test_the_kernel_equals_the_naive_twin(case: Case, window: int, thresholds: int) -> None:
    labels, scores = case
    filled = np.where(np.isnan(scores), -np.inf, scores)
    comp = [
        metric(labels, scores, window=window, thresholds=thresholds)
        for metric in (metrics.range_auc_roc, metrics.range_auc_pr)
    ]
    ref = naive.range_aucs(labels, filled, window, thresholds)
    np.testing.assert_allclose(comp, ref, atol=1e-12)


@always
@given(cases(), st.sampled_from(LEVELS[:-1]))
def test_range_metrics_do_not_depend_on_the_direction_of_time(case: Case, threshold: float) -> None:
    labels, scores = case
    predictions = scores >= threshold
    for metric in RANKING:
        assert metric(labels[::-1], scores[::-1]) == pytest.approx(metric(labels, scores))
    for nearness in (metrics.affiliation_precision, metrics.affiliation_recall):
        reverse = nearness(labels[::-1], predictions[::-1])
        assert reverse == pytest.approx(nearness(labels, predictions))
