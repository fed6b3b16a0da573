"""Times that are far from those around them: a wrong clock, or a gap.

Live, a sample that is far ahead of the newest one is held back until the samples after it tell
which of both it was (`sift`): two further samples near it confirm it, one at the old place refutes
it. Where the period is not known yet, the usual step of the first samples is used. In a finished
series both sides are known (`stray`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np

from newnormal.types import Bools, Floats, Ints, Times, time_text

DAY = 86_400_000_000_000  # ns: the shortest jump where the period is not known
PERIODS = 100  # the shortest jump where it is
_CONFIRMED = 3  # different times of samples that belong together: the held one, and two further
_MOST_HELD = 16
_BLOCK = 256  # samples looked at at once; more where nothing is found
_STEPS = 8  # of the first samples, from which the usual one is taken
# The longest gap that makes others of its length ordinary, in ns. Longer ones are confirmed each
# time: after one of a day, any time up to a day ahead would be taken.
_LONGEST = 3_600_000_000_000


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
            if time <= newest:
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


class Piece(NamedTuple):
    """Samples of the same channels."""

    times: Ints  # (N,)
    values: Floats  # (N, C)
    at: Ints  # (C,) where the channels are among those of the stream
    numbers: Ints | None = None  # (N,) of the records, where these have numbers


class SiftedPieces(NamedTuple):
    """What is held no more."""

    pieces: list[Piece]  # what goes on
    # Samples that were refuted: number, time, and the time that they were not near.
    dropped: list[tuple[int, int, int]]
    gaps: list[tuple[int, int]]  # those that were confirmed: number of the first sample, and length


class HeldRow(NamedTuple):
    """A sample that is held."""

    time: int
    values: Floats
    at: Ints
    number: int = -1  # of the record; -1: it has none

    def piece(self) -> Piece:
        """Return it as samples."""
        numbers = None if self.number < 0 else np.array([self.number])
        return Piece(np.array([self.time], np.int64), self.values[None], self.at, numbers)


class HeldSamples:
    """The samples of one stream that are held, and how far ahead a sample may be."""

    def __init__(self) -> None:
        # the held samples in the order of their arrival: replaced, never altered
        self.rows: tuple[HeldRow, ...] = ()
        # the usual step of the first samples in ns; None while there are too few
        self.usual: int | None = None
        self._first: list[int] = []  # times, until the usual step is known
        self._longest = 0  # gap so far, in ns

    @property
    def learned(self) -> bool:
        """Whether anything was found out about the steps of the stream."""
        return bool(self._first or self.usual or self._longest)

    def limit(self, period: int | None) -> int:
        """Return the longest step that is no jump, in ns."""
        step = period or self.usual
        return DAY if step is None else max(PERIODS * step, self._longest)

    def learn(self, times: Ints) -> None:
        """Find the usual step; for samples that have all channels."""
        self._first = list(dict.fromkeys([*self._first, *times.tolist()]))[: _STEPS + 1]
        if len(self._first) > _STEPS:
            self.usual = int(np.median(np.diff(sorted(self._first))))
            self._first = []

    def hold(self, record: Piece) -> None:
        """Hold a sample, whatever its time is."""
        self.rows = (*self.rows, _row(record, 0))

    def refute(self, at: Ints) -> int:
        """Drop what is held of channels; return how many samples that were."""
        before = len(self.rows)
        self.rows = tuple(row for row in self.rows if not _shares(row, at))
        return before - len(self.rows)

    def sift(self, arrived: Piece, newest: int, limit: int) -> SiftedPieces:
        """Hold what is too far ahead; return what goes on, and what was refuted.

        Samples are confirmed and refuted by those that have a channel of theirs: the connections
        of a sender are not equally far. Times are in ns; `limit` is the longest step that is no
        jump.
        """
        held_before = [row for row in self.rows if _shares(row, arrived.at)]
        others = [row for row in self.rows if not _shares(row, arrived.at)]
        times = np.append(np.array([row.time for row in held_before], np.int64), arrived.times)
        sifted = sift(times, newest, limit, _LONGEST)
        if sifted.gaps:
            self._longest = max(self._longest, min(sifted.limit, _LONGEST))
        count = len(held_before)

        def row_of(row: int) -> HeldRow:
            return held_before[row] if row < count else _row(arrived, row - count)

        self.rows = (*others, *map(row_of, sifted.held))
        passed = set(sifted.passed)
        dropped = [
            (row_of(row).number, int(times[row]), near)
            for row, _, near in sifted.dropped
            if row not in passed
        ]
        gaps = [(row_of(row).number, length) for row, length in sifted.gaps]
        return SiftedPieces(_pieces(_with_passed(sifted), held_before, arrived), dropped, gaps)

    def reached(self, newest: int, limit: int = 0) -> list[Piece]:
        """Let go what the stream has come to by now: what is within a limit of the newest."""
        near = []
        for row in sorted(self.rows, key=lambda row: row.time):
            if row.time > newest + limit:
                break
            newest = max(newest, row.time)
            near.append(row)
        return self._let_go(near)

    def release(self, until: int, newest: int, period: int | None) -> list[Piece]:
        """Let go what is before a time, though nothing confirmed it, and what is near it."""
        early = sorted((row for row in self.rows if row.time < until), key=lambda row: row.time)
        if not early:
            return []
        self._longest = max(self._longest, min(early[0].time - newest, _LONGEST))
        return self._let_go(early) + self.reached(early[-1].time, self.limit(period))

    def _let_go(self, rows: list[HeldRow]) -> list[Piece]:
        gone = {id(row) for row in rows}
        self.rows = tuple(row for row in self.rows if id(row) not in gone)
        return [row.piece() for row in rows]

    # ------------------------------------------------------------------ as data

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        rows = [[row.time, cells_of(row.values), row.at.tolist(), row.number] for row in self.rows]
        return {"rows": rows, "usual": self.usual, "first": self._first, "longest": self._longest}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Self:
        """Return what `to_json` was called on."""
        holding = cls()
        holding.usual, holding._longest = saved["usual"], saved["longest"]
        holding._first = list(saved["first"])
        holding.rows = tuple(
            HeldRow(
                time,
                np.array([np.nan if value is None else value for value in values]),
                np.array(at, np.int64),
                number,
            )
            for time, values, at, number in saved["rows"]
        )
        return holding


def cells_of(row: Floats) -> list[float | None]:
    """Return values as JSON has them, None where one is missing."""
    return [None if value != value else value for value in row.tolist()]  # noqa: PLR0124 - NaN


def _row(piece: Piece, row: int) -> HeldRow:
    number = -1 if piece.numbers is None else int(piece.numbers[row])
    return HeldRow(int(piece.times[row]), piece.values[row].copy(), piece.at, number)


def _shares(row: HeldRow, at: Ints) -> bool:
    return bool(np.isin(row.at, at).any())


def _with_passed(sifted: Sifted) -> Ints:
    """Return the rows that go on, with those before the confirmed ones at their places."""
    if not sifted.passed:
        return sifted.kept
    passed = [(offset, row) for row, offset, _ in sifted.dropped if row in sifted.passed]
    return np.insert(sifted.kept, [offset for offset, _ in passed], [row for _, row in passed])


def _pieces(kept: Ints, held_before: list[HeldRow], arrived: Piece) -> list[Piece]:
    """Return rows, of those that were held and then of an arrival, as pieces in their order."""
    if not held_before:
        return [_part(arrived, kept)] if len(kept) else []
    pieces = []
    for part in np.split(
        kept, np.flatnonzero((kept < len(held_before)) | (np.roll(kept, 1) < len(held_before)))
    ):
        if len(part) and part[0] < len(held_before):
            pieces.append(held_before[part[0]].piece())
        elif len(part):
            pieces.append(_part(arrived, part - len(held_before)))
    return pieces


def _part(piece: Piece, rows: Ints) -> Piece:
    numbers = None if piece.numbers is None else piece.numbers[rows]
    return Piece(piece.times[rows], piece.values[rows], piece.at, numbers)
