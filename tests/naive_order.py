"""A slow and obvious twin of the order: keeps every sample, and decides anew each time."""

from collections.abc import Sequence
from itertools import pairwise
from math import isnan, nan
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from newnormal.arrivals.arrival import Arrival
from newnormal.tabular import Reading

NEVER = np.iinfo(np.int64).min
MOST_OPEN = 1000
GONE = 5
HOUR = 3_600_000_000_000


class Sample(NamedTuple):
    time: int
    given: dict[str, float]
    channels: tuple[str, ...]
    number: int = -1


class NaiveOrder:
    """Does what `Order` says, sample by sample, with lists and dicts."""

    def __init__(
        self,
        period: int | None = None,
        lateness: int | None = None,
        on_duplicate: str | None = None,
    ) -> None:
        self.period, self.lateness, self.how = period, lateness, on_duplicate
        self.refused: list[int] = []  # numbers
        self.parts: dict[int, list[dict[str, float]]] = {}  # the samples of open steps
        self.channels: list[str] = []
        self.newest = self.closed = NEVER
        self.counts = {"late": 0, "duplicate": 0, "out_of_order": 0, "jumped": 0}
        self.whole = True
        self.origin: int | None = None
        self.last_whole = NEVER  # the newest sample before channels came apart
        self.open: dict[int, dict[str, float]] = {}  # by the time of the step
        self.steps: list[tuple[int, dict[str, float]]] = []  # all that closed
        self.last: dict[str, int] = {}  # the newest time of each channel
        self.absent: dict[str, int] = {}  # closed steps without it
        self.rare: set[str] = set()  # channels whose last two samples were far apart
        self.arrivals: list[tuple[str, ...]] = []  # the channels of each
        self.held: list[Sample] = []  # far ahead
        self.first: list[int] = []  # times, for the usual step
        self.usual: int | None = None
        self.longest_gap = 0

    def take(self, arrival: Arrival, needed: Sequence[str] | None, number: int = -1) -> None:
        """Take samples; `needed` makes a step complete, None: nothing does."""
        if any(name not in arrival.channels for name in self.channels):
            self.whole = False
        self.channels += [name for name in arrival.channels if name not in self.channels]
        self.arrivals.append(arrival.channels)
        came = [
            Sample(
                time,
                {name: v for name, v in zip(arrival.channels, row, strict=True) if v == v},
                arrival.channels,
                number,
            )
            for time, row in zip(arrival.times.tolist(), arrival.values.tolist(), strict=True)
        ]
        self._hold_or_take(came, arrival.channels)
        if not self.whole and self.origin is None:
            self._begin_steps()
        while self.open and (self.whole or self.origin is not None):
            first = min(self.open)
            if (
                len(self.open) <= MOST_OPEN
                and not self._is_over(first, needed)
                and not self._is_complete(first, needed)
            ):
                break
            self._end(first)

    def close(self, until: int) -> None:
        """Close what began before a time."""
        held = sorted(self.held, key=lambda each: each.time)
        if held and held[0].time < until:
            self._remember_gap(held[0].time - self.newest)
            while held and (held[0].time < until or held[0].time <= self.newest + self.limit()):
                sample = held.pop(0)
                self.held = [each for each in self.held if each is not sample]
                self._sample(sample)
            if self.whole and self.lateness is None:
                until = self.newest + 1
        for time in sorted(self.open):
            if time < until:
                self._end(time)

    def limit(self) -> int:
        """Return the longest step that is no jump."""
        step = self.period or self.usual
        return 24 * HOUR if step is None else max(100 * step, self.longest_gap)

    def _remember_gap(self, gap: int) -> None:
        self.longest_gap = max(self.longest_gap, min(gap, HOUR))

    def _hold_or_take(self, came: list[Sample], channels: tuple[str, ...]) -> None:
        """Take samples; hold those that are far ahead until others of their channels decide."""
        if self.whole and self.period is None and self.usual is None:
            self.first += [each.time for each in came]
            times = sorted(list(dict.fromkeys(self.first))[:9])
            if len(times) == 9:
                self.usual = int(median(b - a for a, b in pairwise(times)))
        own = [each for each in self.held if set(each.channels) & set(channels)]
        others = [each for each in self.held if not set(each.channels) & set(channels)]
        last = max(self.last.get(name, NEVER) for name in channels)
        if not self.whole and any(last < each.time <= self.newest for each in came):
            self._drop(own)
            own = []
        waiting: list[Sample] = []
        for sample in [*own, *came]:
            if self.newest == NEVER or sample.time <= self.newest:
                self._sample(sample)
            elif sample.time <= self.newest + self.limit():
                self._drop(waiting)
                waiting = []
                self._sample(sample)
            else:
                waiting.append(sample)
                confirmed = next((c for c in self._clusters(waiting) if _different(c) == 3), None)
                if confirmed is not None:
                    waiting = self._confirm(confirmed, waiting)
                while len(waiting) > 16:
                    gone = self._clusters(waiting)[0]
                    self._drop(gone)
                    waiting = _without(waiting, gone)
        self.held = others + waiting
        for sample in sorted(self.held, key=lambda each: each.time):
            if sample.time <= self.newest:
                self.held = _without(self.held, [sample])
                self._sample(sample)

    def _clusters(self, waiting: list[Sample]) -> list[list[Sample]]:
        """Return samples that are near each other."""
        found: list[list[Sample]] = []
        for sample in waiting:
            for cluster in found:
                times = [each.time for each in cluster]
                further = max(self.limit(), 2 * (times[0] - self.newest))
                if min(times) - self.limit() <= sample.time <= max(times) + further:
                    cluster.append(sample)
                    break
            else:
                found.append([sample])
        return found

    def _confirm(self, cluster: list[Sample], waiting: list[Sample]) -> list[Sample]:
        """Take samples that belong together and those before them; drop those behind them."""
        first = min(each.time for each in cluster)
        times = sorted({each.time for each in cluster})
        gaps = [b - a for a, b in pairwise(times)]
        self._remember_gap(max(first - self.newest, *gaps))
        others = _without(waiting, cluster)
        before = [each for each in others if each.time < first]
        self._drop(_without(others, before))
        for each in before + cluster:
            self._sample(each)
        return []

    def _drop(self, samples: list[Sample]) -> None:
        self.counts["jumped"] += len(samples)
        self.refused += [each.number for each in samples]

    def _refuse(self, kind: str, sample: Sample) -> None:
        self.counts[kind] += 1
        self.refused.append(sample.number)

    def _sample(self, sample: Sample) -> None:
        time, given = sample.time, sample.given
        for name in given if self._waits() else ():
            if self.period is not None:
                self.rare.discard(name)
                if name in self.last and self.last[name] < time - GONE * self.period:
                    self.rare.add(name)
            if name not in self.rare:
                self.absent[name] = 0
            self.last[name] = max(self.last.get(name, NEVER), time)
        came_behind = time < self.newest
        self.newest = max(self.newest, time)
        step = self._step_of(time)
        if step <= self.closed:
            self._refuse("duplicate" if time == self.closed else "late", sample)
            return
        new = step not in self.open or any(name not in self.open[step] for name in given)
        if not new and self.how is None:
            self._refuse("duplicate", sample)
            return
        own = self.open.setdefault(step, {})
        self.counts["out_of_order"] += came_behind
        parts = self.parts.setdefault(step, [])
        parts.append(given)
        if self.how == "last":
            own.clear()
            own |= given
        for name, value in given.items():
            own.setdefault(name, value)
            if self.how == "mean":
                own[name] = mean([part[name] for part in parts if name in part])

    def _step_of(self, time: int) -> int:
        if self.whole or self.origin is None or self.period is None:
            return time
        step = self.origin + (time - self.origin) // self.period * self.period
        if step <= self.last_whole < time:
            return self.last_whole + 1
        return step

    def _begin_steps(self) -> None:
        if not self.open:
            return
        if self.period is None:
            times = {
                name: [time for time in sorted(self.open) if name in self.open[time]]
                for name in self.channels
            }
            most = max(self.channels, key=lambda name: len(times[name]))
            if len(times[most]) < 8:
                return
            apart = [b - a for a, b in zip(times[most], times[most][1:], strict=False)]
            self.period = int(median(apart))
        known = [*self.open] if self.closed == NEVER else [*self.open, self.closed]
        phases = sorted({time % self.period for time in known})
        gaps = [
            (phases[(at + 1) % len(phases)] - phase) % self.period or self.period
            for at, phase in enumerate(phases)
        ]
        widest = gaps.index(max(gaps))
        self.origin = phases[widest] + gaps[widest] // 2
        self.last_whole = self.closed
        before, self.open, self.parts = self.open, {}, {}
        for time in sorted(before):
            own = self.open.setdefault(self._step_of(time), {})
            if own.keys() & before[time].keys():
                self.open[time] = before[time]
            else:
                own |= before[time]

    def _waits(self) -> bool:
        return not self.whole or self.lateness is not None

    def _last_together(self, name: str) -> int:
        """Return the newest time of the channels that last came together with one."""
        together = next(each for each in reversed(self.arrivals) if name in each)
        return max(self.last.get(other, NEVER) for other in together)

    def _lacking(self, step: int, needed: Sequence[str] | None) -> list[str]:
        """Return the channels that a step waits for."""
        return [
            name
            for name in (self.channels if needed is None else needed)
            if name not in self.open[step]
            and self.absent.get(name, 0) < GONE
            and name not in self.rare
        ]

    def _is_over(self, step: int, needed: Sequence[str] | None) -> bool:
        if self.whole:
            wait = self.lateness or int(self.how is not None)
            return not wait or step + wait <= self.newest
        assert self.period is not None
        allowed = 2 * self.period if self.lateness is None else self.lateness
        end = step + self.period + allowed
        return end <= self.newest and all(
            end <= self._last_together(name) for name in self._lacking(step, needed)
        )

    def _is_complete(self, step: int, needed: Sequence[str] | None) -> bool:
        return needed is not None and not self._lacking(step, needed)

    def _end(self, step: int) -> None:
        own = self.open.pop(step)
        self.parts.pop(step, None)
        if self._waits():
            for name in self.channels:
                self.absent[name] = 0 if name in own else self.absent.get(name, 0) + 1
        self.steps.append((step, own))
        self.closed = step

    def rows(self) -> list[Any]:
        """Return all closed steps: time, and values by channel."""
        return self.steps


