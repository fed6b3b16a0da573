"""VUS and affiliation: against the authors' code (frozen) and against slow obvious twins."""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newnormal import metrics
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
