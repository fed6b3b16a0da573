"""What happened, in order."""

import json

from newnormal.errors import InputError
from newnormal.service.store.connection import StoreConnection, sealed, stored_integer
from newnormal.service.values import EventRow

_COLUMNS = "position, ordinal, kind, time, stream, item, body, crc"


class EventTable:
    """The events of the store."""

    def __init__(self, connection: StoreConnection) -> None:
        self._connection = connection

    def put(self, event: EventRow) -> None:
        """Write an event, unless it is there."""
        body = json.dumps(dict(event.body), separators=(",", ":"))
        self._connection.write(
            f"INSERT OR IGNORE INTO events ({_COLUMNS}, written)"  # noqa: S608 - columns
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            *sealed((*event[:6], body)),
            self._connection.clock(),
        )

    def read(
        self, *, after: str | None = None, stream: int | None = None, limit: int = 100
    ) -> list[EventRow]:
        """Return committed events in order, those behind `after`, which is `EventRow.id`."""
        position, ordinal = (0, -1) if after is None else _parsed(after)
        conditions = "(position, ordinal) > (?, ?)" + ("" if stream is None else " AND stream = ?")
        statement = (
            f"SELECT {_COLUMNS} FROM events WHERE {conditions}"  # noqa: S608
            " ORDER BY position, ordinal LIMIT ?"
        )
        events: list[EventRow] = []
        more = True
        while more:  # damaged ones are left out
            wanted = limit - len(events)
            values = (position, ordinal, *(() if stream is None else (stream,)), wanted)
            rows = self._connection.fetch(statement, values)
            intact = self._connection.intact("events", rows)
            events += [EventRow._make((*row[:6], json.loads(row[6]))) for row in intact]
            more = len(rows) == wanted and len(events) < limit
            position, ordinal = rows[-1][:2] if rows else (position, ordinal)
        return events


def _parsed(text: str) -> tuple[int, int]:
    position, _, ordinal = text.partition("-")
    try:
        return stored_integer(position), stored_integer(ordinal)
    except ValueError as error:
        raise InputError(
            f"after: expected the id of an event such as '12-0', found {text!r}",
            hint="leave it out to begin with the oldest",
        ) from error
