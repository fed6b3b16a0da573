"""Standard input, output and error of the process, whatever they were given: closed, full, gone.

Messages go to standard error, and are lost where that cannot be written. What a command writes to
standard output must arrive: where it does not, that is an error, and nothing after it happens.
"""

import errno
import os
import sys
from contextlib import suppress
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import Any

from newnormal.errors import NewnormalError

_REASONS = {
    errno.EBADF: "it is closed",
    errno.EPIPE: "its reader has gone",
    errno.ENOSPC: "no space is left on the device",
}


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


def prepare() -> None:
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


def flush_output() -> None:
    """Hand what was written to the operating system, or raise an OutputError."""
    if sys.stdout is not None:
        sys.stdout.flush()


def forget_output() -> None:
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
