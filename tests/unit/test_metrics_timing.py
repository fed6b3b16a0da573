"""Detection delay, false alarms, and the report of everything."""

import json
from dataclasses import fields
from datetime import timedelta

import numpy as np
import pytest

from newnormal import metrics
from newnormal.errors import InputError, ParameterError
from newnormal.metrics import Period, Report

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
