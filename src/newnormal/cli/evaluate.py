"""`newnormal evaluate`: judge a labelled file and measure how well."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from newnormal.cli.console import print_facts, say
from newnormal.cli.options import (
    Classes,
    Columns,
    Drop,
    Format,
    Frozen,
    Input,
    Loading,
    Model,
    Rule,
    Time,
)
from newnormal.cli.reading import judge
from newnormal.errors import InputError

if TYPE_CHECKING:
    from newnormal.detector import BaseDetector
    from newnormal.types import Ints

__all__ = ["evaluate"]


def evaluate(
    model: Model,
    input: Input,  # noqa: A002
    label: Annotated[str, typer.Option(metavar="COLUMN", help="The column of 0/1 truth.")],
    frozen: Frozen = False,
    plot: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="FILE", help="Draw it: .png, .svg or .pdf."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    loading: Loading = None,
    rule: Rule = None,
    time: Time = None,
    columns: Columns = None,
    drop: Drop = None,
    format: Format = None,  # noqa: A002
) -> None:
    """Judge a labelled file and print every metric."""
    from newnormal import plots
    from newnormal.metrics import report

    if plot is not None:
        plots.check_target(plot)
    detector, verdicts, table = judge(
        model, Classes.of(loading, rule), input, frozen, label, time, columns, drop, format
    )
    if table.labels is None:
        raise InputError(f"{input}: expected labels, found none")
    # A threshold that moves is not one number: then the verdicts are what is measured.
    moves = bool((verdicts.thresholds != detector.threshold_).any())
    result = report(
        table.labels,
        verdicts.scores,
        None if moves else detector.threshold_,
        predictions=verdicts.anomalous if moves else None,
        period=detector.period_,
    )
    facts = result.as_dict()
    if verdicts.alarms is not None and not frozen:
        facts |= _openings(detector, table.labels, verdicts.first)
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
    else:
        print_facts(f"{input} judged by {model}", facts)
    if plot is not None:
        plots.save(plots.evaluation_figure(table, verdicts, table.labels), plot)
        say(f"wrote {plot}")


def _openings(detector: BaseDetector, labels: Ints, first: int) -> dict[str, float | None]:
    """Return the operator's table of the alarms and changes that a run reported."""
    import math

    from newnormal.metrics import trace_alarms
    from newnormal.metrics.timing import period_seconds
    from newnormal.verbs import EVENTS

    events = detector.take_events()
    if len(events) >= EVENTS:
        say(f"openings are left out: expected fewer than {EVENTS:,} events, found more")
        return {}
    day = 1440.0 if detector.period_ is None else 86_400 / period_seconds(detector.period_)
    counts = trace_alarms(events, len(labels), first=first).count(labels, samples_per_day=day)
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
