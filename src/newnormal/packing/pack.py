"""A detector as data: facts as JSON values, and arrays by the names of their lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newnormal.acceptance import TimedAcceptance
from newnormal.core.state import Fitted, StreamState
from newnormal.models.base import Model
from newnormal.packing.events import event_facts, past_facts
from newnormal.state import State
from newnormal.state.facts import as_json
from newnormal.types import Alarm, Change, Event
from newnormal.types.tables import flatten

# The parts of a Fitted that are arrays; its model has its own.
_FITTED = (
    *("step", "alarm", "tail_chances", "alarm_start", "channel", "drift", "baseline"),
    *("moving_start", "spread", "peaks"),
)


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
        "events": [event_facts(event) for event in events],
        "past": past_facts(past),
    }
    return State(facts, {name: array.copy() for name, array in _tensors(fitted, state)})


def _tensors(fitted: Fitted, state: StreamState) -> Iterator[tuple[str, NDArray[Any]]]:
    assert isinstance(fitted.model, Model)
    for name, array in fitted.model.tensors().items():
        yield f"model.{name}", array
    for part in _FITTED:
        for name, array in flatten(getattr(fitted, part), f"fitted.{part}."):
            if name != "fitted.baseline.weights":  # they are fitted.step.fitted
                yield name, array
    for name, array in flatten(state, "live."):
        yield name, array.view(np.int64) if array.dtype.kind == "M" else array


def _never_missing(fitted: Fitted) -> list[str] | None:
    """Return the channels that history never misses; None where that is not known."""
    if fitted.never_missing is None:
        return None
    return [fitted.channels[at] for at in np.flatnonzero(fitted.never_missing).tolist()]
