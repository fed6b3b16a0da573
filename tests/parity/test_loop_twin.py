"""The loop with its alarms and acceptance beside its slow obvious twin, after every sample."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from numpy.typing import NDArray

import newnormal
from newnormal.acceptance import NormalRange, TimedAcceptance
from newnormal.acceptance.review import FROZEN, TRAINS
from newnormal.alarms import AlarmThreshold
from newnormal.core import loop
from newnormal.core.state import Fitted, ModelState, StreamState
from newnormal.kernels.drift import DriftOut
from newnormal.kernels.step import PENDING
from newnormal.types import AlarmEvent, Floats, Verdicts
from tests.golden.make_runs import FOLDER, HISTORY, Case, plant
from tests.naive_loop import Look, NaiveLog, NaiveLoop, NaiveRange, NaiveThreshold


class Watched(TimedAcceptance):
    """The acceptance stage of the loop; keeps what the twin is given of the models."""

    def __init__(self, accept_after: float) -> None:
        super().__init__(accept_after)
        self.look = Look()
        self.flags: NDArray[np.int8] = np.zeros(0, np.int8)
        self.kept: list[float] = []

    def train_shadow(
        self, fitted: Fitted, state: StreamState, samples: Floats, flush: bool
    ) -> None:
        before = 0 if state.shadow is None else self.newest(state)
        super().train_shadow(fitted, state, samples, flush)
        shadow = state.shadow
        if shadow is not None and shadow.counts[TRAINS]:
            count = (self.newest(state) - before) % len(shadow.scores)
            places = (before + np.arange(count)) % len(shadow.scores)
            self.look.shadow_scores = shadow.scores[places].tolist()
            self.look.shadow_moved = self.moved(fitted, shadow.model)

    @staticmethod
    def newest(state: StreamState) -> int:
        assert state.shadow is not None
        return int(state.shadow.counts[2])

    def measure(
        self, fitted: Fitted, state: StreamState, pending: Floats, samples: Floats, final: int
    ) -> DriftOut | None:
        drift = super().measure(fitted, state, pending, samples, final)
        assert drift is not None
        self.flags = drift.flags.copy()
        return drift

    def review(
        self, fitted: Fitted, state: StreamState, time: np.datetime64 | None
    ) -> list[AlarmEvent]:
        self.look.moved = self.moved(fitted, state.model)
        return super().review(fitted, state, time)

    @staticmethod
    def moved(fitted: Fitted, model: ModelState) -> float:
        start = fitted.step.fitted.astype(np.float64)
        return float(np.linalg.norm(model.step.weights - start) / np.linalg.norm(start))


@dataclass
class Pair:
    """A stream and its twin."""

    fitted: Fitted
    state: StreamState
    stage: Watched
    twin: NaiveLoop
    events: list[AlarmEvent] = field(default_factory=list)

    @classmethod
    def of(cls, name: str) -> Pair:
        detector = newnormal.load(FOLDER / f"{name}.nn")
        found = detector._fitted
        assert isinstance(found.acceptance, TimedAcceptance)
        stage = Watched(found.acceptance.timing.accept_after)
        fitted = replace(found, acceptance=stage)
        state = fitted.initial()
        assert fitted.drift is not None and state.drift is not None
        limit = AlarmThreshold(fitted.alarm, fitted.tail_chances, fitted.tail_knots, state.alarm)
        twin = NaiveLoop(
            NaiveThreshold.of(limit),
            NaiveRange(NormalRange(fitted.drift, state.drift)),
            NaiveLog(fitted.channels),
            stage.timing.accept_after,
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
        assert self.stage.flags[:final].tolist() == [each.flag for each in verdicts], at
        self.compare_state()

    def compare_state(self) -> None:
        state, twin = self.state, self.twin
        assert state.review is not None
        at = f"after sample {twin.seen - 1}"
        assert [NaiveLog.fields(event) for event in self.events] == twin.log.events, at
        assert state.learn_threshold[0] == pytest.approx(twin.learn_threshold, rel=1e-9), at
        assert bool(state.review.counts[FROZEN]) == twin.frozen, at
        trains = state.shadow is not None and bool(state.shadow.counts[TRAINS])
        assert trains == twin.trains, at
        distance = self.stage.distance(self.fitted, state)
        assert distance == pytest.approx(max(twin.range.distance, twin.moves), rel=1e-9), at

    def reject(self) -> None:
        self.events += self.stage.reject(self.fitted, self.state, None)
        self.twin.reject()
        self.compare_state()

    def accept(self) -> None:
        look = Look(moved=Watched.moved(self.fitted, self.state.model))
        if self.state.shadow is not None:
            look.shadow_moved = Watched.moved(self.fitted, self.state.shadow.model)
        self.events += self.stage.accept(self.fitted, self.state, None)
        self.twin.accept(look)
        self.compare_state()


# A golden state, whose fit is used; channels; acts of a person at samples of the plant; what must
# have happened at the end of it. The plant's second channel is elsewhere from 1,200 to 1,900, and
# values are missing.
STREAMS = [
    ("quiet-quantile", 3, {}, 2_000, "new normal accepted"),
    ("quiet-budget", 3, {}, 2_000, "new normal accepted"),
    ("quiet-quantile", 3, {1_260: "reject"}, 2_100, "rejected"),
    ("quiet-budget", 3, {1_260: "reject"}, 2_100, "rejected"),
    ("quiet-budget", 3, {1_230: "accept", 1_950: "reject"}, 2_200, "new normal accepted"),
    ("one-channel", 1, {}, 1_500, "new normal accepted"),
    ("m2n2-alarms", 3, {1_230: "reject", 1_600: "accept"}, 2_000, "rejected"),
]


@pytest.mark.parametrize(("name", "channels", "acts", "until", "happened"), STREAMS)
def test_loop_equals_its_slow_twin_after_every_sample(
    name: str, channels: int, acts: dict[int, str], until: int, happened: str
) -> None:
    pair = Pair.of(name)
    live = plant(HISTORY, until, Case("", False, 0, 0, channels=channels))
    for number, sample in enumerate(live, HISTORY + 1):
        pair.step(sample)
        if number in acts:
            getattr(pair, acts[number])()
    pair.step(None)
    told = {alarm.state for alarm in (event.alarm for event in pair.events)}
    told |= {event.alarm.reason or "" for event in pair.events}
    assert happened in told
    assert np.isnan(live).any()


def test_loop_equals_its_slow_twin_on_a_drift_that_no_score_shows() -> None:
    pair = Pair.of("quiet-quantile")
    live = plant(HISTORY, HISTORY + 300, Case("", False, 0, 0))
    live = np.concatenate([live, live, live])
    live[:, 0] += 0.002 * np.arange(len(live))
    for sample in live:
        pair.step(sample)
    assert pair.events
