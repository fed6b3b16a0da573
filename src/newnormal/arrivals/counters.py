"""Counters as rates: how much was added a second."""

import math
import threading
from collections.abc import Hashable

import numpy as np

from newnormal.types import Floats, Ints

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
        """Return the rates per second of a counter; NaN where there is none.

        There is none for the first value, for a missing one, and for one whose time is not after
        that of the one before. A value below the one before means that the counter began anew at 0.

        `key` tells the counter from others. `times`, `values`: (N,) each, times in ns.
        """
        pairs = zip(times.tolist(), values.tolist(), strict=True)
        return np.array([self.rate(key, time, value) for time, value in pairs], np.float64)

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
        rate = (value - earlier if value >= earlier else value) / ((time - before) / 1e9)
        return rate if math.isfinite(rate) else math.nan

    def keep(self) -> None:
        """Remember the last values: the request is durable."""
        self._rates.keep(self._found)
