"""Lines of many streams, in any order, as samples; and those of each stream in its own channels.

One module because a line has a sample or one value of it, and both readers open, read and go on
alike.
"""

from abc import ABC, abstractmethod
from bisect import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, nan
from typing import Any, NamedTuple

import numpy as np

from newnormal.arrivals import pivot
from newnormal.errors import InputError, ParameterError
from newnormal.tabular.columns import Long, Selection, find_long, match_names
from newnormal.tabular.many.splitting import StreamNames
from newnormal.tabular.parsing.blocks import ParsedSamples
from newnormal.tabular.parsing.lines import LineParser
from newnormal.tabular.reading import InputProfile, Reading
from newnormal.tabular.samples import Problem
from newnormal.texts import listed
from newnormal.types import Bools, Floats, Ints, Times, time_text


class StreamRows(NamedTuple):
    """The samples of one stream in a batch."""

    # rows, values: their rows in the batch, and their values in the stream's channels
    rows: Ints
    values: Floats
    problems: tuple[Problem, ...]  # bad ones
    # unknown, absent: columns with values that are no channel, of this stream or one with the same
    # channels; and channels that are no column
    unknown: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class StreamBatch:
    """Samples of many streams, in the order of the input."""

    names: tuple[str, ...]  # the names of the streams so far
    codes: Ints  # for each sample the position in `names` of its stream, shape (N,)
    channels: tuple[str, ...]  # the columns of the values
    # one row a sample, shape (N, C); NaN is missing, as are channels that the stream does not have
    values: Floats
    # the samples' times in UTC (datetime64[ns]), or None. Their order is not checked
    times: Times | None
    numbers: Ints  # the line that each sample was read from, counted from 1
    problems: tuple[Problem, ...] = ()  # lines that hold no sample, in order
    # whether the columns cannot be more, as those of a CSV header. If not, a channel that is no
    # column is missing so far
    fixed: bool = True

    def __len__(self) -> int:
        return len(self.codes)

    def select(
        self, channels: Mapping[str, Sequence[str]], *, lenient: bool = False
    ) -> dict[str, StreamRows]:
        """Return the samples of each stream in that stream's channels.

        `channels`: the channels of each stream; streams that are not in it are left out. `lenient`:
        leave out columns that are no channel, and take a channel that is no column for missing, as
        long as one of them is a column.

        Returns: the samples by stream, in the order of first appearance. A sample that has a value
        in a column which is no channel of its stream is a problem. If the columns are `fixed`, so
        is every sample of a stream of which a channel is no column.
        """
        if len(self.names) == 1 and channels.get(self.names[0]) == self.channels and len(self):
            return {self.names[0]: StreamRows(np.arange(len(self)), self.values, ())}
        order = np.argsort(self.codes, kind="stable")
        present, starts = np.unique(self.codes[order], return_index=True)
        parts = np.split(order, starts[1:])
        # Most streams have the same channels: those are taken at once.
        alike: dict[tuple[str, ...], list[int]] = {}
        for part, code in enumerate(present.tolist()):
            if self.names[code] in channels:
                alike.setdefault(tuple(channels[self.names[code]]), []).append(part)
        samples: dict[int, StreamRows] = {}
        for stream_channels, members in alike.items():
            selected = self._selected([parts[part] for part in members], stream_channels, lenient)
            samples.update(zip(members, selected, strict=True))
        appearance = np.argsort(order[starts], kind="stable").tolist()
        return {self.names[present[part]]: samples[part] for part in appearance if part in samples}

    def _selected(
        self, parts: Sequence[Ints], channels: tuple[str, ...], lenient: bool
    ) -> Iterator[StreamRows]:
        """Give the samples of streams that have the same channels."""
        position = {name: index for index, name in enumerate(self.channels)}
        rows = np.concatenate(parts)
        taken = self.values[rows]
        values = np.full((len(rows), len(channels)), np.nan)
        for index, name in enumerate(channels):
            if name in position:
                values[:, index] = taken[:, position[name]]
        others = [name for name in self.channels if name not in channels]
        extra: Bools = ~np.isnan(taken[:, [position[name] for name in others]])
        there = [name for name in channels if name in position or not self.fixed]
        if lenient and there:
            some = np.flatnonzero(extra.any(axis=0)).tolist()
            unknown_columns = tuple(others[column] for column in some)
            absent = tuple(name for name in channels if name not in there)
            end = 0
            for part in parts:
                start, end = end, end + len(part)
                yield StreamRows(part, values[start:end], (), unknown_columns, absent)
            return
        good: Bools = ~np.any(extra, axis=1) & (len(there) == len(channels))
        end = 0
        for part in parts:
            start, end = end, end + len(part)
            fits = good[start:end]
            if fits.all():
                yield StreamRows(part, values[start:end], ())
                continue
            problems = []
            for index in np.flatnonzero(~fits).tolist():
                unknown = [others[column] for column in np.flatnonzero(extra[start + index])]
                before = int(np.count_nonzero(fits[:index]))
                error = _mismatch([*there, *unknown], channels)
                problems.append(Problem(error, int(self.numbers[part[index]]), before))
            yield StreamRows(part[fits], values[start:end][fits], tuple(problems))


