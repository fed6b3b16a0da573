"""The changes of a stream as data, and back: every name checked before it is used."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from newnormal.acceptance import TimedAcceptance, changes
from newnormal.acceptance.reviewed import KEPT
from newnormal.acceptance.shadow import POSITIONS, TRAINS, Timing, blank_shadow, ordered
from newnormal.core.state import (
    CHANGES,
    COUNTS,
    Baseline,
    ChangeState,
    Fitted,
    ModelState,
    ReviewState,
    Shadow,
    StreamState,
)
from newnormal.errors import StateError
from newnormal.kernels import alarm, drift, step
from newnormal.kernels.committee import CommitteeState
from newnormal.kernels.drift import DriftState
from newnormal.packing.alarms import AlarmReader, named, placed
from newnormal.packing.fitted import check_range
from newnormal.packing.names import (
    BASELINE_LEVELS,
    CHANGE_COUNTS,
    CHANGE_STATES,
    DRIFT_COUNTS,
    REVIEW_COUNTS,
)
from newnormal.packing.tensors import accepted_tensors, model_tensors, tail_tensors
from newnormal.state import schema
from newnormal.state.schema import Facts, as_json, packed


def acceptance_facts(fitted: Fitted, state: StreamState) -> dict[str, Any]:
    """Return the facts of what is accepted and what has changed."""
    assert state.drift is not None and state.review is not None and state.changes is not None
    found: dict[str, Any] = {
        "drift": named(DRIFT_COUNTS, state.drift.counts),
        "review": named(REVIEW_COUNTS, state.review.counts),
        "moved": float(state.review.levels[changes.MOVED]),
        "moves": float(state.review.levels[changes.MOVES]),
        "changes": [_change_facts(row) for row in state.changes.counts],
        "accepted": state.accepted is not None,
        "undo": len(state.undo),
        "baselines": {
            name: {
                level: as_json(float(value))
                for level, value in zip(BASELINE_LEVELS, baseline.levels, strict=True)
            }
            for name, baseline in _baselines(fitted, state).items()
        },
        "shadow": None,
    }
    shadow = state.shadow
    if shadow is not None:
        found["shadow"] = {
            "trains": bool(shadow.counts[TRAINS]),
            "counts": named(COUNTS, shadow.model.step.counts),
        }
        if isinstance(shadow.model.own, CommitteeState):
            experts = [named(COUNTS, each) for each in shadow.model.own.counts]
            found["shadow"]["expert_counts"] = experts
    return found


def acceptance_tensors(fitted: Fitted, state: StreamState) -> dict[str, NDArray[Any]]:
    """Return the tensors of the same."""
    assert fitted.drift is not None and state.drift is not None and state.changes is not None
    found = {
        **packed(schema.DRIFT_PARAMS, "fitted.drift.", fitted.drift),
        **packed(schema.DRIFT, "live.drift.", state.drift),
        **packed(schema.CHANGES, "live.changes.", state.changes),
    }
    for name, baseline in _baselines(fitted, state).items():
        prefix = f"baseline.{name}."
        found |= packed(schema.BASELINE, prefix, baseline)
        found |= tail_tensors(prefix, baseline, fitted.tail_knots)
        found |= accepted_tensors(prefix, baseline.accepted)
    del found["baseline.fitted.weights"]  # they are fitted.weights
    shadow = state.shadow
    if shadow is not None:
        kept = int(shadow.counts[POSITIONS])
        found |= model_tensors("shadow.", shadow.model)
        found["shadow.scores"] = ordered(shadow)
        found["shadow.positions"] = shadow.positions[len(shadow.positions) - kept :]
    return found


def _baselines(fitted: Fitted, state: StreamState) -> dict[str, Baseline]:
    assert fitted.baseline is not None and state.last_quiet is not None
    found = {"fitted": fitted.baseline, "last_quiet": state.last_quiet}
    if state.accepted is not None:
        found["accepted"] = state.accepted
    return found | {f"undo{at}": each for at, each in enumerate(state.undo)}


def _change_facts(counts: NDArray[np.int64]) -> dict[str, Any] | None:
    """Return the counters of an open change; None for a row that is free."""
    if not counts[changes.NUMBER]:
        return None
    states = {at: name for name, at in CHANGE_STATES.items()}
    return {**named(CHANGE_COUNTS, counts), "state": states[int(counts[changes.STATE])]}


class ChangeReader(AlarmReader):
    """Reads what is accepted of a stream, and what has changed."""

    def _model_state(self, prefix: str, counts: Facts, own: list[Facts]) -> ModelState:
        raise NotImplementedError

    def _acceptance_state(self, fitted: Fitted, state: StreamState) -> None:
        facts = self.acceptance
        assert facts is not None and isinstance(fitted.acceptance, TimedAcceptance)
        timing = fitted.acceptance.timing
        state.drift = self._drift_state(facts.part("drift"))
        reviews = placed(REVIEW_COUNTS, facts.part("review"))
        moved = np.zeros(2)
        moved[changes.MOVED] = facts.number("moved", 0, 1e9)
        moved[changes.MOVES] = facts.number("moves", 0, 1e10)
        state.review = ReviewState(reviews, moved)
        left = (int(reviews[changes.REVIEWS]) + 1) * timing.review_length - self.seen
        if not 1 <= left <= timing.review_length + self.config.window:
            raise StateError(
                f"acceptance.review.reviews: expected about {self.seen // timing.review_length} at "
                f"{self.seen} samples, found {reviews[changes.REVIEWS]}"
            )
        newest = int(state.alarm.counts[alarm.ALARMS])
        for name in ("last_alarm", "rejected_alarm"):
            if reviews[REVIEW_COUNTS[name]] > newest:
                raise StateError(
                    f"acceptance.review.{name}: expected the number of an alarm, up to {newest}, "
                    f"found {reviews[REVIEW_COUNTS[name]]}"
                )
        state.changes = self._changes(facts, int(reviews[changes.NEWEST]), newest)
        state.last_quiet = self._baseline("last_quiet")
        state.accepted = self._baseline("accepted") if facts.flag("accepted") else None
        undo = facts.count("undo", 0, KEPT)
        state.undo = tuple(self._baseline(f"undo{at}") for at in range(undo))
        self.baselines.done()
        if facts.has("shadow"):
            state.shadow = self._shadow(facts.part("shadow"), timing, state)
        facts.done(optional=("shadow",))

    def _drift_state(self, facts: Facts) -> DriftState:
        found = self.take(schema.DRIFT, "live.drift.")
        check_range(found, "live.drift.")
        C = len(self.channels)
        for name in ("position", "start"):  # a change's levels are taken from these
            part = {name: found[name][C : 2 * C]}
            schema.check_tensors([schema.Field(name, "C", "level")], "", part, self.dims)
        counts = placed(DRIFT_COUNTS, facts, ("mark",))
        if counts[drift.MARK] > counts[drift.SEEN]:
            raise StateError("acceptance.drift.mark: expected a sample seen, found a later one")
        if counts[drift.CROSSED] > 1:
            raise StateError("acceptance.drift.crossed: expected 0 or 1, found another")
        return DriftState(**{name: array.copy() for name, array in found.items()}, counts=counts)

    def _changes(self, facts: Facts, newest: int, newest_alarm: int) -> ChangeState:
        rows = facts.list("changes", CHANGES)
        if len(rows) != CHANGES:
            raise facts.wrong("changes", f"{CHANGES} of them, null where there is none", rows)
        counts = np.zeros((CHANGES, len(CHANGE_COUNTS) + 1), np.int64)
        most = {"number": newest, "alarm": newest_alarm}
        for at, row in enumerate(rows):
            if row is None:
                continue
            own = Facts(row, f"acceptance.changes[{at}].")
            state = own.text("state")
            if state not in CHANGE_STATES:
                raise own.wrong("state", " or ".join(CHANGE_STATES), state)
            counts[at, changes.STATE] = CHANGE_STATES[state]
            for name, position in CHANGE_COUNTS.items():
                least = 1 if name == "number" else 0
                counts[at, position] = own.count(name, least, most.get(name, self.seen))
            own.done()
        numbers = counts[counts[:, changes.NUMBER] > 0, changes.NUMBER]
        if len(np.unique(numbers)) < len(numbers):
            raise StateError("acceptance.changes: expected different numbers, found one twice")
        self.dims["U"] = CHANGES
        found = self.take(schema.CHANGES, "live.changes.")
        return ChangeState(counts, **{name: array.copy() for name, array in found.items()})

    def _shadow(self, facts: Facts, timing: Timing, state: StreamState) -> Shadow:
        counts = facts.part("counts")
        own = facts.parts("expert_counts", 8) if self.choice is not None else []
        model = self._model_state("shadow.", counts, own)
        trains = facts.flag("trains")
        facts.done()
        found = self.take(schema.SHADOW, "shadow.")
        scores, positions = found["scores"], found["positions"]
        shadow = blank_shadow(model, timing, positions.shape[1])
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
