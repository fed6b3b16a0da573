"""How good a run was: its alarms first, then its samples, point-adjusted figures last."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from newnormal.config import SAMPLES_PER_DAY, duration_text
from newnormal.metrics.alarms import AlarmCounts, AlarmTrace, trace_alarms
from newnormal.metrics.report import Report, report
from newnormal.metrics.timing import Period, period_seconds
from newnormal.texts import number_text, share_text
from newnormal.types import Event, Verdicts

_DAY = 86_400


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What a labelled run was worth.

    Attributes
    ----------
    alarms
        The operator's table: events found, how late, false alarms, samples in alarm.
    trace
        Where the alarms and changes were, from which it was counted.
    report
        Every metric of the verdicts and of the scores.
    seconds
        From one sample to the next; NaN where that is not known, and a day has 1,440 samples.
    """

    alarms: AlarmCounts
    trace: AlarmTrace
    report: Report
    seconds: float

    def summary(self) -> list[str]:
        """Return three lines: events found and how late, false alarms a day, samples in alarm."""
        return summary(self.alarms, self.seconds)

    def as_dict(self) -> dict[str, Any]:
        """Return groups of plain numbers, None where one is undefined.

        ``alarms`` judges what was reported, ``verdicts`` each sample, ``scores`` the score over all
        thresholds, ``best`` a threshold chosen with the labels, ``point_adjusted`` the verdicts
        after point adjustment, which flatters.
        """
        metrics = self.report.as_dict()
        adjusted = {
            name.removeprefix("adjusted_"): value
            for name, value in metrics.items()
            if name.startswith("adjusted_")
        }
        return {
            "samples": self.report.samples,
            "labelled": self.report.labelled,
            "events": self.report.events,
            "period_seconds": _finite(self.seconds),
            "alarms": alarm_facts(self.alarms, self.seconds),
            "verdicts": {name: metrics[name] for name in _VERDICTS},
            "scores": {name: metrics[name] for name in _SCORES},
            "best": {"f1": metrics["best_f1"], "f1_threshold": metrics["best_f1_threshold"]},
            "point_adjusted": {
                **adjusted,
                "best_f1": metrics["best_f1_adjusted"],
                "best_f1_threshold": metrics["best_f1_adjusted_threshold"],
            },
        }


_VERDICTS = (
    "precision",
    "recall",
    "f1",
    "accuracy",
    "tp",
    "fp",
    "fn",
    "tn",
    "affiliation_precision",
    "affiliation_recall",
    "affiliation_f1",
)
_SCORES = ("auprc", "auroc", "average_precision", "vus_pr", "vus_roc")


def evaluate(
    labels: ArrayLike, verdicts: Verdicts, events: Iterable[Event], *, period: Period | None = None
) -> Evaluation:
    """Measure a labelled run by what it reported: its verdicts as they were made, and its alarms.

    Parameters
    ----------
    labels
        1 for a labelled sample, 0 for a normal one; a run of 1s is an event.
    verdicts
        Of the same samples. Their `anomalous` is graded, not the score against one threshold.
    events
        All events of that run, in order, from `take_events`.
    period
        The time from one sample to the next; None: a day is taken to have 1,440 samples.

    Examples
    --------
    >>> from newnormal import Detector
    >>> rng = np.random.default_rng(0)
    >>> history = np.sin(np.arange(600) / 9)[:, None] + rng.normal(0, 0.1, (600, 2))
    >>> live, labels = history[:230].copy(), np.zeros(230, dtype=int)
    >>> live[200:204] += 3
    >>> labels[200:204] = 1
    >>> detector = Detector().fit(history)
    >>> verdicts = detector.run(live)
    >>> result = evaluate(labels, verdicts, detector.take_events())
    >>> result.summary()[0]
    '1 of 1 event found, at its first sample'
    >>> result.as_dict()["alarms"]["false"]
    0
    """
    seconds = np.nan if period is None else period_seconds(period)
    result = report(labels, verdicts.scores, predictions=verdicts.anomalous, period=period)
    trace = trace_alarms(events, result.samples, first=verdicts.first)
    day = float(SAMPLES_PER_DAY) if period is None else _DAY / seconds
    return Evaluation(trace.count(labels, samples_per_day=day), trace, result, seconds)


