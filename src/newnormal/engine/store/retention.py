"""Remove what is older than it has to be, or what does not fit."""

import sqlite3
from collections.abc import Mapping
from typing import NamedTuple

from newnormal.engine.database import Database
from newnormal.engine.store.levels import BLOCK, covers
from newnormal.engine.store.store import Store

_NEWEST = (
    "SELECT number, count FROM blocks WHERE stream = ? AND level = ? ORDER BY number DESC LIMIT 1"
)
_OLDEST = "SELECT min(number) FROM blocks WHERE stream = ? AND level = 0"
_PIECE = 500  # rows that one transaction deletes, so that other writers do not wait long
_PAGES = 2_000  # that a call gives back to the disk

# What deletes at most so many rows that ended before a time; the last statement's are counted.
_CLOSED = (
    "(SELECT key FROM items WHERE NOT open AND updated < :before AND written < :before"
    " ORDER BY updated, key LIMIT :most)"
)
_OLD = (
    (
        f"DELETE FROM comments WHERE item IN {_CLOSED}",  # noqa: S608 - a constant
        f"DELETE FROM items WHERE key IN {_CLOSED}",  # noqa: S608
    ),
    (
        "DELETE FROM events WHERE (position, ordinal) IN"
        " (SELECT position, ordinal FROM events WHERE time < :before AND written < :before"
        " ORDER BY position, ordinal LIMIT :most)",
    ),
    (
        "DELETE FROM alerts WHERE id IN"
        " (SELECT id FROM alerts WHERE delivered < :before"
        " AND item NOT IN (SELECT key FROM items WHERE open)"  # the one that resolves it asks
        " ORDER BY id LIMIT :most)",
    ),
)


_Needed = int | Mapping[int, int]


class RetentionCounts(NamedTuple):
    """How much `apply_retention` removed."""

    # How many of each.
    blocks: int = 0
    items: int = 0
    events: int = 0
    alerts: int = 0
    more: bool = False  # whether there is more to remove: call it again


def apply_retention(
    store: Store,
    *,
    now: int,
    age_ns: Mapping[int, int],
    size: int | None = None,
    needed: _Needed = 0,
    items_age_ns: int | None = None,
    most: int = 2_000,
) -> RetentionCounts:
    """Remove samples, closed items, events and delivered alerts that are too old.

    It never removes open items, alerts that wait, the newest `needed` samples of a stream, what
    a recovery may go back to, points of samples that are kept, nor the newest block of any
    level. It takes effect at once, without `commit`.

    Parameters
    ----------
    store
        Of the service.
    now
        The time in ns.
    age_ns
        How long to keep samples (level 0) and points of 8, 64, ... samples (levels 1, 2, ...).
        A level that is not in it is kept as long as the one below it; without level 0, samples
        are kept without end. A level is kept at least as long as the one below it.
    size
        How many bytes the store may have. The oldest samples go first, then the oldest points.
    needed
        How many samples of each stream to keep, whatever their age and size; one number, or
        one a stream (for others: all).
    items_age_ns
        How long to keep closed items with their comments, events, and delivered alerts. The
        age of an item or event is that of its sample, or since it was written if that is less:
        samples may be years old when they come.
    most
        At most so many blocks, items, events and alerts each in a call.
    """
    database = store.connection.database
    blocks = _delete_old_blocks(store, now, age_ns, needed, most)
    if size is not None and blocks < most:
        blocks += _delete_until_it_fits(store, size, needed, most - blocks)
    items = events = alerts = 0
    if items_age_ns is not None:
        before = now - items_age_ns
        items, events, alerts = (_delete(database, kind, before, most) for kind in _OLD)
    if blocks or items or events or alerts:
        database.give_back(_PAGES)
    more = max(blocks, items, events, alerts) >= most
    return RetentionCounts(blocks, items, events, alerts, more)


