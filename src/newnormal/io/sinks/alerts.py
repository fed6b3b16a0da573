"""What a sink of the service's alerts is."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from newnormal.errors import NewnormalError
from newnormal.io.options import Connector

# The status of an alert.
FIRED = "fired"
RESOLVED = "resolved"


class Alert(NamedTuple):
    """Something to tell people: an item opened, or it ended.

    Attributes
    ----------
    key
        Names it without end: an alert that is sent again has the same one.
    body
        What it shows, as JSON values; the guide *Alerts* describes them.
    attempt
        Counted from 1: how often it was tried to send it.
    """

    key: str
    body: Mapping[str, Any]
    attempt: int = 1

    @property
    def status(self) -> str:
        """``"fired"`` or ``"resolved"``."""
        return str(self.body["status"])

    @property
    def item(self) -> str:
        """The key of the item, which both alerts of it have."""
        return str(self.body["item"])


class SinkDownError(NewnormalError):
    """Nothing can be sent now; all alerts wait.

    Attributes
    ----------
    after
        In how many seconds to try again, where the receiver asked for that; else None.
    """

    def __init__(
        self, message: str, *, hint: str | None = None, after: float | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.after = after


class AlertRefusedError(NewnormalError):
    """The receiver does not take this alert; it may take others."""


class AlertSink(Connector):
    """Where the service sends alerts. Derive from it and name your class in `[sinks]`.

    Attributes
    ----------
    timeout
        Seconds after which `send` is given up. Choose your own ones shorter.
    repeat_every
        Seconds after which an alert that fired is sent again while its item is open, for receivers
        that forget; None: never.
    at_once
        How many alerts `send_many` is given at most.

    Notes
    -----
    Alerts come from an outbox that outlives the service. Each sink has a thread, so a sink that is
    slow or down does not slow another one. An alert is sent until `send` returns. So a receiver can
    get one twice, where the answer to the first was lost; both have the same key.

    An item's resolved alert is sent after its fired one. Alerts of different items may come in any
    order.

    Raise `AlertRefusedError` if this alert cannot be taken: others go on, it is tried again later.
    Any other exception means that the sink is down: all alerts wait, 1 s at first, 5 min at most.
    """

    timeout: float = 30.0
    repeat_every: float | None = None
    at_once: int = 1

    @abstractmethod
    def send(self, alert: Alert) -> None:
        """Send an alert; return once the receiver has it."""

    def send_many(self, alerts: Sequence[Alert]) -> None:
        """Send alerts again whose items are open, as `send` sends one."""
        for alert in alerts:
            self.send(alert)

    def notice(self) -> str:
        """Return what people should know though alerts are delivered, in a sentence, or nothing.

        Such as that one of several receivers is down. The service shows it beside the sink.
        """
        return ""

    def check(self) -> str:
        """As that of a `Connector`."""
        return "not tried: it has no way to without sending an alert"
