"""Alerts that are to be delivered, each to a sink, and how far that is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from newnormal.service.store.tables import Tables
from newnormal.service.values import HELD

# No attempt is put off for longer: what is due later was marked before the clock was set back.
_LONGEST_WAIT = 3_600 * 10**9
_LAST = 2**63 - 1
_COLUMNS = "id, key, sink, body, created, delivered, attempts, next_try, error"


class Alert(NamedTuple):
    """An alert for one sink.

    Attributes
    ----------
    id
        Increases in the order in which alerts were made.
    key
        The same for every attempt, and after a recovery.
    sink
        The name of the sink.
    body
        What is sent, as JSON values.
    created
        When it was written to the outbox, in ns by the clock.
    delivered
        When it was delivered, or marked as not to be sent, in ns; None while it waits.
    attempts, next_try, error
        How often it was tried, when it is due again in ns, and why the last attempt failed.
    """

    id: int
    key: str
    sink: str
    body: Mapping[str, Any]
    created: int
    delivered: int | None = None
    attempts: int = 0
    next_try: int = 0
    error: str = ""


class Outbox(Tables):
    """The outbox of the store."""

    def put_alert(self, key: str, sink: str, body: Mapping[str, Any]) -> None:
        """Write an alert, unless it is there, delivered or not."""
        self._write(
            "INSERT OR IGNORE INTO alerts (key, sink, item, body, created) VALUES (?, ?, ?, ?, ?)",
            key,
            sink,
            key.rpartition(":")[0],
            json.dumps(dict(body), separators=(",", ":")),
            self._clock(),
        )

    def alerts_due(self, sink: str, now: int, limit: int) -> list[Alert]:
        """Return alerts to deliver now, oldest first; of an item, one after the other."""
        with self._database.reading() as reader:
            rows = reader.execute(
                f"SELECT {_COLUMNS} FROM alerts AS a"  # noqa: S608 - names of columns
                " WHERE sink = ? AND delivered IS NULL AND (next_try <= ? OR next_try > ?)"
                " AND NOT EXISTS (SELECT 1 FROM alerts AS b WHERE b.delivered IS NULL"
                " AND b.sink = a.sink AND b.item = a.item AND b.id < a.id)"
                " ORDER BY id LIMIT ?",
                (sink, now, min(now + _LONGEST_WAIT, _LAST), limit),
            ).fetchall()
        return [_alert(row) for row in rows]

    def alert(self, key: str, sink: str) -> Alert | None:
        """Return an alert, None if there is none of that key for this sink."""
        with self._database.reading() as reader:
            row = reader.execute(
                f"SELECT {_COLUMNS} FROM alerts WHERE key = ? AND sink = ?",  # noqa: S608
                (key, sink),
            ).fetchone()
        return None if row is None else _alert(row)

    def mark_alert(
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
        with self._database.transaction() as writer:
            writer.execute(
                "UPDATE alerts SET delivered = ?, attempts = ?, next_try = ?, error = ?"
                " WHERE key = ? AND sink = ?",
                (delivered, attempts, next_try, error, key, sink),
            )

    def alerts(
        self, *, sink: str | None = None, before: int | None = None, limit: int = 50
    ) -> list[Alert]:
        """Return alerts, newest first; those whose id is below `before`."""
        with self._database.reading() as reader:
            rows = reader.execute(
                f"SELECT {_COLUMNS} FROM alerts"  # noqa: S608
                " WHERE (:sink IS NULL OR sink = :sink) AND (:before IS NULL OR id < :before)"
                " ORDER BY id DESC LIMIT :limit",
                {"sink": sink, "before": before, "limit": limit},
            ).fetchall()
        return [_alert(row) for row in rows]

    def alert_counts(self) -> dict[str, dict[str, int]]:
        """Return, for each sink, how many alerts wait, were delivered, and have failed so far.

        `failing` are those of `waiting` that were tried; `held` wait for the end of a maintenance
        window and are not in `waiting`; `unsent` those that were marked as not to be sent, which is
        not counted as delivered; `oldest` is when the oldest one that waits was made, in ns; 0 if
        none waits.
        """
        with self._database.reading() as reader:
            rows = reader.execute(
                "SELECT sink, sum(waits AND NOT held), sum(NOT waits AND error = ''),"
                " sum(waits AND NOT held AND attempts > 0), sum(waits AND held),"
                " sum(NOT waits AND error != ''),"
                " coalesce(min(CASE WHEN waits AND NOT held THEN created END), 0)"
                " FROM (SELECT sink, delivered IS NULL AS waits, error, attempts, created,"
                " substr(error, 1, ?) = ? AS held FROM alerts) GROUP BY sink",
                (len(HELD), HELD),
            ).fetchall()
        names = ("waiting", "delivered", "failing", "held", "unsent", "oldest")
        return {sink: dict(zip(names, counts, strict=True)) for sink, *counts in rows}


def _alert(row: tuple[Any, ...]) -> Alert:
    number, key, sink, body, *rest = row
    return Alert(number, key, sink, json.loads(body), *rest)
