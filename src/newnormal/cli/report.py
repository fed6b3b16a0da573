"""`newnormal report`: judge a finished file, and write what happened as a page to look at."""

from pathlib import Path

from newnormal.cli.console import say
from newnormal.cli.fleet_reading import exit_if_failed
from newnormal.cli.judged_file import judge_file
from newnormal.cli.options import Classes, Frozen, Input, Loading, Model, Rule, option
from newnormal.cli.reading_options import InputOptions, reads_input
from newnormal.texts import number_text


@reads_input
def report(
    model: Model,
    input: Input,  # noqa: A002
    output: Path = option(
        "The page: .html.", "--output", "-o", metavar="FILE", default=Path("report.html")
    ),
    frozen: Frozen = False,
    loading: Loading = None,
    rule: Rule = None,
    *,
    options: InputOptions,
) -> None:
    """Judge a finished file, and write a page to look at: zoom, hover, jump to an alarm.

    newnormal report plant.nn live.csv -o report.html

    newnormal report plant.fleet metrics.csv --by host

    One HTML file that needs no network, below 10 MB. Labels are shown where the file has them:
    --label COLUMN, or the column that `fit` was given. Nothing is written to MODEL.
    """
    from newnormal.reports.writing import check_target
    from newnormal.reports.writing import report as write

    classes = Classes.of(loading, rule)
    check_target(output, [model, input])
    judged = judge_file(model, classes, input, options, frozen)
    contents = judged.contents(model)
    write(contents, output)
    size = number_text(output.stat().st_size, "B", digits=2)
    say(f"wrote {output} ({size}): {contents.summary()}")
    if judged.tables is not None:
        exit_if_failed(judged.tables)
