"""Alarms as an operator meets them: one a fault, reported once, and none hides another."""

import json
import re

import numpy as np
import pytest

from newnormal import M2N2, Detector, Event, FeedbackError, Fixed
from newnormal.alarms.feedback_target import PAST
from newnormal.alarms.words import closed_text
from newnormal.types import Floats
from tests.errors import raised
from tests.plants import ACCEPT_AFTER, AT, CHANNELS, SIGMA, alarms_of, changes_of, fresh, plant
from tests.present import present

FLOW, LEVEL, POWER = range(3)


def events_of(live: Floats, detector: Detector | None = None) -> list[Event]:
    detector = detector or fresh()
    detector.run(live)
    return detector.take_events()


def spiky(size: float = 10.0, *, length: int = 2_000, channel: int = FLOW) -> Floats:
    live = plant(1, length)
    live[AT, channel] += size * SIGMA[channel]
    return live


@pytest.mark.parametrize("channel", range(3))
def test_spike_opens_one_alarm_that_names_its_channel_and_closes(channel: int) -> None:
    events = events_of(spiky(channel=channel))
    assert [event.kind for event in events] == ["opened", "closed"]
    assert events[0].sample == AT
    opened, closed = events[0].alarm, events[1].alarm
    assert opened is not None and closed is not None
    assert (opened.open, opened.reason) == (True, None)
    assert (closed.open, closed.reason) == (False, "back to normal")
    assert AT < events[1].sample <= AT + 60
    assert next(iter(opened.channels)) == CHANNELS[channel]


def test_quiet_stream_keeps_within_the_limit() -> None:
    days = 4
    events = events_of(plant(2, days * 1440))
    assert not [event for event in events if event.kind == "changed"]
    assert len([event for event in events if event.kind == "opened"]) <= days


def test_verdict_of_every_sample_comes_at_once() -> None:
    detector = fresh()
    for sample in plant(1, 30):
        (verdict,) = detector.step(sample)
        assert np.isfinite(verdict.score)
    assert detector.counters["pending"] == 0


def test_fault_in_another_channel_joins_the_alarm_and_is_reported() -> None:
    live = plant(1, 2_000)
    live[AT : AT + 60, LEVEL] += 3 * SIGMA[LEVEL]
    live[AT + 20, POWER] += 20 * SIGMA[POWER]
    opened, joined, closed = events_of(live)[:3]
    assert [opened.kind, joined.kind, closed.kind] == ["opened", "updated", "closed"]
    assert (opened.sample, joined.sample) == (AT, AT + 20)
    assert list(present(opened.alarm).channels) == ["level"]
    assert list(present(joined.alarm).channels) == ["power", "level"]


def test_alarm_of_hours_goes_on_as_a_change_and_a_later_fault_opens_another() -> None:
    live = plant(1, 3_000)
    live[AT:, FLOW] += 6 * SIGMA[FLOW]
    live[AT + 250, LEVEL] += 10 * SIGMA[LEVEL]
    events = events_of(live, fresh())
    closed = next(event for event in events if event.kind == "closed")
    assert closed.sample <= AT + 5 * ACCEPT_AFTER // 6, "after four reviews"
    assert closed.alarm is not None and closed.alarm.reason == "changed"
    assert closed.alarm.sentence.endswith("; goes on as change 1")
    assert closed_text(closed.alarm).endswith("; it goes on as change 1")
    opened = [event for event in events if event.kind == "opened"]
    assert [event.sample for event in opened][:2] == [AT, AT + 250]
    assert list(opened[1].alarm.channels) == ["level"]  # type: ignore[union-attr]


@pytest.mark.parametrize("every", [30, 60, 240])
def test_spikes_in_one_channel_do_not_delay_a_step_in_another(every: int) -> None:
    live = plant(1, 3_000)
    live[500:1_700:every, FLOW] += 10 * SIGMA[FLOW]
    step = 1_760
    live[step : step + 240, POWER] += 4 * SIGMA[POWER]
    told = [event for event in events_of(live) if event.kind in ("opened", "updated")]
    assert len([event for event in told if event.sample < step]) >= 3
    after = [event for event in told if event.sample >= step]
    assert after[0].sample <= step + 5
    assert "power" in after[0].alarm.channels  # type: ignore[union-attr]


@pytest.mark.parametrize(("size", "raised"), [(1.8, True), (10.0, False)])
def test_limit_rises_by_what_is_just_beyond_it_and_its_rise_is_bounded(
    size: float, raised: bool
) -> None:
    live = plant(1, 4_000)
    live[500:3_500:200, FLOW] += size * SIGMA[FLOW]
    detector = fresh()
    start = detector.alarm_threshold_
    assert detector.run(live).thresholds.min() >= start * (1 - 1e-9)
    own, *others = present(detector._state.channel).raised.tolist()
    assert (own > 1) == raised
    assert own <= 2 and max(others) <= 1.5


