"""All sinks of the configuration: those that alerts are for, and those that scores are for."""

from __future__ import annotations

from collections.abc import Callable

from newnormal.service.alerts.delivery import Delivery
from newnormal.service.config import ServiceConfig
from newnormal.service.connectors import alert_sinks, score_sinks
from newnormal.service.engine.applying import Applier
from newnormal.service.scores import Scores
from newnormal.service.store import Store


class Sinks:
    """Sends what the outbox holds, and what was judged.

    Parameters
    ----------
    config
        Names the sinks.
    store
        Has the outbox and the samples.
    report
        Called with ``"sink NAME"``, whether it is well, and a message.
    clock
        Returns the time in ns.

    Attributes
    ----------
    names
        Of the sinks that alerts are for.
    """

    def __init__(
        self,
        config: ServiceConfig,
        store: Store,
        report: Callable[[str, bool, str], None],
        clock: Callable[[], int],
    ) -> None:
        self._alerts = Delivery(store, report, clock=clock)
        self._scores = Scores(store, report, clock=clock)
        self.names = [each.name for each in alert_sinks(config.sinks)]

    def start(self, config: ServiceConfig) -> None:
        """Send to the sinks of a configuration from now on, and to no others."""
        alerts = alert_sinks(config.sinks)
        self.names = [each.name for each in alerts]
        self._alerts.start(alerts, keep=config.retention.alerts)
        self._scores.start(score_sinks(config.sinks))

    def applied(self, applier: Applier) -> None:
        """Take note that a record was applied."""
        self._alerts.wake()
        self._scores.applied(applier.streams, applier.touched.values())

    def score_counts(self) -> dict[str, dict[str, int]]:
        """Return how many scores were sent and so on, by sink."""
        return self._scores.counts()

    def stop(self) -> None:
        """End all threads; what was not sent waits."""
        self._alerts.stop()
        self._scores.stop()
