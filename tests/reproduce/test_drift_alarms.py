"""What `newnormal reproduce drift` makes of alarms."""

import csv
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newnormal import Detector
from newnormal.base import BaseDetector
from newnormal.datasets import Dataset
from newnormal.errors import ParameterError
from newnormal.metrics import trace_alarms
from newnormal.types import ACCEPTED, Alarm, Floats, Peak
from newnormal.types import Event as RealEvent
from newnormal_reproduce.engine.drifting import DRIFTING, FAULTS, KINDS, ONSET, faulty, normal_part
from newnormal_reproduce.engine.files import csv_text
from newnormal_reproduce.engine.fit import TrialFit
from newnormal_reproduce.engine.published import DEFAULT, Figure, Rule
from newnormal_reproduce.engine.runner import Runner
from newnormal_reproduce.engine.store import ResultStore
from newnormal_reproduce.engine.streams import load_stream
from newnormal_reproduce.engine.variants import FROZEN, variant_named
from newnormal_reproduce.ours.drift import Drift, drift
from newnormal_reproduce.ours.drift_alarms import (
    ACCEPT_AFTER,
    LIMIT,
    NOTHING,
    DriftAlarms,
    Fault,
    absorbed,
    acceptances,
    accepted,
    noticed,
    reject_pending,
)
from newnormal_reproduce.ours.drift_figures import OURS, PLAIN
from newnormal_reproduce.ours.watching import watch
from tests.present import present

FAST = {"mlp": {"epochs": 1}, "default": {"epochs": 1}}
STREAMS = ("drift/wave-level-1", "drift/wave-scale-1")
FIXED = "γ 0.8, η 0.1"
BACK = "back to normal"


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    folder = tmp_path_factory.mktemp("alarms")
    return Runner(folder, cache=folder / "cache", overrides=FAST)


@pytest.fixture(scope="module")
def result(runner: Runner) -> Drift:
    return drift(runner, datasets=list(STREAMS), models=["mlp", DEFAULT], seeds=[1, 2])


@pytest.fixture(scope="module")
def alarms(result: Drift) -> DriftAlarms:
    return result.alarms


def story(*spans: tuple[int, int | None, str]) -> list[RealEvent]:
    """Return the events of alarms opened and closed at these samples, for these reasons."""
    events = []
    for at, (start, stop, reason) in enumerate(spans):
        alarm = Alarm(at + 1, start, None, start, None, Peak(start, None, 1.0, 1.0, 0.0, {}))
        events.append(RealEvent("opened", start, None, alarm))
        events.append(RealEvent("updated", start + 1, None, alarm))
        if stop is not None:
            events.append(RealEvent("closed", stop, None, replace(alarm, reason=reason)))
    return events


# ---------------------------------------------------------------------- the detector behind a row


def fit(runner: Runner, history: Floats, model: str = DEFAULT) -> TrialFit:
    stream = runner.streams.about(STREAMS[0])
    return TrialFit.on(history, runner.trial(stream, model, "DT+TTA", Rule(99.0), 7))


def small(samples: int = 1500) -> tuple[Floats, Floats]:
    data = DRIFTING[STREAMS[0]]()
    return data.train[:samples], np.concatenate([data.test[:samples], data.test[-samples:]])


def stored(fit: TrialFit, folder: Path) -> TrialFit:
    """Return a fit as it is read back from the store."""
    ResultStore.write_fit(folder / "fit.nn", fit)
    return present(ResultStore.read_fit(folder / "fit.nn", DEFAULT))


def never() -> float:
    raise AssertionError


def test_the_default_row_is_the_detector_with_its_threshold_alarms_included(
    runner: Runner, tmp_path: Path
) -> None:
    history, live = small()
    fitted = fit(runner, history)
    comp = stored(fitted, tmp_path).as_variant(
        variant_named("DT+TTA"), fitted.threshold(Rule(99.0), never), decay=0.9, lr=0.1
    )
    same(Detector(seed=7, epochs=1, threshold=0.99).fit(history), comp, live)


