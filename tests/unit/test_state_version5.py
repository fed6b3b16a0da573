"""Version 5 of the state file: alarms, changes, silence, the past; and what version 4 becomes."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import newnormal
from newnormal import Detector, StateError, state
from newnormal.detector import from_state
from newnormal.state import State
from newnormal.state.migrations import migrated
from newnormal.state.version_4 import from_4
from newnormal.types import Change
from tests.golden.make_runs import CASES, Case, plant, times
from tests.golden.recorded import recorded

NEW = {case.name: case for case in CASES if not case.is_old}


def loaded(name: str) -> Any:
    return newnormal.load(recorded(f"{name}.nn"))


def equal(ref: State, comp: State) -> bool:
    same = {name: each.tobytes() for name, each in ref.tensors.items()}
    return ref.facts == comp.facts and same == {
        name: each.tobytes() for name, each in comp.tensors.items()
    }


# ------------------------------------------------------------------ there and back


@pytest.mark.parametrize("name", NEW)
def test_a_state_comes_back_as_it_was(name: str) -> None:
    ref = loaded(name).to_state()
    assert equal(ref, from_state(ref).to_state())
    assert json.loads(json.dumps(ref.facts, allow_nan=False)) == ref.facts


@pytest.mark.parametrize("name", NEW)
def test_a_loaded_detector_continues_bit_for_bit(name: str, tmp_path: Path) -> None:
    case: Case = NEW[name]
    ref = loaded(name)
    for at in range(case.at, case.at + 130, 13):
        ref.save(tmp_path / "plant.nn")
        comp = newnormal.load(tmp_path / "plant.nn")
        for each in (ref, comp):
            each.run(plant(at, at + 13, case), times(at, at + 13), flush=False)
        assert equal(ref.to_state(), comp.to_state())
        assert ref.past_ == comp.past_


def test_the_golden_files_have_every_state() -> None:
    found = {name: loaded(name) for name in NEW}
    assert found["v5-quiet"].status_ == "normal"
    assert [alarm.cause for alarm in found["v5-alarm"].alarms_] == ["score"]
    (pending,) = found["v5-pending"].changes_
    assert pending.state == "pending"
    assert found["v5-pending"]._state.shadow is not None
    assert found["v5-rejected"].change_.state == "rejected"
    assert found["v5-accepted"]._state.undo
    assert found["v5-accepted"]._state.model.own.accepted.used.any()
    assert found["v5-pattern"]._state.model.own.accepted.counts[1] == 1
    assert [alarm.cause for alarm in found["v5-silent"].alarms_] == ["score", "silence"]


def test_the_first_files_of_version_5_go_on_smoothing_all_votes() -> None:
    assert not loaded("v5-early")._fitted.model.plan.prompt
    assert loaded("v5-alarm")._fitted.model.plan.prompt


def test_the_past_and_events_not_taken_come_back(tmp_path: Path) -> None:
    case = NEW["v5-quiet"]
    detector = loaded("v5-quiet")
    detector.run(plant(case.at, case.until, case), times(case.at, case.until), flush=False)
    detector.accept(detector.past_[0])
    detector.rollback()
    detector.save(tmp_path / "plant.nn")
    again = newnormal.load(tmp_path / "plant.nn")
    assert again.past_ == detector.past_
    events = detector.take_events()
    assert {"opened", "closed", "changed", "rolled_back"} <= {event.kind for event in events}
    assert again.take_events() == events


def test_the_past_takes_a_bounded_part_of_a_file(tmp_path: Path) -> None:
    """A file's facts have at most 3,000,000 characters; the newest of the past are kept."""
    detector = loaded("v5-pending")
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


CHANGE = ("acceptance", "changes", 0)


