"""Items of the inbox, and what people wrote about them."""

import json
import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from newnormal.engine.store.connection import (
    StoreConnection,
    inserted,
    sealed,
    selected,
    stored_integer,
)
from newnormal.engine.values import Comment, Item, ItemPage
from newnormal.errors import InputError

_NAMES = tuple(field.name for field in fields(Item))
_UPDATED = _NAMES.index("updated")


class ItemTable:
    """Items and comments of the store."""

    def __init__(self, connection: StoreConnection) -> None:
        self._connection = connection
        self._unwritten: dict[str, Item] = {}

    def put(self, item: Item) -> None:
        """Write an item, in the place of the one of this key; its comments stay."""
        self._unwritten[item.key] = item
        # SQLite has no NaN: it becomes NULL.
        ratio = None if math.isnan(item.ratio) else float(item.ratio)
        body = json.dumps(dict(item.body), separators=(",", ":"))
        self._connection.write(
            inserted("items", "open", "written", verb="INSERT OR REPLACE"),
            *sealed((*{**vars(item), "ratio": ratio, "body": body}.values(),)),
            item.open,
            self._connection.clock(),
        )

    def committed(self) -> None:
        """Forget copies in memory of what is now in the database."""
        self._unwritten = {}

    def get(self, key: str) -> Item | None:
        """Return an item, also one that is not yet committed."""
        item = self._unwritten.get(key)
        if item is None:
            item = next(map(_item, self._connection.rows("items", "WHERE key = ?", key)), None)
        return None if item is None or item.stream in self._connection.hidden else item

    def page(
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
        if self._connection.hidden:
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
        where = f"WHERE {' AND '.join(conditions)} ORDER BY updated DESC, key LIMIT ?"
        rows = self._connection.fetch(f"{selected('items')} {where}", (*values, limit + 1))
        items = tuple(map(_item, self._connection.intact("items", rows[:limit])))
        last = rows[limit - 1] if len(rows) > limit else None
        return ItemPage(items, last and f"{last[_UPDATED]}~{last[0]}")

    def add_comment(self, comment: Comment) -> None:
        """Write a comment; it is on the disk once this returns. Any thread may call it."""
        with self._connection.transaction() as writer:
            row = comment.item, comment.time, comment.who, comment.text
            writer.execute(inserted("comments"), sealed(row))

    def comments(self, key: str) -> list[Comment]:
        """Return what people wrote about an item, oldest first."""
        rows = self._connection.rows("comments", "WHERE item = ? ORDER BY time, id", key)
        return [Comment(*row) for row in rows]


def _item(row: tuple[Any, ...]) -> Item:
    values = dict(zip(_NAMES, row, strict=True))
    values["body"] = json.loads(values["body"])
    if values["ratio"] is None:
        values["ratio"] = math.nan
    return Item(**values)


def _cursor(text: str) -> tuple[int, str]:
    updated, _, key = text.partition("~")
    try:
        return stored_integer(updated), key
    except ValueError as error:
        raise InputError(
            f"cursor: expected one that a list gave, found {text!r}",
            hint="leave it out to begin with the newest",
        ) from error
