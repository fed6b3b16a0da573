"""The log as a SQLite database, and the inbox: what other processes ask for."""

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from newnormal.engine.database import Database, Mark, Migration, checksum, database_errors
from newnormal.errors import StateError

LOG_MIGRATIONS: tuple[Migration, ...] = (
    (
        "CREATE TABLE records (position INTEGER PRIMARY KEY, crc INTEGER NOT NULL,"
        " record BLOB NOT NULL)",
        "CREATE TABLE trimmed (one INTEGER PRIMARY KEY CHECK (one = 1), upto INTEGER NOT NULL)",
        "INSERT INTO trimmed VALUES (1, 0)",
        "CREATE TABLE inbox (number INTEGER PRIMARY KEY AUTOINCREMENT, request TEXT NOT NULL)",
    ),
)
_PUT = "INSERT INTO records VALUES (?, ?, ?)"
_PIECE = 200  # records that `trim` deletes in one transaction
_PAGES = 500  # that it then gives back to the disk
_NEXT = "SELECT position, crc, record FROM records WHERE position > ? ORDER BY position LIMIT 1"


def record_crc(position: int, record: object) -> int:
    """Return the checksum of a record at its position."""
    return checksum(record, position & 0xFFFFFFFF)


def read_trimmed(reader: sqlite3.Connection, path: Path) -> int:
    """Return the position up to which a log is trimmed; a StateError where that is damaged."""
    row = reader.execute("SELECT upto FROM trimmed").fetchone()
    if row is None or not isinstance(row[0], int) or row[0] < 0:
        raise StateError(
            f"{path}: expected the position up to which it is trimmed, found "
            f"{'none' if row is None else repr(row[0])[:60]}",
            hint="restore a backup",
        )
    return row[0]


def ask(path: Path, request: str) -> None:
    """Leave a request for the process that uses a log."""
    if not path.is_file():
        raise StateError(f"expected a log, found no file {path}")
    with database_errors(path), closing(sqlite3.connect(path, timeout=30.0)) as connection:
        connection.execute("PRAGMA synchronous=FULL")
        with connection:
            connection.execute("INSERT INTO inbox (request) VALUES (?)", (request,))


class SqliteLog:
    """Records in order, each with a position: 1, 2, 3 and so on, none used twice.

    Any thread may call any method; those that write wait for each other.

    Parameters
    ----------
    path
        Of the database. It is made if it is not there.
    sync
        Whether a record is on the disk when `append` returns. Without, it is there after a kill,
        not after a power failure.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> log = SqliteLog(Path(mkdtemp()) / "log.sqlite")
    >>> log.append(b"one"), log.append(b"two")
    (1, 2)
    >>> list(log.read(after=1))
    [(2, b'two')]
    >>> log.close()
    """

    def __init__(self, path: Path, *, sync: bool = True) -> None:
        self._sync = sync
        self.marked = Mark.read(path)  # the position that it must have come to before
        self._database = Database(path, LOG_MIGRATIONS, synchronous="FULL" if sync else "NORMAL")
        with self._database.reading() as reader:
            self._trimmed = read_trimmed(reader, path)
            (last,) = reader.execute("SELECT max(position) FROM records").fetchone()
        self._appending = threading.Lock()
        self._last = self._trimmed if last is None else int(last)

    def append(self, record: bytes, requests: Sequence[int] = ()) -> int:
        """Write a record and return its position; `requests` of the inbox are removed with it.

        If that fails, as on a full disk, nothing was written, and it can be tried again.
        """
        with self._appending:
            position = self._last + 1
            with self._database.transaction() as writer:
                writer.execute(_PUT, (position, record_crc(position, record), record))
                for request in requests:
                    writer.execute("DELETE FROM inbox WHERE number = ?", (request,))
            self._last = position  # only once it is committed
            if self._sync:
                self._database.mark.write(position)
        return position

    def sync(self) -> None:
        """Have all records on the disk, also without `sync`."""
        with self._appending:
            with self._database.transaction(sync=True) as writer:
                writer.execute("UPDATE trimmed SET upto = upto")
            self._database.mark.write(self._last)

    def requests(self) -> list[tuple[int, str]]:
        """Return what other processes ask for, each with its number, the oldest first."""
        with self._database.reading() as reader:
            return reader.execute("SELECT number, request FROM inbox ORDER BY number").fetchall()

    def read(self, after: int) -> Iterator[tuple[int, bytes]]:
        """Give the records behind a position, in order, and those that come meanwhile.

        A record that is damaged or missing, or was trimmed, is a StateError.
        """
        expected = after + 1
        while expected <= self._last:
            with self._database.reading() as reader:
                row = reader.execute(_NEXT, (expected - 1,)).fetchone()
            if row is None or row[0] != expected:
                raise self._missing(expected)
            position, crc, record = row
            if record_crc(position, record) != crc:
                raise StateError(
                    f"{self._database.path}: the record at position {position} is damaged",
                    hint="restore a backup",
                )
            yield position, record
            expected += 1

    def _missing(self, position: int) -> StateError:
        path = self._database.path
        if position <= self._trimmed:
            return StateError(
                f"{path}: expected records from position {position} on, found them trimmed"
                f" up to {self._trimmed}",
                hint="the checkpoint is older than the log: restore both from one backup",
            )
        return StateError(
            f"{path}: the record at position {position} is missing", hint="restore a backup"
        )

    def give_up(self, behind: int, upto: int, record: bytes) -> None:
        """Delete the records behind a position; others up to `upto` have `record` instead."""
        with self._appending, self._database.transaction() as writer:
            if not self._trimmed <= behind <= self._last:  # none that is there is the next one
                writer.execute("DELETE FROM records")
                writer.execute("UPDATE trimmed SET upto = ?", (behind,))
                self._trimmed = behind
            writer.execute("DELETE FROM records WHERE position > ?", (behind,))
            for position in range(behind + 1, upto + 1):
                writer.execute(_PUT, (position, record_crc(position, record), record))
        self._last = upto

    def settle(self) -> None:
        """Move what is in the WAL into the database, as far as readers let it."""
        with self._database.reading() as reader:
            reader.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def trim(self, upto: int) -> None:
        """Delete the records up to a position; in pieces, so that `append` does not wait long."""
        upto = min(upto, self._last)
        while self._trimmed < upto:
            piece = min(upto, self._trimmed + _PIECE)
            with self._database.transaction() as writer:
                writer.execute("UPDATE trimmed SET upto = ?", (piece,))
                writer.execute("DELETE FROM records WHERE position <= ?", (piece,))
            self._trimmed = piece
            self._database.give_back(_PAGES)

    @property
    def first(self) -> int:
        """The oldest position that can be read; one behind `last` if there is none."""
        return self._trimmed + 1

    @property
    def last(self) -> int:
        """The newest position, 0 before the first; it stays when records are trimmed."""
        return self._last

    @property
    def size(self) -> int:
        """Bytes on the disk."""
        return self._database.size

    def close(self) -> None:
        """Close it."""
        self._database.close()
