"""Accepting adds: the old normal, the accepted one and the way between them are quiet."""

import numpy as np
import pytest

from newnormal import Detector, Event
from newnormal.types import Floats
from tests.plants import ACCEPT_AFTER, AT, SIGMA, alarms_of, changes_of, events_of, fresh, plant
from tests.present import present

FLOW, LEVEL, POWER = range(3)
SHIFT = 6 * SIGMA[FLOW]


def shifted(length: int = 3_000) -> Floats:
    live = plant(1, length)
    live[AT:, FLOW] += SHIFT
    return live


def openings(events: list[Event]) -> list[Event]:
    return [event for event in events if event.kind in ("opened", "changed")]


@pytest.fixture
def accepted() -> Detector:
    """A detector that a person told to accept a shift of the flow."""
    detector = fresh()
    detector.run(shifted()[: AT + 100])
    assert detector.accept() is detector
    events = detector.take_events()
    assert [each.channels for each in changes_of(events, "accepted")] == [("flow",)]
    assert detector.status_ == "normal"
    return detector


@pytest.mark.parametrize("stay", [20, 200, 1_000])
def test_old_and_new_level_and_jumps_between_them_are_quiet(accepted: Detector, stay: int) -> None:
    live = plant(3, 6_000)
    for at in range(0, len(live), 2 * stay):
        live[at : at + stay, FLOW] += SHIFT
    assert len(openings(events_of(accepted, live))) <= 1


@pytest.mark.parametrize("length", [1, 3, 10, 30, 100, 300])
def test_way_between_them_is_quiet(accepted: Detector, length: int) -> None:
    live = plant(3, 2_000)
    live[:500, FLOW] += SHIFT
    live[500 : 500 + length, FLOW] += np.linspace(SHIFT, 0, length)
    live[1_200 : 1_200 + length, FLOW] += np.linspace(0, SHIFT, length)
    live[1_200 + length :, FLOW] += SHIFT
    events = events_of(accepted, live)
    assert len(openings(events)) <= 2  # one on each way, just beyond the joint score's limit
    assert all(alarm.peak.ratio < 1.5 for alarm in alarms_of(events, "closed"))
    assert changes_of(events, "changed") == []


@pytest.mark.parametrize("channel", range(3))
def test_faults_are_found_at_the_accepted_level(accepted: Detector, channel: int) -> None:
    live = plant(3, 600)
    live[:, FLOW] += SHIFT
    live[400, channel] += 10 * SIGMA[channel]
    accepted.run(live[:400])
    accepted.take_events()
    assert alarms_of(events_of(accepted, live[400:]), "opened")


def test_level_beyond_the_accepted_one_is_another_change(accepted: Detector) -> None:
    live = plant(3, 600)
    live[:, FLOW] += SHIFT
    live[300:, FLOW] += SHIFT
    assert changes_of(events_of(accepted, live), "changed")


def test_undo_brings_the_change_back(accepted: Detector) -> None:
    live = shifted()
    accepted.run(live[AT + 100 : AT + 400])
    assert accepted.distance_ < 1
    accepted.take_events()
    assert accepted.undo() is accepted
    assert accepted.distance_ > 1
    events = events_of(accepted, live[AT + 400 : AT + 500])
    (undone,) = events
    change = present(undone.change)
    assert undone.kind == "undone" and [each.number for each in accepted.changes_] == [1]
    assert (change.number, change.start, change.state) == (1, AT, "pending")
    assert change.channels == ("flow",)
    assert change.after["flow"] - change.before["flow"] == pytest.approx(SHIFT, rel=0.2)
    assert accepted.status_ == "change pending"


def test_ten_acceptances_leave_a_detector_that_finds_faults_and_three_can_be_undone() -> None:
    detector = fresh()
    live = plant(4, 7_500)
    detector.run(live[:500])
    at, count = 500, 0
    for number in range(10):
        channel = number % 3
        live[at:, channel] += 4 * SIGMA[channel]  # each to a level where it never was
        detector.run(live[at : at + 100])
        for change in detector.changes_:
            detector.accept(change)
            count += 1
        detector.run(live[at + 100 : at + 400])
        at += 400
    assert count >= 10
    detector.take_events()
    for channel in range(3):
        part = live[at : at + 300].copy()
        part[200, channel] += 10 * SIGMA[channel]
        detector.run(part)
        at += 300
        opened = alarms_of(detector.take_events(), "opened")
        assert any(alarm.start >= at - 101 for alarm in opened), channel
    assert len(detector._state.undo) == 3


def nightly(nights: int) -> Floats:
    """A job in one channel, 12 samples long, every 500 samples."""
    live = plant(6, 500 * nights)
    for at in range(400, len(live), 500):
        live[at : at + 12, FLOW] += 4 * SIGMA[FLOW]
    return live


def test_accepted_alarm_that_is_over_does_not_open_again() -> None:
    live = nightly(8)
    ref, detector = fresh(), fresh()
    assert len(alarms_of(events_of(ref, live), "opened")) >= 6
    (first,) = alarms_of(events_of(detector, live[:500]), "opened")
    assert detector.alarms_ == []
    detector.accept(first.number)
    assert len(alarms_of(events_of(detector, live[500:]), "opened")) <= 2


def test_accepted_pattern_is_an_alarm_in_another_channel_where_it_is_worse_and_once_undone() -> (
    None
):
    live = nightly(4)
    detector = fresh()
    detector.run(live[:500])
    detector.accept(1)
    live[500:512, LEVEL] += 4 * SIGMA[LEVEL]
    live[1_100:1_112, FLOW] += 20 * SIGMA[FLOW]
    detector.take_events()
    starts = [alarm.start for alarm in alarms_of(events_of(detector, live[500:]), "opened")]
    assert any(500 <= at < 512 for at in starts)
    assert any(1_100 <= at < 1_112 for at in starts)
    live = nightly(4)
    detector = fresh()
    detector.run(live[:500])
    detector.accept(1)
    detector.undo()
    detector.take_events()
    assert alarms_of(events_of(detector, live[500:]), "opened")


def test_open_alarm_that_is_accepted_closes_for_that_reason() -> None:
    live = plant(1, 2_000)
    live[AT, FLOW] += 10 * SIGMA[FLOW]
    detector = fresh()
    detector.run(live[: AT + 2])
    (alarm,) = detector.alarms_
    detector.accept(alarm)
    (closed,) = alarms_of(detector.take_events(), "closed")
    assert (closed.number, closed.reason) == (alarm.number, "accepted")
    assert detector.status_ == "normal"


def test_acceptance_by_time_is_as_quiet_afterwards() -> None:
    detector = fresh()
    assert changes_of(events_of(detector, shifted(AT + 2 * ACCEPT_AFTER)), "accepted")
    live = plant(3, 6_000)
    for at in range(0, len(live), 800):
        live[at : at + 400, FLOW] += SHIFT
    assert len(openings(events_of(detector, live))) <= 2  # in four days
