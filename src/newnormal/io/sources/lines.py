"""Lines of CSV or JSON as samples: what files and pipes share."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, ClassVar, Protocol

import numpy as np

from newnormal.errors import InputError, StateError
from newnormal.io.sources.base import FRESH, Batch, Source, SourceOptions
from newnormal.tabular import InputProfile, LineParser, ParsedSamples, Problem
from newnormal.tabular.text.encodings import UTF8
from newnormal.tabular.text.line_cutting import LineCutter, OversizedLine, line_texts
from newnormal.tabular.text.opening import OpenInput, open_input


class ColumnLayoutError(InputError):
    """The input as a whole does not fit: skipping lines would skip all of them."""


class ColumnLayout:
    """Parses lines, once it is known what each column is.

    The columns are known from the header and the first line of data; lines before that are held.
    Both lines go into the snapshot, so that a resumed source parses lines exactly as before. A
    pipe that goes on without its header is read by the columns of the snapshot; one whose sender
    begins anew has a header again, which is taken.
    """

    def __init__(self, options: SourceOptions, name: str) -> None:
        self._options = options
        self._name = name
        self._parser = self._new()
        self._goes_on = False  # whether lines were read before an earlier end

    def _new(self) -> LineParser:
        return LineParser(
            self._options.reading,
            channels=self._options.channels,
            strict=self._options.strict,
            report=self._options.report,
        )

    @property
    def profile(self) -> InputProfile:
        """What was found out about the input so far."""
        return self._parser.profile

    @property
    def zone(self) -> str | None:
        """The zone of the newest time; None if it has none."""
        return self._parser.zone

    def facts(self) -> dict[str, Any]:
        """Return the lines that the layout was found in, and how cells are written."""
        return self._parser.facts()

    def restore(self, facts: object) -> None:
        """Restore what `facts` returned, also in versions that had the two lines alone."""
        content = facts if isinstance(facts, dict) else {}
        lines = content.get("opened_by", 0), content.get("settled_by", 0)
        if not all(isinstance(line, str | None) for line in lines):
            raise StateError(
                f"place: expected layout with the lines opened_by and settled_by, found {facts!r}",
                hint=FRESH,
            )
        parser = self._new()
        try:
            parser.restore(content)
        except InputError as error:
            raise self._refusal(error) from None
        except (TypeError, ValueError, AttributeError) as error:
            raise StateError(f"place: expected a layout, found {facts!r}", hint=FRESH) from error
        self._parser = parser
        self._goes_on = lines[0] is not None

    def parse(self, lines: Sequence[str], first: int) -> ParsedSamples:
        """Return the samples of the next lines, the first of which has the number `first`.

        Raise a ColumnLayoutError if every line would be a bad one.
        """
        try:
            return self._parser.parse_many(lines, first)
        except InputError as error:
            raise self._refusal(error) from None

    def check(self) -> None:
        """Raise a ColumnLayoutError if there were lines and none of them fitted.

        Lines that are held stay so: an input that grows goes on with them.
        """
        parser = deepcopy(self._parser)
        try:
            parser.parse_many([], final=True)
        except InputError as error:
            raise self._refusal(error) from None
        found = parser.profile
        if not self._goes_on and found.lines and found.bad_lines == found.lines:
            raise ColumnLayoutError(
                f"{self._name}: expected samples, found none among {found.lines:,} lines; "
                f"{found.first_bad}"
            )

    def _refusal(self, error: InputError) -> ColumnLayoutError:
        return ColumnLayoutError(f"{self._name}: {error.message}", hint=error.hint)


class ColumnReader(Protocol):
    """What knows the columns of an input's lines, as `ColumnLayout` does."""

    def facts(self) -> dict[str, Any]:
        """Return what was found out, as JSON values."""

    def restore(self, facts: object) -> None:
        """Restore what `facts` returned; a StateError for anything else."""

    def check(self) -> None:
        """Raise a ColumnLayoutError, at the end, if no line fitted."""