def test_detector_has_a_limit_of_one_alarm_a_day() -> None:
    found = [
        Detector(epochs=1, **options).fit(plant(0, 600)).alarm_rate_.limit_per_day
        for options in ({}, {"alarms_per_day": 3}, {"risk": 1 / 144}, {"threshold": 0.99})
    ]
    assert found == [1, 3, pytest.approx(10), pytest.approx(np.nan, nan_ok=True)]


def test_threshold_that_is_given_stays_where_it_is_put() -> None:
    detector = Detector(threshold=Fixed(3.0), epochs=1).fit(plant(0, 600))
    verdicts = detector.run(spiky())
    assert set(verdicts.thresholds.tolist()) == {3.0}
    np.testing.assert_array_equal(verdicts.anomalous, present(verdicts.ratios) >= 1)
    assert np.isnan(detector.alarm_rate_.limit_per_day)


def test_m2n2_keeps_its_quantile_and_has_no_alarms_of_its_own() -> None:
    detector = M2N2(window=5, epochs=1).fit(plant(0, 600))
    assert (
        detector.threshold_
        == M2N2(window=5, epochs=1, threshold=0.99).fit(plant(0, 600)).threshold_
    )
    assert np.isnan(detector.alarm_rate_.limit_per_day)
    verdicts = detector.run(plant(1, 200))
    assert verdicts.alarms is None
    assert verdicts.changes is None


@pytest.fixture(scope="module")
def story() -> list[Event]:
    """A spike, a shift that is accepted, one that is rejected and goes back, and an undo."""
    live = plant(1, 6_000)
    live[300, LEVEL] -= 10 * SIGMA[LEVEL]
    live[AT:, FLOW] += 6 * SIGMA[FLOW]
    live[3_000:3_400, POWER] -= 6 * SIGMA[POWER]
    detector = fresh()
    detector.run(live[:3_200])
    detector.reject()
    detector.run(live[3_200:5_000])
    detector.undo()
    detector.run(live[5_000:])
    return detector.take_events()


def test_kinds_of_events_and_what_each_is_about(story: list[Event]) -> None:
    kinds = {event.kind for event in story}
    assert kinds >= {"opened", "closed", "changed", "accepted", "rejected", "reverted"}
    assert "undone" in kinds
    for event in story:
        if event.kind in ("opened", "updated", "closed"):
            assert event.alarm is not None and event.change is None
        elif event.kind == "undone":
            assert event.alarm is None
        else:
            assert event.change is not None
            assert event.kind == "changed" or event.alarm is None


def test_events_are_in_order_and_a_change_names_the_alarm_it_began_with(story: list[Event]) -> None:
    samples = [event.sample for event in story]
    assert samples == sorted(samples)
    for found in (alarms_of(story, "opened"), changes_of(story, "changed")):
        assert [each.number for each in found] == list(range(1, len(found) + 1))
    changed = next(event for event in story if event.kind == "changed")
    assert changed.alarm is not None and changed.change is not None
    assert changed.alarm.number == changed.change.alarm == 2
    assert changed.change.start == changed.alarm.start == AT
    assert changed.sample > AT, "known later than it began"


def test_every_event_comes_back_from_its_json_form(story: list[Event]) -> None:
    for event in story:
        again = Event.from_dict(json.loads(event.to_json()))
        assert again.as_dict() == event.as_dict()
        assert (again.kind, again.change) == (event.kind, event.change)
        if event.alarm is None:
            assert again == event


def test_evidence_is_in_the_users_units_with_a_direction_and_a_sentence(story: list[Event]) -> None:
    alarm = alarms_of(story, "opened")[0]
    found = alarm.evidence[0]
    assert (found.channel, found.direction) == ("level", "low")
    assert found.observed == pytest.approx(plant(1, 301)[300, LEVEL] - 10 * SIGMA[LEVEL])
    assert -1 < present(found.low) < present(found.expected) < present(found.high) < 2
    assert alarm.sentence.startswith("level -2.")
    assert "expected" in alarm.sentence and alarm.sentence.endswith("; low")
    change = changes_of(story, "changed")[0]
    assert change.sentence == (
        f"flow from {change.before['flow']:.1f} to {change.after['flow']:.1f}, "
        f"above {plant(0, 2_000)[:, FLOW].max():.1f}, the most in history, since sample {AT}"
    )


