"""The times of a stream's newest samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from newnormal.errors import InputError
from newnormal.kernels.stream import TIMES_HELD, TIMES_KNOWN, TimesState
from newnormal.types import Times, time_text

_NAT = np.datetime64("NaT", "ns")
_ORDER = "samples come in the order of their times, each time once"


def is_late(when: Any, newest: Any) -> Any:
    """Whether times are not later than the newest ones so far: they cannot come next.

    A time that is missing (NaT), or the first one, is not late.

    >>> is_late(np.datetime64(3, "ns"), np.datetime64(3, "ns"))
    np.True_
    >>> nothing = np.datetime64("NaT", "ns")
    >>> is_late(np.datetime64(3, "ns"), nothing), is_late(nothing, np.datetime64(3, "ns"))
    (np.False_, np.False_)
    """
    return when <= newest


def late_error(
    when: np.datetime64,
    newest: np.datetime64,
    zone: str | None = None,
    *,
    sample: int | None = None,
    hint: str | None = _ORDER,
) -> InputError:
    """Return the error of a time that `is_late`; times in it are in the zone."""
    where = "" if sample is None else f"sample {sample}: "
    expected, time = time_text(newest, zone), time_text(when, zone)
    return InputError(f"{where}expected a time after {expected}, found {time}", hint=hint)


class SampleTimes(TimesState):
    """The times of a stream, and what is asked of them.

    >>> from newnormal.types.tables import first
    >>> times = first(SampleTimes, {"L": 3})
    >>> for second in range(5):
    ...     times.add(np.datetime64(second, "s"))
    >>> times.newest(2)
    array(['1970-01-01T00:00:03.000000000', '1970-01-01T00:00:04.000000000'],
          dtype='datetime64[ns]')
    >>> times.before(2)
    np.datetime64('1970-01-01T00:00:02.000000000')
    """

    __slots__ = ()

    def check(self, when: np.datetime64, sample: int) -> None:
        """Raise an InputError unless a sample with this time may come next."""
        if np.isnat(when):
            raise InputError("the sample's time is missing (NaT)", hint="pass a time, or None")
        if is_late(when, self.last[0]):
            raise late_error(when, self.last[0], sample=sample)

    def add(self, when: np.datetime64 | None) -> None:
        """Append the time of one more sample, or None."""
        if self.counts[TIMES_HELD] < len(self.times):
            self.counts[TIMES_HELD] += 1
        if when is None and not self.counts[TIMES_KNOWN]:
            return  # all of them are unknown
        self.times[:-1] = self.times[1:]
        self.times[-1] = _NAT if when is None else when
        if when is not None and not np.isnat(when):
            self.counts[TIMES_KNOWN] = 1
            self.last[0] = when

    def add_all(self, times: Times | None, count: int) -> None:
        """Append the times of `count` more samples, or that they have none."""
        room = len(self.times)
        for when in [None] * min(count, room) if times is None else times[-room:]:
            self.add(when)

    def newest(self, count: int) -> Times | None:
        """Return the times of the newest samples; None where no sample ever had one."""
        if not self.counts[TIMES_KNOWN]:
            return None
        return self.times[len(self.times) - count :].copy()

    def with_pending(self, times: Times | None, count: int, pending: int) -> Times | None:
        """Return the times of the newest `pending` samples and of `count` more about to come.

        None where no sample ever had one.
        """
        if times is None and not self.counts[TIMES_KNOWN]:
            return None
        new = np.full(count, _NAT) if times is None else times
        return np.concatenate([self.times[len(self.times) - pending :], new])

    def before(self, count: int) -> np.datetime64 | None:
        """Return the time of the sample before the newest `count`, or None."""
        if not self.counts[TIMES_KNOWN]:
            return None
        position = len(self.times) - count - 1
        if count >= self.counts[TIMES_HELD] or position < 0 or np.isnat(self.times[position]):
            return None
        when: np.datetime64 = self.times[position]
        return when

    def drop(self, count: int) -> None:
        """Forget the newest samples."""
        if count:
            self.times[count:] = self.times[:-count].copy()
            self.times[:count] = _NAT
            self.counts[TIMES_HELD] -= count
            dated = self.times[~np.isnat(self.times)]
            self.last[0] = dated[-1] if len(dated) else _NAT

    def clear(self) -> None:
        """Forget everything."""
        self.times[:] = _NAT
        self.last[0] = _NAT
        self.counts[:] = 0
