"""A source whose samples are put in order before they are judged."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from newnormal.arrivals.jumps import cells_of
from newnormal.errors import InputError, ParameterError, StateError
from newnormal.io.sources.base import FRESH, Batch, Source, check_batch
from newnormal.io.sources.lines import LineSource
from newnormal.tabular import Problem
from newnormal.tabular.ordering.live import LiveOrder, OrderedSamples
from newnormal.types import Times

_KEY = "arrival"  # of a snapshot: what is held back


class ArrivingSource(Source):
    """Another source, with its samples in order: see `newnormal.tabular.ordering.live.LiveOrder`.

    Its snapshot is that of the other source, and the samples that are held back.

    `wrapped`: the other source, which has delivered nothing. `keep`: at the end of the input, leave
    what is held back to the next start, by the snapshot. Without it what was put in order is given
    out, and what is far ahead is refused. `period`: the time between samples: a jump is longer than
    a hundred of them; None: than a day.
    """

    def __init__(
        self, wrapped: Source, keep: bool = False, period: np.timedelta64 | None = None
    ) -> None:
        super().__init__(wrapped.input, wrapped.options)
        self.wrapped = wrapped
        # Of this source alone: the class has no one answer.
        self.record = wrapped.record  # type: ignore[misc]
        self.repeats = wrapped.repeats  # type: ignore[misc]
        self._keep = keep
        self._period = period
        self._arrival = self._new()
        self._ready: list[Batch] = []  # one that was longer than the limit
        self._refused: Problem | None = None  # what ends the input, raised by the next call
        self._ended = self._stopped = False
        self._zone: str | None = None  # of the times of the last batch

    @property
    def name(self) -> str:
        """What the other source is called in messages."""
        return self.wrapped.name

    @property
    def identity(self) -> str:
        """What tells the other source's input from others."""
        return self.wrapped.identity

    @property
    def held(self) -> int:
        """How many samples are held back."""
        return self._arrival.held

    @property
    def repeated(self) -> int:
        """How many samples were taken before, by a sender that began anew."""
        return self._arrival.order.repeated

    def go_back(self, newest: np.datetime64 | None) -> None:
        """Take again, of a sender that begins anew, what came after this one."""
        self._arrival.go_back(newest)

    def next_batch(self, limit: int) -> Batch | None:
        """Return the next samples in order, at most `limit`."""
        if self._ready:
            return self._cut(limit)
        if self._refused is not None:
            refused = self._refused
            raise InputError(
                f"{self.name}: {self.record} {refused.number}: {refused.error.message}",
                hint=refused.error.hint,
            )
        if self._ended:
            return None
        strict = self.options.reading.on_duplicate == "error" and not self.repeats
        before = self.wrapped.snapshot() if strict else {}
        if (batch := self.wrapped.next_batch(limit)) is None:
            return self._end(limit)
        # Lines that were held until the header was found come with those behind it.
        most = max(limit, len(batch)) if isinstance(self.wrapped, LineSource) else limit
        check_batch(self.wrapped, batch, len(self.options.channels), most)
        self._zone = self._arrival.zone = batch.zone
        arrived = self._arrival.push(batch.values, batch.times, batch.numbers, batch.problems)
        if arrived.values is batch.values and len(batch) <= limit:
            return batch
        if arrived.error is not None:
            self._refused = arrived.error
            if strict:
                self._rewind(before, arrived.error.number)
        return self._give(arrived, limit)

    def snapshot(self) -> dict[str, Any]:
        """Return the position behind the last batch, and what is held back."""
        position = self.wrapped.snapshot()
        if _KEY in position:
            raise ParameterError(
                f"source: expected a snapshot without {_KEY!r}, found {position!r}",
                hint=f"{_KEY} is reserved: choose another key",
            )
        facts = self._arrival.facts()
        if self._ready:
            facts["ready"] = [_facts(each) for each in self._ready]
        return {**position, _KEY: facts}

    def resume(self, snapshot: Mapping[str, Any]) -> bool:
        """Go to the position of a snapshot, and take up what was held back."""
        position = {name: value for name, value in snapshot.items() if name != _KEY}
        if not self.wrapped.resume(position):
            return False
        self._arrival = self._new()
        self._ready, self._refused = [], None
        self._ended = self._stopped = False
        if (facts := snapshot.get(_KEY)) is None:
            return True
        if not isinstance(facts, Mapping):
            raise StateError(f"place: expected {_KEY} as an object, found {facts!r}", hint=FRESH)
        self._arrival.restore(facts, again=self.repeats)
        width = len(self.options.channels)
        self._ready = [_batch(each, width) for each in facts.get("ready", [])]
        return True

    def stop(self) -> bool:
        """Take in nothing more; what is held back stays so."""
        self._stopped = True
        return self.wrapped.stop()

    def close(self) -> None:
        """Close the other source."""
        self.wrapped.close()

    def _new(self) -> LiveOrder:
        options = self.options
        return LiveOrder(options.reading, options.channels, self._period, record=self.record)

    def _end(self, limit: int) -> Batch | None:
        self._ended = True
        if self._keep or self._stopped:
            if (waiting := self._arrival.waiting()) is not None:
                self.report(f"{self.name}: {waiting}")
            return None
        arrived = self._arrival.flush()
        if not len(arrived.values) and not arrived.problems:
            return None
        return self._give(arrived, limit)

    def _give(self, arrived: OrderedSamples, limit: int) -> Batch:
        for text in arrived.notes:
            self.report(text)
        times = arrived.times if len(arrived.values) else None
        batch = Batch(arrived.values, times, arrived.numbers, arrived.problems, self._zone)
        self._ready.append(batch)
        return self._cut(limit)

    def _cut(self, limit: int) -> Batch:
        """Return what is ready, up to the limit."""
        batch = self._ready.pop()
        if len(batch) <= limit:
            return batch
        self._ready.append(_part(batch, limit, len(batch)))
        return _part(batch, 0, limit)

    def _rewind(self, before: dict[str, Any], number: int) -> None:
        """Put the other source before the record that ends the input."""
        if not self.wrapped.resume(before):
            return
        position = before
        while (batch := self.wrapped.next_batch(1)) is not None:
            numbers = [*(batch.numbers or ()), *(problem.number for problem in batch.problems)]
            if any(each >= number for each in numbers):
                break
            position = self.wrapped.snapshot()
        self.wrapped.resume(position)


