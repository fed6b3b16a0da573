"""What the command line prints for a person: messages on standard error, tables on output."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from newnormal.errors import NewnormalError

if TYPE_CHECKING:
    from newnormal.fleet.fitting import Progress

__all__ = [
    "BAD_LINE",
    "FAILED",
    "INTERRUPTED",
    "announce_compiling",
    "fail",
    "listen",
    "print_facts",
    "print_table",
    "progress_text",
    "say",
    "stream_progress",
]

# Exit codes; 0 is success, and 2 is a usage error, as Click has it.
FAILED = 1
BAD_LINE = 3
INTERRUPTED = 130


def say(text: str) -> None:
    """Write a line to standard error."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def fail(error: NewnormalError, code: int = FAILED) -> NoReturn:
    """Print what went wrong, and exit."""
    say(f"error: {error}")
    sys.exit(code)


def listen() -> None:
    """Show the package's warnings and log as plain lines."""
    logging.basicConfig(format="warning: %(message)s", stream=sys.stderr, level=logging.WARNING)

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        del category, filename, lineno, file, line
        say(f"warning: {message}")

    warnings.showwarning = show


def announce_compiling() -> None:
    """Print a line, once, if code is compiled: the first command after an install waits for it."""
    from numba.core import event

    class Announcer(event.Listener):
        said = False

        def on_start(self, event: object) -> None:
            del event
            if not self.said:
                say("compiling for this machine, once; this takes a few seconds ...")
            self.said = True

        def on_end(self, event: object) -> None: ...

    event.register("numba:compile", Announcer())  # type: ignore[no-untyped-call]


@contextmanager
def stream_progress() -> Iterator[Callable[[Progress], None] | None]:
    """Give a callback that draws a bar of streams with the time left; None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    shown = (TextColumn("fitting"), BarColumn(), TextColumn("{task.description}"))
    with Bar(*shown, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("")

        def on_progress(found: Progress) -> None:
            bar.update(
                task, completed=found.done, total=found.total, description=progress_text(found)
            )

        yield on_progress


def progress_text(found: Progress) -> str:
    """Return how many streams are done, and the time left."""
    text = f"{found.done:,} of {found.total:,} streams"
    if found.failed:
        text += f", {found.failed:,} failed"
    if found.seconds_left is None:
        return text
    minutes, seconds = divmod(round(found.seconds_left), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{text}, {hours}:{minutes:02}:{seconds:02} left"


def print_facts(title: str, facts: dict[str, Any]) -> None:
    """Print names and values as a table on standard output."""
    from rich.console import Console
    from rich.table import Table as Grid

    grid = Grid(title=title, show_header=False, title_justify="left", box=None, pad_edge=False)
    grid.add_column(style="cyan", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in facts.items():
        if value is not None:
            grid.add_row(name.replace("_", " "), _shown(value))
    Console().print(grid)


def print_table(
    title: str, first: str, columns: Sequence[str], rows: Mapping[str, Mapping[str, Any]]
) -> None:
    """Print a row for each name, with some of its values, as a table on standard output."""
    from rich.console import Console
    from rich.table import Table as Grid

    grid = Grid(title=title, title_justify="left", box=None, pad_edge=False)
    grid.add_column(first, style="cyan", no_wrap=True)
    for name in columns:
        grid.add_column(name.replace("_", " "), justify="right")
    for name, values in rows.items():
        grid.add_row(name, *(_shown(values.get(column)) for column in columns))
    Console().print(grid)


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
