"""`newnormal demo`: a synthetic plant, one table, one picture."""

from pathlib import Path
from typing import TYPE_CHECKING

from newnormal.cli.bars import fit_progress
from newnormal.cli.console import announce_compiling, say
from newnormal.cli.options import option
from newnormal.errors import MissingExtraError

if TYPE_CHECKING:
    from rich.table import Table

    from newnormal.base import BaseDetector
    from newnormal.datasets import Dataset
    from newnormal.runtime.demo import PlantDemo


def demo(
    seed: int = option("Another plant.", default=0),
    output: Path = option(
        "Where the picture goes.",
        "--output",
        "-o",
        metavar="FILE",
        default=Path("newnormal-demo.png"),
    ),
) -> None:
    """Show on a synthetic plant why adapting matters: one table, one picture.

    The picture needs the extra plot; without it there is the table alone.
    """
    from rich.console import Console

    from newnormal import plots
    from newnormal.runtime.demo import picture, run_demo

    announce_compiling()
    drawn = _can_draw(output)
    result = run_demo(seed, say, _fit)
    Console().print(table(result))
    if drawn:
        plots.save(picture(result), output)
        say(f"wrote {output}: open it to see why")
    say("next: newnormal fit HISTORY.csv -o plant.nn")


def _can_draw(output: Path) -> bool:
    """Whether there can be a picture; if Matplotlib is missing, say how to get one."""
    from newnormal import plots

    try:
        plots.check_target(output)
    except MissingExtraError as error:
        say(f"no picture: {error.message}; {error.hint}")
        return False
    return True


def _fit(detector: "BaseDetector", data: "Dataset") -> None:
    from newnormal.runtime.demo import fit_on_history

    with fit_progress() as callbacks:
        fit_on_history(detector, data, **callbacks)


def table(result: "PlantDemo") -> "Table":
    """Return the results as a table to print."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from newnormal.runtime.demo import percent

    rows = (result.frozen, result.adapting)
    notes = "\n".join(
        [
            "False alarms: normal samples flagged after the level shift, and their share.",
            "AUPRC by the trapezoidal rule.",
            *(f"{row.name.capitalize()}: {row.settings}" for row in rows),
        ]
    )
    sheet = Table(
        box=box.SIMPLE_HEAD, collapse_padding=True, caption=Text(notes), caption_justify="left"
    )
    sheet.add_column("", no_wrap=True)
    for heading in ("precision", "recall", "F1", "AUROC", "AUPRC"):
        sheet.add_column(heading, justify="right", no_wrap=True)
    sheet.add_column("false alarms\nafter the shift", justify="right", no_wrap=True)
    sheet.add_column("samples\na second", justify="right", no_wrap=True)
    for row in rows:
        scores = (row.precision, row.recall, row.f1, row.auroc, row.auprc)
        sheet.add_row(
            row.name,
            *(f"{score:.2f}" for score in scores),
            f"{row.false_alarms:,} ({percent(row.false_alarm_share)})",
            f"{float(f'{row.samples_per_second:.2g}'):,.0f}",
        )
    return sheet
