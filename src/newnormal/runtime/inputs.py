"""What a watch reads: one stream or many, in order, batch by batch.

One module because one stream and many give the same values to the same loop.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from newnormal.arrivals.arrival import Arrival
from newnormal.errors import InputError, ParameterError, StateError
from newnormal.io.registry import name_of
from newnormal.io.sources.base import FRESH, Source, check_arrivals
from newnormal.io.sources.lines import LineInput
from newnormal.tabular import Problem, Reading, StreamBatch, StreamRows
from newnormal.tabular.ordering.live import LiveOrder, OrderedSamples
from newnormal.types import NO_TIME, Floats, Ints, Times

_KEY = "order"  # of a snapshot: the samples that are held back
_ALL_IN_ORDER = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class InOrder:
    """Samples whose turn it is.

    Attributes
    ----------
    arrivals, rows
        The samples by stream, and for each row of the input its arrival, as in `StepsTaken`.
    records
        How many samples the input had: some may be held back.
    problems
        What held no sample, or one that cannot be taken; in order.
    end
        A sample at which the input ends: its time is there twice.
    """

    arrivals: tuple[Arrival, ...]
    rows: Ints
    records: int
    problems: tuple[Problem, ...] = ()
    end: Problem | None = None


class SourceInput:
    """A `Source` as the input of a watch: its samples, counted from 1.

    `source`: the source, which has delivered nothing. `is_one`: whether the samples must be of one
    stream, which is then called "". `report`: called with a line for the user.
    """

    record = "sample"
    repeats = is_exact = True  # whatever it promises: samples that come twice are harmless
    waiting = 0  # samples that are not complete

    def __init__(self, source: Source, *, is_one: bool, report: Callable[[str], None]) -> None:
        self._source, self._is_one, self._report = source, is_one, report
        self.name = self.identity = source.name
        self.kind = name_of(type(source))
        self._names: dict[str, int] = {}  # of the streams so far, with their numbers
        self._count = self._before = 0  # samples so far, and before the last batch
        self._notice = ""
        self._is_open = False  # whether there is a batch that was not acknowledged

    @property
    def zone(self) -> str | None:
        """The zone of the newest time."""
        return self._source.zone

    def next_batch(self, limit: int) -> StreamBatch | None:
        """Return the next samples; those before are durable now."""
        if self._is_open:
            self._source.acknowledge()
        arrivals = self._source.next_batch(limit)
        self._is_open = bool(arrivals)
        if (notice := self._source.notice()) not in ("", self._notice):
            self._report(f"{self.name}: {notice}")
        self._notice = notice
        if arrivals is None:
            return None
        where = f"{self.name}: {type(self._source).__name__}.next_batch"
        self._before = self._count
        self._count += check_arrivals(where, arrivals, limit)
        codes = [self._code(arrival.stream) for arrival in arrivals]
        return self._joined(arrivals, codes)

    def _code(self, stream: str) -> int:
        code = self._names.setdefault(stream, len(self._names))
        if code and self._is_one:
            raise InputError(
                f"{self.name}: expected samples of one stream, found those of "
                f"{' and '.join(map(repr, self._names))}",
                hint="`newnormal fit HISTORY --by COLUMN -o FOLDER` fits many streams",
            )
        return code

    def _joined(self, arrivals: Sequence[Arrival], codes: Sequence[int]) -> StreamBatch:
        """Return samples of several streams as one batch, with the channels of all."""
        column = {
            name: at
            for at, name in enumerate(dict.fromkeys(c for each in arrivals for c in each.channels))
        }
        counts = [len(arrival.times) for arrival in arrivals]
        values = np.full((sum(counts), len(column)), np.nan)
        times = np.concatenate([np.empty(0, np.int64), *(each.times for each in arrivals)])
        end = 0
        for arrival, count in zip(arrivals, counts, strict=True):
            start, end = end, end + count
            values[start:end, [column[name] for name in arrival.channels]] = arrival.values
        timeless = times == NO_TIME
        if timeless.any() and not timeless.all():
            raise InputError(
                f"{self.name}: expected times for all samples or for none, found some without"
            )
        return StreamBatch(
            ("",) if self._is_one else tuple(self._names),
            np.repeat(np.array(codes, np.int64), counts),
            tuple(column),
            values,
            None if timeless.any() else times.view("datetime64[ns]"),
            self._before + 1 + np.arange(len(times)),
        )

    def undecided(self) -> StreamBatch:
        """Return nothing: a source gives out whole samples."""
        return self._joined((), ())

    def snapshot(self) -> dict[str, Any]:
        """Return the position behind the last batch."""
        return self._source.snapshot()

    def resume(self, snapshot: Mapping[str, Any]) -> bool:
        """Go to a position."""
        self._is_open = False
        return self._source.resume(snapshot)

    def go_back(self, snapshot: Mapping[str, Any], number: int) -> bool:
        """Go to the position before a sample of the last batch, of which a snapshot was taken."""
        missing = number - 1 - self._before
        if not self.resume(snapshot):
            return False
        while missing > 0 and (batch := self.next_batch(missing)) is not None:
            missing -= len(batch)
        return True

    def stop(self) -> bool:
        """Take in nothing more: what was not given out can be read again."""
        return False

    def close(self) -> None:
        """Close the source."""
        self._source.close()


class WatchInput:
    """An input whose samples are in order, stream by stream; one stream is called "".

    Parameters
    ----------
    input
        Lines, or a source.
    reading
        What is asked for of the order and of the times.
    channels
        Of each stream; others are counted in `unknown`.
    period
        The time between samples, where it is known.
    strict
        Whether the input ends at a bad record.
    keep
        Leave what is held back at the end of the input to the next start, by the snapshot. Without
        it, it is given out, and what is far ahead is refused.
    report
        Called with a line for the user.
    """

    def __init__(
        self,
        input: LineInput | SourceInput,  # noqa: A002
        reading: Reading,
        channels: Mapping[str, Sequence[str]],
        period: np.timedelta64 | None,
        *,
        strict: bool,
        keep: bool,
        report: Callable[[str], None],
    ) -> None:
        self.input = input
        self.record, self.kind = input.record, input.kind
        self.repeats, self.is_exact = input.repeats, input.is_exact
        self.unknown: dict[str, int] = {}  # lines of each stream that is not in the fleet
        self._channels, self._period, self._report = channels, period, report
        self._reading, self._keep = reading, keep
        self._columns = UnknownColumns(self._reading.ignore_extra, report)
        self._orders = self._new_orders({}, continues=False)
        # Where a line may end the input, the position before it is needed.
        self._goes_back = strict or self._reading.on_duplicate == "error"
        self._before: dict[str, Any] = {}  # the position before the last batch
        self._marks: dict[str, dict[str, Any]] = {}  # of streams, before it
        self._last: StreamBatch | None = None
        self._held: object = None  # by a snapshot that was resumed
        self._ended = False  # whether nothing more is to be given out

    def _new_orders(
        self, newest: Mapping[str, np.datetime64], *, continues: bool
    ) -> "StreamOrders":
        return StreamOrders(
            self._reading,
            self._channels,
            self._period,
            newest,
            record=self.record,
            continues=continues,
            repeats=self.repeats,
        )

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return self.input.name

    @property
    def identity(self) -> str:
        """What tells it from others."""
        return self.input.identity

    @property
    def zone(self) -> str | None:
        """The zone of the newest time."""
        return self.input.zone

    @property
    def waiting(self) -> int:
        """How many samples of long lines are not complete."""
        return self.input.waiting

    @property
    def repeated(self) -> int:
        """How many samples were taken before."""
        return self._orders.repeated

    def begin(self, newest: Mapping[str, np.datetime64], *, continues: bool) -> None:
        """Go on behind the newest time of each stream, if the input does."""
        self._orders = self._new_orders(newest if continues else {}, continues=continues)
        if continues and self._held is not None:
            self._orders.restore(self._held)

    def next_batch(self, limit: int) -> InOrder | None:
        """Return the next samples."""
        self._before = self.snapshot() if self._goes_back else {}
        if (batch := self.input.next_batch(limit)) is None:
            return self._end()
        self._last, self._marks = batch, {}
        taken = self._in_order(batch)
        if taken.end is None:
            self._count_unknown(batch)
        return taken

    def until(self, problem: Problem) -> tuple[InOrder, dict[str, Any]]:
        """Return what came before a bad record; the source goes on at that."""
        assert self._last is not None
        batch, number, before = self._last, problem.number, self._before
        self._orders.go_back(self._marks)
        keep = batch.numbers < number
        part = self._in_order(
            replace(
                batch,
                codes=batch.codes[keep],
                values=batch.values[keep],
                times=None if batch.times is None else batch.times[keep],
                numbers=batch.numbers[keep],
                problems=(),
            )
        )
        self.input.go_back(_without_order(before), number)
        return part, self.snapshot()

    def _end(self) -> InOrder | None:
        """Return what is held back, once; None if nothing is, or that is left to the next start."""
        if self._ended or self._keep:
            return None
        self._ended = True
        arrivals, problems = [], []
        for name, arrived in self._orders.flush():
            problems += self._problems(name, arrived)
            if len(arrived.values):
                arrivals.append(self._arrival(name, arrived.values, arrived.times))
        count = sum(len(arrival.times) for arrival in arrivals)
        return InOrder(tuple(arrivals), _ALL_IN_ORDER, count, tuple(problems))

    def undecided(self) -> tuple[Problem, ...]:
        """Return the problems of lines that are not decided yet, unless a sample is as well."""
        left = self.input.undecided()
        return () if len(left) else left.problems

    @property
    def far(self) -> str:
        """What is held back because its time is far ahead, in words; empty: nothing."""
        far = self._orders.far
        if (text := far.get("")) is not None:
            return f"{self.name}: {text}"
        held = "held back until more samples come"
        return f"{len(far)} streams have times that are far ahead: {held}" if far else ""

    def snapshot(self) -> dict[str, Any]:
        """Return the position behind the last batch, and what is held back."""
        position, held = self.input.snapshot(), self._orders.facts()
        if _KEY in position:
            raise ParameterError(
                f"source: expected a snapshot without {_KEY!r}, found {position!r}",
                hint=f"{_KEY} is reserved: choose another key",
            )
        return {**position, **({_KEY: held} if held else {})}

    def resume(self, snapshot: Mapping[str, Any]) -> bool:
        """Go to a position; what was held back is restored by `begin`."""
        self._held = snapshot.get(_KEY)
        return self.input.resume(_without_order(snapshot))

    def stop(self) -> bool:
        """Take in nothing more; what is held back stays so."""
        self._ended = True
        return self.input.stop()

    def close(self) -> None:
        """Close the input."""
        self.input.close()

    def _in_order(self, batch: StreamBatch) -> InOrder:
        self._orders.zone = self.zone
        problems, ends = list(batch.problems), []
        arrivals: list[Arrival] = []
        origins: list[Ints] = []
        parts = batch.select(self._channels, lenient=True)
        for name, part in parts.items():
            if part.unknown or part.absent:
                self._columns.note(part, name)
            problems += [_of_stream(name, problem) for problem in part.problems]
            times = None if batch.times is None else batch.times[part.rows]
            numbers, rows = batch.numbers[part.rows], part.rows
            if self._goes_back:
                self._marks[name] = self._orders.mark(name)
            arrived = self._orders.push(name, part.values, times, numbers)
            if arrived.values is not part.values:
                if arrived.error is not None:
                    ends.append(_of_stream(name, arrived.error))
                problems += self._problems(name, arrived)
                times = arrived.times
                if len(parts) > 1:
                    rows = _rows_of(arrived.numbers, part, numbers)
            if len(arrived.values):
                arrivals.append(self._arrival(name, arrived.values, times))
                origins.append(rows)
        problems.sort(key=lambda problem: problem.number)
        end = min(ends, key=lambda problem: problem.number, default=None)
        return InOrder(tuple(arrivals), _merged(origins), len(batch), tuple(problems), end)

    def _arrival(self, name: str, values: Floats, times: Times | None) -> Arrival:
        return Arrival(name, tuple(self._channels[name]), _ns(times, len(values)), values)

    def _problems(self, name: str, arrived: OrderedSamples) -> list[Problem]:
        for text in arrived.notes:
            self._report(f"stream {name!r}: {text}" if name else text)
        return [_of_stream(name, problem) for problem in arrived.problems]

    def _count_unknown(self, batch: StreamBatch) -> None:
        if batch.names == ("",) and "" in self._channels:
            return
        codes, counts = np.unique(batch.codes, return_counts=True)
        for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
            name = batch.names[code]
            if name in self._channels:
                continue
            if name not in self.unknown:
                self._report(f"stream {name!r} is not in the fleet: its samples are skipped")
            self.unknown[name] = self.unknown.get(name, 0) + count


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


class StreamOrders:
    """What `LiveOrder` is for one stream, for all streams of a fleet.

    Parameters
    ----------
    reading
        What is asked for.
    channels
        Of each stream.
    period
        The time between samples, where it is known.
    newest
        The newest time of each stream that was taken before, if the input goes on from there.
    record
        What a record is called in messages.
    continues, repeats
        Whether the input goes on from an earlier start, and whether samples that were taken before
        may come again, as those of a pipe whose sender starts over.
    """

    def __init__(
        self,
        reading: Reading,
        channels: Mapping[str, Sequence[str]],
        period: np.timedelta64 | None,
        newest: Mapping[str, np.datetime64],
        *,
        record: str = "line",
        continues: bool = False,
        repeats: bool = False,
    ) -> None:
        self._record = record
        self._reading, self._channels, self._period = reading, channels, period
        self._newest, self._continues, self._repeats = newest, continues, repeats
        self._by_stream: dict[str, LiveOrder] = {}
        self.zone: str | None = None  # of the times in messages

    @property
    def repeated(self) -> int:
        """How many samples were taken before."""
        return sum(live.order.repeated for live in self._by_stream.values())

    @property
    def far(self) -> dict[str, str]:
        """What is held back, in words, of the streams where times are far ahead."""
        texts = {name: live.waiting() for name, live in self._by_stream.items()}
        return {name: text for name, text in texts.items() if text is not None}

    def push(self, name: str, values: Floats, times: Times | None, numbers: Ints) -> OrderedSamples:
        """Return the samples of a stream whose turn it is."""
        live = self._by_stream.get(name)
        if live is None:
            live = self._by_stream[name] = self._new(name)
        live.zone = self.zone
        return live.push(values, times, numbers)

    def flush(self) -> Iterator[tuple[str, OrderedSamples]]:
        """Give what is held back, by stream: the input has ended."""
        for name, live in self._by_stream.items():
            yield name, live.flush()

    def facts(self) -> dict[str, Any]:
        """Return what it remembers as JSON values, {} where that is nothing."""
        return {name: live.facts() for name, live in self._by_stream.items() if not live.plain}

    def restore(self, facts: object) -> None:
        """Restore what `facts` returned."""
        if not isinstance(facts, Mapping):
            raise StateError(f"position: expected orders as an object, found {facts!r}", hint=FRESH)
        for name, of_stream in facts.items():
            if name in self._channels:
                live = self._by_stream[name] = self._new(name)
                live.restore(of_stream, self._repeats)

    def mark(self, name: str) -> dict[str, Any]:
        """Return what `go_back` needs, before samples of a stream are pushed."""
        live = self._by_stream.get(name)
        return (self._new(name) if live is None else live).facts()

    def go_back(self, marks: Mapping[str, Mapping[str, Any]]) -> None:
        """Forget what was pushed since."""
        for name, facts in marks.items():
            self._by_stream[name] = self._bare(name)
            self._by_stream[name].restore(facts)

    def _new(self, name: str) -> LiveOrder:
        live = self._bare(name)
        live.begin(self._newest.get(name), continues=self._continues, repeats=self._repeats)
        return live

    def _bare(self, name: str) -> LiveOrder:
        return LiveOrder(self._reading, self._channels[name], self._period, self._record)


def _without_order(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """Return the position of an input alone."""
    return {name: part for name, part in snapshot.items() if name != _KEY}


def _rows_of(numbers: Sequence[int], part: StreamRows, of_part: Ints) -> Ints:
    """Return the rows of samples that were put in order, by the numbers of their records."""
    row_of = dict(zip(of_part.tolist(), part.rows.tolist(), strict=True))
    # Verdicts are written in the order of the rows: that of a stream stays as it is.
    return np.maximum.accumulate(np.array([row_of.get(each, 0) for each in numbers], np.int64))


def _ns(times: Times | None, count: int) -> Ints:
    if times is None:
        return np.full(count, NO_TIME)
    return times.astype("datetime64[ns]", copy=False).view(np.int64)


def _merged(origins: Sequence[Ints]) -> Ints:
    """Return for each row of the input, in their order, its arrival; (0,) where there is one."""
    if len(origins) < 2:
        return _ALL_IN_ORDER
    arrivals = np.repeat(np.arange(len(origins)), [len(rows) for rows in origins])
    return arrivals[np.argsort(np.concatenate(origins), kind="stable")]


def _of_stream(name: str, problem: Problem) -> Problem:
    """Return a problem that names its stream, if there are several."""
    if not name:
        return problem
    error = problem.error
    message = f"stream {name!r}: {error.message}"
    return Problem(InputError(message, hint=error.hint), problem.number, problem.before)
