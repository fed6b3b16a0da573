"""A sink that somebody else wrote: scores and events into a SQLite database, each once.

TARGET is the database.
"""

import sqlite3
from collections.abc import Sequence

from newnormal import Event, Verdicts
from newnormal.io import Sink, SinkOptions


class TableSink(Sink):
    """Verdicts by sample number, events by what they are about: a repeat replaces the first."""

    def __init__(self, target: str, options: SinkOptions) -> None:
        super().__init__(target, options)
        self._connection = sqlite3.connect(target)
        self._connection.executescript(
            "CREATE TABLE IF NOT EXISTS verdicts (sample INTEGER PRIMARY KEY, line TEXT);"
            "CREATE TABLE IF NOT EXISTS events (kind, sample, alarm, change, "
            "PRIMARY KEY (kind, sample, alarm, change));"
        )

    def write_verdicts(self, verdicts: Verdicts) -> None:
        rows = zip(verdicts.samples.tolist(), verdicts.json_lines(), strict=True)
        self._connection.executemany("INSERT OR REPLACE INTO verdicts VALUES (?, ?)", rows)

    def write_events(self, events: Sequence[Event]) -> None:
        rows = [
            (
                event.kind,
                event.sample,
                event.alarm.number if event.alarm else 0,  # NULL is never a repeat
                event.change.number if event.change else 0,
            )
            for event in events
        ]
        self._connection.executemany("INSERT OR REPLACE INTO events VALUES (?, ?, ?, ?)", rows)

    def flush(self) -> None:
        self._connection.commit()

    def close(self) -> None:
        self._connection.close()
