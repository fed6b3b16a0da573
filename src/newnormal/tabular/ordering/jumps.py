"""Times that are far from those around them: a wrong clock, or a gap.

Live, a sample that is far ahead of the newest one is held back until the samples after it tell
which of both it was (`sift`). In a finished series both sides are known (`stray`).
"""

from dataclasses import dataclass, field
from time import time_ns
from typing import NamedTuple

import numpy as np

from newnormal.core.times import is_late
from newnormal.types import Bools, Ints, Times, time_text

DAY = 86_400_000_000_000  # ns: the shortest jump where the period is not known
PERIODS = 100  # the shortest jump where it is
_CONFIRMED = 3  # different times of samples that belong together: the held one, and two further
_MOST_HELD = 16
_BLOCK = 256  # samples looked at at once; more where nothing is found


class Sifted(NamedTuple):
    """What `sift` found, as rows of what it was given."""

    kept: Ints  # the rows that go on, in the order in which they do
    # Rows that were not confirmed, each with how many are kept before it, and the newest of these.
    dropped: list[tuple[int, int, int]]
    held: list[int]  # rows that are not decided yet
    # Confirmed jumps: the first row, and the time since the newest before it, in ns.
    gaps: list[tuple[int, int]]
    passed: list[int]  # dropped rows that are before those which were confirmed instead of them
    # The newest time that goes on, and the longest step that is ordinary now, in ns.
    newest: int
    limit: int


@dataclass
class _Cluster:
    """Held samples that are near each other."""

    jump: int  # of the first one
    first: int
    newest: int
    times: set[int] = field(default_factory=set)
    rows: list[int] = field(default_factory=list)

    def near(self, time: int, limit: int) -> bool:
        return self.first - limit <= time <= self.newest + max(limit, 2 * self.jump)

    def add(self, time: int, row: int) -> None:
        self.first, self.newest = min(self.first, time), max(self.newest, time)
        self.times.add(time)
        self.rows.append(row)


def sift(times: Ints, newest: int, limit: int, longest: int | None = None) -> Sifted:
    """Tell samples that are far ahead of the newest one from gaps.

    A sample that is more than `limit` ahead is held. It goes on where two further ones come that
    are near it; where one comes that is after the newest and within `limit` of it, the held ones
    are dropped. Samples that are not after the newest go on: they are late.

    `times`: the times in ns, in the order of arrival; those held before come first, again.
    `newest`, `limit`: as in `Sifted`, so far. `longest`: the longest gap that makes others of its
    length ordinary, in ns; None: each one does.
    """
    kept: list[Ints] = []
    count = start = 0
    dropped: list[tuple[int, int, int]] = []
    held: list[int] = []
    gaps: list[tuple[int, int]] = []
    passed: list[int] = []
    while start < len(times):
        end, newest = ordinary(times, start, newest, limit)
        kept.append(np.arange(start, end))
        count += end - start
        start = end
        if start == len(times):
            break
        clusters: list[_Cluster] = []
        late: list[int] = []
        for row in range(start, len(times)):
            time = int(times[row])
            if is_late(time, newest):
                late.append(row)
                continue
            if time <= newest + limit:
                dropped += [(each, count + len(late), newest) for each in _rows(clusters)]
                start, clusters = row, []
                break
            cluster = next((each for each in clusters if each.near(time, limit)), None)
            if cluster is None:
                cluster = _Cluster(time - newest, time, time)
                clusters.append(cluster)
            cluster.add(time, row)
            if len(cluster.times) >= _CONFIRMED:
                clusters.remove(cluster)
                dropped += [(each, count + len(late), newest) for each in _rows(clusters)]
                passed += [each for each in _rows(clusters) if times[each] < cluster.first]
                gaps.append((cluster.rows[0], cluster.first - newest))
                late += cluster.rows
                gap = max(cluster.first - newest, int(np.diff(sorted(cluster.times)).max()))
                limit = max(limit, gap if longest is None else min(gap, longest))
                newest, start, clusters = cluster.newest, row + 1, []
                break
            while sum(len(each.rows) for each in clusters) > _MOST_HELD:
                dropped += [(each, count + len(late), newest) for each in clusters.pop(0).rows]
        else:
            start = len(times)
            held = _rows(clusters)
        kept.append(np.array(late, dtype=np.int64))
        count += len(late)
    return Sifted(
        np.concatenate(kept) if kept else np.empty(0, dtype=np.int64),
        dropped,
        held,
        gaps,
        passed,
        newest,
        limit,
    )


def is_future(time: int) -> bool:
    """Return whether a time (ns) is ahead of this machine's clock by more than a day."""
    return time > time_ns() + DAY


def ordinary(times: Ints, start: int, newest: int, limit: int) -> tuple[int, int]:
    """Return the first row from `start` that is too far ahead, and the newest time before it."""
    size = _BLOCK
    while start < len(times):
        running = np.maximum.accumulate(np.r_[newest, times[start : start + size]])
        far = np.diff(running) > limit
        if far.any():
            first = int(far.argmax())
            return start + first, int(running[first])
        newest = int(running[-1])
        start, size = min(start + size, len(times)), size * 4
    return start, newest


def _rows(clusters: list[_Cluster]) -> list[int]:
    return sorted(row for cluster in clusters for row in cluster.rows)


def stray(times: Times) -> tuple[Bools, np.datetime64 | None]:
    """Return which samples of a finished series have a time far outside of all others.

    These are at most two in a row that are more than 100 steps from those before and behind them,
    and further from the times of all others than these have gaps between them. Also returned is
    the newest of the other times, None where no sample is outside.

    >>> times = np.arange("2026-01-01", "2026-02-01", dtype="datetime64[D]")
    >>> times[3] = np.datetime64("2199-01-01")
    >>> np.flatnonzero(stray(times)[0]).tolist()
    [3]
    """
    none = np.zeros(len(times), dtype=bool)
    moments = times.astype("datetime64[ns]").view(np.int64)
    apart = np.abs(np.diff(moments))
    steps = apart[apart > 0]
    if len(steps) < 2 * _CONFIRMED:
        return none, None
    limit = PERIODS * int(np.median(steps))
    if int(apart.max()) <= limit:
        return none, None
    starts = np.r_[0, np.flatnonzero(apart > limit) + 1]
    sizes = np.diff(np.r_[starts, len(times)])
    few = np.repeat(sizes < _CONFIRMED, sizes)
    # Runs of samples that belong to few: more than two in a row is how the series is.
    edges = np.flatnonzero(np.diff(np.r_[False, few, False]))
    runs = edges[1::2] - edges[::2]
    suspect = none.copy()
    suspect[few] = np.repeat(runs < _CONFIRMED, runs)
    rest = np.sort(moments[~suspect])
    if not suspect.any() or len(rest) < 2 * _CONFIRMED:
        return none, None
    longest = max(limit, int(np.diff(rest).max()))
    outside = suspect & ((moments > rest[-1] + longest) | (moments < rest[0] - longest))
    return outside, np.datetime64(int(rest[-1]), "ns") if outside.any() else None


def not_confirmed(time: int, newest: int, zone: str | None = None) -> str:
    """Return what is wrong with a sample that was held back and dropped."""
    expected, wrong = (time_text(np.datetime64(moment, "ns"), zone) for moment in (newest, time))
    return f"expected a time near {expected}, found {wrong}: held back and not confirmed"
