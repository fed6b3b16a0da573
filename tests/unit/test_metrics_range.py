"""VUS and affiliation against the authors' code (frozen); delays, alarms, and the report."""

import json
import math
import time
from dataclasses import asdict, dataclass, fields
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from newnormal import metrics
from newnormal.errors import InputError, ParameterError
from newnormal.metrics import AlarmCounts, Period, Report, count_alarms, trace_alarms
from newnormal.metrics.evaluation import summary
from newnormal.types import Bools
from tests import naive_metrics
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


def test_affiliation_of_a_series_that_is_one_event_counts_what_is_covered() -> None:
    assert metrics.affiliation_precision([1, 1, 1, 1], [0, 1, 0, 0]) == 1
    assert 0 < metrics.affiliation_recall([1, 1, 1, 1], [0, 1, 0, 0]) < 1


LABELS = [1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1]
PREDICTIONS = [0, 1, 0, 1, 0, 1, 0, 1, 1, 0, 0, 0]


def test_the_delay_runs_from_the_events_start_to_the_first_prediction_inside() -> None:
    delay = metrics.detection_delay(LABELS, PREDICTIONS)
    np.testing.assert_array_equal(delay.delays, [1, 0, np.nan])
    assert (delay.events, delay.detected, delay.missed) == (3, 2, 1)
    assert (delay.mean, delay.median) == (0.5, 0.5)


def test_an_alarm_outside_an_event_does_not_detect_it_and_without_events_is_no_delay() -> None:
    delay = metrics.detection_delay([0, 1, 0, 0], [1, 0, 1, 0])
    assert (delay.detected, delay.missed) == (0, 1)
    assert np.isnan(delay.mean)
    assert np.isnan(delay.median)
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


@dataclass(frozen=True)
class Numbered:
    number: int


@dataclass(frozen=True)
class Event:
    kind: str
    sample: int
    alarm: Numbered | None = None
    change: Numbered | None = None


def labelled(samples: int, *events: tuple[int, int]) -> Any:
    labels = np.zeros(samples, dtype=int)
    for first, last in events:
        labels[first : last + 1] = 1
    return labels


@pytest.mark.parametrize(
    ("opening", "found", "delay"),
    [(94, 0, None), (95, 1, 0), (100, 1, 0), (103, 1, 3), (119, 1, 19), (120, 0, None)],
)
def test_an_event_is_found_a_little_around_it(opening: int, found: int, delay: int | None) -> None:
    counts = count_alarms(labelled(1000, (100, 109)), [opening])
    assert counts.found == counts.true == found
    assert counts.false == 1 - found
    assert counts.delays == (() if delay is None else (delay,))


def test_pooling_adds_and_with_nothing_to_divide_by_a_share_is_0_and_a_delay_is_nan() -> None:
    one = count_alarms(labelled(500, (100, 109)), [102, 300], samples_per_day=100)
    other = count_alarms(labelled(300, (50, 59), (90, 99)), [50, 55], samples_per_day=50)
    both = one + other
    assert AlarmCounts.pooled([one, other]) == both
    assert (both.events, both.found, both.openings, both.true) == (3, 2, 4, 3)
    assert both.days == 490 / 100 + 280 / 50
    assert both.delays == (2, 0)
    assert both.mean_delay == both.median_delay == 1
    assert both.found_share == 2 / 3
    assert both.true_share == 0.75
    assert AlarmCounts.pooled([]) == AlarmCounts()
    counts = count_alarms([1, 1], [])
    assert counts.false_per_day == counts.in_alarm_share == counts.pending_share == 0
    assert counts.found_share == counts.true_share == 0
    assert count_alarms([0, 0], []).found_share == 0
    assert math.isnan(counts.mean_delay)
    assert math.isnan(counts.median_delay)


def test_what_cannot_be_counted_is_refused() -> None:
    with pytest.raises(InputError, match="openings: expected samples from 0 to 1, found 2"):
        count_alarms([0, 1], [0, 2])
    with pytest.raises(InputError, match="openings: expected samples from 0 to 1, found -1"):
        count_alarms([0, 1], [-1])
    with pytest.raises(InputError, match="must cover the same samples, found 2 and 1"):
        count_alarms([0, 1], [], pending=[0])
    with pytest.raises(ParameterError, match="samples_per_day: expected more than 0, found 0"):
        count_alarms([0, 1], [], samples_per_day=0)


@given(data=st.data(), samples=st.integers(1, 120))
def test_counts_equal_those_of_the_slow_twin(data: st.DataObject, samples: int) -> None:
    flags = st.lists(st.booleans(), min_size=samples, max_size=samples).map(np.array)
    labels, in_alarm, pending = (data.draw(flags) for _ in range(3))
    openings = data.draw(st.lists(st.integers(0, samples - 1), max_size=10))
    comp = count_alarms(labels, openings, in_alarm=in_alarm, pending=pending, samples_per_day=10)
    ref = naive_metrics.alarm_counts(labels, openings, in_alarm, pending)
    found = asdict(comp)
    assert found.pop("days") == pytest.approx(comp.normal / 10)
    assert found == ref


