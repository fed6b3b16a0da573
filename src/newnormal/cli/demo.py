"""`newnormal demo`: a synthetic plant, one table, one picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from newnormal.cli.console import announce_compiling, say

__all__ = ["demo"]


def demo(
    seed: Annotated[int, typer.Option(help="Another plant.")] = 0,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where the picture goes.")
    ] = Path("newnormal-demo.png"),
) -> None:
    """Show on a synthetic plant why adapting matters: one table, one picture."""
    from rich.console import Console

    from newnormal import plots
    from newnormal.experiments.ours.demo import picture, run_demo, table

    announce_compiling()
    plots.check_target(output)
    result = run_demo(seed=seed, say=say)
    Console().print(table(result))
    plots.save(picture(result), output)
    say(f"wrote {output}: open it to see why\nnext: newnormal fit HISTORY.csv -o plant.nn")
