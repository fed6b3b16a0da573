"""Samples of streams in blocks, with coarser levels for pictures of a long time."""

import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from newnormal.engine.store.columns import BlockColumns, encode, join
from newnormal.engine.store.connection import StoreConnection
from newnormal.engine.store.levels import BLOCK, FEWER, complete, thin
from newnormal.engine.store.open_block import OpenBlock
from newnormal.engine.store.stream_reader import StreamReader, block_of, read_series
from newnormal.engine.values import StoredRows, ThinnedSeries
from newnormal.errors import StateError

_Result = TypeVar("_Result")
_TRIES = 3  # samples are replaced where a fit is taken over, or a history uploaded: seldom
_NONE = 1 << 62  # no sample has a number so high
_PUT = "INSERT OR REPLACE INTO blocks VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_CUT = "DELETE FROM blocks WHERE stream = ? AND level = ? AND number >= ?"
_NEWEST = (
    "SELECT number, count FROM blocks WHERE stream = ? AND level = 0 ORDER BY number DESC LIMIT 1"
)
BLOCK_COLUMNS = "stream, level, number, count, begin, end, crc, data"


class SampleTable:
    """The samples of the store.

    One thread writes; any thread reads, and reads also what is not yet committed. The newest
    checkpoint is at `position`; None without any.

    Notes
    -----
    The database has full blocks of each level; a block that is not full is there once it was
    flushed (level 0) or as far as full blocks of the level below reach (above). So what is stored
    follows from the samples alone, and forgetting the newest ones is cutting each level.

    Going back to a checkpoint cuts off samples that were appended since. Blocks of the checkpoint
    that are replaced are kept in the table `undo`; streams that are removed are hidden, and
    deleted once no checkpoint that is kept has them.
    """

    def __init__(self, connection: StoreConnection, position: int | None) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._cuts = 0  # how often samples were replaced or forgotten
        self._open: dict[int, OpenBlock] = {}
        self._blocks: dict[int, dict[tuple[int, int], BlockColumns]] = {}  # not yet committed
        self._position = position or 0
        # How many samples a stream has at the newest checkpoint. None: that is not known yet, so
        # everything is kept that is replaced.
        self._floors: dict[int, int] | None = {} if position is None else None
        # The first sample of a stream that was replaced since the newest checkpoint, and the first
        # one that a recovery from the checkpoint before it replaces or cuts off.
        self._replaced: dict[int, int] = {}
        self._replaced_before: dict[int, int] = {}

    # ------------------------------------------------------------------ writing

    def add(self, stream: int, rows: StoredRows) -> None:
        """Append samples; those that are there from `rows.first` on are replaced.

        A stream that was forgotten begins anew. If samples before `rows.first` are missing, it is a
        StateError.
        """
        if stream in self._connection.hidden:
            self._begin_anew(stream)
        total = len(rows)
        if not total:
            return
        # Scores may be too large for 4 bytes: then they are infinite.
        with self._lock, np.errstate(over="ignore"):
            newest = self._newest(stream)
            if rows.first != newest.count:
                newest = self._cut(stream, newest, rows.first)
            self._open[stream] = newest
            begin = 0
            while begin < total:
                end = min(total, begin + BLOCK - newest.length)
                newest.take(rows, begin, end)
                begin = end
                if newest.length == BLOCK:
                    self._finish(stream, newest)

    def truncate(self, stream: int, count: int) -> None:
        """Forget samples from number `count` on; if there are fewer, it is a StateError."""
        with self._lock:
            newest = self._newest(stream)
            if newest.count != count:
                self._cut(stream, newest, count)

    def flush(self) -> None:
        """Collect also blocks that are not full, so that the next commit has every sample."""
        for stream, newest in list(self._open.items()):
            if newest.length != newest.written:
                self._put(stream, 0, newest.number, newest.columns)
                newest.written = newest.length

    def committed(self) -> None:
        """Forget copies in memory of what is now in the database."""
        with self._lock:
            self._blocks = {}

    def forget(self, stream: int) -> None:
        """Hide a stream at once, and delete it two checkpoints later."""
        with self._lock:
            self._open[stream] = OpenBlock(0)
            self._blocks.pop(stream, None)
        statement = "INSERT OR IGNORE INTO forgotten VALUES (?, ?)"
        self._connection.write(statement, stream, self._position)
        self._connection.hidden |= {stream}
        if self._floors is not None:
            self._floors.pop(stream, None)

    def _begin_anew(self, stream: int) -> None:
        self._connection.write(
            f"INSERT OR IGNORE INTO undo ({BLOCK_COLUMNS}, after)"  # noqa: S608 - columns
            f" SELECT {BLOCK_COLUMNS}, after FROM blocks JOIN forgotten USING (stream)"
            " WHERE stream = ?",
            stream,
        )
        self._connection.write("DELETE FROM blocks WHERE stream = ?", stream)
        self._connection.write("DELETE FROM forgotten WHERE stream = ?", stream)
        self._connection.hidden -= {stream}

    def _newest(self, stream: int) -> OpenBlock:
        """Return the block that the next sample goes to."""
        newest = self._open.get(stream)
        if newest is None:
            if stream in self._connection.hidden:
                return OpenBlock(0)
            rows = self._connection.fetch(_NEWEST, (stream,))
            if not rows:
                return OpenBlock(0)
            number, count = rows[0]
            full = count == BLOCK
            newest = (
                OpenBlock(number + 1) if full else OpenBlock(number, self._block(stream, 0, number))
            )
            self._open[stream] = newest
        return newest

    def _finish(self, stream: int, newest: OpenBlock) -> None:
        """Put a full block away, and add its points to the levels above."""
        block, before = newest.columns, newest.number * BLOCK
        level = 0
        self._keep(stream, level, newest.number, block)
        while len(block) == BLOCK:
            level += 1
            points = thin(block, FEWER)
            number, there = divmod(complete(before, level), BLOCK)
            if there:
                points = join([self._block(stream, level, number).part(0, there), points])
            block = points
            self._keep(stream, level, number, block)
        newest.next_block()

    def _cut(self, stream: int, newest: OpenBlock, count: int) -> OpenBlock:
        if not 0 <= count <= newest.count:
            raise StateError(
                f"expected {count} samples of stream {stream}, found {newest.count}",
                hint="the store is older than its checkpoint: restore a backup",
            )
        self._cuts += 1
        level = 0
        while complete(newest.count, level):
            number, there = divmod(complete(count, level), BLOCK)
            kept: BlockColumns | None = None
            if there:
                in_memory = level == 0 and number == newest.number
                block = newest.columns if in_memory else self._block(stream, level, number)
                kept = block.part(0, there)
            blocks = self._blocks.get(stream, {})
            for key in [key for key in blocks if key[0] == level and key[1] >= number]:
                del blocks[key]
            self._keep_replaced(stream, level, number, count)
            self._connection.write(_CUT, stream, level, number)
            if kept is not None:
                # Without it the database would have fewer samples than a checkpoint counts on.
                self._put(stream, level, number, kept)
            if level == 0:
                shorter = OpenBlock(number, kept)
            elif kept is not None:
                self._blocks.setdefault(stream, {})[level, number] = kept
            level += 1
        self._open[stream] = shorter
        return shorter

    def _keep_replaced(self, stream: int, level: int, number: int, count: int) -> None:
        """Keep the blocks from a number on that a checkpoint needs; samples are cut at `count`."""
        self._replaced[stream] = min(count, self._replaced.get(stream, count))
        if self._floors is None or count < self._floors.get(stream, 0):
            self._connection.write(
                f"INSERT OR IGNORE INTO undo ({BLOCK_COLUMNS}, after)"  # noqa: S608
                f" SELECT {BLOCK_COLUMNS}, ? FROM blocks"
                " WHERE stream = ? AND level = ? AND number >= ?",
                self._position,
                stream,
                level,
                number,
            )

    def _keep(self, stream: int, level: int, number: int, block: BlockColumns) -> None:
        self._blocks.setdefault(stream, {})[level, number] = block
        self._put(stream, level, number, block)

    def _put(self, stream: int, level: int, number: int, block: BlockColumns) -> None:
        data, times = encode(block), block["times"]
        begin, end, crc = int(times[0]), int(times[-1]), zlib.crc32(data)
        self._connection.write(_PUT, stream, level, number, len(block), begin, end, crc, data)

    def _block(self, stream: int, level: int, number: int) -> BlockColumns:
        """Return a block that is not the open one; a missing one is a StateError."""
        block = self._blocks.get(stream, {}).get((level, number))
        if block is None:
            database = self._connection.database
            with database.reading() as reader:
                block = block_of(reader, database.path, stream, level, number)
        return block

    # ------------------------------------------------------------------ checkpoints

    def saved(self, position: int) -> None:
        """Take note of a checkpoint, which `flush` was called before."""
        if self._floors is None:
            self._floors = {}
        self._replaced_before = dict(self._floors)
        for stream, number in self._replaced.items():
            before = self._replaced_before.get(stream, number)
            self._replaced_before[stream] = min(before, number)
        self._replaced = {}
        self._floors.update((stream, newest.count) for stream, newest in list(self._open.items()))
        self._position = position

    def return_to(self, position: int, counts: Mapping[int, int]) -> None:
        """Go on from a checkpoint whose blocks are in the database again: cut off newer samples."""
        with self._lock:
            self._open, self._blocks = {}, {}
        self._position, self._floors = position, dict(counts)
        self._replaced, self._replaced_before = {}, dict(counts)
        for stream, count in counts.items():
            self.truncate(stream, count)

    def replaced_from(self, stream: int) -> int:
        """Return the first sample of a stream that a recovery may replace or cut off."""
        # The service's detectors, or a copy of them, may still be at the checkpoint before.
        return min(self._replaced.get(stream, _NONE), self._replaced_before.get(stream, _NONE))

    # ------------------------------------------------------------------ reading

    def count(self, stream: int) -> int:
        """Return the number of the next sample of a stream."""
        with self._lock:
            return self._newest(stream).count

    def first_kept(self, stream: int) -> int:
        """Return the number of the oldest sample that is kept exactly."""
        return self._read(stream, lambda reader: reader.first_kept(0))

    def rows(
        self, stream: int, first: int, last: int, channels: Sequence[str] | None = None
    ) -> StoredRows:
        """Return the samples `first` to `last`, which is included; missing ones are a StateError.

        Channels are by name, in this order, NaN where a sample has none of it; None: all of them.
        """
        samples = self._read(stream, lambda reader: reader.samples(first, last + 1))
        if channels is not None:
            samples = samples.of_channels(tuple(channels))
        return samples.as_rows(first)

    def series(
        self, stream: int, begin: int, end: int, points: int, channels: Sequence[str] | None = None
    ) -> ThinnedSeries:
        """Return the samples of a time, thinned to `points` to twice as many points.

        Fewer if there are fewer samples, or where only coarser levels are kept. `begin` and `end`
        are in ns and both included; the first point may begin before. Channels are as for `rows`.
        """
        return self._read(stream, lambda reader: read_series(reader, begin, end, points, channels))

    def _read(self, stream: int, read: Callable[[StreamReader], _Result]) -> _Result:
        """Read a stream; again if samples were replaced between memory and database."""
        for last in range(_TRIES):
            cuts = self._cuts
            try:
                with self._reader(stream) as reader:
                    result = read(reader)
            except StateError:
                if cuts == self._cuts or last == _TRIES - 1:
                    raise
            else:
                if cuts == self._cuts:
                    break
        return result

    def _reader(self, stream: int) -> StreamReader:
        """Return a stream as it is now: what is in memory first, then the database."""
        with self._lock:
            newest = self._newest(stream)
            blocks = self._blocks.get(stream, {})
            number = newest.number
            memory = [newest.columns] if newest.length else []
            while (0, number - 1) in blocks:
                number -= 1
                memory.insert(0, blocks[0, number])
            points = {key: block for key, block in blocks.items() if key[0]}
            database = self._connection.database
            return StreamReader(database, stream, newest.count, number, tuple(memory), points)
