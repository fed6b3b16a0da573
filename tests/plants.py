"""A small plant for tests of alarms and changes, and detectors fitted on it once a process."""

from functools import cache
from typing import Any

import numpy as np

from newnormal import Detector
from newnormal.base import BaseDetector
from newnormal.tabular import to_table
from newnormal.types import Alarm, Change, Event, Floats, Times

ACCEPT_AFTER = 320  # samples
AT = 1_000  # the sample at which something happens
CHANNELS = ("flow", "level", "power")
_UNITS = np.array([3.0, 0.5, 40.0])
_ZEROS = np.array([20.0, 1.0, -7.0])
SIGMA = np.sqrt(0.5 + 0.15**2) * _UNITS  # of each channel
_FIRST = np.datetime64("2026-01-01T00:00", "ns")


def plant(seed: int, length: int) -> Floats:
    """Return samples of three sensors, each with waves and noise of its own, in their units."""
    rng = np.random.default_rng(seed)
    t = np.arange(length)[:, None]
    waves = np.sin(2 * np.pi * t / np.array([37.0, 53.0, 71.0]))
    values: Floats = (waves + rng.normal(0, 0.15, (length, 3))) * _UNITS + _ZEROS
    return values


def minutes(length: int, start: int = 0) -> Times:
    """Return times a minute apart."""
    times: Times = _FIRST + np.arange(start, start + length) * np.timedelta64(1, "m")
    return times


@cache
def _fitted(timed: bool, **options: Any) -> Any:
    times = minutes(3_000) if timed else None
    detector = Detector(accept_after=ACCEPT_AFTER, **options)
    return detector.fit(to_table(plant(0, 3_000), times=times, channels=CHANNELS)).to_state()


def fresh(*, timed: bool = False, **options: Any) -> Detector:
    """Return a detector before its first sample."""
    return Detector.from_state(_fitted(timed, **options))


def events_of(detector: BaseDetector, live: Floats) -> list[Event]:
    """Run a detector, and return what happened."""
    detector.run(live)
    return detector.take_events()


def alarms_of(events: list[Event], kind: str) -> list[Alarm]:
    """Return the alarms of events of a kind; not of those that are about a change."""
    return [each.alarm for each in events if each.kind == kind and each.alarm and not each.change]


def changes_of(events: list[Event], kind: str) -> list[Change]:
    """Return the changes of events of a kind."""
    return [each.change for each in events if each.kind == kind and each.change]
