"""Where pictures are drawn, in which colours, and how they are written: Matplotlib without pyplot.

So it works without a display, in threads, and leaves a notebook's own settings alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from newnormal.errors import InputError, extra
from newnormal.state.targets import check_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Style(NamedTuple):
    """The colours of a picture, by what they are used for.

    Okabe and Ito's colours differ for every kind of colour vision; the rest is grey.
    """

    paper: str
    ink: str  # text
    quiet: str  # text that matters less
    line: str  # scores, and values below a trend
    value: str  # values beside what was expected
    pale: str  # axes
    ground: str  # of lanes
    expected: str
    band: str  # the expected range
    alarm: str  # an alarm; with labels, one for nothing
    true: str  # what is labelled, and alarms that meet it
    pending: str  # states of changes, as in reports
    accepted: str
    rejected: str
    reverted: str

    def state(self, state: str) -> str:
        """Return the colour of a change's state."""
        colours = {"pending": self.pending, "accepted": self.accepted, "rejected": self.rejected}
        return colours.get(state, self.reverted)

    def hatch(self, state: str) -> str:
        """Return the hatch of a change's state: one that is open is hatched, as in reports."""
        return {"pending": "////", "rejected": "\\\\\\\\"}.get(state, "")


LIGHT = Style(
    paper="white",
    ink="#1f2933",
    quiet="#5b6875",
    line="#8a97a6",
    value="#3e4c59",
    pale="#c9d1d9",
    ground="#f1f4f7",
    expected="#2b8cc4",
    band="#9cc7e6",
    alarm="#D55E00",
    true="#0072B2",
    pending="#a0557f",
    accepted="#009e73",
    rejected="#6b7785",
    reverted="#7f8b98",
)
DARK = Style(
    paper="#14191f",
    ink="#e6eaee",
    quiet="#a3b0bd",
    line="#93a1b0",
    value="#d5dce3",
    pale="#46525e",
    ground="#1e252d",
    expected="#4aa3df",
    band="#2f6f9f",
    alarm="#ff7a1a",
    true="#56B4E9",
    pending="#d58bb3",
    accepted="#2fbf94",
    rejected="#8a97a6",
    reverted="#6b7785",
)


TRUE = LIGHT.true  # what is labelled, and alarms that meet it
FALSE = LIGHT.alarm  # alarms for nothing
INK = LIGHT.ink
LINE = LIGHT.line
PALE = LIGHT.pale

SMALL, NORMAL = 8.5, 10.5  # points

_FORMATS = {".png", ".svg", ".pdf"}


def blank(width: float, height: float, style: Style = LIGHT) -> Figure:
    """Return an empty figure of this many inches, or raise `MissingExtraError`."""
    check_extra()
    from newnormal.plots.notebook import NotebookFigure

    return NotebookFigure(figsize=(width, height), facecolor=style.paper)


def check_target(
    path: str | os.PathLike[str], others: Iterable[str | os.PathLike[str]] = ()
) -> Path:
    """Return the path if a picture can be written there; call it before the long work begins.

    Raises `MissingExtraError` where Matplotlib is missing, and `InputError` where the name ends
    in no known format, no file can be written there, or it is one of `others`.

    Examples
    --------
    >>> check_target("verdicts.svg").name
    'verdicts.svg'
    """
    check_extra()
    target = Path(path)
    if target.suffix.lower() not in _FORMATS:
        raise InputError(
            f"{target}: expected a picture ending in {', '.join(sorted(_FORMATS))}, "
            f"found {target.suffix or 'no ending'!r}",
            hint=f"for example {target.with_suffix('.png').name}" if target.name else None,
        )
    if not target.parent.is_dir():
        raise InputError(
            f"{target}: expected an existing folder, found none at {target.parent}",
            hint=f"make it first: mkdir -p {target.parent}",
        )
    check_file(target, others, error=InputError)
    return target


def save(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write a figure as PNG, SVG or PDF, by the ending of its name, and return the path."""
    target = check_target(path)
    # No date inside: the same picture is the same file.
    undated = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    from newnormal.plots.notebook import DOTS_PER_INCH

    figure.savefig(target, dpi=DOTS_PER_INCH, metadata=undated[target.suffix.lower()])
    return target


def check_extra() -> None:
    """Raise `MissingExtraError` where Matplotlib is missing."""
    with extra("plot", "matplotlib"):
        import matplotlib.figure  # noqa: F401
