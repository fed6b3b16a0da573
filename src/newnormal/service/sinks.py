"""All sinks of the configuration: those that alerts are for, and those that scores are for."""

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from newnormal.engine.applying import Applier
from newnormal.engine.running import Report
from newnormal.engine.store import Store
from newnormal.io.registry import is_score_sink
from newnormal.service.alerts import GIVEN_UP, Sender
from newnormal.service.config import SinkConfig
from newnormal.service.connectors import alert_sinks, make_score_sink, make_sink
from newnormal.service.retry import SECOND, ConnectionThreads
from newnormal.service.scores import JudgedRange, ScoreSender

_WEEK = 7 * 86_400 * SECOND
_AT_ONCE = 1000
_NEVER = 2**63 - 1


class Sinks:
    """Sends what the outbox holds, and scores; `names` are those of the sinks for alerts."""

    def __init__(
        self,
        sinks: Iterable[SinkConfig],
        store: Store,
        report: Report,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.names = [sink.name for sink in alert_sinks(sinks)]
        self._store, self._report, self._clock = store, report, clock
        self._alerts: ConnectionThreads[SinkConfig, Sender] = ConnectionThreads("sink", report)
        self._scores: ConnectionThreads[SinkConfig, ScoreSender] = ConnectionThreads("sink", report)
        self._judged: dict[int, JudgedRange] = {}
        self._whole = False  # whether all live streams are in it
        self._removed = 0  # how many streams there were that are removed

    def start(self, sinks: Iterable[SinkConfig], *, keep: int = _WEEK) -> None:
        """Send to these sinks from now on, and to no others; their secrets are read anew.

        Alerts that wait for a sink that is not among them stay in the outbox until they are too
        old, and are sent if the sink comes back before. An alert is tried for `keep` ns.
        """
        sinks = list(sinks)
        store, report, clock = self._store, self._report, self._clock
        self.names = [sink.name for sink in alert_sinks(sinks)]
        self._alerts.start(
            alert_sinks(sinks),
            lambda sink: Sender(
                sink.name, partial(make_sink, sink), store, report, clock=clock, keep=keep
            ),
        )
        self._scores.start(
            (sink for sink in sinks if is_score_sink(sink.kind)),
            lambda sink: ScoreSender(
                sink.name, partial(make_score_sink, sink), store, self._judged, report, clock=clock
            ),
        )
        self._give_up_old(keep)

    def wake(self) -> None:
        """Look for alerts now: some were put into the outbox."""
        self._alerts.wake()

    def applied(self, applier: Applier) -> None:
        """Take note that a record was applied, and how far streams are judged."""
        self.wake()
        if not self._scores:
            self._whole = False
            return
        streams = applier.streams
        for stream in applier.touched.values() if self._whole else streams:
            if stream.is_live:
                alarms = stream.counts["alarms"], tuple(stream.items)
                judged = JudgedRange(stream.name, stream.offset, stream.count, alarms)
                self._judged[stream.id] = judged
        self._whole = True
        removed = streams.next_id - len(streams)
        if removed != self._removed:
            self._removed = removed
            for number in [number for number in self._judged if streams.get(number) is None]:
                del self._judged[number]

    def stop(self) -> None:
        """End all threads; what was not sent waits."""
        self._alerts.stop()
        self._scores.stop()

    def states(self) -> dict[str, dict[str, Any]]:
        """Return how each sink is, with its kind."""
        return {**self._alerts.states(), **self._scores.states()}

    def score_counts(self) -> dict[str, dict[str, int]]:
        """Return how many scores were sent and so on, by sink."""
        return {name: sender.counts() for name, sender in self._scores.items()}

    def _give_up_old(self, keep: int) -> None:
        """Give up what is too old of sinks that are not in the configuration any more."""
        now, outbox = self._clock(), self._store.outbox
        for name in outbox.counts():
            if name in self._alerts:
                continue
            for row in outbox.due(name, _NEVER, _AT_ONCE):
                if now - row.created > keep:
                    error = f"{GIVEN_UP}the sink was removed from the configuration"
                    outbox.mark(
                        row.key, name, delivered=now, attempts=row.attempts, next_try=0, error=error
                    )
