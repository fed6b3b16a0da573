"""`newnormal evaluate`: judge a labelled file and measure how well."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from newnormal.cli.bars import progress
from newnormal.cli.console import print_table, put, put_json, say
from newnormal.cli.options import (
    Classes,
    Frozen,
    Input,
    InputOptions,
    Model,
    is_fleet,
    option,
    with_shared,
)
from newnormal.cli.reading import back_to_fit, exit_if_failed, fleet_back_to_fit, read_for
from newnormal.errors import InputError, ParameterError
from newnormal.texts import number_text, share_text, shown

if TYPE_CHECKING:
    from newnormal.base import BaseDetector
    from newnormal.fleet import Fleet
    from newnormal.metrics import Evaluation
    from newnormal.tabular import StreamTables, Table
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
_ROWS = 20  # streams in the table
_NAMED = 3  # worst streams in the summary
_SUMS = ("samples", "labelled", "events")
_COLUMNS = ("events", "found", "delay", "false", "false a day", "in alarm", "pending", "F1")


@with_shared
def evaluate(
    model: Model,
    input: Input,  # noqa: A002
    frozen: Frozen = False,
    plot: Path | None = option("Draw it: .png, .svg or .pdf.", metavar="FILE"),
    as_json: bool = option("Print JSON instead of a table.", "--json", default=False),
    *,
    classes: Classes,
    options: InputOptions,
) -> None:
    """Judge a labelled file and measure how well: alarms first, then samples.

    newnormal evaluate plant.nn labelled.csv --label fault --plot fault.png

    newnormal evaluate plant.fleet metrics.csv --by host --label fault

    The verdicts are graded as they were made: by the threshold as it moved, and with what was
    accepted as normal meanwhile. --json prints groups of numbers: alarms, verdicts, scores, best
    (a threshold chosen with the labels) and point_adjusted.
    """
    import newnormal
    from newnormal import plots

    many = is_fleet(model)
    if many and plot is not None:
        raise ParameterError(
            "--plot: expected a detector of one stream, found a fleet",
            hint=f"newnormal fleet extract {model} STREAM -o STREAM.nn",
        )
    if plot is not None:
        plots.check_target(plot, [model, input])
    judge, data = read_for(model, classes, input, options, labels=True)
    if many:
        fleet = judge if frozen else fleet_back_to_fit(model, judge, data)
        _evaluate_fleet(fleet, data, f"{input} judged by {model}", frozen, as_json)
        exit_if_failed(data)
        return
    if data.labels is None:
        raise InputError(f"{input}: expected labels, found none")
    back_to_fit(model, judge, data, frozen)
    with progress("judging", len(data.values)) as on_samples:
        evaluation, verdicts = measure(judge, data, data.labels, frozen, on_samples)
    if as_json:
        put_json(evaluation.as_dict())
    else:
        _print_summary(f"{input} judged by {model}", evaluation.summary())
        _print_groups(evaluation)
    if plot is not None:
        name = "standard input" if input == "-" else Path(input).name
        figure = newnormal.plot(verdicts, name=name, labels=data.labels, evaluation=evaluation)
        plots.save(figure, plot)
        say(f"wrote {plot}")


def _evaluate_fleet(
    fleet: Fleet, tables: StreamTables, title: str, frozen: bool, as_json: bool
) -> None:
    """Judge labelled streams, each by its own detector, and print what was measured.

    As JSON: ``streams``, each as for one stream, and ``total``, the same groups: counts are summed
    and ratios made of the sums; what has no counts, as the areas under curves, is a mean over the
    streams that have it.
    """
    evaluations: dict[str, Evaluation] = {}
    samples = sum(len(table.values) for table in tables.tables.values())
    before = 0
    with progress("judging", samples) as on_samples:
        for name, table in tables.tables.items():
            if table.labels is None:
                raise InputError(f"stream {name!r}: expected labels, found none")
            evaluations[name], _ = measure(fleet[name], table, table.labels, frozen)
            before += len(table.values)
            if on_samples is not None:
                on_samples(before)
    if as_json:
        streams = {name: evaluation.as_dict() for name, evaluation in evaluations.items()}
        put_json({"streams": streams, "total": _total(evaluations)})
        return
    _print(title, evaluations)


def _print(title: str, evaluations: dict[str, Evaluation]) -> None:
    from newnormal.metrics import AlarmCounts
    from newnormal.metrics.evaluation import summary

    counts, seconds = (
        AlarmCounts.pooled(evaluation.alarms for evaluation in evaluations.values()),
        _seconds(evaluations),
    )
    worst = sorted(evaluations, key=lambda name: _badness(evaluations[name]), reverse=True)
    _print_summary(title, summary(counts, seconds))
    named = [name for name in worst if _why(evaluations[name])][:_NAMED]
    if named:
        texts = [f"{name} ({_why(evaluations[name])})" for name in named]
        put(f"worst streams: {', '.join(texts)}")
    rows = {
        name: _row(evaluations[name].alarms, seconds, evaluations[name].report.f1) for name in worst
    }
    first = dict(list(rows.items())[:_ROWS])
    first[f"all {len(evaluations)}"] = _row(counts, seconds, _total(evaluations)["verdicts"]["f1"])
    left = len(rows) - _ROWS
    put("")
    heading = "Streams, the worst first" + (f"; {left:,} more in --json" if left > 0 else "")
    print_table(heading, "stream", _COLUMNS, first)


def _badness(evaluation: Evaluation) -> tuple[int, int, int]:
    counts = evaluation.alarms
    return counts.events - counts.found, counts.false, counts.in_alarm


def _why(evaluation: Evaluation) -> str:
    """Return what is wrong with a stream, empty if nothing is."""
    missed, false, _ = _badness(evaluation)
    return ", ".join([f"{missed} missed"] * bool(missed) + [f"{false} false"] * bool(false))


def _row(counts: Any, seconds: float, f1: float | None) -> dict[str, Any]:
    from newnormal.metrics.evaluation import delay_text

    return {
        "events": counts.events,
        "found": counts.found,
        "delay": delay_text(counts.median_delay, seconds) if counts.found else None,
        "false": counts.false,
        "false a day": number_text(counts.false_per_day, digits=2),
        "in alarm": share_text(counts.in_alarm_share),
        "pending": share_text(counts.pending_share),
        "F1": None if f1 is None else f"{f1:.2f}",
    }


def _seconds(evaluations: dict[str, Evaluation]) -> float:
    """Return the time between samples, where all streams have the same; else NaN."""
    (first, *others) = {evaluation.seconds for evaluation in evaluations.values()} or {math.nan}
    return math.nan if others else first


def _total(evaluations: dict[str, Evaluation]) -> dict[str, Any]:
    from newnormal.metrics import AlarmCounts, Confusion
    from newnormal.metrics.evaluation import alarm_facts

    every = [facts.as_dict() for facts in evaluations.values()]
    counts = AlarmCounts.pooled(facts.alarms for facts in evaluations.values())
    seconds = _seconds(evaluations)
    total: dict[str, Any] = {name: sum(facts[name] for facts in every) for name in _SUMS}
    total["period_seconds"] = None if math.isnan(seconds) else seconds
    total["alarms"] = alarm_facts(counts, seconds)
    for group in ("verdicts", "scores", "best", "point_adjusted"):
        total[group] = _means([facts[group] for facts in every])
        if "tp" in every[0][group]:
            names = ("tp", "fp", "fn", "tn")
            summed = Confusion(*(sum(facts[group][name] for facts in every) for name in names))
            figures = (*names, "accuracy", "precision", "recall", "f1")
            total[group] |= {name: getattr(summed, name) for name in figures}
    return total


def _means(groups: list[dict[str, float | None]]) -> dict[str, float | None]:
    means: dict[str, float | None] = {}
    for name in groups[0]:
        values = [value for group in groups if (value := group[name]) is not None]
        means[name] = sum(values) / len(values) if values else None
    return means


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


def _print_summary(title: str, lines: list[str]) -> None:
    put(f"{shown(title)}\n")
    for line in lines:
        put(line)


def _print_groups(evaluation: Evaluation) -> None:
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
