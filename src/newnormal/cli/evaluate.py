"""`newnormal evaluate`: judge a labelled file and measure how well."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Optional

import typer

from newnormal.cli.console import print_facts, say
from newnormal.cli.fleet_reading import exit_if_failed, fleet_tables, load_fleet
from newnormal.cli.measuring import measure
from newnormal.cli.options import Classes, Frozen, Input, Loading, Model, Rule
from newnormal.cli.reading import judge
from newnormal.cli.reading_options import Given, reads_input
from newnormal.cli.streams import check_one_stream, check_streams, is_fleet
from newnormal.errors import InputError, ParameterError

__all__ = ["evaluate"]


@reads_input
def evaluate(
    model: Model,
    input: Input,  # noqa: A002
    frozen: Frozen = False,
    plot: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="FILE", help="Draw it: .png, .svg or .pdf."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    loading: Loading = None,
    rule: Rule = None,
    *,
    given: Given,
) -> None:
    """Judge a labelled file and print every metric.

    newnormal evaluate plant.fleet metrics.csv --by host --label fault
    """
    from newnormal import plots

    classes = Classes.of(loading, rule)
    if given.reading.label is None:
        raise ParameterError(
            "--label: expected the column of 0/1 truth, found none given",
            hint="name it with --label COLUMN",
        )
    if is_fleet(model):
        from newnormal.cli.fleet_evaluate import evaluate_fleet

        check_streams(model, given.streams, input)
        if plot is not None:
            raise ParameterError(
                "--plot: expected a detector of one stream, found a fleet",
                hint=f"newnormal fleet extract {model} STREAM -o STREAM.nn",
            )
        fleet = load_fleet(model, classes)
        tables = fleet_tables(fleet, input, given)
        evaluate_fleet(fleet, tables, f"{input} judged by {model}", frozen, as_json)
        exit_if_failed(tables)
        return
    check_one_stream(model, given.streams)
    if plot is not None:
        plots.check_target(plot)
    detector, verdicts, table = judge(model, classes, input, given, frozen)
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
