"""When Prometheus did not run, and how far back a query looks."""

import re
from typing import NamedTuple

import numpy as np

from newnormal.io.sources.prometheus_api import QueryGrid
from newnormal.types import Bools, Floats

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

        Parameters
        ----------
        grid
            The range.
        asked
            Times around it of which the scrapes are known.
        newest
            (M,) the time of the newest scrape at each of these, in s; NaN: none within 5 minutes.
        longest
            How long it may take from one scrape to the next, in s.
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
