"""Silence: no sample, nothing but missing values, or a channel missing that never was."""

from typing import Any

import numpy as np
import pytest

from newnormal import Detector, Event
from newnormal.types import Floats, Times
from tests.plants import AT, CHANNELS, SIGMA, fresh, minutes, plant

LENGTH = 1_500
FLOW = 0


def of_silence(events: list[Event]) -> list[Event]:
    return [event for event in events if event.alarm and event.alarm.cause == "silence"]


def with_gap(gap: int) -> tuple[Floats, Times]:
    """A stream whose samples from AT on come so many minutes later than they should."""
    times = minutes(LENGTH)
    times[AT:] += np.timedelta64(gap, "m")
    return plant(1, LENGTH), times


def events_of(live: Floats, times: Any = None) -> tuple[list[Event], Detector]:
    detector = fresh(timed=times is not None)
    detector.run(live, times=times)
    return detector.take_events(), detector


def test_gap_is_an_alarm_that_is_opened_and_closed_at_the_next_sample() -> None:
    live, times = with_gap(30)
    found, _ = events_of(live, times)
    opened, closed = of_silence(found)
    assert [opened.kind, closed.kind] == ["opened", "closed"]
    assert opened.sample == closed.sample == AT
    assert opened.time == closed.time == times[AT]
    alarm = closed.alarm
    assert alarm is not None
    assert (alarm.reason, alarm.open) == ("values again", False)
    assert (alarm.start_time, alarm.end_time) == (times[AT - 1], times[AT])
    assert alarm.sentence == "no sample for 31 min, expected one every 60 s"


@pytest.mark.parametrize(("gap", "silent"), [(0, False), (4, False), (5, True), (6, True)])
def test_gap_of_more_than_five_periods_is_silence(gap: int, silent: bool) -> None:
    live, times = with_gap(gap)
    found, _ = events_of(live, times)
    assert bool(of_silence(found)) == silent


@pytest.mark.parametrize(("seconds", "silent"), [(55, False), (61, True)])
def test_gap_of_a_minute_is_silence_however_fast_the_samples(seconds: int, silent: bool) -> None:
    times = np.datetime64("2026-01-01", "ns") + np.arange(900) * np.timedelta64(1, "s")
    detector = Detector(epochs=1).fit(plant(0, 600), times=times[:600])
    times[700:] += np.timedelta64(seconds - 1, "s")
    detector.run(plant(1, 300), times=times[600:])
    assert bool(of_silence(detector.take_events())) == silent


def test_without_times_no_gap_is_known() -> None:
    live, _ = with_gap(30)
    found, _ = events_of(live)
    assert of_silence(found) == []


@pytest.mark.parametrize("timed", [False, True])
def test_nothing_but_missing_values_is_an_alarm_until_they_are_there_again(timed: bool) -> None:
    live = plant(1, LENGTH)
    live[AT : AT + 60] = np.nan
    found, _ = events_of(live, minutes(LENGTH) if timed else None)
    opened, closed = of_silence(found)
    assert (opened.kind, opened.sample) == ("opened", AT + 5)
    assert (closed.kind, closed.sample) == ("closed", AT + 60)
    assert opened.alarm is not None and closed.alarm is not None
    assert opened.alarm.start == closed.alarm.start == AT
    assert {each.channel for each in opened.alarm.evidence} == set(CHANNELS)
    assert {each.direction for each in opened.alarm.evidence} == {"missing"}
    length = "59 min" if timed else "60 samples"
    assert opened.alarm.sentence == f"{', '.join(CHANNELS)} missing"
    assert closed.alarm.sentence == f"{', '.join(CHANNELS)} missing for {length}"


def test_silence_of_samples_without_times_ends_alike_in_a_run_and_in_steps() -> None:
    """At the last time that is known, in whatever pieces the samples come."""
    live, times = plant(1, 100), minutes(100)
    live[50:62] = np.nan
    at_once, in_steps = fresh(timed=True), fresh(timed=True)
    at_once.run(live[:50], times=times[:50])
    at_once.run(live[50:])
    for row in range(100):
        in_steps.step(live[row], times[row] if row < 50 else None)
    found = of_silence(at_once.take_events())
    assert [event.kind for event in found] == ["opened", "closed"]
    assert found == of_silence(in_steps.take_events())
    assert found[1].alarm is not None and found[1].alarm.end_time == times[49]


def test_a_few_missing_values_or_a_channel_that_history_misses_are_no_alarm() -> None:
    live = plant(1, LENGTH)
    live[AT : AT + 5] = np.nan
    live[AT + 100 : AT + 105, 2] = np.nan
    live[::7, 0] = np.nan
    found, _ = events_of(live)
    assert of_silence(found) == []
    history = plant(0, 1_000)
    history[100:110, 1] = np.nan
    detector = Detector(epochs=1).fit(history)
    live = plant(1, 300)
    live[100:150, 1] = np.nan
    detector.run(live)
    assert of_silence(detector.take_events()) == []
    live[100:150] = np.nan
    detector.run(live)
    assert of_silence(detector.take_events()), "all of them is another thing"


def test_silence_does_not_count_against_the_limit() -> None:
    live, times = plant(1, LENGTH), minutes(LENGTH)
    for at in range(200, 900, 50):
        times[at:] += np.timedelta64(10, "m")
    detector = fresh(timed=True)
    start = detector.alarm_threshold_
    detector.run(live, times=times)
    opened = [event for event in of_silence(detector.take_events()) if event.kind == "opened"]
    assert len(opened) == 14
    assert detector.alarm_threshold_ == start


def test_open_silence_is_one_of_the_alarms_and_hides_no_fault() -> None:
    live = plant(1, LENGTH)
    live[AT:, 2] = np.nan
    live[AT + 100, FLOW] += 10 * SIGMA[FLOW]
    detector = fresh()
    detector.run(live[: AT + 50])
    assert detector.status_ == "in alarm"
    assert [alarm.cause for alarm in detector.alarms_] == ["silence"]
    detector.run(live[AT + 50 : AT + 102])
    assert [alarm.cause for alarm in detector.alarms_] == ["silence", "score"]
    one, other = detector.alarms_
    assert other.number == one.number + 1
    assert detector.alarm_ == other


def test_open_silence_travels_with_the_state() -> None:
    live = plant(1, LENGTH)
    live[AT : AT + 60] = np.nan
    times = minutes(LENGTH)
    whole, _ = events_of(live, times)
    detector = fresh(timed=True)
    events: list[Event] = []
    for begin, end in ((0, AT + 3), (AT + 3, AT + 40), (AT + 40, LENGTH)):
        detector.run(live[begin:end], times=times[begin:end], flush=False)
        events += detector.take_events()
        detector = Detector.from_state(detector.to_state())
    assert [event.to_json() for event in events] == [event.to_json() for event in whole]
