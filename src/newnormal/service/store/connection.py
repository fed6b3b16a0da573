"""The database of the store, and the writes that wait for `commit`."""

from collections.abc import Callable, Sequence
from typing import Any

from newnormal.service.database import Database


class StoreConnection:
    """What the tables of the store share.

    What follows from the log is collected in memory and written by `commit` in one transaction. So
    the database is held for a short time only, and where writing fails, as on a full disk, nothing
    is lost: the next `commit` tries again. `hidden` streams were removed, and are deleted two
    checkpoints later.
    """

    def __init__(self, database: Database, clock: Callable[[], int]) -> None:
        self.database, self.clock = database, clock
        self._writes: list[tuple[str, Sequence[Any]]] = []
        self.hidden: frozenset[int] = frozenset()
        self.read_hidden()

    def read_hidden(self) -> None:
        """Take `hidden` from the database."""
        rows = self.fetch("SELECT stream FROM forgotten")
        self.hidden = frozenset(int(stream) for (stream,) in rows)

    def write(self, statement: str, *values: Any) -> None:
        """Collect a statement for the next commit."""
        self._writes.append((statement, values))

    def drop_writes(self) -> None:
        """Forget what was collected."""
        self._writes = []

    def commit(self, *, sync: bool) -> bool:
        """Write what was collected; if that fails, it stays collected.

        Returns
        -------
            Whether there was anything to do.
        """
        if not self._writes and not sync:
            return False
        with self.database.transaction(sync=sync) as writer:
            for statement, values in self._writes:
                writer.execute(statement, values)
            if sync:
                # A transaction that writes nothing is not synced, nor what came before it.
                writer.execute("UPDATE synced SET times = times + 1")
        self._writes = []
        return True

    def fetch(self, statement: str, values: Any = ()) -> list[Any]:
        """Return the rows of a query over what is committed."""
        with self.database.reading() as reader:
            return reader.execute(statement, values).fetchall()


def stored_integer(text: str) -> int:
    """Return an integer that SQLite can hold; others are a ValueError."""
    number = int(text)
    if abs(number) >= 1 << 63:
        raise ValueError(text)
    return number
