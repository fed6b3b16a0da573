"""Metrics for anomalies as events in time, whose borders are not labelled exactly.

VUS judges a score over all thresholds and all widths of a border zone; the affiliation metrics
judge predictions by how near to events they fall.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from newnormal.errors import InputError, ParameterError
from newnormal.metrics.inputs import (
    labels_and_predictions,
    labels_and_scores,
    require_both_classes,
    runs,
)
from newnormal.types import Bools, Floats, Ints

_ROC, _PR = 0, 1  # the columns of the kernel's result


class Volumes(NamedTuple):
    """The volumes under the ROC and the precision-recall surface."""

    roc: float
    pr: float


def vus_pr(
    labels: ArrayLike, scores: ArrayLike, *, window: int = 100, thresholds: int = 250
) -> float:
    """Return the volume under the precision-recall surface (VUS-PR).

    The single number to compare scores of long events by: it forgives a peak slightly before or
    after the event, requires that every event be touched, and needs no threshold. It depends on
    `window`; compare like with like.

    Parameters
    ----------
    labels
        1 for a labelled sample, 0 for a normal one; a run of 1s is an event.
    scores
        Higher is more anomalous; NaN where there is none.
    window
        The longest border zone in samples, half of it on each side of an event. The authors take
        the period of the series.
    thresholds
        At how many quantiles of the score the curves are sampled.

    Notes
    -----
    The mean of `range_auc_pr` over buffers of 0, 1, …, `window` samples. Paparrizos et al. (2022),
    "Volume Under the Surface: A New Accuracy Evaluation Measure for Time-Series Anomaly
    Detection", PVLDB 15(11). Equal to ``RangeAUC_volume_opt``, the version `vus` 0.0.6 and TSB-AD
    1.5 use by default, whose precision-recall area is a sum of steps (as `average_precision`) and
    in which a buffer counts as positive only where it is predicted.

    Examples
    --------
    >>> vus_pr([0, 0, 1, 1, 0, 0], [0, 0, 1, 1, 0, 0], window=2)
    1.0
    """
    return vus(labels, scores, window=window, thresholds=thresholds).pr


def vus_roc(
    labels: ArrayLike, scores: ArrayLike, *, window: int = 100, thresholds: int = 250
) -> float:
    """Return the volume under the ROC surface (VUS-ROC); parameters and source as `vus_pr`.

    Like `auroc`, it is kind to false alarms where anomalies are rare.

    Notes
    -----
    The mean of `range_auc_roc` over buffers of 0, 1, …, `window` samples.

    Examples
    --------
    >>> vus_roc([0, 0, 1, 1, 0, 0], [0, 0, 1, 1, 0, 0], window=2)
    1.0
    """
    return vus(labels, scores, window=window, thresholds=thresholds).roc


def vus(
    labels: ArrayLike, scores: ArrayLike, *, window: int = 100, thresholds: int = 250
) -> Volumes:
    """Return `vus_roc` and `vus_pr` together, in the time of one.

    Examples
    --------
    >>> vus([0, 0, 1, 1, 0, 0], [0, 0, 1, 1, 0, 0], window=2)
    Volumes(roc=1.0, pr=1.0)
    """
    longest = _whole_number(window, "window", at_least=0)
    areas = _range_aucs(labels, scores, np.arange(longest + 1), thresholds)
    return Volumes(*areas.mean(axis=0).tolist())


def range_auc_pr(
    labels: ArrayLike, scores: ArrayLike, *, window: int = 100, thresholds: int = 250
) -> float:
    """Return the area under the range-aware precision-recall curve, for one buffer length.

    `vus_pr` is its mean over all shorter buffers, and does not hang on one choice of `window`.

    Notes
    -----
    A slice of the surface of `vus_pr`. With P labelled samples, H of them predicted, B the summed
    weights of the predicted buffer samples (sqrt(1 - d/window) at distance d ≤ window/2 from an
    event) and N predicted samples in all: precision = (H + B)/N, recall =
    min((H + B)/(P + B/2), 1) times the share of extended events with a prediction. The packages
    named there also have a function ``RangeAUC``, which differs from the slices they average.

    Examples
    --------
    >>> round(range_auc_pr([0, 1, 0, 0], [0, 0, 1, 0], window=2), 2)  # one sample late
    0.66
    """
    only = np.array([_whole_number(window, "window", at_least=0)])
    return float(_range_aucs(labels, scores, only, thresholds)[0, _PR])


def range_auc_roc(
    labels: ArrayLike, scores: ArrayLike, *, window: int = 100, thresholds: int = 250
) -> float:
    """Return the area under the range-aware ROC curve, for one buffer length.

    Notes
    -----
    A slice of the surface of `vus_roc`, in the terms of `range_auc_pr`, whose recall is the true
    positive rate; the false positive rate is (N - H - B)/(T - P - B/2) with T samples.

    Examples
    --------
    >>> range_auc_roc([0, 1, 0, 0], [0, 1, 0, 0], window=2)
    1.0
    """
    only = np.array([_whole_number(window, "window", at_least=0)])
    return float(_range_aucs(labels, scores, only, thresholds)[0, _ROC])


def affiliation_precision(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Return how near to events the predictions fall, from 0 (far) to 1 (inside).

    Averaged over the events that have predictions around them; 0 where nothing is predicted (the
    authors' code returns NaN). Predictions at random get about 0.5, so read it as better or worse
    than that, and differences as small.

    Notes
    -----
    Each event J owns the zone E of samples nearer to it than to another. A prediction at distance
    d from J is worth the chance that a random point of E is farther from J: 1 inside, else
    1 - (|J| + min(d, l) + min(d, r))/|E| with l and r the parts of E before and after J. Huet et
    al. (2022), "Local Evaluation of Time Series Anomaly Detection Algorithms", KDD. A sample i is
    the interval [i, i + 1).

    Examples
    --------
    >>> affiliation_precision([0, 0, 1, 0, 0], [0, 0, 1, 0, 0])
    1.0
    >>> affiliation_precision([0, 0, 1, 0, 0], [0, 0, 0, 1, 0])  # next to it
    0.6
    """
    return _affiliation_precision(*_events_and_predictions(labels, predictions))