def _coupled(seed: int, length: int) -> Floats:
    """Return a load, a temperature that follows it, and a disk."""
    noise = np.random.default_rng(seed).normal(0, 1, (length, 3))
    load = 50 + 4 * np.convolve(noise[:, 0], 0.9 ** np.arange(60))[:length]
    return np.stack([load, 35 + load / 2 + noise[:, 1] / 3, 40e9 + 1e8 * noise[:, 2]], axis=1)


def test_words_of_planted_faults_are_true() -> None:
    detector = Detector(epochs=1, units={"1": "°C", "2": "B"}).fit(_coupled(0, 3_000))

    def said(live: Floats) -> str:
        twin = detector.with_options()
        twin.run(live)
        return repr(twin.take_events())

    apart, stuck, full = (_coupled(1, 1_500) for _ in range(3))
    apart[1_000:1_400, 1] = _coupled(2, 400)[:, 1]
    stuck[1_000:1_400, 1] = 61.25
    full[1_000:1_020, 2] = 93.5e9
    assert re.search(r"1 [\d.]+ °C, within [\d.]+ to [\d.]+ °C, but does not follow 0", said(apart))
    assert "1 stands still at 61.3 °C since sample 1000" in said(stuck)
    expected = r"2 93\.5 GB, expected 39\.\d+ to 40\.\d+ GB; high for 20 samples"
    assert re.search(expected, said(full))
    assert "reverted: 2 stands still at 93.5 GB since sample 1000" in said(full)


def test_what_is_closed_says_closed(story: list[Event]) -> None:
    for alarm in alarms_of(story, "closed"):
        assert not alarm.open
        assert alarm.as_dict()["open"] is False
    for kind in ("accepted", "reverted"):
        for change in changes_of(story, kind):
            assert (change.state, change.open) == (kind, False)


def test_the_last_hundred_are_kept_as_they_closed_and_travel_with_the_state() -> None:
    detector = Detector(risk=0.05, accept_after="never", epochs=1).fit(plant(0, 600))
    live = plant(1, 20_000)
    live[::300, FLOW] += 30 * SIGMA[FLOW]
    live[150::300, LEVEL] += 30 * SIGMA[LEVEL]
    detector.run(live)
    assert len(detector.past_) == PAST == 100
    numbers = [each.number for each in detector.past_ if hasattr(each, "peak")]
    assert numbers[-1] > 100
    assert numbers == sorted(numbers)
    again = Detector.from_state(detector.to_state())
    assert [each.as_dict() for each in again.past_] == [each.as_dict() for each in detector.past_]
    detector = fresh()
    detector.run(spiky())
    (alarm,) = detector.past_
    assert not alarm.open
    assert detector.alarms_ == []


def test_feedback_without_anything_open_or_on_a_change_that_is_over_is_an_error() -> None:
    detector = fresh()
    detector.run(plant(1, 200))
    for act in ("accept", "reject"):
        assert str(raised(FeedbackError, getattr(detector, act))) == (
            f"expected an open change or alarm to {act}, found none\n"
            "hint: no alarm has opened so far; `newnormal undo` (undo()) undoes "
            "the newest acceptance"
        )
    assert str(raised(FeedbackError, detector.undo)) == (
        "expected an accepted new normal to go back from, found none since `fit`\n"
        "hint: `newnormal watch` with a new --state folder (reset()) goes back to what `fit` left"
    )
    live = plant(1, 2_500)
    live[AT:, FLOW] += 6 * SIGMA[FLOW]
    detector.run(live[: AT + 2 * ACCEPT_AFTER])
    assert detector.changes_ == []
    with pytest.raises(FeedbackError, match="expected an open change to accept, which is none"):
        detector.accept(change=1)


def test_feedback_on_an_alarm_or_a_change_that_is_not_known_changes_nothing() -> None:
    live = plant(1, 2_000)
    live[AT:, FLOW] += 6 * SIGMA[FLOW]
    detector = fresh()
    detector.run(live[: AT + 80])
    before = detector.to_state().facts
    assert str(raised(FeedbackError, lambda: detector.accept(7))) == (
        "expected the number of one of the last 100 alarms, found 7\n"
        "hint: open now: change 1, alarm 1; the only alarm is 1"
    )
    assert str(raised(FeedbackError, lambda: detector.reject(change=7))) == (
        "expected an open change to reject, which is 1, found change 7\n"
        "hint: open now: change 1, alarm 1; `newnormal undo` (undo()) undoes "
        "the newest acceptance"
    )
    assert detector.to_state().facts == before
    detector.reject(change=1)
    assert str(raised(FeedbackError, lambda: detector.reject(change=1))) == (
        "expected a pending change to reject, found change 1, which is rejected\n"
        "hint: it stays rejected until the stream is back"
    )
