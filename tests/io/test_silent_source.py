"""A source that sends nothing is reported by the clock, once, and never to the detector."""

from __future__ import annotations

import numpy as np

from newnormal.runtime.silent_source import SilentSource


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
