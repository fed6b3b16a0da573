"""A source that somebody else wrote: samples from a SQLite table, the newest last.

INPUT is the database and the table, such as ``plant.db:samples``. The table has a column `time`
(nanoseconds since 1970) and one for each channel.
"""

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from newnormal.io import Batch, Source, SourceOptions


class TableSource(Source):
    """Rows of a table, by their rowid."""

    record = "row"

    def __init__(self, input: str, options: SourceOptions) -> None:  # noqa: A002
        super().__init__(input, options)
        path, _, self._table = input.rpartition(":")
        self._path = Path(path).resolve()
        self._connection = sqlite3.connect(path)
        self._last = 0  # rowid of the last row given out

    def next_batch(self, limit: int) -> Batch | None:
        columns = ", ".join(f'"{name}"' for name in self.options.channels)
        rows = self._connection.execute(
            f'SELECT rowid, time, {columns} FROM "{self._table}" WHERE rowid > ? '
            "ORDER BY rowid LIMIT ?",
            (self._last, limit),
        ).fetchall()
        if not rows:
            return None
        self._last = rows[-1][0]
        times = np.array([row[1] for row in rows], dtype="datetime64[ns]")
        values = np.array([row[2:] for row in rows], dtype=np.float64)  # NULL is NaN
        return Batch(values, times, numbers=[row[0] for row in rows])

    def snapshot(self) -> dict[str, Any]:
        return {"database": str(self._path), "table": self._table, "rowid": self._last}

    def resume(self, snapshot: Mapping[str, Any]) -> bool:
        if (snapshot["database"], snapshot["table"]) != (str(self._path), self._table):
            return False
        self._last = snapshot["rowid"]
        return True

    def close(self) -> None:
        self._connection.close()
