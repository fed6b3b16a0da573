"""VUS and affiliation against the authors' code (frozen) and slow twins; delays and the report."""

import json
import time
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newnormal import metrics
from newnormal.errors import InputError, ParameterError
from newnormal.metrics import Period, Report
from newnormal.types import Bools, Floats
from tests import naive_metrics as naive

FROZEN: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "frozen" / "metrics" / "reference.json").read_text()
)
by_name = pytest.mark.parametrize("case", FROZEN, ids=lambda case: case["name"])


def flags(text: str) -> Bools:
    return np.array([character == "1" for character in text])


@by_name
@pytest.mark.parametrize("metric", ["vus_roc", "vus_pr", "range_auc_roc", "range_auc_pr"])
def test_vus_equals_the_authors_code(case: dict[str, Any], metric: str) -> None:
    comp = getattr(metrics, metric)(
        flags(case["labels"]), case["scores"], window=case["window"], thresholds=case["thresholds"]
    )
    assert comp == pytest.approx(case["expected"][metric], abs=1e-12)


@by_name
@pytest.mark.parametrize("metric", ["affiliation_precision", "affiliation_recall", "adjusted_f1"])
def test_metrics_of_predictions_equal_the_authors_code(case: dict[str, Any], metric: str) -> None:
    ref = case["expected"][metric]
    comp = getattr(metrics, metric)(flags(case["labels"]), flags(case["predictions"]))
    if ref is None:  # the reference never adjusts the sample at index 0
        assert case["labels"][0] == "1"
    else:
        assert comp == pytest.approx(ref, abs=1e-12)


def nasty_labels() -> dict[str, Bools]:
    n = 60
    t = np.arange(n)
    return {
        "first sample": t == 0,
        "last sample": t == n - 1,
        "both ends": (t < 5) | (t > n - 4),
        "middle": (t > 20) & (t < 30),
        "all but one": t != 31,
        "alternating": t % 2 == 0,
        "many close": np.isin(t % 12, [2, 3, 5, 8]),
    }


def nasty_scores(labels: Bools) -> dict[str, Floats]:
    noise = np.random.default_rng(7).random(len(labels))
    return {
        "random": noise,
        "informed": noise + 0.5 * labels,
        "tied": np.round(noise * 3),
        "constant": np.zeros(len(labels)),
        "perfect": labels.astype(float),
        "inverted": -labels.astype(float),
        "rising": np.arange(float(len(labels))),
    }


@pytest.mark.parametrize("window", [0, 1, 2, 7, 20, 150])
@pytest.mark.parametrize("shape", nasty_labels())
@pytest.mark.parametrize("kind", nasty_scores(np.zeros(1, bool)))
def test_range_aucs_equal_the_naive_twin(shape: str, kind: str, window: int) -> None:
    labels = nasty_labels()[shape]
    scores = nasty_scores(labels)[kind]
    ref = naive.range_aucs(labels, scores, window, 30)
    comp = [
        metric(labels, scores, window=window, thresholds=30)
        for metric in (metrics.range_auc_roc, metrics.range_auc_pr)
    ]
    np.testing.assert_allclose(comp, ref, atol=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_vus_is_the_mean_of_the_range_aucs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(12) % 2 == 1, rng.integers(1, 9, 12))
    scores = rng.random(len(labels)) + 0.3 * labels
    ref = np.mean([naive.range_aucs(labels, scores, w, 40) for w in range(13)], axis=0)
    comp = metrics.vus(labels, scores, window=12, thresholds=40)
    np.testing.assert_allclose(comp, ref, atol=1e-12)
    assert comp.roc == metrics.vus_roc(labels, scores, window=12, thresholds=40)
    assert comp.pr == metrics.vus_pr(labels, scores, window=12, thresholds=40)


def test_vus_forgives_a_peak_just_outside_the_event() -> None:
    labels = np.zeros(500)
    labels[200:220] = 1
    near, far = np.zeros(500), np.zeros(500)
    near[195:215] = far[300:320] = 1
    assert metrics.vus_pr(labels, near) > metrics.average_precision(labels, near)
    assert metrics.vus_pr(labels, near) > 5 * metrics.vus_pr(labels, far)


def test_vus_of_25_000_samples_takes_less_than_a_second() -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(25_000) % 500 > 450
    scores = rng.random(25_000) + 0.3 * labels
    metrics.vus(labels, scores)  # compiled before the clock starts
    start = time.perf_counter()
    metrics.vus(labels, scores)
    assert time.perf_counter() - start < 1  # measured: 3 ms


