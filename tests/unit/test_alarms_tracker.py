"""Judgements as alarms and events: told once, told the same however the samples arrive."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newnormal.alarms import Alarm, AlarmEvent, Gauge, Judged, Tracker
from newnormal.alarms.tracker import ACCEPTED, CANDIDATE, END_OF_STREAM
from newnormal.errors import InputError
from newnormal.kernels.anchor import AWAY, FAR, HOME
from newnormal.types import Floats

CHANNELS = ("flow", "level", "power")
START = np.datetime64("2026-01-01T00:00", "ns")


def gauge(gap: int = 3) -> Gauge:
    return Gauge.at(1.0, np.linspace(0, 0.5, 100), gap=gap)


def told(scores: list[float], **options: Any) -> list[AlarmEvent]:
    return Tracker().track(gauge().judge(np.array(scores)), **options)


def kinds(events: list[AlarmEvent]) -> list[tuple[str, int]]:
    return [(event.kind, event.sample) for event in events]


# ------------------------------------------------------------------ what is told, and when


def test_alarm_is_told_when_it_opens_and_when_it_closes() -> None:
    events = told([0, 0, 1.2, 0, 1.5, 0, 0, 0, 0])
    assert kinds(events) == [("opened", 2), ("closed", 7)]
    opened, closed = (event.alarm for event in events)
    assert (opened.number, opened.start, opened.end, opened.open) == (1, 2, 2, True)
    assert (closed.start, closed.end, closed.open) == (2, 4, False)
    assert closed.reason == "score back to normal"
    assert (closed.peak.sample, closed.peak.score, closed.peak.ratio) == (4, 1.5, 1.5)
    assert 0 < closed.peak.p_value < 0.01


def test_quiet_shorter_than_the_gap_does_not_end_an_alarm() -> None:
    assert kinds(told([2, 0, 0, 1, 0, 0, 1, 0, 0, 0])) == [("opened", 0), ("closed", 9)]


def test_score_between_the_low_level_and_the_threshold_keeps_an_alarm_open() -> None:
    assert kinds(told([1, *[0.8] * 50])) == [("opened", 0)]
    assert kinds(told([1, *[0.7] * 50])) == [("opened", 0), ("closed", 3)]


def test_alarm_is_told_again_only_when_its_peak_has_doubled() -> None:
    events = told([1, 1.9, 2.1, 4.1, 4.3, 5, 0, 0, 0])
    assert kinds(events) == [("opened", 0), ("updated", 2), ("updated", 4), ("closed", 8)]
    assert [event.alarm.peak.score for event in events] == [1, 2.1, 4.3, 5]
    assert [event.alarm.end for event in events] == [0, 2, 4, 5]


def test_next_alarm_has_the_next_number() -> None:
    events = told([2, 0, 0, 0, 3, 0, 0, 0])
    assert kinds(events) == [("opened", 0), ("closed", 3), ("opened", 4), ("closed", 7)]
    assert [event.alarm.number for event in events] == [1, 1, 2, 2]


def test_samples_are_numbered_from_the_first() -> None:
    judged = gauge().judge(np.array([0.0, 2.0, 0.0, 0.0, 0.0]), first=100)
    assert kinds(Tracker().track(judged)) == [("opened", 101), ("closed", 104)]


def test_missing_scores_are_no_quiet_and_no_peak() -> None:
    events = told([2, math.nan, math.nan, math.nan, math.nan, 0, 0, 0])
    assert kinds(events) == [("opened", 0), ("closed", 7)]
    assert events[-1].alarm.end == 0


def test_infinite_score_is_told_as_the_largest_float() -> None:
    (event,) = told([math.inf])
    assert event.alarm.peak.score == np.finfo(np.float64).max
    json.loads(event.to_json())


def test_no_samples_make_no_events() -> None:
    assert told([]) == []


def test_alarm_can_be_closed_for_another_reason() -> None:
    watched, tracker = gauge(), Tracker()
    tracker.track(watched.judge(np.array([2.0, 3.0])))
    watched.close()
    (event,) = tracker.close(ACCEPTED, 1)
    assert (event.kind, event.sample, event.alarm.reason) == ("closed", 1, "new normal accepted")
    assert tracker.alarm is None
    assert tracker.close(END_OF_STREAM, 1) == []
    assert tracker.track(watched.judge(np.array([0.0]))) == []


# ------------------------------------------------------------------ channels


@pytest.mark.parametrize(
    ("shares", "named"),
    [
        ([0.2, 0.7, 0.1], {"level": 0.7}),
        ([0.4, 0.3, 0.3], {"flow": 0.4, "level": 0.3}),
        ([0.0, 0.0, 0.0], {}),
        ([math.nan] * 3, {}),
    ],
)
def test_channels_named_are_the_fewest_that_make_up_half_of_the_score(
    shares: list[float], named: dict[str, float]
) -> None:
    judged = gauge().judge(np.array([2.0]))
    (event,) = Tracker(CHANNELS).track(judged, shares=np.array([shares]))
    assert event.alarm.channels == named
    assert list(event.alarm.channels) == list(named)


def test_channels_are_those_of_the_peak() -> None:
    tracker = Tracker(CHANNELS)
    shares = np.array([[1.0, 0, 0], [0, 0, 1.0], [0, 1.0, 0]])
    tracker.track(gauge().judge(np.array([1.1, 1.3, 1.2])), shares=shares)
    assert tracker.alarm is not None
    assert tracker.alarm.channels == {"power": 1.0}


def test_no_more_than_five_channels_are_named() -> None:
    names = tuple(f"c{number}" for number in range(100))
    judged = gauge().judge(np.array([2.0]))
    (event,) = Tracker(names).track(judged, shares=np.full((1, 100), 0.01))
    assert list(event.alarm.channels) == ["c0", "c1", "c2", "c3", "c4"]


def test_shares_of_other_channels_are_an_error() -> None:
    with pytest.raises(InputError) as error:
        told([1.0, 2.0], shares=np.ones((2, 3)))
    assert str(error.value) == (
        "shares: expected 2 samples of 0 channels, found (2, 3)\n"
        "hint: name the channels: Tracker(channels)"
    )


# ------------------------------------------------------------------ JSON


def test_event_has_a_documented_json_form() -> None:
    judged = gauge().judge(np.array([0.0, 2.0, 0.0, 0.0, 0.0]), first=7)
    times = START + np.arange(5) * np.timedelta64(1, "m")
    tracker = Tracker(CHANNELS)
    events = tracker.track(judged, shares=np.tile([0.25, 0.75, 0.0], (5, 1)), times=times)
    found = json.loads(events[-1].to_json())
    p_value = found["alarm"]["peak"].pop("p_value")
    assert p_value == events[-1].alarm.peak.p_value
    assert found == {
        "event": "closed",
        "sample": 11,
        "time": "2026-01-01T00:04:00",
        "alarm": {
            "number": 1,
            "start": 8,
            "start_time": "2026-01-01T00:01:00",
            "end": 8,
            "end_time": "2026-01-01T00:01:00",
            "peak": {
                "sample": 8,
                "time": "2026-01-01T00:01:00",
                "score": 2.0,
                "ratio": 2.0,
                "channels": {"level": 0.75},
            },
            "open": False,
            "reason": "score back to normal",
            "cause": "score",
            "state": "in alarm",
        },
    }


def test_alarm_comes_back_from_its_json_form() -> None:
    judged = gauge().judge(np.array([2.0, 3.0]))
    times = np.array([START, np.datetime64("NaT")], dtype="datetime64[ns]")
    tracker = Tracker(CHANNELS)
    tracker.track(judged, shares=np.tile([0.5, 0.3, 0.2], (2, 1)), times=times)
    assert tracker.alarm is not None
    assert tracker.alarm.start_time == START
    assert tracker.alarm.end_time is None
    assert Alarm.from_dict(json.loads(json.dumps(tracker.alarm.as_dict()))) == tracker.alarm


# ------------------------------------------------------------------ a slow obvious twin


def naive_events(judged: Judged, shares: Floats) -> list[dict[str, Any]]:
    """Tell the same, row by row, from the judgement's columns."""
    events: list[dict[str, Any]] = []
    alarm: dict[str, Any] = {}
    last_told = 0.0

    def tell(kind: str, row: int) -> None:
        events.append({"event": kind, "sample": row} | alarm)

    for row in range(len(judged)):
        number = int(judged.alarms[row])
        if alarm and alarm["number"] != number:
            tell("closed", row)
            alarm = {}
        if not number:
            continue
        is_new = not alarm
        if is_new:
            alarm = {"number": number, "start": row, "end": row, "peak": row, "score": -math.inf}
        if judged.scores[row] >= judged.thresholds[row]:
            alarm["end"] = row
        if judged.scores[row] > alarm["score"]:
            alarm |= {"peak": row, "score": judged.scores[row], "worst": int(shares[row].argmax())}
            if is_new or judged.ratios[row] >= 2 * last_told:
                last_told = judged.ratios[row]
                tell("opened" if is_new else "updated", row)
    return events


