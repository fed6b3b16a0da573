"""Lines of many streams, in any order, as samples."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from newnormal.errors import InputError, ParameterError
from newnormal.tabular.columns import Selection, listed
from newnormal.tabular.many.stream_batch import StreamBatch
from newnormal.tabular.many.stream_names import StreamNames
from newnormal.tabular.parsing.blocks import ParsedSamples
from newnormal.tabular.parsing.cells import json_object
from newnormal.tabular.parsing.dialect import find_head
from newnormal.tabular.parsing.line_columns import HeadSearch, blank, no_header
from newnormal.tabular.parsing.lines import LineParser
from newnormal.tabular.parsing.splitters import is_json
from newnormal.tabular.problems import Problem
from newnormal.tabular.reading import InputProfile, Reading

# A line that does not fit is a bad line, but an input whose every line does not fit is a wrong one.
_PATIENCE = 10


class LineReader(ABC):
    """Opens an input of lines with its first lines; what wide and long lines share."""

    def __init__(
        self,
        by: str | Sequence[str],
        reading: Reading,
        *,
        strict: bool = False,
        report: Callable[[str], None] | None = None,
    ) -> None:
        self._by = (by,) if isinstance(by, str) else tuple(by)
        if reading.format not in (None, "csv", "jsonl"):
            raise ParameterError(f"expected lines of format csv or jsonl, found {reading.format!r}")
        self._reading = reading
        self._strict, self._report = strict, report
        self._parser: LineParser | None = None
        self._held: list[str] = []
        self._search = HeadSearch()
        self._misfits = 0
        self._misfit: InputError | None = None
        self._line = 0

    @property
    def profile(self) -> InputProfile:
        """What was found out about the input so far."""
        return InputProfile() if self._parser is None else self._parser.profile

    @property
    def zone(self) -> str | None:
        """The zone of the newest time: a name, or an offset such as "+02:00"; None: it has none."""
        return None if self._parser is None else self._parser.zone

    @property
    def channels(self) -> tuple[str, ...]:
        """The columns of the values so far."""
        return () if self._parser is None else self._parser.channels or ()

    def facts(self) -> dict[str, Any]:
        """Return the lines that the columns were found in, for `restore`."""
        if self._parser is not None:
            return self._parser.facts()
        facts: dict[str, Any] = {"opened_by": None, "settled_by": None}
        return {**facts, "held": list(self._held)} if self._held else facts

    def restore(self, facts: Mapping[str, Any]) -> None:
        """Restore what `facts` returned, before the first line is read."""
        opened_by = facts.get("opened_by")
        if opened_by is None:
            self._held = list(facts.get("held") or ())
            return
        parser = self._opened([opened_by], final=True)
        assert parser is not None  # a line decides
        parser.restore(facts)
        self._parser = parser

    def check(self) -> None:
        """Raise an InputError, at the end of the input, if no line of it was read."""
        if self._misfit is not None:
            raise self._misfit
        if self._parser is None and self._held:
            self._opened(self._held, final=True)  # for its error: the lines are still to be read

    def read(
        self, lines: Sequence[str], first: int | None = None, *, final: bool = False
    ) -> tuple[int, ParsedSamples]:
        """Return the number of the first line, and what the lines hold, names as cells.

        The parameters are those of `LineParser.parse_many`.
        """
        start = self._line + 1 if first is None else first
        self._line = start + len(lines) - 1
        if self._parser is not None:
            return start, self._parser.parse_many(lines, start, final=final)
        held, self._held = self._held, []
        lines = [*held, *lines]
        errors: list[tuple[int, Any, InputError]] = []
        skip = 0
        while self._parser is None and skip < len(lines):
            try:
                self._parser = self._opened(lines[skip:], final)
            except InputError as error:
                skip += self._refuse(lines, skip, error, errors)
                continue
            if self._parser is None:
                held_back = lines[skip:]
                self._held = [] if final or all(map(blank, held_back)) else held_back
                break
        if self._parser is None:
            errors = [(row - len(held), key, error) for row, key, error in errors]
            return start, ParsedSamples.of_errors(errors)
        self._misfit = None
        samples = self._parser.parse_many(lines[skip:], start - len(held) + skip, final=final)
        shift = skip - len(held)
        errors = [(row - len(held), key, error) for row, key, error in errors]
        errors += [(shift + row, key, error) for row, key, error in samples.errors]
        return start, replace(samples, rows=samples.rows + shift, errors=errors)

    def _refuse(
        self,
        lines: Sequence[str],
        skip: int,
        error: InputError,
        errors: list[tuple[int, Any, InputError]],
    ) -> int:
        """Take the next line for a bad one that opens nothing; return how many are used up."""
        position = next(row for row in range(skip, len(lines)) if not blank(lines[row]))
        self._misfits += 1
        self._misfit = error
        if not self._is_json(lines[position]) or self._misfits >= _PATIENCE:
            raise error
        errors.append((position, None, error))
        return position + 1 - skip

    def _is_json(self, line: str) -> bool:
        return self._reading.format == "jsonl" or (self._reading.format is None and is_json(line))

    def _opened(self, lines: Sequence[str], final: bool) -> LineParser | None:
        """Return the parser that the first lines ask for; None while they do not tell."""
        first = next((line for line in lines if not blank(line)), None)
        if first is None:
            return None
        if self._is_json(first):
            names: tuple[str, ...] = tuple(json_object(first))
            if not names:
                raise InputError("expected an object with channels, found {}")
        else:
            final = self._search.is_last(lines, final)
            if not final and not self._search.may_tell(lines):
                return None
            reading = replace(self._reading, columns=self._by or None)
            head = find_head(lines, reading, final=final)
            if head is None:
                if final:
                    raise no_header(lines)
                return None
            names = head.names
        for name in self._by:
            if name not in names:
                raise InputError(
                    f"by names column {name!r}, found only {listed(names)}",
                    hint="the header names the columns: name that of the streams with --by",
                )
        return LineParser(
            self._reading,
            selection=self._selection(names),
            grows=True,
            strict=self._strict,
            report=self._report,
            texts=self._texts,
        )

    _texts = False

    @abstractmethod
    def _selection(self, names: Sequence[str]) -> Selection:
        """Return what the columns are, given those of the first line."""


class StreamLines(LineReader):
    r"""Reads lines of CSV or JSON that are samples of many streams, by the rules of `LineParser`.

    Parameters
    ----------
    by
        The columns that name the stream; the cells of several are joined by "/".
    reading
        How the input is written, and what is taken from it.
    strict
        Whether a cell that is no number makes a bad line; else it is a missing value.
    report
        Called with a line for the user.
    options
        Those of `Reading`, where there is none.

    >>> lines = StreamLines("host")
    >>> batch = lines.parse(["host,load,heat", "a,1,", "b,,20", "a,high,", "a,1"])
    >>> [batch.names[code] for code in batch.codes], batch.channels, batch.values.tolist()
    (['a', 'b', 'a'], ('load', 'heat'), [[1.0, nan], [nan, 20.0], [nan, nan]])
    >>> problem = batch.problems[0]
    >>> print(problem.number, problem.error.message)
    5 expected 3 cells, found 2
    """

    def __init__(
        self,
        by: str | Sequence[str],
        *,
        reading: Reading | None = None,
        strict: bool = False,
        report: Callable[[str], None] | None = None,
        **options: Any,
    ) -> None:
        chosen = Reading.of(options) if reading is None else reading
        super().__init__(by, chosen, strict=strict, report=report)
        if not self._by:
            raise ParameterError("expected by to name at least one column, found none")
        self._chosen = Selection.of_reading(chosen, self._by)
        self._names = StreamNames(self._by)
        self._shown: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the streams so far."""
        if len(self._shown) != len(self._names.names):
            self._shown = tuple(self._names.names)
        return self._shown

    def parse(
        self, lines: Sequence[str], first: int | None = None, *, final: bool = False
    ) -> StreamBatch:
        """Return the samples of the next lines, and what is wrong with the others.

        The parameters are those of `LineParser.parse_many`; the first line that is not blank names
        the columns. An InputError says that every line would be wrong.
        """
        start, samples = self.read(lines, first, final=final)
        codes = self._names.codes(samples.keys)
        wrong = [(row, error) for row, _, error in samples.errors]
        values, times, rows = samples.values, samples.times, samples.rows
        if (codes < 0).any():
            for index in np.flatnonzero(codes < 0).tolist():
                error = self._names.error(int(codes[index]), samples.keys[index])
                wrong.append((int(rows[index]), error))
            good = codes >= 0
            codes, values, rows = codes[good], values[good], rows[good]
            times = None if times is None else times[good]
            wrong.sort(key=lambda problem: problem[0])
        before = np.searchsorted(rows, [row for row, _ in wrong]).tolist()
        problems = tuple(
            Problem(error, start + row, count)
            for (row, error), count in zip(wrong, before, strict=True)
        )
        fixed = self._parser is not None and self._parser.fixed
        return StreamBatch(
            self.names, codes, self.channels, values, times, start + rows, problems, fixed
        )

    def _selection(self, names: Sequence[str]) -> Selection:
        del names
        return self._chosen
