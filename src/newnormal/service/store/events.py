"""What happened, in order."""

import json

from newnormal.errors import InputError
from newnormal.service.store.connection import StoreConnection, stored_integer
from newnormal.service.values import EventRow

_COLUMNS = "position, ordinal, kind, time, stream, item, body"


class EventTable:
    """The events of the store."""

    def __init__(self, connection: StoreConnection) -> None:
        self._connection = connection

    def put(self, event: EventRow) -> None:
        """Write an event, unless it is there."""
        body = json.dumps(dict(event.body), separators=(",", ":"))
        self._connection.write(
            f"INSERT OR IGNORE INTO events ({_COLUMNS}, written)"  # noqa: S608 - columns
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            *event[:6],
            body,
            self._connection.clock(),
        )

    def read(
        self, *, after: str | None = None, stream: int | None = None, limit: int = 100
    ) -> list[EventRow]:
        """Return committed events in order, those behind `after`, which is `EventRow.id`."""
        position, ordinal = (0, -1) if after is None else _parsed(after)
        conditions, values = "(position, ordinal) > (?, ?)", [position, ordinal]
        if stream is not None:
            conditions += " AND stream = ?"
            values.append(stream)
        rows = self._connection.fetch(
            f"SELECT {_COLUMNS} FROM events WHERE {conditions}"  # noqa: S608
            " ORDER BY position, ordinal LIMIT ?",
            (*values, limit),
        )
        return [EventRow._make((*row[:6], json.loads(row[6]))) for row in rows]


def _parsed(text: str) -> tuple[int, int]:
    position, _, ordinal = text.partition("-")
    try:
        return stored_integer(position), stored_integer(ordinal)
    except ValueError as error:
        raise InputError(
            f"after: expected the id of an event such as '12-0', found {text!r}",
            hint="leave it out to begin with the oldest",
        ) from error