def _delete_old_blocks(
    store: Store, now: int, age_ns: Mapping[int, int], needed: _Needed, most: int
) -> int:
    if 0 not in age_ns:
        return 0
    database = store.connection.database
    deleted = 0
    for of_points in (False, True):  # samples first: which points stay follows from them
        old: list[int] = []
        with database.reading() as reader:
            for stream, level in _levels(reader):
                if (level > 0) is not of_points:
                    continue
                before = now - max(age for finer, age in age_ns.items() if finer <= level)
                first = _first_needed(store, reader, stream, level, needed)
                rows = reader.execute(
                    "SELECT rowid FROM blocks WHERE stream = ? AND level = ? AND begin < ?"
                    " AND end < ? AND number < ? ORDER BY begin LIMIT ?",
                    (stream, level, before, before, first, most - deleted - len(old)),
                )
                old += (rowid for (rowid,) in rows.fetchall())
                if deleted + len(old) >= most:
                    break
        deleted += _delete_blocks(database, old)
    return deleted


def _delete_until_it_fits(store: Store, size: int, needed: _Needed, most: int) -> int:
    """Delete the oldest blocks of the finest level that has any, until the rest fits."""
    database = store.connection.database
    excess, level, deleted = database.used - size, 0, 0
    while excess > 0 and deleted < most:
        with database.reading() as reader:
            streams = [stream for stream, stored in _levels(reader) if stored == level]
            if not streams:
                break
            rows: list[tuple[int, int, int]] = []
            for stream in streams:
                first = _first_needed(store, reader, stream, level, needed)
                # Oldest first in each stream, so no more than `most` of one can be needed.
                rows += reader.execute(
                    "SELECT end, length(data), rowid FROM blocks"
                    " WHERE stream = ? AND level = ? AND number < ? ORDER BY number LIMIT ?",
                    (stream, level, first, most - deleted),
                ).fetchall()
        oldest = []
        for _, length, rowid in sorted(rows)[: most - deleted]:
            if excess <= 0:
                break
            oldest.append(rowid)
            excess -= length
        deleted += _delete_blocks(database, oldest)
        excess = database.used - size
        level += 1
    return deleted


def _first_needed(
    store: Store, reader: sqlite3.Connection, stream: int, level: int, needed: _Needed
) -> int:
    """Return the number of the first block that must stay: newest, not full, or needed.

    Where samples are replaced from a number on, as by a fit that is taken over, the blocks of
    all levels that have it are needed. It is one that is kept, so points are kept with samples.
    """
    keep = needed if isinstance(needed, int) else needed.get(stream)
    newest = reader.execute(_NEWEST, (stream, level)).fetchone()
    samples = reader.execute(_NEWEST, (stream, 0)).fetchone()
    if keep is None or newest is None or samples is None:
        return 0
    # Only what is committed counts; there may be newer samples in memory.
    first = min(samples[0] * BLOCK + samples[1] - keep, store.samples.replaced_from(stream) - 1)
    if level:
        (oldest,) = reader.execute(_OLDEST, (stream,)).fetchone()
        first = min(first, oldest * BLOCK)
    return int(max(0, min(newest[0], first // covers(level))))


def _delete_blocks(database: Database, rowids: list[int]) -> int:
    for begin in range(0, len(rowids), _PIECE):
        with database.transaction() as writer:
            writer.executemany(
                "DELETE FROM blocks WHERE rowid = ?",
                [(rowid,) for rowid in rowids[begin : begin + _PIECE]],
            )
    return len(rowids)


def _levels(reader: sqlite3.Connection) -> list[tuple[int, int]]:
    """Return streams and their levels, without reading all blocks: by steps over the index."""
    return reader.execute(
        "WITH RECURSIVE steps (stream, level) AS ("
        " SELECT * FROM (SELECT stream, level FROM blocks ORDER BY stream, level LIMIT 1)"
        " UNION ALL SELECT"
        " (SELECT b.stream FROM blocks AS b WHERE (b.stream, b.level) > (s.stream, s.level)"
        "  ORDER BY b.stream, b.level LIMIT 1),"
        " (SELECT b.level FROM blocks AS b WHERE (b.stream, b.level) > (s.stream, s.level)"
        "  ORDER BY b.stream, b.level LIMIT 1)"
        " FROM steps AS s WHERE s.stream IS NOT NULL)"
        " SELECT stream, level FROM steps WHERE stream IS NOT NULL"
    ).fetchall()


def _delete(database: Database, statements: tuple[str, ...], before: int, most: int) -> int:
    deleted = 0
    while deleted < most:
        piece = min(_PIECE, most - deleted)
        with database.transaction() as writer:
            for statement in statements:
                values = {"before": before, "most": piece}
                count = writer.execute(statement, values).rowcount
        deleted += count
        if count < piece:
            break
    return deleted
