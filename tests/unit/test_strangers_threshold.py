"""A threshold that somebody else wrote works wherever a built-in one does, and may move."""

import copy
import sys
from importlib.metadata import EntryPoint
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import newnormal
from newnormal import M2N2, Detector, MovingThreshold, ParameterError, StateError
from newnormal import state as state_file
from newnormal.base import BaseDetector
from newnormal.models import registry
from newnormal.state import State
from newnormal.testing import check_threshold
from newnormal.testing.expecting import plant
from newnormal.thresholds import registry as thresholds
from newnormal.types import Floats
from tests.errors import raised
from tests.strangers.threshold import Largest, Trailing, Unnamed

PATH = "tests.strangers.threshold:Trailing"


def series() -> Floats:
    """A series with a fault, a gap, and a level that lasts."""
    live = plant(400, 3, 1)
    live[100:110] += 4.0
    live[150:160] = np.nan
    live[180, 1] = np.nan
    live[200:] += 2.0
    return live


@pytest.fixture(scope="module")
def fits() -> dict[str, BaseDetector]:
    history = plant(300, 3, 0)
    return {
        "m2n2": M2N2(window=6, stride=3, latent=3, threshold=Trailing()).fit(history),
        "with acceptance": M2N2(window=6, latent=3, accept_after=40, threshold=Trailing()).fit(
            history
        ),
        "detector": Detector(epochs=2, accept_after=60, threshold=Trailing()).fit(history),
    }


@pytest.fixture(params=["m2n2", "with acceptance", "detector"])
def detector(fits: dict[str, BaseDetector], request: pytest.FixtureRequest) -> BaseDetector:
    return fits[request.param].reset()


def assert_same(comp: list[Any], ref: list[Any]) -> None:
    assert len(comp) == len(ref)
    for one, other in zip(comp, ref, strict=True):
        assert repr(one) == repr(other)


# ------------------------------------------------------------------ moving


@pytest.mark.parametrize("rule", [Trailing(), Largest(), Unnamed(), PATH, Trailing(2.0, 10.0)])
def test_a_strangers_threshold_passes_the_check(rule: object) -> None:
    check_threshold(rule)


def test_the_threshold_moves_sample_by_sample_as_its_rule_says(detector: BaseDetector) -> None:
    assert isinstance(Trailing(), MovingThreshold)
    assert detector.history_scores_ is not None
    verdicts = detector.run(series())
    rule = Trailing()
    state = detector._fitted.moving_start
    assert state is not None
    state = state.copy()
    assert verdicts.ratios is not None
    # The joint score is what `Detector` compares: its score ranks.
    joint = np.where(np.isnan(verdicts.scores), np.nan, verdicts.ratios * verdicts.thresholds)
    judged = verdicts.scores if isinstance(detector, M2N2) else joint
    columns = judged, verdicts.thresholds, verdicts.anomalous
    for score, threshold, anomalous in zip(*columns, strict=True):
        assert threshold == pytest.approx(rule.threshold(state), rel=1e-9)
        assert anomalous == (score >= threshold * (1 - 1e-12))
        if not np.isnan(score):
            rule.update(state, float(score), bool(anomalous))
    assert detector.alarm_threshold_ == pytest.approx(rule.threshold(state), rel=1e-9)
    assert len(np.unique(verdicts.thresholds)) > 100
    assert verdicts.anomalous[100:110].any()


def test_where_a_threshold_moves_samples_become_alarms(detector: BaseDetector) -> None:
    verdicts = detector.run(series())
    assert verdicts.alarms is not None
    assert verdicts.alarms.max() > 0
    assert "opened" in {event.kind for event in detector.take_events()}
    assert verdicts.ratios is not None
    np.testing.assert_array_equal(verdicts.ratios >= 1, verdicts.anomalous)
    assert (verdicts.alarms[verdicts.anomalous] > 0).all()
    if verdicts.channel_ratios is None:
        np.testing.assert_array_equal(verdicts.ratios, verdicts.scores / verdicts.thresholds)
    else:
        assert (verdicts.ratios >= verdicts.channel_ratios.max(axis=1)).all()


def test_a_quiet_stretch_lowers_it_and_what_is_learned_from_stays(detector: BaseDetector) -> None:
    before, start = detector.threshold_, detector.alarm_threshold_
    assert before == start
    detector.run(plant(60, 3, 2))
    assert detector.alarm_threshold_ != start
    assert detector.threshold_ == before


