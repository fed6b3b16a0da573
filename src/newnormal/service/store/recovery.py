"""Go back to a checkpoint, also where samples were replaced or a stream was removed since."""

from __future__ import annotations

from collections.abc import Mapping

from newnormal.service.database import Database
from newnormal.service.store.items import Items
from newnormal.service.store.retention import Retention
from newnormal.service.store.settings import Checkpoints
from newnormal.service.store.tails import Tail
from newnormal.service.values import Rows

_BLOCK = "stream, level, number, count, begin, end, crc, data"
# What the checkpoints that are kept do not need any more.
_NEEDLESS = "after < (SELECT min(position) FROM checkpoints)"
_GONE = f"(SELECT stream FROM forgotten WHERE {_NEEDLESS})"  # noqa: S608 - a constant
_CLEAN = (
    f"DELETE FROM undo WHERE {_NEEDLESS}",  # noqa: S608
    f"DELETE FROM blocks WHERE stream IN {_GONE}",  # noqa: S608
    f"DELETE FROM comments WHERE item IN (SELECT key FROM items WHERE stream IN {_GONE})",  # noqa: S608
    f"DELETE FROM items WHERE stream IN {_GONE}",  # noqa: S608
    f"DELETE FROM forgotten WHERE {_NEEDLESS}",  # noqa: S608
)


class Recovery(Retention, Items, Checkpoints):
    """What a recovery needs of the samples and items of a checkpoint.

    Samples that are only appended need nothing: `truncate` cuts them off. Blocks of a checkpoint
    that are replaced are kept in the table `undo`; streams that are removed are hidden, and deleted
    once no checkpoint that is kept has them.
    """

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        found = self.checkpoints()
        self._position = found[0] if found else 0
        # How many samples a stream has at the newest checkpoint. None: that is not known yet, so
        # everything is kept that is replaced.
        self._floors: dict[int, int] | None = None if found else {}
        # The first sample of a stream that was replaced since the newest checkpoint, and the first
        # one that a recovery from the checkpoint before it replaces or cuts off.
        self._replaced: dict[int, int] = {}
        self._replaced_before: dict[int, int] = {}
        with database.reading() as reader:
            rows = reader.execute("SELECT stream FROM forgotten").fetchall()
        self._hide({int(stream) for (stream,) in rows})

    def return_to(self, position: int, counts: Mapping[int, int]) -> None:
        """Make the store what it was at a checkpoint; at once, without `commit`.

        Items, events and alerts stay: to apply the log again changes them to what they are.

        Parameters
        ----------
        position
            Of the checkpoint; 0: the beginning.
        counts
            How many samples each stream has there.

        Raises
        ------
        StateError
            If a stream has fewer.
        """
        self._writes = []
        with self._database.transaction() as writer:
            # The oldest of the blocks that were replaced is that of the checkpoint: it comes last.
            writer.execute(
                f"INSERT OR REPLACE INTO blocks ({_BLOCK})"  # noqa: S608
                f" SELECT {_BLOCK} FROM undo WHERE after >= ? ORDER BY after DESC",
                (position,),
            )
            writer.execute("DELETE FROM undo WHERE after >= ?", (position,))
            writer.execute("DELETE FROM forgotten WHERE after >= ?", (position,))
            writer.execute("DELETE FROM checkpoints WHERE position > ?", (position,))
            rows = writer.execute("SELECT stream FROM forgotten").fetchall()
        with self._lock:
            self._tails, self._blocks = {}, {}
        self._hide({int(stream) for (stream,) in rows})
        self._position, self._floors = position, dict(counts)
        self._replaced, self._replaced_before = {}, dict(counts)
        for stream, count in counts.items():
            self.truncate(stream, count)
        self.commit(sync=True)

    def save_checkpoint(self, position: int, state: bytes) -> None:
        """Write the state at a position, with the next commit; the one before it is kept, too.

        Call `flush_tails` before it.
        """
        super().save_checkpoint(position, state)
        for statement in _CLEAN:
            self._write(statement)
        if self._floors is None:
            self._floors = {}
        self._replaced_before = dict(self._floors)
        for stream, number in self._replaced.items():
            before = self._replaced_before.get(stream, number)
            self._replaced_before[stream] = min(before, number)
        self._replaced = {}
        self._floors.update((stream, tail.count) for stream, tail in list(self._tails.items()))
        self._position = position

    def forget(self, stream: int) -> None:
        """Forget all that is kept of a stream, except its events.

        It is hidden at once, and deleted two checkpoints later.
        """
        with self._lock:
            self._tails[stream] = Tail(0)
            self._blocks.pop(stream, None)
        self._write("INSERT OR IGNORE INTO forgotten VALUES (?, ?)", stream, self._position)
        self._hide({*self._hidden, stream})
        if self._floors is not None:
            self._floors.pop(stream, None)

    def add(self, stream: int, rows: Rows) -> None:
        """Append samples, as `Samples.add`; a stream that was forgotten begins anew."""
        if stream in self._hidden:
            self._write(
                f"INSERT OR IGNORE INTO undo ({_BLOCK}, after)"  # noqa: S608
                f" SELECT {_BLOCK}, after FROM blocks JOIN forgotten USING (stream)"
                " WHERE stream = ?",
                stream,
            )
            self._write("DELETE FROM blocks WHERE stream = ?", stream)
            self._write("DELETE FROM forgotten WHERE stream = ?", stream)
            self._hide({*self._hidden} - {stream})
        super().add(stream, rows)

    def _tail(self, stream: int) -> Tail:
        if stream in self._hidden and stream not in self._tails:
            return Tail(0)
        return super()._tail(stream)

    def _replaced_from(self, stream: int) -> int:
        # The service's detectors, or a copy of them, may still be at the checkpoint before.
        known = (self._replaced, self._replaced_before)
        found = [each[stream] for each in known if stream in each]
        return min([super()._replaced_from(stream), *found])

    def _before_cut(self, stream: int, level: int, number: int, count: int) -> None:
        super()._before_cut(stream, level, number, count)
        self._replaced[stream] = min(count, self._replaced.get(stream, count))
        if self._floors is None or count < self._floors.get(stream, 0):
            self._write(
                f"INSERT OR IGNORE INTO undo ({_BLOCK}, after)"  # noqa: S608
                f" SELECT {_BLOCK}, ? FROM blocks WHERE stream = ? AND level = ? AND number >= ?",
                self._position,
                stream,
                level,
                number,
            )