def _mismatch(columns: Sequence[str], channels: Sequence[str]) -> InputError:
    try:
        match_names(columns, channels)
    except InputError as error:
        return error
    raise AssertionError(f"{columns} are the channels")


class LineReader(ABC):
    """What readers of wide and of long lines share: the parser of their lines."""

    def __init__(
        self,
        by: str | Sequence[str],
        reading: Reading,
        selection: Selection | None = None,
        *,
        strict: bool = False,
        report: Callable[[str], None] | None = None,
        texts: bool = False,
    ) -> None:
        self._by = (by,) if isinstance(by, str) else tuple(by)
        self._parser = LineParser(
            reading,
            selection=selection or Selection(by=self._by),
            choose=self._choose,
            grows=True,
            strict=strict,
            report=report,
            texts=texts,
        )

    @property
    def profile(self) -> InputProfile:
        """What was found out about the input so far."""
        return self._parser.profile

    @property
    def zone(self) -> str | None:
        """The zone of the newest time: a name, or an offset such as "+02:00"; None: it has none."""
        return self._parser.zone

    @property
    def channels(self) -> tuple[str, ...]:
        """The columns of the values so far."""
        return self._parser.channels or ()

    def facts(self) -> dict[str, Any]:
        """Return the lines that the columns were found in, for `restore`."""
        return self._parser.facts()

    def restore(self, facts: Mapping[str, Any]) -> None:
        """Restore what `facts` returned, before the first line is read."""
        self._parser.restore(facts)

    def check(self) -> None:
        """Raise an InputError, at the end of the input, if no line of it was read."""
        self._parser.check()

    def read(
        self, lines: Sequence[str], first: int | None = None, *, final: bool = False
    ) -> tuple[int, ParsedSamples]:
        """Return the number of the first line, and what the lines hold, names as cells.

        The parameters are those of `LineParser.parse_many`.
        """
        start = self._parser.next_line if first is None else first
        return start, self._parser.parse_many(lines, start, final=final)

    def _choose(self, names: Sequence[str]) -> Selection:
        """Return what the columns are, given those of the first line that names them."""
        for name in self._by:
            if name not in names:
                raise InputError(
                    f"by names column {name!r}, found only {listed(names)}",
                    hint="the header names the columns: name that of the streams with --by",
                )
        return self._selection(names)

    @abstractmethod
    def _selection(self, names: Sequence[str]) -> Selection:
        """Return what the columns are, given all names, those of `by` among them."""


