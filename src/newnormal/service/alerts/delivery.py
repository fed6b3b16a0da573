"""Delivery of alerts: a thread for each sink, so that none slows another."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from newnormal.service.alerts.outbox_sender import GIVEN_UP, Sender
from newnormal.service.config import SinkConfig
from newnormal.service.connectors import make_sink
from newnormal.service.retry import Loop
from newnormal.service.sink_thread import SECOND
from newnormal.service.store import Store
from newnormal.service.workers import Workers

_WEEK = 7 * 86_400 * SECOND
_AT_ONCE = 1000
_NEVER = 2**63 - 1


class Delivery:
    """Sends what the outbox holds to all sinks of the configuration.

    Parameters
    ----------
    store
        Has the outbox.
    report
        Called with ``"sink NAME"``, whether it is well, and a message.
    clock
        Returns the time in ns.
    """

    def __init__(
        self,
        store: Store,
        report: Callable[[str, bool, str], None],
        *,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._store, self._report, self._clock = store, report, clock
        self._senders: Workers[SinkConfig, Sender] = Workers("sink", report)

    def start(self, sinks: Iterable[SinkConfig], *, keep: int = _WEEK) -> None:
        """Send to these sinks from now on, and to no others; their secrets are read anew.

        Parameters
        ----------
        sinks
            What waits for a sink that is not among them stays in the outbox until it is too old,
            and is sent if the sink comes back before.
        keep
            How long an alert is tried, in ns.
        """

        def begin(config: SinkConfig) -> tuple[Sender, Loop]:
            sender = Sender(
                config.name,
                lambda: make_sink(config),
                self._store,
                self._report,
                clock=self._clock,
                keep=keep,
            )
            return sender, Loop(f"sink {config.name}", self._step(sender), sender.close)

        self._senders.start(sinks, begin)
        self._give_up_old(keep)

    def _step(self, sender: Sender) -> Callable[[], float]:
        def step() -> float:
            return (sender.deliver() - self._clock()) / SECOND

        return step

    def wake(self) -> None:
        """Look for alerts now: some were put into the outbox."""
        self._senders.wake()

    def stop(self) -> None:
        """End all threads; what was not delivered waits in the outbox."""
        self._senders.stop()

    def states(self) -> dict[str, dict[str, Any]]:
        """Return how each sink is: as `Sender.state`, with its kind."""
        return self._senders.states()

    def _give_up_old(self, keep: int) -> None:
        """Give up what is too old of sinks that are not in the configuration any more."""
        now = self._clock()
        for name in self._store.outbox.counts():
            if name in self._senders:
                continue
            for row in self._store.outbox.due(name, _NEVER, _AT_ONCE):
                if now - row.created > keep:
                    self._store.outbox.mark(
                        row.key,
                        name,
                        delivered=now,
                        attempts=row.attempts,
                        next_try=0,
                        error=f"{GIVEN_UP}the sink was removed from the configuration",
                    )
