"""Read a stream as it was at one moment: its samples by number, its points by time."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from newnormal.errors import StateError
from newnormal.service.database import Database
from newnormal.service.store.columns import POINTS, SAMPLES, Columns, decode, join
from newnormal.service.store.levels import BLOCK, FEWER, as_points, complete, covers, thin
from newnormal.service.values import Series
from newnormal.types import Ints

_RANGE = (
    "SELECT number, crc, data FROM blocks"
    " WHERE stream = ? AND level = ? AND number BETWEEN ? AND ? ORDER BY number"
)
_AT_TIME = (
    "SELECT number FROM blocks WHERE stream = ? AND level = ? AND begin <= ? AND number < ?"
    " ORDER BY begin DESC LIMIT 1"
)
_OLDEST = "SELECT min(number) FROM blocks WHERE stream = ? AND level = ?"


def unpack_block(
    path: Path, stream: int, level: int, number: int, crc: int, data: bytes
) -> Columns:
    """Return a block of the database; a damaged one is a StateError that names it."""
    try:
        if zlib.crc32(data) != crc:
            raise ValueError("another checksum")
        return decode(data, POINTS if level else SAMPLES)
    except (ValueError, TypeError) as error:
        raise StateError(
            f"{path}: block {number} of level {level} of stream {stream} is damaged: {error}",
            hint="restore a backup",
        ) from error


def find_block(
    reader: sqlite3.Connection, path: Path, stream: int, level: int, number: int
) -> Columns | None:
    """Return a block of the database; None if it is not there."""
    row = reader.execute(_RANGE, (stream, level, number, number)).fetchone()
    return None if row is None else unpack_block(path, stream, level, *row)


def block_of(
    reader: sqlite3.Connection, path: Path, stream: int, level: int, number: int
) -> Columns:
    """Return a block of the database; a missing one is a StateError."""
    block = find_block(reader, path, stream, level, number)
    if block is None:
        raise StateError(
            f"{path}: block {number} of level {level} of stream {stream} is missing",
            hint="newnormal serve verify names what is damaged; restore a backup",
        )
    return block


class Stretch:
    """A stream as it is at one moment; a context that holds a connection.

    Parameters
    ----------
    database
        Of the store.
    stream
        Which.
    count
        The number of its next sample.
    number
        Of the first block of samples that is in memory; those before it are in the database.
    memory
        The samples from there on.
    points
        Blocks of points that are newer than those of the database, by level and number.
    """

    def __init__(
        self,
        database: Database,
        stream: int,
        count: int,
        number: int,
        memory: tuple[Columns, ...],
        points: Mapping[tuple[int, int], Columns],
    ) -> None:
        self._database, self._stream = database, stream
        self.count, self._number, self._memory, self._points = count, number, memory, points
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self._reader = self._open.enter_context(self._database.reading())
        self._reader.execute("BEGIN")
        self._open.callback(self._reader.rollback)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.__exit__(kind, error, trace)

    # ------------------------------------------------------------------ where

    def first_kept(self, level: int) -> int:
        """Return the number of the first sample that a level covers; `count` if it has none."""
        (number,) = self._reader.execute(_OLDEST, (self._stream, level)).fetchone()
        numbers = [key[1] for key in self._points if key[0] == level]
        if number is not None:
            numbers.append(number)
        if level == 0 and self._memory:
            numbers.append(self._number)
        return min(self.count, min(numbers) * covers(level)) if numbers else self.count

    def number_at(self, time: int, side: str) -> int:
        """Return the number of the first sample at or after a time; side ``"right"``: after it.

        Where samples are no longer kept: the first one of the point that the time is in, or of the
        next point.
        """
        start = self._number * BLOCK
        if self._memory and time >= int(self._memory[0]["times"][0]):
            times = np.concatenate([each["times"] for each in self._memory])
            return start + _search(times, time, side)
        level, before = 0, self._number
        while complete(self.count, level):
            row = self._reader.execute(_AT_TIME, (self._stream, level, time, before)).fetchone()
            if row is not None:
                times = self._block(level, row[0])["times"]
                if level == 0:
                    return int(row[0]) * BLOCK + _search(times, time, side)
                point = _search(times, time, "right") - (side == "left")
                return int(int(row[0]) * covers(level) + point * FEWER**level)
            if self.first_kept(level) == 0:
                return 0
            level += 1
            before = -(-complete(self.count, level) // BLOCK)
        return self.oldest()

    def reach(self, level: int) -> int:
        """Return the first sample from which on a level has points, or gets them from below."""
        while level and not complete(self.count, level):
            level -= 1
        return self.first_kept(level)

    def oldest(self) -> int:
        """Return the first sample that any level covers."""
        return min(self.first_kept(level) for level in range(self.top + 1))

    @property
    def top(self) -> int:
        """The coarsest level that is stored."""
        level = 0
        while complete(self.count, level + 1):
            level += 1
        return level

    # ------------------------------------------------------------------ what

    def samples(self, begin: int, end: int) -> Columns:
        """Return samples `begin` up to `end`, which is not included."""
        if end <= begin:
            return Columns.empty(SAMPLES, ())
        if begin < 0 or end > self.count:
            raise StateError(
                f"expected samples {begin} to {end - 1} of stream {self._stream},"
                f" found {self.count}"
            )
        parts = self._blocks(0, begin // BLOCK, min(self._number, -(-end // BLOCK)))
        for at, part in enumerate(self._memory, self._number):
            if begin < at * BLOCK + len(part) and at * BLOCK < end:
                parts.append(part)
        start = begin % BLOCK
        return join(parts).part(start, start + end - begin)

    def points(self, level: int, begin: int, end: int) -> Columns:
        """Return the points that stand for samples `begin` (where a point begins) up to `end`."""
        if level == 0:
            return as_points(self.samples(begin, end))
        per = FEWER**level
        stored = complete(self.count, level) * per
        parts = []
        if begin < stored:
            first, last = begin // per, -(-min(end, stored) // per)
            found = join(self._blocks(level, first // BLOCK, -(-last // BLOCK)))
            start = first % BLOCK
            parts.append(found.part(start, start + last - first))
        if end > stored:
            rest = self.points(level - 1, max(begin, stored), end)
            parts.append(thin(rest, FEWER))
        return join(parts)

    def _blocks(self, level: int, begin: int, end: int) -> list[Columns]:
        """Return blocks of the database by number, up to `end`, which is not included."""
        found: dict[int, Columns] = {}
        if end > begin:
            rows = self._reader.execute(_RANGE, (self._stream, level, begin, end - 1))
            for number, crc, data in rows:
                if (level, number) not in self._points:
                    path = self._database.path
                    found[number] = unpack_block(path, self._stream, level, number, crc, data)
        for at in range(begin, end):
            if (level, at) in self._points:
                found[at] = self._points[level, at]
        missing = [at for at in range(begin, end) if at not in found]
        if missing:
            raise self._gone(level, missing[0])
        return [found[at] for at in range(begin, end)]

    def _gone(self, level: int, number: int) -> StateError:
        size, first = covers(level), self.first_kept(level)
        samples = f"samples {number * size} to {(number + 1) * size - 1} of stream {self._stream}"
        if number * size < first:
            return StateError(
                f"expected {samples}, found them removed: kept from {first} on",
                hint="retention decides how long samples are kept",
            )
        return StateError(
            f"{self._database.path}: {samples} are missing",
            hint="newnormal serve verify names what is damaged; restore a backup",
        )

    def _block(self, level: int, number: int) -> Columns:
        return self._blocks(level, number, number + 1)[0]


def stretch_series(
    stretch: Stretch, begin: int, end: int, points: int, channels: Sequence[str] | None
) -> Series:
    """Return the points of a time, as `Store.series`."""
    points = max(points, 1)
    first = max(stretch.oldest(), stretch.number_at(begin, "left"))
    last = stretch.number_at(end, "right")
    level = 0
    while (last - first) // FEWER ** (level + 1) >= points:
        level += 1
    while level < stretch.top and stretch.reach(level) > first:
        level += 1
    first = max(first, stretch.reach(level))
    unit: int = FEWER**level
    per = unit
    while -(-last // per) - first // per > 2 * points:
        per *= 2
    if last <= first:
        per, found = 1, Columns.empty(POINTS, ())
    else:
        # Where older points are gone, a block begins, and so does a point of up to 256 of these.
        start = max(first // per * per, stretch.reach(level))
        stop = min(stretch.count, -(-last // per) * per)
        found = thin(stretch.points(level, start, stop), per // unit)
    if channels is not None:
        found = found.of_channels(tuple(channels))
    return Series(
        per,
        found.channels,
        found["times"].astype(np.int64),
        found["scores"].astype(np.float64),
        found["thresholds"].astype(np.float64),
        found["low"].astype(np.float64),
        found["high"].astype(np.float64),
        found["expected"].astype(np.float64),
        found["least"].astype(np.float64),
        found["most"].astype(np.float64),
        found["anomalous"].astype(np.bool_),
    )


def _search(times: Ints, time: int, side: str) -> int:
    return int(np.searchsorted(times, time, "left" if side == "left" else "right"))