def eventful(seed: int, length: int) -> tuple[Judged, Floats]:
    rng = np.random.default_rng(seed)
    scores = np.exp(rng.normal(-1.5, 1, length) + np.cumsum(rng.normal(0, 0.1, length)))
    scores[rng.random(length) < 0.05] = np.nan
    return gauge().judge(scores), rng.dirichlet(np.ones(3), length)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000))
def test_tracker_equals_its_slow_twin(seed: int) -> None:
    judged, shares = eventful(seed, 300)
    comp = Tracker(CHANNELS).track(judged, shares=shares)
    ref = naive_events(judged, shares)
    assert kinds(comp) == [(event["event"], event["sample"]) for event in ref]
    for event, known in zip(comp, ref, strict=True):
        alarm = event.alarm
        assert (alarm.number, alarm.start, alarm.end) == tuple(
            known[name] for name in ("number", "start", "end")
        )
        assert (alarm.peak.sample, alarm.peak.score) == (known["peak"], known["score"])
        assert next(iter(alarm.channels)) == CHANNELS[known["worst"]]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), cuts=st.lists(st.integers(0, 300), max_size=8))
def test_samples_in_pieces_are_told_as_samples_at_once(seed: int, cuts: list[int]) -> None:
    judged, shares = eventful(seed, 300)
    times = START + np.arange(300) * np.timedelta64(1, "s")
    whole, parted = Tracker(CHANNELS), Tracker(CHANNELS)
    ref = whole.track(judged, shares=shares, times=times)
    comp: list[AlarmEvent] = []
    for start, stop in pairwise([0, *sorted(cuts), 300]):
        # Saved and loaded in between.
        parted = Tracker.from_json(CHANNELS, json.loads(json.dumps(parted.to_json())))
        rows = slice(start, stop)
        piece = Judged(
            judged.scores[rows],
            judged.thresholds[rows],
            judged.ratios[rows],
            judged.p_values[rows],
            judged.alarms[rows],
            start,
        )
        comp += parted.track(piece, shares=shares[rows], times=times[rows])
    assert comp == ref
    assert parted.to_json() == whole.to_json()


