"""A live stream from data: every name checked before it is used."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from newnormal.acceptance import TimedAcceptance, review
from newnormal.alarms import log
from newnormal.alarms.moving import threshold_of
from newnormal.core.state import (
    COUNTS,
    Fitted,
    LogState,
    ModelState,
    ReviewState,
    Shadow,
    StreamState,
    aligned,
)
from newnormal.core.times import HELD, SampleTimes
from newnormal.errors import StateError
from newnormal.kernels import alarm, drift, step
from newnormal.kernels.alarm import AlarmState
from newnormal.kernels.committee import CommitteeState
from newnormal.kernels.drift import DriftState
from newnormal.kernels.members import LONG, MembersState
from newnormal.kernels.step import StepState
from newnormal.models.members import blank_state
from newnormal.packing.alarms import log_of
from newnormal.packing.fitted import FittedReader, check_range
from newnormal.packing.names import ALARM_COUNTS, ALARM_LEVELS
from newnormal.state import schema
from newnormal.state.schema import Facts

__all__ = ["StreamReader"]


class StreamReader(FittedReader):
    """Reads the stream behind a fitted detector."""

    def stream(self, fitted: Fitted) -> StreamState:
        """Read the live stream."""
        facts = self.facts
        counts = facts.part("counts")
        own = facts.parts("expert_counts", 8) if self.choice is not None else []
        model = self._model_state("live.", counts, own)
        times = self._times(int(model.step.counts[step.HELD]))
        state = StreamState(
            model,
            times,
            np.array([self.learn_threshold]),
            self._alarm_state(fitted),
            self._log_state(),
        )
        if fitted.moving_start is not None:
            if not fitted.alarms.active:
                raise StateError("tracks_alarms: expected true where the threshold moves")
            (moving,) = self.take([schema.Field("moving", "S", "any")], "live.").values()
            state.moving = aligned(moving)
            threshold_of(fitted.rule, state.moving)
        self.alarm_facts.done(optional=("open",))
        number, is_open = state.log.counts[log.NUMBER], state.alarm.counts[alarm.OPEN]
        if fitted.alarms.active and (is_open != (number > 0)):
            raise StateError("alarm.open: expected an alarm where one is open, found otherwise")
        if number and number != state.alarm.counts[alarm.ALARMS]:
            raise StateError(f"alarm.open.number: expected the newest, found {number}")
        if self.acceptance is not None:
            self._acceptance_state(fitted, state)
        return state

    def _model_state(self, prefix: str, counts: Facts, own: list[Facts]) -> ModelState:
        found = self.take(schema.STEP, prefix)
        state = StepState(
            **{name: aligned(array) for name, array in found.items()}, counts=self._counts(counts)
        )
        if self.choice is None:
            return ModelState(state)
        if len(own) != self.dims["J"]:
            raise StateError(f"{prefix}expert_counts: expected {self.dims['J']}, found {len(own)}")
        experts = np.array([self._counts(each) for each in own])
        for at in (step.HELD, step.PENDING, step.CYCLE, step.SEEN):
            if (experts[:, at] != state.counts[at]).any():
                raise StateError(f"{prefix}expert_counts: expected those of the stream")
        parts = self.take(schema.COMMITTEE, f"{prefix}expert.")
        committee = CommitteeState(
            **{name: aligned(array) for name, array in parts.items()},
            counts=experts,
            members=self._members_state(prefix),
        )
        return ModelState(state, committee)

    def _members_state(self, prefix: str) -> MembersState:
        if self.choice is None or not self.choice.plan.members:
            return blank_state(len(self.channels), used=False)
        found = self.take(schema.MEMBERS, f"{prefix}members.")
        head, held = found["counts"].tolist()
        if head >= LONG or held > LONG:
            raise StateError(f"{prefix}members.counts: expected at most {LONG}, found others")
        return MembersState(**{name: aligned(array) for name, array in found.items()})

    def _counts(self, facts: Facts) -> NDArray[np.int64]:
        """Take the counters of a stream out; they index its window."""
        L = self.config.window
        found = np.zeros(len(COUNTS), np.int64)
        found[step.SEEN] = seen = facts.count("seen")
        # Where each sample has its verdict at once, the window begins with missing samples.
        found[step.HELD] = held = facts.count("held", 0, L if self.at_once else min(L, seen))
        found[step.PENDING] = facts.count("pending", 0, held)
        found[step.CYCLE] = facts.count("cycle", 0, L)
        for name in ("age", "learned", "restored"):
            found[COUNTS[name]] = facts.count(name)
        if held == L and found[step.PENDING] >= self.stride:
            raise StateError("counts.pending: expected less than the stride, found others")
        facts.done()
        return found

    def _times(self, held: int) -> SampleTimes:
        facts = self.facts.part("times")
        found = self.take(
            [schema.Field("times", "L", "any", "i8"), schema.Field("last_time", "1", "any", "i8")],
            "live.",
        )
        counts = np.array([facts.count("held", 0, self.config.window), facts.flag("known")])
        facts.done()
        if held > counts[HELD] and not self.at_once:
            raise StateError(f"times.held: expected at least {held}, found {counts[HELD]}")
        return SampleTimes(
            found["times"].astype("datetime64[ns]"),
            found["last_time"].astype("datetime64[ns]"),
            counts,
        )

    def _alarm_state(self, fitted: Fitted) -> AlarmState:
        counts, levels = self.alarm_facts.part("counts"), self.alarm_facts.part("levels")
        found = np.array([counts.count(name) for name in ALARM_COUNTS])
        if found[alarm.OPEN] > 1 or (found[alarm.OPEN] and not found[alarm.ALARMS]):
            raise StateError(f"alarm.counts.open: expected 0 or 1, found {found[alarm.OPEN]}")
        heights = np.array([levels.number(name) for name in ALARM_LEVELS])
        counts.done()
        levels.done()
        if fitted.alarm.rate and not np.isfinite(heights[alarm.LOCATION]):
            raise StateError("alarm.levels.location: expected a finite number, found another")
        return AlarmState(heights, found, *self._tail("live."))

    def _log_state(self) -> LogState:
        facts = self.alarm_facts
        return log_of(facts.part("open") if facts.has("open") else None, self.channels)

    def _acceptance_state(self, fitted: Fitted, state: StreamState) -> None:
        facts = self.acceptance
        assert facts is not None and isinstance(fitted.acceptance, TimedAcceptance)
        timing = fitted.acceptance.timing
        found = self.take(schema.DRIFT, "live.drift.")
        check_range(found, "live.drift.")
        own = facts.part("drift")
        counts = np.array(
            [
                own.count("samples"),
                own.count("channel", 0, len(self.channels) - 1),
                own.count("mark", -1),
            ]
        )
        own.done()
        if counts[drift.MARK] > counts[drift.SEEN]:
            raise StateError("acceptance.drift.mark: expected a sample seen, found a later one")
        distances = np.array([facts.number("distance", 0), facts.number("jump", 0)])
        state.drift = DriftState(
            **{name: array.copy() for name, array in found.items()},
            distances=distances,
            counts=counts,
        )
        own = facts.part("review")
        reviews = np.array(
            [
                own.count("reviews"),
                own.count("alarm"),
                own.count("since", -1),
                own.count("frozen", 0, 1),
            ]
        )
        own.done()
        moved = np.array([facts.number("moved", 0, 1e9), facts.number("moves", 0, 1e10)])
        state.review = ReviewState(reviews, moved)
        seen = int(state.model.step.counts[step.SEEN])
        left = (int(reviews[review.REVIEWS]) + 1) * timing.review_length - seen
        if not 1 <= left <= timing.review_length + self.config.window:
            raise StateError(
                f"acceptance.review.reviews: expected about {seen // timing.review_length} at "
                f"{seen} samples, found {reviews[review.REVIEWS]}"
            )
        state.last_quiet = self._baseline("last_quiet")
        state.accepted = self._baseline("accepted") if facts.flag("accepted") else None
        undo = facts.count("undo", 0, review.KEPT)
        state.undo = tuple(self._baseline(f"undo{at}") for at in range(undo))
        self.baselines.done()
        if facts.has("shadow"):
            state.shadow = self._shadow(facts.part("shadow"), timing, state)
        facts.done(optional=("shadow",))

    def _shadow(self, facts: Facts, timing: review.Timing, state: StreamState) -> Shadow:
        counts = facts.part("counts")
        own = facts.parts("expert_counts", 8) if self.choice is not None else []
        model = self._model_state("shadow.", counts, own)
        trains = facts.flag("trains")
        facts.done()
        found = self.take(schema.SHADOW, "shadow.")
        scores, positions = found["scores"], found["positions"]
        shadow = review.blank_shadow(model, timing, positions.shape[1])
        kept, reviewed = len(scores), len(positions)
        if kept > len(shadow.scores) or reviewed > len(shadow.positions) or not reviewed:
            raise StateError("shadow.scores, shadow.positions: expected fewer, or a position")
        same = model.step.counts[step.PENDING] == state.model.step.counts[step.PENDING]
        if trains and not same:
            raise StateError("shadow.counts.pending: expected as many as the stream has")
        shadow.scores[:kept] = scores
        shadow.positions[len(shadow.positions) - reviewed :] = positions
        shadow.counts[:] = trains, kept, kept % len(shadow.scores), reviewed
        return shadow
