"""The loop with its alarms and changes beside its slow obvious twin, after every sample."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import newnormal
from newnormal import M2N2, Detector
from newnormal.acceptance import NormalRange, TimedAcceptance
from newnormal.acceptance.changes import open_slots
from newnormal.alarms import AlarmThreshold, open_alarm
from newnormal.base import BaseDetector
from newnormal.core import loop
from newnormal.core.state import Fitted, StreamState
from newnormal.kernels.step import PENDING
from newnormal.kernels.stream import IS_PENDING, SHADOW_NEXT, SHADOW_TRAINS, ModelState
from newnormal.types import Event, Floats, Verdicts
from tests.golden.make_runs import FOLDER, HISTORY, Case, plant
from tests.naive_loop import Look, NaiveLog, NaiveLoop, NaiveRange, NaiveThreshold

DETECTORS: dict[str, Callable[[], BaseDetector]] = {
    "detector": lambda: Detector(alarms_per_day=5.0, accept_after=120),
    "one-channel": lambda: Detector(alarms_per_day=4.0, accept_after=120, epochs=5),
    "detector-quantile": lambda: Detector(threshold=0.99, accept_after=120),
    "m2n2": lambda: M2N2(
        window=6, stride=3, half_life=60, lr=0.01, alarms_per_day=20.0, accept_after=120
    ),
}


class Watched(TimedAcceptance):
    """The acceptance stage of the loop; keeps what the twin is given of the models."""

    def __init__(self, accept_after: float) -> None:
        super().__init__(accept_after)
        self.look = Look()

    def train_shadow(
        self,
        fitted: Fitted,
        state: StreamState,
        samples: Floats,
        flush: bool,
        phases: Floats | None = None,
    ) -> None:
        before = 0 if state.shadow is None else self.newest(state)
        super().train_shadow(fitted, state, samples, flush, phases)
        shadow = state.shadow
        if shadow is not None and shadow.counts[SHADOW_TRAINS]:
            count = (self.newest(state) - before) % len(shadow.scores)
            places = (before + np.arange(count)) % len(shadow.scores)
            self.look.shadow_scores = shadow.scores[places].tolist()
            self.look.shadow_moved = self.moved(fitted, shadow.model)

    @staticmethod
    def newest(state: StreamState) -> int:
        assert state.shadow is not None
        return int(state.shadow.counts[SHADOW_NEXT])

    def review(self, fitted: Fitted, state: StreamState, time: np.datetime64 | None) -> list[Event]:
        self.look.moved = self.moved(fitted, state.model)
        return super().review(fitted, state, time)

    @staticmethod
    def moved(fitted: Fitted, model: ModelState) -> float:
        start = fitted.step.fitted.astype(np.float64)
        return float(np.linalg.norm(model.step.weights - start) / np.linalg.norm(start))


@cache
def fitted_on_the_plant(name: str) -> Fitted:
    """Return the fit of a golden state, or of a detector."""
    if name not in DETECTORS:
        return newnormal.load(FOLDER / f"{name}.nn")._fitted
    history = plant(0, HISTORY, Case("", False, 0, 0))
    history = history[:, :1] if name == "one-channel" else history
    return DETECTORS[name]().fit(history)._fitted


@dataclass
class Pair:
    """A stream and its twin."""

    fitted: Fitted
    state: StreamState
    stage: Watched
    twin: NaiveLoop
    events: list[Event] = field(default_factory=list)
    compared: int = 0  # events of changes that were compared already

    @classmethod
    def of(cls, name: str) -> Pair:
        found = fitted_on_the_plant(name)
        assert isinstance(found.acceptance, TimedAcceptance)
        stage = Watched(found.acceptance.timing.accept_after)
        fitted = replace(found, acceptance=stage)
        state = fitted.initial()
        assert fitted.drift is not None and state.drift is not None
        limit = AlarmThreshold(fitted.alarm, fitted.tail_chances, state.alarm)
        twin = NaiveLoop(
            NaiveThreshold.of(limit),
            NaiveRange(NormalRange(fitted.drift, state.drift)),
            NaiveLog(fitted.channels),
            stage.timing.accept_after,
            fitted.model.translates,
        )
        return cls(fitted, state, stage, twin)

    def step(self, sample: Floats | None) -> None:
        """Hand one sample to both, or judge the tail of both, and compare everything."""
        samples = np.empty((0, len(self.fitted.channels))) if sample is None else sample[None]
        self.stage.look = Look()
        found, events = loop.advance(self.fitted, self.state, samples, None, sample is None)
        self.events += events
        final = len(found) - int(self.state.model.step.counts[PENDING])
        look = self.stage.look
        assert found.shares is not None
        look.scores = found.scores[:final].tolist()
        look.shares = found.shares[:final].tolist()
        assert found.expected is not None
        spread = np.nan if self.fitted.spread is None else self.fitted.spread
        for values, expected in zip(
            [*self.twin.pending, *samples.tolist()], found.expected[:final], strict=False
        ):
            with np.errstate(divide="ignore", invalid="ignore"):
                apart = np.abs(np.array(values) - expected) / spread
            look.apart.append(apart.tolist())
        self.compare(found, None if sample is None else sample.tolist(), look)

    def compare(self, found: Verdicts, sample: list[float] | None, look: Look) -> None:
        verdicts = self.twin.step(sample, look)
        final = len(verdicts)
        at = f"sample {self.twin.seen - 1}"
        thresholds = [each.threshold for each in verdicts]
        np.testing.assert_allclose(found.thresholds[:final], thresholds, rtol=1e-9, err_msg=at)
        assert found.anomalous[:final].tolist() == [each.anomalous for each in verdicts], at
        assert found.alarms is not None
        assert found.alarms[:final].tolist() == [each.alarm for each in verdicts], at
        assert found.changes is not None and found.distances is not None
        assert found.changes[:final].tolist() == [each.change for each in verdicts], at
        distances = [each.distance for each in verdicts]
        np.testing.assert_allclose(
            found.distances[:final], distances, rtol=1e-9, atol=1e-9, err_msg=at
        )
        self.compare_state()

    def compare_state(self) -> None:
        state, twin = self.state, self.twin
        at = f"after sample {twin.seen - 1}"
        alarms = [event for event in self.events if event.alarm and not event.change]
        assert [NaiveLog.fields(event) for event in alarms] == twin.log.events, at
        self.compare_changes([event for event in self.events if event not in alarms], at)
        assert state.learn_threshold[0] == pytest.approx(twin.learn_threshold, rel=1e-9), at
        assert self.stage.is_frozen(state) == twin.frozen, at
        trains = state.shadow is not None and bool(state.shadow.counts[SHADOW_TRAINS])
        assert trains == twin.trains, at
        distance = self.stage.distance(self.fitted, state)
        # The weights are added up in another order: see `weights_moved`.
        assert distance == pytest.approx(max(twin.range.distance, twin.moves), rel=1e-6), at

    def compare_changes(self, events: list[Event], at: str) -> None:
        assert len(events) == len(self.twin.change_events), at
        for number in range(self.compared, len(events)):
            found = NaiveLoop.fields(events[number])
            expected = dict(self.twin.change_events[number])
            for name in ("levels", "distance"):
                ref, comp = expected.pop(name, 0.0), found.pop(name, 0.0)
                assert comp == pytest.approx(ref, rel=1e-6, abs=1e-9), f"{name} {at}"
            assert found == expected, at
        self.compared = len(events)

    # ------------------------------------------------------------------ what a person does

    def reject(self) -> None:
        """Reject the newest pending change, or else the open alarm."""
        assert self.state.changes is not None
        slots = open_slots(self.state.changes, IS_PENDING)
        if slots:
            self.events += self.stage.reject(self.fitted, self.state, None, slots[-1])
            self.twin.reject(self.twin.waiting[-1])
        else:
            alarm = open_alarm(self.state.log, self.fitted.channels)
            assert alarm is not None
            self.events += self.stage.reject_alarm(self.fitted, self.state, None, alarm)
            self.twin.reject_alarm()
        self.compare_state()

    def accept(self) -> None:
        """Accept the newest open change."""
        look = Look(moved=Watched.moved(self.fitted, self.state.model))
        if self.state.shadow is not None:
            look.shadow_moved = Watched.moved(self.fitted, self.state.shadow.model)
        assert self.state.changes is not None
        slot = open_slots(self.state.changes)[-1]
        self.events += self.stage.accept(self.fitted, self.state, None, slot)
        self.twin.accept(self.twin.changes[-1], look)
        self.compare_state()

    def rollback(self) -> None:
        self.events += self.stage.rollback(self.fitted, self.state, None)
        self.twin.rollback()
        self.compare_state()

    def told(self) -> set[str]:
        return {event.kind for event in self.events}


# A golden state, or a detector, whose fit is used; channels; acts of a person at samples of the
# plant; what must have happened at the end of it. The plant's second channel is elsewhere from
# 1,200 to 1,900, and values are missing.
STREAMS: list[Any] = [
    ("quantile", 3, {}, 2_000, {"changed", "accepted"}),
    ("quantile", 3, {1_260: "reject"}, 2_100, {"rejected", "reverted"}),
    ("detector", 3, {}, 2_200, {"opened", "closed", "changed", "accepted"}),
    ("detector", 3, {1_203: "reject"}, 2_200, {"rejected", "reverted"}),
    ("detector", 3, {1_260: "accept", 1_400: "rollback"}, 1_900, {"accepted", "rolled_back"}),
    ("detector-quantile", 3, {1_260: "reject", 1_500: "accept"}, 2_200, {"rejected", "accepted"}),
    ("one-channel", 1, {}, 1_500, {"changed", "accepted"}),
    ("m2n2-alarms", 3, {1_260: "reject", 1_600: "accept"}, 2_000, {"rejected", "accepted"}),
    ("m2n2", 3, {1_500: "rollback"}, 2_200, {"accepted", "rolled_back"}),
]


@pytest.mark.parametrize(("name", "channels", "acts", "until", "happened"), STREAMS)
def test_loop_equals_its_slow_twin_after_every_sample(
    name: str, channels: int, acts: dict[int, str], until: int, happened: set[str]
) -> None:
    pair = Pair.of(name)
    live = plant(HISTORY, until, Case("", False, 0, 0))[:, :channels]
    for number, sample in enumerate(live, HISTORY + 1):
        pair.step(sample)
        if number in acts:
            getattr(pair, acts[number])()
    pair.step(None)
    assert happened <= pair.told()
    assert np.isnan(live).any()


@pytest.mark.parametrize("name", ["m2n2-alarms", "detector"])
def test_loop_equals_its_slow_twin_on_a_drift_that_no_score_shows(name: str) -> None:
    pair = Pair.of(name)
    live = plant(HISTORY, HISTORY + 300, Case("", False, 0, 0))
    live = np.concatenate([live, live, live])
    live[:, 0] += 0.002 * np.arange(len(live))
    for sample in live:
        pair.step(sample)
    assert "changed" in pair.told()


def test_loop_equals_its_slow_twin_on_two_changes_decided_apart() -> None:
    pair = Pair.of("detector")
    live = plant(HISTORY, 1_700, Case("", False, 0, 0))
    live[340:, 2] -= 200.0
    for number, sample in enumerate(live, HISTORY + 1):
        pair.step(sample)
        if number == 1_300:
            assert len(pair.twin.changes) == 2
            pair.reject()
    assert {"rejected", "accepted"} <= pair.told()


@pytest.mark.parametrize("seed", [1, 3])
def test_loop_equals_its_slow_twin_on_random_faults(seed: int) -> None:
    pair = Pair.of("detector")
    rng = np.random.default_rng(seed)
    live = plant(HISTORY, 1_900, Case("", False, 0, 0))
    for _ in range(12):
        at, channel = int(rng.integers(len(live))), int(rng.integers(3))
        long = int(rng.integers(1, 200))
        live[at : at + long, channel] += rng.normal(0, 4) * np.nanstd(live[:300, channel])
    for sample in live:
        pair.step(sample)
        if rng.random() < 0.004 and pair.twin.waiting:
            getattr(pair, str(rng.choice(["accept", "reject"])))()
        if rng.random() < 0.002 and pair.twin.undo:
            pair.rollback()
    assert "opened" in pair.told()
