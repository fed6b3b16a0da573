"""Alerts of one sink: what is due is sent, unless in a maintenance window; failures later again."""

import logging
import re
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any

import numpy as np

from newnormal.engine.running import Report
from newnormal.engine.store import Store
from newnormal.engine.store.outbox import AlertRow
from newnormal.engine.store.settings import SettingsTable
from newnormal.engine.values import HELD
from newnormal.errors import ParameterError
from newnormal.io.sinks.alerts import FIRED, RESOLVED, Alert, AlertRefusedError, AlertSink
from newnormal.service.retry import SECOND, SinkCalls, backoff, one_line
from newnormal.types import SEVERITY_WORDS

SPACE = "maintenance"  # of the store's settings

_LONGEST_TEXT = 500
_ID = re.compile(r"[0-9a-f]{12}")


@dataclass(frozen=True)
class Window:
    """A maintenance window.

    An alert whose item opened in it is not sent, and neither is the one that resolves it.
    """

    id: str  # its name
    # In ns; `end` is not part of it. Items are compared by the times of their samples.
    begin: int
    end: int
    # Which streams, as a pattern of the shell such as ``"press-*"``; ``"*"`` is all.
    streams: str = "*"
    # Why, and who made it.
    reason: str = ""
    who: str = ""

    def __str__(self) -> str:
        reason = f": {self.reason}" if self.reason else ""
        return f"maintenance window {self.id}{reason}"

    def covers(self, streams: Sequence[str], opened: int, updated: int) -> bool:
        """Return whether an item of these streams, all of them, opened or was reported in it."""
        if not (self.begin <= updated and opened < self.end):
            return False
        return all(fnmatchcase(name, self.streams) for name in streams or [""])


def add_window(
    settings: SettingsTable,
    begin: int,
    end: int,
    streams: str = "*",
    *,
    reason: str = "",
    who: str = "",
) -> Window:
    """Make a window and keep it in the settings.

    If it ends before it begins, or a text is empty or too long, it is a ParameterError.
    """
    if end <= begin:
        raise ParameterError(
            "maintenance window: expected an end after the beginning, found an earlier one",
            hint="give begin and end in the same zone",
        )
    for name, text, least in (("streams", streams, 1), ("reason", reason, 0), ("who", who, 0)):
        if not least <= len(text) <= _LONGEST_TEXT:
            raise ParameterError(
                f"maintenance window: {name}: expected {least} to {_LONGEST_TEXT} characters, "
                f"found {len(text)}",
                hint='"*" is all streams' if name == "streams" else None,
            )
    window = Window(secrets.token_hex(6), begin, end, streams, reason, who)
    settings.put(SPACE, window.id, {k: v for k, v in asdict(window).items() if k != "id"})
    return window


def end_window(settings: SettingsTable, id: str) -> bool:  # noqa: A002
    """Remove a window; return False if there is none of that name."""
    if _ID.fullmatch(id) is None or id not in settings.all(SPACE):
        return False
    settings.delete(SPACE, id)
    return True


def windows(settings: SettingsTable) -> list[Window]:
    """Return all windows, the one that begins last first."""
    kept = [Window(id=name, **value) for name, value in settings.all(SPACE).items()]
    return sorted(kept, key=lambda window: (-window.begin, window.id))


def covering(
    several: Iterable[Window], streams: Sequence[str], opened: int, updated: int
) -> Window | None:
    """Return the window that an item is in, the one that ends last of several; None: in none."""
    covers = (window for window in several if window.covers(streams, opened, updated))
    return max(covers, key=lambda window: window.end, default=None)


SUPPRESSED = "suppressed: "  # begins the error of an alert that was not to be sent
GIVEN_UP = "given up: "  # begins the error of an alert that was too old at last

_AT_ONCE = 100  # alerts that are read at once
_LOOK_EVERY = SECOND  # how often to look for alerts that are due
_HELD_EVERY = 60 * SECOND  # how often to look whether an alert that is held may be sent
_LONGEST_ERROR = 500  # characters of an error that the outbox keeps

_log = logging.getLogger(__name__)


