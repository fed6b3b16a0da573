"""The machines of the demo: the same every time, and something to see within a minute."""

import warnings
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from newnormal import Detector, NewnormalWarning
from newnormal.arrivals.arrival import Arrival
from newnormal.engine.values import COLLECTING, FITTING, LIVE, StreamView
from newnormal.errors import StateError
from newnormal.fleet.incidents import IncidentTracker, Opening
from newnormal.service.config import ServiceConfig
from newnormal.service.demo import HISTORY, MACHINES, SPEED, DemoSender, Simulation, demo_config
from newnormal.tabular import Table
from newnormal.types import Event
from tests.waiting import until

MINUTE = 60 * 10**9
NOW = 1_800_000_000 * 10**9
SECONDS = 20  # after the story has begun


class Taken:
    """A service that takes samples, and is live as soon as it is told."""

    def __init__(self) -> None:
        self.store = self.settings = self
        self.kept: dict[str, Any] = {}
        self.arrivals: list[Arrival] = []
        self.state = COLLECTING
        self.busy = False

    def get(self, space: str, name: str) -> Any:
        return self.kept.get(f"{space}/{name}")

    def put(self, space: str, name: str, value: Any) -> None:
        self.kept[f"{space}/{name}"] = value

    def push(self, arrivals: Sequence[Arrival]) -> Future[int]:
        if self.busy:
            raise StateError("the disk is full")
        self.arrivals += arrivals
        done: Future[int] = Future()
        done.set_result(1)
        return done

    def stream_named(self, name: str) -> StreamView | None:
        own = [each for each in self.arrivals if each.stream == name]
        if not own:
            return None
        return StreamView(1, name, self.state, newest=int(own[-1].times[-1]))


def test_the_same_seed_gives_the_same_samples_however_they_are_asked_for() -> None:
    whole = Simulation(0).arrivals(100, 400)
    parts = [Simulation(0).arrivals(first, 80) for first in range(100, 500, 80)]
    for number, each in enumerate(whole):
        pieces = [part[number] for part in parts]
        assert np.array_equal(each.values, np.concatenate([piece.values for piece in pieces]))
        assert np.array_equal(each.times, np.concatenate([piece.times for piece in pieces]))
    other = Simulation(0, seed=1).arrivals(100, 400)
    assert not np.array_equal(whole[0].values, other[0].values)


def test_there_are_twenty_machines_with_names_of_their_own() -> None:
    arrivals = Simulation(0).arrivals(0, 1)
    assert len({each.stream for each in arrivals}) == len(MACHINES) == 20
    assert all(3 <= len(each.channels) <= 5 for each in arrivals)


@pytest.fixture(scope="module")
def story() -> dict[str, list[Event]]:
    """Return what detectors report of each machine in the seconds after the story began."""
    config = demo_config(ServiceConfig())
    simulation = Simulation(NOW)
    simulation.story = HISTORY + 60
    history = simulation.arrivals(0, HISTORY)
    live = simulation.arrivals(HISTORY, 60 + SECONDS * int(SPEED))
    found = {}
    for before, after in zip(history, live, strict=True):
        settings = config.for_stream(before.stream)
        detector = Detector(
            alarms_per_day=settings.alarms_per_day, accept_after=settings.accept_after
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NewnormalWarning)
            detector.fit(_table(before)).track_alarms()
        detector.run(_table(after), flush=False)
        found[before.stream] = list(detector.take_events())
    return found


def _table(arrival: Arrival) -> Table:
    return Table(arrival.values, arrival.channels, arrival.times.view("M8[ns]"))


def _kinds(events: Sequence[Event]) -> list[str]:
    return [each.kind for each in events]


def test_within_seconds_there_is_an_alarm(story: dict[str, list[Event]]) -> None:
    assert "opened" in _kinds(story["hall-1/press-12"])


def test_a_change_is_accepted_and_another_waits(story: dict[str, list[Event]]) -> None:
    assert "accepted" in _kinds(story["hall-1/oven-14"])
    assert "changed" in _kinds(story["hall-1/pump-15"])
    assert "accepted" not in _kinds(story["hall-1/pump-15"])


