"""A sink of alerts in memory, and checks for such sinks."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from newnormal.io.sinks.alerts import FIRED, Alert, AlertSink
from newnormal.testing.expecting import (
    call,
    call_for_none,
    check_connector,
    check_down,
    expect,
    is_number,
)

_ALARM = r"""{
    "version": 1, "status": "fired", "item": "alarm-1-1-1", "kind": "alarm", "state": "open",
    "stream": "press-1", "streams": ["press-1"], "channels": ["température"],
    "sentence": "température 90.5, expected 60 to 75; \"high\" for 3 samples",
    "opened": "2026-01-01T00:00:00.5Z", "ended": null, "ratio": 2.5, "generation": 1,
    "evidence": [{"channel": "température", "observed": 90.5, "expected": 70.0,
                  "low": 60.0, "high": 75.0, "direction": "high"}],
    "link": "http://127.0.0.1:8765/#/item/alarm-1-1-1"
}"""


class MemoryAlertSink(AlertSink):
    """Keeps the alerts that it is given.

    Attributes
    ----------
    alerts
        What was sent, in order.
    fails
        What `send` raises instead; None: it takes alerts.
    """

    def __init__(self, name: str = "memory", options: Mapping[str, Any] | None = None) -> None:
        super().__init__(name, options or {})
        self.alerts: list[Alert] = []
        self.fails: Exception | None = None

    def send(self, alert: Alert) -> None:
        """Keep an alert."""
        if self.fails is not None:
            raise self.fails
        self.alerts.append(alert)

    def check(self) -> str:
        """Return that there is nothing to try."""
        return "in memory"

    @property
    def keys(self) -> list[str]:
        """The keys of the alerts."""
        return [alert.key for alert in self.alerts]


def check_alert_sink(
    make: Callable[[], AlertSink],
    *,
    received: Callable[[], Collection[str]] | None = None,
    down: Callable[[], AlertSink] | None = None,
) -> None:
    """Check that a sink keeps what `newnormal.io.AlertSink` promises.

    Parameters
    ----------
    make
        Makes the sink. It is made more than once. Its receiver is there and takes every alert.
    received
        Returns the keys that the receiver has.
    down
        Makes a sink whose receiver is not there.

    Examples
    --------
    >>> sink = MemoryAlertSink()
    >>> check_alert_sink(lambda: sink, received=lambda: sink.keys)
    """
    sink = make()
    check_connector(sink, AlertSink)
    _check_facts(sink)
    for what, alert in _alerts().items():
        kept = copy.deepcopy(alert)
        for attempt in (1, 2):  # the answer to the first may be lost
            again = alert._replace(attempt=attempt)
            call_for_none("send", f"send of {what} to work", sink.send, again)
        expect(alert == kept, f"send to leave {what} as it is", "it changed")
        if received is not None:
            there = alert.key in received()
            expect(there, f"{what} at the receiver when send returns", "it not there")
    fired = [alert for alert in _alerts().values() if alert.status == FIRED][: sink.at_once]
    expected = "send_many of alerts that were sent to work"
    call_for_none("send_many", expected, sink.send_many, fired)
    notice = call("notice to work", sink.notice)
    expect(isinstance(notice, str), "notice to return a text", repr(notice))
    sink.close()
    sink.close()  # a second time does no harm
    if down is not None:
        sink = down()
        check_down(sink.send, next(iter(_alerts().values())), "alert")
        sink.close()


def _check_facts(sink: AlertSink) -> None:
    timeout, every, most = sink.timeout, sink.repeat_every, sink.at_once
    expect(_positive(timeout), "timeout to be a number of seconds", repr(timeout))
    expect(every is None or _positive(every), "repeat_every to be None or seconds", repr(every))
    expect(_positive(most) and isinstance(most, int), "at_once to be a number above 0", repr(most))


def _positive(value: Any) -> bool:
    return is_number(value) and value > 0


def _alerts() -> dict[str, Alert]:
    changes: dict[str, dict[str, Any]] = {
        "an alarm that fired": {},
        "an alarm that is resolved": {
            "status": "resolved",
            "state": "closed",
            "ended": "2026-01-01T00:05:00Z",
        },
        "a change": {"item": "change-1-1-1", "kind": "change", "state": "pending"},
        "an incident, which has no stream": {
            "item": "incident-1",
            "kind": "incident",
            "stream": None,
            "streams": ["press-1", "press-2", "oven/3 <b>"],
            "channels": [],
            "evidence": [],
        },
        "a silence without ratio and link": {
            "item": "silence-1-1-1",
            "kind": "silence",
            "ratio": None,
            "evidence": [],
            "link": None,
        },
        "other channels": {"item": "channels-1-1-1", "kind": "channels"},
    }
    bodies = {what: {**json.loads(_ALARM), **change} for what, change in changes.items()}
    keys = {what: f"{body['item']}:{body['status']}" for what, body in bodies.items()}
    return {what: Alert(keys[what], {**body, "key": keys[what]}) for what, body in bodies.items()}