def test_run_step_pieces_save_and_load_are_equal(detector: BaseDetector, tmp_path: Path) -> None:
    live = series()
    ref = list(detector.run(live))
    events = detector.take_events()

    detector.reset()
    steps = [each for sample in live for each in detector.step(sample)] + detector.flush()
    assert_same(steps, ref)
    assert_same(detector.take_events(), events)

    detector.reset()
    found: list[Any] = []
    happened: list[Any] = []
    running: BaseDetector = detector
    for begin, end in pairwise([0, 4, 5, 103, 104, 155, 230, 399, 400]):
        part = running.run(live[begin:end], flush=end == 400)
        found += [] if part.late is None else list(part.late)
        found += list(part)[: max(0, len(part) - running.counters["pending"])]
        happened += running.take_events()
        running.save(tmp_path / "moving.nn")
        running = copy.deepcopy(newnormal.load(tmp_path / "moving.nn", threshold=Trailing))
    assert_same(found, ref)
    assert_same(happened, events)


def test_looking_does_not_move_it_and_reset_puts_it_back(detector: BaseDetector) -> None:
    start = detector.alarm_threshold_
    detector.score_frozen(series())
    detector.predict(series())
    detector.decision_function(series())
    assert detector.alarm_threshold_ == start
    detector.run(series())
    assert detector.alarm_threshold_ != start
    assert detector.reset().alarm_threshold_ == start


def test_another_threshold_can_be_set_without_another_fit(detector: BaseDetector) -> None:
    other = detector.with_options(threshold=Trailing(deviations=1.0))
    assert other.alarm_threshold_ < detector.alarm_threshold_
    fixed = detector.with_options(threshold=newnormal.Fixed(3.0))
    assert fixed.alarm_threshold_ == fixed.run(plant(12, 3, 1)).thresholds.max() == 3.0
    assert fixed.with_options(threshold=Trailing()).alarm_threshold_ == detector.alarm_threshold_


def test_feedback_goes_with_a_threshold_that_moves(fits: dict[str, BaseDetector]) -> None:
    detector = fits["detector"].reset()
    live = plant(200, 3, 1)
    live[60:] += 3.0
    detector.run(live[:100], flush=False)
    assert detector.status_ != "normal"
    for _ in range(len(detector.changes_) + len(detector.alarms_)):
        if detector.status_ != "normal":
            detector.accept()
    assert detector.status_ == "normal"
    detector.run(live[100:], flush=False)
    detector.undo()
    assert np.isfinite(detector.alarm_threshold_)


# ------------------------------------------------------------------ state files


def test_a_rule_that_stays_may_be_a_strangers_too(tmp_path: Path) -> None:
    detector = M2N2(window=6, threshold=Largest(2.0)).fit(plant(300, 3, 0))
    detector.save(tmp_path / "largest.nn")
    with pytest.raises(StateError, match="is neither built in nor an installed entry point"):
        newnormal.load(tmp_path / "largest.nn")
    other = newnormal.load(tmp_path / "largest.nn", threshold=Largest)
    assert isinstance(other.threshold, Largest)
    assert other.threshold.factor == 2.0
    assert other.threshold_ == detector.threshold_


def test_a_file_that_names_a_threshold_is_loaded_where_the_caller_names_it(tmp_path: Path) -> None:
    detector = M2N2(window=6, threshold=PATH).fit(plant(300, 3, 0))
    detector.save(tmp_path / "moving.nn")
    assert str(raised(StateError, lambda: newnormal.load(tmp_path / "moving.nn"))) == (
        f"{tmp_path / 'moving.nn'}: the threshold '{PATH}' is neither built in nor an installed "
        "entry point, and a state file does not choose what is imported\n"
        f"hint: newnormal.load(path, threshold='{PATH}'), or --threshold {PATH}, if you trust it"
    )
    for threshold in (PATH, Trailing, Trailing(4.0)):
        other = newnormal.load(tmp_path / "moving.nn", threshold=threshold)
        assert other.alarm_threshold_ == detector.alarm_threshold_
    with pytest.raises(StateError, match=r"which this was fitted with, found .*:Largest"):
        newnormal.load(tmp_path / "moving.nn", threshold=Largest)


