"""What the metrics take, checked in one place, flags as events, and what a missing score means.

**The policy for samples without a score.** A detector gives NaN where it has no verdict. Such a
sample is never dropped, so that the counts always cover every sample: its score counts as -inf, it
ranks below every scored sample, and it is never anomalous, whatever the threshold.
"""

from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from newnormal.errors import InputError, ParameterError
from newnormal.types import Bools, Floats, Ints

_Scalar = TypeVar("_Scalar", np.bool_, np.float64)


def runs(flags: Bools) -> tuple[Ints, Ints]:
    """Return where each run of set flags starts, and the sample after its last one.

    >>> starts, stops = runs(np.array([True, True, False, True]))
    >>> starts.tolist(), stops.tolist()
    ([0, 3], [2, 4])
    """
    edges = np.diff(flags.astype(np.int8), prepend=0, append=0)
    return np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)


def raise_to_event_maximum(truth: Bools, values: NDArray[_Scalar]) -> NDArray[_Scalar]:
    """Return the values with every labelled sample given the largest one of its event.

    On predictions this is point adjustment. On scores, thresholding the result is thresholding
    first and adjusting afterwards, for all thresholds at once.
    """
    adjusted = values.copy()
    starts, stops = runs(truth)
    if starts.size:
        lengths = stops - starts
        peaks = np.maximum.reduceat(values[truth], np.cumsum(lengths) - lengths)
        adjusted[truth] = np.repeat(peaks, lengths)
    return adjusted


def labels_and_predictions(labels: ArrayLike, predictions: ArrayLike) -> tuple[Bools, Bools]:
    """Return both as flags of equal length, or raise `InputError`."""
    truth, predicted = _flags(labels, "labels"), _flags(predictions, "predictions")
    _require_equal_length(truth, predicted, "predictions")
    return truth, predicted


def labels_and_scores(labels: ArrayLike, scores: ArrayLike) -> tuple[Bools, Floats]:
    """Return labels as flags and scores with -inf for NaN, or raise `InputError`."""
    truth, values = _flags(labels, "labels"), _one_dimensional(scores, "scores")
    if values.dtype.kind not in "biufO":
        raise InputError(f"scores must be numbers, found {values.dtype}")
    _require_equal_length(truth, values, "scores")
    numbers = _as_numbers(values, "scores")
    return truth, np.where(np.isnan(numbers), -np.inf, numbers)


def decide(scores: Floats, threshold: ArrayLike) -> Bools:
    """Return which samples are anomalous: ``score >= threshold``, and never without a score.

    One threshold for all samples, or one for each.
    """
    bars = np.asarray(threshold)
    if bars.dtype.kind not in "biuf":
        raise ParameterError(f"threshold must be a number, or one a sample, found {bars.dtype}")
    if bars.ndim and bars.shape != scores.shape:
        raise InputError(
            f"threshold must be one number, or one for each of the {len(scores)} samples, "
            f"found shape {bars.shape}",
            hint="verdicts.thresholds are those of a run: pass the rows of the same samples",
        )
    scored = scores > -np.inf
    unknown = np.flatnonzero(np.isnan(bars) & scored if bars.ndim else np.isnan(bars))
    if unknown.size:
        where = f" at sample {unknown[0]}, which has a score" if bars.ndim else ""
        raise ParameterError(f"threshold must be a number, found NaN{where}")
    return np.asarray((scores >= bars) & scored)


def require_both_classes(truth: Bools, metric: str) -> None:
    """Raise `InputError` unless there are both anomalous and normal samples."""
    if not truth.any() or truth.all():
        only = "anomalous" if truth.any() else "normal"
        raise InputError(
            f"{metric} needs normal and anomalous samples, found only {only} ones",
            hint="it is undefined here; `report` gives NaN for it and computes the rest",
        )


def _flags(values: ArrayLike, name: str) -> Bools:
    array = _one_dimensional(values, name)
    if array.dtype == np.bool_:
        return array
    if array.dtype.kind not in "iufO":
        raise InputError(f"{name} must be 0 or 1, found {array.dtype}")
    numbers = _as_numbers(array, name)
    wrong = np.flatnonzero((numbers != 0) & (numbers != 1))  # NaN is neither
    if wrong.size:
        first = numbers[wrong[0]]
        raise InputError(
            f"{name} must be 0 or 1, found {first:g} at sample {wrong[0]}",
            hint=f"drop the samples without one from {name} and scores alike"
            if np.isnan(first)
            else f"1 marks an anomalous sample; for another code compare first: {name} == code",
        )
    return np.equal(numbers, 1)


def _one_dimensional(values: ArrayLike, name: str) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim != 1:
        raise InputError(
            f"{name} must have one value a sample, found shape {array.shape}",
            hint="score one series at a time, and .ravel() a single column",
        )
    if array.size == 0:
        raise InputError(f"{name} must hold at least one sample, found none")
    return array


def _as_numbers(array: NDArray[Any], name: str) -> Floats:
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be numbers, found {error}") from error


def _require_equal_length(truth: Bools, other: NDArray[Any], name: str) -> None:
    if len(truth) != len(other):
        raise InputError(
            f"labels and {name} must cover the same samples, found {len(truth)} and {len(other)}",
            hint="`run` gives one row a sample: pass the labels of the same rows",
        )
