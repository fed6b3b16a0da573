"""Read a stream as it was at one moment: its samples by number, its points by time."""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import numpy as np

from newnormal.engine.database import Database, checksum
from newnormal.engine.store.columns import POINTS, SAMPLES, BlockColumns, decode, join
from newnormal.engine.store.levels import BLOCK, FEWER, as_points, complete, covers, thin
from newnormal.engine.values import ThinnedSeries
from newnormal.errors import StateError
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
) -> BlockColumns:
    """Return a block of the database; a damaged one is a StateError that names it."""
    try:
        if checksum(data) != crc:
            raise ValueError("another checksum")
        return decode(data, POINTS if level else SAMPLES)
    except (ValueError, TypeError) as error:
        raise StateError(
            f"{path}: block {number} of level {level} of stream {stream} is damaged: {error}",
            hint="restore a backup",
        ) from error


def find_block(
    reader: sqlite3.Connection, path: Path, stream: int, level: int, number: int
) -> BlockColumns | None:
    """Return a block of the database; None if it is not there."""
    row = reader.execute(_RANGE, (stream, level, number, number)).fetchone()
    return None if row is None else unpack_block(path, stream, level, *row)


def block_of(
    reader: sqlite3.Connection, path: Path, stream: int, level: int, number: int
) -> BlockColumns:
    """Return a block of the database; a missing one is a StateError."""
    block = find_block(reader, path, stream, level, number)
    if block is None:
        raise StateError(
            f"{path}: block {number} of level {level} of stream {stream} is missing",
            hint="newnormal serve verify names what is damaged; restore a backup",
        )
    return block


class StreamReader:
    """A stream as it is at one moment; a context that holds a connection.

    Parameters
    ----------
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
        memory: tuple[BlockColumns, ...],
        points: Mapping[tuple[int, int], BlockColumns],
    ) -> None:
        self._database, self._stream = database, stream
        self.count, self._number, self._memory, self._points = count, number, memory, points
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self._reader = self._open.enter_context(self._database.reading())
        self._reader.execute("BEGIN")
        self._open.callback(self._reader.rollback)
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.__exit__(*error)

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
            times = np.concatenate([block["times"] for block in self._memory])
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

    def samples(self, begin: int, end: int) -> BlockColumns:
        """Return samples `begin` up to `end`, which is not included."""
        if end <= begin:
            return BlockColumns.empty(SAMPLES, ())
        if begin < 0 or end > self.count:
            raise StateError(
                f"expected samples {begin} to {end - 1} of stream {self._stream},"
                f" found {self.count}"
            )
        parts = self._blocks(0, begin // BLOCK, min(self._number, -(-end // BLOCK)))
        for number, block in enumerate(self._memory, self._number):
            if begin < number * BLOCK + len(block) and number * BLOCK < end:
                parts.append(block)
        start = begin % BLOCK
        return join(parts).part(start, start + end - begin)

    def points(self, level: int, begin: int, end: int) -> BlockColumns:
        """Return the points that stand for samples `begin` (where a point begins) up to `end`."""
        if level == 0:
            return as_points(self.samples(begin, end))
        per = FEWER**level
        stored = complete(self.count, level) * per
        parts = []
        if begin < stored:
            first, last = begin // per, -(-min(end, stored) // per)
            blocks = join(self._blocks(level, first // BLOCK, -(-last // BLOCK)))
            start = first % BLOCK
            parts.append(blocks.part(start, start + last - first))
        if end > stored:
            rest = self.points(level - 1, max(begin, stored), end)
            parts.append(thin(rest, FEWER))
        return join(parts)

    def _blocks(self, level: int, begin: int, end: int) -> list[BlockColumns]:
        """Return blocks of the database by number, up to `end`, which is not included."""
        blocks = {
            number: block
            for (of_level, number), block in self._points.items()
            if of_level == level and begin <= number < end
        }
        if end > begin:
            rows = self._reader.execute(_RANGE, (self._stream, level, begin, end - 1))
            for number, crc, data in rows:
                if number not in blocks:
                    path = self._database.path
                    blocks[number] = unpack_block(path, self._stream, level, number, crc, data)
        for number in range(begin, end):
            if number not in blocks:
                raise self._gone(level, number)
        return [blocks[number] for number in range(begin, end)]

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

    def _block(self, level: int, number: int) -> BlockColumns:
        return self._blocks(level, number, number + 1)[0]


def read_series(
    reader: StreamReader, begin: int, end: int, points: int, channels: Sequence[str] | None
) -> ThinnedSeries:
    """Return the points of a time, as `Store.series`."""
    points = max(points, 1)
    first = max(reader.oldest(), reader.number_at(begin, "left"))
    last = reader.number_at(end, "right")
    level = 0
    while (last - first) // FEWER ** (level + 1) >= points:
        level += 1
    while level < reader.top and reader.reach(level) > first:
        level += 1
    first = max(first, reader.reach(level))
    unit: int = FEWER**level
    per = unit
    while -(-last // per) - first // per > 2 * points:
        per *= 2
    if last <= first:
        per, thinned = 1, BlockColumns.empty(POINTS, ())
    else:
        # Where older points are gone, a block begins, and so does a point of up to 256 of these.
        start = max(first // per * per, reader.reach(level))
        stop = min(reader.count, -(-last // per) * per)
        thinned = thin(reader.points(level, start, stop), per // unit)
    if channels is not None:
        thinned = thinned.of_channels(tuple(channels))
    return ThinnedSeries(per, thinned.channels, **thinned.widened())


def _search(times: Ints, time: int, side: str) -> int:
    return int(np.searchsorted(times, time, "left" if side == "left" else "right"))
