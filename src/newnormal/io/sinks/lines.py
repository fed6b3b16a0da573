"""Lines of text to standard output or to a file: what sinks that write text have in common."""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from newnormal.errors import ParameterError, StateError
from newnormal.io.sinks.base import Sink, SinkOptions
from newnormal.state.targets import LOOP, same_file, what_is
from newnormal.types import Event, Verdicts


class LinesSink(Sink):
    """Writes lines. The target ``"-"`` is standard output; any other is a file appended to."""

    def __init__(self, target: str, options: SinkOptions) -> None:
        super().__init__(target, options)
        self._owned = target != "-"
        self._out: TextIO = _opened(Path(target)) if self._owned else sys.stdout

    def write_lines(self, lines: Iterable[str]) -> None:
        """Write lines as they are."""
        with self._naming():
            self._out.writelines(line + "\n" for line in lines)

    def flush(self) -> None:
        """Hand everything to the operating system."""
        with self._naming():
            self._out.flush()

    def close(self) -> None:
        """Close the file; standard output stays open."""
        if self._owned:
            with self._naming():
                self._out.close()

    @contextmanager
    def _naming(self) -> Iterator[None]:
        """Name the file in errors; those of standard output are left to who made that."""
        try:
            yield
        except OSError as error:
            if not self._owned:
                raise
            raise StateError(
                f"cannot write {self.target}: {error.strerror}",
                hint="make room, and start again: what was not written comes again with --state",
            ) from error


def check_output(target: str, others: Iterable[str | os.PathLike[str]]) -> None:
    """Raise a ParameterError if a target is, or is in, what is read or written besides."""
    for other in others:
        inside = Path(other).is_dir() and Path(other).resolve() in Path(target).resolve().parents
        if same_file(target, other) or (inside and target != "-"):
            raise ParameterError(
                f"--output: expected another file than {other}, found "
                f"{'one in it' if inside else 'the same'}",
                hint="choose another name, or leave it out for standard output",
            )


def _opened(path: Path) -> TextIO:
    try:
        if what_is(path) not in (None, "a folder", LOOP):  # a pipe or a device has no end to read
            return path.open("w", encoding="utf-8", errors="backslashreplace", newline="\n")
        file = path.open("a+b")
        if file.seek(0, 2):
            file.seek(-1, 2)
            if file.read(1) != b"\n":  # a kill cut the last line short
                file.write(b"\n")
        file.close()
        return path.open("a", encoding="utf-8", errors="backslashreplace", newline="\n")
    except OSError as error:
        raise ParameterError(
            f"--output: expected a file that can be written, found {path}: {error.strerror}",
            hint="leave it out for standard output",
        ) from error


class JsonLinesSink(LinesSink):
    """One JSON line a verdict, or one an event where only events are wanted.

    The target ``"-"`` is standard output; any other is a file that is appended to.
    """

    def write_verdicts(self, verdicts: Verdicts) -> None:
        """Write a line a verdict, unless only events are wanted."""
        if not self.options.alarms_only:
            self.write_lines(verdicts.json_lines())

    def write_events(self, events: Sequence[Event]) -> None:
        """Write a line an event, if only events are wanted."""
        if self.options.alarms_only:
            self.write_lines(event.to_json() for event in events)