@pytest.mark.parametrize("seed", range(40))
def test_affiliation_equals_counting_farther_points(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 50))
    labels = np.zeros(n, bool)
    for start in rng.integers(0, n, 3):
        labels[start : start + rng.integers(1, 5)] = True
    predictions = rng.random(n) < rng.choice([0.05, 0.3, 0.9])
    cells = 64  # counting is right to about a cell
    ref = naive.affiliation(labels, predictions, cells)
    comp = (
        metrics.affiliation_precision(labels, predictions),
        metrics.affiliation_recall(labels, predictions),
    )
    np.testing.assert_allclose(comp, ref, atol=2 / cells)


def test_affiliation_f1_is_the_harmonic_mean() -> None:
    labels, predictions = [0, 0, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 0, 0]
    p = metrics.affiliation_precision(labels, predictions)
    r = metrics.affiliation_recall(labels, predictions)
    assert metrics.affiliation_f1(labels, predictions) == pytest.approx(2 * p * r / (p + r))


def test_affiliation_without_predictions_is_zero() -> None:
    labels, nothing = [0, 1, 1, 0], [0, 0, 0, 0]
    assert metrics.affiliation_precision(labels, nothing) == 0
    assert metrics.affiliation_recall(labels, nothing) == 0
    assert metrics.affiliation_f1(labels, nothing) == 0


def test_affiliation_of_a_series_that_is_one_event_counts_what_is_covered() -> None:
    assert metrics.affiliation_precision([1, 1, 1, 1], [0, 1, 0, 0]) == 1
    assert 0 < metrics.affiliation_recall([1, 1, 1, 1], [0, 1, 0, 0]) < 1


def test_a_prediction_nearer_to_the_event_has_a_higher_affiliation_precision() -> None:
    labels = np.arange(100) == 50
    worth = [metrics.affiliation_precision(labels, np.arange(100) == t) for t in range(50, 100)]
    assert worth == sorted(worth, reverse=True)
    assert len(set(worth)) == len(worth)


LABELS = [1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1]
PREDICTIONS = [0, 1, 0, 1, 0, 1, 0, 1, 1, 0, 0, 0]


def test_the_delay_runs_from_the_events_start_to_the_first_prediction_inside() -> None:
    delay = metrics.detection_delay(LABELS, PREDICTIONS)
    np.testing.assert_array_equal(delay.delays, [1, 0, np.nan])
    assert (delay.events, delay.detected, delay.missed) == (3, 2, 1)
    assert (delay.mean, delay.median) == (0.5, 0.5)


def test_an_alarm_before_or_after_an_event_does_not_detect_it() -> None:
    delay = metrics.detection_delay([0, 1, 0, 0], [1, 0, 1, 0])
    assert (delay.detected, delay.missed) == (0, 1)
    assert np.isnan(delay.mean)
    assert np.isnan(delay.median)


def test_without_events_there_is_no_delay() -> None:
    delay = metrics.detection_delay([0, 0], [1, 1])
    assert (delay.events, delay.missed) == (0, 0)
    assert np.isnan(delay.mean)


PERIODS = [30, 30.0, np.float64(30), timedelta(seconds=30), np.timedelta64(30_000, "ms")]


@pytest.mark.parametrize("period", PERIODS)
def test_with_a_period_the_delay_is_in_seconds(period: Period) -> None:
    delay = metrics.detection_delay(LABELS, PREDICTIONS, period=period)
    np.testing.assert_array_equal(delay.delays, [30, 0, np.nan])


@pytest.mark.parametrize(
    ("labels", "predictions", "count"),
    [
        ("000000", "011011", 2),  # a run is one alarm
        ("000000", "111111", 1),
        ("000000", "000000", 0),
        ("001100", "010010", 2),  # next to an event, sharing no sample with it
        ("001100", "011000", 0),  # early, not false
        ("001100", "000111", 0),  # late to end, not false
        ("001100", "100001", 2),
        ("110011", "111111", 0),
    ],
)
def test_false_alarms_are_runs_outside_events(labels: str, predictions: str, count: int) -> None:
    assert metrics.false_alarms(list(map(int, labels)), list(map(int, predictions))) == count


@pytest.mark.parametrize("period", PERIODS)
def test_false_alarms_per_day_divide_by_the_days(period: Period) -> None:
    labels, predictions = np.zeros(2880), np.arange(2880) % 100 < 5  # a day of half minutes
    assert metrics.false_alarms_per_day(labels, predictions, period=period) == 29.0


