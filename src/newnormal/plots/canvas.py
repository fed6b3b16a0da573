"""Where pictures are drawn and how they are written: Matplotlib without pyplot's global state.

So it works without a display, in threads, and leaves a notebook's own settings alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from newnormal.errors import InputError, MissingExtraError
from newnormal.state.targets import check_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "FALSE",
    "GROUND",
    "INK",
    "LINE",
    "NORMAL",
    "PALE",
    "SMALL",
    "TRUE",
    "blank",
    "check_target",
    "save",
]

# Okabe and Ito's blue and vermillion differ for every kind of colour vision; the rest is grey.
TRUE = "#0072B2"  # what is labelled, and alarms that meet it
FALSE = "#D55E00"  # alarms for nothing
INK = "#1f2933"
LINE = "#8a97a6"
PALE = "#c9d1d9"
GROUND = "#f1f4f7"

SMALL, NORMAL = 8.5, 10.5  # points

_FORMATS = {".png", ".svg", ".pdf"}
_DOTS_PER_INCH = 160


def blank(width: float, height: float) -> Figure:
    """Return an empty figure of this many inches, or raise `MissingExtraError`."""
    return _figure_class()(figsize=(width, height), facecolor="white")


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
    _figure_class()
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
    figure.savefig(target, dpi=_DOTS_PER_INCH, metadata=undated[target.suffix.lower()])
    return target


def _figure_class() -> type[Figure]:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError.of("plot", "matplotlib") from None
    return Figure
