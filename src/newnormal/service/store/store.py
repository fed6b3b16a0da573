"""The store of the service: one database with all that follows from the log, and settings."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from newnormal.service.database import Database
from newnormal.service.store.outbox import Outbox
from newnormal.service.store.recovery import Recovery
from newnormal.service.store.schema import MIGRATIONS
from newnormal.service.store.settings import Settings


class Store(Recovery, Outbox, Settings):
    """Samples, items, events, alerts, settings and checkpoints.

    What follows from the log (`add`, `truncate`, `forget`, `put_item`, `put_event`, `put_alert`,
    `save_checkpoint`) is written by one thread and collected until `commit`. It has keys that
    follow from the log, too: to apply the same log again changes nothing. Settings, comments and
    `mark_alert` are written at once, by any thread. Any thread reads.

    Parameters
    ----------
    path
        Of the database. It is made if it is not there.
    clock
        The time in ns: when alerts were made, and items and events written.
    """

    def __init__(self, path: Path, *, clock: Callable[[], int] = time.time_ns) -> None:
        super().__init__(Database(path, MIGRATIONS, synchronous="NORMAL"))
        self._clock = clock

    def close(self) -> None:
        """Close it; what was not committed is lost."""
        self._database.close()
