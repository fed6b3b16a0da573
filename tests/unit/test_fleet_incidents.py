"""Incidents of a fleet: one fault in many streams is one event, and chance is none."""

import warnings
from functools import cache

import numpy as np
import pytest

from newnormal import Detector, Fleet, NewnormalWarning
from newnormal.base import BaseDetector
from newnormal.fleet.incidents import IncidentTracker, Opening
from newnormal.tabular import Table
from newnormal.types import Floats, IncidentEvent

STREAMS = 50
FITS = 10
HISTORY = 14  # days
CHANNELS = ("cpu", "memory", "network")
FIRST = np.datetime64("2026-01-05", "ns")
NAMES = tuple(f"web-{at:02}" for at in range(STREAMS))


def series(seed: int, kind: int, minutes: int, start: int, samples: int) -> Floats:
    """Return three channels with a rhythm of a day, and noise."""
    rng = np.random.default_rng([seed, start])
    angle = (start + np.arange(samples)) * (2 * np.pi * minutes / 1440)
    wave = np.sin(angle + kind)[:, None] * [2.0, 0.6, -0.8] + 0.3 * np.sin(2 * angle)[:, None]
    return np.asarray(wave + rng.normal(0, 0.3, (samples, 3)))


def table(seed: int, kind: int, minutes: int, start: int, samples: int) -> Table:
    times = FIRST + (start + np.arange(samples)) * np.timedelta64(minutes, "m")
    return Table(series(seed, kind, minutes, start, samples), CHANNELS, times)


@cache
def fits(minutes: int) -> list[BaseDetector]:
    samples = HISTORY * 1440 // minutes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NewnormalWarning)
        return [
            Detector(alarms_per_day=0.2, epochs=1).fit(table(kind, kind, minutes, 0, samples))
            for kind in range(FITS)
        ]


def fleet_of(minutes: int) -> Fleet:
    """Return fifty streams of ten fits."""
    fleet = Fleet()
    for at, name in enumerate(NAMES):
        fleet.add(name, fits(minutes)[at % FITS])
    return fleet


def live(minutes: int, start: int, samples: int) -> dict[str, Table]:
    """Return samples of every stream from so many after history on."""
    begin = HISTORY * 1440 // minutes + start
    return {
        name: table(100 + at, at % FITS, minutes, begin, samples) for at, name in enumerate(NAMES)
    }


def stepped(fleet: Fleet, tables: dict[str, Table], *, timed: bool = True) -> list[IncidentEvent]:
    """Give samples row by row; return what happened to incidents."""
    found: list[IncidentEvent] = []
    for row in range(len(next(iter(tables.values())).values)):
        samples = {name: each.values[row] for name, each in tables.items()}
        times = {name: each.times[row] for name, each in tables.items() if each.times is not None}
        found += fleet.step(samples, times if timed else None).incidents
    return found


@pytest.mark.parametrize("spread", [0, 3])
def test_a_fault_in_twenty_of_fifty_streams_is_one_incident(spread: int) -> None:
    """They all begin at once, or over a few samples."""
    rng, fleet = np.random.default_rng(3), fleet_of(5)
    stepped(fleet, live(5, 0, 50))
    tables = live(5, 50, 70)
    struck = [str(name) for name in rng.permutation(NAMES)[:20]]
    for name in struck:
        tables[name].values[20 + int(rng.integers(0, spread + 1)) :] += 6.0
    began, ended = stepped(fleet, tables)
    assert (began.kind, ended.kind) == ("incident", "incident_ended")
    assert began.incident.number == ended.incident.number == 1
    assert len(set(ended.incident.streams) & set(struck)) >= 19
    assert len(set(ended.incident.streams) - set(struck)) <= 1
    start = tables[struck[0]].times
    assert start is not None and began.incident.start_time == start[20]
    assert began.incident.open and not ended.incident.open
    assert ended.incident.sentence.startswith(
        f"Alarms opened in {len(ended.incident.streams)} of 50 streams"
    )
    assert fleet.incidents_ == [ended.incident]
    for name in struck:
        number = ended.incident.streams.get(name)
        assert number is None or number in [each.number for each in fleet[name].past_]


@pytest.mark.cases(1, 5, whole=True)
def test_thirty_days_without_a_fault_are_no_incident(cases: range) -> None:
    minutes = 5 // len(cases)  # five samples in the time of one, in full
    fleet, days = fleet_of(minutes), 30
    opened = 0
    for day in range(days):
        samples = 1440 // minutes
        verdicts = fleet.run(live(minutes, day * samples, samples))
        opened += sum(each.event.kind == "opened" for each in verdicts.events)
    assert opened > 0  # there were alarms, by chance, and few
    assert opened <= 0.2 * STREAMS * days
    assert len(fleet.incidents_) <= 1


def test_a_fault_that_comes_again_is_another_incident() -> None:
    fleet = fleet_of(5)
    stepped(fleet, live(5, 0, 50))
    tables = live(5, 50, 120)
    for name in NAMES[:12]:
        tables[name].values[[10, 11, 80, 81]] += 12.0
    times = tables[NAMES[0]].times
    assert times is not None
    began = [each.incident for each in stepped(fleet, tables) if each.kind == "incident"]
    numbers = {each.start_time: each.number for each in began}
    assert numbers[times[10]] < numbers[times[80]]
    assert set(NAMES[:12]) == set(began[0].streams)