class LineSource(Source):
    """A source whose records are lines; each kind of input reads its bytes in a file of its own.

    Where the lines are not samples of one stream, another `reader` has their columns, and
    `next_lines` gives them; `by` are the columns that name the stream.
    """

    record: ClassVar[str] = "line"

    def __init__(
        self,
        input: str,  # noqa: A002
        options: SourceOptions,
        reader: ColumnReader | None = None,
        by: Sequence[str] = (),
    ) -> None:
        super().__init__(input, options)
        try:
            self._opened: OpenInput = open_input(
                input, options.reading, by, live=True, follow=options.follow
            )
        except InputError as error:
            raise self._named(error) from error
        self._samples = ColumnLayout(_of_lines(options, self._opened.kind), self.name)
        self._layout: ColumnReader = self._samples if reader is None else reader
        self._restart(0, 0)

    def _restart(self, offset: int, line: int, newline: bytes | None = None) -> None:
        self._offset = offset  # behind the last line given out
        self._line = line  # the number of that line
        self._lines: list[bytes] = []  # complete, in reverse: the next one is last
        self._cutter = LineCutter(self.options.reading.longest_line, newline)
        self._ended = False
        self._error: ColumnLayoutError | None = None  # to be raised by the next call

    def _read(self) -> bytes | None:
        """Return the next bytes; b"" if none came within `POLL_S`, None at the end."""
        try:
            return self._opened.poll()
        except InputError as error:
            raise self._named(error) from error

    def close(self) -> None:
        """Close the input."""
        self._opened.close()

    def next_batch(self, limit: int) -> Batch | None:
        """Return the samples of the next lines, at most `limit` of them."""
        if self._error is not None:
            raise self._error
        return None if self._is_done() else self._parsed(limit)

    def next_lines(self, limit: int) -> tuple[int, list[bytes]] | None:
        """Return the number of the next line, and lines, at most `limit`; None at the end."""
        if self._is_done():
            return None
        count = min(limit, len(self._lines))
        first = self._line + 1
        lines = self._lines[len(self._lines) - count :][::-1]
        self._passed(lines)
        return first, lines

    def texts(self, lines: Sequence[bytes], first: int) -> list[str]:
        """Return lines of `next_lines`, `first` the number of the first; `Refused` if no text."""
        return line_texts(lines, first == 1, self._opened.encoding or UTF8)

    def stop(self) -> bool:
        """Read no more bytes; complete lines that were received are given out."""
        self._ended = True
        return True

    def _is_done(self) -> bool:
        """Read lines where there are none; return whether the input has ended."""
        if not self._lines and not self._ended:
            self._fill()
        if self._lines or not self._ended:
            return False
        self._layout.check()
        return True

    def _fill(self) -> None:
        if piece := self._read():
            self._lines = self._cutter.cut(piece)[::-1]
        elif piece is None:
            self._ended = True
            if not self._cutter.unfinished:
                return
            if self.options.unfinished and not self._opened.finished:
                self.report("the last line has no end yet: left for the next start")
            else:
                self._lines = self._cutter.finish()

    def _named(self, error: InputError) -> InputError:
        return InputError(f"{self.name}: {error.message}", hint=error.hint)

    def _parsed(self, limit: int) -> Batch:
        count = min(limit, len(self._lines))
        first = self._line + 1
        raw = self._lines[len(self._lines) - count :][::-1]
        texts = self.texts(raw, first)
        try:
            samples = self._samples.parse(texts, first)
        except ColumnLayoutError as error:
            self._error = error
            raise
        self._passed(raw)
        before = np.searchsorted(samples.rows, [row for row, *_ in samples.errors]).tolist()
        problems = tuple(
            Problem(error, first + row, samples_before)
            for (row, _, error), samples_before in zip(samples.errors, before, strict=True)
        )
        numbers = (first + samples.rows).tolist()
        return Batch(samples.values, samples.times, numbers, problems, self._samples.zone)

    def _passed(self, lines: Sequence[bytes]) -> None:
        """Go behind the next lines."""
        count = len(lines)
        del self._lines[len(self._lines) - count :]
        self._offset += sum(map(len, lines)) + count * self._cutter.last_end
        if self._cutter.skipped:
            self._offset += sum(line.size for line in lines if isinstance(line, OversizedLine))
        self._line += count


def _of_lines(options: SourceOptions, kind: str | None) -> SourceOptions:
    """Return the options with the format of the lines; None: the first one tells it."""
    given = options.reading.format
    if kind is None and given in ("csv", "jsonl"):
        return options
    return replace(options, reading=replace(options.reading, format=kind))  # type: ignore[arg-type]


class PipeSource(LineSource):
    """Lines from standard input. It has no positions: one pipe cannot be told from another."""

    repeats: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return "standard input"

    def snapshot(self) -> dict[str, Any]:
        """Return what each column is."""
        return {"layout": self._layout.facts()}

    def resume(self, snapshot: Mapping[str, Any]) -> bool:
        """Go on with the next line: a header is taken, else the columns are those of before."""
        layout = snapshot.get("layout")
        if isinstance(layout, Mapping) and layout.get("opened_by") is not None:
            # Samples of long lines that are not complete are sent again.
            own = {name: each for name, each in layout.items() if name not in ("pending", "held")}
            self._layout.restore(own)
        return True
