"""Samples that come late or twice, put in their place while a stream runs."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np

from newnormal.core.times import is_late, is_rising, late_error
from newnormal.errors import InputError
from newnormal.tabular.problems import Problem
from newnormal.types import Floats, Ints, time_text

HOUR_TWICE = (
    "an hour that comes twice, as where the clock is put back, is kept whole with the zone "
    "of the times: --tz Europe/Berlin (tz=)"
)
_HOUR = np.timedelta64(3600, "s")


@dataclass(frozen=True, slots=True, eq=False)
class TimedRows:
    """Samples: values, times in ns, and the numbers of their records."""

    values: Floats
    times: Ints
    numbers: Ints

    def __len__(self) -> int:
        return len(self.times)

    def take(self, rows: Any) -> "TimedRows":
        """Return some of them."""
        return TimedRows(self.values[rows], self.times[rows], self.numbers[rows])

    def then(self, other: "TimedRows") -> "TimedRows":
        """Return these, and others behind them."""
        if not len(self):
            return other
        return TimedRows(
            np.concatenate([self.values, other.values]),
            np.concatenate([self.times, other.times]),
            np.concatenate([self.numbers, other.numbers]),
        )

    def facts(self) -> list[list[Any]]:
        """Return them as JSON values."""
        return [
            [time, number, [None if isnan(value) else value for value in values]]
            for values, time, number in zip(
                self.values.tolist(), self.times.tolist(), self.numbers.tolist(), strict=True
            )
        ]

    @classmethod
    def of(cls, facts: Sequence[Sequence[Any]], width: int) -> "TimedRows":
        """Return what `facts` was made from."""
        values = np.array([fact[2] for fact in facts], dtype=np.float64)
        return cls(
            values.reshape(len(facts), width),
            np.array([fact[0] for fact in facts], dtype=np.int64),
            np.array([fact[1] for fact in facts], dtype=np.int64),
        )


def late_record_error(
    when: np.datetime64, newest: np.datetime64, zone: str | None = None
) -> InputError:
    """Return the error of a record whose time is not after the newest one."""
    back = zone is None and _HOUR / 2 <= newest - when <= _HOUR
    return late_error(when, newest, zone, hint=HOUR_TWICE if back else None)


class Lateness:
    """Gives samples out in the order of their times, each time once.

    The newest samples are held back, `reorder` of them: one that is late by no more takes its
    place. With `on_duplicate` "last" or "mean" at least one is held back, until a later one comes.

    Without `on_duplicate` the first sample of a time counts, and the others are late. All samples
    must be after `newest`. `record` is what a record is called in messages.
    """

    def __init__(
        self,
        width: int,
        reorder: int,
        on_duplicate: str | None,
        newest: int | None = None,
        record: str = "line",
    ) -> None:
        self._width = width
        self._record = record
        self._mode = on_duplicate
        self._hold = max(reorder, int(on_duplicate in ("last", "mean")))
        self._newest = newest  # given out
        self._rows = TimedRows.of([], width)  # held back
        self._counts = np.empty((0, width))  # of the values in the sums that are held back
        self._again: int | None = None  # up to here, samples may be sent again
        self._number = 0  # of the newest given out
        self.error: Problem | None = None
        self.zone: str | None = None  # of the times in messages

    @property
    def held(self) -> int:
        """How many samples are held back."""
        return len(self._rows)

    def push(self, rows: TimedRows) -> list[tuple[TimedRows, Problem | None]]:
        """Take samples; return those whose turn it is, each part with the problem behind it.

        A time that is there twice, where that is an error, is in `error`; nothing behind it is
        looked at.
        """
        values, counts = rows.values, np.empty((0, self._width))
        if self._mode == "mean":
            there = ~np.isnan(values)
            counts = there.astype(np.float64)
            values = np.where(there, values, 0.0)
        every = self._rows.then(TimedRows(values, rows.times, rows.numbers))
        if self._again is None and is_rising(every.times, self._newest):
            return [(self._released(every, np.vstack([self._counts, counts])), None)]
        return self._one_by_one(TimedRows(values, rows.times, rows.numbers), counts)

    def flush(self) -> TimedRows:
        """Return the samples that are held back: the input has ended."""
        hold, self._hold = self._hold, 0
        released = self._released(self._rows, self._counts)
        self._hold = hold
        return released

    def start(self, newest: int | None, again: bool) -> None:
        """Set the newest time given out, where nothing was held back."""
        self._newest = newest
        self._again = newest if again else None

    def facts(self) -> dict[str, Any]:
        """Return what is held back as JSON values."""
        return {
            "newest": self._newest,
            "number": self._number,
            "held": self._rows.facts(),
            "counts": self._counts.tolist(),
        }

    def restore(self, facts: Mapping[str, Any], again: bool) -> None:
        """Restore what `facts` returned.

        `again` says that samples which were pushed before may come again: those are left out.
        """
        self._newest, self._number = facts["newest"], int(facts["number"])
        self._rows = TimedRows.of(facts["held"], self._width)
        counts = np.array(facts["counts"], dtype=np.float64).reshape(-1, self._width)
        if len(counts) and self._mode != "mean":  # as it was before
            self._rows = self._averaged(self._rows, counts)
        elif self._mode == "mean" and len(counts) != len(self._rows):
            counts = (~np.isnan(self._rows.values)).astype(np.float64)
        self._counts = counts if self._mode == "mean" else np.empty((0, self._width))
        if again:
            self._again = int(self._rows.times[-1]) if len(self._rows) else self._newest

    def _released(self, every: TimedRows, counts: Floats) -> TimedRows:
        end = max(len(every) - self._hold, 0)
        self._rows = every.take(slice(end, None))
        done = every.take(slice(end))
        if self._mode == "mean":
            self._counts = counts[end:]
            done = self._averaged(done, counts[:end])
        if end:
            self._newest, self._number = int(every.times[end - 1]), int(every.numbers[end - 1])
        return done

    def _averaged(self, rows: TimedRows, counts: Floats) -> TimedRows:
        with np.errstate(invalid="ignore", divide="ignore"):
            return TimedRows(rows.values / counts, rows.times, rows.numbers)

    def _one_by_one(
        self, rows: TimedRows, counts: Floats
    ) -> list[tuple[TimedRows, Problem | None]]:
        """Take samples of which some are late, or there twice."""
        parts: list[tuple[TimedRows, Problem | None]] = []
        times = self._rows.times.tolist()
        entries = [
            (self._rows.values[row], int(self._rows.numbers[row]), self._counts[row : row + 1])
            for row in range(len(times))
        ]
        done: list[tuple[int, tuple[Floats, int, Floats]]] = []

        def cut(problem: Problem | None) -> None:
            parts.append((self._given(done), problem))
            done.clear()

        for row, time in enumerate(rows.times.tolist()):
            number = int(rows.numbers[row])
            entry = (rows.values[row], number, counts[row : row + 1])
            if self._again is not None and time > self._again:
                self._again = None
            slot = bisect_left(times, time)
            twice = slot < len(times) and times[slot] == time
            if self._newest is not None and is_late(time, self._newest):
                if self._again is not None:
                    continue
                if self._mode == "error" and time == self._newest:
                    self.error = self._twice(time, number, self._number)
                    break
                cut(self._late(time, self._newest, number))
            elif twice and (self._mode == "last" or self._again is not None):
                entries[slot] = entry
            elif twice and self._mode == "mean":
                old = entries[slot]
                entries[slot] = (old[0] + entry[0], number, old[2] + entry[2])
            elif twice and self._mode == "error":
                self.error = self._twice(time, number, entries[slot][1])
                break
            elif twice:
                cut(self._late(time, time, number))
            else:
                times.insert(slot, time)
                entries.insert(slot, entry)
                while len(times) > self._hold:
                    self._newest = times.pop(0)
                    done.append((self._newest, entries.pop(0)))
                    self._number = done[-1][1][1]
        self._keep(times, entries)
        cut(None)
        return parts

    def _given(self, done: list[tuple[int, tuple[Floats, int, Floats]]]) -> TimedRows:
        if not done:
            return TimedRows.of([], self._width)
        rows = TimedRows(
            np.array([values for _, (values, _, _) in done]),
            np.array([time for time, _ in done], dtype=np.int64),
            np.array([number for _, (_, number, _) in done], dtype=np.int64),
        )
        if self._mode != "mean":
            return rows
        return self._averaged(rows, np.concatenate([counts for _, (_, _, counts) in done]))

    def _keep(self, times: list[int], entries: list[tuple[Floats, int, Floats]]) -> None:
        if not times:
            self._rows, self._counts = TimedRows.of([], self._width), np.empty((0, self._width))
            return
        self._rows = TimedRows(
            np.array([values for values, _, _ in entries]),
            np.array(times, dtype=np.int64),
            np.array([number for _, number, _ in entries], dtype=np.int64),
        )
        if self._mode == "mean":
            self._counts = np.concatenate([counts for _, _, counts in entries])

    def _late(self, time: int, newest: int, number: int) -> Problem:
        when, after = np.datetime64(time, "ns"), np.datetime64(newest, "ns")
        return Problem(late_record_error(when, after, self.zone), number)

    def _twice(self, time: int, number: int, other: int) -> Problem:
        text = time_text(np.datetime64(time, "ns"), self.zone)
        error = InputError(
            f"expected each time once, found {text} again, as in {self._record} {other}",
            hint="choose with --on-duplicate last|mean (on_duplicate=)",
        )
        return Problem(error, number)