def test_there_is_an_incident_across_the_machines_of_a_hall(story: dict[str, list[Event]]) -> None:
    tracker = IncidentTracker(np.timedelta64(1, "m"))
    openings = [
        Opening(name, event.alarm.number, int(event.alarm.start), None)
        for name, events in story.items()
        for event in events
        if event.kind == "opened" and event.alarm is not None
    ]
    moments = [
        each._replace(moment=moment, time=np.datetime64(moment, "ns"))
        for each in sorted(openings, key=lambda each: each.moment)
        for moment in [NOW + (HISTORY + each.moment) * MINUTE]
    ]
    incidents = [
        event.incident for event in tracker.update(moments, 20) if event.kind == "incident"
    ]
    assert any(
        {f"hall-2/{name}" for name in ("pump-21", "pump-22", "mixer-23", "mixer-24", "oven-25")}
        <= set(each.streams)
        for each in incidents
    )


def test_history_comes_fast_then_it_waits_for_the_fits_then_the_story_begins() -> None:
    service: Any = Taken()
    demo = DemoSender(service, clock=lambda: NOW)
    while demo.minute < HISTORY:
        assert demo.step() < 0.5
    assert demo.minute == HISTORY
    service.state = FITTING
    demo.step()
    assert demo.minute == HISTORY + 1
    assert not demo.ready()
    service.state = LIVE
    assert demo.ready()
    demo.begin_story()
    assert demo.simulation.story == demo.minute
    demo.step()
    assert demo.minute > HISTORY + 2


def test_what_is_refused_comes_again() -> None:
    service: Any = Taken()
    demo = DemoSender(service, clock=lambda: NOW)
    service.busy = True
    assert demo.step() >= 1
    assert demo.minute == 0
    service.busy = False
    demo.step()
    assert service.arrivals[0].times[0] == demo.simulation.begin


def test_the_times_reach_now_within_five_minutes() -> None:
    service: Any = Taken()
    demo = DemoSender(service, clock=lambda: NOW)
    demo.minute, demo.simulation.story = HISTORY, HISTORY
    seconds = 0.0
    while demo.simulation.begin + demo.minute * MINUTE < NOW:
        seconds += demo.step()
    assert 60 < seconds < 300


def test_the_times_end_at_now_and_go_on_in_real_time() -> None:
    service: Any = Taken()
    now = [NOW]
    demo = DemoSender(service, clock=lambda: now[0])
    demo.minute = (NOW - demo.simulation.begin) // MINUTE - 1
    demo.step()
    assert service.arrivals[-1].times[-1] <= NOW
    pushed = len(service.arrivals)
    assert demo.step() == 1.0
    assert len(service.arrivals) == pushed
    now[0] += MINUTE
    demo.step()
    assert len(service.arrivals) == pushed + 20


def test_a_second_start_goes_on_where_the_first_ended() -> None:
    service: Any = Taken()
    first = DemoSender(service, clock=lambda: NOW)
    for _ in range(20):
        first.step()
    first.begin_story()
    second = DemoSender(service, clock=lambda: NOW + 5 * MINUTE)
    assert second.minute == first.minute
    assert second.simulation.begin == first.simulation.begin
    assert second.simulation.story == first.simulation.story


def test_it_pushes_from_a_thread_of_its_own_until_it_is_stopped() -> None:
    service: Any = Taken()
    demo = DemoSender(service, clock=lambda: NOW)
    demo.start()
    until(lambda: service.arrivals, "the first samples")
    demo.stop()
    assert demo.minute == min(len(service.arrivals) // 20 * 96, demo.minute) > 0


def test_the_settings_of_the_demo_leave_those_of_the_user() -> None:
    config = demo_config(replace(ServiceConfig(), port=9000))
    assert config.demo
    assert config.port == 9000
    assert config.for_stream("hall-1/press-11").history == HISTORY
    assert config.for_stream("another").history == 1000
