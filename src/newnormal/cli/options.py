"""Options that several commands share."""

import os
import re
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

if TYPE_CHECKING:
    from newnormal.base import BaseDetector
    from newnormal.state import State

_COMMA = re.compile(r",(?![^\[({]*[\])}])")


class FileFormat(StrEnum):
    """The formats of input."""

    csv = "csv"
    jsonl = "jsonl"
    parquet = "parquet"
    excel = "excel"
    prometheus = "prometheus"


class OnDuplicate(StrEnum):
    """What counts of several samples of one time."""

    last = "last"
    mean = "mean"
    error = "error"


OWN_CLASSES = "Classes of your own"  # a panel of the help


def option(
    text: str,
    *names: str,
    default: Any = None,
    shown: bool | str = True,
    panel: str | None = None,
    **more: Any,
) -> Any:
    """Return an option of a command, as the default value of its parameter.

    `text` is its help, `names` how it is spelled where that is not the parameter's name. `default`
    is its value where it is left out (... if it must be there), `shown` that as the help has it,
    `panel` the panel of the help, `more` other arguments of typer's.
    """
    more |= {"help": text, "show_default": shown, "rich_help_panel": panel}
    return typer.Option(default, *names, **more)


def argument(text: str, *, default: Any = None, shown: bool | str = True, **more: Any) -> Any:
    """Return an argument of a command, as the default value of its parameter."""
    return typer.Argument(default, help=text, show_default=shown, **more)


Model = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A detector, written by `newnormal fit`.")
]
StateOrFleet = Annotated[
    Path,
    typer.Argument(
        metavar="STATE",
        help="What `watch --state` writes, a detector's file, or the folder of a fleet.",
    ),
]
Input = Annotated[
    str,
    typer.Argument(
        metavar="INPUT", help="CSV, JSON lines, Excel, Parquet, ...; - is standard input."
    ),
]
Frozen = Annotated[
    bool,
    typer.Option("--frozen", help="Hold weights and trend as they are: no learning on the way."),
]
Loading = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="CLASS",
        help="The model of MODEL, where it is not built in: package.module:Class.",
        rich_help_panel=OWN_CLASSES,
    ),
]
Rule = Annotated[
    str | None,
    typer.Option(
        "--threshold",
        metavar="CLASS",
        help="The threshold's rule of MODEL, where it is not built in: package.module:Class.",
        rich_help_panel=OWN_CLASSES,
    ),
]


def names(values: list[str] | None) -> list[str] | None:
    """Return the names in repeated, comma-separated options.

    A comma inside brackets is part of a name.

    >>> names(["a,b", "size[/var,free],c"])
    ['a', 'b', 'size[/var,free]', 'c']
    """
    if not values:
        return None
    parts = [name for value in values for name in _COMMA.split(value)]
    return [name.strip() for name in parts if name.strip()]


def format_name(value: StrEnum | None) -> Any:
    """Return the name that was chosen, None if none was."""
    return None if value is None else value.value


def samples_or_time(value: str | None) -> float | str | None:
    """Return a number of samples if it is a plain number, else the duration's text."""
    try:
        return None if value is None else float(value)
    except ValueError:
        return value


def importable(path: str) -> str:
    """Return an import path; modules in the current folder can be imported from here on."""
    folder = os.getcwd()
    if ":" in path and folder not in sys.path:
        sys.path.insert(0, folder)
    return path


class Classes(NamedTuple):
    """Import paths of what a state file may hold besides what is built in."""

    model: str | None = None
    threshold: str | None = None

    @classmethod
    def of(cls, model: str | None, threshold: str | None) -> "Classes":
        """Return the classes that were named; modules in the current folder can be imported."""
        return cls(*(None if path is None else importable(path) for path in (model, threshold)))


def from_state(state: "State", origin: str, classes: Classes) -> "BaseDetector":
    """Return the detector of a state."""
    from newnormal import detector

    return detector.from_state(state, origin, *classes)
