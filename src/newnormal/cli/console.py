"""What the command line says to a person, all of it on standard error."""

from __future__ import annotations

import logging
import sys
import warnings
from typing import NoReturn, TextIO

from newnormal.errors import NewnormalError

__all__ = [
    "BAD_LINE",
    "FAILED",
    "INTERRUPTED",
    "announce_compiling",
    "fail",
    "listen",
    "say",
]

# Exit codes; 0 is success, and 2 is a usage error, as Click has it.
FAILED = 1
BAD_LINE = 3
INTERRUPTED = 130


def say(text: str) -> None:
    """Write a line to standard error."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def fail(error: NewnormalError, code: int = FAILED) -> NoReturn:
    """Say what went wrong, and exit."""
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
    """Say so, once, if code has to be compiled: the first command after an install waits for it."""
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
