"""What the command line prints for a person: messages on standard error, tables on output.

Names of channels, streams and files are the user's: `shown` is what a terminal is given of them.
"""

import json
import logging
import os
import re
import shutil
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from newnormal.errors import NewnormalError
from newnormal.texts import number_text, shown

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from newnormal.alarms.words import Note

# Exit codes; 0 is success, and 2 is a usage error, as Click has it.
FAILED = 1
BAD_LINE = 3
INTERRUPTED = 130


_before: list[Callable[[], None]] = []  # what makes room for a message


@contextmanager
def before_messages(action: Callable[[], None] | None) -> Iterator[None]:
    """Do something before each message inside this context, such as erase a line."""
    if action is None:
        yield
        return
    _before.append(action)
    try:
        yield
    finally:
        _before.remove(action)


def say(text: str) -> None:
    """Write a line to standard error; where that cannot be written, the line is lost."""
    if sys.stderr is not None:  # print would take standard output instead
        with suppress(OSError, ValueError):
            for action in _before:
                action()
            print(shown(text, lines=True), file=sys.stderr, flush=True)  # noqa: T201


def put_json(data: object, *, ascii_only: bool = True) -> None:
    """Write data for programs to standard output."""
    print(json.dumps(data, indent=2, ensure_ascii=ascii_only))  # noqa: T201


def put(text: str) -> None:
    """Write a line for a person to standard output."""
    print(shown(text, lines=True))  # noqa: T201


def fail(error: NewnormalError, code: int = FAILED) -> NoReturn:
    """Print what went wrong, and exit."""
    say(f"error: {shown(error.message)}")
    if error.hint is not None:
        say(f"hint: {error.hint}")
    sys.exit(code)


class _Log(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say(f"warning: {record.getMessage()}")


def listen() -> None:
    """Show the package's warnings and log as plain lines."""
    logging.basicConfig(handlers=[_Log()], level=logging.WARNING)

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


@cache
def announce_compiling() -> Any:
    """Print a line, once, if code is compiled: the first command after an install waits for it.

    Returns what prints it: its `said` is whether a line was printed.
    """
    from numba.core import event

    class Announcer(event.Listener):
        said = False

        def on_start(self, event: object) -> None:
            del event
            if not self.said:
                self.said = True
                say("compiling for this machine, once; this takes a few seconds ...")

        def on_end(self, event: object) -> None: ...

    announcer = Announcer()
    event.register("numba:compile", announcer)  # type: ignore[no-untyped-call]
    return announcer


def print_facts(title: str, facts: dict[str, Any]) -> None:
    """Print names and values as a table on standard output."""
    from rich.table import Table as Grid

    grid = Grid(show_header=False, box=None, pad_edge=False)
    grid.add_column(style="cyan", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in facts.items():
        if value is not None:
            grid.add_row(_cell(name.replace("_", " ")), _cell(_text(value), highlight=True))
    _print(title, grid)


def print_table(
    title: str, first: str, columns: Sequence[str], rows: Mapping[str, Mapping[str, Any]]
) -> None:
    """Print a row for each name, with some of its values, as a table on standard output."""
    from rich.table import Table as Grid

    grid = Grid(box=None, pad_edge=False)
    grid.add_column(_cell(first), style="cyan", no_wrap=True)
    for name in columns:
        grid.add_column(_cell(name.replace("_", " ")), justify="right")
    for name, values in rows.items():
        cells = (_cell(_text(values.get(column)), highlight=True) for column in columns)
        grid.add_row(_cell(name), *cells)
    _print(title, grid)


def has_width() -> bool:
    """Whether lines must fit a width: that of a terminal, or COLUMNS. Others are not broken."""
    return sys.stdout.isatty() or bool(os.environ.get("COLUMNS") or os.environ.get("FORCE_COLOR"))


def output_console() -> "Console":
    """Return what gives standard output its colour and width."""
    from rich.console import Console

    from newnormal.io.sinks.text import UNBROKEN

    width = None if has_width() else UNBROKEN
    return Console(highlight=False, legacy_windows=False, width=width)


def broken(text: str, stream: TextIO) -> str:
    """Return text whose lines are broken at words for a terminal; as it is for anything else."""
    if not stream.isatty():
        return text
    width, lines = shutil.get_terminal_size().columns, []
    for line in text.splitlines():
        begun = re.match(r" *(\S+( \S+)*  +)?", line)  # what follows is below the second column
        indent = " " * (begun.end() if begun else 0)
        lines += textwrap.wrap(line, width, subsequent_indent=indent) or [""]
    return "\n".join(lines)


def _print(title: str, grid: "Table") -> None:
    console = output_console()
    heading = _cell(title)
    heading.stylize("table.title")
    console.print(heading, soft_wrap=True)  # a path can be copied from it
    with console.capture() as captured:
        console.print(grid)
    for line in captured.get().splitlines():
        print(line.rstrip())  # noqa: T201


def _cell(text: str, *, highlight: bool = False) -> "Text":
    """Return what goes into a table, which is no markup; numbers may be given a colour."""
    from rich.highlighter import ReprHighlighter
    from rich.text import Text

    cell = Text(shown(text))
    if highlight:
        ReprHighlighter().highlight(cell)
    return cell


def _text(value: Any) -> str:
    if value is None:
        return ""
    return number_text(value, digits=4) if isinstance(value, float) else str(value)


def accept_after_text(detector: Any, period: "np.timedelta64 | None") -> str | None:
    """Return how long a change must be stable until it is accepted, in words; None: never.

    The detector need not be fitted.

    >>> from newnormal import Detector
    >>> accept_after_text(Detector(), None), accept_after_text(Detector(accept_after="2h"), None)
    ('1440 samples', '2 h')
    """
    import math
    from datetime import timedelta

    import numpy as np

    from newnormal.alarms.words import duration_text
    from newnormal.config import NEVER, SAMPLES_PER_DAY, duration

    after = detector.accept_after
    if after is None:
        after = SAMPLES_PER_DAY if period is None else "24h"
    if after in (NEVER, math.inf):
        return None
    if isinstance(after, str | timedelta | np.timedelta64):
        seconds = duration(after, "accept_after") / np.timedelta64(1, "s")
        return duration_text(0, float(seconds))
    return duration_text(math.ceil(after), None)


def print_notes(notes: "Iterable[Note | tuple[Note, str]]", name_width: int = 0) -> None:
    """Print notes, each with the name of its stream or without, on standard output."""
    from newnormal.alarms.words import Note
    from newnormal.io.sinks.text import note_lines

    console = output_console()
    for entry in notes:
        note, stream = (entry, None) if isinstance(entry, Note) else entry
        for line in note_lines(note, console, stream, name_width):
            console.print(line, soft_wrap=True)


def print_text(text: str, *, bold: bool = False) -> None:
    """Print a line for a person on standard output, which is not broken: it may hold a path."""
    from rich.text import Text

    output_console().print(Text(shown(text, lines=True), "bold" if bold else ""), soft_wrap=True)
