"""`newnormal evaluate`: judge a labelled file and measure how well."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Optional

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
    result = report(
        table.labels,
        verdicts.scores,
        detector.threshold_,
        period=detector.period_,
    )
    if as_json:
        typer.echo(json.dumps(result.as_dict(), indent=2))
    else:
        print_facts(f"{input} judged by {model}", result.as_dict())
    if plot is not None:
        plots.save(plots.evaluation_figure(table, verdicts, table.labels), plot)
        say(f"wrote {plot}")
