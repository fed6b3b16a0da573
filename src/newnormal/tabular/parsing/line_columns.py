"""The columns of an input of lines: where its header is, and headers that come again."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

from newnormal.arrivals.cells import Cell, shown
from newnormal.errors import InputError, ParameterError
from newnormal.tabular.columns import Selection, check_unique
from newnormal.tabular.parsing.column_plan import ColumnInference, ColumnPlan
from newnormal.tabular.parsing.dialect import HEAD_LINES, CsvHead, find_head, is_header_again
from newnormal.tabular.parsing.line_cells import json_object, split_line
from newnormal.tabular.parsing.splitters import CsvSplitter, JsonSplitter, Splitter, is_json
from newnormal.tabular.reading import InputProfile, Reading

LineFormat = Literal["csv", "jsonl"]

_HELD = 1 << 20  # characters of lines that are held
_OFTEN = 64  # held lines up to which each one is looked at
_TELLS = re.compile(r"\d|\b(?:nan|na|null)\b", re.IGNORECASE)  # what a line of data has in it
_KEPT = 64  # headers whose columns are known again


def blank(line: str) -> bool:
    """Return whether a line holds nothing."""
    return not line or line.isspace()


def no_header(lines: Sequence[str]) -> InputError:
    """Return the error of lines among which there is neither a header nor a sample."""
    first = next((line for line in lines if not blank(line)), "")
    try:
        split_line(first, ",")
    except InputError as error:
        return error
    return InputError(f"expected a header or a sample, found {shown(first)}")


class HeadSearch:
    """When to look for the header among the lines that are held.

    Not at each of many lines, so that the time for all of them is linear.
    """

    def __init__(self) -> None:
        self._looked = self._next = 0

    def is_last(self, lines: Sequence[str], final: bool) -> bool:
        """Return whether the header is decided on, as no more lines come or are held."""
        return final or len(lines) >= HEAD_LINES or sum(map(len, lines)) > _HELD

    def may_tell(self, lines: Sequence[str]) -> bool:
        """Return whether lines may tell where the header is; asked once for the same ones."""
        count = len(lines)
        new, self._looked = lines[self._looked :], count
        if count < self._next or not any(map(_TELLS.search, new)):
            return False
        if count > _OFTEN:
            self._next = count + count // 16
        return True


class LineColumns:
    """Finds out the columns of an input from its first lines, and again from a later header.

    The parameters are those of `ColumnInference`; with `grows` a new key of JSON lines is a new
    channel. `choose` makes the selection from the names of the first header, or refuses them.
    """

    def __init__(
        self,
        reading: Reading,
        selection: Selection,
        channels: Sequence[str] | None,
        profile: InputProfile,
        report: Callable[[str], None],
        *,
        grows: bool = False,
        texts: bool = False,
        choose: Callable[[Sequence[str]], Selection] | None = None,
    ) -> None:
        kind = reading.format
        if kind not in (None, "csv", "jsonl"):
            raise ParameterError(f"expected lines of format csv or jsonl, found {kind!r}")
        self.kind: LineFormat | None = kind
        self._reading, self._choose = reading, choose
        self._expected = None if channels is None else tuple(channels)
        self._grows = grows
        self._profile, self._report = profile, report
        self.inference = ColumnInference(selection, reading, channels, profile, report, texts)
        self.splitter: Splitter | None = None
        self.plan: ColumnPlan | None = None
        self.header_line: str | None = None
        self.sample_line: str | None = None
        self._plans: dict[tuple[str, ...], ColumnPlan] = {}
        self._said = False
        self._search = HeadSearch()

    @property
    def selection(self) -> Selection:
        """The columns as they were chosen."""
        return self.inference.selection

    @property
    def head(self) -> CsvHead | None:
        """How CSV begins."""
        return self.splitter.head if isinstance(self.splitter, CsvSplitter) else None

    def open(self, lines: Sequence[str], final: bool) -> frozenset[int] | None:
        """Find the header; return the positions of lines that hold no sample, None: not yet."""
        first = next((line for line in lines if not blank(line)), "")
        if not first:
            return None
        if self.kind is None:
            self.kind = "jsonl" if is_json(first) else "csv"
        if self.kind == "jsonl":
            self.header_line = self._chosen_json(lines) if self._choose is not None else first
            self.splitter = self._json(lines)
            return frozenset()
        final = self._search.is_last(lines, final)
        if not final and not self._search.may_tell(lines):
            return None
        reading, by = self._reading, self.selection.by
        chosen = self.selection.time
        names = (*(self.selection.columns or ()), *by, *(() if chosen is None else (chosen,)))
        head = find_head(
            lines, replace(reading, columns=names or None), self._expected, final=final
        )
        if head is None:
            if final:
                raise no_header(lines)
            return None
        if self._choose is not None:
            self.inference.selection = self._choose(head.names)
        self.splitter = CsvSplitter(head)
        self.header_line = head.header or first
        self._profile.written.update(head.written)
        self._profile.units.update(head.units)
        return head.skipped

    def _chosen_json(self, lines: Sequence[str]) -> str:
        """Make the selection from the keys of the first line that has all it needs; return that."""
        assert self._choose is not None
        refused: InputError | None = None
        for line in lines[:HEAD_LINES]:
            try:
                if not blank(line):
                    self.inference.selection = self._choose(tuple(json_object(line)))
                    return line
            except InputError as error:
                refused = refused or error
        raise refused or no_header(lines)

    def _json(self, lines: Sequence[str]) -> JsonSplitter:
        chosen = self.selection
        rates = [name for name in chosen.rates if "*" not in name]
        more = (*(self._expected or ()), *chosen.drop, *(chosen.columns or ()), *rates)
        return JsonSplitter(
            lines[:HEAD_LINES],
            more,
            open_=self._grows and chosen.columns is None,
            unknown=self.inference.tell_unknown,
        )

    def check(self) -> None:
        """Raise an InputError if an option names no column; infer columns without times."""
        assert self.splitter is not None
        names = self.splitter.columns.names
        if self._expected is None:
            self.selection.check(names)
        if self._expected is not None:
            free = self.selection.maybe_times(names, self._expected)
            if not free or set(self._expected).isdisjoint(names):
                self.plan = self.inference.infer_columns(self.splitter.columns, ())

    def infer_columns(self, rows: Sequence[Sequence[Cell]]) -> ColumnPlan:
        """Find out what each column is from the cells of lines; raise if all would be wrong."""
        assert self.splitter is not None
        columns = self.splitter.columns
        plan = None if columns.grows else self._plans.get(columns.names)
        if plan is None:
            if self.plan is not None and not columns.grows:
                self.inference.channels = self.plan.roles.channels
            plan = self.inference.infer_columns(columns, self._own(rows[:HEAD_LINES]))
            if len(self._plans) < _KEPT and not columns.grows:
                self._plans[columns.names] = plan
        self.plan = plan
        return plan

    def _own(self, rows: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
        """Return the rows before a header that comes again, which has its own columns."""
        head = self.head
        if head is None or not head.named:
            return rows
        names = {*head.names, *(self.inference.channels or ())}
        again = (
            row
            for row, cells in enumerate(rows)
            if cells[0].strip() in names
            and is_header_again(cells, head.names, self.inference.channels)
        )
        return rows[: next(again, len(rows))] or rows

    def headers(
        self,
        lines: Sequence[str],
        positions: Sequence[int],
        rows: Sequence[Sequence[Any]],
        errors: Sequence[tuple[int, InputError]],
    ) -> list[int]:
        """Return the positions of lines that are headers again, as of files put together."""
        head, plan = self.head, self.plan
        if head is None or plan is None or not head.named:
            return []
        channels = plan.roles.channels
        names = {*head.names, *channels}
        column = next((index for index in plan.positions if index >= 0), 0)
        headers = [
            position
            for position, cells in zip(positions, rows, strict=True)
            if cells[column].strip() in names and is_header_again(cells, head.names, channels)
        ]
        for position, _ in errors:
            if not lines[position]:
                continue
            try:
                cells = split_line(lines[position], head.delimiter)
            except InputError:
                continue
            if is_header_again(cells, head.names, channels):
                headers.append(position)
        return sorted(headers)

    def take_header(self, line: str, number: int) -> None:
        """Read columns by a header that came again, in line `number`."""
        head = self.head
        assert head is not None
        names = tuple(cell.strip() for cell in split_line(line, head.delimiter))
        if not self._said:
            self._said = True
            same = "the same columns" if names == head.names else "columns are read by it"
            self._report(f"line {number}: a header again, {same} from here on")
        if names == head.names:
            return
        names = tuple(name or f"column {column}" for column, name in enumerate(names, start=1))
        check_unique(names)
        nameless = tuple(name for name in names if name.startswith("column "))
        self.header_line, self.sample_line = line, None
        self.splitter = CsvSplitter(
            replace(head, names=names, header=line, nameless=nameless, skipped=frozenset())
        )

    @property
    def lacks_plan(self) -> bool:
        """Whether it is not known what each column of the header is."""
        if self.plan is None or self.splitter is None:
            return True
        return self.sample_line is None
