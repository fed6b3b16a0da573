"""The loop with its alarms and changes beside its slow obvious twin, after every sample."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, partial
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
from newnormal.core.state import Fitted, StreamState, copied
from newnormal.kernels import stream
from newnormal.kernels.accepted import PLACES
from newnormal.kernels.channels import ChannelOut
from newnormal.kernels.committee import APART, FARTHEST, advance
from newnormal.kernels.step import PENDING, StepOut, StepParams, blank_out
from newnormal.models.committee import Committee
from newnormal.types import Bools, Event, Floats, Floats32, Verdicts
from tests.golden.make_runs import FOLDER, HISTORY, Case, plant
from tests.naive_channels import NaiveChannels
from tests.naive_loop import LogSample, Look, NaiveLog, NaiveLoop, NaiveRange, NaiveThreshold
from tests.present import present

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
        channels: ChannelOut | None = None,
    ) -> None:
        before = 0 if state.shadow is None else self.newest(state)
        super().train_shadow(fitted, state, samples, flush, phases, channels)
        shadow = state.shadow
        if shadow is not None and shadow.counts[stream.SHADOW_TRAINS]:
            count = (self.newest(state) - before) % len(shadow.scores)
            places = (before + np.arange(count)) % len(shadow.scores)
            self.look.shadow_scores = shadow.scores[places].tolist()
            self.look.shadow_moved = self.moved(fitted, shadow.model)

    @staticmethod
    def newest(state: StreamState) -> int:
        return int(present(state.shadow).counts[stream.SHADOW_NEXT])

    def review(self, fitted: Fitted, state: StreamState, time: np.datetime64 | None) -> list[Event]:
        self.look.moved = self.moved(fitted, state.model)
        return super().review(fitted, state, time)

    @staticmethod
    def moved(fitted: Fitted, model: stream.ModelState) -> float:
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
        limit = AlarmThreshold(fitted.alarm, fitted.tail_chances, state.alarm)
        twin = NaiveLoop(
            NaiveThreshold.of(limit),
            NaiveRange(NormalRange(present(fitted.drift), present(state.drift))),
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
        look.scores = found.scores[:final].tolist()
        look.shares = present(found.shares)[:final].tolist()
        self.compare(found, None if sample is None else sample.tolist(), look)

    def compare(self, found: Verdicts, sample: list[float] | None, look: Look) -> None:
        verdicts = self.twin.step(sample, look)
        final = len(verdicts)
        at = f"sample {self.twin.seen - 1}"
        thresholds = [each.threshold for each in verdicts]
        np.testing.assert_allclose(found.thresholds[:final], thresholds, rtol=1e-9, err_msg=at)
        assert found.anomalous[:final].tolist() == [each.anomalous for each in verdicts], at
        assert present(found.alarms)[:final].tolist() == [each.alarm for each in verdicts], at
        assert present(found.changes)[:final].tolist() == [each.change for each in verdicts], at
        distances = [each.distance for each in verdicts]
        np.testing.assert_allclose(
            present(found.distances)[:final], distances, rtol=1e-9, atol=1e-9, err_msg=at
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
        trains = state.shadow is not None and bool(state.shadow.counts[stream.SHADOW_TRAINS])
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

    def reject(self) -> None:
        """Reject the newest pending change, or else the open alarm."""
        if slots := open_slots(present(self.state.changes), stream.IS_PENDING):
            self.events += self.stage.reject(self.fitted, self.state, None, slots[-1])
            self.twin.reject(self.twin.waiting[-1])
        else:
            alarm = present(open_alarm(self.fitted, self.state.log))
            self.events += self.stage.reject_alarm(self.fitted, self.state, None, alarm)
            self.twin.reject_alarm()
        self.compare_state()

    def accept(self) -> None:
        """Accept the newest open change."""
        look = Look(moved=Watched.moved(self.fitted, self.state.model))
        if self.state.shadow is not None:
            look.shadow_moved = Watched.moved(self.fitted, self.state.shadow.model)
        slot = open_slots(present(self.state.changes))[-1]
        self.events += self.stage.accept(self.fitted, self.state, None, slot)
        self.twin.accept(self.twin.changes[-1], look)
        self.compare_state()

    def undo(self) -> None:
        self.events += self.stage.undo(self.fitted, self.state, None, {})
        self.twin.undo()
        self.compare_state()

    def told(self) -> set[str]:
        return {event.kind for event in self.events}


class DetectorPair:
    """A stream of a `Detector` and its twin; what reviews and people change is adopted."""

    def __init__(self, name: str) -> None:
        self.fitted = fitted_on_the_plant(name)
        assert isinstance(self.fitted.acceptance, TimedAcceptance)
        assert isinstance(self.fitted.model, Committee)
        self.committee = self.fitted.model
        self.stage, self.state = self.fitted.acceptance, self.fitted.initial()
        drift, state = self.fitted.drift, self.state
        assert drift is not None and state.drift is not None
        limit = AlarmThreshold(self.fitted.alarm, self.fitted.tail_chances, state.alarm)
        self.threshold, self.log = NaiveThreshold.of(limit), NaiveLog(self.fitted.channels)
        self.range = NaiveRange(NormalRange(drift, state.drift))
        self.channels: NaiveChannels | None = None
        self.model, self.left = copied(state.model), 0
        self.beside: stream.ModelState | None = None  # sees what is hidden, too
        self.events: list[Event] = []
        self.seen = self.hidden = self.apart = 0

    def step(self, sample: Floats) -> None:
        """Hand one sample to both and compare everything."""
        fitted, state, at = self.fitted, self.state, f"sample {self.seen}"
        params = fitted.params(float(state.learn_threshold[0]), self.stage.is_frozen(state))
        change = self.stage.newest_open(state)
        is_due = self.stage.samples_until_review(state) == 1
        phases = fitted.phases(None, self.seen, 1)
        began_with = set(present(state.changes).counts[:, stream.CHANGE_ALARM].tolist()) - {0}
        found, events = loop.advance(fitted, state, sample[None], None, False)
        mean, scale, missing = params.mean, params.scale, np.isnan(sample)
        # 1. Each channel by itself.
        ref = self.judge((sample - mean) / scale, phases)
        hidden = ref["hidden"] != 0
        assert found.channel_ratios is not None and found.shares is not None
        expected = ref["expected"] * scale + mean
        close = partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6, err_msg=at)
        close(present(found.expected)[0], expected)
        own = present(fitted.channel).flags == 0  # a flag's range is history's
        close((present(found.highs) - present(found.lows))[0, own] / 2, (ref["width"] * scale)[own])
        close(found.channel_ratios[0], ref["ratio"])
        np.testing.assert_array_equal(missing | (found.channel_ratios[0] >= 1), hidden, at)
        # 3. The joint score without what is hidden, and the score of all values.
        joint, observed, shares = self.score(sample, ref["clean"], hidden, phases, params)
        assert self.channels is not None
        close(found.scores, self.channels.score(observed))
        close(found.shares[0], shares)
        # 4. The distance from normal.
        faulty = {c: float(expected[c]) for c in np.flatnonzero(hidden & ~missing).tolist()}
        crosses = self.range.step(sample.tolist(), faulty)
        close(present(found.distances), self.range.distance)
        assert present(found.changes)[0] == change, at
        # 5. Alarms.
        height = math.log(max(joint, 1e-30)) if self.threshold.rate else joint
        level, ratio, anomalous, number = self.threshold.judge(
            height,
            ref["ratio"].tolist(),
            sum(channel.episode.is_open for channel in self.channels.each),
        )
        close(found.thresholds, math.exp(level) if self.threshold.rate else level)
        assert found.ratios is not None and found.alarms is not None
        close(found.ratios, ratio)
        assert (found.anomalous[0], found.alarms[0]) == (anomalous, number), at
        self.log.goes_on = self.log.alarm.get("number") in began_with
        self.log.judged(
            number,
            LogSample(
                self.seen,
                float(found.scores[0]),
                float(found.ratios[0]),
                self.threshold.joint,
                found.shares[0].tolist(),
                found.channel_ratios[0].tolist(),
            ),
        )
        self.seen += 1
        changed = any(event.kind == "changed" for event in events)
        opens = crosses and self.opens()
        assert changed or not opens, at
        assert opens or is_due or not changed, at
        self.told(events)
        if crosses or (is_due and (change or self.stage.newest_open(state) or number)):
            self.adopt()
        elif is_due:
            self.range.has_crossed = False
            self.range.measure_if_known()
            self.range.mark()
        self.hidden += int(hidden.any())
        self.apart += int(observed != joint)

    def opens(self) -> bool:
        """Whether a channel that crosses the limit opens a change: not one of the open alarm."""
        named = {each[0] for each in self.log.alarm.get("evidence", [])}
        about = {self.fitted.channels[c] for c in self.range.about()}
        return bool(self.range.stuck() or about - named)

    def judge(self, scaled: Floats, phases: Floats | None) -> dict[str, Floats]:
        channel = present(self.fitted.channel)
        base = np.zeros(len(scaled))
        if phases is not None:
            base = np.where(channel.rhythmic != 0, self.fitted.rhythm.levels_at(phases)[0], 0.0)
        if self.channels is None:
            self.channels = NaiveChannels(channel, scaled, base)
        return self.channels.judge(scaled, base)

    def score(
        self,
        sample: Floats,
        clean: Floats,
        hidden: Bools,
        phases: Floats | None,
        params: StepParams,
    ) -> tuple[float, float, Floats32]:
        """Return the joint score, that of all values, and the shares of the first."""
        if self.seen == 0:
            self.committee._begin_trends(sample[None], self.model, params)
        away = self.model.own.accepted.used[: PLACES // 2].any()  # judged from an open change
        if hidden.any() or away:
            if self.left == 0:
                self.beside = copied(self.model)
                self.beside.own.accepted.used[: PLACES // 2] = 0
                self.beside.own.accepted.at[: PLACES // 2] = 0
            self.left = APART
        elif self.left:
            self.left -= 1
        observed = math.nan
        if self.beside is not None:
            self.beside.step.weights[:] = self.model.step.weights
            most = FARTHEST * params.scale
            near = np.clip(sample, params.mean - most, params.mean + most)
            still = params._replace(lr=np.float32(0))
            observed = float(self.scored(self.beside, near, clean, phases, still).scores[0])
        out = self.scored(self.model, np.where(hidden, np.nan, sample), clean, phases, params)
        if self.left == 0:
            self.beside, observed = None, float(out.scores[0])
        return float(out.scores[0]), observed, out.shares[0]

    def scored(
        self,
        state: stream.ModelState,
        sample: Floats,
        clean: Floats,
        phases: Floats | None,
        params: StepParams,
    ) -> StepOut:
        model, out = self.committee, blank_out(1, len(sample))
        when = np.full(1, np.nan) if phases is None else phases
        votes = np.empty((1, model.vote_count), np.float32)
        given: Any = (state.step, state.own, params, model.params, out, model._no_squares, votes)
        rows = (sample[None], clean[None], when, False, model.network.padded)
        advance(*rows, *given)
        return out

    def told(self, events: list[Event]) -> None:
        """Compare the events of alarms; those that a review or a person closes are adopted."""
        self.events += events
        alarms = [event for event in self.events if event.alarm and not event.change]
        for event in events:
            closed = event.alarm and event.alarm.reason in ("changed", "accepted")
            if event in alarms and event.alarm and closed and self.log.alarm:
                self.log.close(event.alarm.reason or "", event.sample)
        found = [NaiveLog.fields(event) for event in alarms]
        assert found == self.log.events, f"sample {self.seen - 1}"

    def adopt(self) -> None:
        state = self.state
        assert state.observed is not None
        self.range.adopt(present(state.drift))
        self.threshold.adopt(state.alarm)
        for channel in present(self.channels).each:
            channel.adopt(present(state.channel))
        self.model, self.left = copied(state.model), int(state.observed.left[0])
        seen, own = state.observed, state.observed.own
        step = state.model.step._replace(samples=seen.samples, counts=seen.counts)
        self.beside = copied(stream.ModelState(step, own)) if self.left else None

    def decide(self, what: str) -> None:
        """Accept or reject the newest open change, or undo the newest acceptance."""
        past = {event.change.number: event.change for event in self.events if event.change}
        about: Any = past if what == "undo" else open_slots(present(self.state.changes))[-1]
        self.told(getattr(self.stage, what)(self.fitted, self.state, None, about))
        self.adopt()


# A detector whose fit is used, acts of a person at samples of the plant, and what happens. The
# plant's second channel is elsewhere from 1,200 to 1,900, and values are missing.
STREAMS: list[Any] = [
    ("m2n2-alarms", {1_260: "reject", 1_600: "accept"}, 2_000, {"rejected", "accepted"}),
    ("m2n2", {1_500: "undo"}, 2_200, {"accepted", "undone"}),
]


@pytest.mark.parametrize(("name", "acts", "until", "happened"), STREAMS)
def test_loop_equals_its_slow_twin_after_every_sample(
    name: str, acts: dict[int, str], until: int, happened: set[str]
) -> None:
    pair = Pair.of(name)
    live = plant(HISTORY, until, Case("", False, 0, 0))
    for number, sample in enumerate(live, HISTORY + 1):
        pair.step(sample)
        if number in acts:
            getattr(pair, acts[number])()
    pair.step(None)
    assert happened <= pair.told()
    assert np.isnan(live).any()


def test_loop_equals_its_slow_twin_on_a_drift_that_no_score_shows() -> None:
    pair = Pair.of("m2n2-alarms")
    for sample in drifting():
        pair.step(sample)
    assert "changed" in pair.told()


def drifting() -> Floats:
    live = plant(HISTORY, HISTORY + 300, Case("", False, 0, 0))
    live = np.concatenate([live, live, live])
    live[:, 0] += 0.002 * np.arange(len(live))
    return live


# The same of a `Detector`, with the channels that it has.
DETECTED: list[Any] = [
    ("quantile", 3, {}, 2_000, {"changed", "accepted"}),
    ("quantile", 3, {1_300: "reject"}, 2_100, {"rejected", "reverted"}),
    ("detector", 3, {}, 2_200, {"opened", "updated", "closed", "changed", "accepted"}),
    ("detector", 3, {1_300: "accept", 1_500: "undo"}, 1_900, {"accepted", "undone"}),
    ("detector-quantile", 3, {1_300: "reject", 1_500: "accept"}, 2_200, {"rejected", "accepted"}),
    ("one-channel", 1, {}, 1_500, {"changed", "accepted"}),
]


@pytest.mark.parametrize(("name", "channels", "acts", "until", "happened"), DETECTED)
def test_loop_of_a_detector_equals_its_slow_twin_after_every_sample(
    name: str, channels: int, acts: dict[int, str], until: int, happened: set[str]
) -> None:
    pair = DetectorPair(name)
    live = plant(HISTORY, until, Case("", False, 0, 0))[:, :channels]
    for number, sample in enumerate(live, HISTORY + 1):
        pair.step(sample)
        if number in acts:
            pair.decide(acts[number])
    assert happened <= {event.kind for event in pair.events}
    assert pair.hidden > 10 and pair.apart > 100


def test_loop_of_a_detector_equals_its_slow_twin_on_a_drift() -> None:
    pair = DetectorPair("detector")
    for sample in drifting():
        pair.step(sample)
    assert "changed" in {event.kind for event in pair.events}


@pytest.mark.parametrize("seed", [1, 3])
def test_loop_of_a_detector_equals_its_slow_twin_on_random_faults(seed: int) -> None:
    pair = DetectorPair("detector")
    rng = np.random.default_rng(seed)
    live = plant(HISTORY, 1_900, Case("", False, 0, 0))
    for _ in range(12):
        at, channel = int(rng.integers(len(live))), int(rng.integers(3))
        long = int(rng.integers(1, 200))
        live[at : at + long, channel] += rng.normal(0, 4) * np.nanstd(live[:300, channel])
    for sample in live:
        pair.step(sample)
        if rng.random() < 0.004 and pair.stage.newest_open(pair.state):
            pair.decide(str(rng.choice(["accept", "reject"])))
        if rng.random() < 0.002 and pair.state.undo:
            pair.decide("undo")
    assert "opened" in {event.kind for event in pair.events}