class Sender:
    """Sends the alerts of one sink, one after the other. Used by one thread.

    Where the sink is down, all its alerts wait: one of them is tried after 1 s, then after longer
    times up to 5 min, or up to `repeat_every` of a sink that has it. An alert that is refused waits
    alone. An alert is given up when it is older than `keep`.

    `name`, `make`, `report`, `clock`: as those of `SinkCalls`. `store`: has the outbox, where
    alerts wait. `keep`: how long an alert is tried, in ns.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], AlertSink],
        store: Store,
        report: Report,
        *,
        clock: Callable[[], int],
        keep: int,
    ) -> None:
        self.name = name
        self._keep = keep
        self._store, self._clock = store, clock
        self._calls = SinkCalls(name, make, report, clock, AlertRefusedError)
        self._every: float | None = None  # s after which alerts that fired are sent again
        self._repeated = 0  # when alerts that fired were last sent again
        self._refused: dict[str, str] = {}  # why, by key
        self._stopping = threading.Event()

    def deliver(self) -> int:
        """Send what is due; return when to look again, in ns."""
        now = self._clock()
        paused = self._calls.paused_until(now)
        if paused is not None:
            return paused
        try:
            self._every = self._calls.sink.repeat_every
            rows = self._store.outbox.due(self.name, now, _AT_ONCE)
            maintenance = windows(self._store.settings) if rows else []
            # An alert that a sink fails on must not stop the others: the least tried go first.
            for row in sorted(rows, key=lambda row: row.attempts):
                if self._stopping.is_set():
                    return now
                self._deliver_one(row, maintenance)
            self._repeat()
            self._report()
        except Exception as error:  # noqa: BLE001 - a sink that others wrote may raise anything
            return self._calls.pause(error, self._every)
        return now if rows else now + _LOOK_EVERY

    def step(self) -> float:
        """Send what is due; return how long to wait in s."""
        return (self.deliver() - self._clock()) / SECOND

    def stop(self) -> None:
        """Send no more; from any thread."""
        self._stopping.set()

    def close(self) -> None:
        """Close the sink; does not wait for it."""
        self._calls.close()

    def _deliver_one(self, row: AlertRow, maintenance: Sequence[Window]) -> None:
        """Send an alert, or note why it is not sent."""
        now = self._clock()
        window = self._window(row, maintenance)
        held_until = None if window is None else max(window.end, row.created + _HELD_EVERY)
        reason = self._unsent(row, window, now - (held_until or row.created))
        if held_until is not None and reason is None and now < held_until:
            later = min(held_until, now + _HELD_EVERY)
            self._mark(row, row.attempts, next_try=later, error=f"{HELD}{window}")
            return
        if reason is not None:
            if reason.startswith(GIVEN_UP):
                _log.warning("sink %s: alert %s %s", self.name, row.key, reason)
            self._mark(row, row.attempts, delivered=now, error=reason)
            return
        attempts = row.attempts + 1
        try:
            self._send([Alert(row.key, row.body, attempts)])
        except Exception as error:
            later = self._clock() + int(self._wait(attempts) * SECOND)
            self._mark(row, attempts, next_try=later, error=one_line(error))
            if not isinstance(error, AlertRefusedError):
                raise
            self._refused[row.key] = one_line(error)
        else:
            self._mark(row, attempts, delivered=self._clock())

    def _mark(
        self,
        row: AlertRow,
        attempts: int,
        *,
        delivered: int | None = None,
        next_try: int = 0,
        error: str = "",
    ) -> None:
        self._store.outbox.mark(
            row.key,
            self.name,
            delivered=delivered,
            attempts=attempts,
            next_try=next_try,
            error=error[:_LONGEST_ERROR],
        )
        if delivered is not None:
            self._refused.pop(row.key, None)

    def _window(self, row: AlertRow, maintenance: Sequence[Window]) -> Window | None:
        """Return the maintenance window that the item of an alert that fires is in."""
        body = row.body
        if body["status"] == RESOLVED or not maintenance:
            return None
        opened, updated = (_ns(body.get(name) or body["opened"]) for name in ("opened", "updated"))
        return covering(maintenance, body["streams"], opened, updated)

    def _unsent(self, row: AlertRow, window: Window | None, late: int) -> str | None:
        """Return why an alert is never to be sent, or None; `late`: since when it may be, in ns.

        Resolved follows fired. Neither is sent for what has ended in a maintenance window.
        """
        item = row.body["item"]
        if row.body["status"] == RESOLVED:
            fired = self._store.outbox.get(f"{item}:{FIRED}", self.name)
            if fired is None:
                return f"{SUPPRESSED}it did not fire here"
            if fired.error:  # `alerts_due` gives this one out when that one is settled
                return fired.error
        if (
            window is not None
            and self._store.outbox.get(f"{item}:{RESOLVED}", self.name) is not None
        ):
            return f"{SUPPRESSED}{window}"
        if late > self._keep:
            return GIVEN_UP + (row.error or self.state()["message"] or "not sent in time")
        return None

    def _send(self, alerts: Sequence[Alert]) -> None:
        """Have the sink send alerts, and wait no longer than its timeout."""
        sink = self._calls.sink
        if len(alerts) == 1:
            self._calls.call(lambda: sink.send(alerts[0]))
        else:
            self._calls.call(lambda: sink.send_many(alerts))

    def _repeat(self) -> None:
        """Send the alerts of open items again, for receivers that forget."""
        every, now = self._every, self._clock()
        if every is None or 0 <= now - self._repeated < every * SECOND:
            return
        again, most = self._open_alerts(), max(self._calls.sink.at_once, 1)
        while alerts := list(islice(again, most)):
            if self._stopping.is_set():
                return
            with suppress(AlertRefusedError):
                self._send(alerts)
        self._repeated = now

    def _open_alerts(self) -> Iterator[Alert]:
        """Give the alerts that were delivered and whose items are open."""
        for key in self._open_items():
            for part in (*SEVERITY_WORDS[::-1], FIRED):  # the one of the highest severity
                row = self._store.outbox.get(f"{key}:{part}", self.name)
                if row is not None and row.delivered is not None and not row.error:
                    yield Alert(row.key, row.body, row.attempts)
                    break

    def _open_items(self) -> Iterator[str]:
        cursor = None
        while True:
            page = self._store.items.page(open_only=True, cursor=cursor, limit=_AT_ONCE)
            yield from (item.key for item in page.items)
            cursor = page.cursor
            if cursor is None:
                return

    def _wait(self, failures: int) -> float:
        """Return how long to wait in s: where a receiver forgets, no longer than it may."""
        wait = backoff(failures)
        return wait if self._every is None else min(wait, self._every)

    def _report(self) -> None:
        """Report how the sink is after alerts were settled."""
        if self._calls.failures:
            return  # nothing was due: it is not known whether it is up again
        if not self._refused:
            notice = self._calls.sink.notice()
            self._calls.report(not notice, notice)
            return
        key, why = next(iter(self._refused.items()))
        count = len(self._refused)
        self._calls.report(False, f"{count} alert{'s' * (count > 1)} refused, such as {key}: {why}")

    def state(self) -> dict[str, Any]:
        """Return `ok`, `message`, `failures` in a row and `next_try` in ns, None if not paused."""
        return self._calls.state()


def _ns(text: str) -> int:
    return int(np.datetime64(text.removesuffix("Z"), "ns").astype(np.int64))
