"""Streams that made a detector deaf or untrue: a channel far out, dead, or where it never was."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import newnormal
from newnormal import Detector, datasets
from newnormal.alarms.log import _evidence
from newnormal.kernels.decision import AGE, GAP, GAPS, follow
from newnormal.metrics import trace_alarms
from newnormal.tabular import to_table
from newnormal.texts import number_text
from newnormal.types import Alarm, Event, Evidence, Floats, time_text
from tests.plants import (
    AT,
    CHANNELS,
    SIGMA,
    alarms_of,
    changes_of,
    events_of,
    fresh,
    minutes,
    plant,
)
from tests.present import present

FLOW, LEVEL, POWER = range(3)


def evidence_of(events: list[Event], channel: int) -> list[tuple[int, Evidence]]:
    """Return what the alarms of events show of a channel, with the sample of each event."""
    return [
        (event.sample, part)
        for event in events
        if event.alarm and event.kind in ("opened", "updated", "closed")
        for part in event.alarm.evidence
        if part.channel == CHANNELS[channel] and part.ratio is not None
    ]


def assert_true(parts: list[tuple[int, Evidence]], at: int, normal: Floats, how: str) -> None:
    """Assert that a fault from a sample on is told at once, with its direction and normal value."""
    assert parts[0][0] <= at + 1
    for _, part in parts:
        assert part.direction == how
        assert present(part.low) <= normal[present(part.sample)] <= present(part.high)


@pytest.mark.parametrize("accepted", [False, True])
@pytest.mark.parametrize("size", [30.0, 1e4, 1e7])
def test_channel_held_far_out_hides_no_fault_of_another(size: float, accepted: bool) -> None:
    detector, live, at = fresh(), plant(1, 2_000), AT + (600 if accepted else 30)
    normal = live[:, POWER].copy()
    live[AT:, FLOW] = 20 + size * SIGMA[FLOW]
    live[at : at + 30, POWER] -= 12 * SIGMA[POWER]
    detector.run(live[: AT + 20])
    if accepted:
        detector.run(live[AT + 20 : AT + 200])
        detector.accept()
    detector.run(live[AT + (200 if accepted else 20) : at])
    detector.take_events()
    assert_true(evidence_of(events_of(detector, live[at : at + 60]), POWER), at, normal, "low")


@pytest.mark.parametrize(
    ("channel", "value"), [(0, 9_999_999.0), (1, 9_999_999.0), (2, 2.0**32 - 1), (0, -1e300)]
)
def test_hour_of_9999999_is_one_alarm_and_leaves_nothing_behind(
    channel: int, value: float, tmp_path: Path
) -> None:
    normal, other = plant(1, 2_000), (channel + 1) % 3
    ref = fresh().run(normal)
    live, again = normal.copy(), AT + 300
    live[AT : AT + 60, channel] = value
    live[again : again + 30, channel] += 8 * SIGMA[channel]
    detector = fresh()
    first = detector.run(live[: AT + 30], flush=False)
    detector.save(tmp_path / "plant.nn")
    detector = Detector.load(tmp_path / "plant.nn")
    rest = detector.run(live[AT + 30 :])
    events = detector.take_events()
    opened, closed = alarms_of(events, "opened"), alarms_of(events, "closed")
    assert [(each.start, list(each.channels)) for each in opened] == [
        (AT, [CHANNELS[channel]]),
        (again, [CHANNELS[channel]]),
    ]
    assert [each.end for each in closed] == [AT + 59, again + 29]
    assert [each.kind for each in changes_of(events, "changed")] == ["still"]
    assert detector.changes_ == []
    found = [part for part in evidence_of(events, channel) if part[0] >= again]
    assert_true(found, again, normal[:, channel], "high")
    assert first.expected is not None and rest.expected is not None and ref.expected is not None
    comp = np.concatenate([first.expected, rest.expected])
    np.testing.assert_array_equal(comp[:, other], ref.expected[:, other])
    assert np.abs(comp - ref.expected)[AT + 90 : again, channel].max() < 0.01 * SIGMA[channel]


@pytest.mark.parametrize("until", [AT + 400, 2_000])
@pytest.mark.parametrize("channel", range(3))
def test_dead_sensor_costs_no_alarm_of_others_and_hides_none(channel: int, until: int) -> None:
    detector, live, other = fresh(timed=True), plant(2, 2_000), (channel + 1) % 3
    normal, at = live[:, other].copy(), AT + 200
    live[AT:until, channel] = np.nan
    live[at : at + 30, other] += 8 * SIGMA[other]
    detector.run(live, times=minutes(2_000))
    events = detector.take_events()
    (dead, fault) = alarms_of(events, "opened")
    assert (dead.cause, dead.sentence) == ("silence", f"{CHANNELS[channel]} missing")
    samples = {event.kind: event.sample for event in events if event.alarm == dead}
    assert samples == {"opened": AT + 5}
    ends = [each.end for each in alarms_of(events, "closed") if each.cause == "silence"]
    assert ends == ([until - 1] if until < len(live) else [])
    assert (fault.start, list(fault.channels)) == (at, [CHANNELS[other]])
    assert_true(evidence_of(events, other), at, normal, "high")
    assert changes_of(events, "changed") == []


def test_faults_in_history_are_named_by_check_and_by_fit() -> None:
    history = plant(3, 3_000)
    normal = history.copy()
    table = to_table(history, times=minutes(3_000), channels=CHANNELS)
    assert "faults" not in {finding.code for finding in newnormal.check(table).findings}
    planted = {300: FLOW, 800: LEVEL, 1_300: POWER, 1_800: FLOW, 2_500: POWER}
    for at, channel in planted.items():
        history[at : at + 20, channel] += (9 if channel == LEVEL else -7) * SIGMA[channel]
    (finding,) = [each for each in newnormal.check(table).findings if each.code == "faults"]
    assert (finding.level, finding.option) == ("warning", "write NaN there unless it is normal")
    assert finding.sentence.startswith("5 likely faults in history: ")
    pattern = r"'(\w+)' (\S+) at sample (\d+) \((\S+)\), expected (\S+) to (\S+)"
    named = re.findall(pattern, finding.sentence.replace(";", " "))
    assert {int(sample): name for name, _, sample, *_ in named} == {
        at: CHANNELS[channel] for at, channel in planted.items()
    }
    for name, observed, sample, time, low, high in named:
        at, channel = int(sample), CHANNELS.index(name)
        assert time == time_text(minutes(3_000)[at])
        assert float(observed) == pytest.approx(history[at, channel], rel=0.01)
        assert float(low) < normal[at, channel] < float(high)
    assert finding.sentence in " ".join(Detector(epochs=1).fit(table).explain().split())


def test_machine_that_cools_for_hours_is_told_with_what_history_had_least() -> None:
    """The story of NAB's machine temperature: down to 27 in 33 hours, and there for 40 more."""
    day, fit, fall, stay = 288, 12 * 288, 14 * 288, 14 * 288 + 33 * 12  # samples of 5 minutes
    noise = np.random.default_rng(2).normal(size=(2, stay + 40 * 12))
    wander = np.convolve(noise[0], 0.7 * 0.995 ** np.arange(2_000))[: noise.shape[1]]
    wander += np.convolve(noise[1], 0.5 * 0.8 ** np.arange(50))[: noise.shape[1]]
    values = 85 + wander
    values[fall:stay] = np.linspace(values[fall - 1], 27, stay - fall) + wander[fall:stay] / 8
    values[stay:] = 27 + wander[stay:] / 8
    times = minutes(5 * len(values))[::5]
    detector = Detector().fit(
        to_table(values[:fit, None], times=times[:fit], channels=["temperature"])
    )
    detector.run(values[fit:, None], times=times[fit:])
    events = detector.take_events()
    (alarm,), (change,) = alarms_of(events, "opened"), changes_of(events, "changed")
    assert fall < fit + alarm.start < fall + day and alarm.evidence[0].direction == "low"
    least, most = values[:fit].min(), values[:fit].max()
    outside = fall + int(np.argmax(values[fall:] < least - (most - least) / 10))
    (told,) = [event.sample + fit for event in events if event.kind == "changed"]
    assert outside + 60 <= told <= outside + 120
    assert change.start == alarm.start and change.kind == "never"
    assert f"below {number_text(least)}, the least in history, since" in change.sentence


