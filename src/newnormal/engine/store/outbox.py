"""Alerts that are to be delivered, each to a sink, and how far that is."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from newnormal.engine.store.connection import (
    StoreConnection,
    inserted,
    is_intact,
    sealed,
    selected,
)
from newnormal.engine.values import HELD

# No attempt is put off for longer: what is due later was marked before the clock was set back.
_LONGEST_WAIT = 3_600 * 10**9
_LAST = 2**63 - 1
_WITH_NUMBER = selected("alerts").replace("SELECT", "SELECT id,", 1)
_DAMAGED = "it is damaged"


class AlertRow(NamedTuple):
    """An alert for one sink."""

    id: int  # increases in the order in which alerts were made
    key: str  # the same for every attempt, and after a recovery
    sink: str  # the name of the sink
    body: Mapping[str, Any]  # what is sent, as JSON values
    created: int  # when it was written to the outbox, in ns by the clock
    # When it was delivered, or marked as not to be sent, in ns; None while it waits.
    delivered: int | None = None
    # How often it was tried, when it is due again in ns, and why the last attempt failed.
    attempts: int = 0
    next_try: int = 0
    error: str = ""


class Outbox:
    """The outbox of the store."""

    def __init__(self, connection: StoreConnection) -> None:
        self._connection = connection

    def put(self, key: str, sink: str, body: Mapping[str, Any]) -> None:
        """Write an alert, unless it is there, delivered or not."""
        text = json.dumps(dict(body), separators=(",", ":"))
        row = (key, sink, text, self._connection.clock(), None, 0, 0, "")
        item = key.rpartition(":")[0]
        self._connection.write(inserted("alerts", "item"), *sealed(row), item)

    def due(self, sink: str, now: int, limit: int) -> list[AlertRow]:
        """Return alerts to deliver now, oldest first; of an item, one after the other."""
        rows = self._connection.fetch(
            f"{_WITH_NUMBER} AS a"  # noqa: S608 - names of columns
            " WHERE sink = ? AND delivered IS NULL AND (next_try <= ? OR next_try > ?)"
            " AND NOT EXISTS (SELECT 1 FROM alerts AS b WHERE b.delivered IS NULL"
            " AND b.sink = a.sink AND b.item = a.item AND b.id < a.id)"
            " ORDER BY id LIMIT ?",
            (sink, now, min(now + _LONGEST_WAIT, _LAST), limit),
        )
        alerts = self._alerts(rows)
        lost = {row[0] for row in rows} - {alert.id for alert in alerts}
        if lost:  # others of the same item wait for them
            with self._connection.database.transaction() as writer:
                writer.executemany(
                    "UPDATE alerts SET delivered = ?, error = ? WHERE id = ?",
                    [(now, _DAMAGED, number) for number in lost],
                )
        return alerts

    def get(self, key: str, sink: str) -> AlertRow | None:
        """Return an alert, None if there is none of that key for this sink."""
        rows = self._connection.fetch(f"{_WITH_NUMBER} WHERE key = ? AND sink = ?", (key, sink))
        return next(iter(self._alerts(rows)), None)

    def mark(
        self,
        key: str,
        sink: str,
        *,
        delivered: int | None = None,
        attempts: int,
        next_try: int,
        error: str = "",
    ) -> None:
        """Write how far the delivery of an alert is. Any thread may call it."""
        with self._connection.database.transaction() as writer:
            query = f"{selected('alerts')} WHERE key = ? AND sink = ?"
            for row in filter(is_intact, writer.execute(query, (key, sink)).fetchall()):
                now = sealed((*row[:4], delivered, attempts, next_try, error))
                writer.execute(
                    "UPDATE alerts SET delivered = ?, attempts = ?, next_try = ?, error = ?,"
                    " crc = ? WHERE key = ? AND sink = ?",
                    (*now[4:], key, sink),
                )

    def all(self) -> list[AlertRow]:
        """Return all alerts, in the order in which they were made."""
        return self._alerts(self._connection.fetch(f"{_WITH_NUMBER} ORDER BY id"))

    def counts(self) -> dict[str, dict[str, int]]:
        """Return, for each sink, how many alerts wait, were delivered, and have failed so far.

        `failing` are those of `waiting` that were tried; `held` wait for the end of a maintenance
        window and are not in `waiting`; `unsent` those that were marked as not to be sent, which is
        not counted as delivered; `oldest` is when the oldest one that waits was made, in ns; 0 if
        none waits.
        """
        rows = self._connection.fetch(
            "SELECT sink, sum(waits AND NOT held), sum(NOT waits AND error = ''),"
            " sum(waits AND NOT held AND attempts > 0), sum(waits AND held),"
            " sum(NOT waits AND error != ''),"
            " coalesce(min(CASE WHEN waits AND NOT held THEN created END), 0)"
            " FROM (SELECT sink, delivered IS NULL AS waits, error, attempts, created,"
            " substr(error, 1, ?) = ? AS held FROM alerts) GROUP BY sink",
            (len(HELD), HELD),
        )
        names = ("waiting", "delivered", "failing", "held", "unsent", "oldest")
        return {sink: dict(zip(names, counts, strict=True)) for sink, *counts in rows}

    def _alerts(self, rows: Sequence[Any]) -> list[AlertRow]:
        """Return rows as alerts; the number of one is not in its digest."""
        numbers = {row[1:-1]: row[0] for row in rows}
        intact = self._connection.intact("alerts", [row[1:] for row in rows])
        parts = [(numbers[row], *row[:2], json.loads(row[2]), *row[3:]) for row in intact]
        return [*map(AlertRow._make, parts)]
