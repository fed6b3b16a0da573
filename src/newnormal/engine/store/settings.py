"""Settings of the store: JSON values by name."""

import json
from typing import Any

from newnormal.engine.store.connection import StoreConnection, inserted, sealed, selected


class SettingsTable:
    """JSON values by name, in spaces: settings, tokens, sessions, maintenance, scores.

    Any thread may call its methods; what is written is on the disk once they return, unless they
    are called otherwise.
    """

    def __init__(self, connection: StoreConnection) -> None:
        self._connection = connection

    def get(self, space: str, name: str) -> Any | None:
        """Return a value, None if there is none."""
        rows = self._connection.rows("settings", "WHERE space = ? AND name = ?", space, name)
        return json.loads(rows[0][2]) if rows else None

    def put(self, space: str, name: str, value: Any, *, sync: bool = True) -> None:
        """Write a value; without `sync` a power failure may undo it."""
        text = json.dumps(value, separators=(",", ":"))
        with self._connection.transaction(sync=sync) as writer:
            statement = inserted("settings", verb="INSERT OR REPLACE")
            writer.execute(statement, sealed((space, name, text)))

    def delete(self, space: str, name: str) -> None:
        """Delete a value, if there is one."""
        with self._connection.transaction() as writer:
            writer.execute("DELETE FROM settings WHERE space = ? AND name = ?", (space, name))

    def all(self, space: str) -> dict[str, Any]:
        """Return all values of a space by name, without damaged ones."""
        rows = self._connection.rows("settings", "WHERE space = ? ORDER BY name", space)
        return {name: json.loads(value) for _, name, value in rows}

    def are_intact(self) -> bool:
        """Whether no value of any space is damaged."""
        rows = self._connection.fetch(selected("settings"))
        return len(self._connection.intact("settings", rows)) == len(rows)
