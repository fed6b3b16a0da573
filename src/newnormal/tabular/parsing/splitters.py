"""Lines taken apart: CSV by its header, JSON lines by their keys."""

from collections.abc import Callable, Sequence
from contextlib import suppress

from newnormal.arrivals.cells import Cell
from newnormal.errors import InputError
from newnormal.tabular.parsing.column_plan import InputColumns
from newnormal.tabular.parsing.dialect import CsvHead
from newnormal.tabular.parsing.line_cells import BOM, json_object, picker, split_line

SplitLines = tuple[list[int], list[Sequence[Cell]], list[tuple[int, InputError]]]


class CsvSplitter:
    """CSV: cells in the order of a header."""

    def __init__(self, head: CsvHead) -> None:
        self.head = head
        self.columns = InputColumns(head.names, head.named, head.nameless)

    def split(self, lines: Sequence[str]) -> SplitLines:
        """Return positions and cells of the lines that fit, and what is wrong with the others."""
        delimiter = self.head.delimiter
        width = len(self.head.names)
        positions: list[int] = []
        rows: list[Sequence[Cell]] = []
        errors: list[tuple[int, InputError]] = []
        for position, line in enumerate(lines):
            if '"' in line or delimiter == " ":
                try:
                    cells = split_line(line, delimiter)
                except InputError as error:
                    errors.append((position, error))
                    continue
            else:
                cells = line.rstrip("\r\n").split(delimiter)
            if len(cells) == width and (cells[0] or (line and not line.isspace())):
                positions.append(position)
                rows.append(cells)
            elif line and not line.isspace():
                errors.append((position, InputError(f"expected {width} cells, found {len(cells)}")))
        return positions, rows, errors


class JsonSplitter:
    """JSON lines: an object a line, whose keys may differ.

    The keys of the first lines are the columns, and `more`, which may come later. With `open_` any
    other key that comes later is a column as well; without, `unknown` is called with it.
    """

    def __init__(
        self,
        lines: Sequence[str],
        more: Sequence[str] = (),
        *,
        open_: bool = False,
        unknown: Callable[[Sequence[str]], None] | None = None,
    ) -> None:
        seen: dict[str, None] = {}
        for line in lines:
            if line and not line.isspace():
                with suppress(InputError):
                    seen.update(dict.fromkeys(json_object(line)))
        if not seen:
            first = next((line for line in lines if line and not line.isspace()), "")
            json_object(first)  # which is an error
        later = tuple(name for name in dict.fromkeys(more) if name not in seen)
        self._open = open_
        self._unknown = unknown
        self._ignored: set[str] = set()
        self._grown = 0  # keys that came later and are columns
        self.columns = InputColumns((*seen, *later), grows=open_, unseen=frozenset(later))
        self._known()

    def _known(self) -> None:
        self._keys = frozenset(self.columns.names)
        self._pick = picker(self.columns.names)

    def split(self, lines: Sequence[str]) -> SplitLines:
        """Return positions and cells of the lines that fit, and what is wrong with the others."""
        positions: list[int] = []
        rows: list[Sequence[Cell]] = []
        errors: list[tuple[int, InputError]] = []
        for position, line in enumerate(lines):
            if not line or line.isspace():
                continue
            try:
                record = json_object(line)
            except InputError as error:
                errors.append((position, error))
                continue
            if record.keys() == self._keys:
                rows.append(self._pick(record))
            else:
                if not record.keys() <= self._keys:
                    new = [name for name in record if name not in self._keys]
                    if self._open and self._grown + len(new) > _MOST:
                        errors.append((position, _too_many(new[0])))
                        continue
                    self._new(new)
                rows.append([record.get(name) for name in self.columns.names])
            positions.append(position)
        width = len(self.columns.names)
        if any(len(row) != width for row in rows):
            rows = [[*row, *[None] * (width - len(row))] for row in rows]
        return positions, rows, errors

    def _new(self, names: Sequence[str]) -> None:
        if self._open:
            self._grown += len(names)
            columns = self.columns
            self.columns = InputColumns((*columns.names, *names), grows=True, unseen=columns.unseen)
            self._known()
            return
        new = [name for name in names if name not in self._ignored]
        if new and self._unknown is not None and len(self._ignored) < _MOST:
            self._ignored.update(new)
            self._unknown(new)


Splitter = CsvSplitter | JsonSplitter

# Keys that come later: as many are columns (each takes a cell of every line), or are known to
# have been reported.
_MOST = 1_000


def _too_many(name: str) -> InputError:
    return InputError(
        f"expected at most {_MOST:,} keys that the first lines do not have, found {name!r} besides",
        hint="a name that is data belongs in a value: write lines of a time, a tag and a value, "
        "and read them with --long (long=True)",
    )


def is_json(line: str) -> bool:
    """Return whether a line begins as an object of JSON lines does."""
    return line.lstrip(BOM + " \t").startswith("{")
