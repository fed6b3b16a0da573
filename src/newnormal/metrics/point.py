"""Metrics that count samples one by one, as predicted or with point adjustment.

Point adjustment, by which one sample caught counts as the whole event caught, is the convention of
Xu et al. (2018), "Unsupervised Anomaly Detection via Variational Auto-Encoder for Seasonal KPIs in
Web Applications", and of much of the literature since. It flatters: where events are long, alarms
at random score high (Kim et al. 2022, "Towards a Rigorous Evaluation of Time-series Anomaly
Detection"). Give it beside the plain metrics, never instead of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import ArrayLike

from newnormal.metrics.inputs import labels_and_predictions, raise_to_event_maximum
from newnormal.types import Bools


@dataclass(frozen=True, slots=True)
class Confusion:
    """How many samples were predicted right and wrong, and the ratios made of these counts.

    A ratio with nothing to divide by is 0: precision where nothing was predicted, recall where
    nothing was labelled, F1 where neither was.

    Attributes
    ----------
    tp
        Labelled and predicted.
    fp
        Predicted but not labelled.
    fn
        Labelled but not predicted.
    tn
        Neither.

    Examples
    --------
    >>> counts = Confusion(tp=3, fp=1, fn=0, tn=6)
    >>> counts.precision, counts.recall
    (0.75, 1.0)
    """

    tp: int
    fp: int
    fn: int
    tn: int

    @classmethod
    def of(cls, truth: Bools, predicted: Bools) -> Confusion:
        """Count flags of equal length."""
        labelled, flagged = int(truth.sum()), int(predicted.sum())
        tp = int((truth & predicted).sum())
        return cls(
            tp=tp, fp=flagged - tp, fn=labelled - tp, tn=truth.size - labelled - flagged + tp
        )

    @property
    def accuracy(self) -> float:
        """The share of samples predicted right."""
        return _ratio(self.tp + self.tn, self.tp + self.fp + self.fn + self.tn)

    @property
    def precision(self) -> float:
        """The share of predicted samples that are labelled."""
        return _ratio(self.tp, self.tp + self.fp)

    @property
    def recall(self) -> float:
        """The share of labelled samples that are predicted."""
        return _ratio(self.tp, self.tp + self.fn)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return _ratio(2 * self.tp, 2 * self.tp + self.fp + self.fn)


def confusion(labels: ArrayLike, predictions: ArrayLike) -> Confusion:
    """Count true and false positives and negatives, sample by sample.

    Examples
    --------
    >>> confusion([0, 1, 1, 0], [0, 1, 0, 1])
    Confusion(tp=1, fp=1, fn=1, tn=1)
    """
    return Confusion.of(*labels_and_predictions(labels, predictions))


def accuracy(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Return the share of samples predicted right.

    Anomalies are rare, so a detector that never alarms has a high one; prefer `f1`.

    Examples
    --------
    >>> accuracy([0, 0, 0, 1], [0, 0, 0, 0])
    0.75
    """
    return confusion(labels, predictions).accuracy


def precision(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Return the share of predicted samples that are labelled; 0 where nothing is predicted.

    Examples
    --------
    >>> precision([0, 1, 1, 0], [0, 1, 0, 1])
    0.5
    """
    return confusion(labels, predictions).precision


def recall(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Return the share of labelled samples that are predicted; 0 where nothing is labelled.

    Examples
    --------
    >>> recall([0, 1, 1, 0], [0, 1, 0, 1])
    0.5
    """
    return confusion(labels, predictions).recall


def f1(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Return the harmonic mean of precision and recall; 0 where nothing is labelled or predicted.

    A long event counts as many times as it has samples, and one caught a sample late is not
    caught whole; see `affiliation_f1` for a measure by events.

    Examples
    --------
    >>> f1([0, 1, 1, 0], [0, 1, 1, 1])
    0.8
    """
    return confusion(labels, predictions).f1


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


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
