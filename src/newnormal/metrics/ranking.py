"""Metrics of the score alone, over all thresholds: areas under curves, and the best F1 (oracle).

They depend on the order of the scores only, so they don't move under any strictly increasing
transform. The areas equal scikit-learn's, and need no scikit-learn.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from newnormal.errors import NewnormalWarning
from newnormal.metrics.inputs import labels_and_scores, raise_to_event_maximum, require_both_classes
from newnormal.types import Bools, Floats


class BestF1(NamedTuple):
    """The best F1 any threshold gives, and that threshold: an oracle, chosen with the labels."""

    value: float
    threshold: float


def auroc(labels: ArrayLike, scores: ArrayLike) -> float:
    """Return the area under the ROC curve.

    The chance that an anomalous sample scores above a normal one; 0.5 for a score without
    information. Where anomalies are rare it hides false alarms that `auprc` shows.

    Examples
    --------
    >>> auroc([0, 0, 1, 1], [0.1, 0.4, 0.3, 0.8])
    0.75
    """
    hits, false = _counts_by_threshold(labels, scores, "auroc")
    recall, fallout = _from_zero(hits / hits[-1]), _from_zero(false / false[-1])
    return _area(fallout, recall)


def auprc(labels: ArrayLike, scores: ArrayLike) -> float:
    """Return the area under the precision-recall curve, by the trapezoidal rule.

    A score without information gets about the share of anomalous samples. Straight lines between
    points of this curve are optimistic (Davis and Goadrich 2006); `average_precision` uses none.
    Papers give either the name AUPRC: state which one you report.

    Examples
    --------
    >>> round(auprc([0, 0, 1, 1], [0.1, 0.4, 0.3, 0.8]), 4)
    0.7917
    """
    hits, false = _counts_by_threshold(labels, scores, "auprc")
    precision = np.concatenate([[1.0], hits / (hits + false)])
    return _area(_from_zero(hits / hits[-1]), precision)


def average_precision(labels: ArrayLike, scores: ArrayLike) -> float:
    """Return the precision at each threshold, weighted by the recall gained there.

    Examples
    --------
    >>> round(average_precision([0, 0, 1, 1], [0.1, 0.4, 0.3, 0.8]), 4)
    0.8333
    """
    return _average(*_counts_by_threshold(labels, scores, "average_precision"))


def ranked_precision(labels: ArrayLike, scores: ArrayLike) -> float:
    """Return the average precision, also of one class alone; 0 where no sample is anomalous."""
    return _average(*_counts_by_threshold(labels, scores))


def precision_of_fold(labels: ArrayLike, scores: ArrayLike) -> float:
    """Return the average precision; 0 and a warning where no sample is anomalous, as scikit-learn.

    An error would be NaN in `cross_val_score`, and one fold would leave no best one to
    `GridSearchCV`.
    """
    truth, ranks = labels_and_scores(labels, scores)
    if not truth.any():
        warnings.warn(
            "y: expected labels of anomalous samples, found none: the average precision is set to "
            "0\nhint: use folds in the order of time that each have some, such as "
            "cv=TimeSeriesSplit(n_splits=2), or pass a scoring",
            NewnormalWarning,
            stacklevel=2,
        )
    return ranked_precision(truth, ranks)


def best_f1(labels: ArrayLike, scores: ArrayLike) -> BestF1:
    """Return the highest F1 over all thresholds, and the highest threshold that gives it.

    An oracle: the threshold is chosen with the labels that then grade it, so it bounds what the
    score allows and is not what a detector reaches. Exact: every distinct score is tried. With no
    sample labelled, or none scored, it is 0 at threshold inf.

    Examples
    --------
    >>> best_f1([0, 0, 1, 1], [0.1, 0.4, 0.3, 0.8])
    BestF1(value=0.8, threshold=0.3)
    """
    return _best_f1(*labels_and_scores(labels, scores))


def best_f1_adjusted(labels: ArrayLike, scores: ArrayLike) -> BestF1:
    """Return the highest point-adjusted F1 over all thresholds, and the highest such threshold.

    An oracle, as `best_f1`, of a measure that flatters, as `adjusted_f1`.

    Examples
    --------
    >>> best_f1_adjusted([0, 0, 1, 1], [0.1, 0.4, 0.3, 0.8])
    BestF1(value=1.0, threshold=0.8)
    """
    truth, values = labels_and_scores(labels, scores)
    return _best_f1(truth, raise_to_event_maximum(truth, values))


def _best_f1(truth: Bools, values: Floats) -> BestF1:
    order = np.argsort(-values)
    descending = values[order]
    # Tied samples are predicted together: the candidates are the last samples of the ties.
    last_of_tie = np.append(descending[1:] != descending[:-1], True) & (descending > -np.inf)
    candidates = np.flatnonzero(last_of_tie)
    tp = np.cumsum(truth[order])[candidates]
    f1 = 2 * tp / (candidates + 1 + np.count_nonzero(truth))  # 2 tp / (predicted + labelled)
    best = int(np.argmax(f1)) if f1.any() else None
    if best is None:
        return BestF1(0.0, np.inf)
    return BestF1(float(f1[best]), float(descending[candidates[best]]))


def _counts_by_threshold(
    labels: ArrayLike, scores: ArrayLike, metric: str | None = None
) -> tuple[Floats, Floats]:
    """Return true and false positives at each distinct score as the threshold, falling.

    A missing score counts as the lowest: the last threshold takes it in as well. A `metric` needs
    both classes.
    """
    truth, values = labels_and_scores(labels, scores)
    if metric is not None:
        require_both_classes(truth, metric)
    order = np.argsort(-values, kind="stable")
    descending = values[order]
    last_of_tie = np.flatnonzero(np.append(descending[1:] != descending[:-1], True))
    hits = np.cumsum(truth[order], dtype=np.float64)[last_of_tie]
    return hits, last_of_tie + 1 - hits


def _average(hits: Floats, false: Floats) -> float:
    """Return the precision at each threshold, weighted by the hits gained there."""
    if hits[-1] == 0:
        return 0.0
    return float(np.sum(np.diff(_from_zero(hits)) * (hits / (hits + false))) / hits[-1])


def _from_zero(shares: Floats) -> Floats:
    return np.concatenate([[0.0], shares])


def _area(x: Floats, y: Floats) -> float:
    """Return the area below points in the order of x, by the trapezoidal rule."""
    return float(np.sum(np.diff(x) * (y[1:] + y[:-1])) / 2)
