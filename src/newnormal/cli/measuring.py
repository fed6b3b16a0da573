"""The metrics of a judged series: of its verdicts, and of the alarms that a run reported."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from newnormal.cli.console import say

if TYPE_CHECKING:
    from newnormal.detector import BaseDetector
    from newnormal.metrics import AlarmCounts, Report
    from newnormal.types import Ints, Verdicts

__all__ = ["Measured", "measure", "openings"]


class Measured(NamedTuple):
    """Metrics of one series; the second are None where alarms were not tracked."""

    report: Report
    counts: AlarmCounts | None

    def as_dict(self) -> dict[str, float | None]:
        """Return them as plain values, None where not finite."""
        facts = self.report.as_dict()
        return facts if self.counts is None else facts | openings(self.counts)


def measure(
    detector: BaseDetector, verdicts: Verdicts, labels: Ints, frozen: bool = False
) -> Measured:
    """Measure the verdicts of a series, and the events of its detector."""
    from newnormal.metrics import report

    # A threshold that moves is not one number: then the verdicts are what is measured.
    moves = bool((verdicts.thresholds != detector.threshold_).any())
    result = report(
        labels,
        verdicts.scores,
        None if moves else detector.threshold_,
        predictions=verdicts.anomalous if moves else None,
        period=detector.period_,
    )
    tracked = verdicts.alarms is not None and not frozen
    return Measured(result, _counts(detector, labels, verdicts.first) if tracked else None)


def _counts(detector: BaseDetector, labels: Ints, first: int) -> AlarmCounts | None:
    from newnormal.metrics import trace_alarms
    from newnormal.metrics.timing import period_seconds
    from newnormal.verbs import EVENTS

    events = detector.take_events()
    if len(events) >= EVENTS:
        say(f"openings are left out: expected fewer than {EVENTS:,} events, found more")
        return None
    day = 1440.0 if detector.period_ is None else 86_400 / period_seconds(detector.period_)
    return trace_alarms(events, len(labels), first=first).count(labels, samples_per_day=day)


def openings(counts: AlarmCounts) -> dict[str, float | None]:
    """Return the operator's table of the alarms and changes that a run reported."""
    delay = counts.mean_delay
    return {
        "openings": counts.openings,
        "openings_true": counts.true,
        "openings_false": counts.false,
        "openings_false_per_day": counts.false_per_day,
        "events_found": counts.found,
        "mean_opening_delay": None if math.isnan(delay) else delay,
        "normal_in_alarm": counts.in_alarm_share,
        "normal_pending": counts.pending_share,
    }
