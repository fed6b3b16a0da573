"""Incidents: when alarms in several streams are one event of the fleet."""

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newnormal.errors import InputError, ParameterError, StateError
from newnormal.fleet import incidents
from newnormal.fleet.incidents import IncidentTracker, Opening
from newnormal.types import INCIDENT, INCIDENT_ENDED, Incident, IncidentEvent
from tests.naive_incidents import Found, events_of
from tests.present import present

MINUTE = np.timedelta64(1, "m")


def opened(*moments: int, first: int = 1) -> list[Opening]:
    """Return openings in as many streams, one at each of these moments."""
    return [Opening(f"s{at}", 1, moment) for at, moment in enumerate(moments, first)]


def timed(stream: str, alarm: int, text: str) -> Opening:
    time = np.datetime64(text, "ns")
    return Opening(stream, alarm, int(time.astype(np.int64)), time)


def found(events: Iterable[IncidentEvent]) -> list[Found]:
    return [
        (
            event.kind,
            event.incident.number,
            event.incident.start,
            event.incident.end,
            dict(event.incident.streams),
        )
        for event in events
    ]


def kinds(events: Iterable[IncidentEvent]) -> list[str]:
    return [event.kind for event in events]


def test_three_streams_within_five_periods_are_an_incident_and_a_tenth_of_a_large_fleet() -> None:
    (event,) = IncidentTracker(None).update(opened(0, 3, 5), 20)
    assert event.kind == INCIDENT
    assert event.incident == Incident(
        number=1,
        start=0,
        start_time=None,
        end=5,
        end_time=None,
        streams={"s1": 1, "s2": 1, "s3": 1},
        sentence="Alarms opened in 3 of 20 streams within 5 samples: s1, s2 and s3.",
    )
    assert IncidentTracker(None).update(opened(0, 0, 0, 0), 41) == []
    (event,) = IncidentTracker(None).update(opened(0, 0, 0, 0), 40)
    assert event.incident.sentence == (
        "Alarms opened in 4 of 40 streams at the same time: s1, s2, s3 and s4."
    )


def test_an_incident_in_time_has_times_and_names_three_streams() -> None:
    tracker = IncidentTracker(MINUTE)
    openings = [timed(f"web-{at}", at, f"2026-03-01T10:0{at % 5}") for at in range(1, 21)]
    events = tracker.update(openings, 50)
    (incident,) = tracker.incidents
    assert kinds(events) == [INCIDENT]
    assert incident.start_time == np.datetime64("2026-03-01T10:00", "ns")
    assert incident.end_time == np.datetime64("2026-03-01T10:04", "ns")
    assert incident.sentence == (
        "Alarms opened in 20 of 50 streams within 4 min: web-10, web-15, web-20 and 17 more."
    )


def test_it_ends_when_five_periods_passed_and_another_can_begin() -> None:
    tracker = IncidentTracker(None)
    tracker.update(opened(0, 1, 2), 10)
    assert tracker.advance(7) == []
    (ended,) = tracker.advance(8)
    assert (ended.kind, ended.incident.open) == (INCIDENT_ENDED, False)
    assert tracker.advance(9) == []
    (event,) = tracker.update([each._replace(alarm=2) for each in opened(20, 21, 22)], 10)
    assert (event.kind, event.incident.number, event.incident.open) == (INCIDENT, 2, True)
    assert [incident.open for incident in tracker.incidents] == [False, True]


def test_the_same_alarm_counts_once() -> None:
    tracker = IncidentTracker(None)
    assert tracker.update([*opened(0, 1), *opened(0, 1)], 10) == []
    assert tracker.update([Opening("s1", 1, 4)], 10) == []
    assert tracker.incidents == []


def test_a_late_opening_completes_an_incident_of_its_own_time() -> None:
    tracker = IncidentTracker(None)
    tracker.update([*opened(0, 2), Opening("s9", 1, 100)], 10)
    events = tracker.update([Opening("s3", 1, 1)], 10)
    assert kinds(events) == [INCIDENT, INCIDENT_ENDED]
    assert list(events[1].incident.streams) == ["s1", "s3", "s2"]


def test_a_late_opening_joins_what_was_reported() -> None:
    tracker = IncidentTracker(None)
    tracker.update(opened(3, 4, 5), 10)
    tracker.advance(50)
    assert tracker.update([Opening("late", 1, 0), Opening("later", 1, 9)], 10) == []
    (incident,) = tracker.incidents
    assert list(incident.streams) == ["late", "s1", "s2", "s3", "later"]
    assert (incident.start, incident.end, incident.open) == (0, 9, False)