def _different(cluster: list[Sample]) -> int:
    return len({each.time for each in cluster})


def _without(samples: list[Sample], gone: list[Sample]) -> list[Sample]:
    return [each for each in samples if not any(each is other for other in gone)]


class NaiveLive:
    """Takes one record a call, and lists what comes out: samples, and numbers that are refused."""

    def __init__(self, reading: Reading, counters: list[int], period: int) -> None:
        self.reading, self.counters = reading, counters
        lateness = None if reading.lateness is None else ns(reading.lateness)
        self.order = NaiveOrder(period, lateness, reading.on_duplicate)
        self.last: dict[int, tuple[float, int]] = {}
        self.step: int | None = None
        self.step_rows: list[list[float]] = []
        self.given_step: int | None = None
        self.longest = 0
        self.out: list[Any] = []

    def push(self, time: int, number: int, values: list[float]) -> None:
        channels = tuple(map(str, range(len(values))))
        row = Arrival("", channels, np.array([time]), np.array([values]))
        self.order.take(row, None, number)
        self._given(len(values))

    def _given(self, width: int) -> None:
        order = self.order
        self.out += [("refused", number) for number in order.refused]
        for time, own in order.steps:
            self.give(time, [own.get(str(at), nan) for at in range(width)])
        order.refused, order.steps = [], []

    def flush(self) -> None:
        order = self.order
        held, order.held = order.held, []
        order.close(order.newest + 1)
        self._given(len(order.channels))
        if self.reading.resample is not None:
            self.close(ns(self.reading.resample))
        self.out += [("refused", each.number) for each in held]

    def give(self, time: int, values: list[float]) -> None:
        for at in self.counters:
            if isnan(values[at]):
                continue
            value, rate = values[at], nan
            if at in self.last:
                before, when = self.last[at]
                rise = value - before if value >= before else value
                rate = rise / ((time - when) / 1e9)
            self.last[at] = (value, time)
            values[at] = rate
        self.grid(time, values)

    def grid(self, time: int, values: list[float]) -> None:
        if self.reading.resample is None:
            self.out.append(("sample", time, values))
            return
        period = ns(self.reading.resample)
        step = -(-time // period)
        if self.step is not None and self.step != step:
            self.close(period)
        self.step = step
        self.step_rows.append(values)
        if step * period == time:
            self.close(period)

    def close(self, period: int) -> None:
        if self.step is None:
            return
        width = len(self.step_rows[0])
        if self.given_step is not None:
            gap = self.step - self.given_step
            if gap <= max(100, 10 * self.longest):
                for between in range(self.given_step + 1, self.step):
                    self.out.append(("sample", between * period, [nan] * width))
            if gap <= 100:
                self.longest = max(self.longest, gap)
        else:
            self.longest = 1
        values = [mean([each[at] for each in self.step_rows]) for at in range(width)]
        self.out.append(("sample", self.step * period, values))
        self.given_step, self.step, self.step_rows = self.step, None, []


def ns(span: np.timedelta64) -> int:
    return int(span / np.timedelta64(1, "ns"))


def mean(values: list[float]) -> float:
    there = [value for value in values if not isnan(value)]
    return sum(there[1:], there[0]) / len(there) if there else nan
