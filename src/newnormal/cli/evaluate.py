"""`newnormal evaluate`: judge a labelled file and measure how well."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Optional

import typer

from newnormal.cli.console import print_facts, say
from newnormal.cli.fleet_reading import exit_if_failed, fleet_tables, load_fleet
from newnormal.cli.measuring import measure
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
from newnormal.cli.streams import (
    By,
    LongLines,
    Streams,
    Tag,
    Value,
    check_one_stream,
    check_streams,
    is_fleet,
)
from newnormal.errors import InputError, ParameterError

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
    by: By = None,
    long: LongLines = False,
    tag: Tag = None,
    value: Value = None,
    loading: Loading = None,
    rule: Rule = None,
    time: Time = None,
    columns: Columns = None,
    drop: Drop = None,
    format: Format = None,  # noqa: A002
) -> None:
    """Judge a labelled file and print every metric.

    newnormal evaluate plant.fleet metrics.csv --by host --label fault
    """
    from newnormal import plots

    classes = Classes.of(loading, rule)
    streams = Streams.of(by, long, tag, value)
    if is_fleet(model):
        from newnormal.cli.fleet_evaluate import evaluate_fleet

        check_streams(model, streams, input)
        if plot is not None:
            raise ParameterError(
                "--plot: expected a detector of one stream, found a fleet",
                hint=f"newnormal fleet extract {model} STREAM -o STREAM.nn",
            )
        fleet = load_fleet(model, classes)
        tables = fleet_tables(fleet, input, streams, time, columns, drop, format, label)
        evaluate_fleet(fleet, tables, f"{input} judged by {model}", frozen, as_json)
        exit_if_failed(tables)
        return
    check_one_stream(model, streams)
    if plot is not None:
        plots.check_target(plot, [model, input])
    detector, verdicts, table = judge(
        model, classes, input, frozen, label, time, columns, drop, format, streams
    )
    if table.labels is None:
        raise InputError(f"{input}: expected labels, found none")
    facts = measure(detector, verdicts, table.labels, frozen).as_dict()
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
    else:
        print_facts(f"{input} judged by {model}", facts)
    if plot is not None:
        plots.save(plots.evaluation_figure(table, verdicts, table.labels), plot)
        say(f"wrote {plot}")