@pytest.mark.parametrize("limit", [1, 10])
def test_a_fit_with_a_limit_is_the_detector_fitted_with_it(
    runner: Runner, limit: int, tmp_path: Path
) -> None:
    history, live = small()
    comp = stored(fit(runner, history), tmp_path).with_limit(limit)
    ref = Detector(seed=7, epochs=1, alarms_per_day=limit).fit(history)
    assert ref.to_state().facts == comp.to_state().facts
    same(ref, comp, live)


def same(ref: BaseDetector, comp: BaseDetector, live: Floats) -> None:
    """Check that two detectors have the same arrays, and say the same, now and after a reset."""
    tensors = comp.to_state().tensors
    assert ref.to_state().tensors.keys() == tensors.keys()
    for name, array in ref.to_state().tensors.items():
        np.testing.assert_array_equal(array, tensors[name], err_msg=name)
    for _ in range(2):
        theirs, mine = ref.run(live), comp.run(live)
        np.testing.assert_array_equal(theirs.scores, mine.scores)
        np.testing.assert_array_equal(theirs.thresholds, mine.thresholds)
        np.testing.assert_array_equal(theirs.anomalous, mine.anomalous)
        np.testing.assert_array_equal(theirs.alarms, mine.alarms)
        events = ref.take_events()
        assert events == comp.take_events()
        assert len(events) > 0
        ref.reset()
        comp.reset()


def test_only_a_detector_that_chooses_for_itself_has_a_limit(runner: Runner) -> None:
    fitted = fit(runner, small()[0], "mlp")
    with pytest.raises(ParameterError, match="alarms_per_day: expected a fitted Detector"):
        fitted.with_limit(1)


def test_a_fixed_row_raises_its_alarms_at_its_own_threshold(runner: Runner) -> None:
    history, live = small()
    fitted = fit(runner, history, "mlp")
    tau = fitted.threshold(Rule(99.0), never)
    verdicts = fitted.as_variant(FROZEN, tau, decay=1.0, lr=0.0).track_alarms().run(live)
    assert verdicts.anomalous.any()
    assert (present(verdicts.alarms)[verdicts.anomalous] > 0).all()
    assert (verdicts.thresholds == tau).all()


def test_watching_in_stretches_sees_what_one_run_does() -> None:
    history, live = small()
    detector = Detector(seed=1, epochs=1).fit(history)
    events = watch(detector, live)
    assert len(live) > 2000
    assert detector.reset().run(live).alarms is not None
    assert detector.take_events() == events


# ---------------------------------------------------------------------- counting


def test_shifts_are_where_they_are_without_what_is_labelled() -> None:
    labels = np.array([0, 1, 1, 0, 0, 1, 0, 0])
    values = np.arange(8.0)[:, None]
    samples, shifts = normal_part(Dataset("toy", values, values, labels, ("a",), shifts=(4, 6)))
    assert samples[:, 0].tolist() == [0, 3, 4, 6, 7]
    assert shifts == (2, 3)
    assert samples[shifts[0], 0] == 4
    assert samples[shifts[1], 0] == 6


def test_a_change_is_accepted_when_the_first_alarm_after_it_ends_so() -> None:
    events = story(
        (5, 30, ACCEPTED),
        (99, 150, BACK),  # open when it changes
        (160, 180, BACK),
        (200, 450, ACCEPTED),
        (460, 490, ACCEPTED),
        (550, 700, BACK),
        (900, None, ""),
    )
    nothing, first, second = acceptances(events, (NOTHING, "level", "scale"), (0, 100, 500), 1000)
    assert (nothing.after, nothing.age, nothing.alarms) == (30, 25, 1)
    assert (first.change, first.after, first.age) == ("level", 350, 250)
    assert (first.alarms, first.longest) == (3, 250)
    assert first.accepted
    assert not second.accepted
    assert math.isnan(second.after)
    assert math.isnan(second.age)
    assert (second.alarms, second.longest) == (2, 150)


