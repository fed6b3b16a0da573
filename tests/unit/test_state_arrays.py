"""What a state file holds of a stream: alarms, changes, silence, the past; each name checked."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import newnormal
from newnormal import Detector, StateError
from newnormal.detector import from_state
from newnormal.kernels import alarm, drift
from newnormal.kernels.stream import (
    CHANGE_ALARM,
    CHANGE_NUMBER,
    CHANGE_SINCE,
    CHANGE_STATE,
    LAST_ALARM,
    LOG_END,
    LOG_NEWEST,
    LOG_NUMBER,
    PEAK_P_VALUE,
    REVIEWS,
    SEVERITY,
    SHADOW_NEXT,
    SHADOW_POSITIONS,
    SILENCE_NUMBER,
    SILENCE_START,
)
from newnormal.state import State
from newnormal.types import Change
from tests.golden.make_runs import CASES, Case, plant, times
from tests.golden.recorded import recorded

ALL = slice(None)
RUNS = {case.name: case for case in CASES}


def loaded(name: str) -> Any:
    return newnormal.load(recorded(f"{name}.nn"))


def equal(ref: State, comp: State) -> bool:
    same = {name: each.tobytes() for name, each in ref.tensors.items()}
    return ref.facts == comp.facts and same == {
        name: each.tobytes() for name, each in comp.tensors.items()
    }


# ------------------------------------------------------------------ there and back


@pytest.mark.parametrize("name", RUNS)
def test_a_state_comes_back_as_it_was(name: str) -> None:
    ref = loaded(name).to_state()
    assert equal(ref, from_state(ref).to_state())
    assert json.loads(json.dumps(ref.facts, allow_nan=False)) == ref.facts


@pytest.mark.parametrize("name", RUNS)
def test_a_loaded_detector_continues_bit_for_bit(name: str, tmp_path: Path) -> None:
    case: Case = RUNS[name]
    ref = loaded(name)
    for at in range(case.at, case.at + 130, 13):
        ref.save(tmp_path / "plant.nn")
        comp = newnormal.load(tmp_path / "plant.nn")
        for each in (ref, comp):
            each.run(plant(at, at + 13, case), times(at, at + 13), flush=False)
        assert equal(ref.to_state(), comp.to_state())
        assert ref.past_ == comp.past_


def test_the_golden_files_have_every_state() -> None:
    found = {name: loaded(name) for name in RUNS}
    assert found["quiet"].status_ == "normal"
    assert [alarm.cause for alarm in found["alarm"].alarms_] == ["score"]
    (pending,) = found["pending"].changes_
    assert pending.state == "pending"
    assert found["pending"]._state.shadow is not None
    assert found["rejected"].change_.state == "rejected"
    assert found["accepted"]._state.undo
    assert found["accepted"]._state.model.own.accepted.used.any()
    assert found["pattern"]._state.model.own.accepted.counts[1] == 1
    assert [alarm.cause for alarm in found["silent"].alarms_] == ["score", "silence"]


def test_the_past_and_events_not_taken_come_back(tmp_path: Path) -> None:
    case = RUNS["quiet"]
    detector = loaded("quiet")
    detector.run(plant(case.at, case.until, case), times(case.at, case.until), flush=False)
    detector.accept(detector.past_[0])
    detector.undo()
    detector.save(tmp_path / "plant.nn")
    again = newnormal.load(tmp_path / "plant.nn")
    assert again.past_ == detector.past_
    events = detector.take_events()
    assert {"opened", "closed", "changed", "undone"} <= {event.kind for event in events}
    assert again.take_events() == events


def test_the_past_takes_a_bounded_part_of_a_file(tmp_path: Path) -> None:
    """A file's facts have at most 3,000,000 characters; the newest of the past are kept."""
    detector = loaded("pending")
    change = next(each for each in detector.past_ if isinstance(each, Change))
    wide = "x" * 50_000
    detector._past.clear()
    for number in range(1, 101):
        detector._past.append(replace(change, number=number, sentence=wide))
    detector.save(tmp_path / "plant.nn")
    kept = newnormal.load(tmp_path / "plant.nn").past_
    assert [each.number for each in kept] == list(range(101 - len(kept), 101))
    assert 15 <= len(kept) <= 20


