"""Several changes, alarms and decisions at once: none of them decides about another."""

import numpy as np
import pytest

from newnormal import Detector
from newnormal.types import Change, Floats
from tests.plants import AT, SIGMA, alarms_of, changes_of, events_of, fresh, minutes, plant

FLOW, LEVEL, POWER = range(3)
NAMES = ("flow", "level", "power")


def moved(*shifts: tuple[int, int, float], seed: int = 1, length: int = 4_000) -> Floats:
    """A plant whose channels move by so many standard deviations from some samples on."""
    live = plant(seed, length)
    for at, channel, size in shifts:
        live[at:, channel] += size * SIGMA[channel]
    return live


def the_change(detector: Detector, channel: int) -> Change:
    (found,) = [each for each in detector.changes_ if each.channels == (NAMES[channel],)]
    return found


@pytest.mark.parametrize("rejected", [True, False])
def test_accepting_one_change_does_not_accept_another(rejected: bool) -> None:
    detector = fresh()
    live = moved((AT, FLOW, 6.0), (AT + 100, LEVEL, 5.0))
    detector.run(live[: AT + 200])
    if rejected:
        detector.reject(the_change(detector, FLOW))
    detector.accept(the_change(detector, LEVEL))
    assert [each.channels for each in detector.changes_] == [("flow",)]
    detector.run(live[AT + 200 : AT + 260])
    live[AT + 260 :, FLOW] -= 6 * SIGMA[FLOW]  # repaired
    detector.run(live[AT + 260 : AT + 700])
    assert detector.changes_ == []
    detector.take_events()
    live[AT + 700 :, FLOW] += 6 * SIGMA[FLOW]  # and again
    detector.run(live[AT + 700 : AT + 820])  # 60 samples where it never was, and a review
    events = detector.take_events()
    assert [each.channels for each in changes_of(events, "changed")] == [("flow",)]


@pytest.mark.parametrize("channel", range(3))
def test_a_change_names_the_channel_that_moved_alone(channel: int) -> None:
    detector = fresh()
    detector.run(moved((AT, channel, 6.0))[: AT + 150])
    assert [each.channels for each in detector.changes_] == [(NAMES[channel],)]


def test_a_pattern_that_is_accepted_while_it_lasts_does_not_hide_other_channels() -> None:
    detector = fresh()
    live = plant(1, 3_000)
    live[AT, FLOW] += 10 * SIGMA[FLOW]
    detector.run(live[: AT + 4])
    assert detector.alarm_ is not None
    detector.accept(detector.alarm_)
    detector.take_events()
    live[2_000:2_010, POWER] -= 6 * SIGMA[POWER]
    opened = alarms_of(events_of(detector, live[AT + 4 :]), "opened")
    assert ["power"] in [list(alarm.channels) for alarm in opened if 2_000 <= alarm.start < 2_010]


def test_two_accepted_changes_may_come_back_together() -> None:
    detector = fresh()
    live = moved((AT, FLOW, 6.0), (AT + 400, POWER, 6.0), length=5_000)
    for since, until in ((0, AT + 100), (AT + 100, AT + 500)):
        detector.run(live[since:until])
        (change,) = detector.changes_
        detector.accept(change)
    live[1_800:2_400, [FLOW, POWER]] -= 6 * SIGMA[[FLOW, POWER]]  # back, and there again
    detector.run(live[AT + 500 : 1_800])
    detector.take_events()
    assert changes_of(events_of(detector, live[1_800:3_000]), "changed") == []


@pytest.mark.parametrize("size", [15.0, 60.0, 1_000.0])
def test_a_level_far_out_is_reported_as_it_is_and_accepted_for_good(size: float) -> None:
    detector = fresh()
    live = moved((AT, FLOW, size))
    detector.run(live[: AT + 250])
    detector.accept()
    (accepted,) = changes_of(detector.take_events(), "accepted")
    found = (accepted.after["flow"] - accepted.before["flow"]) / SIGMA[FLOW]
    assert found == pytest.approx(size, rel=0.1)
    live[1_900:2_200, FLOW] -= size * SIGMA[FLOW]
    assert changes_of(events_of(detector, live[AT + 250 : 2_600]), "changed") == []


def test_after_an_undo_the_stream_is_away_from_the_old_normal() -> None:
    detector = fresh()
    live = moved((AT, FLOW, 6.0))
    detector.run(live[: AT + 150])
    detector.accept()
    detector.run(live[AT + 150 : AT + 500])
    detector.take_events()
    detector.undo()
    detector.run(live[AT + 500 : AT + 700])
    (change,) = detector.changes_
    assert change.channels == ("flow",)
    gone = (change.after["flow"] - change.before["flow"]) / SIGMA[FLOW]
    assert 2 < gone < 8
    live[AT + 700 :, FLOW] -= 6 * SIGMA[FLOW]
    detector.run(live[AT + 700 : AT + 1_000])
    assert detector.changes_ == []


def test_a_ninth_change_joins_the_newest_pending_one() -> None:
    rng = np.random.default_rng(0)
    history = rng.normal(size=(2_000, 10))
    detector = Detector(epochs=1, accept_after=100_000).fit(history)
    live = rng.normal(size=(3_000, 10))
    for channel in range(10):
        live[200 + 200 * channel :, channel] += 8
    detector.run(live[:1_800])
    assert len(detector.changes_) == 8
    first = detector.changes_[0]
    detector.reject(first)
    detector.run(live[1_800:2_400])
    states = {each.number: each.state for each in detector.changes_}
    assert states[first.number] == "rejected"
    assert len(states) == 8
    named = {name for each in detector.changes_ for name in each.channels}
    assert len(named) == 10


def test_a_second_missing_channel_is_reported_and_the_first_closes_with_it() -> None:
    detector = fresh()
    live = plant(1, 2_000)
    live[500:600, FLOW] = np.nan
    live[550:700, POWER] = np.nan
    events = [e for e in events_of(detector, live) if e.alarm and e.alarm.cause == "silence"]
    assert [event.kind for event in events] == ["opened", "updated", "closed"]
    opened, updated, closed = (event.alarm for event in events)
    assert opened is not None and updated is not None and closed is not None
    assert set(opened.channels) == {"flow"}
    assert set(updated.channels) == {"flow", "power"}
    assert (closed.start, closed.end) == (500, 699)


def test_an_input_that_starts_anew_has_no_gap() -> None:
    detector = fresh(timed=True)
    live = plant(1, 600)
    detector.run(live[:300], times=minutes(300))
    detector.restart()
    detector.run(live[300:], times=minutes(300, start=9_000))
    assert [e for e in detector.take_events() if e.alarm and e.alarm.cause == "silence"] == []