def test_an_acceptance_belongs_to_the_change_before_it() -> None:
    first, second = acceptances(story((100, 500, ACCEPTED)), ("level", "scale"), (100, 500), 1000)
    assert not first.accepted
    assert (second.after, second.age, second.alarms) == (0, 400, 0)


@dataclass(frozen=True)
class Thing:
    """A stand-in for an alarm or a change."""

    number: int
    start: int
    reason: str | None = None


@dataclass(frozen=True)
class Event:
    kind: str
    sample: int
    alarm: Thing | None
    change: Thing | None = None


def test_a_change_that_is_accepted_is_one_opening_with_its_alarm() -> None:
    alarm, change, other = Thing(1, 110), Thing(1, 105), Thing(2, 300)
    events: list[Any] = [
        Event("opened", 110, alarm),
        Event("changed", 140, alarm, change),
        Event("closed", 150, alarm),
        Event("changed", 310, None, other),
        Event("reverted", 330, None, other),
        Event("accepted", 400, None, change),
        Event("undone", 600, None, change),
    ]
    (found,) = acceptances(events, ("level",), (100,), 1000)
    assert (found.after, found.age) == (300, 295)
    assert (found.alarms, found.longest) == (2, 295)
    assert accepted(events) == [events[-2]]


class Watched:
    """A stand-in for a detector with pending changes."""

    def __init__(self, *changes: int) -> None:
        self.changes_ = [Thing(number, 0) for number in changes]
        self.rejected: list[Thing] = []

    def reject(self, change: Thing) -> None:
        self.rejected.append(change)


def test_every_pending_change_is_rejected() -> None:
    none: Any = Watched()
    assert not reject_pending(none)
    some: Any = Watched(3, 4)
    assert reject_pending(some)
    assert [each.number for each in some.rejected] == [3, 4]


