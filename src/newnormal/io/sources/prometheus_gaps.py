"""When Prometheus did not run, and how far back a query looks."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from newnormal.io.sources.prometheus_matrix import Grid
from newnormal.types import Bools, Floats

__all__ = ["Gaps", "longest_range"]

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
    for found in _RANGE.finditer(query):
        over = query[: found.start()].rstrip()
        inner = _longest(_last_group(over)) if over.endswith(")") else 0
        longest = max(longest, _duration(found[1]) + inner)
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
    """What is known about times at which Prometheus scraped nothing, up to some time.

    Attributes
    ----------
    missing
        (N,) at which times of the last range it had scraped nothing for long.
    ends
        Times in ns from which on that was over.
    last
        The last time of that range, in ns.
    in_gap
        Whether it is in a gap.
    is_blank
        Whether Prometheus knows of no scrape at that time.
    is_known
        Whether it knew of a scrape at any time.
    """

    missing: Bools = np.zeros(0, np.bool_)
    ends: tuple[int, ...] = ()
    last: int = 0
    in_gap: bool = False
    is_blank: bool = False
    is_known: bool = False

    @property
    def lasts(self) -> bool:
        """Whether there was no scrape at the last time, of a Prometheus that has scrapes."""
        return self.in_gap or (self.is_blank and self.is_known)

    def next(self, grid: Grid, asked: Grid, newest: Floats, longest: float) -> Gaps:
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
        follows = self.last < asked.first  # else the same times are asked for again
        over = ~gap & np.append(self.in_gap and follows, gap[:-1])
        over |= ~blank & np.append(self.is_blank and follows, blank[:-1])
        first = (grid.first - asked.first) // asked.step
        at = first + grid.size - 1
        return Gaps(
            missing=gap[first : at + 1],
            ends=tuple(sorted({*self.ends, *times[over & ~gap].tolist()})),
            last=grid.last,
            in_gap=bool(gap[at]),
            is_blank=bool(blank[at]),
            is_known=self.is_known or not bool(blank.all()),
        )

    def unasked(self, grid: Grid) -> Gaps:
        """Return what is known after a range whose scrapes are not known."""
        return self._replace(missing=np.zeros(grid.size, np.bool_), last=grid.last)

    def later_than(self, time: int) -> Gaps:
        """Return the same without ends up to a time, in ns."""
        return self._replace(ends=tuple(each for each in self.ends if each > time))

    def reached(self, grid: Grid, span: int) -> Bools:
        """Return (N,) from which times of a range `span` ns back there is the end of a gap."""
        found = np.zeros(grid.size, np.bool_)
        for end in self.ends:
            found |= (grid.times >= end) & (grid.times < end + span)
        return found & ~self.missing