def test_a_plant_whose_normal_changes_twice_rings_no_more_than_its_limit() -> None:
    """A cycle that got faster is hardly beyond the limit of its level: that raises the limit."""
    data = datasets.plant()
    detector = Detector(alarms_per_day=1).fit(data.train)
    events: list[Event] = []
    for start in range(0, len(data.test), 1000):
        detector.run(data.test[start : start + 1000], flush=False)
        events += detector.take_events()
    counts = trace_alarms(events, len(data.test)).count(data.labels, samples_per_day=1440)
    opened = [event.sample for event in events if event.kind == "opened"]
    labels = data.labels.copy()
    labels[list(data.shifts)] = 1  # an alarm there says what is true: normal has changed
    false = [at for at in opened if not labels[max(at - 10, 0) : at + 6].any()]
    assert len(false) <= counts.days
    assert len(counts.delays) >= 0.9 * counts.events


def test_an_expected_value_that_differs_by_rounding_makes_no_long_numbers() -> None:
    detector = fresh()
    log = present(detector._state.log)
    log.channels[0], log.evidence[:, 0] = 0, (1.0, 1 + 2**-52, -2.30052118, 4.30052118, 1.0)
    (evidence,) = _evidence(detector._fitted, log)
    assert evidence.text == "1, within -2.3 to 4.3"
    assert evidence.expected == evidence.observed == 1.0