def affiliation_recall(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Return how near to predictions the events lie, from 0 (none around) to 1 (covered).

    Averaged over all events, so a short one counts as much as a long one.

    Notes
    -----
    Zones and source as in `affiliation_precision`. A point of J at distance d from the nearest
    prediction in E is worth the chance that a random point of E is farther from it:
    1 - (min(d, l) + min(d, r))/|E|, with l and r the parts of E before and after the point.

    Examples
    --------
    >>> affiliation_recall([0, 0, 1, 0, 0], [0, 0, 1, 0, 0])
    1.0
    >>> affiliation_recall([0, 0, 1, 0, 0], [0, 0, 0, 1, 0])  # next to it
    0.8
    """
    return _affiliation_recall(*_events_and_predictions(labels, predictions))


def affiliation_f1(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Return the harmonic mean of `affiliation_precision` and `affiliation_recall`.

    Examples
    --------
    >>> round(affiliation_f1([0, 0, 1, 0, 0], [0, 0, 0, 1, 0]), 4)
    0.6857
    """
    truth, predicted = _events_and_predictions(labels, predictions)
    return harmonic_mean(
        _affiliation_precision(truth, predicted), _affiliation_recall(truth, predicted)
    )


def harmonic_mean(a: float, b: float) -> float:
    """Return the harmonic mean of two ratios; 0 where both are 0."""
    return 2 * a * b / (a + b) if a + b else 0.0


def _whole_number(value: object, name: str, *, at_least: int) -> int:
    if not isinstance(value, int | np.integer) or value < at_least:
        raise ParameterError(f"{name} must be a whole number from {at_least} up, found {value!r}")
    return int(value)


def _range_aucs(labels: ArrayLike, scores: ArrayLike, windows: Ints, thresholds: int) -> Floats:
    from newnormal.kernels.vus import range_aucs

    truth, values = labels_and_scores(labels, scores)
    require_both_classes(truth, "a range-aware area")
    # Two thresholds at least: the highest score and the lowest.
    n_thresholds = _whole_number(thresholds, "thresholds", at_least=2)
    positions = np.linspace(0, len(values) - 1, n_thresholds).astype(int)
    descending = -np.sort(-values)[positions]
    entry = np.searchsorted(-descending, -values)
    return range_aucs(truth, *runs(truth), entry, windows, n_thresholds)


def _events_and_predictions(labels: ArrayLike, predictions: ArrayLike) -> tuple[Bools, Bools]:
    truth, predicted = labels_and_predictions(labels, predictions)
    if not truth.any():
        raise InputError(
            "affiliation needs at least one labelled event, found none",
            hint="it is undefined here; `report` gives NaN for it and computes the rest",
        )
    return truth, predicted


def _zone_borders(starts: Ints, stops: Ints, n_samples: int) -> Floats:
    return np.concatenate([[0.0], (stops[:-1] + starts[1:]) / 2, [float(n_samples)]])


# Both integrands are linear between corners: those of precision lie on multiples of 1/2 sample,
# those of recall on multiples of 1/4 (zone borders are halves, predictions whole, and a corner may
# lie midway between the two). So the midpoint rule over cells of that size is exact.
_HALVES = np.array([1, 3]) / 4
_QUARTERS = np.array([1, 3, 5, 7]) / 8


def _affiliation_precision(truth: Bools, predicted: Bools) -> float:
    if not predicted.any():
        return 0.0
    starts, stops = runs(truth)
    borders = _zone_borders(starts, stops, len(truth))
    x = np.add.outer(np.flatnonzero(predicted), _HALVES).ravel()
    zone = np.searchsorted(borders, x) - 1
    start, stop, left, right = starts[zone], stops[zone], borders[zone], borders[zone + 1]
    d = np.maximum(0, np.maximum(start - x, x - stop))
    nearer = stop - start + np.minimum(d, start - left) + np.minimum(d, right - stop)
    worth = np.where(d > 0, 1 - nearer / (right - left), 1)
    cells = np.bincount(zone, minlength=len(starts))
    total = np.bincount(zone, worth, minlength=len(starts))
    return float(np.mean(total[cells > 0] / cells[cells > 0]))


def _affiliation_recall(truth: Bools, predicted: Bools) -> float:
    starts, stops = runs(truth)
    borders = _zone_borders(starts, stops, len(truth))
    samples = np.flatnonzero(truth)
    event = np.repeat(np.arange(len(starts)), stops - starts)
    left, right = borders[event], borders[event + 1]

    index = np.arange(len(truth))
    # The end of the last predicted sample up to here and the start of the next one from here on.
    before = np.maximum.accumulate(np.where(predicted, index + 1.0, -np.inf))[samples]
    after = np.minimum.accumulate(np.where(predicted, index, np.inf)[::-1])[::-1][samples]
    before[before <= left] = -np.inf
    after[after >= right] = np.inf

    y = np.add.outer(_QUARTERS, samples)  # (4, labelled samples)
    d = np.where(predicted[samples], 0, np.minimum(y - before, after - y))
    worth = 1 - (np.minimum(d, y - left) + np.minimum(d, right - y)) / (right - left)
    return float(np.mean(np.bincount(event, worth.mean(axis=0)) / (stops - starts)))
