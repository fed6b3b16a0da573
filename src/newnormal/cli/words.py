"""What several commands show a person about alarms and changes."""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from newnormal.texts import shown

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

    from newnormal.alarms.words import Note


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

    console = _console()
    for each in notes:
        note, stream = (each, None) if isinstance(each, Note) else each
        for line in note_lines(note, console, stream, name_width):
            console.print(line, soft_wrap=True)


def print_text(text: str, *, bold: bool = False) -> None:
    """Print a line for a person on standard output, which is not broken: it may hold a path."""
    from rich.text import Text

    _console().print(Text(shown(text, lines=True), "bold" if bold else ""), soft_wrap=True)


def _console() -> "Console":
    from newnormal.io.sinks.text import text_console

    return text_console(sys.stdout.isatty())