def summary(counts: AlarmCounts, seconds: float) -> list[str]:
    """Return three lines: events found and how late, false alarms a day, samples in alarm.

    `seconds` are from one sample to the next; NaN: delays are in samples.

    >>> counts = AlarmCounts(4, 5, 3, 7200, 5.0, 72, 720, (2, 2, 12))
    >>> for line in summary(counts, 60.0):
    ...     print(line)
    3 of 4 events found; median delay 2m, longest 12m
    0.4 false alarms a day: 2 in 5 days of normal samples
    1 % of normal samples in alarm, 10 % with a change pending
    """
    return [_found(counts, seconds), _false(counts, seconds), _open(counts)]


def alarm_facts(counts: AlarmCounts, seconds: float) -> dict[str, float | None]:
    """Return the operator's table as plain numbers, None where one is undefined.

    ``opened`` are alarms and reported changes; ``true`` those that found an event. Shares are of
    the normal samples.
    """
    return {
        "events": counts.events,
        "found": counts.found,
        "missed": counts.events - counts.found,
        "median_delay": _finite(counts.median_delay),
        "mean_delay": _finite(counts.mean_delay),
        "longest_delay": _finite(counts.longest_delay),
        "median_delay_seconds": _finite(counts.median_delay * seconds),
        "mean_delay_seconds": _finite(counts.mean_delay * seconds),
        "longest_delay_seconds": _finite(counts.longest_delay * seconds),
        "opened": counts.openings,
        "true": counts.true,
        "false": counts.false,
        "false_per_day": counts.false_per_day,
        "normal_samples": counts.normal,
        "normal_days": counts.days,
        "in_alarm": counts.in_alarm,
        "in_alarm_share": counts.in_alarm_share,
        "pending": counts.pending,
        "pending_share": counts.pending_share,
    }


def delay_text(samples: float, seconds: float) -> str:
    """Return a delay as time, or in samples where the time between them is not known.

    >>> delay_text(3.0, 60.0), delay_text(1.0, float("nan")), delay_text(2.5, float("nan"))
    ('3m', '1 sample', '2.5 samples')
    """
    if math.isnan(seconds):
        return f"{round(samples, 1):g} sample{'' if samples == 1 else 's'}"
    whole = round(samples * seconds) if samples * seconds >= 10 else samples * seconds
    return duration_text(np.timedelta64(round(whole * 1000), "ms")) or "0s"


def _found(counts: AlarmCounts, seconds: float) -> str:
    if not counts.events:
        return "no event is labelled: there was nothing to find"
    text = f"{counts.found} of {counts.events} event{'' if counts.events == 1 else 's'} found"
    if not counts.found:
        return text
    if not counts.longest_delay:
        return f"{text}, at {'its' if counts.found == 1 else 'their'} first sample"
    longest = delay_text(counts.longest_delay, seconds)
    if counts.found == 1:
        return f"{text}, {longest} after it began"
    median = delay_text(counts.median_delay, seconds) if counts.median_delay else "none"
    return f"{text}; median delay {median}, longest {longest}"


def _false(counts: AlarmCounts, seconds: float) -> str:
    assumed = f" of {SAMPLES_PER_DAY:,} samples" if math.isnan(seconds) else ""
    days = f"{number_text(counts.days)} day{'' if counts.days == 1 else 's'}"
    if not counts.false:
        return f"no false alarm in {days} of normal samples"
    rate = f"{number_text(counts.false_per_day, digits=2)} false alarms a day{assumed}"
    return f"{rate}: {counts.false} in {days} of normal samples"


def _open(counts: AlarmCounts) -> str:
    text = f"{share_text(counts.in_alarm_share)} of normal samples in alarm"
    return f"{text}, {share_text(counts.pending_share)} with a change pending"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
