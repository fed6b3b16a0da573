"""`newnormal data`: the benchmark data sets."""

from pathlib import Path

import typer

from newnormal.cli.console import say
from newnormal.cli.options import option
from newnormal.errors import InputError
from newnormal.texts import shown

data_app = typer.Typer(
    help="Benchmark data: what there is, and where to get it.", no_args_is_help=True
)


@data_app.callback()
def _data() -> None:
    pass


@data_app.command("list")
def data_list(
    root: list[Path] | None = option(
        "Look for data here; may be repeated.", "--data", metavar="DIR"
    ),
) -> None:
    """List the data sets newnormal can load, and where to get them."""
    from rich.console import Console
    from rich.text import Text

    from newnormal.datasets import catalogue

    for folder in root or ():
        if not folder.is_dir():
            raise InputError(
                f"--data: expected a folder, found none at {folder}",
                hint="newnormal data list, without --data, shows where to get the data",
            )
    console = Console(highlight=False, soft_wrap=True)
    for entry in catalogue():
        console.print(Text.assemble((entry.name, "bold cyan"), f"  {entry.title}"))
        console.print(f"    sampled   {entry.period}\n    licence   {entry.licence}", markup=False)
        console.print(f"    from      {entry.source}", markup=False)
        if root:
            streams = [stream for folder in root for stream in entry.streams(folder)]
            some = ", ".join(streams[:8]) + (", ..." if len(streams) > 8 else "")
            console.print(
                f"    found     {len(streams)}{': ' if streams else ''}{shown(some)}",
                markup=False,
                emoji=False,
            )
    if not root:
        say("next: newnormal data list --data DIR shows which of them are in a folder")
