"""Where in its rhythm a sample is: by local time, or by its number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from newnormal.types import NO_TIME, Floats, Ints, Times
from newnormal.types.zones import QUARTER, utc_offset

DAY = 86_400 * 10**9  # in nanoseconds
KINDS = {1: (0,) * 7, 2: (0, 0, 0, 0, 0, 1, 1), 7: tuple(range(7))}  # by weekday, Monday first


@dataclass(frozen=True)
class TimeClock:
    """Phases by the time of day and the kind of day, in local time.

    A day is divided into `bins`. Phase k · bins + b is bin b of a day of kind k: all days are of
    one kind, or working days and weekends of two, or each day of the week of its own.

    >>> clock = TimeClock(bins=24, kinds=2, zone="Europe/Berlin")
    >>> times = np.array(["2026-03-28T22:30", "2026-03-29T22:30"], "datetime64[ns]")
    >>> clock.phases(times, 0, 2)  # Saturday 23:30, Monday 00:30
    array([47.,  0.])
    """

    bins: int
    kinds: int = 1  # 1, 2 or 7
    shift: int = 0  # ns after midnight at which the first bin begins
    zone: str | None = None

    @property
    def size(self) -> int:
        """How many phases there are."""
        return self.bins * self.kinds

    def phases(self, times: Times | None, first: int, count: int) -> Floats:
        """Return the phases (T,) of samples with these times, whole numbers; NaN where unknown."""
        del first
        if times is None:
            return np.full(count, np.nan)
        when = times.astype("datetime64[ns]").view(np.int64)
        if len(when) == 1:  # the same in Python's integers, a tenth of the time
            return np.array([self._phase(int(when[0]))])
        timed = when != NO_TIME
        day, slot = self.days(np.where(timed, when, 0))
        return np.where(timed, self.kind(day) * self.bins + slot, np.nan)

    def days(self, when: Ints) -> tuple[Ints, Ints]:
        """Return the local day of each time in ns, counted from 1970, and its bin."""
        local = self.local(when) - self.shift
        day = local // DAY
        return day, (local - day * DAY) * self.bins // DAY

    def kind(self, days: Ints) -> Ints:
        """Return the kind of each day."""
        kinds: Ints = np.array(KINDS[self.kinds])[(days + 3) % 7]  # 1970 began on a Thursday
        return kinds

    def local(self, when: Ints) -> Ints:
        """Return times in ns as local time."""
        quarters, where = np.unique(when // QUARTER, return_inverse=True)
        offset = utc_offset(self.zone)
        offsets = np.array([offset(int(quarter)) for quarter in quarters], dtype=np.int64)
        local: Ints = when + offsets[where]
        return local

    def _phase(self, when: int) -> float:
        if when == NO_TIME:
            return np.nan
        local = when + utc_offset(self.zone)(when // QUARTER) - self.shift
        day, rest = divmod(local, DAY)
        return float(KINDS[self.kinds][(day + 3) % 7] * self.bins + rest * self.bins // DAY)

    def to_json(self) -> dict[str, Any]:
        """Return it as values of JSON."""
        names = ("bins", "kinds", "shift", "zone")
        return {"by": "time", **{name: getattr(self, name) for name in names}}


@dataclass(frozen=True)
class SampleClock:
    """Phases by the number of a sample, for a stream without times that follows on history.

    >>> SampleClock(bins=4, period=8, origin=2).phases(None, 5, 3)
    array([3., 0., 0.])
    """

    bins: int
    period: int  # in samples
    origin: int  # samples of history

    @property
    def size(self) -> int:
        """How many phases there are."""
        return self.bins

    def phases(self, times: Times | None, first: int, count: int) -> Floats:
        """Return the phases (T,) of the samples from number `first` on, whole numbers."""
        del times
        number = np.arange(first + self.origin, first + self.origin + count)
        return (number % self.period * self.bins // self.period).astype(np.float64)

    def to_json(self) -> dict[str, Any]:
        """Return it as values of JSON."""
        return {"by": "sample", "bins": self.bins, "period": self.period, "origin": self.origin}


Phases = TimeClock | SampleClock


def clock_from_json(facts: dict[str, Any]) -> Phases:
    """Return what `to_json` was made from."""
    if facts["by"] == "sample":
        return SampleClock(int(facts["bins"]), int(facts["period"]), int(facts["origin"]))
    zone = None if facts["zone"] is None else str(facts["zone"])
    return TimeClock(int(facts["bins"]), int(facts["kinds"]), int(facts["shift"]), zone)
