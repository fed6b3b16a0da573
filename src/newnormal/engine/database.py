"""A SQLite database of one process that writes: a writer, readers beside it, errors in words."""

import os
import sqlite3
import struct
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from newnormal.errors import StateError
from newnormal.state.files import sync_folder

_WAIT_S = 30.0  # for another process: a backup or a check holds nothing for long
_IDLE = 8  # connections that are kept for readers
_SPARE = 1_024  # pages that stay in the file to be used again; 4 MiB
_MARK = struct.Struct("<QI")  # a number, and its checksum
_RESTORE = "newnormal serve verify names what is damaged; restore a backup"

# The statements that lead to a version from the one before it.
Migration = tuple[str, ...]


def checksum(content: object, start: int = 0) -> int:
    """Return the CRC-32 of a column of bytes; -1 where damage made it a value of another kind."""
    return zlib.crc32(content, start) if isinstance(content, bytes) else -1


class Mark:
    """How far a database is, as a number in a file beside it: written once a commit is durable.

    SQLite takes a damaged frame of its WAL for the end of it, so the database alone does not tell
    that what came behind is missing. After a kill the file has the newest number; after a power
    failure perhaps an older one, or none.
    """

    def __init__(self, path: Path) -> None:
        flags = os.O_CREAT | os.O_RDWR | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
        self._handle = os.open(mark_path(path), flags, 0o600)

    def write(self, number: int) -> None:
        """Write a number in the place of the one before."""
        packed = number.to_bytes(8, "little")
        with suppress(OSError):  # what it is about is on the disk
            os.lseek(self._handle, 0, os.SEEK_SET)
            os.write(self._handle, _MARK.pack(number, zlib.crc32(packed)))

    @staticmethod
    def read(path: Path) -> int:
        """Return the number beside a database, 0 if there is none. Read it before the database."""
        try:
            number, crc = _MARK.unpack(mark_path(path).read_bytes()[: _MARK.size])
        except (OSError, struct.error):
            return 0
        return int(number) if zlib.crc32(number.to_bytes(8, "little")) == crc else 0

    def close(self) -> None:
        """Close it."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)


def mark_path(path: Path) -> Path:
    """Return the path of the mark of a database."""
    return path.with_name(f"{path.name}-mark")


class Database:
    """A database in WAL mode: any number of readers do not wait for the writer.

    Parameters
    ----------
    path
        Of the file. It is made if it is not there, readable for its owner alone.
    migrations
        From an empty file to the newest version, in order. A file of an older version is brought
        up to date; one of a newer version is an error.
    synchronous
        ``"FULL"``: a transaction is on the disk once it is committed. ``"NORMAL"``: it is there
        after a kill, and after a power failure up to the last one that was synced. ``"OFF"``.
    """

    def __init__(self, path: Path, migrations: Sequence[Migration], *, synchronous: str) -> None:
        self.path = path
        self._synchronous = synchronous
        self._lock = threading.RLock()
        self._idle: list[sqlite3.Connection] = []
        self._closed = False
        with database_errors(path):
            _make(path)
            self._inode = path.stat().st_ino
            self._writer = sqlite3.connect(
                path, timeout=_WAIT_S, isolation_level=None, check_same_thread=False
            )
            try:
                # Must come first: it cannot be changed once the file has content.
                self._writer.execute("PRAGMA auto_vacuum=INCREMENTAL")
                self._writer.execute("PRAGMA journal_mode=WAL")
                self._writer.execute(f"PRAGMA journal_size_limit={64 << 20}")
                self._writer.execute(f"PRAGMA synchronous={synchronous}")
                self._migrate(migrations)
                self.mark = Mark(path)
            except BaseException:
                self._writer.close()
                raise

    def _migrate(self, migrations: Sequence[Migration]) -> None:
        writer = self._writer
        writer.execute("CREATE TABLE IF NOT EXISTS migrations (version INTEGER PRIMARY KEY)")
        (newest,) = writer.execute("SELECT coalesce(max(version), 0) FROM migrations").fetchone()
        if newest > len(migrations):
            raise StateError(
                f"{self.path}: expected at most version {len(migrations)}, found {newest}",
                hint="a newer newnormal wrote it: use that, or restore an older backup",
            )
        for version in range(newest + 1, len(migrations) + 1):
            with self.transaction(sync=True):
                for statement in migrations[version - 1]:
                    writer.execute(statement)
                writer.execute("INSERT INTO migrations VALUES (?)", (version,))

    @contextmanager
    def transaction(self, *, sync: bool = False) -> Iterator[sqlite3.Connection]:
        """Give the writer inside a transaction: all of it is written, or nothing.

        Threads wait for each other here. With `sync` it is on the disk once this returns.
        """
        with self._lock, database_errors(self.path):
            writer = self._writer
            self._check_there()
            if sync:
                writer.execute("PRAGMA synchronous=FULL")
            try:
                writer.execute("BEGIN IMMEDIATE")
                yield writer
                writer.execute("COMMIT")
            except BaseException:
                if writer.in_transaction:
                    with suppress(sqlite3.Error):
                        writer.execute("ROLLBACK")
                raise
            finally:
                if sync:
                    writer.execute(f"PRAGMA synchronous={self._synchronous}")

    def _check_there(self) -> None:
        """Raise a StateError if the file has gone: what is written to it would go with it."""
        try:
            there = self.path.stat().st_ino == self._inode
        except FileNotFoundError:
            there = False
        if not there:
            raise StateError(
                f"{self.path}: expected the file that was opened, found it removed or replaced",
                hint="stop the service and restore a backup",
            )

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Give a connection that reads what is committed, to one thread at a time."""
        with database_errors(self.path):
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = self._reader()
            try:
                yield connection
            except BaseException:
                connection.close()
                raise
            if self._closed or len(self._idle) >= _IDLE:
                connection.close()
            else:
                self._idle.append(connection)

    def _reader(self) -> sqlite3.Connection:
        if self._closed:
            raise StateError(f"expected {self.path} to be open, found it closed")
        connection = sqlite3.connect(
            self.path, timeout=_WAIT_S, isolation_level=None, check_same_thread=False
        )
        return _for_reading(connection)

    def give_back(self, most: int) -> None:
        """Make the file smaller by at most `most` pages, if many are no longer used."""
        with self._lock, database_errors(self.path):
            (free,) = self._writer.execute("PRAGMA freelist_count").fetchone()
            pages = min(most, free - _SPARE)
            if pages > 0:
                # `execute` would end it after the first page.
                self._writer.executescript(f"PRAGMA incremental_vacuum({pages})")

    @property
    def used(self) -> int:
        """Bytes of the pages that hold something."""
        with self._lock, database_errors(self.path):
            (pages,) = self._writer.execute("PRAGMA page_count").fetchone()
            (free,) = self._writer.execute("PRAGMA freelist_count").fetchone()
            (each,) = self._writer.execute("PRAGMA page_size").fetchone()
        return int((pages - free) * each)

    @property
    def size(self) -> int:
        """Bytes on the disk, with what is not yet moved from the WAL file into the database."""
        total = 0
        for path in (self.path, self.path.with_name(f"{self.path.name}-wal")):
            with suppress(FileNotFoundError):
                total += path.stat().st_size
        return total

    def close(self) -> None:
        """Close all connections; the WAL file is moved into the database."""
        with self._lock, database_errors(self.path):
            self._closed = True
            while self._idle:
                self._idle.pop().close()
            self._writer.close()
            self.mark.close()


