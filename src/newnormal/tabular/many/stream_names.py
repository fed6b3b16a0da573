"""The names of many streams: one number a name, in the order of first appearance."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from newnormal.errors import InputError
from newnormal.texts import listed
from newnormal.types import Ints

MISSING = -1
SHARED = -2


class StreamNames:
    """Numbers the names found in one column or several.

    `columns` are for messages; the cells of several are joined by "/", without those that are
    empty. `names` has the name of each number. A name is the text of a cell without spaces around
    it; a whole number has no fraction, which a column of integers gets in pandas where a cell of it
    is missing.

    >>> names = StreamNames(["host"])
    >>> names.codes(["b", "a", " b ", None]), names.names
    (array([ 0,  1,  0, -1]), ['b', 'a'])
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = tuple(columns)
        self._codes: dict[Hashable, int] = {}
        self._parts: dict[str, tuple[str, ...]] = {}
        self._numbers: dict[str, int] = {}
        self.names: list[str] = []

    def codes(self, cells: Sequence[Any]) -> Ints:
        """Return the number of each name: `MISSING` for none, `SHARED` for another's.

        `cells` has a cell a sample, or a tuple of cells if there are several columns.
        """
        codes = self._codes
        for cell in dict.fromkeys(cells):
            if cell not in codes:
                codes[cell] = self._code(cell)
        return np.fromiter(map(codes.__getitem__, cells), dtype=np.int64, count=len(cells))

    def restored(self, name: str) -> int:
        """Return the number of a name that was known before, and know it again."""
        if name not in self._numbers:
            self._numbers[name] = len(self.names)
            self.names.append(name)
        return self._numbers[name]

    def error(self, code: int, cell: Any) -> InputError:
        """Return the error of a cell that `codes` gave no number."""
        if code == SHARED:
            parts = self._texts(cell)
            name = "/".join(filter(None, parts))
            return InputError(
                f"columns {listed(self._columns)}: expected names that differ when joined, found "
                f"{listed(parts)} beside {listed(self._parts[name])}, both {name!r}",
                hint="name the streams in one column",
            )
        return InputError(
            f"{self._where()}: expected the name of a stream, found none",
            hint="every sample needs the name of its stream",
        )

    def nameless(self, count: int) -> InputError:
        """Return the error of rows without a name, by their count."""
        rows = "1 row has" if count == 1 else f"{count} rows have"
        return InputError(
            f"{self._where()}: expected the name of a stream in every row, {rows} none",
            hint="give these rows a name, or leave them out",
        )

    def _where(self) -> str:
        word = "column" if len(self._columns) == 1 else "columns"
        return f"{word} {listed(self._columns)}" if self._columns else "by"

    def _code(self, cell: Any) -> int:
        parts = self._texts(cell)
        name = "/".join(filter(None, parts))
        if not name:
            return MISSING
        if self._parts.setdefault(name, parts) != parts:
            return SHARED
        return self.restored(name)

    def _texts(self, cell: Any) -> tuple[str, ...]:
        return tuple(map(_text, cell)) if isinstance(cell, tuple) else (_text(cell),)


def _text(cell: Any) -> str:
    """Return a cell as text, "" where it is missing.

    >>> _text(7.0), _text(" a "), _text(float("nan"))
    ('7', 'a', '')
    """
    if cell is None or cell != cell or str(cell) in ("NaT", "<NA>"):  # noqa: PLR0124 - NaN
        return ""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell).strip()
