"""`newnormal data`: the benchmark data sets."""

from pathlib import Path

import typer

from newnormal.cli.console import print_text, say
from newnormal.cli.help import Command
from newnormal.cli.options import option
from newnormal.errors import InputError

data_app = typer.Typer(
    help="Benchmark data: what there is, and where to get it.", no_args_is_help=True
)


@data_app.callback()
def _data() -> None:
    pass


@data_app.command("list", cls=Command)
def data_list(
    root: list[Path] | None = option(
        "Look for data here; may be repeated.", "--data", metavar="DIR", envvar="NEWNORMAL_DATA"
    ),
) -> None:
    """List the data sets newnormal can load, and where to get them."""
    from newnormal.datasets import catalogue

    for folder in root or ():
        if not folder.is_dir():
            raise InputError(
                f"--data: expected a folder, found none at {folder}",
                hint="newnormal data list, without --data, shows where to get the data",
            )
    for entry in catalogue():
        print_text(f"{entry.name}  {entry.title}", bold=True)
        print_text(f"    sampled   {entry.period}\n    licence   {entry.licence}")
        print_text(f"    from      {entry.source}")
        if root:
            streams = [stream for folder in root for stream in entry.streams(folder)]
            names = ", ".join(streams[:8]) + (", ..." if len(streams) > 8 else "")
            print_text(f"    found     {len(streams)}{': ' if streams else ''}{names}")
    if not root:
        say("next: newnormal data list --data DIR shows which of them are in a folder")