def test_score_has_no_part_of_the_limit_on_alarms() -> None:
    live = plant(1, 600)
    live[300:330, FLOW] += 8 * SIGMA[FLOW]
    ref, comp = (
        Detector(epochs=2, alarms_per_day=limit).fit(plant(0, 2_000)).run(live) for limit in (1, 20)
    )
    assert ref.channel_ratios is not None and (ref.channel_ratios >= 1).any()
    assert ref.scores[300] == comp.scores[300] > 3 * ref.scores[:300].max()


def test_pause_is_counted_from_the_end_of_an_episode_that_a_review_ended() -> None:
    step: Any = getattr(follow, "py_func", follow)  # it has no entry from Python
    counts = np.zeros(7, np.int64)
    for sample in range(3_000):
        step(counts, sample in (1_400, 1_404, 1_408), False, GAP, 1_440.0)
        if sample in (1_401, 1_405):
            counts[AGE] = 0  # as reviews and levels that were accepted before end it
    assert counts[AGE] == 0
    assert counts[GAPS] <= 3 * GAP


def test_outliers_of_a_wave_stay_anomalous_for_as_long_as_they_come() -> None:
    data = datasets.neurips_ts_uni(1, shift=0.0)
    labels = data.labels[:4_000] == 1
    verdicts = Detector(seed=2021).fit(data.train).run(data.test[:4_000])
    assert verdicts.anomalous[labels].mean() > 0.95
    assert verdicts.anomalous[~labels].mean() < 0.02


def test_slow_change_that_went_again_is_told_once_in_two_days() -> None:
    detector, days, events = Detector(epochs=2).fit(plant(0, 2_000)), 4, list[Event]()
    live = plant(1, days * 1_440)
    waves = np.zeros(len(live))
    for at in range(400, len(live) - 400, 480):  # three times a day, in and out within six hours
        waves[at : at + 360] = np.concatenate([np.linspace(0, 1, 180), np.linspace(1, 0, 180)])
    live[:, LEVEL] += 4 * SIGMA[LEVEL] * waves
    for part in np.split(live, days):
        events += events_of(detector, part)
    slow = [event for event in events if event.kind == "changed" and event.alarm is None]
    told = [event.sample for event in slow if event.change and "still" not in event.change.sentence]
    assert told
    assert all(later - before >= 2 * 1_440 for before, later in pairwise(told))


