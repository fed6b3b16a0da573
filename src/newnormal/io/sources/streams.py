"""Lines of many streams, or a line a value, from a file or from standard input."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from newnormal.errors import InputError, StateError
from newnormal.io.sources.base import FRESH, Batch, Source, SourceOptions
from newnormal.io.sources.file import FileSource
from newnormal.io.sources.lines import ColumnLayoutError, LineSource, PipeSource
from newnormal.tabular import Long, LongLines, StreamBatch, StreamLines, StreamRows


@dataclass(frozen=True)
class StreamOptions:
    """How lines of many streams are read."""

    by: Sequence[str]  # the columns that name the stream; none if all lines are of one
    long: Long | None  # the columns of long lines; None for a line a sample
    lines: SourceOptions  # the other options; its channels are not used

    def reader(self) -> StreamLines | LongLines:
        """Return a new reader of lines."""
        reading, strict, report = self.lines.reading, self.lines.strict, self.lines.report
        if self.long is None:
            return StreamLines(self.by, reading=reading, strict=strict, report=report)
        time = reading.time[0] if reading.time else None
        long = self.long if time is None else replace(self.long, time=time)
        return LongLines(self.by, long=long, reading=reading, strict=strict, report=report)


class _StreamColumns:
    """The reader of lines as a source wants it: its errors name the input."""

    def __init__(self, make: Callable[[], StreamLines | LongLines]) -> None:
        self._make = make
        self.lines = make()
        self.name = ""

    def facts(self) -> dict[str, Any]:
        return self.lines.facts()

    def restore(self, facts: object) -> None:
        self.lines = self._make()
        try:
            if not isinstance(facts, Mapping):
                raise TypeError(f"found {facts!r}")
            self.lines.restore(facts)
        except InputError as error:
            raise self.refusal(error) from None
        except (TypeError, ValueError, AttributeError, KeyError) as error:
            raise StateError(
                f"place: expected layout with the lines opened_by and settled_by, {error}",
                hint=FRESH,
            ) from error

    def check(self) -> None:
        try:
            self.lines.check()
        except InputError as error:
            raise self.refusal(error) from None

    def parse(
        self, lines: Sequence[str], first: int | None = None, final: bool = False
    ) -> StreamBatch:
        try:
            return self.lines.parse(lines, first, final=final)
        except InputError as error:
            raise self.refusal(error) from None

    def refusal(self, error: InputError) -> ColumnLayoutError:
        return ColumnLayoutError(f"{self.name}: {error.message}", hint=error.hint)


class StreamInput:
    """Samples of many streams, batch by batch; a position in them as `Source` has it.

    `input`: a path, or "-" for standard input. `options`: how lines are read.
    """

    def __init__(self, input: str, options: StreamOptions) -> None:  # noqa: A002
        self._columns = _StreamColumns(options.reader)
        kind = PipeSource if input == "-" else FileSource
        self.source: LineSource = kind(input, options.lines, self._columns, options.by)
        self._columns.name = self.source.name

    def next_batch(self, limit: int) -> StreamBatch | None:
        """Return the samples of at most `limit` lines; an empty batch if none came; None: end."""
        if (numbered := self.source.next_lines(limit)) is None:
            return self._last()
        first, raw = numbered
        return self._columns.parse(self.source.texts(raw, first), first)

    def _last(self) -> StreamBatch | None:
        """Return the samples that are known because the input has ended."""
        if self.source.options.unfinished:
            return None
        batch = self._columns.parse([], final=True)
        if not len(batch) and not batch.problems and isinstance(self._columns.lines, LongLines):
            batch = self._columns.lines.flush()
        return batch if len(batch) or batch.problems else None

    def undecided(self) -> StreamBatch:
        """Return what lines hold of which it is not known yet, if there were no more."""
        return deepcopy(self._columns.lines).parse([], final=True)

    @property
    def zone(self) -> str | None:
        """The zone of the newest time; None if it has none."""
        zone: str | None = getattr(self._columns.lines, "zone", None)
        return zone

    @property
    def waiting(self) -> int:
        """How many samples of long lines are not complete."""
        return len(self._columns.facts().get("pending", ()))

    def snapshot(self) -> dict[str, Any]:
        """Return the position behind the last batch as JSON values."""
        return self.source.snapshot()

    def resume(self, snapshot: Mapping[str, Any]) -> bool:
        """Go to the position of a snapshot; return False if it belongs to another input."""
        return self.source.resume(snapshot)

    def close(self) -> None:
        """Close the file."""
        self.source.close()


class UnknownColumns:
    """Reports, once each, columns that are no channel, and channels that are no column.

    `ignore_extra`: say nothing of columns that are no channel. `report`: called with a line for the
    user.
    """

    def __init__(self, ignore_extra: bool, report: Callable[[str], None]) -> None:
        self._ignore_extra, self._report = ignore_extra, report
        self._unknown: set[str] = set()
        self._absent: set[str] = set()

    def note(self, rows: StreamRows, stream: str = "") -> None:
        """Report what is new in samples of a stream."""
        of_stream = f" of stream {stream!r}" if stream else ""
        for name in rows.unknown:
            if name not in self._unknown and not self._ignore_extra:
                self._report(f"column {name!r} is no channel{of_stream}: ignored")
            self._unknown.add(name)
        for name in rows.absent:
            if name not in self._absent:
                self._report(f"channel {name!r}{of_stream} is no column: missing")
            self._absent.add(name)


class _LongSource(Source):
    """Long lines of one stream as its samples."""

    record: ClassVar[str] = "line"

    def __init__(
        self,
        input: str,  # noqa: A002
        options: SourceOptions,
        long: Long | None = None,
    ) -> None:
        super().__init__(input, options)
        self._input = StreamInput(input, StreamOptions((), long or Long(), options))
        self._unknown = UnknownColumns(options.reading.ignore_extra, self.report)

    @property
    def name(self) -> str:
        return self._input.source.name

    @property
    def identity(self) -> str:
        return self._input.source.identity

    def next_batch(self, limit: int) -> Batch | None:
        if (batch := self._input.next_batch(limit)) is None:
            return None
        own = batch.select({"": self.options.channels}, lenient=True).get("")
        if own is None:
            values = np.empty((0, len(self.options.channels)))
            return Batch(values, None, [], batch.problems)
        self._unknown.note(own)
        assert batch.times is not None  # long lines have times
        problems = sorted((*batch.problems, *own.problems), key=lambda each: each.before)
        return Batch(
            own.values,
            batch.times[own.rows],
            batch.numbers[own.rows].tolist(),
            tuple(problems),
            self._input.zone,
        )

    def snapshot(self) -> dict[str, Any]:
        """Return the position behind the last batch, and the samples that are not complete."""
        return self._input.snapshot()

    def resume(self, snapshot: Mapping[str, Any]) -> bool:
        return self._input.resume(snapshot)

    def stop(self) -> bool:
        return self._input.source.stop()

    def close(self) -> None:
        self._input.source.close()


class LongFileSource(_LongSource):
    """Long lines of a file."""


class LongPipeSource(_LongSource):
    """Long lines from standard input."""

    repeats: ClassVar[bool] = True
