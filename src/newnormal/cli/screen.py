"""A line at the foot of the terminal that says how far a watch is, while nothing happens."""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import numpy as np

from newnormal.cli import console
from newnormal.errors import NewnormalError
from newnormal.texts import counted, shown
from newnormal.types import ACCEPTED, CHANGED, CLOSED, OPENED, REVERTED, Alarm, Change, Event

if TYPE_CHECKING:
    from rich.console import Console

    from newnormal.io.sinks.text import TextSink

_ROOM = 3  # columns at the right: ^C is echoed there, and must not begin a line
_ERASE = "\r\x1b[K"  # back to the first column, and erase from there


class StatusLine:
    """One line, drawn over itself; it is erased before anything else is written.

    `opened` are the alarms and changes that are open, each with its stream.
    """

    def __init__(
        self, terminal: "Console", opened: Sequence[tuple[str, Alarm | Change]] = ()
    ) -> None:
        self._terminal = terminal
        self._alarms = {(name, item.number) for name, item in opened if isinstance(item, Alarm)}
        self._changes = {(name, item.number) for name, item in opened if isinstance(item, Change)}
        self._samples = 0
        self._when = ""
        self._newest: np.datetime64 | None = None
        self._drawn = False

    def count(self, samples: int, newest: np.datetime64 | None, zone: str | None) -> None:
        """Take note of so many more samples that were judged, and of the newest time."""
        from newnormal.alarms.words import moment_text

        self._samples += samples
        if newest is not None and (self._newest is None or newest >= self._newest):
            self._newest, self._when = newest, moment_text(newest, 0, zone)

    def note(self, stream: str, event: Event) -> None:
        """Take note of what is open now."""
        if event.alarm is not None and event.kind in (OPENED, CLOSED):
            _mark(self._alarms, (stream, event.alarm.number), event.kind == OPENED)
        if event.change is not None and event.kind in (CHANGED, ACCEPTED, REVERTED):
            _mark(self._changes, (stream, event.change.number), event.kind == CHANGED)

    def clear(self) -> None:
        """Erase it: something else is about to be written."""
        if self._drawn:
            self._drawn = False
            self._write(_ERASE)

    def text(self) -> str:
        """Return what it says."""
        opened = ((len(self._alarms), "alarm"), (len(self._changes), "change"))
        texts = [counted(count, what) for count, what in opened if count]
        # What is open comes first: the end is cut on a narrow terminal.
        parts = [f"watching: {' and '.join(texts) or 'nothing'} open", f"{self._samples:,} samples"]
        if self._when:
            parts.append(f"last {self._when}")
        return ", ".join(parts)

    def draw(self) -> None:
        """Draw it over itself."""
        from rich.text import Text

        line = Text(shown(self.text()), style="dim", end="")
        line.truncate(max(self._terminal.width - _ROOM, 1), overflow="ellipsis")
        with self._terminal.capture() as captured:
            self._terminal.print(line, soft_wrap=True, end="")
        self._drawn = True
        self._write(_ERASE + captured.get())

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


@contextmanager
def status_line(
    sink: "TextSink", opened: Iterable[tuple[str, Alarm | Change]], quiet: bool
) -> Iterator[None]:
    """Show how far a watch is while it runs, where standard output is a terminal; not if quiet."""
    if quiet or sink.target != "-" or not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        yield
        return
    from newnormal.io.sinks.text import text_console

    line = StatusLine(text_console(terminal=True), list(opened))
    sink.screen = line

    def clear() -> None:
        with suppress(NewnormalError, OSError, ValueError):  # a terminal that is gone
            line.clear()

    # Messages are on the same terminal unless they were sent elsewhere.
    with console.before_messages(clear if sys.stderr.isatty() else None):
        try:
            yield
        finally:
            clear()


def _mark(marked: set[tuple[str, int]], key: tuple[str, int], is_open: bool) -> None:
    if is_open:
        marked.add(key)
    else:
        marked.discard(key)
