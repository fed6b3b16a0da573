"""A detector as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newnormal.acceptance import TimedAcceptance, review
from newnormal.core.state import COUNTS, Baseline, Fitted, ModelState, Shadow, StreamState
from newnormal.core.times import HELD, TIMED
from newnormal.kernels import alarm, drift
from newnormal.kernels.alarm import AlarmState
from newnormal.kernels.committee import CommitteeState
from newnormal.models.base import Model
from newnormal.models.committee import Committee
from newnormal.packing.alarms import event_facts, log_facts
from newnormal.packing.names import (
    ALARM_COUNTS,
    ALARM_LEVELS,
    BASELINE_LEVELS,
    DRIFT_COUNTS,
    REVIEW_COUNTS,
)
from newnormal.state import State, schema
from newnormal.state.schema import as_json, packed
from newnormal.types import Event

__all__ = ["pack"]


def pack(
    method: str,
    options: Mapping[str, Any],
    threshold: Mapping[str, Any] | None,
    fitted: Fitted,
    state: StreamState,
    events: Sequence[Event],
) -> State:
    """Return a detector as data that shares nothing with it."""
    model = fitted.model
    assert isinstance(model, Model)
    accept_after = None
    if isinstance(fitted.acceptance, TimedAcceptance):
        accept_after = as_json(fitted.acceptance.timing.accept_after)
    facts: dict[str, Any] = {
        "method": method,
        "options": dict(options),
        "threshold": None if threshold is None else dict(threshold),
        "choice": None if fitted.choice is None else fitted.choice.to_json(),
        "channels": list(fitted.channels),
        "period": None if fitted.period is None else int(fitted.period.astype(np.int64)),
        "losses": [as_json(loss) for loss in fitted.losses],
        "tracks_alarms": fitted.alarms.active,
        "accept_after": accept_after,
        "learn_threshold": {
            "fitted": as_json(fitted.step.learn_threshold),
            "now": as_json(float(state.learn_threshold[0])),
        },
        "counts": _named(COUNTS, state.model.step.counts),
        "alarm": {
            "params": {name: as_json(value) for name, value in fitted.alarm._asdict().items()},
            "fitted_height": as_json(float(fitted.alarm_start.levels[alarm.HEIGHT])),
            "counts": _named(ALARM_COUNTS, state.alarm.counts),
            "levels": {
                name: as_json(float(state.alarm.levels[at])) for name, at in ALARM_LEVELS.items()
            },
            "open": log_facts(state.log, fitted.channels),
        },
        "times": {"held": int(state.times.counts[HELD]), "known": bool(state.times.counts[TIMED])},
        "events": [event_facts(event) for event in events],
    }
    tensors: dict[str, NDArray[Any]] = {
        "fitted.mean": fitted.step.mean,
        "fitted.scale": fitted.step.scale,
        "fitted.weights": fitted.step.fitted,
        "fitted.tail_chances": fitted.tail_chances[: fitted.tail_knots],
        **_tail("fitted.", fitted.alarm_start, fitted.tail_knots),
        **_model("live.", state.model),
        "live.times": state.times.times.astype(np.int64),
        "live.last_time": state.times.last.astype(np.int64),
        **_tail("live.", state.alarm, fitted.tail_knots),
        **{f"model.{name}": array for name, array in model.tensors().items()},
    }
    if fitted.moving_start is not None and state.moving is not None:
        tensors |= {"fitted.moving": fitted.moving_start, "live.moving": state.moving}
    if isinstance(model, Committee):
        facts["expert_counts"] = [_named(COUNTS, each) for each in state.model.own.counts]
    if accept_after is not None:
        _pack_acceptance(facts, tensors, fitted, state)
    return State(facts, {name: array.copy() for name, array in tensors.items()})


def _pack_acceptance(
    facts: dict[str, Any], tensors: dict[str, NDArray[Any]], fitted: Fitted, state: StreamState
) -> None:
    assert fitted.drift is not None and state.drift is not None and fitted.baseline is not None
    assert state.review is not None and state.last_quiet is not None
    tensors |= packed(schema.DRIFT_PARAMS, "fitted.drift.", fitted.drift)
    tensors |= packed(schema.DRIFT, "live.drift.", state.drift)
    kept = {"fitted": fitted.baseline, "last_quiet": state.last_quiet}
    kept |= {} if state.accepted is None else {"accepted": state.accepted}
    kept |= {f"undo{at}": each for at, each in enumerate(state.undo)}
    knots = fitted.tail_knots
    for name, baseline in kept.items():
        own = packed(schema.BASELINE, f"baseline.{name}.", baseline)
        tensors |= own | _tail(f"baseline.{name}.", baseline, knots)
    del tensors["baseline.fitted.weights"]  # they are fitted.weights
    facts["acceptance"] = {
        "drift": _named(DRIFT_COUNTS, state.drift.counts),
        "distance": as_json(float(state.drift.distances[drift.DISTANCE])),
        "jump": as_json(float(state.drift.distances[drift.JUMP])),
        "review": _named(REVIEW_COUNTS, state.review.counts),
        "moved": float(state.review.levels[review.MOVED]),
        "moves": float(state.review.levels[review.MOVES]),
        "accepted": state.accepted is not None,
        "undo": len(state.undo),
        "baselines": {
            name: {
                level: as_json(float(value))
                for level, value in zip(BASELINE_LEVELS, baseline.levels, strict=True)
            }
            for name, baseline in kept.items()
        },
        "shadow": None,
    }
    if state.shadow is not None:
        _pack_shadow(facts["acceptance"], tensors, state.shadow)


def _pack_shadow(facts: dict[str, Any], tensors: dict[str, NDArray[Any]], shadow: Shadow) -> None:
    positions = int(shadow.counts[review.POSITIONS])
    facts["shadow"] = {
        "trains": bool(shadow.counts[review.TRAINS]),
        "counts": _named(COUNTS, shadow.model.step.counts),
    }
    if isinstance(shadow.model.own, CommitteeState):
        facts["shadow"]["expert_counts"] = [
            _named(COUNTS, each) for each in shadow.model.own.counts
        ]
    tensors |= {
        **_model("shadow.", shadow.model),
        "shadow.scores": review.ordered(shadow),
        "shadow.positions": shadow.positions[len(shadow.positions) - positions :],
    }


def _named(positions: Mapping[str, int], counts: NDArray[Any]) -> dict[str, int]:
    return {name: min(int(counts[at]), schema.LARGEST_COUNT) for name, at in positions.items()}


def _tail(prefix: str, part: AlarmState | Baseline, knots: int) -> dict[str, NDArray[Any]]:
    return {
        f"{prefix}tail_levels": part.tail_levels[:knots],
        f"{prefix}tail_excess": part.tail_excess,
    }


def _model(prefix: str, state: ModelState) -> dict[str, NDArray[Any]]:
    found = packed(schema.STEP, prefix, state.step)
    if isinstance(state.own, CommitteeState):
        found |= packed(schema.COMMITTEE, f"{prefix}expert.", state.own)
        if len(state.own.members.recent):
            found |= packed(schema.MEMBERS, f"{prefix}members.", state.own.members)
    return found
