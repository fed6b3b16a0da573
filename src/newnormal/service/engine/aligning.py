"""Samples of one stream, as they arrive, become time steps in order.

A stream is *whole* while every arrival has all of its channels: each sample is a step of its own,
at its own time. Otherwise its channels come apart, and steps are as long as the stream's period. A
step closes when it is complete and the stream is live, when the newest sample is `lateness` beyond
its end, or when the clock says so. What belongs to a closed step is late; what is there already is
a duplicate. Both are counted and change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from newnormal.io.arrivals import Arrival
from newnormal.types import NO_TIME, Bools, Floats, Ints

__all__ = ["Aligner", "Steps"]

_TIMES = 8  # of one channel, from which the period of channels that come apart is taken
_LATE_PERIODS = 2  # the allowed lateness, where none is given


class Steps(NamedTuple):
    """Closed time steps of a stream."""

    times: Ints  # (N,) increasing
    values: Floats  # (N, C) of the aligner's channels, NaN where missing


class Aligner:
    """Puts the samples of one stream in order.

    Parameters
    ----------
    period
        In ns, where it is given; None: found out.
    lateness
        In ns, where it is given; None: two periods where channels come apart, nothing else.

    Attributes
    ----------
    channels
        All that were seen, in the order in which they came.
    newest
        The newest time that was seen, in ns.
    closed
        The time of the newest closed step; a later one can still come.
    counts
        `late`, `duplicate` and `out_of_order` samples.
    """

    def __init__(self, period: int | None = None, lateness: int | None = None) -> None:
        self.channels: tuple[str, ...] = ()
        self.newest = self.closed = NO_TIME
        self.counts = {"late": 0, "duplicate": 0, "out_of_order": 0}
        self.period, self.lateness = period, lateness
        self._whole = True
        self._origin: int | None = None  # where steps begin, once channels come apart
        self._after = NO_TIME  # the newest whole sample then: steps begin after it
        self._steps: dict[int, Floats] = {}  # open ones, by their times

    @property
    def waiting(self) -> int:
        """How many steps are open."""
        return len(self._steps)

    def take(self, arrival: Arrival, complete: Callable[[], Bools | None] | None = None) -> Steps:
        """Take samples in; return the steps that they close.

        Parameters
        ----------
        arrival
            The samples.
        complete
            Gives (C,) the channels that make a step complete; None: it closes by lateness alone.
        """
        same = arrival.channels == self.channels
        times, values = arrival.times, arrival.values
        if same and self._whole and not self._steps and self.lateness is None:
            after = self.newest
            if len(times) == 1 and times[0] > after:  # by far the most frequent
                self.newest = self.closed = int(times[0])
                return Steps(times, values)
            if times[0] > after and (np.diff(times) > 0).all():
                self.newest = self.closed = int(times[-1])
                return Steps(times, values)
        if not same and not set(self.channels) <= set(arrival.channels):
            self._whole = False
        self._put(times, values, self._places(arrival.channels))
        return self._close(None if complete is None else complete())

    def _places(self, channels: tuple[str, ...]) -> Ints:
        """Return where channels are, new ones at the end."""
        known = {name: at for at, name in enumerate(self.channels)}
        new = tuple(name for name in channels if name not in known)
        if new:
            self.channels += new
            known |= {name: at for at, name in enumerate(self.channels)}
            for time, row in self._steps.items():
                self._steps[time] = np.append(row, np.full(len(new), np.nan))
        return np.array([known[name] for name in channels], np.int64)

    def _put(self, times: Ints, values: Floats, at: Ints) -> None:
        for time, row in zip(times.tolist(), values, strict=True):
            if time < self.newest:
                self.counts["out_of_order"] += 1
            self.newest = max(self.newest, time)
            step = self._step(time)
            if step <= self.closed:
                self.counts["duplicate" if time == self.closed else "late"] += 1
                continue
            own = self._steps.get(step)
            if own is None:
                own = self._steps[step] = np.full(len(self.channels), np.nan)
            taken = ~np.isnan(row)
            free = taken & np.isnan(own[at])
            if (taken & ~free).any():
                self.counts["duplicate"] += 1
            own[at[free]] = row[free]

    def _step(self, time: int) -> int:
        """Return the time of the step that a time belongs to."""
        if self._whole or self.period is None or self._origin is None:
            return time
        step = self._origin + (time - self._origin) // self.period * self.period
        return self._after + 1 if step <= self._after < time else step

    def _close(self, complete: Bools | None) -> Steps:
        """Close what can be closed, in order."""
        if not self._whole and self._origin is None and not self._find_steps():
            return self._taken([])
        times = sorted(self._steps)
        allowed = self.lateness
        if allowed is None:
            allowed = 0 if self._whole else _LATE_PERIODS * (self.period or 0)
        length = 0 if self._whole else self.period or 0
        closing: list[int] = []
        for time in times:
            if time + length + allowed > self.newest and not (self._whole and not allowed):
                row = self._steps[time]
                if complete is None or np.isnan(row[: len(complete)][complete]).any():
                    break
            closing.append(time)
        return self._taken(closing)

    def _find_steps(self) -> bool:
        """Find the period, and where steps begin; return whether they are known."""
        if not self._steps:
            return False
        times = np.array(sorted(self._steps), np.int64)
        if self.period is None:
            rows = np.array([self._steps[time] for time in times.tolist()]).reshape(len(times), -1)
            counts = (~np.isnan(rows)).sum(axis=0)
            most = int(counts.argmax())
            if counts[most] < _TIMES:
                return False
            self.period = int(np.median(np.diff(times[~np.isnan(rows[:, most])])))
        # The channels come at different moments of the period: steps begin in the middle of the
        # longest stretch in which none comes.
        known = times if self.closed == NO_TIME else np.append(times, self.closed)
        phases = np.unique(known % self.period)
        gaps = np.diff(phases, append=phases[0] + self.period)
        widest = int(gaps.argmax())
        self._origin = int(phases[widest] + gaps[widest] // 2)
        self._after = self.closed
        rows_by_time, self._steps = self._steps, {}
        for time in sorted(rows_by_time):
            step, row = self._step(time), rows_by_time[time]
            own = self._steps.setdefault(step, np.full(len(self.channels), np.nan))
            free = np.isnan(own)
            own[free] = row[free]
        return True

    def close(self, until: int) -> Steps:
        """Close all steps that began before a time."""
        return self._taken([time for time in sorted(self._steps) if time < until])

    def _taken(self, times: list[int]) -> Steps:
        rows = [self._steps.pop(time) for time in times]
        if times:
            self.closed = times[-1]
        values = np.array(rows).reshape(len(rows), len(self.channels))
        return Steps(np.array(times, np.int64), values)

    # ------------------------------------------------------------------ as data

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        steps = [
            [time, [None if value != value else value for value in row.tolist()]]  # noqa: PLR0124
            for time, row in self._steps.items()
        ]
        return {
            "channels": list(self.channels),
            "newest": self.newest,
            "closed": self.closed,
            "counts": dict(self.counts),
            "period": self.period,
            "lateness": self.lateness,
            "whole": self._whole,
            "origin": self._origin,
            "after": self._after,
            "steps": steps,
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Return what `to_json` was called on."""
        aligner = cls(found["period"], found["lateness"])
        aligner.channels = tuple(found["channels"])
        aligner.newest, aligner.closed = found["newest"], found["closed"]
        aligner.counts = dict(found["counts"])
        aligner._whole, aligner._origin = found["whole"], found["origin"]
        aligner._after = found["after"]
        for time, row in found["steps"]:
            aligner._steps[time] = np.array([np.nan if each is None else each for each in row])
        return aligner
