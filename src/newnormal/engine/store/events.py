"""What happened, in order."""

import json

from newnormal.engine.store.connection import (
    StoreConnection,
    inserted,
    sealed,
    selected,
    stored_integer,
)
from newnormal.engine.values import EventRow
from newnormal.errors import InputError


class EventTable:
    """The events of the store."""

    def __init__(self, connection: StoreConnection) -> None:
        self._connection = connection

    def put(self, event: EventRow) -> None:
        """Write an event, unless it is there."""
        body = json.dumps(dict(event.body), separators=(",", ":"))
        self._connection.write(
            inserted("events", "written"), *sealed((*event[:6], body)), self._connection.clock()
        )

    def read(
        self, *, after: str | None = None, stream: int | None = None, limit: int = 100
    ) -> list[EventRow]:
        """Return committed events in order, those behind `after`, which is `EventRow.id`."""
        position, ordinal = (0, -1) if after is None else _parsed(after)
        where = "WHERE (position, ordinal) > (?, ?)" + ("" if stream is None else " AND stream = ?")
        query = f"{selected('events')} {where} ORDER BY position, ordinal LIMIT ?"
        given = () if stream is None else (stream,)
        events: list[EventRow] = []
        while len(events) < limit:  # others in the place of damaged ones
            wanted = limit - len(events)
            rows = self._connection.fetch(query, (position, ordinal, *given, wanted))
            intact = self._connection.intact("events", rows)
            events += [EventRow._make((*row[:6], json.loads(row[6]))) for row in intact]
            if len(rows) < wanted:
                break
            position, ordinal = rows[-1][:2]
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
