"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Optional

import typer

__all__ = [
    "Act",
    "Columns",
    "Drop",
    "FileFormat",
    "Format",
    "Frozen",
    "Input",
    "Lines",
    "Model",
    "Time",
    "names",
]


class Act(StrEnum):
    """What a person can say of an alarm."""

    accept = "accept"
    reject = "reject"
    rollback = "rollback"


class FileFormat(StrEnum):
    """The formats of input."""

    csv = "csv"
    jsonl = "jsonl"
    parquet = "parquet"


Model = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A detector, as `newnormal fit` wrote it.")
]
Input = Annotated[
    str, typer.Argument(metavar="INPUT", help="CSV, JSON lines or Parquet; - is standard input.")
]
Lines = Annotated[
    str, typer.Argument(metavar="INPUT", help="CSV or JSON lines; - is standard input.")
]
Time = Annotated[
    Optional[str],  # noqa: UP045 - typer evaluates it
    typer.Option(
        metavar="COLUMN", help="The column of times; found by itself where exactly one is."
    ),
]
Columns = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(metavar="NAMES", help="Take only these channels (a,b,c; may be repeated)."),
]
Drop = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(metavar="NAMES", help="Leave these columns out (a,b,c; may be repeated)."),
]
Format = Annotated[
    Optional[FileFormat],  # noqa: UP045
    typer.Option(help="What the input is, where its name does not tell."),
]
Frozen = Annotated[
    bool,
    typer.Option("--frozen", help="Hold weights and trend as they are: no learning on the way."),
]


def names(values: list[str] | None) -> list[str] | None:
    """Return the names in repeated, comma-separated options.

    >>> names(["a,b", "c"])
    ['a', 'b', 'c']
    """
    if not values:
        return None
    return [name.strip() for value in values for name in value.split(",") if name.strip()]
