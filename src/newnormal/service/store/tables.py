"""What the parts of the store share: one database, and writes that wait for `commit`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from newnormal.service.database import Database


class Tables:
    """Base of the parts of the store.

    What follows from the log is collected in memory and written by `commit` in one transaction. So
    the database is held for a short time only, and where writing fails, as on a full disk, nothing
    is lost: the next `commit` tries again.

    Parameters
    ----------
    database
        The store's.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._clock: Callable[[], int] = time.time_ns
        self._writes: list[tuple[str, Sequence[Any]]] = []

    def _write(self, statement: str, *values: Any) -> None:
        self._writes.append((statement, values))

    def commit(self, *, sync: bool = False) -> None:
        """Write what was collected; with `sync` it is on the disk once this returns.

        If that fails, it stays collected.
        """
        if not self._writes and not sync:
            return
        with self._database.transaction(sync=sync) as writer:
            for statement, values in self._writes:
                writer.execute(statement, values)
            if sync:
                # A transaction that writes nothing is not synced, nor what came before it.
                writer.execute("UPDATE synced SET times = times + 1")
        self._writes = []
        self._committed()

    def _committed(self) -> None:
        """Forget copies in memory of what is now in the database."""

    @property
    def size(self) -> int:
        """Bytes on the disk."""
        return self._database.size