def test_alarm_opened_by_distance_says_so_and_names_the_channel_farthest_out() -> None:
    away = np.array([HOME, FAR, AWAY, HOME], np.int8)
    judged = gauge().judge(np.array([0.1, 0.1, 0.1, 0.1]), away=away)
    tracker = Tracker(CHANNELS)
    where = np.array([0, 1, 1, 0])
    events = tracker.track(judged, shares=np.tile([0.5, 0.3, 0.2], (4, 1)), where=where)
    assert [event.kind for event in events] == ["opened"]
    alarm = events[0].alarm
    assert (alarm.start, alarm.cause) == (1, "distance from the accepted normal")
    assert dict(alarm.channels) == {CHANNELS[1]: 1.0}
    assert tracker.alarm is not None
    assert tracker.alarm.end == 2, "what is away belongs to it"


def test_what_is_thought_of_an_alarm_is_told_once() -> None:
    tracker = Tracker(CHANNELS)
    tracker.track(gauge().judge(np.array([2.0])))
    events = tracker.mark(CANDIDATE, 5) + tracker.mark(CANDIDATE, 6)
    assert [(event.kind, event.sample, event.alarm.state) for event in events] == [
        ("updated", 5, "candidate new normal")
    ]
    closed = tracker.close(ACCEPTED, 9)
    assert [(event.alarm.reason, event.alarm.open) for event in closed] == [
        ("new normal accepted", False)
    ]
    assert tracker.mark(CANDIDATE, 10) == []