@pytest.mark.parametrize(
    ("name", "change", "text"),
    [
        (
            "v5-alarm",
            put("alarm", "counts", "next", 60),
            "alarm.counts.next: expected less than 60",
        ),
        (
            "v5-alarm",
            put("alarm", "counts", "lead", 3),
            "alarm.counts.lead: expected a channel, less",
        ),
        ("v5-alarm", put("alarm", "log", "counts", "open", 0), "alarm.log.counts.open: expected 1"),
        ("v5-alarm", put("alarm", "log", "counts", "newest", 9), "expected 0 or the newest"),
        ("v5-alarm", put("alarm", "log", "counts", "end", 0), "alarm.log.counts: expected samples"),
        (
            "v5-alarm",
            put("alarm", "log", "levels", "p_value", 2),
            "p_value: expected a number from",
        ),
        ("v5-alarm", put("alarm", "params", "rise", 0.5), "alarm.params.rise: expected a number"),
        ("v5-alarm", put("alarm", "params", "rate", 0.0), "expected a step of 0 and an infinite"),
        (
            "v5-silent",
            put("alarm", "silence", "open", 99),
            "alarm.silence.open: expected the number",
        ),
        ("v5-silent", put("alarm", "silence", "start", 10**9), "alarm.silence.start: expected a"),
        ("v5-pending", put(*CHANGE, "state", "gone"), r"state: expected pending or rejected"),
        ("v5-pending", put(*CHANGE, "number", 2), r"changes\[0\].number: expected a whole number"),
        ("v5-pending", put(*CHANGE, "alarm", 99), r"changes\[0\].alarm: expected a whole number"),
        (
            "v5-pending",
            put(*CHANGE, "since", 10**9),
            r"changes\[0\].since: expected a whole number",
        ),
        ("v5-pending", put("acceptance", "changes", []), "changes: expected 8 of them"),
        ("v5-pending", put("acceptance", "drift", "crossed", 2), "drift.crossed: expected 0 or 1"),
        ("v5-pending", put("acceptance", "review", "reviews", 0), "review.reviews: expected about"),
        (
            "v5-pending",
            put("acceptance", "review", "last_alarm", 99),
            "review.last_alarm: expected",
        ),
        ("v5-pending", put("past", 0, "alarm", "cause", "x"), "cause: expected score or silence"),
        ("v5-pending", put("past", 0, "alarm", "votes", [1.0]), "votes: expected none or"),
        ("v5-pending", put("past", 0, "alarm", "peak", "channels", [["x", 1]]), "known names"),
        (
            "v5-pending",
            put("past", 1, "change", "channels", ["x"]),
            "channels: expected known names",
        ),
        ("v5-pending", put("past", 1, "change", "state", "x"), "state: expected pending, accepted"),
        ("v5-pending", put("past", 0, "alarm", None), "expected an alarm or a change, found 'both"),
        ("v5-pending", put("never_missing", ["x"]), "never_missing: expected known names"),
        ("v5-pending", put("rhythm", {"by": "x"}), "rhythm.by: expected time or sample"),
        ("v5-pending", put("zone", 3), "zone: expected a text"),
    ],
)
def test_a_fact_that_does_not_fit_is_named(
    name: str, change: Callable[[dict[str, Any]], None], text: str
) -> None:
    ref = loaded(name).to_state()
    facts = json.loads(json.dumps(ref.facts))
    change(facts)
    with pytest.raises(StateError, match=text):
        from_state(State(facts, ref.tensors))


@pytest.mark.parametrize(
    ("name", "tensor", "value", "text"),
    [
        ("v5-alarm", "live.log.channels", 3, "expected channels, each once, or -1"),
        ("v5-alarm", "live.log.channels", 0, "expected channels, each once, or -1"),
        ("v5-alarm", "live.recent", np.inf, "live.recent: expected finite numbers within"),
        ("v5-alarm", "live.log.votes", np.nan, "live.log.votes: expected numbers other than NaN"),
        ("v5-silent", "live.silence.missing", -1, "missing: expected numbers of at least 0"),
        ("v5-silent", "live.silence.channels", -2, "expected channels, each once, or -1"),
        ("v5-pending", "live.changes.channels", 2, "live.changes.channels: expected 0 or 1"),
        ("v5-pending", "live.changes.after", 1e9, "live.changes.after: expected numbers within"),
        ("v5-pending", "live.drift.owned", 0.5, "live.drift.owned: expected 0 or 1"),
        ("v5-pending", "live.drift.start", 1e9, "start: expected numbers within"),
        ("v5-accepted", "live.accepted.used", 2, "live.accepted.used: expected 0 or 1"),
        ("v5-accepted", "live.accepted.at", -1, "live.accepted.at: expected 0 or 1"),
        ("v5-accepted", "live.accepted.shifts", np.inf, "live.accepted.shifts: expected numbers"),
        ("v5-pattern", "live.accepted.peaks", np.nan, "peaks: expected numbers other than NaN"),
        ("v5-pattern", "baseline.accepted.accepted.counts", -1, "expected numbers of at least 0"),
    ],
)
def test_a_tensor_that_does_not_fit_is_named(
    name: str, tensor: str, value: float, text: str
) -> None:
    ref = loaded(name).to_state()
    array = ref.tensors[tensor].copy()
    array[...] = value
    with pytest.raises(StateError, match=text):
        from_state(State(ref.facts, {**ref.tensors, tensor: array}))


def test_changes_of_version_6_have_been_no_farther_away_than_they_are() -> None:
    ref = loaded("v5-pending").to_state()
    older = {name: each for name, each in ref.tensors.items() if not name.endswith(".farthest")}
    assert len(older) == len(ref.tensors) - 1
    facts, tensors = migrated(ref.facts, older, 6, "a file")
    found = from_state(State(facts, tensors)).to_state()
    after = ref.tensors["live.changes.after"]
    np.testing.assert_array_equal(found.tensors["live.changes.farthest"], after)
    with pytest.raises(StateError, match="farthest"):
        from_state(State(ref.facts, older))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (put("event", "shouted"), "event: expected opened, updated"),
        (put("alarm", None), "alarm: expected one where opened, updated, closed"),
        (put("event", "changed"), "change: expected one where changed"),
        (put("event", "rolled_back"), "alarm: expected one where opened"),
    ],
)
def test_an_event_has_what_its_kind_is_about(
    change: Callable[[dict[str, Any]], None], text: str
) -> None:
    case = NEW["v5-quiet"]
    detector = loaded("v5-quiet")
    detector.run(plant(case.at, case.until, case), times(case.at, case.until), flush=False)
    ref = detector.to_state()
    facts = json.loads(json.dumps(ref.facts))
    assert facts["events"][0]["event"] == "opened"
    change(facts["events"][0])
    with pytest.raises(StateError, match=text):
        from_state(State(facts, ref.tensors))


