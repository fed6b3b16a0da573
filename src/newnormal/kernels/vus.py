"""Range-aware areas under the ROC and PR curves, for many buffer lengths at once."""

from __future__ import annotations

import numpy as np

from newnormal.kernels.compiled import compiled
from newnormal.types import Bools, Floats, Ints


@compiled
def range_aucs(
    labels: Bools, starts: Ints, stops: Ints, entry: Ints, windows: Ints, n_thresholds: int
) -> Floats:
    """Return the range-aware areas under the ROC and the PR curve, one row a window.

    Parameters
    ----------
    labels
        Which samples are anomalous; at least one is, and at least one is not.
    starts, stops
        The events: event e covers the samples from ``starts[e]`` up to, not including,
        ``stops[e]``.
    entry
        The first threshold, in descending order, at which each sample is predicted anomalous.
    windows
        Buffer lengths, ascending.
    n_thresholds
        How many thresholds there are; at the last one every sample is predicted.

    Returns
    -------
    areas
        Shape (len(windows), 2): ROC, PR.

    Notes
    -----
    A buffer of w gives a normal sample at distance d <= w//2 from an event the weight
    sqrt(1 - d/w), and weights of several events add up to at most 1. Every weight is at least
    sqrt(1/2), so a second event in reach always makes it 1: the two nearest events decide.

    O(T + windows · (thresholds + events + samples in reach of an event)).
    """
    n_samples, n_events = len(labels), len(starts)
    predicted = np.zeros(n_thresholds)
    caught = np.zeros(n_thresholds)
    for t in range(n_samples):
        predicted[entry[t]] += 1.0
        if labels[t]:
            caught[entry[t]] += 1.0
    predicted = np.cumsum(predicted)
    caught = np.cumsum(caught)

    nearest, second = _distances(labels, starts, stops)
    in_reach = np.flatnonzero(nearest <= windows[-1] // 2)

    # The first threshold at which each event, extended by `reach` on both sides, is touched.
    reach = 0
    touch = np.full(n_events, n_thresholds)
    for e in range(n_events):
        for t in range(starts[e], stops[e]):
            touch[e] = min(touch[e], entry[t])

    areas = np.empty((len(windows), 2))
    buffered = np.empty(n_thresholds)
    found = np.empty(n_thresholds)
    for row, window in enumerate(windows):
        half = window // 2
        while reach < half:
            reach += 1
            for e in range(n_events):
                before, after = starts[e] - reach, stops[e] - 1 + reach
                if before >= 0:
                    touch[e] = min(touch[e], entry[before])
                if after < n_samples:
                    touch[e] = min(touch[e], entry[after])
        _fill_buffered(buffered, window, in_reach, nearest, second, entry)
        _fill_found(found, half, starts, stops, touch)
        areas[row, 0], areas[row, 1] = _areas(predicted, caught, buffered, found, n_samples)
    return areas


@compiled
def _distances(labels: Bools, starts: Ints, stops: Ints) -> tuple[Ints, Ints]:
    """Return the distances of normal samples to the two nearest events; very far for the others."""
    n_samples, n_events = len(labels), len(starts)
    far = np.iinfo(np.int64).max
    nearest = np.full(n_samples, far)
    second = np.full(n_samples, far)
    following = 0  # the first event that starts after t
    for t in range(n_samples):
        if labels[t]:
            continue
        while following < n_events and starts[following] < t:
            following += 1
        # The two nearest are among the two events on either side.
        for e in range(max(following - 2, 0), min(following + 2, n_events)):
            d = starts[e] - t if starts[e] > t else t - (stops[e] - 1)
            if d < nearest[t]:
                nearest[t], second[t] = d, nearest[t]
            elif d < second[t]:
                second[t] = d
    return nearest, second


@compiled
def _fill_buffered(
    buffered: Floats, window: int, in_reach: Ints, nearest: Ints, second: Ints, entry: Ints
) -> None:
    """Sum the weights of the buffer samples that enter at each threshold."""
    half = window // 2
    weight = np.empty(half + 1)
    for d in range(1, half + 1):
        weight[d] = np.sqrt(1.0 - d / window)
    buffered[:] = 0.0
    for t in in_reach:
        if second[t] <= half:
            buffered[entry[t]] += 1.0
        elif nearest[t] <= half:
            buffered[entry[t]] += weight[nearest[t]]


@compiled
def _fill_found(found: Floats, half: int, starts: Ints, stops: Ints, touch: Ints) -> None:
    """Count the ranges first touched at each threshold: extended events, one where they overlap."""
    found[:] = 0.0
    first = touch[0]
    for e in range(1, len(touch)):
        if stops[e - 1] - 1 + half < starts[e] - half:
            found[first] += 1.0
            first = touch[e]
        else:
            first = min(first, touch[e])
    found[first] += 1.0


@compiled
def _areas(
    predicted: Floats, caught: Floats, buffered: Floats, found: Floats, n_samples: int
) -> tuple[float, float]:
    """Return the area under the ROC curve (trapezoids) and the PR curve (steps).

    `predicted` and `caught` hold counts up to each threshold, `buffered` and `found` what each
    threshold adds.
    """
    positives, n_ranges = caught[-1], found.sum()
    in_buffer = in_ranges = area_roc = area_pr = last_tpr = last_fpr = 0.0
    for k in range(len(predicted)):
        in_buffer += buffered[k]
        in_ranges += found[k]
        tp = caught[k] + in_buffer
        expected = positives + in_buffer / 2
        tpr = min(tp / expected, 1.0) * (in_ranges / n_ranges)
        fpr = (predicted[k] - tp) / (n_samples - expected)
        area_roc += (fpr - last_fpr) * (tpr + last_tpr) / 2
        area_pr += (tpr - last_tpr) * (tp / predicted[k])
        last_tpr, last_fpr = tpr, fpr
    area_roc += (1.0 - last_fpr) * (1.0 + last_tpr) / 2
    return area_roc, area_pr
