"""What one line of CSV or JSON holds: its cells, and the value of a cell."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, Protocol, TypeAlias

from newnormal.errors import InputError
from newnormal.tabular.columns import Selection, check_unique, listed
from newnormal.tabular.table import default_channels
from newnormal.tabular.times import is_time

__all__ = ["Cell", "CsvCells", "JsonCells", "Splitter", "number", "picker", "shown"]

Cell: TypeAlias = str | float | bool | list[Any] | dict[str, Any] | None

_WORDS = {
    "": float("nan"),
    "nan": float("nan"),
    "null": float("nan"),
    "na": float("nan"),
    "true": 1.0,
    "false": 0.0,
}
_BOM = "\ufeff"  # some programs begin a UTF-8 file with it
_QUOTED = re.compile(r'"[^"]*"')
_JSON_PLAIN = {float, int, bool, type(None)}


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
        word = _WORDS.get(text.lower())
        if word is not None:
            return word
        # float() also takes 1_000 and the digits of other scripts.
        if _is_plain(text):
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


class Splitter(Protocol):
    """A format: its columns, and how to split a line."""

    names: tuple[str, ...]
    header: bool
    """Whether the first line held the names and no sample."""
    named: bool
    """Whether `names` are the input's own."""
    nameless: Sequence[str]
    """Those of `names` that replace an empty cell of the header."""

    def split(self, line: str) -> Sequence[Cell]:
        """Return the line's cells in the order of `names`."""

    def plain(self, line: str, cells: Sequence[Cell]) -> bool:
        """Return whether NumPy reads these cells of the line exactly as `number` does.

        It may still fail where `number` does not.
        """


class CsvCells:
    """CSV: cells between commas, semicolons or tabs, whichever the first line has most of.

    A first line of nothing but numbers, times and missing values is a sample, and its columns
    are named "0", "1", ...; the exception is a line of just those names, as pandas writes for
    unnamed columns. A line is a row: a quoted cell cannot hold a line break.
    """

    def __init__(self, line: str, channels: Sequence[str] | None) -> None:
        bare = _QUOTED.sub("", line)
        self._delimiter = max(",;\t", key=bare.count)
        self._width = 0
        cells = [cell.strip() for cell in self._cells(line)]
        self._width = len(cells)
        self.header = self.named = _is_header(cells, channels or ())
        self.names = default_channels(self._width)
        self.nameless: Sequence[str] = ()
        if self.header:
            self.names = tuple(
                cell or f"column {place}" for place, cell in enumerate(cells, start=1)
            )
            self.nameless = [name for name, cell in zip(self.names, cells, strict=True) if not cell]
            check_unique(self.names)

    def split(self, line: str) -> Sequence[Cell]:
        """Return the line's cells."""
        cells = self._cells(line)
        if len(cells) != self._width:
            raise InputError(f"expected {self._width} cells, found {len(cells)}")
        return cells

    def plain(self, line: str, cells: Sequence[Cell]) -> bool:
        """Return whether NumPy reads these cells of the line as `number` does."""
        return _is_plain(line) or _is_plain("".join(map(str, cells)))

    def _cells(self, line: str) -> list[str]:
        line = line.removeprefix(_BOM).rstrip("\r\n")
        if '"' not in line:
            return line.split(self._delimiter)
        try:
            reader = csv.reader(
                [line], delimiter=self._delimiter, skipinitialspace=True, strict=True
            )
            return next(reader)
        except csv.Error as error:
            raise InputError(
                f"expected cells with matched quotes, found {shown(line)}: {error}"
            ) from None


class JsonCells:
    """JSON lines: an object a line, the first of which defines the columns."""

    header = False
    named = True
    nameless: Sequence[str] = ()

    def __init__(self, line: str, selection: Selection) -> None:
        self.names = tuple(self._object(line))
        if not self.names:
            raise InputError("expected an object with channels, found {}")
        selection.check(self.names)
        self._keys = frozenset(self.names)
        self._pick = picker(self.names)
        wanted = {*selection.kept(self.names), selection.time, selection.label, *selection.by}
        self._needed = [name for name in self.names if name in wanted]
        self._closed = selection.columns is None

    def split(self, line: str) -> Sequence[Cell]:
        """Return the line's values in the order of the first line's."""
        record = self._object(line)
        if record.keys() == self._keys:
            return self._pick(record)
        missing = [name for name in self._needed if name not in record]
        if missing:
            raise InputError(f"expected {listed(missing)} as on the first line, found no such key")
        unknown = [name for name in record if name not in self._keys]
        if unknown and self._closed:
            raise InputError(
                f"found {listed(unknown)}, which the first line did not have",
                hint="name the columns to keep with --columns NAME (columns=)",
            )
        return [record.get(name) for name in self.names]

    def plain(self, line: str, cells: Sequence[Cell]) -> bool:  # noqa: ARG002 - CSV's needs it
        """Return whether NumPy reads these cells as `number` does: there is no text in them."""
        return set(map(type, cells)) <= _JSON_PLAIN

    def _object(self, line: str) -> dict[str, Any]:
        try:
            record = json.loads(line.removeprefix(_BOM))
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"expected a JSON object, found {shown(line.strip())}: {error}"
            ) from None
        if not isinstance(record, dict):
            raise InputError(
                f"expected a JSON object, found {shown(record)}",
                hint='write one object a line, such as {"time": ..., "channel": 1.5}',
            )
        return record


def _is_plain(text: str) -> bool:
    return "_" not in text and text.isascii()


def _is_header(cells: Sequence[str], channels: Sequence[str]) -> bool:
    numbered = tuple(channels) == default_channels(len(channels))
    if not numbered and set(channels) <= set(cells) and not any(map(is_time, cells)):
        return True
    index = cells[0] == ""  # pandas writes the index first, without a name
    names = cells[1:] if index else cells
    if tuple(names) == default_channels(len(names)) and len(cells) > 1:
        return True
    return not any(map(_is_number, cells)) or not all(
        _is_number(cell) or cell.lower() in _WORDS or is_time(cell) for cell in cells
    )


def _is_number(cell: str) -> bool:
    try:
        value = number(cell)
    except ValueError:
        return False
    return cell.lower() not in _WORDS and value == value  # noqa: PLR0124 - NaN is not itself
