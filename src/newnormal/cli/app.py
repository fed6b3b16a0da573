"""The command line, put together. Each command imports what it needs when it runs."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from newnormal import __version__
from newnormal.cli import standard
from newnormal.cli.check import check
from newnormal.cli.console import FAILED, INTERRUPTED, fail, listen, say
from newnormal.cli.data import data_app
from newnormal.cli.demo import demo
from newnormal.cli.evaluate import evaluate
from newnormal.cli.feedback import feedback
from newnormal.cli.fit import fit
from newnormal.cli.fleet import fleet_app
from newnormal.cli.inspect import inspect
from newnormal.cli.plot import plot
from newnormal.cli.report import report
from newnormal.cli.reproduce import reproduce_app
from newnormal.cli.score import score
from newnormal.cli.standard import OutputError
from newnormal.cli.watch import watch
from newnormal.errors import NewnormalError

__all__ = ["app", "run"]

_EPILOG = """Start here:

newnormal demo

newnormal check history.csv

newnormal fit history.csv -o plant.nn

tail -f live.csv | newnormal watch plant.nn - --alarms-only

Many streams: newnormal fit metrics.csv --by host -o plant.fleet

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 a bad line with --strict,
4 a warning of check --strict, 130 interrupted.
"""

app = typer.Typer(
    name="newnormal",
    help="Detect anomalies in live metrics, and keep learning what normal is.",
    epilog=_EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (check, fit, watch, feedback, score, evaluate, plot, report, inspect, demo):
    app.command()(command)
app.add_typer(fleet_app, name="fleet")
app.add_typer(data_app, name="data")
app.add_typer(reproduce_app, name="reproduce")


def run() -> None:
    """Run the command line, and turn errors into a line on standard error and an exit code."""
    standard.prepare()
    listen()
    try:
        try:
            app()
        finally:
            standard.flush_output()
    except OutputError as error:
        standard.forget_output()
        if error.gone:
            sys.exit(FAILED)
        fail(error)
    except NewnormalError as error:
        fail(error)
    except KeyboardInterrupt:
        say("interrupted")
        sys.exit(INTERRUPTED)
    except OSError as error:  # of a file that was fine when it was looked at
        name = "" if error.filename is None else f"{error.filename}: "
        fail(NewnormalError(f"{name}{error.strerror or error}"))


def _version(show: bool) -> None:
    if show:
        typer.echo(f"newnormal {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    pass
