"""A source that sends nothing is reported by the clock, once, and never to the detector."""

from collections.abc import Sequence

import numpy as np
import pytest

from newnormal import M2N2
from newnormal.io import Arrival
from newnormal.runtime.silent_source import SilentSource
from newnormal.runtime.watch import watch_of
from newnormal.testing import MemorySink, MemorySource


def reports(period: np.timedelta64 | None, *steps: tuple[float, int]) -> list[str]:
    """Return what is reported when batches of so many samples come at these seconds."""
    found: list[str] = []
    times = iter([0.0, *(second for second, _ in steps)])
    source = SilentSource("standard input", period, found.append, lambda: next(times))
    for _, samples in steps:
        source.received(samples)
    return found


MINUTE = np.timedelta64(60, "s")


def test_silence_of_more_than_five_periods_is_reported_once_and_its_end() -> None:
    assert reports(MINUTE, (10, 5), (310, 0), (311, 0), (400, 0), (640, 1), (700, 1)) == [
        "standard input: no sample for 5 min, expected one every 60 s",
        "standard input: samples again, after 10 min",
    ]


def test_silence_is_a_minute_at_least() -> None:
    second = np.timedelta64(1, "s")
    assert reports(second, (0, 1), (59, 0), (60, 0)) == []
    assert reports(second, (0, 1), (61, 0)) == [
        "standard input: no sample for 61 s, expected one every 1 s"
    ]


def test_without_a_period_nothing_is_reported() -> None:
    assert reports(None, (1, 1), (1e6, 0), (2e6, 0)) == []


def test_each_silence_is_reported() -> None:
    found = reports(MINUTE, (0, 1), (400, 0), (401, 2), (800, 0), (1200, 0))
    assert [line.split(": ")[1].split(" ")[0] for line in found] == ["no", "samples", "no"]


def test_watch_reports_a_source_that_pauses_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line is for the user alone: verdicts and events are those of a source without a pause."""
    values = np.random.default_rng(0).normal(size=(400, 2))
    times = np.datetime64("2026-01-01T00:00:00", "ns") + np.arange(400) * MINUTE
    detector = M2N2(window=4, epochs=1, accept_after=50).fit(values[:300], times=times[:300])

    class Pausing(MemorySource):
        pauses = 0

        def next_batch(self, limit: int) -> Sequence[Arrival] | None:
            if self.snapshot()["at"] == 50 and self.pauses < 3:
                self.pauses += 1
                return ()
            return super().next_batch(min(limit, 50))

    seconds = iter(range(0, 10_000, 200))
    monkeypatch.setattr("time.monotonic", lambda: next(seconds))
    found: list[str] = []
    lines = []
    for kind in (MemorySource, Pausing):
        sink = MemorySink()
        twin = detector.with_options()
        watch_of(twin, kind(values[300:], times=times[300:]), sink, found.append).run()
        lines.append([*sink.lines, *(event.to_json() for event in sink.events)])
    assert lines[0] == lines[1]
    assert found == [
        "memory: no sample for 6.7 min, expected one every 60 s",
        "memory: samples again, after 13 min",
    ]