# ---------------------------------------------------------------------- events


def test_an_alarm_is_open_until_it_or_the_last_that_overlaps_is_closed() -> None:
    one = Numbered(1)
    events = [Event("opened", 2, one), Event("updated", 3, one), Event("closed", 5, one)]
    trace = trace_alarms(events, 8)
    assert trace.openings.tolist() == [2]
    assert np.flatnonzero(trace.in_alarm).tolist() == [2, 3, 4]
    assert not trace.pending.any()
    one, two = Numbered(1), Numbered(2)
    events = [
        Event("opened", 1, one),
        Event("opened", 3, two),
        Event("closed", 4, one),
        Event("closed", 6, two),
    ]
    trace = trace_alarms(events, 8)
    assert trace.openings.tolist() == [1, 3]
    assert np.flatnonzero(trace.in_alarm).tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("end", ["accepted", "rejected", "reverted"])
def test_a_change_is_pending_until_it_is_accepted_rejected_or_reverted(end: str) -> None:
    change = Numbered(1)
    trace = trace_alarms([Event("changed", 2, None, change), Event(end, 6, None, change)], 9)
    assert trace.openings.tolist() == [2]
    assert np.flatnonzero(trace.pending).tolist() == [2, 3, 4, 5]
    assert not trace.in_alarm.any()


def test_a_change_that_began_with_an_alarm_is_one_opening_with_it() -> None:
    alarm, change = Numbered(7), Numbered(1)
    events = [
        Event("opened", 2, alarm),
        Event("changed", 4, alarm, change),
        Event("closed", 5, alarm),
        Event("changed", 6, None, Numbered(2)),
    ]
    trace = trace_alarms(events, 9)
    assert trace.openings.tolist() == [2, 6]
    assert np.flatnonzero(trace.in_alarm).tolist() == [2, 3, 4]
    assert np.flatnonzero(trace.pending).tolist() == [4, 5, 6, 7, 8]


def test_what_is_open_at_an_edge_is_open_up_to_it_but_openings_before_it_do_not_count() -> None:
    events = [
        Event("closed", 12, Numbered(1)),
        Event("opened", 17, Numbered(2)),
        Event("undone", 18, None, Numbered(1)),
    ]
    trace = trace_alarms(events, 10, first=10)
    assert np.flatnonzero(trace.in_alarm).tolist() == [0, 1, 7, 8, 9]
    assert trace.openings.tolist() == [7]
    trace = trace_alarms(
        [Event("opened", 5, Numbered(1)), Event("closed", 12, Numbered(1))], 4, first=10
    )
    assert trace.openings.tolist() == []
    assert trace.in_alarm.tolist() == [True, True, False, False]


def test_a_trace_counts_itself() -> None:
    trace = trace_alarms(
        [Event("opened", 102, Numbered(1)), Event("closed", 120, Numbered(1))], 200
    )
    counts = trace.count(labelled(200, (100, 109)), samples_per_day=190)
    assert (counts.found, counts.false, counts.in_alarm, counts.days) == (1, 0, 10, 1.0)


@pytest.mark.parametrize(
    ("counts", "seconds", "lines"),
    [
        (
            AlarmCounts(4, 5, 3, 7200, 5.0, 72, 720, (0, 0, 12)),
            60.0,
            [
                "3 of 4 events found; median delay none, longest 12m",
                "0.4 false alarms a day: 2 in 5 days of normal samples",
                "1 % of normal samples in alarm, 10 % with a change pending",
            ],
        ),
        (
            AlarmCounts(1, 1, 1, 1440, 1.0, 0, 1440, (3,)),
            np.nan,
            [
                "1 of 1 event found, 3 samples after it began",
                "no false alarm in 1 day of normal samples",
                "0 % of normal samples in alarm, 100 % with a change pending",
            ],
        ),
        (
            AlarmCounts(0, 2, 0, 1440, 1.0, 1, 0),
            np.nan,
            [
                "no event is labelled: there was nothing to find",
                "2 false alarms a day of 1,440 samples: 2 in 1 day of normal samples",
                "under 0.1 % of normal samples in alarm, 0 % with a change pending",
            ],
        ),
        (AlarmCounts(2, 0, 0, 10, 1.0), 1.0, ["0 of 2 events found"]),
    ],
)
def test_the_summary_has_three_lines(counts: AlarmCounts, seconds: float, lines: list[str]) -> None:
    found = summary(counts, seconds)
    assert len(found) == 3
    assert found[: len(lines)] == lines
    assert max(map(len, found)) <= 80
