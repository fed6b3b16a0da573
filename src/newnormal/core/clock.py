"""The times of a stream's newest samples."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newnormal.errors import InputError
from newnormal.types import Times, time_text

__all__ = ["NEVER", "Clock"]

NEVER: np.datetime64 = np.datetime64("NaT", "ns")  # the time of a sample that has none


class Clock:
    """Remembers the times of a window of samples, and that each comes after the one before.

    Examples
    --------
    >>> clock = Clock(3)
    >>> for second in range(5):
    ...     clock.add(np.datetime64(second, "s"))
    >>> clock.newest(2)
    array(['1970-01-01T00:00:03.000000000', '1970-01-01T00:00:04.000000000'],
          dtype='datetime64[ns]')
    >>> clock.before(2)
    np.datetime64('1970-01-01T00:00:02')
    """

    def __init__(self, window: int) -> None:
        self.times: deque[np.datetime64] = deque(maxlen=window)
        self.timed = False  # whether a sample had a time
        self.last = NEVER

    def check(self, when: np.datetime64, sample: int) -> None:
        """Raise an InputError unless a sample with this time may come next."""
        if np.isnat(when):
            raise InputError("the sample's time is missing (NaT)", hint="pass a time, or None")
        if when <= self.last:
            raise InputError(
                f"sample {sample}: expected a time after "
                f"{time_text(self.last)}, found {time_text(when)}",
                hint="samples come in the order of their times, each time once",
            )

    def add(self, when: np.datetime64) -> None:
        """Note the time of one more sample."""
        self.times.append(when)
        if not np.isnat(when):
            self.timed = True
            self.last = when

    def add_all(self, times: Times | None, count: int) -> None:
        """Note the times of `count` more samples, or that they have none."""
        room = self.times.maxlen or 0
        for when in [NEVER] * min(count, room) if times is None else times[-room:]:
            self.add(when)

    def newest(self, count: int) -> Times | None:
        """Return the times of the newest samples; None where no sample ever had one."""
        if not self.timed:
            return None
        return np.array(list(self.times)[len(self.times) - count :], dtype="datetime64[ns]")

    def with_pending(self, times: Times | None, count: int, pending: int) -> Times | None:
        """Return the times of the newest `pending` samples and of `count` more about to come.

        None where no sample ever had one.
        """
        if times is None and not self.timed:
            return None
        waiting = list(self.times)[len(self.times) - pending :]
        new = np.full(count, NEVER) if times is None else times
        return np.concatenate([np.array(waiting, dtype="datetime64[ns]"), new])

    def before(self, count: int) -> np.datetime64 | None:
        """Return the time of the sample before the newest `count`, or None."""
        at = len(self.times) - count - 1
        return None if at < 0 or np.isnat(self.times[at]) else self.times[at]

    def drop(self, count: int) -> None:
        """Forget the newest samples."""
        for _ in range(count):
            self.times.pop()
        if count:
            known = [when for when in self.times if not np.isnat(when)]
            self.last = known[-1] if known else NEVER

    def clear(self) -> None:
        """Forget everything."""
        self.times.clear()
        self.timed = False
        self.last = NEVER

    def copy(self) -> Clock:
        """Return a clock that goes its own way from here."""
        twin = Clock(self.times.maxlen or 0)
        twin.times.extend(self.times)
        twin.timed, twin.last = self.timed, self.last
        return twin

    def to_json(self) -> dict[str, Any]:
        """Return what are no arrays of it, as values JSON knows."""
        return {"timed": self.timed, "times_held": len(self.times)}

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the rest as arrays by name."""
        unknown = [NEVER] * ((self.times.maxlen or 0) - len(self.times))
        times = np.array([*unknown, *self.times], dtype="datetime64[ns]")
        last = np.array([self.last], dtype="datetime64[ns]")
        return {"times": times.astype(np.int64), "last_time": last.astype(np.int64)}

    @classmethod
    def restore(cls, facts: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> Clock:
        """Return the clock that `to_json` and `tensors` were called on."""
        times = tensors["times"].astype("datetime64[ns]")
        clock = cls(len(times))
        clock.times.extend(times[len(times) - facts["times_held"] :])
        clock.timed = facts["timed"]
        clock.last = tensors["last_time"].astype("datetime64[ns]")[0]
        return clock
