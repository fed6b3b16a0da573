"""Lines of CSV or JSON as samples: a few at a time for a pipe, many at a time for a file."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from newnormal.arrivals.cells import Cell
from newnormal.errors import InputError
from newnormal.tabular.columns import Selection
from newnormal.tabular.parsing.blocks import ParsedSamples, PlainLine, Sample, joined, read_block
from newnormal.tabular.parsing.column_plan import check_texts
from newnormal.tabular.parsing.line_columns import LineColumns, blank
from newnormal.tabular.reading import BadCells, InputProfile, Reading

# A line that does not fit is a bad line, but an input whose every line does not fit is a wrong one.
_PATIENCE = 10


class LineParser:
    r"""Reads samples from lines of CSV or JSON, by the same rules as `read`.

    The lines of an input are given in order to `parse_many`, as many at a time as there are. It
    holds the first ones until a line of data shows where the header is and how cells are written.

    `reading`: how the input is written, and what is taken from it.
    `channels`: the channels expected, matched by name, by count if the input has no names. None
    takes what there is.
    `by`: columns whose cells are names.
    `strict`: whether a cell that is no number makes a bad line; else it is a missing value.
    `report`: called with a line for the user; without it that is in `profile.notes`.
    `selection`: the columns, if they are not those of `reading`.
    `choose`: makes the selection from the names of the first header, or refuses them.
    `grows`: whether a new key of JSON lines is a new channel.
    `texts`: whether a column of text may be a channel: each cell is a missing value.

    `profile`: what was found out.

    >>> parser = LineParser()
    >>> samples = parser.parse_many(["Plant 7", "time;load;temperature"])
    >>> len(samples.rows)
    0
    >>> samples = parser.parse_many(["31.12.2026 00:00;0,5;NA", "31.12.2026 00:01;high;20"])
    >>> samples.values.tolist(), parser.profile.bad_cells["load"].example
    ([[0.5, nan], [nan, 20.0]], 'high')
    """

    def __init__(
        self,
        reading: Reading | None = None,
        *,
        channels: Sequence[str] | None = None,
        by: str | Sequence[str] = (),
        strict: bool = False,
        report: Callable[[str], None] | None = None,
        selection: Selection | None = None,
        choose: Callable[[Sequence[str]], Selection] | None = None,
        grows: bool = False,
        texts: bool = False,
    ) -> None:
        self._reading = Reading() if reading is None else reading
        self._expected = None if channels is None else tuple(channels)
        self._strict, self._texts = strict, texts
        self._callback = report
        self.profile = InputProfile()
        self.columns = LineColumns(
            self._reading,
            selection or Selection.of_reading(self._reading, by),
            channels,
            self.profile,
            self.profile.notes.append if report is None else report,
            grows=grows,
            texts=texts,
            choose=choose,
        )
        self._held: list[str] = []
        self._line = 0
        self._misfits = 0
        self._misfit: InputError | None = None
        self._numbers: dict[str, int] = {}
        self._plain: PlainLine | None = None
        self._bad: InputError | None = None

    @classmethod
    def open(
        cls,
        *first_lines: str,
        reading: Reading | None = None,
        channels: Sequence[str] | None = None,
        strict: bool = False,
        report: Callable[[str], None] | None = None,
        **options: Any,
    ) -> "LineParser":
        """Return a parser that knows the columns from the first lines of an input.

        `first_lines`: the first lines, such as the header: nothing is held. If there is no header
        (`header_consumed`) they are still to be parsed. `reading`, `channels`, `strict`, `report`:
        as for the class. `options`: those of `Reading`, where there is none.

        >>> parser = LineParser.open("time,load,temperature")
        >>> sample = parser.parse("2026-01-01T00:00:00Z,0.5,NA")
        >>> sample.values, sample.time
        (array([0.5, nan]), np.datetime64('2026-01-01T00:00:00.000000000'))
        """
        parser = cls(
            Reading.of(options) if reading is None else reading,
            channels=channels,
            strict=strict,
            report=report,
        )
        parser.begin(first_lines)
        return parser

    def begin(self, lines: Sequence[str]) -> None:
        """Find the columns in the first lines of an input, without parsing these."""
        if all(map(blank, lines)):
            raise InputError("expected a header or a sample, found a blank line")
        skipped = self.columns.open(lines, final=True) or frozenset()
        rest = [
            line
            for position, line in enumerate(lines)
            if position not in skipped and not blank(line)
        ]
        if not rest or not self._infer_columns(rest):
            self.columns.check()

    @property
    def header_consumed(self) -> bool:
        """Whether the input has a header."""
        head = self.columns.head
        return head is not None and head.header is not None

    @property
    def next_line(self) -> int:
        """The number of the line that follows those parsed before."""
        return self._line + 1

    @property
    def has_plan(self) -> bool:
        """Whether it is known what each column is."""
        return self.columns.plan is not None

    @property
    def fixed(self) -> bool:
        """Whether there cannot be more columns than now."""
        splitter = self.columns.splitter
        grows = splitter is not None and splitter.columns.grows
        return not grows or self.columns.selection.columns is not None

    @property
    def channels(self) -> tuple[str, ...] | None:
        """The channels' names in the order of the values; None while that is not known."""
        return None if self.columns.plan is None else self.columns.plan.roles.channels

    @property
    def time(self) -> str | None:
        """The column of times; None if there is none, or while that is not known."""
        return None if self.columns.plan is None else self.columns.plan.roles.time

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns of the names."""
        return self.columns.selection.by

    @property
    def zone(self) -> str | None:
        """The zone of the newest time: a name, or an offset such as "+02:00"; None: it has none."""
        return None if self.columns.plan is None else self.columns.plan.times.zone

    def parse(self, line: str) -> Sample | None:
        """Return the line's sample, or None if the line is blank or no sample yet.

        Raise an InputError if the line holds no sample; the message names the column.
        """
        samples = self.parse_many([line])
        for *_, error in samples.errors:
            raise error
        if not len(samples.rows):
            return None
        time = None if samples.times is None else samples.times[-1]
        label = None if samples.labels is None else int(samples.labels[-1])
        return Sample(samples.values[-1], time, label)

    def parse_many(
        self, lines: Sequence[str], first: int | None = None, *, final: bool = False
    ) -> ParsedSamples:
        """Return the samples of the next lines, and what is wrong with the others.

        `lines`: the lines, with or without their ends. `first`: the number of the first of them; by
        default they follow those parsed before. `final`: whether no more will come: lines that are
        held are decided on.

        Raise an InputError if every line would be wrong.
        """
        start = self.next_line if first is None else first
        self._line = start + len(lines) - 1
        if len(lines) == 1 and not self._held and (one := self._one(lines[0])) is not None:
            return one
        held, self._held = self._held, []
        if held:
            lines = [*held, *lines]
            start -= len(held)
        blocks = self._parsed(lines, start, final)
        for offset, block in blocks:
            self._count(block, start + offset)
        width = len(self.channels or self._expected or ())
        return joined(blocks, len(held), width, self.columns.plan)

    def check(self) -> None:
        """Raise an InputError, at the end of an input, if none of its lines opens it.

        Lines that are held stay so: an input that grows goes on with them.
        """
        parser = self if self._misfit is not None else deepcopy(self)
        if parser.columns.splitter is None and parser._misfit is None:
            parser.parse_many([], final=True)
        if parser.columns.splitter is None and parser._misfit is not None:
            raise parser._misfit

    def finish(self) -> None:
        """Raise an InputError, at the end of an input, if most of it could not be read."""
        profile = self.profile
        if self.columns.plan is not None:
            profile.decimal = self.columns.plan.numbers.decimal
            if profile.decimal == ",":
                profile.written["decimal"] = "comma"
        if self._expected is None and not self._texts:
            texts: dict[str, list[Cell]] = {
                column: [bad.example]
                for column, bad in profile.bad_cells.items()
                if bad.count > self._numbers.get(column, 0)
            }
            names = () if self.columns.splitter is None else self.columns.splitter.columns.names
            check_texts(texts, names)
        if profile.bad_lines * 2 > profile.lines:
            hint = None if self._bad is None else self._bad.hint
            count = (
                ""
                if profile.bad_lines == 1
                else f" ({profile.bad_lines:,} of {profile.lines:,} lines)"
            )
            raise InputError(f"{profile.first_bad}{count}", hint=hint)

    def facts(self) -> dict[str, Any]:
        """Return what was found out about the columns, as JSON values, for `restore`."""
        columns = self.columns
        plan = columns.plan
        facts: dict[str, Any] = {
            "opened_by": columns.header_line,
            "settled_by": columns.sample_line,
        }
        if self._held:
            facts["held"] = list(self._held)
        if plan is not None:
            facts["decimal"] = plan.numbers.decimal
            facts["date_format"] = plan.times.style.text
            if plan.times.clock is not None:
                facts["clock"] = plan.times.clock.facts()
        return facts

    def restore(self, facts: Mapping[str, Any]) -> None:
        """Restore what `facts` returned, before the first line is parsed."""
        opened_by, settled_by = facts.get("opened_by"), facts.get("settled_by")
        self._held = list(facts.get("held") or ())
        if opened_by is None:
            return
        self.columns.inference.remember(facts.get("decimal"), facts.get("date_format"))
        lines = [opened_by] if settled_by in (None, opened_by) else [opened_by, settled_by]
        self.begin(lines)
        clock = self.columns.inference.clock
        if clock is not None:
            clock.restore(facts.get("clock") or ())

    def _parsed(
        self, lines: Sequence[str], start: int, final: bool
    ) -> list[tuple[int, ParsedSamples]]:
        columns = self.columns
        skipped: frozenset[int] = frozenset()
        if columns.splitter is None:
            try:
                opened = columns.open(lines, final)
            except InputError as error:
                if columns.kind != "jsonl":
                    raise
                return [(0, self._refuse(lines, error))]
            if opened is None:
                refused = [(position, None, error) for position, error in _refused(lines)]
                there = not all(map(blank, lines)) and not final
                self._held = list(lines) if there else []
                return [] if there else [(0, ParsedSamples.of_errors([*refused]))]
            skipped = opened
        assert columns.splitter is not None
        if skipped:  # passed over as if they were blank
            lines = ["" if position in skipped else line for position, line in enumerate(lines)]
        positions, rows, errors = columns.splitter.split(lines)
        if columns.lacks_plan and rows:
            plan = columns.infer_columns(rows)
            columns.sample_line = lines[positions[0]]
            empty = frozenset() if columns.head is None else columns.head.empty
            if skipped and empty and plan.time_at is not None:
                kept = [row for row, position in enumerate(positions) if position not in empty]
                positions, rows = [positions[row] for row in kept], [rows[row] for row in kept]
        errors += _refused(lines)
        if columns.plan is None:
            return [(0, ParsedSamples.of_errors([(row, None, error) for row, error in errors]))]
        marks = columns.headers(lines, positions, rows, errors)
        if not marks:
            return [(0, self._block(positions, rows, errors))]
        return self._segments(lines, start, marks)

    def _one(self, line: str) -> ParsedSamples | None:
        """Return the sample of a plain line, once the columns are known; None: it is not plain."""
        columns = self.columns
        plan, splitter = columns.plan, columns.splitter
        if plan is None or splitter is None or columns.sample_line is None:
            return None
        plain = self._plain
        if plain is None or plain.plan is not plan or plain.splitter is not splitter:
            plain = self._plain = PlainLine(plan, splitter)
        if (sample := plain.read(line)) is None:
            return None
        self.profile.lines += 1
        if self._expected is None:
            for column in plan.roles.columns:
                self._numbers[column] = self._numbers.get(column, 0) + 1
        return sample

    def _segments(
        self, lines: Sequence[str], start: int, marks: Sequence[int]
    ) -> list[tuple[int, ParsedSamples]]:
        columns = self.columns
        blocks: list[tuple[int, ParsedSamples]] = []
        ends = [*marks, len(lines)]
        begin = 0
        for end in ends:
            segment = lines[begin:end]
            assert columns.splitter is not None
            positions, rows, errors = columns.splitter.split(segment)
            errors += _refused(segment)
            if rows and columns.lacks_plan:
                columns.infer_columns(rows)
                columns.sample_line = segment[positions[0]]
            blocks.append((begin, self._block(positions, rows, errors)))
            if end < len(lines):
                columns.take_header(lines[end], start + end)
            begin = end + 1
        return blocks

    def _block(
        self, positions: list[int], rows: list[Sequence[Cell]], errors: list[tuple[int, InputError]]
    ) -> ParsedSamples:
        columns = self.columns
        assert columns.splitter is not None
        assert columns.plan is not None
        if rows and columns.splitter.columns.grows and len(rows[0]) != columns.plan.width:
            columns.infer_columns(rows)  # find out what the new keys of JSON lines are
        return read_block(columns.plan, positions, rows, errors, strict=self._strict)

    def _infer_columns(self, lines: Sequence[str]) -> bool:
        columns = self.columns
        assert columns.splitter is not None
        positions, rows, _ = columns.splitter.split(lines)
        if rows:
            columns.infer_columns(rows)
            columns.sample_line = lines[positions[0]]
        return bool(rows)

    def _refuse(self, lines: Sequence[str], error: InputError) -> ParsedSamples:
        """Return lines as bad ones, none of which opens the input, unless there are too many."""
        wrong: list[tuple[int, Any, InputError]] = []
        for position, line in enumerate(lines):
            if not blank(line):
                wrong.append((position, None, error))
        self._misfits += len(wrong)
        self._misfit = error
        if self._misfits >= _PATIENCE:
            raise error
        return ParsedSamples.of_errors(wrong)

    def _count(self, block: ParsedSamples, start: int) -> None:
        profile = self.profile
        profile.lines += len(block.rows) + len(block.errors)
        profile.bad_lines += len(block.errors)
        if block.errors and profile.first_bad is None:
            position, _, self._bad = block.errors[0]
            profile.first_bad = f"line {start + position}: {self._bad.message}"
        for column, bad in block.bad_cells.items():
            if (counted := profile.bad_cells.get(column)) is not None:
                counted.count += bad.count
                continue
            line = start + bad.line
            profile.bad_cells[column] = BadCells(bad.count, line, bad.example)
            if self._callback is not None:
                self._callback(
                    f"line {line}: column {column!r}: expected a number, found {bad.example!r}: "
                    "it counts as missing"
                )
        if self._expected is None and len(block.rows):
            assert self.columns.plan is not None
            counts = np.count_nonzero(~np.isnan(block.values), axis=0).tolist()
            for column, count in zip(self.columns.plan.roles.columns, counts, strict=False):
                self._numbers[column] = self._numbers.get(column, 0) + count


def _refused(lines: Sequence[str]) -> list[tuple[int, InputError]]:
    return [
        (position, line.error)  # type: ignore[attr-defined]
        for position, line in enumerate(lines)
        if type(line) is not str
    ]
