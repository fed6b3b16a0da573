"""Items of the inbox, what people wrote about them, and what happened."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from newnormal.errors import InputError
from newnormal.service.database import Database
from newnormal.service.store.tables import Tables
from newnormal.service.values import Comment, EventRow, Item, ItemPage

_COLUMNS = (
    "key, kind, stream, generation, number, state, opened, updated, ended, ratio, sentence, body,"
    " position"
)
_EVENT = "position, place, kind, time, stream, item, body"


class Items(Tables):
    """Items, comments and events of the store."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._unwritten: dict[str, Item] = {}
        self._hidden: frozenset[int] = frozenset()

    # ------------------------------------------------------------------ items

    def put_item(self, item: Item) -> None:
        """Write an item, in the place of the one of this key; its comments stay."""
        self._unwritten[item.key] = item
        self._write(
            f"INSERT OR REPLACE INTO items ({_COLUMNS}, open, written)"  # noqa: S608 - columns
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            item.key,
            item.kind,
            item.stream,
            item.generation,
            item.number,
            item.state,
            item.opened,
            item.updated,
            item.ended,
            item.ratio,  # SQLite has no NaN: it becomes NULL
            item.sentence,
            json.dumps(dict(item.body), separators=(",", ":")),
            item.position,
            item.open,
            self._clock(),
        )

    def _committed(self) -> None:
        super()._committed()
        self._unwritten = {}

    def item(self, key: str) -> Item | None:
        """Return an item, also one that is not yet committed."""
        found = self._unwritten.get(key)
        if found is None:
            found = self._read_item(key)
        return None if found is None or found.stream in self._hidden else found

    def _read_item(self, key: str) -> Item | None:
        with self._database.reading() as reader:
            row = reader.execute(
                f"SELECT {_COLUMNS} FROM items WHERE key = ?",  # noqa: S608
                (key,),
            ).fetchone()
        return None if row is None else _item(row)

    def items(
        self,
        *,
        kinds: Sequence[str] | None = None,
        states: Sequence[str] | None = None,
        stream: int | None = None,
        open_only: bool = False,
        begin: int | None = None,
        end: int | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> ItemPage:
        """Return items that are committed, those first that were updated last.

        Parameters
        ----------
        kinds, states, stream
            Only these.
        open_only
            Only those that still concern anybody.
        begin, end
            Only those that were open at some time in between, in ns.
        cursor
            Of the page before; None: from the newest on.
        limit
            At most so many.
        """
        conditions, values = ["1"], list[Any]()
        for column, wanted in (("kind", kinds), ("state", states)):
            if wanted is not None:
                conditions.append(f"{column} IN ({', '.join('?' * len(wanted))})")
                values += wanted
        if stream is not None:
            conditions.append("stream = ?")
            values.append(stream)
        if open_only:
            conditions.append("open")
        if self._hidden:
            conditions.append("(stream IS NULL OR stream NOT IN (SELECT stream FROM forgotten))")
        if begin is not None:
            conditions.append("coalesce(ended, CASE WHEN open THEN ? ELSE updated END) >= ?")
            values += (begin, begin)
        if end is not None:
            conditions.append("opened <= ?")
            values.append(end)
        if cursor is not None:
            updated, key = _cursor(cursor)
            conditions.append("(updated < ? OR (updated = ? AND key > ?))")
            values += (updated, updated, key)
        statement = (
            f"SELECT {_COLUMNS} FROM items WHERE {' AND '.join(conditions)}"  # noqa: S608
            " ORDER BY updated DESC, key LIMIT ?"
        )
        with self._database.reading() as reader:
            rows = reader.execute(statement, (*values, limit + 1)).fetchall()
        found = tuple(_item(row) for row in rows[:limit])
        more = len(rows) > limit and found
        return ItemPage(found, f"{found[-1].updated}~{found[-1].key}" if more else None)

    def _hide(self, streams: set[int]) -> None:
        """Do not give the items of streams that were removed."""
        self._hidden = frozenset(streams)

    # ------------------------------------------------------------------ comments

    def comment(self, comment: Comment) -> None:
        """Write a comment; it is on the disk once this returns. Any thread may call it."""
        with self._database.transaction(sync=True) as writer:
            writer.execute(
                "INSERT INTO comments (item, time, who, text) VALUES (?, ?, ?, ?)",
                (comment.item, comment.time, comment.who, comment.text),
            )

    def comments(self, key: str) -> list[Comment]:
        """Return what people wrote about an item, oldest first."""
        with self._database.reading() as reader:
            rows = reader.execute(
                "SELECT item, time, who, text FROM comments WHERE item = ? ORDER BY time, id",
                (key,),
            ).fetchall()
        return [Comment(*row) for row in rows]

    # ------------------------------------------------------------------ events

    def put_event(self, event: EventRow) -> None:
        """Write an event, unless it is there."""
        body = json.dumps(dict(event.body), separators=(",", ":"))
        self._write(
            f"INSERT OR IGNORE INTO events ({_EVENT}, written)"  # noqa: S608 - columns
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            *event[:6],
            body,
            self._clock(),
        )

    def events(
        self, *, after: str | None = None, stream: int | None = None, limit: int = 100
    ) -> list[EventRow]:
        """Return committed events in order, those behind `after`, which is `EventRow.id`."""
        position, place = (0, -1) if after is None else _event_id(after)
        conditions, values = "(position, place) > (?, ?)", [position, place]
        if stream is not None:
            conditions += " AND stream = ?"
            values.append(stream)
        with self._database.reading() as reader:
            rows = reader.execute(
                f"SELECT {_EVENT} FROM events WHERE {conditions}"  # noqa: S608
                " ORDER BY position, place LIMIT ?",
                (*values, limit),
            ).fetchall()
        return [EventRow._make((*row[:6], json.loads(row[6]))) for row in rows]

    @property
    def newest_event(self) -> str:
        """The id of the newest event that is committed; ``"0-0"`` before the first."""
        with self._database.reading() as reader:
            row = reader.execute(
                "SELECT position, place FROM events ORDER BY position DESC, place DESC LIMIT 1"
            ).fetchone()
        return "0-0" if row is None else f"{row[0]}-{row[1]}"


def _item(row: tuple[Any, ...]) -> Item:
    names = [each.name for each in fields(Item)]
    found = dict(zip(names, row, strict=True))
    found["body"] = json.loads(found["body"])
    if found["ratio"] is None:
        found["ratio"] = math.nan
    return Item(**found)


def _cursor(text: str) -> tuple[int, str]:
    updated, _, key = text.partition("~")
    try:
        return _number(updated), key
    except ValueError as error:
        raise InputError(
            f"cursor: expected one that a list gave, found {text!r}",
            hint="leave it out to begin with the newest",
        ) from error


def _event_id(text: str) -> tuple[int, int]:
    position, _, place = text.partition("-")
    try:
        return _number(position), _number(place)
    except ValueError as error:
        raise InputError(
            f"after: expected the id of an event such as '12-0', found {text!r}",
            hint="leave it out to begin with the oldest",
        ) from error


def _number(text: str) -> int:
    """Return an integer that SQLite can hold."""
    found = int(text)
    if abs(found) >= 1 << 63:
        raise ValueError(text)
    return found
