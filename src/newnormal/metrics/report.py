"""Every metric of one labelled series at once."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike

from newnormal.errors import ParameterError
from newnormal.metrics.inputs import decide, labels_and_predictions, labels_and_scores
from newnormal.metrics.point import Confusion, adjusted_confusion
from newnormal.metrics.range import (
    Volumes,
    affiliation_precision,
    affiliation_recall,
    harmonic_mean,
    vus,
)
from newnormal.metrics.ranking import auprc, auroc, average_precision, best_f1, best_f1_adjusted
from newnormal.metrics.timing import Period, detection_delay, false_alarms, period_seconds

_FIGURES = ("tp", "fp", "fn", "tn", "accuracy", "precision", "recall", "f1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Every metric of one labelled series; NaN where one is undefined or not requested.

    Attributes
    ----------
    samples, labelled, events
        How many samples there are, how many are labelled, and in how many events.
    threshold
        What the scores were compared with; NaN where it moved, and where predictions were given.
    tp, fp, fn, tn, accuracy, precision, recall, f1
        Sample by sample.
    adjusted_tp, adjusted_fp, adjusted_fn, adjusted_tn
        The counts after point adjustment.
    adjusted_accuracy, adjusted_precision, adjusted_recall, adjusted_f1
        The ratios after point adjustment, which flatters.
    auroc, auprc, average_precision, vus_roc, vus_pr
        Of the score, over all thresholds.
    affiliation_precision, affiliation_recall, affiliation_f1
        Of the predictions, by their distance from events.
    detected, missed
        How many events some prediction fell into, and how many none did.
    mean_delay, median_delay
        From the start of a detected event to the first prediction in it, in samples.
    mean_delay_seconds
        The same in seconds; NaN without a period.
    false_alarms, false_alarms_per_day
        Runs of predictions that touch no event; per day NaN without a period.
    best_f1, best_f1_threshold, best_f1_adjusted, best_f1_adjusted_threshold
        Oracles: the threshold is chosen with the labels.
    """

    samples: int
    labelled: int
    events: int
    threshold: float

    tp: int
    fp: int
    fn: int
    tn: int
    accuracy: float
    precision: float
    recall: float
    f1: float

    adjusted_tp: int
    adjusted_fp: int
    adjusted_fn: int
    adjusted_tn: int
    adjusted_accuracy: float
    adjusted_precision: float
    adjusted_recall: float
    adjusted_f1: float

    auroc: float
    auprc: float
    average_precision: float
    vus_roc: float
    vus_pr: float

    affiliation_precision: float
    affiliation_recall: float
    affiliation_f1: float

    detected: int
    missed: int
    mean_delay: float
    median_delay: float
    mean_delay_seconds: float
    false_alarms: int
    false_alarms_per_day: float

    best_f1: float
    best_f1_threshold: float
    best_f1_adjusted: float
    best_f1_adjusted_threshold: float

    def as_dict(self) -> dict[str, float | None]:
        """Return the fields as plain values ready for JSON, None where not finite."""
        return {name: value if np.isfinite(value) else None for name, value in asdict(self).items()}


def report(
    labels: ArrayLike,
    scores: ArrayLike,
    threshold: ArrayLike | None = None,
    *,
    predictions: ArrayLike | None = None,
    period: Period | None = None,
    window: int = 100,
) -> Report:
    """Compute every metric of one labelled series.

    Unlike the functions it calls, it does not refuse a series with only one class: what is
    undefined there is NaN, and the rest is computed.

    Parameters
    ----------
    labels
        1 for a labelled sample, 0 for a normal one; a run of 1s is an event.
    scores
        Higher is more anomalous; NaN where there is none.
    threshold
        Samples with ``score >= threshold`` are predicted anomalous: one number, or one a sample
        for a threshold that moved. Give this or `predictions`.
    predictions
        1 where the verdict is anomalous: what `run` decided, and exact where more than the
        threshold decides, as an accepted pattern does.
    period
        The time from one sample to the next, in seconds or as a timedelta.
    window
        The longest border zone of `vus_roc` and `vus_pr`, in samples.

    Examples
    --------
    >>> result = report([0, 0, 1, 1, 0, 0], [0.1, 0.7, 0.2, 0.9, 0.1, 0.3], threshold=0.6)
    >>> result.f1, result.adjusted_f1, result.false_alarms, result.mean_delay
    (0.5, 0.8, 1, 1.0)
    >>> round(result.best_f1, 2), result.best_f1_threshold  # oracle
    (0.67, 0.9)

    A threshold that moved, one a sample:

    >>> report([0, 0, 1, 1], [0.1, 0.7, 0.8, 0.9], [0.6, 0.9, 0.9, 0.6]).precision
    1.0
    """
    truth, values = labels_and_scores(labels, scores)
    if threshold is not None and predictions is None:
        predicted = decide(values, threshold)
    elif threshold is None and predictions is not None:
        _, predicted = labels_and_predictions(truth, predictions)
    else:
        passed = "neither" if threshold is None else "both"
        raise ParameterError(
            f"report needs either a threshold or predictions, found {passed}",
            hint="verdicts.anomalous are the predictions of a run",
        )

    any_event, both_classes = bool(truth.any()), bool(truth.any() and not truth.all())
    counts, adjusted = Confusion.of(truth, predicted), adjusted_confusion(truth, predicted)
    volumes = vus(truth, values, window=window) if both_classes else Volumes(np.nan, np.nan)
    nearness = affiliation_precision(truth, predicted) if any_event else np.nan
    coverage = affiliation_recall(truth, predicted) if any_event else np.nan
    delay = detection_delay(truth, predicted)
    alarms = false_alarms(truth, predicted)
    seconds = np.nan if period is None else period_seconds(period)
    oracle, oracle_adjusted = best_f1(truth, values), best_f1_adjusted(truth, values)

    return Report(
        samples=len(truth),
        labelled=counts.tp + counts.fn,
        events=delay.events,
        threshold=_one(threshold),
        **{name: getattr(counts, name) for name in _FIGURES},
        **{f"adjusted_{name}": getattr(adjusted, name) for name in _FIGURES},
        auroc=auroc(truth, values) if both_classes else np.nan,
        auprc=auprc(truth, values) if both_classes else np.nan,
        average_precision=average_precision(truth, values) if both_classes else np.nan,
        vus_roc=volumes.roc,
        vus_pr=volumes.pr,
        affiliation_precision=nearness,
        affiliation_recall=coverage,
        affiliation_f1=harmonic_mean(nearness, coverage),
        detected=delay.detected,
        missed=delay.missed,
        mean_delay=delay.mean,
        median_delay=delay.median,
        mean_delay_seconds=delay.mean * seconds,
        false_alarms=alarms,
        false_alarms_per_day=alarms / (len(truth) * seconds / 86_400),
        best_f1=oracle.value,
        best_f1_threshold=oracle.threshold,
        best_f1_adjusted=oracle_adjusted.value,
        best_f1_adjusted_threshold=oracle_adjusted.threshold,
    )


def _one(threshold: ArrayLike | None) -> float:
    """Return a threshold that is one number; NaN for one that moved, or none."""
    levels = np.unique(np.asarray(np.nan if threshold is None else threshold, dtype=np.float64))
    return float(levels[0]) if len(levels) == 1 else np.nan
