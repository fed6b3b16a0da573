"""How good a detector is: pure functions of labels and scores, or of labels and predictions.

Labels and predictions are 0 or 1 a sample, scores point up (higher is more anomalous), and a sample
is predicted anomalous where ``score >= threshold``.

A sample without a score (NaN) is kept: it ranks below all others and is never anomalous. A ratio
with nothing to divide by is 0. A metric that needs both classes, or an event, raises `InputError`
where it has none; `report` gives NaN there. Numbers named ``best_…`` are oracles: their threshold
is chosen with the labels.
"""

from newnormal.metrics.alarms import AlarmCounts, AlarmTrace, count_alarms, trace_alarms
from newnormal.metrics.evaluation import Evaluation, evaluate
from newnormal.metrics.point import (
    Confusion,
    accuracy,
    adjusted_accuracy,
    adjusted_confusion,
    adjusted_f1,
    adjusted_precision,
    adjusted_recall,
    confusion,
    f1,
    point_adjust,
    precision,
    recall,
)
from newnormal.metrics.range import (
    Volumes,
    affiliation_f1,
    affiliation_precision,
    affiliation_recall,
    range_auc_pr,
    range_auc_roc,
    vus,
    vus_pr,
    vus_roc,
)
from newnormal.metrics.ranking import (
    BestF1,
    auprc,
    auroc,
    average_precision,
    best_f1,
    best_f1_adjusted,
)
from newnormal.metrics.report import Report, report
from newnormal.metrics.timing import (
    DetectionDelay,
    Period,
    detection_delay,
    false_alarms,
    false_alarms_per_day,
)

__all__ = [
    "AlarmCounts",
    "AlarmTrace",
    "BestF1",
    "Confusion",
    "DetectionDelay",
    "Evaluation",
    "Period",
    "Report",
    "Volumes",
    "accuracy",
    "adjusted_accuracy",
    "adjusted_confusion",
    "adjusted_f1",
    "adjusted_precision",
    "adjusted_recall",
    "affiliation_f1",
    "affiliation_precision",
    "affiliation_recall",
    "auprc",
    "auroc",
    "average_precision",
    "best_f1",
    "best_f1_adjusted",
    "confusion",
    "count_alarms",
    "detection_delay",
    "evaluate",
    "f1",
    "false_alarms",
    "false_alarms_per_day",
    "point_adjust",
    "precision",
    "range_auc_pr",
    "range_auc_roc",
    "recall",
    "report",
    "trace_alarms",
    "vus",
    "vus_pr",
    "vus_roc",
]
