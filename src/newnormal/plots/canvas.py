"""Where pictures are drawn and how they are written: Matplotlib without pyplot's global state.

So it works without a display, in threads, and leaves a notebook's own settings alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from newnormal.errors import InputError, MissingExtraError
from newnormal.plots.style import LIGHT, Style
from newnormal.state.targets import check_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise MissingExtraError.of("plot", "matplotlib") from None