def test_incidents_that_a_late_opening_connects_keep_their_numbers() -> None:
    tracker = IncidentTracker(None)
    tracker.update([*opened(0, 0, 0), *opened(8, 8, 8, first=4)], 10)
    assert tracker.update([Opening("late", 1, 4)], 10) == []
    first, second = tracker.incidents
    assert list(first.streams) == ["s1", "s2", "s3", "late"]
    assert list(second.streams) == ["s4", "s5", "s6"]


def test_an_incident_that_turns_out_to_go_on_is_reported_again() -> None:
    tracker = IncidentTracker(None)
    tracker.update(opened(0, 1, 2), 10)
    assert kinds(tracker.advance(8)) == [INCIDENT_ENDED]
    (event,) = tracker.update([Opening("late", 1, 6)], 10)
    assert (event.kind, event.incident.number, event.incident.open) == (INCIDENT, 1, True)
    assert kinds(tracker.advance(12)) == [INCIDENT_ENDED]


def test_an_incident_goes_on_when_its_start_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newnormal.fleet.incidents.MOST_OPENINGS", 4)
    tracker = IncidentTracker(None)
    tracker.update(opened(0, 0, 0), 10)
    for alarm in range(2, 12):
        assert tracker.update([Opening("s1", alarm, 5 * alarm - 5)], 10) == []
    incident = present(tracker.open)
    assert (incident.start, incident.end) == (0, 50)
    assert len(tracker.to_json()["openings"]) == 4
    assert tracker.update([Opening("too late", 1, 30)], 10) == []
    assert tracker.incidents == [incident]


MANY = settings(max_examples=200, deadline=None, derandomize=True)
OPENINGS = st.lists(
    st.builds(
        Opening,
        st.sampled_from([f"s{at}" for at in range(8)]),
        st.integers(1, 6),
        st.integers(0, 60),
        st.none(),
    ),
    max_size=30,
    unique_by=lambda each: (each.stream, each.alarm),
)


@MANY
@given(OPENINGS, st.integers(1, 60), st.randoms(use_true_random=False))
def test_in_one_call_it_equals_the_twin(openings: list[Opening], fleet: int, random: Any) -> None:
    expected = events_of(openings, fleet, now=100)
    shuffled = list(openings)
    random.shuffle(shuffled)
    tracker = IncidentTracker(None)
    assert found([*tracker.update(shuffled, fleet), *tracker.advance(100)]) == expected


@MANY
@given(OPENINGS, st.integers(1, 60), st.sets(st.integers(0, 60)))
def test_in_order_it_equals_the_twin(openings: list[Opening], fleet: int, cuts: set[int]) -> None:
    tracker = IncidentTracker(None)
    events: list[IncidentEvent] = []
    for begin, end in zip([-1, *sorted(cuts)], [*sorted(cuts), 61], strict=True):
        piece = [each for each in openings if begin < each.moment <= end]
        events += tracker.update(piece, fleet)
        tracker = IncidentTracker.from_json(json.loads(json.dumps(tracker.to_json())))
    events += tracker.advance(100)
    assert found(events) == events_of(openings, fleet, now=100)


@MANY
@given(OPENINGS, st.integers(1, 60), st.lists(st.integers(0, 30), max_size=5))
def test_openings_may_be_in_any_order(openings: list[Opening], fleet: int, cuts: list[int]) -> None:
    tracker = IncidentTracker(None)
    bounds = [0, *sorted(cuts), len(openings)]
    events = []
    for begin, end in pairwise(bounds):
        events += tracker.update(openings[begin:end], fleet)
    events += tracker.advance(100)
    ended = [each for each in events_of(openings, fleet, now=100) if each[0] == INCIDENT_ENDED]
    assert tracker.open is None
    # Two that were reported stay two where a late opening connects them.
    assert len(tracker.incidents) >= len(ended)
    for _, _, start, end, streams in ended:
        parts = [each for each in tracker.incidents if start <= each.start <= end]
        assert min(each.start for each in parts) == start
        assert max(each.end for each in parts) == end
        assert {name for each in parts for name in each.streams} == set(streams)


def test_an_event_comes_back_from_json() -> None:
    openings = [timed(f"web-{at}", at, f"2026-03-01T10:0{at}") for at in range(1, 4)]
    (event,) = IncidentTracker(MINUTE).update(openings, 12)
    text = event.to_json()
    assert IncidentEvent.from_dict(json.loads(text)) == event
    assert json.loads(text) == {
        "event": "incident",
        "incident": {
            "number": 1,
            "start": openings[0].moment,
            "start_time": "2026-03-01T10:01:00",
            "end": openings[2].moment,
            "end_time": "2026-03-01T10:03:00",
            "streams": {"web-1": 1, "web-2": 2, "web-3": 3},
            "open": True,
            "sentence": "Alarms opened in 3 of 12 streams within 2 min: web-1, web-2 and web-3.",
        },
    }