class StreamLines(LineReader):
    r"""Reads lines of CSV or JSON that are samples of many streams, by the rules of `LineParser`.

    `by`: the columns that name the stream; the cells of several are joined by "/". `reading`: how
    the input is written, and what is taken from it. `strict`: whether a cell that is no number
    makes a bad line; else it is a missing value. `report`: called with a line for the user.
    `options`: those of `Reading`, where there is none.

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
        if not by:
            raise ParameterError("expected by to name at least one column, found none")
        self._chosen = Selection.of_reading(chosen, by)
        super().__init__(by, chosen, self._chosen, strict=strict, report=report)
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
        fixed = self._parser.fixed
        return StreamBatch(
            self.names, codes, self.channels, values, times, start + rows, problems, fixed
        )

    def _selection(self, names: Sequence[str]) -> Selection:
        del names
        return self._chosen


@dataclass
class _OpenSample:
    """A sample that is not complete yet: its time in ns, its first line, its values by tag."""

    time: int
    number: int
    values: dict[str, float] = field(default_factory=dict)


class LongLines(LineReader):
    """Reads lines of (time, stream, tag, value): those of one stream and time are one sample.

    A sample is complete when a line of its stream comes that has a later time, or at the end of
    the input (`flush`). A line whose time is earlier than that of its stream's newest line is a
    problem: its sample is complete. Of two values of one tag the last counts.

    The parameters are those of `StreamLines`, and `long`, the columns; by default found by their
    names. Without `by` all lines are of one stream, whose name is "".

    >>> lines = LongLines("host")
    >>> batch = lines.parse(["time,host,tag,value", "1,a,x,5", "1,a,y,6", "1,b,x,7", "2,a,x,8"])
    >>> batch.names, batch.codes.tolist(), batch.channels, batch.values.tolist()
    (('a', 'b'), [0], ('x', 'y'), [[5.0, 6.0]])
    >>> lines.flush().values.tolist()
    [[7.0], [8.0]]
    """

    def __init__(
        self,
        by: str | Sequence[str] = (),
        *,
        long: Long | None = None,
        reading: Reading | None = None,
        strict: bool = False,
        report: Callable[[str], None] | None = None,
        **options: Any,
    ) -> None:
        chosen = Reading.of(options) if reading is None else reading
        # Tags of all kinds share the column of the values.
        super().__init__(by, chosen, strict=strict, report=report, texts=True)
        self._long = Long() if long is None else long
        self._names = StreamNames(self._by)
        self._tags = StreamNames(())
        self._open_samples: dict[int, _OpenSample] = {}
        if not self._by:
            self._names.names.append("")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the streams so far."""
        return tuple(self._names.names)

    def parse(
        self, lines: Sequence[str], first: int | None = None, *, final: bool = False
    ) -> StreamBatch:
        """Return the samples that the next lines complete, and the lines that are wrong.

        The parameters are those of `StreamLines.parse`; what is left at the end of the input is
        complete by `flush`. The samples are in the order in which they became complete. Their
        channels are the tags that they have, their `numbers` those of their first lines.
        """
        start, samples = self.read(lines, first, final=final)
        streams, tags = self._codes(samples.keys)
        times = np.empty(0) if samples.times is None else samples.times
        wrong = [(row, error) for row, _, error in samples.errors]
        done: list[tuple[int, _OpenSample]] = []
        done_at: list[int] = []
        opened, tag_names = self._open_samples, self._tags.names
        parts = (
            samples.rows.tolist(),
            streams.tolist(),
            tags.tolist(),
            times.astype(np.int64).tolist(),
            samples.values[:, :1].ravel().tolist(),
        )
        for index, (row, stream, tag, time, value) in enumerate(zip(*parts, strict=True)):
            if stream < 0 or tag < 0:
                wrong.append((row, self._nameless(stream, samples.keys[index])))
                continue
            sample = opened.get(stream)
            if sample is not None and time < sample.time:
                wrong.append((row, self._late(time, sample.time)))
                continue
            if sample is None or time > sample.time:
                if sample is not None:
                    done.append((stream, sample))
                    done_at.append(row)
                sample = opened[stream] = _OpenSample(time, start + row)
            sample.values[tag_names[tag]] = value
        wrong.sort(key=lambda problem: problem[0])
        problems = [Problem(e, start + row, bisect(done_at, row)) for row, e in wrong]
        return self._batch(done, tuple(problems))

    def flush(self) -> StreamBatch:
        """Return the samples that are not complete, at the end of the input, by their lines."""
        done = sorted(self._open_samples.items(), key=lambda item: item[1].number)
        self._open_samples = {}
        return self._batch(done, ())

    def facts(self) -> dict[str, Any]:
        """Return the lines that the columns were found in and the samples not complete yet."""
        names = self._names.names
        pending = {
            names[stream]: [
                sample.time,
                sample.number,
                {tag: None if isnan(value) else value for tag, value in sample.values.items()},
            ]
            for stream, sample in self._open_samples.items()
        }
        return {**super().facts(), "pending": pending}

    def restore(self, facts: Mapping[str, Any]) -> None:
        """Restore what `facts` returned, before the first line is read."""
        super().restore(facts)
        for name, (time, number, values) in dict(facts.get("pending") or {}).items():
            stream = self._names.restored(name) if self._by else 0
            numbers = {tag: nan if value is None else value for tag, value in values.items()}
            self._open_samples[stream] = _OpenSample(time, number, numbers)

    def _selection(self, names: Sequence[str]) -> Selection:
        return find_long(names, self._long, self._by).selection(self._by)

    def _codes(self, keys: Sequence[Any]) -> tuple[Ints, Ints]:
        if not self._by:
            return np.zeros(len(keys), dtype=np.int64), self._tags.codes(keys)
        names = [key[0] for key in keys] if len(self._by) == 1 else [key[:-1] for key in keys]
        return self._names.codes(names), self._tags.codes([key[-1] for key in keys])

    def _nameless(self, stream: int, key: Any) -> InputError:
        if stream < 0:
            return self._names.error(stream, key[0] if len(self._by) == 1 else key[:-1])
        column = listed(self._parser.key_columns[-1:])
        return InputError(f"column {column}: expected the name of a channel, found none")

    def _late(self, time: int, newest: int) -> InputError:
        return InputError(
            f"expected a time not before {time_text(np.datetime64(newest, 'ns'))}, the newest of "
            f"its stream, found {time_text(np.datetime64(time, 'ns'))}",
            hint="the lines of a stream must be in the order of their times",
        )

    def _batch(
        self, done: Sequence[tuple[int, _OpenSample]], problems: tuple[Problem, ...]
    ) -> StreamBatch:
        tags = [tag for _, sample in done for tag in sample.values]
        column_of = {tag: column for column, tag in enumerate(dict.fromkeys(tags))}
        _, values = pivot.table(
            np.repeat(np.arange(len(done)), [len(sample.values) for _, sample in done]),
            np.array([column_of[tag] for tag in tags], np.int64),
            np.array([value for _, sample in done for value in sample.values.values()]),
            len(column_of),
        )
        return StreamBatch(
            self.names,
            np.array([stream for stream, _ in done], dtype=np.int64),
            tuple(column_of),
            values,
            np.array([sample.time for _, sample in done], dtype=np.int64).view("datetime64[ns]"),
            np.array([sample.number for _, sample in done], dtype=np.int64),
            problems,
            fixed=False,
        )