def _part(batch: Batch, begin: int, end: int) -> Batch:
    rows = slice(begin, end)
    return Batch(
        batch.values[rows],
        None if batch.times is None else batch.times[rows],
        None if batch.numbers is None else batch.numbers[rows],
        tuple(
            replace(problem, before=problem.before - begin)
            for problem in batch.problems
            if problem.before >= begin and (problem.before < end or end == len(batch))
        ),
        batch.zone,
    )


def _facts(batch: Batch) -> dict[str, Any]:
    times: Times = np.empty(0, "datetime64[ns]") if batch.times is None else batch.times
    problems = [[each.error.message, each.number, each.before] for each in batch.problems]
    return {
        "times": times.view(np.int64).tolist(),
        "values": [cells_of(row) for row in batch.values],
        "numbers": list(batch.numbers or []),
        "problems": problems,
        "zone": batch.zone,
    }


def _batch(facts: Any, width: int) -> Batch:
    try:
        rows = [[np.nan if cell is None else cell for cell in row] for row in facts["values"]]
        values = np.array(rows, dtype=np.float64).reshape(len(rows), width)
        times = np.array(facts["times"], dtype=np.int64).view("datetime64[ns]")
        problems = tuple(
            Problem(InputError(message), number, before)
            for message, number, before in facts["problems"]
        )
        numbers = list(facts["numbers"])
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise StateError(
            f"place: expected samples that are ready, found {facts!r}", hint=FRESH
        ) from error
    return Batch(values, times if rows else None, numbers, problems, facts.get("zone"))
