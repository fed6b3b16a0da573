"""Series of several queries at the same times as samples of streams, and where these have gaps."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from newnormal.arrivals.arrival import Arrival
from newnormal.io.sources.prometheus_api import QueryGrid
from newnormal.types import Bools, Floats, Ints

_FORGOTTEN = 200  # ranges without a stream, after which its channels are forgotten
_MOST_ABSENT = 500  # channels without a value that a position has


class StreamChannels:
    """The channels that each stream has had: one that has no value now is still given, as missing.

    A stream whose samples always have the same channels is taken as it is; else each sample would
    wait for the channels that it does not have.
    """

    def __init__(self) -> None:
        self._known: dict[str, dict[str, None]] = {}  # in the order in which they came
        self._seen: dict[str, int] = {}  # the range in which each stream was seen last
        self._absent: dict[str, Sequence[str]] = {}
        self._range = 0

    def of(self, stream: str, channels: Iterable[str]) -> tuple[str, ...]:
        """Return all channels of a stream, new ones at the end."""
        every = self._known.setdefault(stream, {})
        self._seen[stream] = self._range
        every.update(dict.fromkeys((*channels, *self._absent.pop(stream, ()))))
        return tuple(every)

    def next_range(self) -> None:
        """Forget streams that have not been seen for long: some come and go."""
        self._range += 1
        oldest = self._range - _FORGOTTEN
        for stream in [each for each, last in self._seen.items() if last < oldest]:
            del self._known[stream], self._seen[stream]

    def restore(self, absent: Mapping[str, Sequence[str]]) -> None:
        """Take up channels that had no value at a position."""
        self._absent = dict(absent)


class RangeSamples:
    """The values of a range of times: samples in order of time, and of the streams' names.

    `grid`: the times.
    """

    def __init__(self, grid: QueryGrid) -> None:
        self.grid = grid
        self._times = grid.times
        self._found: dict[str, dict[str, Floats]] = {}
        self._row = self._column = 0  # of the next sample
        self._names: list[str] = []
        self._channels: list[tuple[str, ...]] = []
        self._values: list[Floats] = []
        self._present: Bools = np.zeros((grid.size, 0), np.bool_)
        self._counts: Ints = np.zeros(grid.size, np.int64)

    def add(self, stream: str, channel: str, values: Floats) -> bool:
        """Add a series; return whether another one has values of this channel at the same times.

        Those of the last one count: series that follow each other are one channel.
        """
        own = self._found.setdefault(stream, {})
        if (known := own.get(channel)) is None:
            own[channel] = values
            return False
        there, new = ~np.isnan(known), ~np.isnan(values)
        own[channel] = np.where(new, values, known)
        return bool((there & new).any())

    def finish(self, channels: StreamChannels, *, given: int = 0, after: str | None = None) -> None:
        """Put all that was added in order.

        `channels`: of the streams. `given`: how many of the times were given out before. `after`:
        at the next time, streams up to this name were given out before.
        """
        channels.next_range()
        for name in sorted(self._found):
            own = self._found[name]
            listed = channels.of(name, own)
            missing = np.full(self.grid.size, np.nan)
            self._names.append(name)
            self._channels.append(listed)
            self._values.append(np.column_stack([own.get(each, missing) for each in listed]))
        self._found = {}
        if self._names:
            present = [~np.isnan(values).all(axis=1) for values in self._values]
            self._present = np.column_stack(present)
        self._row = given
        if after is not None and given < self.grid.size:
            self._present[given, : bisect_right(self._names, after)] = False
        self._counts = self._present.sum(axis=1)

    @property
    def samples(self) -> int:
        """How many samples are left."""
        return int(self._counts[self._row :].sum())

    @property
    def series(self) -> int:
        """How many channels all streams have together."""
        return sum(map(len, self._channels))

    def take(self, limit: int) -> list[Arrival]:
        """Return the next samples, at most `limit`: whole times, or a part of one."""
        self._row += int(np.argmax(self._counts[self._row :] > 0))
        if self._column or self._counts[self._row] > limit:
            return self._part(limit)
        fitting = np.searchsorted(np.cumsum(self._counts[self._row :]), limit, "right")
        rows = slice(self._row, self._row + int(fitting))
        self._row = rows.stop
        return [arrival for at in range(len(self._names)) if (arrival := self._arrival(at, rows))]

    def _part(self, limit: int) -> list[Arrival]:
        """Return samples of one time."""
        rows = slice(self._row, self._row + 1)
        columns = np.flatnonzero(self._present[self._row, self._column :]) + self._column
        taken = columns[:limit].tolist()
        if len(columns) > limit:
            self._column = taken[-1] + 1
        else:
            self._row, self._column = self._row + 1, 0
        return [arrival for at in taken if (arrival := self._arrival(at, rows))]

    def _arrival(self, at: int, rows: slice) -> Arrival | None:
        there = self._present[rows, at]
        if not there.any():
            return None
        return Arrival(
            self._names[at],
            self._channels[at],
            self._times[rows][there],
            self._values[at][rows][there],
        )

    @property
    def is_done(self) -> bool:
        """Whether nothing is left."""
        return not self.samples

    @property
    def given(self) -> int | None:
        """The last time of which all was given out; None: none of this range."""
        return self.grid.first + (self._row - 1) * self.grid.step if self._row else None

    @property
    def part(self) -> str | None:
        """The name up to which streams of the time after that were given out; None: no stream."""
        return self._names[self._column - 1] if self._column else None

    def absent(self) -> dict[str, list[str]]:
        """Return channels without a value at the last time that was given out."""
        absent: dict[str, list[str]] = {}
        left = _MOST_ABSENT
        if not self._row:
            return absent
        for at, name in enumerate(self._names):
            row = np.isnan(self._values[at][self._row - 1])
            if left > 0 and row.any() and not row.all():
                listed = [self._channels[at][each] for each in np.flatnonzero(row).tolist()]
                absent[name] = listed[:left]
                left -= len(listed)
        return absent


_SECOND = 1_000_000_000
_UNITS = {
    "ms": _SECOND // 1000,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
    "d": 86_400 * _SECOND,
    "w": 7 * 86_400 * _SECOND,
    "y": 365 * 86_400 * _SECOND,
}
_TEXT = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|`[^`]*`|#[^\n]*', re.DOTALL)
_RANGE = re.compile(r"\[\s*([0-9][0-9a-z.]*)\s*(?::[^\]]*)?\]")
_PART = re.compile(r"([0-9]+)(ms|[smhdwy])")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?")


def longest_range(query: str) -> int:
    """Return how far back a query looks at most by its ranges, in ns; 0 where it has none.

    A subquery looks back by its own range and by that of what it is over.

    >>> longest_range("rate(x[30s]) / rate(y[1m30s])") // 10**9
    90
    >>> longest_range("max_over_time(rate(x[5m])[1h:1m])") // 10**9
    3900
    >>> longest_range('up{job="a[5m]"}')
    0
    """
    return _longest(_TEXT.sub(lambda found: " " * len(found[0]), query))


def _longest(query: str) -> int:
    """Return the same of a query without texts and comments."""
    longest = 0
    for part in _RANGE.finditer(query):
        over = query[: part.start()].rstrip()
        inner = _longest(_last_group(over)) if over.endswith(")") else 0
        longest = max(longest, _duration(part[1]) + inner)
    return longest


def _last_group(text: str) -> str:
    """Return what is between the last bracket, which closes, and the one that opens it."""
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(text[at], 0)
        if not depth:
            return text[at + 1 : -1]
    return ""


def _duration(text: str) -> int:
    """Return a duration of PromQL in ns; 0 if it is none."""
    if _NUMBER.fullmatch(text):
        return round(float(text) * _SECOND)
    parts = _PART.findall(text)
    if "".join(number + unit for number, unit in parts) != text:
        return 0
    return sum(int(number) * _UNITS[unit] for number, unit in parts)


class Gaps(NamedTuple):
    """What is known about times at which Prometheus scraped nothing, up to some time."""

    # (N,) at which times of the last range it had scraped nothing for long.
    missing: Bools = np.zeros(0, np.bool_)
    # Gaps that are over: the first time in each, and the first one behind it, in ns.
    past: tuple[tuple[int, int], ...] = ()
    since: int | None = None  # the first time of the gap that goes on, in ns; None without one
    last: int = 0  # the last time of that range, in ns
    in_gap: bool = False  # whether it is in a gap
    is_blank: bool = False  # whether Prometheus knows of no scrape at that time
    is_known: bool = False  # whether it knew of a scrape at any time

    @property
    def lasts(self) -> bool:
        """Whether there was no scrape at the last time, of a Prometheus that has scrapes."""
        return self.in_gap or (self.is_blank and self.is_known)

    def next(self, grid: QueryGrid, asked: QueryGrid, newest: Floats, longest: float) -> "Gaps":
        """Return what is known after another range.

        `grid`: the range. `asked`: times around it of which the scrapes are known. `newest`: (M,)
        the time of the newest scrape at each of these, in s; NaN: none within 5 minutes. `longest`:
        how long it may take from one scrape to the next, in s.
        """
        times = asked.times
        gap: Bools = times / _SECOND - newest > longest
        # A gap begins right after its last scrape, and not where it is known as one.
        for known in np.flatnonzero(gap & ~np.roll(gap, 1)):
            begin = round(newest[known] * _SECOND) + asked.step
            gap |= (times > begin) & (times < times[known])
        blank = np.isnan(newest)
        first = (grid.first - asked.first) // asked.step
        at = first + grid.size - 1
        follows = self.last < asked.first  # else the same times are asked for again
        lost, since = self.in_gap and follows, self.since if follows else None
        past = set(self.past)
        for row, time in enumerate(times[: at + 1].tolist()):
            lost = bool(gap[row]) or (lost and bool(blank[row]))
            gap[row] = lost
            if lost or blank[row]:
                since = time if since is None else since
            elif since is not None:
                past.add((since, time))
                since = None
        return Gaps(
            missing=gap[first : at + 1],
            past=tuple(sorted(past)),
            since=since,
            last=grid.last,
            in_gap=bool(gap[at]),
            is_blank=bool(blank[at]),
            is_known=self.is_known or not bool(blank.all()),
        )

    def unasked(self, grid: QueryGrid) -> "Gaps":
        """Return what is known after a range whose scrapes are not known."""
        return self._replace(missing=np.zeros(grid.size, np.bool_), last=grid.last)

    def later_than(self, time: int) -> "Gaps":
        """Return the same without gaps that were over at a time, in ns."""
        return self._replace(past=tuple(each for each in self.past if each[1] > time))

    def reached(self, grid: QueryGrid, span: int) -> Bools:
        """Return (N,) at which times of a range a gap is `span` ns back.

        What is counted over that span begins in the gap, and is too low. While it begins before
        the gap, it is not: a counter has gone on meanwhile.
        """
        reached = np.zeros(grid.size, np.bool_)
        for begin, end in self.past:
            reached |= (grid.times >= max(end, begin + span)) & (grid.times < end + span)
        return reached & ~self.missing
