"""The samples of one stream of an input, while it runs: what `arranged` does for a finished one."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import time_ns
from typing import Any, NamedTuple

import numpy as np

from newnormal.arrivals.naming import matching
from newnormal.arrivals.order import Conversion, Order, Steps, joined
from newnormal.errors import StateError
from newnormal.tabular.ordering.arranging import check_timeless
from newnormal.tabular.reading import Reading
from newnormal.tabular.samples import Problem
from newnormal.texts import seconds_text
from newnormal.types import NO_TIME, Floats, Ints, Times, ns_of_time, time_text

_MOST_OPEN = 1_000_000  # samples that wait for those that are late


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
    again: int = 0  # how many samples were taken before, by a sender that began anew


class LiveOrder:
    """Puts the samples of one stream of an input in order, and into what `reading` asks for.

    `reading`: what is asked for: on_duplicate, lateness, rates, rows, resample, from_, until.
    `channels`, `period`: the channels of the values, and the time between samples where it is
    known. `record`: what a record is called in messages.

    >>> live = LiveOrder(Reading(), ("load",), np.timedelta64(1, "D"))
    >>> times = np.array(["2026-01-01", "2199-01-01", "2026-01-02"], "datetime64[ns]")
    >>> arrived = live.push(np.array([[1.0], [2.0], [3.0]]), times, [2, 3, 4])
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
        record: str = "line",
    ) -> None:
        self.zone: str | None = None  # of the times in messages
        self._reading, self._record = reading, record
        rates = [rate for rate in reading.rates if matching(channels, rate)]
        conversion = Conversion(
            channels, rates, reading.rows or (None, None), _ns(reading.resample)
        )
        self._conversion = conversion if conversion.needed else None
        self.order = Order(
            _ns(period),
            _ns(reading.lateness),
            channels=tuple(channels),
            on_duplicate=reading.on_duplicate,
            conversion=self._conversion,
            now=time_ns,
            most_open=_MOST_OPEN,
        )
        self._parts = reading.from_ is not None or reading.until is not None
        self._count = 0  # of samples, for records without numbers

    @property
    def held(self) -> int:
        """How many samples are held back, of those that were not brought to a period."""
        return self.order.kept

    @property
    def plain(self) -> bool:
        """Whether samples in order go through as they are, and nothing is remembered of others."""
        return self._conversion is None and not self._parts and self.order.is_plain

    def begin(self, newest: np.datetime64 | None, *, continues: bool, repeats: bool) -> None:
        """Go on behind the newest sample of an earlier start.

        `continues`: whether the input goes on, too: else its first sample is near no other one.
        `repeats`: whether samples that were taken before may come again.
        """
        if newest is None:
            return
        self.order.closed = ns_of_time(newest)
        if continues:
            self.order.newest = self.order.closed
        if continues and repeats:
            self.order.repeat()

    def go_back(self, newest: np.datetime64 | None) -> None:
        """Take again, of a sender that begins anew, what came after this one."""
        if self.order.at_once and not self._parts:
            self.order.repeat(ns_of_time(newest))

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
        count = len(values)
        if not count and not problems:
            return OrderedSamples(values, times, numbers)
        moments = times.astype("datetime64[ns]", copy=False).view(np.int64)
        if numbers is None:
            records = np.arange(self._count, self._count + count)
        else:
            records = np.asarray(numbers, np.int64)
        self._count += count
        out = _Arrived(self)
        start = 0
        for problem in problems:
            rows = slice(start, problem.before)
            out.add(self.order.take_records(moments[rows], values[rows], records[rows]))
            if self.order.ends is not None:
                return out.samples()
            out.problems.append(replace(problem, before=out.count))
            start = problem.before
        if not start:
            steps = self.order.take_records(moments, values, records)
            if steps.values is values and not self._parts:  # the usual case
                return OrderedSamples(values, times, numbers, tuple(out.problems))
            out.add(steps)
        elif start < count:
            out.add(self.order.take_records(moments[start:], values[start:], records[start:]))
        return out.samples()

    def flush(self) -> OrderedSamples:
        """Return what was held back: the input has ended. What is far ahead is refused."""
        out = _Arrived(self)
        out.add(self.order.flush())
        return out.samples()

    def waiting(self) -> str | None:
        """Return a text about the samples that are far ahead and not decided, None if none is."""
        first, newest = self.order.held, self.order.newest
        if first is None or newest == NO_TIME:
            return None
        texts = [time_text(np.datetime64(time, "ns"), self.zone) for time in (first, newest)]
        return f"the time {texts[0]} is far ahead of {texts[1]}: held back until more samples come"

    def facts(self) -> dict[str, Any]:
        """Return what it remembers as JSON values."""
        return {"order": self.order.to_json(), "count": self._count}

    def restore(self, facts: Mapping[str, Any], again: bool = False) -> None:
        """Restore what `facts` returned; with `again`, what was taken before may come again."""
        try:
            self.order.restore(facts["order"])
            self._count = int(facts["count"])
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise StateError(
                f"position: expected the samples that are held back, found {facts!r}",
                hint="delete the folder to read the input from the start",
            ) from error
        if again:
            self.order.repeat()

    def wanted(self, steps: Steps) -> Steps:
        """Return those steps whose times are asked for."""
        if not self._parts:
            return steps
        reading, times = self._reading, steps.times.view("datetime64[ns]")
        wanted = np.ones(len(times), dtype=np.bool_)
        if reading.from_ is not None:
            wanted &= times >= reading.from_.in_zone(self.zone)
        if reading.until is not None:
            wanted &= times < reading.until.in_zone(self.zone)
        numbers = np.empty(0, np.int64) if steps.numbers is None else steps.numbers
        before = np.append(0, np.cumsum(wanted))
        refused = tuple(row._replace(before=int(before[row.before])) for row in steps.refused)
        return Steps(
            steps.times[wanted], steps.values[wanted], numbers[wanted], refused, steps.gaps
        )

    def problem(self, steps: Steps, before: int) -> tuple[list[Problem], list[str]]:
        """Return the problems of refused records, and notes about confirmed gaps."""
        problems = [
            Problem(row.error(self.zone, self._record), row.number, before + row.before)
            for row in steps.refused
        ]
        notes = [
            f"{self._record} {number}: a gap of {seconds_text(length / 1e9)}, confirmed"
            for number, length in steps.gaps
        ]
        return problems, notes

    def _timeless(
        self, values: Floats, numbers: Sequence[int] | Ints | None, problems: Sequence[Problem]
    ) -> OrderedSamples:
        if len(values):
            check_timeless(self._reading)
        if self._conversion is None:
            return OrderedSamples(values, None, numbers, tuple(problems))
        taken, values = self._conversion.timeless(values)
        shifted = [
            replace(problem, before=min(max(problem.before, taken.start), taken.stop) - taken.start)
            for problem in problems
        ]
        kept = None if numbers is None else numbers[taken]
        return OrderedSamples(values, None, kept, tuple(shifted))


class _Arrived:
    """What was given out in one call."""

    def __init__(self, live: LiveOrder) -> None:
        self._live = live
        self._parts: list[Steps] = []
        self._notes: list[str] = []
        self._repeated = live.order.repeated
        self.problems: list[Problem] = []
        self.count = 0

    def add(self, steps: Steps) -> None:
        steps = self._live.wanted(steps)
        problems, notes = self._live.problem(steps, self.count)
        self.problems += problems
        self._notes += notes
        self._parts.append(steps)
        self.count += len(steps.times)

    def samples(self) -> OrderedSamples:
        steps = joined(self._parts)
        ends = self._live.order.ends
        error = None
        if ends is not None:
            error = Problem(ends.error(self._live.zone, self._live._record), ends.number)
        return OrderedSamples(
            steps.values,
            steps.times.view("datetime64[ns]"),
            [] if steps.numbers is None else steps.numbers.tolist(),
            tuple(self.problems),
            tuple(self._notes),
            error,
            self._live.order.repeated - self._repeated,
        )


def _ns(span: np.timedelta64 | None) -> int | None:
    return None if span is None else int(span / np.timedelta64(1, "ns"))
