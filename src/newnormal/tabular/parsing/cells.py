"""What one line of CSV or JSON holds: its cells, and the value of a cell."""

import csv
import json
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

from newnormal.errors import InputError

Cell: TypeAlias = str | float | bool | list[Any] | dict[str, Any] | None

WORDS = {
    "": float("nan"),
    "nan": float("nan"),
    "null": float("nan"),
    "na": float("nan"),
    "true": 1.0,
    "false": 0.0,
}
MISSING = frozenset({"", "nan", "null", "na"})
BOM = "\ufeff"  # some programs begin a UTF-8 file with it


def number(cell: Cell) -> float:
    """Return the number a cell holds, NaN where it is missing.

    An empty cell, NaN, null and NA are missing, true is 1 and false is 0, in any case; all else
    is a number as Python and JSON write it, or a `ValueError`.

    >>> number(" 1.5e3 "), number("NA"), number(True)
    (1500.0, nan, 1.0)
    """
    if cell is None:
        return float("nan")
    if isinstance(cell, str):
        text = cell.strip()
        if (word := WORDS.get(text.lower())) is not None:
            return word
        # float() also takes 1_000 and the digits of other scripts.
        if "_" not in text and text.isascii():
            return float(text)
    elif isinstance(cell, int | float):
        try:
            return float(cell)
        except OverflowError:
            return float("inf")
    raise ValueError(cell)


def shown(cell: Cell, limit: int = 40) -> str:
    """Return a cell as it is shown in a message, cut where it is long."""
    text = repr(cell) if isinstance(cell, str) else json.dumps(cell)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def picker(keys: Sequence[Any]) -> Callable[[Any], Sequence[Cell]]:
    """Return the function that takes what is at some keys or positions, in that order."""
    if len(keys) == 1:  # itemgetter of one key returns no tuple
        return lambda cells: (cells[keys[0]],)
    return itemgetter(*keys)


def split_line(line: str, delimiter: str) -> list[str]:
    r"""Return the cells of a line of CSV; a space as delimiter is any number of them.

    >>> split_line('1, "a,b",2\n', ","), split_line(" 1  2 ", " ")
    (['1', 'a,b', '2'], ['1', '2'])

    A line is a row: a quoted cell cannot hold a line break, and its quote must be closed.
    """
    line = line.rstrip("\r\n")
    if '"' not in line:
        return line.split() if delimiter == " " else line.split(delimiter)
    try:
        text = " ".join(line.split()) if delimiter == " " else line
        return next(csv.reader([text], delimiter=delimiter, skipinitialspace=True, strict=True))
    except csv.Error as error:
        raise InputError(
            f"expected cells with matched quotes, found {shown(line)}: {error}"
        ) from None


def json_object(line: str) -> dict[str, Any]:
    """Return the object that a line of JSON lines is, else raise an InputError."""
    try:
        record = json.loads(line.removeprefix(BOM))
    except (ValueError, RecursionError) as error:
        raise InputError(f"expected a JSON object, found {shown(line.strip())}: {error}") from None
    if not isinstance(record, dict):
        raise InputError(
            f"expected a JSON object, found {shown(record)}",
            hint='write one object a line, such as {"time": ..., "channel": 1.5}',
        )
    return record
