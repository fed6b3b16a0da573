"""Settings, and the state of the service at positions of the log."""

from __future__ import annotations

import json
import zlib
from typing import Any

from newnormal.errors import StateError
from newnormal.service.store.tables import Tables

_KEPT = 2  # checkpoints


class Settings(Tables):
    """JSON values by name, in spaces: settings, tokens, sessions, maintenance, scores.

    Any thread may call its methods; what is written is on the disk once they return, unless they
    are called otherwise.
    """

    def get(self, space: str, name: str) -> Any | None:
        """Return a value, None if there is none."""
        with self._database.reading() as reader:
            row = reader.execute(
                "SELECT value FROM settings WHERE space = ? AND name = ?", (space, name)
            ).fetchone()
        return None if row is None else json.loads(row[0])

    def put(self, space: str, name: str, value: Any, *, sync: bool = True) -> None:
        """Write a value; without `sync` a power failure may undo it."""
        text = json.dumps(value, separators=(",", ":"))
        with self._database.transaction(sync=sync) as writer:
            writer.execute("INSERT OR REPLACE INTO settings VALUES (?, ?, ?)", (space, name, text))

    def delete(self, space: str, name: str) -> None:
        """Delete a value, if there is one."""
        with self._database.transaction(sync=True) as writer:
            writer.execute("DELETE FROM settings WHERE space = ? AND name = ?", (space, name))

    def all(self, space: str) -> dict[str, Any]:
        """Return all values of a space by name."""
        with self._database.reading() as reader:
            rows = reader.execute(
                "SELECT name, value FROM settings WHERE space = ? ORDER BY name", (space,)
            ).fetchall()
        return {name: json.loads(value) for name, value in rows}


class Checkpoints(Tables):
    """The state of the service at the last two checkpoints."""

    def save_checkpoint(self, position: int, state: bytes) -> None:
        """Write the state at a position, with the next commit; older ones but one are deleted."""
        self._write("DELETE FROM checkpoints WHERE position > ?", position)
        self._write(
            "INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?)",
            position,
            zlib.crc32(state),
            state,
        )
        self._write(
            "DELETE FROM checkpoints WHERE position NOT IN"
            " (SELECT position FROM checkpoints ORDER BY position DESC LIMIT ?)",
            _KEPT,
        )

    def checkpoint(self, position: int | None = None) -> tuple[int, bytes] | None:
        """Return position and state of the newest checkpoint, or of that at a position.

        None if it is not there. One that is not committed is not there.
        """
        with self._database.reading() as reader:
            row = reader.execute(
                "SELECT position, crc, state FROM checkpoints WHERE :at IS NULL OR position = :at"
                " ORDER BY position DESC LIMIT 1",
                {"at": position},
            ).fetchone()
        if row is None:
            return None
        found, crc, state = row
        if zlib.crc32(state) != crc:
            raise StateError(
                f"{self._database.path}: the checkpoint at position {found} is damaged",
                hint="restore a backup",
            )
        return int(found), bytes(state)

    def checkpoints(self) -> list[int]:
        """Return the positions of the checkpoints, newest first."""
        with self._database.reading() as reader:
            rows = reader.execute("SELECT position FROM checkpoints ORDER BY position DESC")
            return [int(position) for (position,) in rows.fetchall()]
