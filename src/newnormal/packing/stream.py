"""A live stream from data: every name checked before it is used."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from newnormal.alarms.moving import threshold_of
from newnormal.core.state import COUNTS, Fitted, ModelState, StreamState, aligned
from newnormal.core.times import HELD, SampleTimes
from newnormal.errors import StateError
from newnormal.kernels import step
from newnormal.kernels.committee import CommitteeState
from newnormal.kernels.members import LONG, MembersState
from newnormal.kernels.step import StepState
from newnormal.models.members import blank_state
from newnormal.packing.changes import ChangeReader
from newnormal.state import schema
from newnormal.state.schema import Facts


class StreamReader(ChangeReader):
    """Reads the stream behind a fitted detector."""

    def stream(self, fitted: Fitted) -> StreamState:
        """Read the live stream."""
        facts = self.facts
        counts = facts.part("counts")
        own = facts.parts("expert_counts", 8) if self.choice is not None else []
        model = self._model_state("live.", counts, own)
        times = self._times(int(model.step.counts[step.HELD]))
        self.seen = int(model.step.counts[step.SEEN])
        alarm = self._alarm_state(fitted)
        state = StreamState(
            model,
            times,
            np.array([self.learn_threshold]),
            alarm,
            self._log_state(fitted, alarm),
            self._silence_state(alarm),
        )
        self.alarm_facts.done()
        if fitted.moving_start is not None:
            if not fitted.alarms.active:
                raise StateError("tracks_alarms: expected true where the threshold moves")
            (moving,) = self.take([schema.Field("moving", "S", "any")], "live.").values()
            state.moving = aligned(moving)
            threshold_of(fitted.rule, state.moving)
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
        accepted = self._accepted(prefix)
        assert accepted is not None
        parts = self.take(schema.COMMITTEE, f"{prefix}expert.")
        committee = CommitteeState(
            **{name: aligned(array) for name, array in parts.items()},
            counts=experts,
            members=self._members_state(prefix),
            accepted=accepted,
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