@pytest.mark.parametrize(
    ("threshold", "file_has"), [(None, "the default one"), (newnormal.Fixed(4.0), "a fixed one")]
)
def test_a_threshold_named_for_a_file_that_has_none_of_its_kind_is_an_error(
    tmp_path: Path, threshold: newnormal.Fixed | None, file_has: str
) -> None:
    M2N2(window=6, threshold=threshold).fit(plant(300, 3, 0)).save(tmp_path / "plain.nn")
    error = raised(StateError, lambda: newnormal.load(tmp_path / "plain.nn", threshold=PATH))
    assert str(error) == (
        f"{tmp_path / 'plain.nn'}: threshold: expected none given, since the file has {file_has}, "
        f"found {PATH}\n"
        "hint: leave threshold out; with_options(threshold=...) sets another"
    )


def test_what_the_caller_names_wrongly_is_not_an_error_of_the_file(tmp_path: Path) -> None:
    M2N2(window=6, threshold=Trailing()).fit(plant(300, 3, 0)).save(tmp_path / "moving.nn")
    with pytest.raises(ParameterError, match="threshold: expected a class by import path"):
        newnormal.load(tmp_path / "moving.nn", threshold="nowhere:Trailing")
    with pytest.raises(ParameterError, match="model: expected a class by import path"):
        newnormal.load(tmp_path / "moving.nn", model="nowhere:Codebook", threshold=Trailing)
    error = raised(ParameterError, lambda: newnormal.load(tmp_path / "moving.nn", threshold=3))
    assert str(error) == (
        "threshold: expected the class of a threshold or its import path, found 3\n"
        "hint: leave it out where the threshold is built in"
    )


def test_loading_imports_no_threshold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "snare.py").write_text("open('trace', 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    state = M2N2(window=6, threshold=Trailing()).fit(plant(300, 3, 0)).to_state()
    rule = {"kind": "snare:Mine", "options": {}}
    content = state_file.encode(State(state.facts | {"threshold": rule}, state.tensors))
    state_file.write("snare.nn", content)
    with pytest.raises(StateError, match="a state file does not choose what is imported"):
        newnormal.load("snare.nn")
    assert "snare" not in sys.modules
    assert not (tmp_path / "trace").exists()


def test_an_entry_point_is_loaded_unnamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("trailing", PATH, thresholds.GROUP)
    monkeypatch.setattr(
        registry, "entry_points", lambda group: [entry] if group == thresholds.GROUP else []
    )
    detector = M2N2(window=6, threshold="trailing").fit(plant(300, 3, 0))
    detector.save(tmp_path / "moving.nn")
    assert newnormal.load(tmp_path / "moving.nn").alarm_threshold_ == detector.alarm_threshold_


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"live.moving": np.zeros(3)}, r"live.moving: expected f8 of shape \(2,\)"),
        (
            {"fitted.moving_start": np.zeros(0)},
            r"moving_start: expected 1 to 65536 numbers, found 0",
        ),
        ({"fitted.moving_start": np.zeros((2, 1))}, r"fitted.moving_start: expected f8 of shape"),
        ({"live.moving": np.zeros(2, "f4")}, r"live.moving: expected f8 of shape"),
        ({"live.moving": np.full(2, np.nan)}, r"expected a number from Trailing.threshold"),
    ],
)
def test_the_state_of_a_rule_is_checked(change: dict[str, Any], message: str) -> None:
    state = M2N2(window=6, threshold=Trailing()).fit(plant(300, 3, 0)).to_state()
    with pytest.raises(StateError, match=message):
        M2N2.from_state(State(state.facts, {**state.tensors, **change}), threshold=Trailing)


@pytest.mark.parametrize(
    "rule", [{"kind": PATH}, {"kind": PATH, "options": []}, {"kind": 5, "options": {}}, {}]
)
def test_a_rule_that_a_file_garbles_is_a_state_error(rule: dict[str, Any]) -> None:
    state = M2N2(window=6, threshold=Trailing()).fit(plant(300, 3, 0)).to_state()
    with pytest.raises(StateError):
        M2N2.from_state(State(state.facts | {"threshold": rule}, state.tensors), threshold=Trailing)
    odd = {"kind": PATH, "options": {"nonsense": 1}}
    with pytest.raises(StateError, match="nonsense"):
        M2N2.from_state(State(state.facts | {"threshold": odd}, state.tensors), threshold=Trailing)


def test_a_rule_without_options_of_its_own_is_refused(tmp_path: Path) -> None:
    detector = M2N2(window=6, threshold=Unnamed()).fit(plant(300, 3, 0))
    with pytest.raises(StateError, match="a threshold of type Unnamed cannot be saved"):
        detector.save(tmp_path / "unnamed.nn")
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------ wrong thresholds


