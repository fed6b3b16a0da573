"""The store of the service: one database with all that follows from the log, and settings."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from newnormal.engine.database import checksum
from newnormal.engine.store.connection import StoreConnection
from newnormal.engine.store.events import EventTable
from newnormal.engine.store.items import ItemTable
from newnormal.engine.store.outbox import Outbox
from newnormal.engine.store.samples import BLOCK_COLUMNS, SampleTable
from newnormal.engine.store.settings import SettingsTable
from newnormal.errors import StateError

_CHECKPOINTS = 2  # that are kept
# What the checkpoints that are kept do not need any more.
_NEEDLESS = "after < (SELECT min(position) FROM checkpoints)"
_GONE = f"(SELECT stream FROM forgotten WHERE {_NEEDLESS})"  # noqa: S608 - constants
_CLEAN = (
    f"DELETE FROM undo WHERE {_NEEDLESS}",  # noqa: S608
    f"DELETE FROM blocks WHERE stream IN {_GONE}",  # noqa: S608
    f"DELETE FROM comments WHERE item IN (SELECT key FROM items WHERE stream IN {_GONE})",  # noqa: S608
    f"DELETE FROM items WHERE stream IN {_GONE}",  # noqa: S608
    f"DELETE FROM forgotten WHERE {_NEEDLESS}",  # noqa: S608
)


class Store:
    """Samples, items, events, alerts, settings and checkpoints.

    What follows from the log (samples, items, events, alerts, checkpoints) is written by one thread
    and collected until `commit`. It has keys that follow from the log, too: to apply the same log
    again changes nothing. Settings, comments and `Outbox.mark` are written at once, by any thread.
    Any thread reads.

    Parameters
    ----------
    path
        Of the database. It is made if it is not there.
    clock
        The time in ns: when alerts were made, and items and events written.
    """

    def __init__(self, path: Path, *, clock: Callable[[], int] = time.time_ns) -> None:
        self.connection = connection = StoreConnection(path, clock)
        self.samples = SampleTable(connection, next(iter(self.checkpoints()), None))
        self.items = ItemTable(connection)
        self.events = EventTable(connection)
        self.outbox = Outbox(connection)
        self.settings = SettingsTable(connection)

    def commit(self, *, sync: bool = False) -> None:
        """Write what was collected; with `sync` it is on the disk once this returns.

        If that fails, it stays collected.
        """
        if self.connection.commit(sync=sync):
            self.samples.committed()
            self.items.committed()

    def forget(self, stream: int) -> None:
        """Forget all that is kept of a stream, except its events.

        It is hidden at once, and deleted two checkpoints later.
        """
        self.samples.forget(stream)

    @property
    def size(self) -> int:
        """Bytes on the disk."""
        return self.connection.database.size

    def close(self) -> None:
        """Close it; what was not committed is lost."""
        self.connection.database.close()

    # ------------------------------------------------------------------ checkpoints

    def save_checkpoint(self, position: int, state: bytes) -> None:
        """Write the state at a position, with the next commit; the one before it is kept, too.

        Call `samples.flush` before it.
        """
        write = self.connection.write
        write("DELETE FROM checkpoints WHERE position > ?", position)
        crc = checksum(state)
        write("INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?)", position, crc, state)
        write(
            "DELETE FROM checkpoints WHERE position NOT IN"
            " (SELECT position FROM checkpoints ORDER BY position DESC LIMIT ?)",
            _CHECKPOINTS,
        )
        for statement in _CLEAN:
            write(statement)
        self.samples.saved(position)

    def checkpoint(self, position: int | None = None) -> tuple[int, bytes] | None:
        """Return position and state of the newest checkpoint, or of that at a position.

        None if it is not there. One that is not committed is not there.
        """
        rows = self.connection.fetch(
            "SELECT position, crc, state FROM checkpoints"
            " WHERE :position IS NULL OR position = :position ORDER BY position DESC LIMIT 1",
            {"position": position},
        )
        if not rows:
            return None
        saved, crc, state = rows[0]
        if checksum(state) != crc:
            raise StateError(
                f"{self.connection.database.path}: the checkpoint at position {saved} is damaged",
                hint="restore a backup",
            )
        return int(saved), bytes(state)

    def checkpoints(self) -> list[int]:
        """Return the positions of the checkpoints, newest first."""
        rows = self.connection.fetch("SELECT position FROM checkpoints ORDER BY position DESC")
        return [int(position) for (position,) in rows]

    def return_to(self, position: int, counts: Mapping[int, int]) -> None:
        """Make the store what it was at a checkpoint (0: the beginning); at once, without `commit`.

        Items, events and alerts stay: to apply the log again changes them to what they are.
        `counts` has how many samples each stream has there; if one has fewer, it is a StateError.
        """
        self.connection.drop_writes()
        with self.connection.database.transaction() as writer:
            # The oldest of the blocks that were replaced is that of the checkpoint: it comes last.
            writer.execute(
                f"INSERT OR REPLACE INTO blocks ({BLOCK_COLUMNS})"  # noqa: S608
                f" SELECT {BLOCK_COLUMNS} FROM undo WHERE after >= ? ORDER BY after DESC",
                (position,),
            )
            writer.execute("DELETE FROM undo WHERE after >= ?", (position,))
            writer.execute("DELETE FROM forgotten WHERE after >= ?", (position,))
            writer.execute("DELETE FROM checkpoints WHERE position > ?", (position,))
        self.connection.read_hidden()
        self.samples.return_to(position, counts)
        self.commit(sync=True)
