"""Go on with what is left where the end of the log or of the store is missing."""

from pathlib import Path

from newnormal.engine.database import mark_path
from newnormal.engine.log.entries import PositionsLost, pack, unpack
from newnormal.engine.log.sqlite_log import SqliteLog
from newnormal.engine.store import Store
from newnormal.engine.store.checking import FLEET, LOG, STORE
from newnormal.errors import StateError
from newnormal.fleet.folder.lock import FolderLock
from newnormal.fleet.folder.manifest import read_manifest


def repair(folder: Path) -> list[str]:
    """Continue a log that has lost its end behind all that is known; return what is lost.

    No position, and no key of an item or alert, is given out again. The service must be stopped;
    its next start does the rest.
    """
    lock = FolderLock(folder).acquire()
    try:
        there = (folder / FLEET).is_dir() and any((folder / FLEET).iterdir())
        position = read_manifest(folder / FLEET).position if there else 0
        store, lost = _store(folder / STORE)
        try:
            if position and store.checkpoint(position) is None:
                raise StateError(
                    f"{folder}: expected the state of the service at position {position}, where "
                    "its detectors are, found none",
                    hint="restore a backup",
                )
            return lost + _repair_log(folder / LOG, store, position)
        finally:
            store.close()
    finally:
        lock.release()


def _store(path: Path) -> tuple[Store, list[str]]:
    try:
        return Store(path), []
    except StateError:
        mark_path(path).unlink(missing_ok=True)
        lost = "the newest comments, tokens and settings, and which alerts were delivered"
        return Store(path), [f"{path}: lost are {lost}"]


def _repair_log(path: Path, store: Store, position: int) -> list[str]:
    try:
        log = SqliteLog(path)
    except StateError:
        for damaged in sorted(path.parent.glob(f"{path.name}*")):
            if damaged != mark_path(path):
                damaged.replace(damaged.with_name(f"damaged-{damaged.name}"))
        log = SqliteLog(path)
    try:
        known = max(position, log.last, log.marked, store.connection.position)
        last = _readable(log, position)
        if last == known:
            return []
        log.give_up(last, known, pack([]))
        log.append(pack([_lost(store, last + 1)]))
        return [f"{path}: lost are the records {last + 1} to {known}, with the samples in them"]
    finally:
        log.close()


def _readable(log: SqliteLog, position: int) -> int:
    """Return the last position that can be read from a position on."""
    try:
        for number, record in log.read(position):
            unpack(record)
            position = number
    except StateError:
        pass
    return position


def _lost(store: Store, first: int) -> PositionsLost:
    """Return the highest numbers that the store has: some are of records that are lost."""
    (streams,) = store.connection.fetch(
        "SELECT max(stream) FROM (SELECT stream FROM events UNION ALL SELECT stream FROM items"
        " UNION ALL SELECT stream FROM blocks)"
    )[0]
    keys = store.connection.fetch("SELECT key FROM items")
    numbers = [part for (key,) in keys for part in key.split("-") if part.isdecimal()]
    return PositionsLost(first, streams or 0, max(map(int, numbers), default=0))
