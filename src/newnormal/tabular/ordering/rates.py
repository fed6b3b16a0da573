"""Counters as rates: what they rise by, per second or per sample."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from newnormal.errors import InputError
from newnormal.tabular.columns import listed
from newnormal.types import Floats, Times

_SECOND = 1e9


class ColumnRates:
    """Turns counters into rates; samples may come in pieces of any size.

    A counter that falls was restarted at 0: its value is then what it rose by. A rate is the
    difference from the last value that is there, divided by the time since; the first is missing.

    >>> rates = ColumnRates(["sent"], ["sent", "load"])
    >>> times = np.array(["2026-01-01T00:00", "2026-01-01T00:01"], "datetime64[ns]")
    >>> rates.push(np.array([[600.0, 1.0], [720.0, 1.0]]), times).tolist()
    [[nan, 1.0], [2.0, 1.0]]
    """

    def __init__(self, counters: Sequence[str], channels: Sequence[str]) -> None:
        for name in counters:
            if name not in channels:
                raise InputError(
                    f"rate names column {name!r}, which is no channel",
                    hint=f"the channels are {listed(channels)}",
                )
        self._columns = [channels.index(name) for name in dict.fromkeys(counters)]
        self._last: list[tuple[float, int] | None] = [None] * len(self._columns)
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
        unit = 1.0 if times is None else _SECOND
        for index, column in enumerate(self._columns):
            there = np.flatnonzero(~np.isnan(values[:, column]))
            if not len(there):
                continue
            counts, when = values[there, column], clock[there]
            rates[there[0], column] = np.nan
            last = self._last[index]
            targets = there[1:]
            if last is not None:
                counts, when = np.r_[last[0], counts], np.r_[last[1], when]
                targets = there
            with np.errstate(over="ignore"):
                rise = counts[1:] - counts[:-1]
            rise = np.where(rise < 0, counts[1:], rise)
            rate = rise / (np.diff(when) / unit)
            rates[targets, column] = np.where(np.isfinite(rate), rate, np.nan)
            self._last[index] = (float(counts[-1]), int(when[-1]))
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
            None if value is None else (float(value[0]), int(value[1])) for value in facts["last"]
        ]
        if len(last) != len(self._columns):
            return  # of other counters
        self._last, self._seen = last, int(facts.get("seen", 0))
