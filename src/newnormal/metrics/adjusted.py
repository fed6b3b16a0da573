"""Point adjustment: one sample caught counts as the whole event caught.

The convention of Xu et al. (2018), "Unsupervised Anomaly Detection via Variational Auto-Encoder for
Seasonal KPIs in Web Applications", and of much of the literature since. It flatters: where events
are long, alarms at random score high (Kim et al. 2022, "Towards a Rigorous Evaluation of
Time-series Anomaly Detection"). Give it beside the plain metrics, never instead of them.
"""

from __future__ import annotations

from numpy.typing import ArrayLike

from newnormal.metrics.inputs import labels_and_predictions, raise_to_event_maximum
from newnormal.metrics.point import Confusion
from newnormal.types import Bools


def point_adjust(labels: ArrayLike, predictions: ArrayLike) -> Bools:
    """Return the predictions with every event of which a sample was predicted filled in.

    Predictions outside events stay as they are.

    Examples
    --------
    >>> point_adjust([1, 1, 0, 0, 1, 1], [0, 1, 0, 1, 0, 0]).astype(int).tolist()
    [1, 1, 0, 1, 0, 0]
    """
    truth, predicted = labels_and_predictions(labels, predictions)
    return raise_to_event_maximum(truth, predicted)


def adjusted_confusion(labels: ArrayLike, predictions: ArrayLike) -> Confusion:
    """Count true and false positives and negatives after point adjustment.

    Examples
    --------
    >>> adjusted_confusion([1, 1, 0, 0, 1, 1], [0, 1, 0, 1, 0, 0])
    Confusion(tp=2, fp=1, fn=2, tn=1)
    """
    truth, predicted = labels_and_predictions(labels, predictions)
    return Confusion.of(truth, raise_to_event_maximum(truth, predicted))


def adjusted_accuracy(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Return `accuracy` after point adjustment.

    Examples
    --------
    >>> adjusted_accuracy([1, 1, 0, 0], [0, 1, 0, 1])
    0.75
    """
    return adjusted_confusion(labels, predictions).accuracy


def adjusted_precision(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Return `precision` after point adjustment; it grows with the length of the events caught.

    Examples
    --------
    >>> adjusted_precision([1, 1, 1, 0], [0, 1, 0, 1])
    0.75
    """
    return adjusted_confusion(labels, predictions).precision


def adjusted_recall(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Return `recall` after point adjustment: the labelled samples of the events caught.

    Examples
    --------
    >>> adjusted_recall([1, 1, 1, 0], [0, 1, 0, 1])
    1.0
    """
    return adjusted_confusion(labels, predictions).recall


def adjusted_f1(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Return `f1` after point adjustment (F1-PA in the literature); never below `f1`.

    Examples
    --------
    >>> adjusted_f1([1, 1, 0, 0], [0, 1, 0, 0])
    1.0
    """
    return adjusted_confusion(labels, predictions).f1