def test_a_rhythm_and_its_zone_come_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    t = np.arange(24 * 28)
    history = np.sin(t * np.pi / 12)[:, None] + rng.normal(0, 0.1, (len(t), 2))
    when = np.datetime64("2026-01-05", "ns") + t * np.timedelta64(1, "h")
    detector = Detector(epochs=1, batch=64).fit(history, times=when)
    assert detector._fitted.rhythm is not None
    detector.save(tmp_path / "plant.nn")
    again = newnormal.load(tmp_path / "plant.nn")
    assert again._fitted.rhythm.clock == detector._fitted.rhythm.clock
    assert again._fitted.zone == detector._fitted.zone
    later = when + np.timedelta64(28, "D")
    ref, comp = detector.run(history, times=later), again.run(history, times=later)
    np.testing.assert_array_equal(ref.scores, comp.scores)


# ------------------------------------------------------------------ what does not fit


def put(*place: Any) -> Callable[[dict[str, Any]], None]:
    """Return a change of the facts: the last of these is put in the place that the others name."""
    *inner, last, value = place

    def change(facts: Any) -> None:
        for name in inner:
            facts = facts[name]
        facts[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (put("past", 0, "alarm", "cause", "x"), "cause: expected score or silence"),
        (put("past", 0, "alarm", "votes", [1.0]), "votes: expected none or"),
        (put("past", 0, "alarm", "peak", "channels", [["x", 1]]), "known names"),
        (put("past", 1, "change", "channels", ["x"]), "channels: expected known names"),
        (put("past", 1, "change", "state", "x"), "state: expected pending, accepted"),
        (put("past", 0, "alarm", None), "expected an alarm or a change, found 'both"),
        (put("never_missing", ["x"]), "never_missing: expected known names"),
        (put("rhythm", {"by": "x"}), "rhythm.by: expected time or sample"),
        (put("zone", 3), "zone: expected a text"),
    ],
)
def test_a_fact_that_does_not_fit_is_named(
    change: Callable[[dict[str, Any]], None], text: str
) -> None:
    ref = loaded("pending").to_state()
    facts = json.loads(json.dumps(ref.facts))
    change(facts)
    with pytest.raises(StateError, match=text):
        from_state(State(facts, ref.tensors))


