"""The command line, put together. Each command imports what it needs when it runs.

Standard input, output and error of the process may be closed, full or gone. Messages go to standard
error, and are lost where that cannot be written. What a command writes to standard output must
arrive: where it does not, that is an error, and nothing after it happens.
"""

import errno
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import Annotated, Any

import typer

from newnormal import __version__
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
from newnormal.cli.watch import watch
from newnormal.errors import MissingExtraError, NewnormalError

_REASONS = {
    errno.EBADF: "it is closed",
    errno.EPIPE: "its reader has gone",
    errno.ENOSPC: "no space is left on the device",
}
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


def add_reproduce(app: typer.Typer) -> None:
    """Add `newnormal reproduce`, which names what is missing where its distribution is."""
    named: dict[str, Any] = {
        "name": "reproduce",
        "help": "Run the paper's experiments and show its figures beside ours.",
        "rich_help_panel": _MORE,
    }
    if find_spec("newnormal_reproduce") is not None:
        from newnormal_reproduce.command import reproduce_app

        app.add_typer(reproduce_app(), cls=CommandGroup, **named)
        return
    every = {"ignore_unknown_options": True, "allow_extra_args": True}

    @app.command(cls=Command, add_help_option=False, context_settings=every, **named)
    def reproduce() -> None:
        raise MissingExtraError.of("reproduce", "newnormal-reproduce")


add_reproduce(app)


def run() -> None:
    """Run the command line, and turn errors into a line on standard error and an exit code."""
    _prepare()
    listen()
    try:
        try:
            app()
        finally:
            _flush_output()
    except OutputError as error:
        _forget_output()
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


class OutputError(NewnormalError):
    """Standard output cannot be written.

    `gone`: whether its reader has gone, as that of `| head -1` does: then nobody asked for more.
    """

    gone = False

    @classmethod
    def of(cls, error: OSError) -> "OutputError":
        """Return it for what the operating system said."""
        reason = _REASONS.get(error.errno or 0, error.strerror)
        output_error = cls(f"cannot write to standard output: {reason}")
        output_error.gone = error.errno == errno.EPIPE
        return output_error


class _Output(FileIO):
    """Standard output, whose errors are told from those of other files."""

    def write(self, content: Any, /) -> int:
        try:
            return super().write(content)
        except OSError as error:
            raise OutputError.of(error) from None


class _Messages(FileIO):
    """Standard error, whose lines are lost where it cannot be written.

    A line that stayed in the buffer would fail once more in Python's flush at exit, which then
    exits with the code 120.
    """

    def write(self, content: Any, /) -> int:
        written = None
        with suppress(OSError):
            written = super().write(content)
        return len(content) if written is None else written


def _prepare() -> None:
    """Make the streams of the process safe to use. Call it first, and once."""
    for _ in [number for number in range(3) if not _is_open(number)]:
        # Else the next file that is opened would be standard output or error. It is opened for
        # reading alone, so that a write to it fails as before.
        os.set_inheritable(os.open(os.devnull, os.O_RDONLY), True)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    elif isinstance(sys.stderr, TextIOWrapper):
        with suppress(OSError, ValueError):
            sys.stderr = _messages(sys.stderr)
    if sys.stdout is None or isinstance(sys.stdout, TextIOWrapper):
        with suppress(OSError, ValueError):
            sys.stdout = _output(sys.stdout)


def _flush_output() -> None:
    """Hand what was written to the operating system, or raise an OutputError."""
    if sys.stdout is not None:
        sys.stdout.flush()


def _forget_output() -> None:
    """Drop what could not be written, so that Python does not try again at the exit."""
    with suppress(OSError, ValueError, AttributeError):
        handle = os.open(os.devnull, os.O_WRONLY)
        os.dup2(handle, sys.stdout.fileno())
        os.close(handle)


def _output(before: TextIOWrapper | None) -> TextIOWrapper:
    handle = 1 if before is None else before.fileno()
    writes_through = before is not None and before.write_through
    file = _Output(handle, "w", closefd=False)
    return TextIOWrapper(
        BufferedWriter(file),
        encoding="utf-8",  # verdicts are JSON, whatever the terminal's encoding
        errors="backslashreplace",
        line_buffering=file.isatty() or writes_through,
    )


def _messages(before: TextIOWrapper) -> TextIOWrapper:
    file = _Messages(before.fileno(), "w", closefd=False)
    return TextIOWrapper(BufferedWriter(file), before.encoding, before.errors, line_buffering=True)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
