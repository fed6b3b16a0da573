"""The database of the store, the writes that wait for `commit`, and the digests of its rows."""

import json
import logging
import sqlite3
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from newnormal.engine.database import Database, Mark
from newnormal.engine.store.schema import MIGRATIONS
from newnormal.engine.values import Item
from newnormal.errors import StateError

_LOG = logging.getLogger("newnormal")
# The columns that the digest of a row is of, by table.
SEALED = {
    "items": ", ".join(field.name for field in fields(Item)),
    "events": "position, ordinal, kind, time, stream, item, body",
    "comments": "item, time, who, text",
    "alerts": "key, sink, body, created, delivered, attempts, next_try, error",
    "settings": "space, name, value",
}


class StoreConnection:
    """What the tables of the store share.

    What follows from the log is collected in memory and written by `commit` in one transaction. So
    the database is held for a short time only, and where writing fails, as on a full disk, nothing
    is lost: the next `commit` tries again. `hidden` streams were removed, and are deleted two
    checkpoints later. `position` is that of the newest record of the log that was applied.
    """

    def __init__(self, path: Path, clock: Callable[[], int]) -> None:
        marked = Mark.read(path)
        self.database, self.clock = Database(path, MIGRATIONS, synchronous="NORMAL"), clock
        try:
            with self.database.reading() as reader:
                _, self.position = reached(reader, path, marked)
        except BaseException:
            self.database.close()
            raise
        self.damaged: list[str] = []  # rows that were left out, each in a sentence
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
        with self.transaction(sync=sync) as writer:
            for statement, values in self._writes:
                writer.execute(statement, values)
        self._writes = []
        return True

    @contextmanager
    def transaction(self, *, sync: bool = True) -> Iterator[sqlite3.Connection]:
        """Give the writer inside a transaction; with `sync` it is on the disk, and marked."""
        with self.database.transaction(sync=sync) as writer:
            yield writer
            times, position = reached(writer, self.database.path)
            now = (times + sync, max(position, self.position))
            writer.execute("UPDATE reached SET times = ?, position = ?, crc = ?", sealed(now))
        if sync:
            self.database.mark.write(now[0])

    def fetch(self, statement: str, values: Any = ()) -> list[Any]:
        """Return the rows of a query over what is committed."""
        with self.database.reading() as reader:
            return reader.execute(statement, values).fetchall()

    def rows(self, table: str, where: str, *values: Any) -> list[Any]:
        """Return the rows of a table that are intact, as `SEALED` has their columns."""
        return self.intact(table, self.fetch(f"{selected(table)} {where}", values))

    def intact(self, table: str, rows: Sequence[Any]) -> list[Any]:
        """Return rows without the digest at their end; damaged ones are left out, and named."""
        damaged = [row for row in rows if not is_intact(row)]
        for text in (damage_text(self.database.path, table, row) for row in damaged):
            if text not in self.damaged:
                _LOG.error("%s: it is left out", text)
                self.damaged.append(text)
        return [row[:-1] for row in rows if row not in damaged]


def selected(table: str) -> str:
    """Return the beginning of a query for the rows of a table with their digests."""
    return f"SELECT {SEALED[table]}, crc FROM {table}"  # noqa: S608 - names of ours


def inserted(table: str, *more: str, verb: str = "INSERT OR IGNORE") -> str:
    """Return the statement that writes a row with its digest, and more columns behind it."""
    columns = ", ".join((SEALED[table], "crc", *more))
    return f"{verb} INTO {table} ({columns}) VALUES (?{', ?' * columns.count(',')})"


def sealed(row: Sequence[Any]) -> tuple[Any, ...]:
    """Return a row with its digest at its end."""
    return (*row, zlib.crc32(json.dumps(row, default=repr).encode()))


def is_intact(row: Sequence[Any]) -> bool:
    """Whether a row that ends in its digest is what was written."""
    return bool(sealed(row[:-1])[-1] == row[-1])


def damage_text(path: Path, table: str, row: Sequence[Any]) -> str:
    """Return the sentence about a damaged row."""
    name = "-".join(map(str, row[: 1 if table == "items" else 2]))
    return f"{path}: the row {name!r} of {table} is damaged"


def reached(reader: sqlite3.Connection, path: Path, marked: int = 0) -> tuple[int, int]:
    """Return how often a store was synced, and the position of the log that it has.

    If it was synced more often, it is a StateError.
    """
    row = reader.execute("SELECT times, position, crc FROM reached").fetchone()
    if row is None or not is_intact(row):
        raise StateError(damage_text(path, "reached", row or ()), hint="restore a backup")
    if row[0] < marked:
        raise StateError(
            f"{path}: expected {marked} synced commits, found {row[0]}: the newest are missing",
            hint="restore a backup; newnormal serve verify --repair goes on without them",
        )
    return int(row[0]), int(row[1])


def stored_integer(text: str) -> int:
    """Return an integer that SQLite can hold; others are a ValueError."""
    number = int(text)
    if abs(number) >= 1 << 63:
        raise ValueError(text)
    return number
