"""Sinks of the service in memory, of alerts and of scores, and checks for such sinks."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from newnormal.io.sinks.alerts import FIRED, Alert, AlertSink
from newnormal.io.sinks.scores import ScoreBatch, ScoreSink, ScoresRefusedError
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
_SECOND = 1_000_000_000


class _Kept:
    """What sinks in memory have in common: they keep what they are sent."""

    def __init__(self, name: str = "memory", options: Mapping[str, Any] | None = None) -> None:
        super().__init__(name, options or {})  # type: ignore[call-arg]
        self.sent: list[Any] = []
        self.fails: Exception | None = None

    def send(self, sent: Any, /) -> None:
        """Keep an alert, or a batch of scores."""
        if self.fails is not None:
            raise self.fails
        self.sent.append(sent)

    def check(self) -> str:
        """Return that there is nothing to try."""
        return "in memory"


class MemoryAlertSink(_Kept, AlertSink):
    """Keeps the alerts that it is given.

    Attributes
    ----------
    sent
        The alerts, in order.
    fails
        What `send` raises instead; None: it takes alerts.
    """

    @property
    def keys(self) -> list[str]:
        """The keys of the alerts."""
        return [alert.key for alert in self.sent]


class MemoryScoreSink(_Kept, ScoreSink):
    """Keeps the scores that it is given.

    Attributes
    ----------
    sent
        The batches of scores, in order.
    fails
        What `send` raises instead; None: it takes scores.
    """

    @property
    def points(self) -> list[tuple[str, int]]:
        """The stream and the time in ns of each score, in order."""
        return [
            point
            for batch in self.sent
            for point in zip(batch.streams, batch.times.tolist(), strict=True)
        ]


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
    _check_positive(sink.timeout, "timeout to be a number of seconds")
    if sink.repeat_every is not None:
        _check_positive(sink.repeat_every, "repeat_every to be None or seconds")
    _check_whole(sink.at_once, "at_once to be a number above 0")
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


def check_score_sink(
    make: Callable[[], ScoreSink],
    *,
    received: Callable[[], Collection[tuple[str, int]]] | None = None,
    down: Callable[[], ScoreSink] | None = None,
    clock: Callable[[], int] = time.time_ns,
) -> None:
    """Check that a sink keeps what `newnormal.io.ScoreSink` promises.

    Parameters
    ----------
    make
        Makes the sink. Its receiver is there and takes every score.
    received
        Returns stream and time in ns of the scores that the receiver has; times are whole seconds.
    down
        Makes a sink whose receiver is not there.
    clock
        The time in ns; scores are of the last minute.

    Examples
    --------
    >>> sink = MemoryScoreSink()
    >>> check_score_sink(lambda: sink, received=lambda: sink.points)
    """
    sink = make()
    check_connector(sink, ScoreSink)
    _check_positive(sink.timeout, "timeout in seconds")
    every = sink.every
    expect(is_number(every) and every >= 0, "every to be seconds or 0", repr(every))
    if sink.keep is not None:
        _check_positive(sink.keep, "keep to be None or seconds")
    _check_whole(sink.at_once, "at_once to be a number of scores")
    begin = clock() // _SECOND * _SECOND - 60 * _SECOND
    for what, batch in _batches(begin):
        kept = {each.name: np.array(getattr(batch, each.name)) for each in fields(batch)}
        call_for_none("send", f"send of {what} to work", sink.send, batch)
        if received is not None:
            there = set(received())
            missing = set(zip(batch.streams, batch.times.tolist(), strict=True)) - there
            expect(not missing, f"{what} at the receiver when send returns", f"{missing} not")
        try:  # the answer to the first may be lost
            expected = f"send of {what} for a second time to work"
            call(expected, sink.send, replace(batch, attempt=2))
        except AssertionError as error:
            if not isinstance(error.__cause__, ScoresRefusedError):  # it has them already
                raise
        same = all(np.array_equal(kept[name], getattr(batch, name)) for name in kept)
        expect(same, f"send to leave {what} as it is", "it changed")
    sink.close()
    sink.close()  # a second time does no harm
    if down is not None:
        sink = down()
        check_down(sink.send, next(_batches(begin))[1], "scores", ScoresRefusedError)
        sink.close()


def _check_positive(value: Any, expected: str) -> None:
    expect(is_number(value) and value > 0, expected, repr(value))


def _check_whole(value: Any, expected: str) -> None:
    whole = isinstance(value, int) and is_number(value) and value > 0
    expect(whole, expected, repr(value))


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


def _batches(begin: int) -> Iterator[tuple[str, ScoreBatch]]:
    """Give batches of every kind, later times later."""

    def batch(second: int, ratios: list[float], *streams: str) -> ScoreBatch:
        earlier = [streams[:row].count(name) for row, name in enumerate(streams)]
        times = begin + (second + np.array(earlier, np.int64)) * _SECOND
        scores, thresholds = 2.0 * np.array(ratios), np.full(len(streams), 2.0)
        high = scores >= thresholds
        channels = (("load", 'température "1"'),) * len(streams)
        known = (np.array([[1.0, 0.5, 1.5, 3.0], [1e9, -np.inf, np.inf, 0.0]]),) * len(streams)
        numbers = scores, thresholds, np.array(ratios), high, high
        return ScoreBatch(streams, times, *numbers, channels, known)

    yield "one score", batch(0, [0.5], "press-1")
    yield "scores of one stream", batch(10, [0.25, 0.5, 3.5], *["press-1"] * 3)
    yield (
        "scores of many streams",
        batch(20, [0.5, 1.5, 0.0], "press-1", 'température "1"/\\', "oven/3 <b>"),
    )
    yield "an infinite score", batch(30, [float("inf"), 1e300], "press-1", "press-2")
