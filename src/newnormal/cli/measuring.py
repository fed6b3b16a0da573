"""The figures of a judged series: what is measured, and how it is shown."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import typer

from newnormal.cli.console import put
from newnormal.texts import number_text, share_text, shown

if TYPE_CHECKING:
    from newnormal.base import BaseDetector
    from newnormal.metrics import Evaluation
    from newnormal.tabular import Table
    from newnormal.types import Ints, Verdicts

_NAMES = {
    "f1": "F1",
    "auprc": "AUPRC",
    "auroc": "AUROC",
    "vus_pr": "VUS-PR",
    "vus_roc": "VUS-ROC",
    "best_f1": "best F1",
    "affiliation_f1": "affiliation F1",
    "f1_threshold": "at the threshold",
    "best_f1_threshold": "at the threshold",
    "tp": "true positives",
    "fp": "false positives",
    "fn": "false negatives",
    "tn": "true negatives",
}
_NAME, _CELL = 22, 43  # characters of a name, and of a name and its value


def measure(
    detector: BaseDetector,
    table: Table,
    labels: Ints,
    frozen: bool = False,
    on_samples: Callable[[int], None] | None = None,
) -> tuple[Evaluation, Verdicts]:
    """Judge a labelled series, and measure the verdicts and the alarms as they were reported."""
    from newnormal.core.history import median_period
    from newnormal.metrics import evaluate
    from newnormal.runtime.judging import judge_series

    verdicts, events = judge_series(detector, table, frozen=frozen, on_samples=on_samples)
    period = median_period(table.times) if table.times is not None else None
    period = detector.period_ if period is None else period
    return evaluate(labels, verdicts, events, period=period), verdicts


def print_summary(title: str, lines: list[str]) -> None:
    """Print what matters before any table."""
    put(f"{shown(title)}\n")
    for line in lines:
        put(line)


def print_groups(evaluation: Evaluation) -> None:
    """Print every figure of a series: of alarms, of samples, and the adjusted ones last."""
    from newnormal.metrics.alarms import AFTER, BEFORE

    facts, report = evaluation.as_dict(), evaluation.report
    verdicts, scores = facts["verdicts"], facts["scores"]
    first = ("precision", "recall", "f1")
    _group(
        "Alarms",
        f"each alarm and each reported change, once; true if it came from {BEFORE} samples\n"
        f"before an event to {AFTER} after it",
        _alarm_rows(evaluation),
    )
    _group(
        "Samples",
        f"each verdict against its label; {report.labelled:,} of {report.samples:,} are labelled",
        {name: verdicts[name] for name in first}
        | {name: scores[name] for name in ("auprc", "auroc")}
        | verdicts
        | scores,
    )
    _group(
        "Best fixed threshold",
        "one for all samples, chosen with the labels: a bound for thresholds that stay",
        facts["best"],
    )
    _group(
        "Point-adjusted",
        "one sample caught counts as the whole event, which flatters: only to compare\n"
        "with papers that report it",
        facts["point_adjusted"],
    )


def _group(title: str, about: str, rows: Mapping[str, Any]) -> None:
    """Print names and values in two columns, the first half at the left."""
    typer.echo(f"\n{typer.style(title, bold=True)}")
    for line in about.splitlines():
        typer.echo(typer.style(line, dim=True))
    cells = [
        f"{_NAMES.get(name, name.replace('_', ' ')):<{_NAME}}{_shown(value)}"
        for name, value in rows.items()
        if value is not None
    ]
    half = (len(cells) + 1) // 2
    for left, right in zip_longest(cells[:half], cells[half:], fillvalue=""):
        typer.echo(f"  {left:<{_CELL}}{right}".rstrip())


def _alarm_rows(evaluation: Evaluation) -> dict[str, str]:
    from newnormal.metrics.evaluation import delay_text

    counts = evaluation.alarms
    rows = {"events": f"{counts.events:,}", "found": f"{counts.found:,}"}
    for name in ("median", "mean", "longest") if counts.found else ():
        delay = getattr(counts, f"{name}_delay")
        samples, when = delay_text(delay, math.nan), delay_text(delay, evaluation.seconds)
        rows[f"{name} delay"] = when if when == samples else f"{when} ({samples})"
    return {
        **rows,
        "alarms": f"{counts.openings:,} ({counts.true:,} true)",
        "false": f"{counts.false:,}",
        "false a day": number_text(counts.false_per_day),
        "normal in alarm": f"{counts.in_alarm:,} ({share_text(counts.in_alarm_share)})",
        "normal pending": f"{counts.pending:,} ({share_text(counts.pending_share)})",
    }


def _shown(value: object) -> str:
    if isinstance(value, float):
        return number_text(value, digits=4)
    return f"{value:,}" if isinstance(value, int) else str(value)
