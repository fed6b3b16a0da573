"""The tensors of parts that stand in several places of a state file."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from newnormal.core.state import Baseline, ModelState
from newnormal.kernels.accepted import AcceptedState, blank_accepted
from newnormal.kernels.alarm import AlarmState
from newnormal.kernels.committee import CommitteeState
from newnormal.state import schema
from newnormal.state.schema import packed


def model_tensors(prefix: str, state: ModelState) -> dict[str, NDArray[Any]]:
    """Return what a model changes while a stream runs."""
    found = packed(schema.STEP, prefix, state.step)
    if isinstance(state.own, CommitteeState):
        found |= packed(schema.COMMITTEE, f"{prefix}expert.", state.own)
        found |= accepted_tensors(prefix, state.own.accepted)
        if len(state.own.members.recent):
            found |= packed(schema.MEMBERS, f"{prefix}members.", state.own.members)
    return found


def accepted_tensors(prefix: str, accepted: AcceptedState | None) -> dict[str, NDArray[Any]]:
    """Return what a committee accepts besides history; nothing where it accepts nothing."""
    if accepted is None:
        return {}
    blank = blank_accepted(accepted.shifts.shape[1], accepted.peaks.shape[1])
    if all(map(np.array_equal, accepted, blank)):
        return {}
    return packed(schema.ACCEPTED, f"{prefix}accepted.", accepted)


def tail_tensors(prefix: str, part: AlarmState | Baseline, knots: int) -> dict[str, NDArray[Any]]:
    """Return the distribution of scores."""
    return {
        f"{prefix}tail_levels": part.tail_levels[:knots],
        f"{prefix}tail_excess": part.tail_excess,
    }
