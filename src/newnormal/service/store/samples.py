"""Samples of streams in blocks, with coarser levels for pictures of a long time."""

from __future__ import annotations

import logging
import threading
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import numpy as np

from newnormal.errors import StateError
from newnormal.service.database import Database
from newnormal.service.store.columns import Columns, encode, join
from newnormal.service.store.levels import BLOCK, FEWER, complete, thin
from newnormal.service.store.rebuilding import rebuilt
from newnormal.service.store.stretches import Stretch, block_of, find_block, stretch_series
from newnormal.service.store.tables import Tables
from newnormal.service.store.tails import Tail
from newnormal.service.values import Rows, Series

_LOG = logging.getLogger("newnormal")
_Result = TypeVar("_Result")
_TRIES = 3  # samples are replaced where a fit is taken over, or a history uploaded: seldom
_PUT = "INSERT OR REPLACE INTO blocks VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_CUT = "DELETE FROM blocks WHERE stream = ? AND level = ? AND number >= ?"
_BEGIN = (
    "SELECT begin FROM blocks WHERE stream = ? AND level = 0 AND number >= ?"
    " ORDER BY number LIMIT 1"
)


class Samples(Tables):
    """The samples of the store.

    One thread writes; any thread reads, and reads also what is not yet committed.

    Notes
    -----
    The database has full blocks of each level; a block that is not full is there once it was
    flushed (level 0) or as far as full blocks of the level below reach (above). So what is stored
    follows from the samples alone, and forgetting the newest ones is cutting each level.
    """

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._lock = threading.Lock()
        self._cuts = 0  # how often samples were replaced or forgotten
        self._tails: dict[int, Tail] = {}
        self._blocks: dict[int, dict[tuple[int, int], Columns]] = {}  # not yet committed

    # ------------------------------------------------------------------ writing

    def add(self, stream: int, rows: Rows) -> None:
        """Append samples; those that are there from `rows.first` on are replaced.

        Raises
        ------
        StateError
            If samples before `rows.first` are missing.
        """
        total = len(rows)
        if not total:
            return
        # Scores may be too large for 4 bytes: then they are infinite.
        with self._lock, np.errstate(over="ignore"):
            tail = self._tail(stream)
            if rows.first != tail.count:
                tail = self._cut(stream, tail, rows.first)
            self._tails[stream] = tail
            at = 0
            while at < total:
                end = min(total, at + BLOCK - tail.length)
                tail.take(rows, at, end)
                at = end
                if tail.length == BLOCK:
                    self._finish(stream, tail)

    def truncate(self, stream: int, count: int) -> None:
        """Forget samples from number `count` on.

        Raises
        ------
        StateError
            If there are fewer.
        """
        with self._lock:
            tail = self._tail(stream)
            if tail.count != count:
                self._cut(stream, tail, count)

    def flush_tails(self) -> None:
        """Collect also blocks that are not full, so that the next commit has every sample."""
        for stream, tail in list(self._tails.items()):
            if tail.length != tail.written:
                self._put(stream, 0, tail.number, tail.columns)
                tail.written = tail.length

    def _tail(self, stream: int) -> Tail:
        tail = self._tails.get(stream)
        if tail is None:
            with self._database.reading() as reader:
                row = reader.execute(
                    "SELECT number, count FROM blocks WHERE stream = ? AND level = 0"
                    " ORDER BY number DESC LIMIT 1",
                    (stream,),
                ).fetchone()
                if row is None:
                    return Tail(0)
                number, count = row
                samples = None
                if count < BLOCK:
                    samples = block_of(reader, self._database.path, stream, 0, number)
            tail = Tail(number + 1) if samples is None else Tail(number, samples)
            self._tails[stream] = tail
        return tail

    def _finish(self, stream: int, tail: Tail) -> None:
        """Put a full block away, and add its points to the levels above."""
        block, before = tail.columns, tail.number * BLOCK
        level = 0
        self._keep(stream, level, tail.number, block)
        while len(block) == BLOCK:
            level += 1
            points = thin(block, FEWER)
            number, there = divmod(complete(before, level), BLOCK)
            if there:
                points = join([self._points(stream, level, number, there), points])
            block = points
            self._keep(stream, level, number, block)
        tail.next_block()

    def _cut(self, stream: int, tail: Tail, count: int) -> Tail:
        if not 0 <= count <= tail.count:
            raise StateError(
                f"expected {count} samples of stream {stream}, found {tail.count}",
                hint="the store is older than its checkpoint: restore a backup",
            )
        self._cuts += 1
        level = 0
        while complete(tail.count, level):
            number, there = divmod(complete(count, level), BLOCK)
            kept: Columns | None = None
            if there:
                if level:
                    kept = self._points(stream, level, number, there)
                else:
                    own = number == tail.number
                    kept = tail.columns if own else self._samples(stream, number)
                    kept = kept.part(0, there)
            blocks = self._blocks.get(stream, {})
            for key in [key for key in blocks if key[0] == level and key[1] >= number]:
                del blocks[key]
            self._before_cut(stream, level, number, count)
            self._write(_CUT, stream, level, number)
            if kept is not None:
                # Without it the database would have fewer samples than a checkpoint counts on.
                self._put(stream, level, number, kept)
            if level == 0:
                shorter = Tail(number, kept)
            elif kept is not None:
                self._blocks.setdefault(stream, {})[level, number] = kept
            level += 1
        self._tails[stream] = shorter
        return shorter

    def _before_cut(self, stream: int, level: int, number: int, count: int) -> None:
        """Blocks of a level from a number on are about to be deleted, samples from `count` on."""

    def _keep(self, stream: int, level: int, number: int, block: Columns) -> None:
        self._blocks.setdefault(stream, {})[level, number] = block
        self._put(stream, level, number, block)

    def _put(self, stream: int, level: int, number: int, block: Columns) -> None:
        data, times = encode(block), block["times"]
        begin, end = int(times[0]), int(times[-1])
        self._write(_PUT, stream, level, number, len(block), begin, end, zlib.crc32(data), data)

    def _samples(self, stream: int, number: int) -> Columns:
        """Return a full block of samples; a missing one is a StateError."""
        block = self._blocks.get(stream, {}).get((0, number))
        if block is None:
            with self._database.reading() as reader:
                block = block_of(reader, self._database.path, stream, 0, number)
        return block

    def _points(self, stream: int, level: int, number: int, rows: int) -> Columns:
        """Return the first rows of a block of points; made again if it is missing.

        Earlier versions removed blocks that a fit needed which was taken over later.
        """
        block = self._find(stream, level, number)
        if block is None:
            _LOG.warning(
                "block %d of level %d of stream %d is missing: it is made again from samples",
                number,
                level,
                stream,
            )
            behind = (number * BLOCK + rows) * FEWER**level // BLOCK
            with self._database.reading() as reader:
                row = reader.execute(_BEGIN, (stream, behind)).fetchone()
            tail = self._tail(stream)
            later = row[0] if row else int(tail.columns["times"][0]) if tail.length else 0
            block = rebuilt(level, number, rows, partial(self._find, stream), later)
        return block.part(0, rows)

    def _find(self, stream: int, level: int, number: int) -> Columns | None:
        block = self._blocks.get(stream, {}).get((level, number))
        if block is None:
            with self._database.reading() as reader:
                block = find_block(reader, self._database.path, stream, level, number)
        return block

    def _committed(self) -> None:
        super()._committed()
        with self._lock:
            self._blocks = {}

    # ------------------------------------------------------------------ reading

    def count(self, stream: int) -> int:
        """Return the number of the next sample of a stream."""
        with self._lock:
            return self._tail(stream).count

    def first_kept(self, stream: int) -> int:
        """Return the number of the oldest sample that is kept exactly."""
        return self._read(stream, lambda stretch: stretch.first_kept(0))

    def rows(
        self, stream: int, first: int, last: int, channels: Sequence[str] | None = None
    ) -> Rows:
        """Return the samples `first` to `last`, which is included.

        Parameters
        ----------
        stream, first, last
            Which.
        channels
            By name, in this order; NaN where a sample has none of it. None: all that there are.

        Raises
        ------
        StateError
            If some of them are not there, or not any more.
        """
        found = self._read(stream, lambda stretch: stretch.samples(first, last + 1))
        return (found if channels is None else found.of_channels(tuple(channels))).as_rows(first)

    def series(
        self,
        stream: int,
        begin: int,
        end: int,
        points: int,
        channels: Sequence[str] | None = None,
    ) -> Series:
        """Return the samples of a time, thinned to `points` to twice as many points.

        Fewer if there are fewer samples, or where only coarser levels are kept.

        Parameters
        ----------
        stream
            Which.
        begin, end
            In ns; both included. The first point may begin before.
        points
            How many are wanted.
        channels
            As for `rows`.
        """
        return self._read(
            stream, lambda stretch: stretch_series(stretch, begin, end, points, channels)
        )

    def _read(self, stream: int, read: Callable[[Stretch], _Result]) -> _Result:
        """Read a stream; again if samples were replaced between memory and database."""
        for last in range(_TRIES):
            cuts = self._cuts
            try:
                with self._stretch(stream) as stretch:
                    found = read(stretch)
            except StateError:
                if cuts == self._cuts or last == _TRIES - 1:
                    raise
            else:
                if cuts == self._cuts:
                    break
        return found

    def _stretch(self, stream: int) -> Stretch:
        """Return a stream as it is now: what is in memory first, then the database."""
        with self._lock:
            tail = self._tail(stream)
            blocks = self._blocks.get(stream, {})
            number = tail.number
            memory = [tail.columns] if tail.length else []
            while (0, number - 1) in blocks:
                number -= 1
                memory.insert(0, blocks[0, number])
            points = {key: block for key, block in blocks.items() if key[0]}
            return Stretch(self._database, stream, tail.count, number, tuple(memory), points)