def open_to_read(path: Path) -> sqlite3.Connection:
    """Open the database of a service that may be running, without changing anything in it."""
    if not path.is_file():
        raise StateError(f"expected a database, found no file {path}")
    with database_errors(path):
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=_WAIT_S, isolation_level=None
        )
        return _for_reading(connection)


def _for_reading(connection: sqlite3.Connection) -> sqlite3.Connection:
    connection.execute("PRAGMA query_only=1")
    # Damaged text is found by its checksum: it must not make the rows around it unreadable.
    connection.text_factory = lambda text: text.decode(errors="surrogateescape")
    return connection


@contextmanager
def database_errors(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and of the disk into a StateError that names the file."""
    try:
        yield
    except sqlite3.Error as error:
        raise _in_words(path, error) from error
    except OSError as error:
        raise StateError(
            f"cannot write {path}: {error.strerror}",
            hint="choose a folder that exists and can be written to",
        ) from error


def _in_words(path: Path, error: sqlite3.Error) -> StateError:
    name = getattr(error, "sqlite_errorname", "") or ""
    if name == "SQLITE_FULL":
        return StateError(
            f"cannot write {path}: the disk is full",
            hint="make room; nothing is lost, and writing goes on once there is room",
        )
    # SQLITE_ERROR: a table or a column is not there under its name.
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR")):
        return StateError(
            f"{path}: expected a database of newnormal, found damage: {error}", hint=_RESTORE
        )
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return StateError(
            f"cannot write {path}: another process has held it for {_WAIT_S:.0f} s",
            hint="only one service can use a folder",
        )
    return StateError(
        f"cannot use {path}: {error}{f' ({name})' if name else ''}",
        hint="see whether the disk is there, has room, and can be written to",
    )


def _make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        raise StateError(f"{path}: expected a database, found a folder", hint=_RESTORE)
    with suppress(FileExistsError):
        # SQLite gives its other files the mode of this one.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        sync_folder(path.parent)
