"""`newnormal evaluate`: judge a labelled file and measure how well."""

import json
from pathlib import Path

import typer

from newnormal.cli.bars import progress
from newnormal.cli.compiling import prepare
from newnormal.cli.console import say
from newnormal.cli.fleet_reading import exit_if_failed, fleet_tables, load_fleet, remembered
from newnormal.cli.judged_file import back_to_fit, fleet_back_to_fit
from newnormal.cli.measuring import measure, print_groups, print_summary
from newnormal.cli.options import Classes, Frozen, Input, Loading, Model, Rule, option
from newnormal.cli.reading import load, read_table, say_profile
from newnormal.cli.reading_options import InputOptions, reads_input
from newnormal.cli.streams import check_one_stream, check_streams, is_fleet
from newnormal.errors import InputError, ParameterError


@reads_input
def evaluate(
    model: Model,
    input: Input,  # noqa: A002
    frozen: Frozen = False,
    plot: Path | None = option("Draw it: .png, .svg or .pdf.", metavar="FILE"),
    as_json: bool = option("Print JSON instead of a table.", "--json", default=False),
    loading: Loading = None,
    rule: Rule = None,
    *,
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

    classes = Classes.of(loading, rule)
    if is_fleet(model):
        from newnormal.cli.fleet_evaluate import evaluate_fleet

        options = options.after(remembered(model), label=True)
        options.check_label()
        check_streams(model, options.streams, input)
        if plot is not None:
            raise ParameterError(
                "--plot: expected a detector of one stream, found a fleet",
                hint=f"newnormal fleet extract {model} STREAM -o STREAM.nn",
            )
        fleet = load_fleet(model, classes)
        tables = fleet_tables(fleet, input, options)
        fleet = fleet if frozen else fleet_back_to_fit(model, fleet, tables)
        evaluate_fleet(fleet, tables, f"{input} judged by {model}", frozen, as_json)
        exit_if_failed(tables)
        return
    check_one_stream(model, options.streams)
    if plot is not None:
        plots.check_target(plot, [model, input])
    detector = load(model, classes)
    prepare(detector)
    options = options.after(detector.reading_, label=True)
    options.check_label()
    table = read_table(input, options, detector.channels_)
    say_profile(table.profile)
    if table.labels is None:
        raise InputError(f"{input}: expected labels, found none")
    say(f"judging {len(table.values):,} samples ...")
    back_to_fit(model, detector, table, frozen)
    with progress("judging", len(table.values)) as on_samples:
        evaluation, verdicts = measure(detector, table, table.labels, frozen, on_samples)
    if as_json:
        typer.echo(json.dumps(evaluation.as_dict(), indent=2))
    else:
        print_summary(f"{input} judged by {model}", evaluation.summary())
        print_groups(evaluation)
    if plot is not None:
        name = "standard input" if input == "-" else Path(input).name
        figure = newnormal.plot(verdicts, name=name, labels=table.labels, evaluation=evaluation)
        plots.save(figure, plot)
        say(f"wrote {plot}")