def test_fault_that_flickers_is_at_most_three_alarms_and_the_last_says_so() -> None:
    detector, live, since = fresh(), plant(1, 1_500), np.arange(120)
    live[AT : AT + 120, FLOW] += np.where(since % 17 < 5, 8 * SIGMA[FLOW], 0.0)
    detector.run(live[: AT + 300])
    closed = [event.alarm for event in detector.take_events() if event.kind == "closed"]
    *others, last = [alarm for alarm in closed if alarm and alarm.start >= AT]
    assert len(others) <= 2
    assert not any("comes and goes" in alarm.sentence for alarm in others)
    assert "; high and comes and goes for " in last.sentence
    assert last.evidence[0].comes_and_goes
    assert last.evidence[0].as_dict()["comes_and_goes"]


def told(history: Floats, live: Floats, at: int, until: int) -> list[Alarm]:
    """Return the closed alarms that begin while the first channel has a fault, or ten later."""
    detector = Detector(epochs=2).fit(history)
    closed = [event.alarm for event in events_of(detector, live) if event.kind == "closed"]
    return [alarm for alarm in closed if alarm and at <= alarm.start < until + GAP]


@pytest.mark.parametrize(("size", "way"), [(5.0, "high"), (-5.0, "low")])
def test_fault_within_heavy_tails_is_told_of_its_channel(size: float, way: str) -> None:
    values = np.random.default_rng(5).standard_t(4, (6_000, 3))
    values[5_400:5_430, 0] += size * values[:5_000, 0].std()
    assert abs(values[:5_000, 0]).max() > 2 * abs(size) * values[:5_000, 0].std()  # it is within
    (alarm,) = told(values[:5_000], values[5_000:5_500], 400, 430)
    (part,) = (part for part in alarm.evidence if part.channel == "0")
    assert part.ratio is not None and part.direction == way
    assert part.low is not None and part.high is not None and part.low < 0 < part.high
    assert 400 <= alarm.start <= present(part.start) <= 406
    assert 424 <= present(part.end) <= 431


def test_joint_score_takes_no_filled_window_for_a_fault_that_goes_on() -> None:
    rng, t = np.random.default_rng(2), np.arange(6_000)
    values = np.sin(2 * np.pi * t / 60)[:, None] + rng.normal(0, 0.15, (6_000, 1))
    values[5_400:5_430, 0] += 6
    (alarm,) = told(values[:5_000], values[5_000:5_600], 400, 430)
    assert (alarm.start, alarm.end) == (400, 429)


@pytest.mark.parametrize("gap", [0, 100])
@pytest.mark.parametrize("amplitude", [0.0, 20.0], ids=["flat", "daily"])
def test_fault_of_the_first_samples_is_told_beside_what_history_had(
    amplitude: float, gap: int
) -> None:
    """The level is not taken from them: neither the fault nor its end is told by it."""
    a_day, history, fault = 288, 10 * 288, 60
    sample = np.arange(history + gap + 3 * fault)
    times = np.datetime64("2026-01-01T00:00", "ns") + sample * np.timedelta64(5, "m")
    normal = 50 + amplitude * np.sin(2 * np.pi * sample / a_day)
    values = normal + np.random.default_rng(0).normal(0, 1, len(sample))
    begin = history + gap
    values[begin : begin + fault] += 15
    parts = [
        to_table(values[rows, None], times=times[rows], channels=["load"])
        for rows in (slice(history), slice(begin, None))
    ]
    detector = Detector().fit(parts[0])
    detector.run(parts[1])
    told = [present(event.alarm) for event in detector.take_events()]
    opened, *_, closed = alarms = [alarm for alarm in told if alarm.number == 1]
    assert opened.start == 0 and fault - 1 <= closed.end <= fault + GAP
    for alarm in alarms:
        (part,) = alarm.evidence
        assert part.direction == "high"
        at = begin + present(part.sample)
        assert present(part.low) <= normal[at] <= present(part.high)
        assert part.expected == pytest.approx(normal[at], abs=1)
