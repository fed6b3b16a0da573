"""The command line, put together. Each command imports what it needs when it runs."""

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from newnormal import __version__
from newnormal.cli import reproduce, standard
from newnormal.cli.alarms import alarms
from newnormal.cli.check import check
from newnormal.cli.console import FAILED, INTERRUPTED, fail, listen, say
from newnormal.cli.data import data_app
from newnormal.cli.demo import demo
from newnormal.cli.evaluate import evaluate
from newnormal.cli.example import example
from newnormal.cli.feedback import accept, reject, undo
from newnormal.cli.fit import fit
from newnormal.cli.fleet import fleet_app
from newnormal.cli.help import Command, CommandGroup
from newnormal.cli.inspect import inspect
from newnormal.cli.models import put, take
from newnormal.cli.plot import plot, report
from newnormal.cli.score import score
from newnormal.cli.serve import ServeGroup, serve_app
from newnormal.cli.standard import OutputError
from newnormal.cli.watch import watch
from newnormal.errors import NewnormalError

_EPILOG = """newnormal example

newnormal fit history.csv -o plant.nn

newnormal watch plant.nn live.csv --state plant.state

Many streams: newnormal fit metrics.csv --by host -o plant.fleet

A service with a page: newnormal serve --demo

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 a bad line with --strict,
4 a warning of check --strict, 130 interrupted.
"""

app = typer.Typer(
    name="newnormal",
    cls=CommandGroup,
    help="Detect anomalies in live metrics, and keep learning what normal is.",
    epilog=_EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# The groups of the help, in its order; a command's place in its group is that in this list.
_START, _LOOK, _DECIDE, _MEASURE, _MORE = "Start here", "Look", "Decide", "Measure", "More"
_SERVE = "Serve"
_COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    _START: (example, check, fit, watch),
    _LOOK: (alarms, report, plot, inspect),
    _DECIDE: (accept, reject, undo),
    _MEASURE: (score, evaluate),
    _SERVE: (put, take),
    _MORE: (demo,),
}
for group, commands in _COMMANDS.items():
    for command in commands:
        app.command(cls=Command, rich_help_panel=group)(command)
app.add_typer(serve_app, name="serve", cls=ServeGroup, rich_help_panel=_SERVE)
app.add_typer(fleet_app, name="fleet", cls=CommandGroup, rich_help_panel=_MORE)
app.add_typer(data_app, name="data", cls=CommandGroup, rich_help_panel=_MORE)
reproduce.add_to(app, _MORE)


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
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
