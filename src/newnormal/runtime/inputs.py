"""What a watch reads: one stream or many, in order, batch by batch.

One module because one stream and many give the same values to the same loop.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from newnormal.arrivals.arrival import Arrival
from newnormal.errors import InputError, StateError
from newnormal.io.registry import kind_of, name_of
from newnormal.io.sources.arriving import ArrivingSource
from newnormal.io.sources.base import FRESH, Batch, check_batch
from newnormal.io.sources.streams import StreamInput, UnknownColumns
from newnormal.tabular import Problem, Reading, StreamBatch
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


class OneStream:
    """An input of one stream, called "".

    `source`: delivers its samples in order. `goes_back`: whether it may end at a bad record.
    """

    def __init__(self, source: ArrivingSource, *, goes_back: bool) -> None:
        self.source = source
        self.record, self.repeats, self.kind = source.record, source.repeats, kind_of(source)
        self.zone: str | None = None
        self._goes_back = goes_back
        self._before: dict[str, Any] = {}  # the position before the last batch
        self._last: Batch | None = None

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return self.source.name

    @property
    def identity(self) -> str:
        """What tells it from others."""
        return self.source.identity

    @property
    def repeated(self) -> int:
        """How many samples were taken before."""
        return self.source.repeated

    @property
    def waiting(self) -> int:
        """How many samples are not complete."""
        return 0

    def begin(self, newest: Mapping[str, np.datetime64], *, continues: bool) -> None:
        """Have samples left out that were taken before, where they may come again."""
        if continues and self.repeats:
            self.source.go_back(newest.get(""))

    def next_batch(self, limit: int) -> InOrder | None:
        """Return the next samples."""
        self._before = self.source.snapshot() if self._goes_back else {}
        if (batch := self.source.next_batch(limit)) is None:
            return None
        check_batch(self.source, batch, len(self.source.options.channels), limit)
        self._last = batch
        self.zone = batch.zone or self.zone
        return self._in_order(batch, len(batch))

    def _in_order(self, batch: Batch, count: int) -> InOrder:
        arrivals: tuple[Arrival, ...] = ()
        if count:
            values = batch.values[:count]
            times = _ns(None if batch.times is None else batch.times[:count], count)
            arrivals = (Arrival("", self.source.options.channels, times, values),)
        return InOrder(arrivals, _ALL_IN_ORDER, count, batch.problems)

    def until(self, problem: Problem) -> tuple[InOrder, dict[str, Any]]:
        """Return what came before a bad record; the source goes on at that."""
        assert self._last is not None
        source, count = self.source, problem.before
        part = self._in_order(self._last, count)
        if source.repeats or not source.resume(self._before):
            return part, source.snapshot()
        taken, position = 0, self._before
        while (batch := source.next_batch(1)) is not None:
            if batch.problems or taken + len(batch) > count:
                break
            taken += len(batch)
            position = source.snapshot()
        source.resume(position)
        return part, position

    def flush(self) -> InOrder:
        """Return nothing: the source has given out what it held back."""
        return InOrder((), _ALL_IN_ORDER, 0)

    def undecided(self) -> tuple[Problem, ...]:
        """Return nothing: the source has decided all."""
        return ()

    def snapshot(self) -> dict[str, Any]:
        """Return the position behind the last batch, and what is held back."""
        return self.source.snapshot()

    def resume(self, snapshot: Mapping[str, Any]) -> bool:
        """Go to a position."""
        return self.source.resume(snapshot)

    def stop(self) -> bool:
        """Take in nothing more."""
        return self.source.stop()

    def close(self) -> None:
        """Close the source."""
        self.source.close()


class ManyStreams:
    """An input of many streams.

    Parameters
    ----------
    input
        The lines.
    channels
        Of each stream; others are counted in `unknown`.
    period
        The time between samples, where it is known.
    strict
        Whether the input ends at a bad record.
    report
        Called with a line for the user.
    """

    def __init__(
        self,
        input: StreamInput,  # noqa: A002
        channels: Mapping[str, Sequence[str]],
        period: np.timedelta64 | None,
        *,
        strict: bool,
        report: Callable[[str], None],
    ) -> None:
        self.input = input
        source = input.source
        self.record, self.repeats = source.record, source.repeats
        self.kind = name_of(type(source))
        self.unknown: dict[str, int] = {}  # lines of each stream that is not in the fleet
        self._channels, self._period, self._report = channels, period, report
        self._reading = source.options.reading
        self._columns = UnknownColumns(self._reading.ignore_extra, report)
        self._orders = self._new_orders({}, continues=False)
        # Where a line may end the input, the position before it is needed.
        self._goes_back = strict or self._reading.on_duplicate == "error"
        self._before: dict[str, Any] = {}  # the position before the last batch
        self._marks: dict[str, dict[str, Any]] = {}  # of streams, before it
        self._last: StreamBatch | None = None
        self._held: object = None  # by a snapshot that was resumed

    def _new_orders(
        self, newest: Mapping[str, np.datetime64], *, continues: bool
    ) -> "StreamOrders":
        return StreamOrders(
            self._reading,
            self._channels,
            self._period,
            newest,
            continues=continues,
            repeats=self.repeats,
        )

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return self.input.source.name

    @property
    def identity(self) -> str:
        """What tells it from others."""
        return self.input.source.identity

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
            return None
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
        held = self._orders.facts()
        position = self._position_of(before, number)
        return part, {**position, **({_KEY: held} if held else {})}

    def flush(self) -> InOrder:
        """Return what is held back."""
        arrivals, problems = [], []
        for name, arrived in self._orders.flush():
            problems += self._problems(name, arrived)
            if len(arrived.values):
                arrivals.append(self._arrival(name, arrived.values, arrived.times))
        return InOrder(tuple(arrivals), _ALL_IN_ORDER, 0, tuple(problems))

    def undecided(self) -> tuple[Problem, ...]:
        """Return the problems of lines that are not decided yet, unless a sample is as well."""
        left = self.input.undecided()
        return () if len(left) else left.problems

    @property
    def far(self) -> int:
        """How many streams hold samples back because their times are far ahead."""
        return self._orders.far

    def snapshot(self) -> dict[str, Any]:
        """Return the position behind the last batch, and what is held back."""
        held = self._orders.facts()
        return {**self.input.snapshot(), **({_KEY: held} if held else {})}

    def resume(self, snapshot: Mapping[str, Any]) -> bool:
        """Go to a position; what was held back is restored by `begin`."""
        self._held = snapshot.get(_KEY)
        return self.input.resume({name: part for name, part in snapshot.items() if name != _KEY})

    def stop(self) -> bool:
        """Take in nothing more."""
        return self.input.source.stop()

    def close(self) -> None:
        """Close the file."""
        self.input.close()

    def _in_order(self, batch: StreamBatch) -> InOrder:
        self._orders.zone = self.zone
        problems, ends = list(batch.problems), []
        arrivals: list[Arrival] = []
        origins: list[Ints] = []
        for name, part in batch.select(self._channels, lenient=True).items():
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
                row_of = dict(zip(numbers.tolist(), part.rows.tolist(), strict=True))
                taken = [row_of.get(number, 0) for number in arrived.numbers]
                # Verdicts are written in the order of the rows: that of a stream stays as it is.
                rows = np.maximum.accumulate(np.array(taken, dtype=np.int64))
                times = arrived.times
            if len(rows):
                arrivals.append(self._arrival(name, arrived.values, times))
                origins.append(rows)
        problems.sort(key=lambda problem: problem.number)
        end = min(ends, key=lambda problem: problem.number, default=None)
        return InOrder(tuple(arrivals), _merged(origins), len(batch), tuple(problems), end)

    def _arrival(self, name: str, values: Floats, times: Times | None) -> Arrival:
        return Arrival(name, tuple(self._channels[name]), _ns(times, len(values)), values)

    def _problems(self, name: str, arrived: OrderedSamples) -> list[Problem]:
        for text in arrived.notes:
            self._report(f"stream {name!r}: {text}")
        return [_of_stream(name, problem) for problem in arrived.problems]

    def _count_unknown(self, batch: StreamBatch) -> None:
        codes, counts = np.unique(batch.codes, return_counts=True)
        for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
            name = batch.names[code]
            if name in self._channels:
                continue
            if name not in self.unknown:
                self._report(f"stream {name!r} is not in the fleet: its samples are skipped")
            self.unknown[name] = self.unknown.get(name, 0) + count

    def _position_of(self, before: dict[str, Any], number: int) -> dict[str, Any]:
        """Return the position in the input before a line, which came after `before`."""
        source = {name: part for name, part in before.items() if name != _KEY}
        if self.repeats or not self.input.resume(source):
            return self.input.snapshot()
        while (missing := number - 1 - int((position := self.input.snapshot())["line"])) > 0:
            if self.input.next_batch(missing) is None:
                break
        return position


WatchInput = OneStream | ManyStreams


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
        continues: bool = False,
        repeats: bool = False,
    ) -> None:
        self._reading, self._channels, self._period = reading, channels, period
        self._newest, self._continues, self._repeats = newest, continues, repeats
        self._by_stream: dict[str, LiveOrder] = {}
        self.zone: str | None = None  # of the times in messages

    @property
    def repeated(self) -> int:
        """How many samples were taken before."""
        return sum(live.order.repeated for live in self._by_stream.values())

    @property
    def far(self) -> int:
        """How many streams hold back samples because their times are far ahead."""
        return sum(live.waiting() is not None for live in self._by_stream.values())

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
            raise StateError(f"place: expected orders as an object, found {facts!r}", hint=FRESH)
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
            self._by_stream[name] = LiveOrder(self._reading, self._channels[name], self._period)
            self._by_stream[name].restore(facts)

    def _new(self, name: str) -> LiveOrder:
        live = LiveOrder(self._reading, self._channels[name], self._period)
        live.begin(self._newest.get(name), continues=self._continues, repeats=self._repeats)
        return live


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
    error = problem.error
    message = f"stream {name!r}: {error.message}"
    return Problem(InputError(message, hint=error.hint), problem.number, problem.before)
