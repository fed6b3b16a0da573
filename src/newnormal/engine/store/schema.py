"""The tables of the store."""

import zlib

from newnormal.engine.database import Migration

# Each makes a version from the one before it. One that was released is never changed: add another
# behind it.
MIGRATIONS: tuple[Migration, ...] = (
    (
        # Level 0: samples; above: points. `count`: rows of the block. `begin`, `end`: times of the
        # first and the last of them.
        "CREATE TABLE blocks (stream INTEGER NOT NULL, level INTEGER NOT NULL,"
        " number INTEGER NOT NULL, count INTEGER NOT NULL, begin INTEGER NOT NULL,"
        " end INTEGER NOT NULL, crc INTEGER NOT NULL, data BLOB NOT NULL)",
        "CREATE UNIQUE INDEX blocks_by_number ON blocks (stream, level, number)",
        "CREATE INDEX blocks_by_time ON blocks (stream, level, begin, end, number)",
        # Blocks that were replaced after the checkpoint at the position `after`.
        "CREATE TABLE undo (stream INTEGER NOT NULL, level INTEGER NOT NULL,"
        " number INTEGER NOT NULL, count INTEGER NOT NULL, begin INTEGER NOT NULL,"
        " end INTEGER NOT NULL, crc INTEGER NOT NULL, data BLOB NOT NULL,"
        " after INTEGER NOT NULL)",
        "CREATE UNIQUE INDEX undo_once ON undo (after, stream, level, number)",
        # Streams that were removed after that checkpoint.
        "CREATE TABLE forgotten (stream INTEGER PRIMARY KEY, after INTEGER NOT NULL)",
        # `written`: by the clock in ns; retention alone looks at it.
        # `crc`: of the row, without `open` and `written`.
        "CREATE TABLE items (key TEXT PRIMARY KEY, kind TEXT NOT NULL, stream INTEGER,"
        " generation INTEGER NOT NULL, number INTEGER NOT NULL, state TEXT NOT NULL,"
        " open INTEGER NOT NULL, opened INTEGER NOT NULL, updated INTEGER NOT NULL,"
        " ended INTEGER, ratio REAL, sentence TEXT NOT NULL, body TEXT NOT NULL,"
        " position INTEGER NOT NULL, crc INTEGER NOT NULL, written INTEGER NOT NULL)"
        " WITHOUT ROWID",
        "CREATE INDEX items_by_time ON items (updated DESC, key)",
        "CREATE INDEX items_open ON items (updated DESC, key) WHERE open",
        "CREATE INDEX items_of_stream ON items (stream, updated DESC, key)",
        "CREATE TABLE events (position INTEGER NOT NULL, ordinal INTEGER NOT NULL,"
        " kind TEXT NOT NULL, time INTEGER NOT NULL, stream INTEGER, item TEXT,"
        " body TEXT NOT NULL, crc INTEGER NOT NULL, written INTEGER NOT NULL,"
        " PRIMARY KEY (position, ordinal))"
        " WITHOUT ROWID",
        "CREATE INDEX events_of_stream ON events (stream, position, ordinal)",
        "CREATE TABLE comments (id INTEGER PRIMARY KEY, item TEXT NOT NULL, time INTEGER NOT NULL,"
        " who TEXT NOT NULL, text TEXT NOT NULL, crc INTEGER NOT NULL)",
        "CREATE INDEX comments_of_item ON comments (item, time, id)",
        # `item`: the key up to the last colon; of one item, alerts are due one after the other.
        "CREATE TABLE alerts (id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL,"
        " sink TEXT NOT NULL, item TEXT NOT NULL, body TEXT NOT NULL, created INTEGER NOT NULL,"
        " delivered INTEGER, attempts INTEGER NOT NULL DEFAULT 0,"
        " next_try INTEGER NOT NULL DEFAULT 0, error TEXT NOT NULL DEFAULT '',"
        " crc INTEGER NOT NULL, UNIQUE (key, sink))",
        "CREATE INDEX alerts_waiting ON alerts (sink, id) WHERE delivered IS NULL",
        "CREATE TABLE settings (space TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL,"
        " crc INTEGER NOT NULL, PRIMARY KEY (space, name)) WITHOUT ROWID",
        "CREATE TABLE checkpoints (position INTEGER PRIMARY KEY, crc INTEGER NOT NULL,"
        " state BLOB NOT NULL)",
        # How often it was synced, and the position of the newest record that was applied. Each
        # commit writes the row: a transaction that writes nothing is not synced.
        "CREATE TABLE reached (one INTEGER PRIMARY KEY CHECK (one = 1), times INTEGER NOT NULL,"
        " position INTEGER NOT NULL, crc INTEGER NOT NULL)",
        f"INSERT INTO reached VALUES (1, 0, 0, {zlib.crc32(b'[0, 0]')})",  # noqa: S608
    ),
)
