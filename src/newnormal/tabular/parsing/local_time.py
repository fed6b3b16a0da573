"""Local times as UTC, also in the night when the clock goes back."""

from collections.abc import Hashable, Sequence
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from newnormal.types import NO_TIME, Ints

_DAY_NS = 86_400_000_000_000
_EPOCH = datetime(1970, 1, 1)


class LocalClock:
    """Turns the local times of a zone into UTC, in the order in which they come.

    Where the clock goes back an hour of local times comes twice. A time that could be in either
    is the first one, unless it comes after a later one; it is then whichever of the two is
    nearer to where the series was to go on. The latest time is kept for each key (a stream).

    >>> clock = LocalClock("Europe/Berlin")
    >>> local = ["2026-10-25T01:30", "2026-10-25T02:30", "2026-10-25T02:30", "2026-10-25T03:30"]
    >>> utc = clock.to_utc(np.array(local, dtype="datetime64[ns]").astype(np.int64))
    >>> utc.view("datetime64[ns]").astype("datetime64[m]").astype(str).tolist()
    ['2026-10-24T23:30', '2026-10-25T00:30', '2026-10-25T01:30', '2026-10-25T02:30']
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._zone = ZoneInfo(name)
        self._days: dict[int, int | None] = {}
        self._latest: dict[Hashable, tuple[int, int]] = {}

    def facts(self) -> list[list[Any]]:
        """Return the latest times by key, as JSON values; only those that may be needed."""
        return [[key, *latest] for key, latest in self._latest.items() if _plain(key)]

    def restore(self, facts: Sequence[Sequence[Any]]) -> None:
        """Restore what `facts` returned."""
        for key, latest, step in facts:
            clock_key = tuple(key) if isinstance(key, list) else key
            self._latest[clock_key] = (int(latest), int(step))

    def to_utc(self, local: Ints, keys: Sequence[Hashable] | None = None) -> Ints:
        """Return local times (ns) as UTC; NO_TIME stays what it is.

        `local`: the times in the order in which they came. `keys`: what each of them is a time of;
        None: all of the same.
        """
        days, which = np.unique(local // _DAY_NS, return_inverse=True)
        offsets = [self._offset_of_day(day) for day in days.tolist()]
        constant = np.array([0 if offset is None else offset for offset in offsets], dtype=np.int64)
        utc: Ints = np.where(local == NO_TIME, NO_TIME, local - constant[which])
        changing = np.array([offset is None for offset in offsets], dtype=np.bool_)
        if not changing.any():
            self._latest.clear()
            return utc
        for row in np.flatnonzero(changing[which] & (local != NO_TIME)).tolist():
            key = None if keys is None else keys[row]
            utc[row] = self._resolved(int(local[row]), key)
        if not changing[which[-1]]:
            self._latest.clear()
        return utc

    def _resolved(self, local: int, key: Hashable) -> int:
        first, second = (local - self._offset(local, fold) for fold in (0, 1))
        latest, step = self._latest.get(key, (NO_TIME, 0))
        chosen = first
        if second > first and latest != NO_TIME and first <= latest:
            expected = latest + step
            chosen = second if abs(second - expected) < abs(first - expected) else first
        if latest == NO_TIME or chosen > latest:
            self._latest[key] = (chosen, 0 if latest == NO_TIME else chosen - latest)
        return chosen

    def _offset_of_day(self, day: int) -> int | None:
        """Return the offset that a day has throughout, None if it changes in it."""
        if day not in self._days:
            start = day * _DAY_NS
            if not -100_000 < day < 100_000:  # NO_TIME
                self._days[day] = 0
            else:
                ends = {
                    self._offset(start + shift, fold) for shift in (0, _DAY_NS) for fold in (0, 1)
                }
                self._days[day] = ends.pop() if len(ends) == 1 else None
        return self._days[day]

    def _offset(self, local: int, fold: int) -> int:
        moment = (_EPOCH + timedelta(microseconds=local // 1000)).replace(
            tzinfo=self._zone, fold=fold
        )
        offset = moment.utcoffset()
        assert offset is not None  # every zone of the database has one
        return round(offset.total_seconds()) * 1_000_000_000


def _plain(key: Hashable) -> bool:
    if isinstance(key, tuple):
        return all(map(_plain, key))
    return key is None or isinstance(key, str | int | float)
