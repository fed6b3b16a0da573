"""What the metrics accept, what they refuse, and what a missing score means."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from newnormal import metrics
from newnormal.errors import InputError, ParameterError

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

Metric = Callable[..., Any]
OF_PREDICTIONS: list[Metric] = [
    *(metrics.confusion, metrics.accuracy, metrics.precision, metrics.recall, metrics.f1),
    *(metrics.point_adjust, metrics.adjusted_confusion, metrics.adjusted_accuracy),
    *(metrics.adjusted_precision, metrics.adjusted_recall, metrics.adjusted_f1),
    *(metrics.affiliation_precision, metrics.affiliation_recall, metrics.affiliation_f1),
    *(metrics.detection_delay, metrics.false_alarms),
]
OF_SCORES: list[Metric] = [
    *(metrics.auroc, metrics.auprc, metrics.average_precision, metrics.best_f1),
    *(metrics.best_f1_adjusted, metrics.vus, metrics.vus_pr, metrics.vus_roc, metrics.range_auc_pr),
    metrics.range_auc_roc,
]
of_both = pytest.mark.parametrize(
    "metric", OF_PREDICTIONS + OF_SCORES, ids=lambda metric: metric.__name__
)
of_scores = pytest.mark.parametrize("metric", OF_SCORES, ids=lambda metric: metric.__name__)
needs_both_classes = pytest.mark.parametrize(
    "metric",
    [metric for metric in OF_SCORES if not metric.__name__.startswith("best")],
    ids=lambda metric: metric.__name__,
)


@of_both
@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1], "must cover the same samples, found 2 and 3\nhint: "),
        ([0, 2, 1], "labels must be 0 or 1, found 2 at sample 1\nhint: 1 marks"),
        ([0, 1, np.nan], "labels must be 0 or 1, found nan at sample 2\nhint: drop"),
        ([0, 1, None], "labels must be 0 or 1, found nan at sample 2\nhint: drop"),
        (["0", "1", "0"], "labels must be 0 or 1, found <U1"),
        ([[0], [1], [0]], r"labels must have one value a sample, found shape \(3, 1\)\nhint: "),
        ([], "labels must hold at least one sample, found none"),
        ([0, 1, pd.NA], "labels must be numbers, found "),
    ],
)
def test_labels_that_are_not_0_or_1_or_of_another_length_are_refused(
    metric: Metric, labels: list[object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        metric(labels, [0, 1, 0])


def test_predictions_that_are_not_0_or_1_and_scores_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(InputError, match=r"predictions must be 0 or 1, found 0\.5 at sample 1"):
        metrics.f1([0, 1], [0, 0.5])
    with pytest.raises(InputError, match="scores must be numbers, found <U1"):
        metrics.auroc([0, 1], ["a", "b"])


@needs_both_classes
@pytest.mark.parametrize(("label", "found"), [(0, "normal"), (1, "anomalous")])
def test_ranking_one_class_is_refused(metric: Metric, label: int, found: str) -> None:
    message = f"needs normal and anomalous samples, found only {found} ones\nhint: "
    with pytest.raises(InputError, match=message):
        metric([label, label], [0.1, 0.2])


@pytest.mark.parametrize(
    "metric", [metrics.affiliation_precision, metrics.affiliation_recall, metrics.affiliation_f1]
)
def test_affiliation_without_an_event_is_refused(metric: Metric) -> None:
    with pytest.raises(InputError, match="needs at least one labelled event, found none\nhint: "):
        metric([0, 0], [0, 1])


@pytest.mark.parametrize(
    ("name", "least", "value"),
    [("window", 0, -1), ("window", 0, 2.5), ("window", 0, "10"), ("thresholds", 2, 1)],
)
def test_a_window_and_thresholds_that_cannot_work_are_refused(
    name: str, least: int, value: Any
) -> None:
    message = f"{name} must be a whole number from {least} up, found {value!r}"
    with pytest.raises(ParameterError, match=message):
        metrics.vus_pr([0, 1], [0, 1], **{name: value})


@of_scores
def test_a_missing_score_ranks_below_every_score(metric: Metric) -> None:
    labels = [0, 0, 1, 1, 0, 1, 0, 0]
    missing = [0.3, np.nan, 0.5, np.nan, 0.6, 0.7, 0.1, 0.2]
    lowest = [0.3, -1e6, 0.5, -1e6, 0.6, 0.7, 0.1, 0.2]
    assert metric(labels, missing) == metric(labels, lowest)


def test_a_missing_score_is_never_anomalous() -> None:
    result = metrics.report([0, 1, 1], [np.nan, np.nan, 0.5], threshold=-np.inf)
    assert (result.tp, result.fp, result.fn, result.tn) == (1, 0, 1, 1)
    assert metrics.best_f1([0, 1, 1], [np.nan, np.nan, 0.5]).threshold == 0.5
    assert metrics.best_f1([0, 1], [np.nan, np.nan]) == (0.0, np.inf)


@of_scores
def test_infinite_scores_are_the_extremes(metric: Metric) -> None:
    labels = [0, 0, 1, 1, 0, 1]
    ref = metric(labels, [0.0, -9.0, 9.0, 0.5, 1.0, 2.0])
    comp = metric(labels, [0.0, -np.inf, np.inf, 0.5, 1.0, 2.0])
    if isinstance(ref, metrics.BestF1):
        ref, comp = ref.value, comp.value
    assert comp == ref


@pytest.mark.parametrize("container", [np.array, pd.Series, pl.Series, tuple])
@pytest.mark.parametrize("kind", [bool, int, float])
def test_labels_may_come_in_any_container(container: Callable[..., Any], kind: type) -> None:
    labels = container([kind(label) for label in (0, 1, 1, 0)])
    assert metrics.f1(labels, [0, 1, 1, 1]) == 0.8
    assert metrics.best_f1(labels, container([0.1, 0.4, 0.8, 0.3])) == (1.0, 0.4)


def test_inputs_are_left_as_they_were() -> None:
    labels, scores = np.array([0, 1, 1, 0]), np.array([0.1, np.nan, 0.3, 0.2])
    predictions = np.array([False, False, True, False])
    metrics.report(labels, scores, predictions=predictions)
    metrics.point_adjust(labels, predictions)
    assert labels.tolist() == [0, 1, 1, 0]
    np.testing.assert_array_equal(scores, [0.1, np.nan, 0.3, 0.2])
    assert predictions.tolist() == [False, False, True, False]


def test_no_metric_needs_scikit_learn(without: Callable[..., None]) -> None:
    without("sklearn")
    assert metrics.auroc([0, 1], [0, 1]) == 1.0
    assert metrics.report([0, 1], [0.1, 0.9], 0.5).auprc == 1.0


def test_report_takes_a_threshold_for_each_sample() -> None:
    labels, scores = [0, 0, 1, 1], [0.1, 0.7, 0.8, 0.9]
    moved = metrics.report(labels, scores, np.array([0.6, 0.9, 0.9, 0.6]))
    assert (moved.tp, moved.fp, moved.fn) == (1, 0, 1)
    assert np.isnan(moved.threshold)
    assert moved.as_dict()["threshold"] is None
    fixed, same = metrics.report(labels, scores, 0.75), metrics.report(labels, scores, [0.75] * 4)
    assert same.as_dict() == fixed.as_dict()
    pending = metrics.report(labels, [0.1, 0.7, 0.8, np.nan], [0.6, 0.6, 0.6, np.nan])
    assert (pending.tp, pending.fn) == (1, 1)


@pytest.mark.parametrize(
    ("threshold", "message"),
    [
        ([0.5, 0.5], r"one for each of the 4 samples, found shape \(2,\)"),
        ([0.5, np.nan, 0.5, 0.5], "found NaN at sample 1, which has a score"),
        (np.nan, "must be a number, found NaN"),
        ("high", "one a sample, found <U4"),
    ],
)
def test_report_refuses_a_threshold_that_is_none(threshold: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        metrics.report([0, 0, 1, 1], [0.1, 0.7, 0.8, 0.9], threshold)  # type: ignore[arg-type]
