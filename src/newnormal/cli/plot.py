"""`newnormal plot` and `newnormal report`: judge a finished file, and show what happened."""

from collections.abc import Sequence
from pathlib import Path

from newnormal.cli.console import say
from newnormal.cli.options import (
    Classes,
    Frozen,
    Input,
    InputOptions,
    Model,
    names,
    option,
    with_shared,
)
from newnormal.cli.reading import exit_if_failed, judge_file
from newnormal.texts import number_text


@with_shared
def plot(
    model: Model,
    input: Input,  # noqa: A002
    output: Path = option(
        "The picture: .png, .svg or .pdf.",
        "--output",
        "-o",
        metavar="FILE",
        default=Path("plot.png"),
    ),
    frozen: Frozen = False,
    channels: list[str] | None = option(
        "Draw these channels (a,b,c; repeatable), or so many. Of a fleet: these streams.",
        metavar="NAMES",
        shown="4 channels, or 30 streams; those concerned first",
    ),
    dark: bool = option("On dark paper.", "--dark", default=False),
    *,
    classes: Classes,
    options: InputOptions,
) -> None:
    """Judge a finished file, and draw it: channels, what was expected, alarms and changes.

    newnormal plot plant.nn live.csv -o live.png

    newnormal plot plant.fleet metrics.csv --by host -o fleet.svg

    Labels are drawn where the file has them: --label COLUMN, or the column that `fit` was given.
    Needs the extra plot. Nothing is written to MODEL.
    """
    import newnormal
    from newnormal import plots

    plots.check_target(output, [model, input])
    judged = judge_file(model, classes, input, options, frozen)
    chosen = _chosen(channels, getattr(judged.verdicts, "channels", ()))
    figure = newnormal.plot(judged.verdicts, name=judged.name, channels=chosen, dark=dark)
    plots.save(figure, output)
    say(f"wrote {output}: {judged.contents(model).summary()}")
    if judged.tables is not None:
        exit_if_failed(judged.tables)


def _chosen(channels: list[str] | None, existing: Sequence[str]) -> int | list[str] | None:
    """Return how many, or the names; a number may be a name, too.

    >>> _chosen(["6"], ()), _chosen(["6"], ("5", "6")), _chosen(["flow,level", "power"], ())
    (6, ['6'], ['flow', 'level', 'power'])
    """
    chosen = names(channels)
    if chosen is None or len(chosen) > 1 or not chosen[0].isdigit() or chosen[0] in existing:
        return chosen
    return int(chosen[0])


@with_shared
def report(
    model: Model,
    input: Input,  # noqa: A002
    output: Path = option(
        "The page: .html.", "--output", "-o", metavar="FILE", default=Path("report.html")
    ),
    frozen: Frozen = False,
    *,
    classes: Classes,
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

    check_target(output, [model, input])
    judged = judge_file(model, classes, input, options, frozen)
    contents = judged.contents(model)
    write(contents, output)
    size = number_text(output.stat().st_size, "B", digits=2)
    say(f"wrote {output} ({size}): {contents.summary()}")
    if judged.tables is not None:
        exit_if_failed(judged.tables)
