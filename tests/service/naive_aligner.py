"""A slow and obvious twin of the aligner: keeps every sample, and decides anew each time."""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from newnormal.arrivals.arrival import Arrival

NEVER = np.iinfo(np.int64).min
MOST_OPEN = 1000
GONE = 5
HOUR = 3_600_000_000_000


class Sample(NamedTuple):
    time: int
    given: dict[str, float]
    channels: tuple[str, ...]


class NaiveAligner:
    """Does what `Aligner` says, sample by sample, with lists and dicts."""

    def __init__(self, period: int | None = None, lateness: int | None = None) -> None:
        self.period, self.lateness = period, lateness
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

    def take(self, arrival: Arrival, needed: Sequence[str] | None) -> None:
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
                self._sample(sample.time, sample.given)
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
            self.counts["jumped"] += len(own)
            own = []
        waiting: list[Sample] = []
        for sample in [*own, *came]:
            if self.newest == NEVER or sample.time <= self.newest:
                self._sample(sample.time, sample.given)
            elif sample.time <= self.newest + self.limit():
                self.counts["jumped"] += len(waiting)
                waiting = []
                self._sample(sample.time, sample.given)
            else:
                waiting.append(sample)
                confirmed = next((c for c in self._clusters(waiting) if _different(c) == 3), None)
                if confirmed is not None:
                    waiting = self._confirm(confirmed, waiting)
                while len(waiting) > 16:
                    gone = self._clusters(waiting)[0]
                    self.counts["jumped"] += len(gone)
                    waiting = _without(waiting, gone)
        self.held = others + waiting
        for sample in sorted(self.held, key=lambda each: each.time):
            if sample.time <= self.newest:
                self.held = _without(self.held, [sample])
                self._sample(sample.time, sample.given)

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
        self.counts["jumped"] += len(others) - len(before)
        for each in before + cluster:
            self._sample(each.time, each.given)
        return []

    def _sample(self, time: int, given: dict[str, float]) -> None:
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
            self.counts["duplicate" if time == self.closed else "late"] += 1
            return
        if step in self.open and not any(name not in self.open[step] for name in given):
            self.counts["duplicate"] += 1
            return
        own = self.open.setdefault(step, {})
        self.counts["out_of_order"] += came_behind
        for name, value in given.items():
            own.setdefault(name, value)

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
        before, self.open = self.open, {}
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
            return not self.lateness or step + self.lateness <= self.newest
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
