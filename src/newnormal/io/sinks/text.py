"""What happens to alarms and changes, in words: to standard output or to a file."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from newnormal.alarms.words import BAD, GOOD, PLAIN, WAITS, Deciding, Note, event_note
from newnormal.io.sinks.base import SinkOptions
from newnormal.io.sinks.lines import LinesSink
from newnormal.texts import shown
from newnormal.types import Event, Verdicts

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

UNBROKEN = 100_000  # characters of a line of what is no terminal
_INDENT = 4
_MOST_LABEL = 24  # characters: a longer label is not what others are aligned to
_STYLES = {BAD: "bold red", WAITS: "bold yellow", GOOD: "green", PLAIN: "bold"}


class Screen(Protocol):
    """What else is on the terminal that the text goes to."""

    def count(self, samples: int, newest: np.datetime64 | None, zone: str | None) -> None:
        """Take note of so many samples that were judged, and of the newest time."""

    def note(self, stream: str, event: Event) -> None:
        """Take note of an event."""

    def clear(self) -> None:
        """Make room: text is about to be written."""

    def draw(self) -> None:
        """Show it again: the text was written."""


class TextSink(LinesSink):
    """A block of text an event, for people; verdicts are not written.

    Colour and the width of the screen where standard output is a terminal; else no colour, and
    lines that are not broken. Commands never are.
    """

    def __init__(self, target: str, options: SinkOptions) -> None:
        super().__init__(target, options)
        self.deciding = Deciding()  # how a person decides, for the commands that it shows
        self.screen: Screen | None = None  # what else is on the terminal; None: nothing
        self._console = text_console(target == "-" and sys.stdout.isatty())

    def write_verdicts(self, verdicts: Verdicts) -> None:
        """Show on the screen, if there is one, how far it is."""
        if self.screen is not None and len(verdicts):
            last = verdicts[len(verdicts) - 1]
            self.screen.count(len(verdicts), last.time, last.zone)

    def write_events(self, events: Sequence[Event]) -> None:
        """Write what happened."""
        if self.screen is not None:
            for event in events:
                self.screen.note("", event)
        self.write_notes((event_note(event, self.deciding), None) for event in events)

    def flush(self) -> None:
        """Hand everything to the operating system, and show on the screen how far it is."""
        super().flush()
        if self.screen is not None:
            self.screen.draw()

    def write_notes(self, notes: Iterable[tuple[Note, str | None]], name_width: int = 0) -> None:
        """Write notes, each with the name of its stream or None."""
        for note, stream in notes:
            lines = note_lines(note, self._console, stream, name_width)
            with self._console.capture() as captured:
                for line in lines:
                    self._console.print(line, soft_wrap=True)
            if self.screen is not None:
                self.screen.clear()
            self.write_lines(captured.get().splitlines())


def text_console(terminal: bool) -> Console:
    """Return what gives text its colour and width."""
    from rich.console import Console

    if terminal:
        return Console(force_terminal=True, legacy_windows=False, highlight=False)
    return Console(
        force_terminal=False,
        legacy_windows=False,
        highlight=False,
        width=UNBROKEN,
        color_system=None,
    )


def note_lines(
    note: Note, console: Console, stream: str | None = None, name_width: int = 0
) -> list[Text]:
    """Return a note as lines for a console.

    `note`: what to show. `console`: its width is that of the lines. `stream`: the name of the
    stream, before all else; None: there is one stream. `name_width`: the width that names are
    given.
    """
    from rich.cells import cell_len
    from rich.text import Text

    heading = Text()
    if stream is not None:
        name = shown(stream)
        heading.append(name, "cyan")
        heading.append(" " * (max(name_width - cell_len(name), 0) + 2))
    if note.when:
        heading.append(f"{note.when}  ")
    heading.append(note.title, _STYLES[note.tone])
    if note.text:
        heading.append(f": {shown(note.text)}")
    lines = _hanging(heading, console, 0, _INDENT)
    labels = [shown(label) for label, _ in (*note.lines, *note.commands)]
    wide = max((cell_len(each) for each in labels if cell_len(each) <= _MOST_LABEL), default=0)
    for label, text in note.lines:
        line = Text(shown(text)) if not label else _labelled(label, shown(text), wide)
        lines += _hanging(line, console, _INDENT, 2 * _INDENT if label else _INDENT)
    for label, command in note.commands:
        line = _labelled(label, shown(command), wide, "bold")
        line.pad_left(_INDENT)
        lines.append(line)
    return lines


def _labelled(label: str, text: str, width: int, style: str = "") -> Text:
    from rich.cells import cell_len
    from rich.text import Text

    name = shown(label)
    line = Text(name, end="")
    line.append(" " * (max(width - cell_len(name), 0) + 2))
    return line.append(text, style)


def _hanging(text: Text, console: Console, first: int, others: int) -> list[Text]:
    """Return a text in lines that fit the console, indented by so much."""
    width = max(console.width, 2 * _INDENT + 8)
    begin = text.wrap(console, width - first, overflow="fold")[0]
    begin.rstrip()
    # What follows is cut from the text itself: lines joined again would have a space in a name.
    after = text.plain[len(begin.plain) :]
    rest = text[len(text.plain) - len(after.lstrip()) :]
    begin.pad_left(first)
    if not rest.plain:
        return [begin]
    more = rest.wrap(console, width - others, overflow="fold")
    for line in more:
        line.rstrip()
        line.pad_left(others)
    return [begin, *more]
