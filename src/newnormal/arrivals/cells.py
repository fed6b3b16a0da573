"""The one table of cells: which number a cell of any input holds, and which words are missing."""

import json
from collections.abc import Mapping, Sequence
from math import nan
from typing import Any, TypeAlias

import numpy as np

from newnormal.types import Floats

Cell: TypeAlias = str | float | bool | list[Any] | dict[str, Any] | None

# Words for a missing value. An infinite number has no meaning that a detector could use.
MISSING = frozenset(
    {"", "na", "null", "none", "unavailable", "unknown"}
    | {sign + word for sign in ("", "+", "-") for word in ("nan", "inf", "infinity")}
)
WORDS = {**dict.fromkeys(MISSING, nan), "true": 1.0, "false": 0.0}
_AS_NAN = {form(word): "nan" for word in MISSING for form in (str.lower, str.upper, str.title)}
_OF_JSON = {float, int, bool, type(None)}


def number(cell: Cell) -> float:
    """Return the number a cell holds, NaN where it is missing, else raise a ValueError.

    `MISSING` are words for a missing value, true is 1 and false is 0, in any case; all else is a
    number as Python and JSON write it. One that is infinite, or too large for 64 bits, is missing.

    >>> number(" 1.5e3 "), number("NA"), number(True), number("1e999")
    (1500.0, nan, 1.0, nan)
    """
    if isinstance(cell, str):
        text = cell.strip()
        # float() also takes 1_000 and the digits of other scripts.
        if text.isascii() and "_" not in text:
            try:
                return _finite(float(text))
            except ValueError:
                pass
        if (word := WORDS.get(text.lower())) is not None:
            return word
    elif isinstance(cell, int | float):
        try:
            return _finite(float(cell))
        except OverflowError:
            return nan
    elif cell is None:
        return nan
    raise ValueError(cell)


def numbers(cells: Sequence[Cell]) -> tuple[Floats, list[int]]:
    """Return the numbers of cells, NaN where there is none, and which cells hold none.

    >>> numbers(["1", "NA", "high"])
    (array([ 1., nan, nan]), [2])
    """
    if (values := plain_numbers(cells)) is not None:
        return values, []
    values, bad = np.full(len(cells), nan), []
    for row, cell in enumerate(cells):
        try:
            values[row] = number(cell)
        except ValueError:
            bad.append(row)
    return values, bad


def plain_numbers(cells: Sequence[Any]) -> Floats | None:
    """Return the numbers of cells that are all texts or all of JSON, fast; None if any is not."""
    try:
        text = "".join(cells)
    except TypeError:
        return _of_json(cells)
    return text_numbers(cells) if text.isascii() and "_" not in text else None


def text_numbers(cells: Sequence[str], missing: Mapping[str, str] = _AS_NAN) -> Floats | None:
    """Return the numbers of texts in ASCII without underscores; None if any holds none.

    `missing` has "nan" for each word for a missing value.
    """
    count = len(cells)
    try:
        values = np.fromiter(map(float, cells), np.float64, count)
    except ValueError:
        try:
            texts = (missing.get(cell, cell) for cell in cells)
            values = np.fromiter(map(float, texts), np.float64, count)
        except ValueError:
            return None
    values[np.isinf(values)] = nan
    return values


def as_nan(words: Sequence[str]) -> dict[str, str]:
    """Return what `text_numbers` takes for `missing`, with more words."""
    return {**_AS_NAN, **dict.fromkeys(words, "nan")}


def shown(cell: Cell, limit: int = 40) -> str:
    """Return a cell as it is shown in a message, cut where it is long."""
    text = repr(cell) if isinstance(cell, str) else json.dumps(cell)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _finite(value: float) -> float:
    return value if value - value == 0 else nan


def _of_json(cells: Sequence[Any]) -> Floats | None:
    if not set(map(type, cells)) <= _OF_JSON:
        return None
    try:
        values = np.array(cells, np.float64)
    except OverflowError:
        return None
    values[np.isinf(values)] = nan
    return values