def test_incidents_are_the_same_in_a_run_and_in_steps() -> None:
    tables = live(5, 0, 100)
    for at, name in enumerate(NAMES[:15]):
        tables[name].values[60 + at % 4 :] += 6.0
    one, other, third = fleet_of(5), fleet_of(5), fleet_of(5)
    one.run(tables)
    stepped(other, tables)
    for name in NAMES:  # stream by stream, each of them late
        third.run({name: tables[name]})
    (found,) = one.incidents_
    assert other.incidents_ == [found]
    (late,) = third.incidents_
    assert set(found.streams) == set(late.streams) >= set(NAMES[:15])


def test_streams_without_times_have_incidents_by_their_samples_and_may_get_times_live() -> None:
    """Also where they were fitted with times."""
    fleet = fleet_of(5)
    stepped(fleet, live(5, 0, 50), timed=False)
    tables = live(5, 50, 40)
    for name in NAMES[::4]:
        tables[name].values[20:22] += 12.0
    began, ended = stepped(fleet, tables, timed=False)
    assert began.incident.start_time is None
    assert began.incident.start in range(65, 71) and began.kind == "incident"
    assert set(NAMES[::4]) <= set(ended.incident.streams)
    fleet, _ = plain()
    found = fleet.step(dict.fromkeys(fleet, FAULT), "2026-01-01T00:01")
    assert [each.kind for each in found.incidents] == ["incident"]
    (incident,) = fleet.incidents_
    assert (incident.start, incident.start_time) == (60, None)
    assert found.events[0].event.time == np.datetime64("2026-01-01T00:01")


def plain() -> tuple[Fleet, dict[str, Floats]]:
    """Return four streams without times that have seen some samples, and their histories."""
    rng = np.random.default_rng(0)
    histories = {f"s{at}": rng.normal(size=(300, 2)) for at in range(4)}
    fleet = Fleet(epochs=1, alarms_per_day=1).fit(histories)
    fleet.run({name: each[:60] for name, each in histories.items()})
    return fleet, histories


FAULT = (60.0, 60.0)


def test_streams_with_and_without_times_do_not_stop_each_other() -> None:
    rng = np.random.default_rng(0)
    fleet = Fleet()
    for at, name in enumerate(NAMES[:6]):
        fleet.add(name, fits(5)[at])
    for at in range(3):
        fleet.add(f"plain-{at}", Detector(epochs=1).fit(rng.normal(size=(300, 3))))
    tables = {name: each for name, each in live(5, 0, 60).items() if name in fleet}
    tables |= {
        f"plain-{at}": Table(rng.normal(size=(60, 3)), ("0", "1", "2"), None) for at in range(3)
    }
    for each in tables.values():
        each.values[50:] += 20.0
    found = fleet.run(tables)
    assert {each.stream for each in found.events if each.event.kind == "opened"} == set(tables)
    (incident,) = fleet.incidents_
    assert set(incident.streams) == set(NAMES[:6])


def test_a_stream_that_was_learned_anew_counts_again() -> None:
    """Its alarms are counted from 1 again; those of before are in their incident."""
    fleet, histories = plain()
    calm = {name: each[:60] for name, each in histories.items()}
    fleet.step(dict.fromkeys(fleet, FAULT))
    assert list(fleet.incidents_[0].streams.values()) == [1] * 4
    fleet.refit(histories)
    fleet.run(calm)
    fleet.step(dict.fromkeys(fleet, FAULT))
    assert list(fleet.incidents_[1].streams.values()) == [1] * 4
    fleet.remove("s0")
    fleet.refit({name: each for name, each in histories.items() if name != "s0"})
    fleet.add("s0", histories["s0"])
    fleet.run(calm)
    fleet.step(dict.fromkeys(fleet, FAULT))
    assert fleet.incidents_[2].streams["s0"] == 1
    assert [each.open for each in fleet.incidents_] == [False, False, True]
    fleet.fit(histories)
    assert fleet.incidents_ == []


def test_a_tracker_takes_another_period_and_keeps_the_incidents_of_streams_that_go() -> None:
    tracker = IncidentTracker(None)
    minute = np.timedelta64(1, "m")
    tracker.follow(minute)
    assert tracker.period == minute
    times = FIRST + np.array([0, 8, 16]) * minute
    openings = [Opening(f"s{at}", 1, int(time.astype(int)), time) for at, time in enumerate(times)]
    tracker.update(openings[:1], 3)
    tracker.follow(None)  # there are openings with times
    assert tracker.period == minute
    tracker.follow(np.timedelta64(5, "m"))
    (event,) = tracker.update(openings[1:], 3)
    assert list(event.incident.streams) == ["s0", "s1", "s2"]
    tracker = IncidentTracker(None)
    tracker.update([Opening(f"s{at}", 1, at) for at in range(3)], 3)
    assert tracker.update([Opening("s0", 1, 50)], 3) == []
    tracker.forget("s0")
    assert list(tracker.incidents[0].streams) == ["s0", "s1", "s2"]
    (ended,) = tracker.update([Opening("s0", 1, 50)], 3)
    assert ended.kind == "incident_ended"
    assert IncidentTracker.from_json(tracker.to_json()).incidents == tracker.incidents
