"""Counters as rates: how much was added a second."""

import math
import threading
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from newnormal.arrivals.naming import matching
from newnormal.errors import InputError
from newnormal.texts import listed
from newnormal.types import Floats, Ints, Times

_SECOND = 1_000_000_000  # ns

_MOST = 1_000_000  # counters that are remembered; the one not seen for longest is forgotten first


class CounterRates:
    """The last value of each counter; from any thread.

    What a request brings is converted by a `RateConversion` of its own and remembered once that is
    kept. So a request that fails and is sent again gives the same rates.

    >>> rates = CounterRates()
    >>> begun = rates.begin()
    >>> begun.convert("requests", np.array([0, 10**9]), np.array([5.0, 25.0]))
    array([nan, 20.])
    >>> begun.keep()
    >>> rates.begin().convert("requests", np.array([3 * 10**9]), np.array([6.0]))  # it began anew
    array([3.])
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._known: dict[Hashable, tuple[int, float]] = {}

    def begin(self) -> "RateConversion":
        """Return the conversion of a request."""
        return RateConversion(self)

    def last(self, key: Hashable) -> tuple[int, float] | None:
        """Return time and value of a counter that were kept last."""
        return self._known.get(key)

    def keep(self, newest: dict[Hashable, tuple[int, float]]) -> None:
        """Remember the last values of counters, where they are newer."""
        with self._lock:
            for key, value in newest.items():
                before = self._known.pop(key, value)
                self._known[key] = max(before, value)
            while len(self._known) > self._most:
                del self._known[next(iter(self._known))]


class RateConversion:
    """The counters of one request."""

    def __init__(self, rates: CounterRates) -> None:
        self._rates = rates
        self._found: dict[Hashable, tuple[int, float]] = {}

    def convert(self, key: Hashable, times: Ints, values: Floats) -> Floats:
        """Return the rates of a counter that `key` tells from others, as `rates_of` has them."""
        rates, last = rates_of(times, values, self._found.get(key) or self._rates.last(key))
        if last is not None:
            self._found[key] = last
        return rates

    def rate(self, key: Hashable, time: int, value: float) -> float:
        """Return the rate per second at one value of a counter, as `convert` has it."""
        if not math.isfinite(value):
            return math.nan
        last = self._found.get(key) or self._rates.last(key)
        if last is None:
            self._found[key] = time, value
            return math.nan
        before, earlier = last
        if time <= before:
            return math.nan
        self._found[key] = time, value
        rate = (value - earlier if value >= earlier else value) / ((time - before) / _SECOND)
        return rate if math.isfinite(rate) else math.nan

    def keep(self) -> None:
        """Remember the last values: the request is durable."""
        self._rates.keep(self._found)


class ColumnRates:
    """Turns counters into rates; samples may come in pieces of any size.

    >>> rates = ColumnRates(["sent"], ["sent", "load"])
    >>> times = np.array(["2026-01-01T00:00", "2026-01-01T00:01"], "datetime64[ns]")
    >>> rates.push(np.array([[600.0, 1.0], [720.0, 1.0]]), times).tolist()
    [[nan, 1.0], [2.0, 1.0]]
    """

    def __init__(self, counters: Sequence[str], channels: Sequence[str]) -> None:
        found: dict[str, None] = {}
        for pattern in counters:
            names = matching(channels, pattern)
            if not names:
                raise InputError(
                    f"rates names column {pattern!r}, which is no channel",
                    hint=f"the channels are {listed(channels)}",
                )
            found |= dict.fromkeys(names)
        self._columns = [channels.index(name) for name in found]
        self._last: list[tuple[int, float] | None] = [None] * len(self._columns)
        self._seen = 0

    @property
    def needed(self) -> bool:
        """Whether there are counters."""
        return bool(self._columns)

    def push(self, values: Floats, times: Times | None) -> Floats:
        """Return the samples with rates for counters; without times, per sample."""
        if not self._columns or not len(values):
            return values
        rates = values.copy()
        if times is None:
            clock = np.arange(self._seen, self._seen + len(values))
        else:
            clock = times.astype("datetime64[ns]").view(np.int64)
        unit = 1 if times is None else _SECOND
        for index, column in enumerate(self._columns):
            last = self._last[index]
            rates[:, column], self._last[index] = rates_of(clock, values[:, column], last, unit)
        self._seen += len(values)
        return rates

    def facts(self) -> dict[str, Any]:
        """Return the last values as JSON values."""
        return {"last": [None if value is None else list(value) for value in self._last]} | (
            {"seen": self._seen} if self._columns else {}
        )

    def restore(self, facts: Mapping[str, Any]) -> None:
        """Restore what `facts` returned."""
        last = [
            None if value is None else (int(value[0]), float(value[1])) for value in facts["last"]
        ]
        if len(last) != len(self._columns):
            return  # of other counters
        self._last, self._seen = last, int(facts.get("seen", 0))


def rates_of(
    times: Ints, counts: Floats, last: tuple[int, float] | None = None, unit: int = _SECOND
) -> tuple[Floats, tuple[int, float] | None]:
    """Return the rates at a counter's values after the `last` one, and what is now the last.

    `times` rise. NaN is the rate at a missing value, at the first, and where it is infinite. A
    value below the one before means that the counter began anew at 0.
    """
    rates = np.full(len(counts), np.nan)
    after = True if last is None else times > last[0]
    there = np.flatnonzero(np.isfinite(counts) & after)
    if not len(there):
        return rates, last
    when, values = times[there], counts[there]
    if last is None:
        there = there[1:]
    else:
        when, values = np.r_[last[0], when], np.r_[last[1], values]
    with np.errstate(over="ignore"):
        rise = np.diff(values)
        rise = np.where(rise < 0, values[1:], rise) / (np.diff(when) / unit)
    rates[there] = np.where(np.isfinite(rise), rise, np.nan)
    return rates, (int(when[-1]), float(values[-1]))
