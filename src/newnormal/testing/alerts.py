"""A sink of alerts in memory, and checks for such sinks."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping
from typing import Any

from newnormal.io.sinks.alerts import FIRED, Alert, AlertSink


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
        return [each.key for each in self.alerts]


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

    Raises
    ------
    AssertionError
        With what was expected and what was found.

    Examples
    --------
    >>> sink = MemoryAlertSink()
    >>> check_alert_sink(lambda: sink, received=lambda: sink.keys)
    """
    sink = make()
    _expect(
        isinstance(sink, AlertSink), "a subclass of newnormal.io.AlertSink", type(sink).__name__
    )
    _check_facts(sink)
    found = _call("check", sink.check)
    _expect(
        isinstance(found, str) and found != "", "check to return a sentence, or to raise", found
    )
    for what, alert in _alerts().items():
        kept = copy.deepcopy(alert)
        for attempt in (1, 2):  # the answer to the first may be lost
            returned = _call(f"send of {what}", sink.send, alert._replace(attempt=attempt))
            _expect(returned is None, "send to return None", repr(returned))
        _expect(alert == kept, f"send to leave {what} as it is", "it changed")
        if received is not None:
            _expect(
                alert.key in received(),
                f"{what} at the receiver when send returns",
                "it not there",
            )
    fired = [each for each in _alerts().values() if each.status == FIRED][: sink.at_once]
    returned = _call("send_many of alerts that were sent", sink.send_many, fired)
    _expect(returned is None, "send_many to return None", repr(returned))
    notice = _call("notice", sink.notice)
    _expect(isinstance(notice, str), "notice to return a text", repr(notice))
    sink.close()
    sink.close()  # a second time does no harm
    if down is not None:
        _check_down(down())


def _check_facts(sink: AlertSink) -> None:
    for name in ("secrets", "private"):
        found = getattr(sink, name)
        good = isinstance(found, tuple) and all(isinstance(each, str) for each in found)
        _expect(good, f"{name} to be a tuple of names of options", repr(found))
    _expect(_positive(sink.timeout), "timeout to be a number of seconds", repr(sink.timeout))
    every = sink.repeat_every
    _expect(every is None or _positive(every), "repeat_every to be None or seconds", repr(every))
    most = sink.at_once
    _expect(_positive(most) and isinstance(most, int), "at_once to be a number above 0", repr(most))


def _positive(found: Any) -> bool:
    return isinstance(found, int | float) and not isinstance(found, bool) and found > 0


def _check_down(sink: AlertSink) -> None:
    alert = next(iter(_alerts().values()))
    try:
        sink.send(alert)
    except Exception:  # noqa: BLE001 - any will do
        sink.close()
        return
    raise AssertionError(
        "expected send to raise an error if the receiver is not there, found that it returned: "
        "the alert would be lost"
    )


def _call(what: str, method: Callable[..., Any], *arguments: object) -> Any:
    try:
        return method(*arguments)
    except Exception as error:
        raise AssertionError(
            f"expected {what} to work, found {type(error).__name__}: {error}"
        ) from error


def _alerts() -> dict[str, Alert]:
    """Return alerts of every kind, by what they are."""
    plain = {
        "version": 1,
        "status": "fired",
        "item": "alarm-1-1-1",
        "kind": "alarm",
        "state": "open",
        "stream": "press-1",
        "streams": ["press-1"],
        "sentence": 'température 90.5, expected 60 to 75; "high" for 3 samples',
        "opened": "2026-01-01T00:00:00.5Z",
        "ended": None,
        "ratio": 2.5,
        "channels": ["température"],
        "evidence": [
            {
                "channel": "température",
                "observed": 90.5,
                "expected": 70.0,
                "low": 60.0,
                "high": 75.0,
                "direction": "high",
            }
        ],
        "generation": 1,
        "link": "http://127.0.0.1:8765/#/item/alarm-1-1-1",
    }
    bodies = {
        "an alarm that fired": plain,
        "an alarm that is resolved": {
            **plain,
            "status": "resolved",
            "state": "closed",
            "ended": "2026-01-01T00:05:00Z",
        },
        "a change": {**plain, "item": "change-1-1-1", "kind": "change", "state": "pending"},
        "an incident, which has no stream": {
            **plain,
            "item": "incident-1",
            "kind": "incident",
            "stream": None,
            "streams": ["press-1", "press-2", "oven/3 <b>"],
            "channels": [],
            "evidence": [],
        },
        "a silence without ratio and link": {
            **plain,
            "item": "silence-1-1-1",
            "kind": "silence",
            "ratio": None,
            "evidence": [],
            "link": None,
        },
        "other channels": {**plain, "item": "channels-1-1-1", "kind": "channels"},
    }
    return {
        what: Alert(key, {**body, "key": key})
        for what, body in bodies.items()
        for key in [f"{body['item']}:{body['status']}"]
    }


def _expect(holds: bool, expected: str, found: object) -> None:
    if not holds:
        raise AssertionError(f"expected {expected}, found {found}")