def test_a_name_that_is_no_threshold_or_one_that_becomes_nan_is_an_error() -> None:
    with pytest.raises(ParameterError, match=r"an entry point of newnormal\.thresholds"):
        M2N2(threshold="trailing")
    with pytest.raises(ParameterError, match="expected a class by import path"):
        M2N2(threshold="nowhere:Trailing")
    with pytest.raises(ParameterError, match="found both"):
        M2N2(threshold=Trailing(), alarms_per_day=1)

    class Lost(Unnamed):
        def update(self, state: Floats, score: float, anomalous: bool) -> None:
            state[0] = np.nan

    detector = M2N2(window=6, threshold=Lost()).fit(plant(300, 3, 0))
    with pytest.raises(ParameterError, match=r"a number from Lost\.threshold, found NaN"):
        detector.run(plant(60, 3, 1))


def having(**members: Any) -> type[Trailing]:
    """Return a Trailing with other members."""
    return type("Other", (Trailing,), members)


start = Trailing.start
AsList = having(start=lambda self, scores: [1.0, 2.0])
SinglePrecision = having(start=lambda self, scores: start(self, scores).astype(np.float32))
OneArray = having(kept=np.ones(2), start=lambda self, scores: self.kept)
Moody = having(start=lambda self, scores: start(self, scores) + np.random.default_rng().uniform())
Returns = having(update=lambda self, state, score, anomalous: state + 1)
NotPlain = having(to_json=lambda self: {"deviations": np.ones(3)})
OtherOptions = having(to_json=lambda self: {"factor": 2})
Defaults = having(to_json=lambda self: {})
NoNumber = type("NoNumber", (Largest,), {"fit": lambda self, scores: float("nan")})


class Binds(Trailing):
    def update(self, state: Floats, score: float, anomalous: bool) -> None:
        state = state + 1


class MovesWhenAsked(Trailing):
    def threshold(self, state: Floats) -> float:
        state[0] += 1
        return float(state[0])


class KeepsToItself(Trailing):
    level = 1.0

    def threshold(self, state: Floats) -> float:
        return self.level + float(state[0])

    def update(self, state: Floats, score: float, anomalous: bool) -> None:
        self.level = 0.9 * self.level + 0.1 * score
        state[1] += 1


class Overflows(Unnamed):
    def threshold(self, state: Floats) -> float:
        return float(state[0]) if state[0] < 1e9 else float("nan")

    def update(self, state: Floats, score: float, anomalous: bool) -> None:
        state[0] = score


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (AsList(), r"start: expected a float64 array of one axis, found \[1.0, 2.0\]"),
        (SinglePrecision(), "start: expected a float64 array of one axis, found float32 of shape"),
        (OneArray(), "start: expected a new array each time"),
        (Moody(), "start: expected the same scores to give the same state"),
        (MovesWhenAsked(), "threshold: expected the state as it was"),
        (Returns(), "update: expected it to change the state in place and return None"),
        (Binds(), "update: expected the state to change .*which `state = ...` does not do"),
        (KeepsToItself(), "two streams: expected each to move its own threshold"),
        (Overflows(), r"threshold: expected a number after a score of 1e\+30, found NaN"),
        (NotPlain(), "to_json: expected the arguments of the constructor as plain values"),
        (OtherOptions(), "to_json: expected the arguments of the constructor"),
        (Defaults(deviations=9), "to_json: expected its options to make the same threshold again"),
        (NoNumber(), "fit: expected a number, found nan"),
        (object(), "expected a quantile between 0 and 1 or a Threshold object"),
        (Trailing, "expected a quantile between 0 and 1 or a Threshold object"),
        (2.0, "expected a quantile between 0 and 1"),
    ],
)
def test_the_check_says_what_is_wrong(rule: object, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_threshold(rule)


def test_a_loaded_detector_keeps_its_rule_under_other_options(tmp_path: Path) -> None:
    detector = M2N2(window=6, threshold=Trailing()).fit(plant(300, 3, 0))
    detector.save(tmp_path / "moving.nn")
    loaded = newnormal.load(tmp_path / "moving.nn", threshold=Trailing)
    other = loaded.with_options(lr=0.0)
    assert other.alarm_threshold_ == detector.alarm_threshold_
    assert len(np.unique(other.run(series()).thresholds)) > 100
    with pytest.raises(ParameterError, match="expected history's scores for this threshold"):
        loaded.with_options(threshold=Trailing(deviations=2.0))