@pytest.mark.parametrize(
    ("name", "tensor", "at", "value", "text"),
    [
        ("alarm", "alarm.counts", alarm.NEXT, 60, "next: a whole number from 0 to 59"),
        ("alarm", "alarm.tail_levels", ALL, -99, "tail_levels: the start of the tail"),
        ("alarm", "alarm.levels", alarm.RECENT_SAMPLES, np.inf, "levels: finite rates"),
        ("alarm", "alarm.recent", 0, np.inf, "alarm.recent: finite numbers within"),
        ("alarm", "log.counts", LOG_NUMBER, 0, "log.counts.open: the open alarm"),
        ("alarm", "log.counts", LOG_NEWEST, 9, "log.counts.newest: a whole number from 0 to alarm"),
        ("alarm", "log.counts", LOG_END, 0, "log.counts.start: a whole number from 0 to end"),
        ("alarm", "log.levels", PEAK_P_VALUE, 2, "log.levels: expected .* a chance from 0 to 1"),
        ("alarm", "log.channels", ALL, 3, "expected log.channels: channels, each once, or -1"),
        ("alarm", "log.channels", ALL, 0, "expected log.channels: channels, each once, or -1"),
        ("alarm", "log.votes", ALL, np.nan, "log.votes: expected numbers other than NaN"),
        ("alarm", "log.levels", SEVERITY, np.inf, "log.levels: expected .* a severity from 0 to"),
        ("alarm", "log.spans", (0, 1), 10**9, "log.spans: samples of the stream, or -1"),
        ("alarm", "log.ratios", ALL, 2.0, "log.ratios: above 0 where there are samples"),
        ("alarm", "channel.counts", (1, 7), -1, "channel.counts.hidden: a whole number from 0"),
        ("alarm", "channel.ring", 0, 32, "channel.ring.next: a whole number from 0 to 31"),
        ("alarm", "channel.levels", ALL, np.inf, "channel.levels: expected numbers within"),
        ("alarm", "channel.raised", ALL, np.nan, "channel.raised: expected numbers above 0"),
        ("alarm", "observed.left", 0, -1, "observed.left: expected counts of at least 0"),
        ("alarm", "observed.counts", 1, 11, "observed.counts.held: a whole number from 0 to L"),
        ("silent", "silence.counts", SILENCE_NUMBER, 99, "silence.counts.open: a whole number"),
        ("silent", "silence.counts", SILENCE_START, 10**9, "silence.counts.start: a whole number"),
        ("silent", "silence.missing", ALL, -1, "silence.missing: expected counts of at least 0"),
        ("silent", "silence.channels", ALL, -2, "silence.channels: channels, each once, or -1"),
        ("pending", "changes.counts", (0, CHANGE_STATE), 3, "state: a whole number from 0 to 2"),
        ("pending", "changes.counts", (0, CHANGE_STATE), 0, "state: pending or rejected"),
        ("pending", "changes.counts", (0, CHANGE_NUMBER), 2, "number: a whole number from 0 to"),
        ("pending", "changes.counts", (0, CHANGE_ALARM), 99, "alarm: a whole number from 0 to"),
        ("pending", "changes.counts", (0, CHANGE_SINCE), 10**9, "since: a whole number from 0 to"),
        ("pending", "changes.channels", ALL, 2, "changes.channels: expected 0 or 1"),
        ("pending", "changes.after", ALL, 1e9, "changes.after: expected numbers within"),
        ("pending", "drift.counts", drift.CROSSED, 2, "drift.counts.crossed: a whole number from"),
        ("pending", "drift.in_change", ALL, 0.5, "drift.in_change: expected 0 or 1"),
        ("pending", "drift.start", ALL, 1e9, "drift.start: numbers within"),
        ("pending", "review.counts", REVIEWS, 0, "reviews: as many as the samples seen make"),
        ("pending", "review.counts", LAST_ALARM, 99, "last_alarm: a whole number from 0 to alarm"),
        ("pending", "review.levels", 0, 1e11, "review.levels: expected numbers from 0 to"),
        ("pending", "shadow.counts", SHADOW_POSITIONS, 0, "positions: a whole number from 1 to M"),
        ("pending", "shadow.counts", SHADOW_NEXT, 10**6, "next: a whole number from 0 to N-1"),
        ("accepted", "model.own.accepted.used", ALL, 2, "accepted.used: expected 0 or 1"),
        ("accepted", "model.own.accepted.at", ALL, -1, "accepted.at: expected 0 or 1"),
        ("accepted", "model.own.accepted.shifts", ALL, np.inf, "shifts: expected numbers within"),
        ("pattern", "model.own.accepted.peaks", ALL, np.nan, "peaks: expected numbers other than"),
        ("pattern", "model.own.accepted.counts", 0, -1, "accepted.counts.places: a whole number"),
        ("pattern", "model.own.counts", (0, 0), 7, "model.own.counts: those of the stream"),
        ("pattern", "model.own.members.counts", 0, 100, "head: a whole number from 0 to 99"),
        ("alarm", "fitted.alarm.numbers", 4, 0.5, "fitted.alarm.gap: expected a number from 1"),
        ("alarm", "fitted.alarm.numbers", 2, 0.0, "expected a step of 0 and an infinite stand"),
        ("alarm", "fitted.step.numbers", 3, 0.5, "fitted.step: expected the numbers of the op"),
        ("alarm", "model.own.decays", 0, 0.5, "model.own.decays: expected those of the choice"),
        ("alarm", "model.own.experts", 0, 1, "model.own.experts: expected those of the choice"),
    ],
)
def test_an_array_that_does_not_fit_is_named(
    name: str, tensor: str, at: Any, value: float, text: str
) -> None:
    ref = loaded(name).to_state()
    tensor = tensor if tensor in ref.tensors else f"live.{tensor}"
    array = ref.tensors[tensor].copy()
    array[at] = value
    with pytest.raises(StateError, match=text):
        from_state(State(ref.facts, {**ref.tensors, tensor: array}))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (put("event", "shouted"), "event: expected opened, updated"),
        (put("alarm", None), "alarm: expected one where opened, updated, closed"),
        (put("event", "changed"), "change: expected one where changed"),
        (put("event", "undone"), "alarm: expected one where opened"),
    ],
)
def test_an_event_has_what_its_kind_is_about(
    change: Callable[[dict[str, Any]], None], text: str
) -> None:
    case = RUNS["quiet"]
    detector = loaded("quiet")
    detector.run(plant(case.at, case.until, case), times(case.at, case.until), flush=False)
    ref = detector.to_state()
    facts = json.loads(json.dumps(ref.facts))
    assert facts["events"][0]["event"] == "opened"
    change(facts["events"][0])
    with pytest.raises(StateError, match=text):
        from_state(State(facts, ref.tensors))