def test_past_incidents_are_the_newest_hundred_and_fewer_of_a_large_fleet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tracker = IncidentTracker(None)
    for at in range(120):
        tracker.update([Opening(name, at + 1, 20 * at) for name in "abc"], 10)
    assert [incident.number for incident in tracker.incidents] == list(range(20, 121))
    assert len(tracker.to_json()["incidents"]) == 101
    monkeypatch.setattr("newnormal.fleet.incidents.MOST_STREAMS", 10)
    tracker = IncidentTracker(None)
    for at in range(6):
        tracker.update([Opening(name, at + 1, 20 * at) for name in "abcd"], 10)
    assert [incident.number for incident in tracker.incidents] == [4, 5, 6]


def test_a_tracker_comes_back_from_json_with_times() -> None:
    tracker = IncidentTracker(MINUTE)
    tracker.update([timed(name, 1, "2026-03-01T10:00") for name in "abc"], 12)
    text = json.dumps(tracker.to_json(), sort_keys=True)
    twin = IncidentTracker.from_json(json.loads(text))
    assert twin.incidents == tracker.incidents
    assert twin.to_json() == tracker.to_json()
    later = [timed("d", 1, "2026-03-01T10:05")]
    assert twin.update(later, 12) == tracker.update(later, 12) == []
    assert twin.incidents == tracker.incidents


def test_openings_with_and_without_times_do_not_mix_and_a_period_is_above_zero() -> None:
    with pytest.raises(InputError, match=r"stream 's1', alarm 1: expected a time, found none"):
        IncidentTracker(MINUTE).update(opened(0), 10)
    with pytest.raises(InputError, match=r"expected no time, found 2026-03-01T10:00"):
        IncidentTracker(None).update([timed("a", 1, "2026-03-01T10:00")], 10)
    with pytest.raises(ParameterError, match="period: expected a time above zero"):
        IncidentTracker(np.timedelta64(0, "s"))


def changed(facts: dict[str, Any], path: Sequence[str | int], value: object) -> dict[str, Any]:
    twin: Any = json.loads(json.dumps(facts))
    part = twin
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = value
    return twin  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        (["period"], 0, "incidents.period: expected a whole number from 1"),
        (["period"], "1m", "incidents.period: expected a whole number"),
        (["count"], -1, "incidents.count: expected a whole number from 0"),
        (["count"], 0, "incidents.openings: expected rows of 5 whole numbers"),
        (["now"], 1, "incidents.now: expected at least 2"),
        (["now"], None, "incidents.now: expected at least 2"),
        (["forgotten"], 1, "incidents.forgotten: expected at most 0"),
        (["names"], ["a", "a", "a"], "incidents.names: expected different names"),
        (["names"], ["a"], "incidents.openings: expected rows of 5 whole numbers"),
        (["openings", 0], [0, 1, True, 10, 1], "incidents.openings: expected rows"),
        (["openings", 0, 2], 9, "incidents.openings: expected openings in the order of time"),
        (["openings", 1, 0], 0, "incidents.openings: expected different alarms"),
        (["openings"], 5, "incidents.openings: expected a list"),
        (["incidents", 0, "number"], 2, "incidents.incidents: expected different numbers up to 1"),
        (["incidents", 0, "start"], 1, r"incidents.incidents\[0\].start: expected that of the"),
        (["incidents", 0, "streams"], [], r"incidents.incidents\[0\].streams: expected different"),
        (["incidents", 0, "ended"], 0, r"incidents.incidents\[0\].ended: expected true or false"),
        (["incidents", 0, "other"], 0, r"incidents.incidents\[0\].other: not a fact"),
        (["other"], 0, "incidents.other: not a fact of this version"),
    ],
)
def test_nonsense_is_a_state_error(path: list[str | int], value: object, text: str) -> None:
    tracker = IncidentTracker(None)
    tracker.update(opened(0, 1, 2), 10)
    facts = tracker.to_json()
    assert IncidentTracker.from_json(facts).to_json() == facts
    with pytest.raises(StateError, match=text):
        IncidentTracker.from_json(changed(facts, path, value))


def test_more_past_incidents_than_kept_are_a_state_error(monkeypatch: pytest.MonkeyPatch) -> None:
    tracker = IncidentTracker(None)
    for at in range(3):
        tracker.update([Opening(name, at + 1, 20 * at) for name in "abc"], 10)
    monkeypatch.setattr(incidents, "MOST_PAST", 1)
    with pytest.raises(StateError, match="expected at most 1 that have ended"):
        IncidentTracker.from_json(tracker.to_json())
    with pytest.raises(StateError, match="expected a JSON object"):
        IncidentTracker.from_json([])
