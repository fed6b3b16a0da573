"""The cells of one line of CSV or JSON."""

import csv
import json
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from newnormal.arrivals.cells import Cell, shown
from newnormal.errors import InputError

BOM = "\ufeff"  # some programs begin a UTF-8 file with it


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
    """Return the object that a line of JSON lines is, which has keys, else raise an InputError."""
    try:
        record = json.loads(line.removeprefix(BOM))
    except (ValueError, RecursionError) as error:
        raise InputError(f"expected a JSON object, found {shown(line.strip())}: {error}") from None
    if not isinstance(record, dict):
        raise InputError(
            f"expected a JSON object, found {shown(record)}",
            hint='write one object a line, such as {"time": ..., "channel": 1.5}',
        )
    if not record:
        raise InputError("expected an object with channels, found {}")
    return record
