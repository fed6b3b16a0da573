"""The slow, obvious twins of the metrics: loops over samples, thresholds and windows."""

import math
from itertools import pairwise

import numpy as np

from newnormal.types import Bools, Floats

Spans = list[tuple[int, int]]


def spans(flags: Bools) -> Spans:
    """Runs of set flags as (first, last)."""
    found: Spans = []
    for t, flag in enumerate(flags):
        if flag and (t == 0 or not flags[t - 1]):
            found.append((t, t))
        elif flag:
            found[-1] = (found[-1][0], t)
    return found


def point_adjust(labels: Bools, predictions: Bools) -> Bools:
    adjusted = predictions.copy()
    for first, last in spans(labels):
        if predictions[first : last + 1].any():
            adjusted[first : last + 1] = True
    return adjusted


def auroc(labels: Bools, scores: Floats) -> float:
    """The chance that an anomalous sample scores above a normal one, pair by pair."""
    bad, good = scores[labels][:, None], scores[~labels][None]
    return float(((bad > good) + 0.5 * (bad == good)).mean())


def f1(labels: Bools, predictions: Bools) -> float:
    tp = sum(labels & predictions)
    wrong = sum(labels != predictions)
    return float(2 * tp / (2 * tp + wrong)) if tp else 0.0


def range_aucs(labels: Bools, scores: Floats, window: int, thresholds: int) -> tuple[float, float]:
    """Areas under the range-aware ROC and PR curve for one buffer length."""
    n = len(labels)
    half = window // 2
    events = spans(labels)

    weights = labels.astype(float)
    for first, last in events:
        for t in range(n):
            distance = max(first - t, t - last)
            if 0 < distance <= half:
                weights[t] += math.sqrt(1 - distance / window)
    weights = np.minimum(weights, 1)

    ranges: Spans = []
    for first, last in events:
        if ranges and ranges[-1][1] >= first - half:
            ranges[-1] = (ranges[-1][0], last + half)
        else:
            ranges.append((first - half, last + half))

    descending = sorted(scores, reverse=True)
    tpr, fpr, precision = [0.0], [0.0], [1.0]
    for k in np.linspace(0, n - 1, thresholds).astype(int):
        predicted = scores >= descending[k]
        tp = weights[predicted].sum()
        positives = labels.sum() + weights[predicted & ~labels].sum() / 2
        touched = [predicted[max(first, 0) : last + 1].any() for first, last in ranges]
        tpr.append(min(tp / positives, 1) * sum(touched) / len(ranges))
        fpr.append((predicted.sum() - tp) / (n - positives))
        precision.append(tp / predicted.sum())
    pr = sum((tpr[i] - tpr[i - 1]) * precision[i] for i in range(1, len(precision)))
    tpr, fpr = [*tpr, 1.0], [*fpr, 1.0]
    roc = sum((fpr[i] - fpr[i - 1]) * (tpr[i] + tpr[i - 1]) / 2 for i in range(1, len(tpr)))
    return roc, pr


def affiliation(labels: Bools, predictions: Bools, cells: int = 8) -> tuple[float, float]:
    """Affiliation precision and recall, by counting the points of a grid that are farther away.

    Every sample is cut into `cells` points; the answer converges to the integral's as they grow.
    """
    n = len(labels)
    events = [(first, last + 1) for first, last in spans(labels)]
    borders = [0.0, *((a[1] + b[0]) / 2 for a, b in pairwise(events)), n]
    grid = (np.arange(n * cells) + 0.5) / cells
    precisions, recalls = [], []
    for (start, stop), (left, right) in zip(events, pairwise(borders), strict=True):
        zone = grid[(left < grid) & (grid < right)]
        inside = zone[(start <= zone) & (zone < stop)]
        predicted = zone[predictions[zone.astype(int)]]
        if not predicted.size:
            recalls.append(0.0)
            continue
        from_event = np.maximum(0, np.maximum(start - zone, zone - stop))
        worth = [
            np.mean(from_event > max(0, start - x, x - stop)) if not start <= x < stop else 1
            for x in predicted
        ]
        precisions.append(np.mean(worth))
        worth = [np.mean(abs(zone - y) >= abs(predicted - y).min()) for y in inside]
        recalls.append(np.mean(worth))
    return float(np.mean(precisions)) if precisions else 0.0, float(np.mean(recalls))


def alarm_counts(
    labels: Bools, openings: list[int], in_alarm: Bools, pending: Bools
) -> dict[str, object]:
    """The operator's table, event by event and opening by opening."""
    events = spans(labels)
    delays = []
    for first, last in events:
        if finding := [at for at in openings if first - 5 <= at <= last + 10]:
            delays.append(max(min(finding) - first, 0))
    true = 0
    for at in openings:
        true += any(first - 5 <= at <= last + 10 for first, last in events)
    normal = [t for t, label in enumerate(labels) if not label]
    return {
        "events": len(events),
        "openings": len(openings),
        "true": true,
        "normal": len(normal),
        "in_alarm": sum(bool(in_alarm[t]) for t in normal),
        "pending": sum(bool(pending[t]) for t in normal),
        "delays": tuple(delays),
    }
