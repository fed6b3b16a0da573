"""Where in its rhythm each sample of many streams is, for all of them at once."""

from collections.abc import Sequence

import numpy as np

from newnormal.core.phases import DAY, KINDS, SampleClock, TimeClock
from newnormal.core.state import Fitted
from newnormal.types import NO_TIME, Floats, Ints


class Clocks:
    """The clocks of streams, as columns: what `Fitted.phases` gives for one, for all.

    `fits`: what was fitted of each stream.
    """

    def __init__(self, fits: Sequence[Fitted]) -> None:
        clocks = [None if fit.rhythm is None else fit.rhythm.clock for fit in fits]
        self._is_timed = np.array([isinstance(clock, TimeClock) for clock in clocks], np.bool_)
        self._is_counted = np.array([isinstance(clock, SampleClock) for clock in clocks], np.bool_)
        self._zones = np.zeros(len(clocks), np.int64)
        self._bins, self._kinds, self._shifts, self._periods, self._origins = np.ones(
            (5, len(clocks)), np.int64
        )
        by_zone: dict[str | None, TimeClock] = {}
        for at, clock in enumerate(clocks):
            if isinstance(clock, TimeClock):
                by_zone.setdefault(clock.zone, clock)
                self._zones[at] = list(by_zone).index(clock.zone)
                self._bins[at], self._kinds[at] = clock.bins, clock.kinds
                self._shifts[at] = clock.shift
            elif isinstance(clock, SampleClock):
                self._bins[at], self._periods[at] = clock.bins, clock.period
                self._origins[at] = clock.origin
        self._by_zone = list(by_zone.values())
        self._weekdays = np.zeros((8, 7), np.int64)
        for kinds, days in KINDS.items():
            self._weekdays[kinds] = days
        self._is_used = bool(self._is_timed.any() or self._is_counted.any())

    def phases(self, streams: Ints, times: Ints, numbers: Ints) -> Floats:
        """Return the phase of each row: its stream, its time in ns and its number are given."""
        phases = np.full(len(streams), np.nan)
        if not self._is_used:
            return phases
        counted = np.flatnonzero(self._is_counted[streams])
        if len(counted):
            owners = streams[counted]
            number = numbers[counted] + self._origins[owners]
            phases[counted] = (
                number % self._periods[owners] * self._bins[owners] // self._periods[owners]
            )
        timed = np.flatnonzero(self._is_timed[streams] & (times != NO_TIME))
        if len(timed):
            owners, when = streams[timed], times[timed]
            local = np.empty_like(when)
            for zone, clock in enumerate(self._by_zone):
                here = self._zones[owners] == zone
                local[here] = clock.local(when[here])
            local -= self._shifts[owners]
            day = local // DAY
            bins = (local - day * DAY) * self._bins[owners] // DAY
            kinds = self._weekdays[self._kinds[owners], (day + 3) % 7]
            phases[timed] = kinds * self._bins[owners] + bins
        return phases
