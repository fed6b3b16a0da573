"""How good a detector is: pure functions of labels and scores, or of labels and predictions.

Labels and predictions are 0 or 1 a sample, scores point up (higher is more anomalous), and a sample
is predicted anomalous where ``score >= threshold``.

A sample without a score (NaN) is kept: it ranks below all others and is never anomalous. A ratio
with nothing to divide by is 0. A metric that needs both classes, or an event, raises `InputError`
where it has none; `report` gives NaN there. Numbers named ``best_…`` are oracles: their threshold
is chosen with the labels.
"""

from newnormal.lazy import lazy_names
from newnormal.metrics.alarms import AlarmCounts as AlarmCounts
from newnormal.metrics.alarms import AlarmTrace as AlarmTrace
from newnormal.metrics.alarms import count_alarms as count_alarms
from newnormal.metrics.alarms import trace_alarms as trace_alarms
from newnormal.metrics.evaluation import Evaluation as Evaluation
from newnormal.metrics.evaluation import evaluate as evaluate
from newnormal.metrics.point import Confusion as Confusion
from newnormal.metrics.point import accuracy as accuracy
from newnormal.metrics.point import adjusted_accuracy as adjusted_accuracy
from newnormal.metrics.point import adjusted_confusion as adjusted_confusion
from newnormal.metrics.point import adjusted_f1 as adjusted_f1
from newnormal.metrics.point import adjusted_precision as adjusted_precision
from newnormal.metrics.point import adjusted_recall as adjusted_recall
from newnormal.metrics.point import confusion as confusion
from newnormal.metrics.point import f1 as f1
from newnormal.metrics.point import point_adjust as point_adjust
from newnormal.metrics.point import precision as precision
from newnormal.metrics.point import recall as recall
from newnormal.metrics.range import Volumes as Volumes
from newnormal.metrics.range import affiliation_f1 as affiliation_f1
from newnormal.metrics.range import affiliation_precision as affiliation_precision
from newnormal.metrics.range import affiliation_recall as affiliation_recall
from newnormal.metrics.range import range_auc_pr as range_auc_pr
from newnormal.metrics.range import range_auc_roc as range_auc_roc
from newnormal.metrics.range import vus as vus
from newnormal.metrics.range import vus_pr as vus_pr
from newnormal.metrics.range import vus_roc as vus_roc
from newnormal.metrics.ranking import BestF1 as BestF1
from newnormal.metrics.ranking import auprc as auprc
from newnormal.metrics.ranking import auroc as auroc
from newnormal.metrics.ranking import average_precision as average_precision
from newnormal.metrics.ranking import best_f1 as best_f1
from newnormal.metrics.ranking import best_f1_adjusted as best_f1_adjusted
from newnormal.metrics.report import Report as Report
from newnormal.metrics.report import report as report
from newnormal.metrics.timing import DetectionDelay as DetectionDelay
from newnormal.metrics.timing import Period as Period
from newnormal.metrics.timing import detection_delay as detection_delay
from newnormal.metrics.timing import false_alarms as false_alarms
from newnormal.metrics.timing import false_alarms_per_day as false_alarms_per_day

__getattr__, __dir__ = lazy_names(__name__)
