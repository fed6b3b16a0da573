"""The command in this process: one of its own would import and load everything anew."""

import logging
import os
import sys
import warnings
from contextlib import ExitStack, redirect_stderr, redirect_stdout, suppress
from threading import Thread
from typing import TextIO

import pytest

from newnormal.cli import main


def called(*arguments: object, out: TextIO, err: TextIO, stdin: str | None = None) -> int:
    """Run `newnormal` with these arguments; return its exit code."""
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(sys, "argv", ["newnormal", *map(str, arguments)])
        patch.setattr(warnings, "showwarning", warnings.showwarning)
        patch.setattr(logging.root, "handlers", [])  # pytest's; without them it is standard error
        if stdin is not None:
            patch.setattr(sys, "stdin", stack.enter_context(_piped(stdin)))
        stack.enter_context(redirect_stdout(out))
        stack.enter_context(redirect_stderr(err))
        try:
            main()
        except SystemExit as end:
            return int(end.code or 0)
    return 0


def _piped(text: str) -> TextIO:
    """Return what a pipe gives that another thread writes a text to."""
    reading, writing = os.pipe()

    def write() -> None:
        with suppress(BrokenPipeError), open(writing, "w", encoding="utf-8") as pipe:
            pipe.write(text)

    Thread(target=write, daemon=True).start()
    return open(reading, encoding="utf-8")