def test_a_fault_is_noticed_in_the_first_quarter_and_absorbed_in_the_second_half() -> None:
    onset, quarter, half = 100, ACCEPT_AFTER // 4, ACCEPT_AFTER // 2
    for at, seen in ((onset - 1, False), (onset, True), (onset + quarter - 1, True)):
        alarm = np.zeros(onset + ACCEPT_AFTER, dtype=bool)
        alarm[at] = True
        assert noticed(alarm, onset) == seen
        assert absorbed(alarm, onset)
    alarm[:] = False
    alarm[onset + quarter :] = True
    assert not noticed(alarm, onset)
    assert not absorbed(alarm, onset)
    alarm[:] = True
    alarm[onset + half : onset + half + half // 2 + 1] = False  # just under half is left
    assert absorbed(alarm, onset)
    alarm[onset + half] = True
    assert not absorbed(alarm, onset)


# ---------------------------------------------------------------------- faults


def test_streams_for_faults_have_the_history_that_detectors_were_fitted_on() -> None:
    for kind in KINDS:
        if kind.calm is not None:
            ref, comp = kind.make(1), kind.calm(1)
            np.testing.assert_array_equal(ref.train, comp.train)
            until = ref.shifts[0]
            np.testing.assert_array_equal(ref.test[:until], comp.test[:until])
    assert [kind.name for kind in KINDS if kind.calm] == ["drift/plant", "drift/wave-level"]


@pytest.mark.parametrize("stream", ["drift/plant-2", "drift/wave-level-1"])
def test_one_sensor_fails_at_the_onset_and_stays_failed(stream: str) -> None:
    length = 3 * ACCEPT_AFTER
    data = DRIFTING[stream]()
    means, stds = data.train.mean(axis=0), data.train.std(axis=0)
    found = list(faulty(stream, length))
    assert [each[:2] for each in found] == [
        (fault, channel) for fault in FAULTS for channel in range(len(data.channels))
    ]
    good = normal_part(data)[0]
    assert normal_part(data)[1][0] > ONSET + ACCEPT_AFTER  # a day of fault is as it would be
    for fault, channel, samples in found:
        assert samples.shape == (ONSET + length, len(data.channels))
        np.testing.assert_array_equal(samples[:ONSET], good[:ONSET])
        others = np.delete(np.arange(len(data.channels)), channel)
        day = slice(ONSET, ONSET + ACCEPT_AFTER)
        np.testing.assert_array_equal(samples[day][:, others], good[day][:, others])
        reading, std = samples[ONSET:, channel], stds[channel]
        if fault == "stuck":
            assert (reading == samples[ONSET - 1, channel]).all()
        elif fault == "dropped":
            assert (reading == means[channel] - 6 * std).all()
        elif fault == "offset":
            gap = samples[day, channel] - good[day, channel]
            np.testing.assert_allclose(gap, 5 * std, rtol=1e-9)
        else:
            assert reading.std() == pytest.approx(5 * std, rel=0.05)
            assert reading.mean() == pytest.approx(means[channel], abs=0.3 * std)


def test_faults_are_the_same_each_time_and_other_streams_have_none() -> None:
    one, two = (list(faulty("drift/wave-level-1", 50)) for _ in range(2))
    for ref, comp in zip(one, two, strict=True):
        np.testing.assert_array_equal(ref.samples, comp.samples)
    assert list(faulty("drift/wave-scale-1", 50)) == []  # the wave's are those of the other kind
    assert list(faulty("SMD/1-4", 50)) == []


# ---------------------------------------------------------------------- the experiment


def test_every_run_is_measured_once(alarms: DriftAlarms) -> None:
    runs = {(stream, seed) for stream in STREAMS for seed in (1, 2)}
    assert {(of.stream, of.seed) for of in alarms.counts} == runs
    assert {PLAIN, FIXED, OURS} < {of.row for of in alarms.counts}
    assert len(alarms.counts) == 5 * len(runs)
    assert alarms.acceptances.keys() == {of for of in alarms.counts if of.row == OURS}
    assert {of.stream for of in alarms.faults} == {STREAMS[0]}
    assert {PLAIN, FIXED, OURS} < {of.row for of in alarms.faults}
    for of, every in alarms.faults.items():
        assert [each.fault for each in every] == list(FAULTS)
        for each in every:
            assert (each.early is not None) == (of.row == OURS)


def test_counts_are_those_of_a_detector_with_the_limit_and_of_a_rows_own_threshold(
    result: Drift, alarms: DriftAlarms
) -> None:
    experiment = result.experiment
    stream = experiment.runner.streams.about(STREAMS[1])
    data = load_stream(stream.name, stream.root)
    default = Detector(seed=2, epochs=1, alarms_per_day=LIMIT).fit(data.train)
    (trial,) = [
        trial
        for line, trials in experiment.lines
        for trial in trials
        if (line.stream.name, line.competitor.name, trial.seed) == (STREAMS[1], PLAIN, 2)
    ]
    frozen = experiment.runner.detector(experiment.outcomes[trial]).track_alarms()
    for row, detector in ((OURS, default), (PLAIN, frozen)):
        (of,) = [each for each in alarms.counts if each == (STREAMS[1], row, 2)]
        trace = trace_alarms(watch(detector, data.test), len(data.test))
        assert alarms.counts[of] == trace.count(data.labels, samples_per_day=1440)
        assert alarms.counts[of].openings > 0


def test_no_fault_is_accepted_early_or_once_rejected(alarms: DriftAlarms) -> None:
    mine = alarms.mine()
    assert len(mine) == 2 * len(FAULTS)
    assert not any(each.early for each in mine)
    assert all(each.rejected for each in mine)
    assert not any(each.learned for each in mine)
    shares = alarms.fault_shares("absorbed")
    for fault in FAULTS:
        assert shares["drift/wave-level", fault][OURS] == Figure(0.0, 0.0)
    # What forgets fast takes the new level for normal within half a day.
    assert shares["drift/wave-level", "offset"][FIXED] == Figure(1.0, 0.0)
    assert shares["drift/wave-level", "offset"][PLAIN] == Figure(0.0, 0.0)


def test_a_level_that_moves_is_accepted_once_after_a_day_and_before_two(
    alarms: DriftAlarms,
) -> None:
    for each in alarms.changes()["drift/wave-level", "level"]:
        assert ACCEPT_AFTER <= each.after <= 2 * ACCEPT_AFTER
    assert {what for _, what in alarms.changes()} == {NOTHING, "level", "scale"}


def test_the_page_and_the_csv_say_so(result: Drift, alarms: DriftAlarms) -> None:
    page = result.markdown()
    said = "It accepted 0 of 8 such faults without feedback before `accept_after`, and 0 of the 8 "
    assert said in page
    assert "| absorbed | offset, wave |" in page
    assert "| wave-level: level | 2 | 100% |" in page

    tables = alarms.tables().values()
    lines = [line for text in tables for line in csv.DictReader(text.splitlines())]
    kinds = {
        name: [line for line in lines if line["measure"] == name]
        for name in ("alarms", "around", "acceptance", "fault")
    }
    assert len(kinds["alarms"]) == 4 * 5
    for line in kinds["alarms"]:
        assert int(line["found"]) <= int(line["events"])
        assert int(line["true"]) <= int(line["openings"])
    assert len(kinds["around"]) == 4 * 5
    assert len(kinds["acceptance"]) == 4 * 2
    assert len(kinds["fault"]) == len(FAULTS) * 2 * 5
    assert sum(map(len, kinds.values())) == len(lines)
    (one,) = [
        line
        for line in kinds["fault"]
        if (line["row"], line["seed"], line["fault"]) == (FIXED, "1", "offset")
    ]
    assert (one["noticed"], one["absorbed"], one["early"]) == ("1", "1", "")
    assert (one["dataset"], one["collection"]) == (STREAMS[0], STREAMS[0][:-2])


def test_nothing_is_fitted_where_only_what_is_kept_is_wanted(
    runner: Runner, result: Drift, alarms: DriftAlarms, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Runner(runner.store.folder, cache=runner.store.folder, overrides=FAST, compute=False)

    def refuse(*_: object) -> TrialFit:
        raise AssertionError

    monkeypatch.setattr(TrialFit, "on", refuse)
    asked: dict[str, Any] = {"datasets": list(STREAMS), "models": ["mlp", DEFAULT]}
    assert drift(kept, seeds=[1, 2], **asked).alarms.tables() == alarms.tables()
    for path in (runner.store.folder / "fits").glob("*default-2*"):
        path.rename(path.with_suffix(".gone"))
    try:
        less = drift(kept, seeds=[1, 2], **asked).alarms
        assert {of.seed for of in less.counts if of.row == OURS} == {1}
        assert {of.seed for of in less.faults if of.row == OURS} == {1}
        assert {of.seed for of in less.faults if of.row == PLAIN} == {1, 2}
    finally:
        for path in (runner.store.folder / "fits").glob("*.gone"):
            path.rename(path.with_suffix(".nn"))


def test_without_the_default_detector_nothing_is_said_of_alarms_that_it_alone_has(
    runner: Runner,
) -> None:
    page = drift(runner, datasets=[STREAMS[0]], models=["mlp"], seeds=[1]).markdown()
    assert "## Faults that stay" in page
    assert "## What an operator gets" in page
    for absent in ("With a limit of", "Until a new normal is accepted", "rejected"):
        assert absent not in page


def test_what_was_not_asked_of_a_row_is_empty() -> None:
    fault = Fault("stuck", 0, noticed=True, absorbed=False)
    assert fault[4:] == (None,) * 4
    assert csv_text(Fault._fields[2:5], [fault._asdict()]) == "noticed,absorbed,early\n1,0,\n"