# ------------------------------------------------------------------ files of version 4


@pytest.mark.parametrize(
    ("name", "of_change"),
    [
        ("quiet-budget", None),
        ("alarm-budget", "pending"),
        ("alarm-quantile", "pending"),
        ("rejected-budget", "rejected"),
        ("accepted-budget", None),
        ("m2n2-alarms", "rejected"),
    ],
)
def test_an_open_alarm_whose_stream_is_outside_becomes_a_change(
    name: str, of_change: str | None
) -> None:
    detector = loaded(name)
    if of_change is None:
        assert detector.alarms_ == detector.changes_ == []
        return
    (alarm,), (change,) = detector.alarms_, detector.changes_
    assert (change.state, change.alarm, change.start) == (of_change, alarm.number, alarm.start)
    assert change.channels == tuple(alarm.channels)
    assert change.before != change.after
    assert alarm.evidence == ()
    assert alarm.sentence == "unusual"
    assert detector._state.shadow is None


def test_the_baselines_of_an_older_file_can_be_gone_back_to() -> None:
    detector = loaded("accepted-budget")
    detector.rollback()
    assert [event.kind for event in detector.take_events()] == ["rolled_back"]


def test_an_older_detector_without_options_keeps_its_quantile() -> None:
    """A Detector without any of these has a limit of one alarm a day since version 5."""
    detector = loaded("quiet-quantile")
    assert (detector.threshold, detector.alarms_per_day, detector.risk) == (0.99, None, None)
    assert loaded("quiet-budget").threshold is None
    assert loaded("m2n2-plain").threshold is None


@pytest.fixture
def old(monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, Any], dict[str, Any]]:
    """Facts and tensors of version 4, of an open alarm."""
    seen = []

    def keep(facts: Any, tensors: Any) -> Any:
        seen.append((copy.deepcopy(facts), dict(tensors)))
        return from_4(facts, tensors)

    monkeypatch.setitem(state.migrations.MIGRATIONS, 4, keep)
    loaded("alarm-budget")
    return seen[0]


def upgraded(facts: Any, tensors: Any) -> Any:
    """Return facts and tensors of version 4 as those of the present version."""
    found = from_4(facts, tensors)
    for version in range(5, state.VERSION):
        found = state.migrations.MIGRATIONS[version](*found)
    return found


def test_an_alarm_by_distance_closes_and_its_change_stays(old: Any) -> None:
    facts, tensors = old
    facts["alarm"]["open"]["cause"] = "distance from the accepted normal"
    detector = from_state(State(*upgraded(facts, tensors)))
    assert detector.alarms_ == []
    (change,) = detector.changes_
    assert change.alarm == 1
    assert detector.take_events() == []


def test_an_alarm_inside_the_accepted_normal_stays_an_alarm(old: Any) -> None:
    facts, tensors = old
    facts["alarm"]["open"]["state"] = "in alarm"
    facts["acceptance"] |= {"distance": 0.0, "jump": 0.0, "moves": 0.0}
    detector = from_state(State(*upgraded(facts, tensors)))
    assert len(detector.alarms_) == 1
    assert detector.changes_ == []


def test_a_change_of_the_weights_has_no_channels(old: Any) -> None:
    facts, tensors = old
    facts["acceptance"] |= {"distance": 0.0, "jump": 0.0, "moves": 1.5}
    (change,) = from_state(State(*upgraded(facts, tensors))).changes_
    assert change.channels == ()
    assert change.distance == 1.5


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (put("alarm", "params", "more", 1), "alarm.params.more: not as in a file of version 4"),
        (put("alarm", "open", "cause", "x"), "expected a cause and a state of version 4"),
        (put("alarm", "open", "open", 1), "alarm.open.reason: expected null"),
        (put("alarm", "open", "peak", "channels", [["a", 1]] * 6), "expected 5 at most"),
        (put("alarm", "open", "start_time", 3), "alarm.open: expected times or null"),
        (put("acceptance", "drift", "channel", 3), "acceptance.drift.channel: expected one of 3"),
        (put("channels", ["a"] * 10**6), "fitted.mean: expected shape"),
    ],
)
def test_a_fact_of_version_4_that_does_not_fit_is_named(
    old: Any, change: Callable[[dict[str, Any]], None], text: str
) -> None:
    facts, tensors = old
    change(facts)
    with pytest.raises(StateError, match=text):
        from_4(facts, tensors)
