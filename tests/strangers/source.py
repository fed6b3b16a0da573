"""A source that somebody else wrote: samples from a SQLite table, the newest last.

INPUT is the database and the table, such as ``plant.db:samples``. The table has a column `time`
(nanoseconds since 1970) and one for each channel.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from newnormal.io import Arrival, Source


class TableSource(Source):
    """Rows of a table, by their rowid."""

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        super().__init__(name, options)
        path, _, self._table = self.options.text("input").rpartition(":")
        self.options.end()
        self._path = Path(path).resolve()
        self._connection = sqlite3.connect(path)
        self._last = 0  # rowid of the last row given out

    def next_batch(self, limit: int) -> Sequence[Arrival] | None:
        answer = self._connection.execute(
            f'SELECT rowid, * FROM "{self._table}" WHERE rowid > ? ORDER BY rowid LIMIT ?',
            (self._last, limit),
        )
        _, _, *channels = (column[0] for column in answer.description)
        if not (rows := answer.fetchall()):
            return None
        self._last = rows[-1][0]
        times = np.array([row[1] for row in rows], dtype=np.int64)
        values = np.array([row[2:] for row in rows], dtype=np.float64)  # NULL is NaN
        return [Arrival("", tuple(channels), times, values)]

    def snapshot(self) -> dict[str, Any]:
        return {"database": str(self._path), "table": self._table, "rowid": self._last}

    def resume(self, snapshot: Mapping[str, Any]) -> bool:
        if (snapshot["database"], snapshot["table"]) != (str(self._path), self._table):
            return False
        self._last = snapshot["rowid"]
        return True

    def close(self) -> None:
        self._connection.close()
