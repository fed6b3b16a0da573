"""A sink in memory, and checks for sinks."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from newnormal.io.sinks.base import Sink, SinkOptions
from newnormal.testing.expecting import call_for_none, check_kind, expect
from newnormal.types import Alarm, Change, Event, Verdicts

_ALARM = r"""{
    "number": 1, "start": 5, "start_time": TIME, "end": 9, "end_time": TIME,
    "reason": null, "cause": "score", "sentence": "a 7.5, expected 1 to 3; high",
    "peak": {"sample": 7, "time": TIME, "score": 9.5, "ratio": 3.0, "p_value": 1e-6,
             "channels": {"a": 0.75}},
    "evidence": [
        {"channel": "a", "observed": 7.5, "expected": 2.0, "low": 1.0, "high": 3.0,
         "start": 5, "end": 9, "sample": 7, "ratio": 3.0, "pace": null, "unit": "",
         "unusual": "", "comes_and_goes": false},
        {"channel": "b\"%s", "observed": null, "expected": null, "low": null, "high": null,
         "start": null, "end": null, "sample": null, "ratio": null, "pace": 2.5, "unit": "",
         "unusual": "changes", "comes_and_goes": true}
    ],
    "severity": 45
}"""


class MemorySink(Sink):
    """Keeps what is written to it.

    Attributes
    ----------
    verdicts, events
        What was written, in order: a batch of verdicts each, and one event each.
    flushed
        How often `flush` was called.
    """

    def __init__(self, target: str = "-", options: SinkOptions | None = None) -> None:
        super().__init__(target, options or SinkOptions())
        self.verdicts: list[Verdicts] = []
        self.events: list[Event] = []
        self.flushed = 0

    def write_verdicts(self, verdicts: Verdicts) -> None:
        """Keep the verdicts."""
        self.verdicts.append(verdicts)

    def write_events(self, events: Sequence[Event]) -> None:
        """Keep the events."""
        self.events += events

    def flush(self) -> None:
        """Count it."""
        self.flushed += 1

    @property
    def lines(self) -> list[str]:
        """The verdicts as lines of JSON."""
        return [line for part in self.verdicts for line in part.json_lines()]


def check_sink(make: Callable[[], Sink]) -> None:
    """Check that a sink takes every verdict and event that `watch` can write.

    Parameters
    ----------
    make
        Makes the sink. It is made more than once, also for the same target.

    Examples
    --------
    >>> check_sink(MemorySink)
    """
    for name, verdicts in _verdicts().items():
        sink = make()
        check_kind(sink, Sink)
        before = verdicts.json_lines()
        _call(name, sink.write_verdicts, verdicts)
        same = verdicts.json_lines() == before
        expect(same, f"write_verdicts to leave verdicts ({name}) as they are", "them changed")
        _call(name, sink.flush)
        _call(name, sink.close)
        _call(name, sink.close)  # a second time does no harm
    sink = make()
    for event in _events():
        _call(f"an event, {event.kind}", sink.write_events, [event])
    _call("no events", sink.write_events, [])
    _call("events", sink.flush)
    sink.close()


def _call(what: str, method: Callable[..., object], *arguments: object) -> None:
    """Call a method of a sink; an exception is reported with what it was called with."""
    name = getattr(method, "__name__", "method")
    call_for_none(name, f"{name} to take {what}", method, *arguments)


def _verdicts() -> dict[str, Verdicts]:
    """Return verdicts of every shape that a detector makes."""
    count, channels = 4, ("a", 'b"%s')
    scores = np.array([0.5, 7.25, np.nan, 1e300])
    plain = Verdicts(
        scores,
        np.full(count, 2.0),
        np.nan_to_num(scores) >= 2.0,
        np.array([[1.0, 2.0], [np.nan, np.inf], [0.0, -1.0], [3.0, 4.0]]),
        np.full((count, 2), 0.5, dtype=np.float32),
        np.arange(count).astype("datetime64[s]").astype("datetime64[ns]"),
        channels,
        first=1_000_000,
    )
    return {
        "verdicts with times": plain,
        "verdicts without times": replace(plain, times=None),
        "verdicts without expected values and shares": replace(plain, expected=None, shares=None),
        "verdicts with alarms": replace(
            plain,
            ratios=np.array([0.1, 3.5, np.nan, 9.0]),
            p_values=np.array([0.5, 1e-9, np.nan, 0.0]),
            alarms=np.array([0, 1, 1, 1]),
        ),
        "verdicts with changes": replace(
            plain, distances=np.array([0.1, 0.5, np.nan, 1.5]), changes=np.array([0, 0, 0, 1])
        ),
        "no verdicts": plain.rows(slice(0, 0)),
    }


def _events() -> list[Event]:
    when = np.datetime64("2026-01-01T00:00:00", "ns")
    events = []
    for time in (when, None):
        text = "null" if time is None else '"2026-01-01T00:00:00"'
        alarm = Alarm.from_dict(json.loads(_ALARM.replace("TIME", text)))
        change = Change(
            1, 5, time, ("a",), {"a": 2.0}, {"a": 7.5}, alarm=1, distance=1.5, sentence="a from 2"
        )
        closed = replace(alarm, reason="back to normal")
        events += [
            Event("opened", 5, time, alarm),
            Event("updated", 7, time, alarm),
            Event("closed", 12, time, closed),
            Event("changed", 13, time, alarm, change),
            Event("changed", 13, time, None, replace(change, number=2, channels=(), alarm=None)),
            *(
                Event(kind, 14, time, None, replace(change, state=kind))
                for kind in ("accepted", "rejected", "reverted")
            ),
            Event("undone", 15, time),
        ]
    return events
