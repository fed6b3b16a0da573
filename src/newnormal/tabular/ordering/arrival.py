"""The samples of one stream in order, while it runs: what `arranged` does for a finished one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from newnormal.arrivals.counters import ColumnRates
from newnormal.arrivals.grid import ResampledSteps, Resampler
from newnormal.arrivals.jumps import DAY, PERIODS, is_future, not_confirmed, ordinary, sift
from newnormal.arrivals.naming import matching
from newnormal.errors import InputError, StateError
from newnormal.tabular.ordering.arranging import check_timeless
from newnormal.tabular.ordering.lateness import Lateness, TimedRows
from newnormal.tabular.problems import Problem
from newnormal.tabular.reading import Reading
from newnormal.texts import seconds_text
from newnormal.types import Floats, Ints, Times, ns_of_time, time_text


class OrderedSamples(NamedTuple):
    """Samples whose turn it is."""

    # As in a source's batch.
    values: Floats
    times: Times | None
    numbers: Any
    problems: tuple[Problem, ...] = ()  # what held no sample, or one that cannot be taken; in order
    notes: tuple[str, ...] = ()  # what to report to the user
    # A sample at which the stream ends: a time that is there twice. What came behind it is not in
    # the values.
    error: Problem | None = None


@dataclass
class _Released:
    """What was given out so far in one call."""

    parts: list[TimedRows] = field(default_factory=list)
    count: int = 0
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    error: Problem | None = None

    def add(self, rows: TimedRows) -> None:
        self.parts.append(rows)
        self.count += len(rows)

    @classmethod
    def of(cls, problems: Sequence[Problem]) -> "_Released":
        out = cls()
        for problem in problems:
            out.refuse(problem.error, problem.number)
        return out

    def refuse(self, error: InputError, number: int) -> None:
        self.problems.append(Problem(error, number, self.count))


class RowSelector:
    """Takes part of the samples of a stream that is in order.

    Examples
    --------
    >>> taking = RowSelector(Reading.of(rows="2:5"))
    >>> taking.take(4), taking.take(4)
    (slice(2, 4, None), slice(0, 1, None))
    """

    def __init__(self, reading: Reading) -> None:
        self._first, self._last = reading.rows or (None, None)
        self._from, self._until = reading.from_, reading.until
        bounds = (self._first, self._last, self._from, self._until)
        self.needed = any(each is not None for each in bounds)  # whether less than all is asked for
        self.seen = 0  # how many samples were counted for `rows`

    def take(self, count: int) -> slice:
        """Count the next samples; return which of them are wanted by their number."""
        first = min(max((self._first or 0) - self.seen, 0), count)
        last = count
        if self._last is not None:
            last = min(max(self._last - self.seen, 0), count)
        self.seen += count
        return slice(first, max(first, last))

    def at_times(self, rows: TimedRows, zone: str | None) -> TimedRows:
        """Return those samples whose times, of this zone, are wanted."""
        if self._from is None and self._until is None:
            return rows
        times = rows.times.view("datetime64[ns]")
        wanted = np.ones(len(rows), dtype=bool)
        if self._from is not None:
            wanted &= times >= self._from.in_zone(zone)
        if self._until is not None:
            wanted &= times < self._until.in_zone(zone)
        return rows.take(np.flatnonzero(wanted))


class LiveOrder:
    """Puts the samples of one stream in order as they come, and into what is asked for.

    A time far ahead of the newest (by more than any gap so far, by at least 100 periods, or a day
    where the period is not known) is held back: two further samples near it confirm it, one near
    the time before refutes it. What is late or there twice is handled as in `Lateness` where
    `reorder` or `on_duplicate` is given, else it goes on as it came, for the reader to refuse.
    Counters become rates, and samples are brought to a period, as `arranged` does it.

    Parameters
    ----------
    reading
        What is asked for: on_duplicate, reorder, rate, rows, resample, from_, until.
    channels, period
        The channels of the values, and the time between samples where it is known.
    newest
        The newest time that was given out before.
    record
        What a record is called in messages.

    >>> arrival = LiveOrder(Reading(), ("load",), np.timedelta64(1, "D"))
    >>> times = np.array(["2026-01-01", "2199-01-01", "2026-01-02"], "datetime64[ns]")
    >>> arrived = arrival.push(np.array([[1.0], [2.0], [3.0]]), times, [2, 3, 4])
    >>> arrived.values.tolist(), arrived.problems[0].number
    ([[1.0], [3.0]], 3)
    >>> print(arrived.problems[0].error.message)  # doctest: +NORMALIZE_WHITESPACE
    expected a time near 2026-01-01T00:00:00, found 2199-01-01T00:00:00:
    held back and not confirmed
    """

    def __init__(
        self,
        reading: Reading,
        channels: Sequence[str],
        period: np.timedelta64 | None = None,
        newest: np.datetime64 | None = None,
        record: str = "line",
    ) -> None:
        self._width = len(channels)
        self._reading = reading
        self._newest = None if newest is None else ns_of_time(newest)
        self._rates = ColumnRates(
            [rate for rate in reading.rates if matching(channels, rate)], channels
        )
        self._grid = None if reading.resample is None else Resampler(reading.resample, self._width)
        self._late = Lateness(
            self._width, reading.reorder, reading.on_duplicate, self._newest, record
        )
        self._taking = RowSelector(reading)
        waits = reading.reorder > 0 or reading.on_duplicate is not None
        changes = self._rates.needed or self._grid is not None or self._taking.needed
        self._plain = not (waits or changes)
        self._record = record
        self._held = TimedRows.of([], self._width)  # far ahead
        step = None if period is None else int(period / np.timedelta64(1, "ns"))
        self._limit = DAY if step is None else PERIODS * step
        self._count = 0  # of samples, for records without numbers

    @property
    def zone(self) -> str | None:
        """The zone of the times in messages."""
        return self._late.zone

    @zone.setter
    def zone(self, zone: str | None) -> None:
        self._late.zone = zone

    @property
    def held(self) -> int:
        """How many samples are held back, of those that were not brought to a period."""
        return len(self._held) + self._late.held

    @property
    def limit(self) -> int:
        """The longest step that is no jump, in ns."""
        return self._limit

    @property
    def plain(self) -> bool:
        """Whether samples in order go through as they are."""
        return self._plain and not len(self._held) and not self._late.held

    def push(
        self,
        values: Floats,
        times: Times | None,
        numbers: Sequence[int] | Ints | None = None,
        problems: Sequence[Problem] = (),
    ) -> OrderedSamples:
        """Take samples as they came; return those whose turn it is.

        `problems` are those of the records among them; they keep their places.
        """
        if times is None:
            return self._timeless(values, numbers, problems)
        if not len(values):
            return OrderedSamples(values, times, numbers, tuple(problems))
        moments = times.astype("datetime64[ns]", copy=False).view(np.int64)
        waits = self._newest is None and not self._begin(moments)
        newest = int(moments.max())
        if (
            self._newest is not None
            and self.plain
            and (
                newest - self._newest <= self._limit
                or ordinary(moments, 0, self._newest, self._limit)[0] == len(moments)
            )
        ):
            self._newest = max(self._newest, newest)
            self._count += len(values)
            return OrderedSamples(values, times, numbers, tuple(problems))
        if numbers is None:
            numbers = np.arange(self._count, self._count + len(values))
        self._count += len(values)
        rows = TimedRows(values, moments, np.asarray(numbers, dtype=np.int64))
        if waits:
            self._held = rows
            return self._arrived(_Released.of(problems))
        return self._slowly(rows, problems)

    def _begin(self, moments: Ints) -> bool:
        """Find the time that the stream begins at; return False if that needs more samples.

        A first time that is in the future is held back: it is wrong if the next one is not.
        """
        coming: list[int] = [*self._held.times.tolist(), *moments[:2].tolist()]
        if not is_future(coming[0]):
            self._newest = coming[0]
        elif len(coming) == 1:
            return False
        else:
            self._newest = coming[0] if is_future(coming[1]) else coming[1]
        return True

    def flush(self) -> OrderedSamples:
        """Return what was held back: the input has ended. What is far ahead is refused."""
        out = _Released()
        if self._newest is None and len(self._held):  # the only sample: nothing speaks against it
            held, self._held = self._held, TimedRows.of([], self._width)
            self._newest = int(held.times[0])
            self._order(held, out)
        self._convert(self._late.flush(), out)
        if self._grid is not None:
            self._add(self._grid.flush(), out)
        for time, number in zip(self._held.times, self._held.numbers, strict=True):
            assert self._newest is not None  # it is what the time is far ahead of
            out.refuse(InputError(not_confirmed(int(time), self._newest, self.zone)), int(number))
        self._held = TimedRows.of([], self._width)
        return self._arrived(out)

    def waiting(self) -> str | None:
        """Return a text about the samples that are far ahead and not decided, None if none is."""
        if not len(self._held) or self._newest is None:
            return None
        first = time_text(np.datetime64(int(self._held.times[0]), "ns"), self.zone)
        newest = time_text(np.datetime64(self._newest, "ns"), self.zone)
        return f"the time {first} is far ahead of {newest}: held back until more samples come"

    def facts(self) -> dict[str, Any]:
        """Return what it remembers as JSON values."""
        facts: dict[str, Any] = {"newest": self._newest, "limit": self._limit}
        if len(self._held):
            facts["held"] = self._held.facts()
        if self._plain and not self._late.held:
            return facts
        facts["count"] = self._count
        facts["late"] = self._late.facts()
        facts["rates"] = self._rates.facts()
        facts["seen"] = self._taking.seen
        if self._grid is not None:
            facts["grid"] = self._grid.facts()
        return facts

    def restore(self, facts: Mapping[str, Any], again: bool = False) -> None:
        """Restore what `facts` returned.

        With `again`, samples that were pushed before may come again, as those of a pipe whose
        sender starts over; where options are given they are left out, else they go on.
        """
        try:
            self._newest = facts["newest"]
            self._limit = max(self._limit, int(facts["limit"]))
            self._held = TimedRows.of(facts.get("held", []), self._width)
            if "late" not in facts:
                self._late.start(self._newest, again)
                return
            self._count = int(facts["count"])
            self._late.restore(facts["late"], again)
            self._rates.restore(facts["rates"])
            self._taking.seen = int(facts.get("seen", 0))
            if self._grid is not None and "grid" in facts:
                self._grid.restore(facts["grid"])
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise StateError(
                f"place: expected the samples that are held back, found {facts!r}",
                hint="delete the state file to read the input from the start",
            ) from error

    def _timeless(
        self, values: Floats, numbers: Sequence[int] | Ints | None, problems: Sequence[Problem]
    ) -> OrderedSamples:
        if len(values):
            check_timeless(self._reading)
            values = self._rates.push(values, None)
        if not self._taking.needed:
            return OrderedSamples(values, None, numbers, tuple(problems))
        wanted = self._taking.take(len(values))
        shifted = [
            replace(
                problem, before=min(max(problem.before, wanted.start), wanted.stop) - wanted.start
            )
            for problem in problems
        ]
        kept_numbers = None if numbers is None else numbers[wanted]
        return OrderedSamples(values[wanted], None, kept_numbers, tuple(shifted))

    def _slowly(self, rows: TimedRows, problems: Sequence[Problem]) -> OrderedSamples:
        out = _Released()
        start = 0
        for problem in problems:
            self._sift(rows.take(slice(start, problem.before)), out)
            if out.error is not None:
                break
            start = problem.before
            out.refuse(problem.error, problem.number)
        else:
            self._sift(rows.take(slice(start, None)), out)
        return self._arrived(out)

    def _sift(self, rows: TimedRows, out: _Released) -> None:
        """Hold back what is far ahead, and pass the others on."""
        if not len(rows):
            return
        assert self._newest is not None  # the first sample sets it
        every = self._held.then(rows)
        sifted = sift(every.times, self._newest, self._limit)
        self._newest, self._limit = sifted.newest, sifted.limit
        self._held = every.take(sifted.held)
        for first, gap in sifted.gaps:
            number = int(every.numbers[first])
            length = seconds_text(gap / 1e9)
            out.notes.append(f"{self._record} {number}: a gap of {length}, confirmed")
        start = 0
        for row, position, near in sifted.dropped:
            self._order(every.take(sifted.kept[start:position]), out)
            start = position
            if out.error is not None:
                return
            error = InputError(not_confirmed(int(every.times[row]), near, self.zone))
            out.refuse(error, int(every.numbers[row]))
        self._order(every.take(sifted.kept[start:]), out)

    def _order(self, rows: TimedRows, out: _Released) -> None:
        if not len(rows):
            return
        if self._plain and not self._late.held:
            out.add(rows)
            return
        for part, problem in self._late.push(rows):
            self._convert(part, out)
            if problem is not None:
                out.refuse(problem.error, problem.number)
        if self._late.error is not None:
            out.error, self._late.error = self._late.error, None

    def _convert(self, rows: TimedRows, out: _Released) -> None:
        """Turn counters into rates, take part of the samples, and bring them to a period."""
        if not len(rows):
            return
        times = rows.times.view("datetime64[ns]")
        taken = TimedRows(self._rates.push(rows.values, times), rows.times, rows.numbers)
        if self._taking.needed:
            taken = taken.take(self._taking.take(len(taken)))
        if self._grid is None:
            out.add(self._taking.at_times(taken, self.zone))
        elif len(taken):
            times = taken.times.view("datetime64[ns]")
            self._add(self._grid.push(taken.values, times, taken.numbers), out)

    def _add(self, steps: ResampledSteps, out: _Released) -> None:
        rows = TimedRows(steps.values, steps.times.view(np.int64), steps.numbers)
        out.add(self._taking.at_times(rows, self.zone))

    def _arrived(self, out: _Released) -> OrderedSamples:
        rows = TimedRows.of([], self._width)
        parts = [part for part in out.parts if len(part)]
        if len(parts) == 1:
            rows = parts[0]
        elif parts:
            rows = TimedRows(
                np.concatenate([part.values for part in parts]),
                np.concatenate([part.times for part in parts]),
                np.concatenate([part.numbers for part in parts]),
            )
        return OrderedSamples(
            rows.values,
            rows.times.view("datetime64[ns]"),
            rows.numbers.tolist(),
            tuple(out.problems),
            tuple(out.notes),
            out.error,
        )
