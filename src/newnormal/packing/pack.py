"""A detector as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newnormal.acceptance import TimedAcceptance
from newnormal.core.state import COUNTS, Fitted, StreamState
from newnormal.core.times import HELD, TIMED
from newnormal.models.base import Model
from newnormal.models.committee import Committee
from newnormal.packing.alarms import alarm_facts, alarm_tensors, named
from newnormal.packing.changes import acceptance_facts, acceptance_tensors
from newnormal.packing.events import event_facts, past_facts
from newnormal.packing.tensors import model_tensors, tail_tensors
from newnormal.state import State
from newnormal.state.schema import as_json
from newnormal.types import Alarm, Change, Event


def pack(
    method: str,
    options: Mapping[str, Any],
    threshold: Mapping[str, Any] | None,
    fitted: Fitted,
    state: StreamState,
    events: Sequence[Event],
    past: Sequence[Alarm | Change],
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
        "zone": fitted.zone,
        "reading": fitted.reading,
        "rhythm": None if fitted.rhythm is None else fitted.rhythm.to_json(),
        "never_missing": _never_missing(fitted),
        "losses": [as_json(loss) for loss in fitted.losses],
        "tracks_alarms": fitted.alarms.active,
        "accept_after": accept_after,
        "learn_threshold": {
            "fitted": as_json(fitted.step.learn_threshold),
            "now": as_json(float(state.learn_threshold[0])),
        },
        "counts": named(COUNTS, state.model.step.counts),
        "alarm": alarm_facts(fitted, state),
        "times": {"held": int(state.times.counts[HELD]), "known": bool(state.times.counts[TIMED])},
        "events": [event_facts(event) for event in events],
        "past": past_facts(past),
    }
    tensors: dict[str, NDArray[Any]] = {
        "fitted.mean": fitted.step.mean,
        "fitted.scale": fitted.step.scale,
        "fitted.weights": fitted.step.fitted,
        "fitted.tail_chances": fitted.tail_chances[: fitted.tail_knots],
        **tail_tensors("fitted.", fitted.alarm_start, fitted.tail_knots),
        **model_tensors("live.", state.model),
        "live.times": state.times.times.astype(np.int64),
        "live.last_time": state.times.last.astype(np.int64),
        **tail_tensors("live.", state.alarm, fitted.tail_knots),
        **alarm_tensors(state),
        **{f"model.{name}": array for name, array in model.tensors().items()},
    }
    if fitted.moving_start is not None and state.moving is not None:
        tensors |= {"fitted.moving": fitted.moving_start, "live.moving": state.moving}
    if isinstance(model, Committee):
        facts["expert_counts"] = [named(COUNTS, each) for each in state.model.own.counts]
    if fitted.spread is not None:
        tensors["fitted.spread"] = fitted.spread
    if accept_after is not None:
        facts["acceptance"] = acceptance_facts(fitted, state)
        tensors |= acceptance_tensors(fitted, state)
    return State(facts, {name: array.copy() for name, array in tensors.items()})


def _never_missing(fitted: Fitted) -> list[str] | None:
    """Return the channels that history never misses; None where that is not known."""
    if fitted.never_missing is None:
        return None
    return [fitted.channels[at] for at in np.flatnonzero(fitted.never_missing).tolist()]