@pytest.mark.parametrize("period", [0, -1, np.nan, np.inf, timedelta(0), np.timedelta64("NaT")])
def test_a_period_that_is_not_positive_is_refused(period: Period) -> None:
    with pytest.raises(ParameterError, match=r"period must be positive, found .*\nhint: "):
        metrics.false_alarms_per_day([0], [0], period=period)


def test_a_period_that_is_not_a_duration_is_refused() -> None:
    with pytest.raises(ParameterError, match="period must be seconds or a timedelta, found '1min'"):
        metrics.detection_delay([0], [0], period="1min")  # type: ignore[arg-type]


def scored() -> tuple[list[int], list[float]]:
    return LABELS, (PREDICTIONS + 0.1 * np.random.default_rng(5).random(12)).tolist()


def test_the_report_holds_what_the_functions_say() -> None:
    labels, scores = scored()
    result = metrics.report(labels, scores, 1.0, period=60, window=4)
    assert (result.samples, result.labelled, result.events) == (12, 7, 3)
    assert result.threshold == 1.0
    for name in ("confusion", "adjusted_confusion"):
        counts = getattr(metrics, name)(labels, PREDICTIONS)
        prefix = name.removesuffix("confusion")
        for cell in ("tp", "fp", "fn", "tn", "accuracy", "precision", "recall", "f1"):
            assert getattr(result, prefix + cell) == getattr(counts, cell)
    for name in ("auroc", "auprc", "average_precision"):
        assert getattr(result, name) == getattr(metrics, name)(labels, scores)
    assert (result.vus_roc, result.vus_pr) == metrics.vus(labels, scores, window=4)
    for name in ("affiliation_precision", "affiliation_recall", "affiliation_f1", "false_alarms"):
        assert getattr(result, name) == getattr(metrics, name)(labels, PREDICTIONS)
    assert (result.detected, result.missed) == (2, 1)
    assert (result.mean_delay, result.median_delay, result.mean_delay_seconds) == (0.5, 0.5, 30)
    assert result.false_alarms_per_day == metrics.false_alarms_per_day(
        labels, PREDICTIONS, period=60
    )
    assert (result.best_f1, result.best_f1_threshold) == metrics.best_f1(labels, scores)
    best = metrics.best_f1_adjusted(labels, scores)
    assert (result.best_f1_adjusted, result.best_f1_adjusted_threshold) == best


def test_predictions_and_their_threshold_give_the_same_report() -> None:
    labels, scores = scored()
    by_threshold = metrics.report(labels, scores, threshold=1.0).as_dict()
    by_predictions = metrics.report(labels, scores, predictions=PREDICTIONS).as_dict()
    assert by_predictions == by_threshold | {"threshold": None}


@pytest.mark.parametrize("label", [0, 1])
def test_the_report_of_one_class_leaves_the_undefined_out_and_computes_the_rest(label: int) -> None:
    result = metrics.report([label] * 6, [1, 2, 9, 9, 1, 9], threshold=5, period=3600)
    assert np.isnan([result.auroc, result.auprc, result.average_precision]).all()
    assert np.isnan([result.vus_roc, result.vus_pr]).all()
    assert np.isnan(result.affiliation_f1) == (label == 0)
    assert result.false_alarms == (2 if label == 0 else 0)
    assert result.false_alarms_per_day == (8.0 if label == 0 else 0.0)


def test_the_report_is_plain_values_and_valid_json() -> None:
    labels, scores = scored()
    result = metrics.report(labels, scores, np.float64(1.0))
    for field in fields(Report):
        assert type(getattr(result, field.name)).__name__ == field.type
    decoded = json.loads(json.dumps(result.as_dict(), allow_nan=False))
    assert list(decoded) == [field.name for field in fields(Report)]
    assert decoded["f1"] == result.f1
    assert decoded["false_alarms_per_day"] is None


def test_the_report_takes_a_threshold_or_predictions_and_not_both() -> None:
    with pytest.raises(ParameterError, match="either a threshold or predictions, found neither"):
        metrics.report([0, 1], [0, 1])
    with pytest.raises(ParameterError, match="either a threshold or predictions, found both"):
        metrics.report([0, 1], [0, 1], 0.5, predictions=[0, 1])
    with pytest.raises(ParameterError, match="threshold must be a number, found NaN"):
        metrics.report([0, 1], [0, 1], np.nan)
    with pytest.raises(InputError, match="labels and predictions must cover the same samples"):
        metrics.report([0, 1], [0, 1], predictions=[0, 1, 1])
