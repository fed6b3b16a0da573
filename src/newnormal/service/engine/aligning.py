"""Samples of one stream, as they arrive, become time steps in order.

A stream is *whole* while every arrival has all of its channels: each sample is a step of its own,
at its own time. Otherwise its channels come apart, and steps are as long as the stream's period. A
step closes

- when it is complete and the stream is live,
- when the newest sample is `lateness` beyond its end, and so is the newest one of each channel that
  it lacks, or of one that came together with it: a sender with several connections may be far ahead
  with some of its channels, and each connection brings its own in order,
- when more than `_MOST_OPEN` are open, or when the clock says so.

What belongs to a closed step is late; what is there already is a duplicate. Both are counted and
change nothing. What is far ahead of the newest sample is held until others confirm it: one wrong
clock would make all later samples late.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from newnormal.arrivals.arrival import Arrival
from newnormal.arrivals.jumps import HeldSamples, Piece
from newnormal.core.times import is_rising
from newnormal.types import NO_TIME, Bools, Floats, Ints

_TIMES = 8  # of one channel, from which the period of channels that come apart is taken
_LATE_PERIODS = 2  # the allowed lateness, where none is given
_GONE = 5  # steps without a value, after which no step waits for a channel, nor for a rarer one
_MOST_OPEN = 1000  # steps that wait for a channel which is behind the others


class ClosedSteps(NamedTuple):
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
    """

    def __init__(self, period: int | None = None, lateness: int | None = None) -> None:
        self.channels: tuple[str, ...] = ()  # all that were seen, in the order in which they came
        # the newest time that was taken, in ns, and that of the newest closed step
        self.newest = self.closed = NO_TIME
        # samples that were dropped: `late` and `duplicate` ones, and those that `jumped` (they
        # were far ahead, and refuted); and those that were put in order, which came `out_of_order`
        self.counts = {"late": 0, "duplicate": 0, "out_of_order": 0, "jumped": 0}
        self.lateness = lateness
        self._period = period
        self._holding = HeldSamples()
        self._reach = -1  # how far ahead of the newest a sample may be; -1: looked at closely
        self._whole = True
        self._origin: int | None = None  # where steps begin, once channels come apart
        self._after = NO_TIME  # the newest whole sample then: steps begin after it
        self._steps: dict[int, Floats] = {}  # open ones, by their times
        self._last = np.empty(0, np.int64)  # (C,) the newest time of each channel
        self._absent = np.empty(0, np.int64)  # (C,) closed steps without it
        self._rare = np.empty(0, bool)  # (C,) whether its last two samples were far apart
        self._together: list[Ints] = []  # by channel: those of the newest arrival that had it

        self._set_reach()

    @property
    def period(self) -> int | None:
        """The time between steps in ns; None while it is not known."""
        return self._period

    @period.setter
    def period(self, period: int | None) -> None:
        self._period = period
        self._set_reach()

    def begin(self, channels: tuple[str, ...], closed: int = NO_TIME) -> None:
        """Begin with these channels, behind a time; what is open or held is closed."""
        self._columns_of(channels)
        self.newest, self.closed = max(self.newest, closed), max(self.closed, closed)

    def follow(self, period: int) -> None:
        """Take another period: steps of channels that come apart are found anew."""
        self.period = period
        self._origin = None

    @property
    def usual_step(self) -> int | None:
        """The period, or the usual step of the first samples, in ns; None before these."""
        return self._period or self._holding.usual

    @property
    def held(self) -> int | None:
        """The first time of samples that are held, in ns; None without any. From any thread."""
        return min((each.time for each in self._holding.rows), default=None)

    @property
    def waiting(self) -> int:
        """How many steps are open."""
        return len(self._steps)

    @property
    def oldest(self) -> int:
        """The time of the first open step, or `newest` where none is open; from any thread."""
        return min(list(self._steps), default=self.newest)

    @property
    def wait(self) -> int | None:
        """How long after its beginning a step may close that lacks something, in ns.

        None while channels come apart whose period is not known yet.
        """
        if self._whole:
            return self.lateness or 0
        if self._period is None:
            return None
        lateness = _LATE_PERIODS * self._period if self.lateness is None else self.lateness
        return self._period + lateness

    def take(
        self, arrival: Arrival, complete: Callable[[], Bools | None] | None = None
    ) -> ClosedSteps:
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
        plain = same and self._whole and not self._steps and self.lateness is None
        if plain:
            after, last = self.newest, int(times[-1])
            if len(times) == 1:  # by far the most frequent
                follows = after < last <= after + self._reach
            else:
                follows = is_rising(times, self.newest) and self._is_ordinary(times, last)
            if follows:
                self.newest = self.closed = last
                return ClosedSteps(times, values)
        if self._whole and not same and not set(self.channels) <= set(arrival.channels):
            self._whole = False
            self._together = [np.arange(len(self.channels))] * len(self.channels)
            self._set_reach()
        at = self._columns_of(arrival.channels)
        if not self._whole:
            for channel in at.tolist():
                self._together[channel] = at
        arrived = Piece(times, values, at)
        if self._reach >= 0 and max(times.tolist()) <= self.newest + self._reach:
            self._put(arrived)
            return self._close(None if complete is None else complete())
        pieces = self._sift(arrived)
        if plain and len(pieces) == 1 and is_rising(pieces[0].times, self.newest):
            self.newest = self.closed = int(pieces[0].times[-1])
            return ClosedSteps(pieces[0].times, pieces[0].values)
        for piece in pieces:
            self._put(piece)
        for piece in self._holding.reached(self.newest):
            self._put(piece)
        self._set_reach()
        return self._close(None if complete is None else complete())

    def _is_ordinary(self, times: Ints, last: int) -> bool:
        """Whether times that follow, up to the last one, have no step that is too long."""
        if last <= self.newest + self._reach:
            return True
        if self._reach < 0 or times[0] > self.newest + self._reach:
            return False
        return bool((times[1:] - times[:-1] <= self._reach).all())

    def _sift(self, arrived: Piece) -> list[Piece]:
        """Hold what is too far ahead; return what goes on."""
        holding = self._holding
        if self._learns:
            holding.learn(arrived.times)
        if not self._whole and holding.rows:
            # Their channels have gone on at the old place, where others of the stream are further.
            new = arrived.times > self._last[arrived.at].max()
            if (new & (arrived.times <= self.newest)).any():
                self.counts["jumped"] += holding.refute(arrived.at)
        newest = int(arrived.times[0]) if self.newest == NO_TIME else self.newest
        near, dropped = holding.sift(arrived, newest, holding.limit(self._period))
        self.counts["jumped"] += dropped
        self._set_reach()
        return near

    @property
    def _learns(self) -> bool:
        """Whether the usual step is looked for."""
        return self._whole and self.usual_step is None

    def _set_reach(self) -> None:
        closely = self._learns or self._holding.rows
        self._reach = -1 if closely else self._holding.limit(self._period)

    def _columns_of(self, channels: tuple[str, ...]) -> Ints:
        """Return where channels are, new ones at the end."""
        column_of = {name: k for k, name in enumerate(self.channels)}
        new = tuple(name for name in channels if name not in column_of)
        if new:
            self.channels += new
            self._last = np.append(self._last, np.full(len(new), NO_TIME))
            self._absent = np.append(self._absent, np.zeros(len(new), np.int64))
            self._rare = np.append(self._rare, np.zeros(len(new), bool))
            self._together += [np.empty(0, np.int64)] * len(new)
            column_of |= {name: k for k, name in enumerate(self.channels)}
            for time, row in self._steps.items():
                self._steps[time] = np.append(row, np.full(len(new), np.nan))
        return np.array([column_of[name] for name in channels], np.int64)

    def _put(self, piece: Piece) -> None:
        times, values, at = piece
        for time, row in zip(times.tolist(), values, strict=True):
            taken = ~np.isnan(row)
            if self._waits:
                self._note_came(time, at[taken])
            came_behind, self.newest = time < self.newest, max(self.newest, time)
            step = self._step(time)
            if step <= self.closed:
                self.counts["duplicate" if time == self.closed else "late"] += 1
                continue
            open_row = self._steps.get(step)
            if open_row is None:
                open_row = self._steps[step] = np.full(len(self.channels), np.nan)
            elif not (taken & np.isnan(open_row[at])).any():
                self.counts["duplicate"] += 1
                continue
            self.counts["out_of_order"] += came_behind
            free = taken & np.isnan(open_row[at])
            open_row[at[free]] = row[free]

    @property
    def _waits(self) -> bool:
        """Whether steps may wait for channels."""
        return not self._whole or self.lateness is not None

    def _note_came(self, time: int, came: Ints) -> None:
        before = self._last[came]
        if self._period is not None:
            self._rare[came] = (before < time - _GONE * self._period) & (before != NO_TIME)
        self._absent[came[~self._rare[came]]] = 0  # also if late: the next steps wait for it
        self._last[came] = np.maximum(before, time)

    def _step(self, time: int) -> int:
        """Return the time of the step that a time belongs to."""
        if self._whole or self._period is None or self._origin is None:
            return time
        step = self._origin + (time - self._origin) // self._period * self._period
        return self._after + 1 if step <= self._after < time else step

    def _close(self, complete: Bools | None) -> ClosedSteps:
        """Close what can be closed, in order."""
        if not self._whole and self._origin is None and not self._find_steps():
            return self._taken([])
        wait = self.wait or 0
        waiting = sorted(self._steps)
        closing: list[int] = []
        for time in waiting:
            if wait and len(waiting) - len(closing) <= _MOST_OPEN:
                lacking = np.isnan(self._steps[time]) & (self._absent < _GONE) & ~self._rare
                if complete is not None:
                    lacking[: len(complete)] &= complete
                    lacking[len(complete) :] = False
                if (complete is None or lacking.any()) and not self._is_over(time + wait, lacking):
                    break
            closing.append(time)
            self._count_absent(time)
        return self._taken(closing)

    def _is_over(self, end: int, lacking: Bools) -> bool:
        """Whether a step that may wait until `end` has what will come of these channels."""
        if self._whole or end > self.newest:
            return end <= self.newest
        behind = np.flatnonzero(lacking & (self._last < end)).tolist()
        return all(self._last[self._together[each]].max() >= end for each in behind)

    def _count_absent(self, time: int) -> None:
        if self._waits:
            lacking = np.isnan(self._steps[time])
            self._absent[~lacking] = 0
            self._absent[lacking] += 1

    def _find_steps(self) -> bool:
        """Find the period, and where steps begin; return whether they are known."""
        if not self._steps:
            return False
        times = np.array(sorted(self._steps), np.int64)
        period = self._period
        if period is None:
            rows = np.array([self._steps[time] for time in times.tolist()]).reshape(len(times), -1)
            counts = (~np.isnan(rows)).sum(axis=0)
            most = int(counts.argmax())
            if counts[most] < _TIMES:
                return False
            self.period = period = int(np.median(np.diff(times[~np.isnan(rows[:, most])])))
        # The channels come at different moments of the period: steps begin in the middle of the
        # longest stretch in which none comes.
        all_times = times if self.closed == NO_TIME else np.append(times, self.closed)
        phases = np.unique(all_times % period)
        gaps = np.diff(phases, append=phases[0] + period)
        widest = int(gaps.argmax())
        self._origin = int(phases[widest] + gaps[widest] // 2)
        self._after = self.closed
        rows_by_time, self._steps = self._steps, {}
        for time in sorted(rows_by_time):
            row = rows_by_time[time]
            open_row = self._steps.setdefault(self._step(time), np.full(len(self.channels), np.nan))
            new = ~np.isnan(row)
            if (new & ~np.isnan(open_row)).any():  # it is a step of its own: nothing is lost
                self._steps[time] = row
            else:
                open_row[new] = row[new]
        return True

    def close(self, until: int) -> ClosedSteps:
        """Close all steps that began before a time, also those of samples that are held."""
        released = self._holding.release(until, self.newest, self._period)
        if released:
            for piece in released:
                self._put(piece)
            self._set_reach()
            if self._whole and self.lateness is None:
                until = self.newest + 1
        closing = [time for time in sorted(self._steps) if time < until]
        for time in closing:
            self._count_absent(time)
        return self._taken(closing)

    def _taken(self, times: list[int]) -> ClosedSteps:
        rows = [self._steps.pop(time) for time in times]
        if times:
            self.closed = times[-1]
        values = np.array(rows).reshape(len(rows), len(self.channels))
        return ClosedSteps(np.array(times, np.int64), values)

    # ------------------------------------------------------------------ as data

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        steps = [
            [time, [None if value != value else value for value in row.tolist()]]  # noqa: PLR0124
            for time, row in self._steps.items()
        ]
        channels_of: dict[tuple[int, ...], list[int]] = {}
        for channel, together in enumerate(self._together):
            channels_of.setdefault(tuple(together.tolist()), []).append(channel)
        return {
            "channels": list(self.channels),
            "newest": self.newest,
            "closed": self.closed,
            "counts": dict(self.counts),
            "holding": self._holding.to_json(),
            "period": self._period,
            "lateness": self.lateness,
            "whole": self._whole,
            "origin": self._origin,
            "after": self._after,
            "steps": steps,
            "last": self._last.tolist(),
            "absent": self._absent.tolist(),
            "rare": self._rare.tolist(),
            "together": [[list(key), channels] for key, channels in channels_of.items()],
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Self:
        """Return what `to_json` was called on."""
        aligner = cls(saved["period"], saved["lateness"])
        aligner.channels = tuple(saved["channels"])
        aligner.newest, aligner.closed = saved["newest"], saved["closed"]
        aligner.counts |= saved["counts"]
        aligner._whole, aligner._origin = saved["whole"], saved["origin"]
        aligner._after = saved["after"]
        aligner._last = np.array(saved["last"], np.int64)
        aligner._absent = np.array(saved["absent"], np.int64)
        aligner._rare = np.array(saved["rare"], bool)
        aligner._together = [np.empty(0, np.int64)] * len(aligner.channels)
        for together, channels in saved["together"]:
            for channel in channels:
                aligner._together[channel] = np.array(together, np.int64)
        for time, row in saved["steps"]:
            aligner._steps[time] = np.array([np.nan if value is None else value for value in row])
        aligner._holding = HeldSamples.from_json(saved["holding"])
        aligner._set_reach()
        return aligner
