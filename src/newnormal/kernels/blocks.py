"""Where the arrays of a stream are in its blocks, for `newnormal.kernels.fleet`.

A stream has a block of what changes and one of what fitting left; a stream with a pending change
has one more, its shadow's. Streams of one shape have their arrays at the same places. The functions
here give the tuples of arrays that the kernels of one stream take.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from newnormal.kernels.accepted import (
    PATTERNS,
    PLACES,
    AcceptedState,
)
from newnormal.kernels.alarm import (
    KNOTS,
    RECENT,
    AlarmParams,
    AlarmState,
)
from newnormal.kernels.block_names import (
    ALARM_LOCATION,
    AT_ALARM,
    AT_DRIFT,
    AT_DRIFT_PARAMS,
    AT_MEAN,
    AT_MEMBERS,
    AT_MODEL,
    AT_NUMBERS,
    DECAY,
    FLOOR,
    GAP,
    KEEP,
    LEVEL_LIMIT,
    NUMBERS,
    RAISES,
    RATE,
    REPORTED_EXPERT,
    RISE,
    SPAN_OF_RATE,
    SPREAD,
    STAND,
    STEP,
)
from newnormal.kernels.committee import (
    CommitteeParams,
    CommitteeState,
)
from newnormal.kernels.compiled import (
    inlined,
)
from newnormal.kernels.drift import (
    DriftParams,
    DriftState,
)
from newnormal.kernels.members import (
    BLOCKS,
    LONG,
    PAST,
    SPAN,
    MembersParams,
    MembersState,
)
from newnormal.kernels.memory import (
    floats,
    floats2,
    floats3,
    floats32,
    floats32_2,
    ints,
    ints2,
)
from newnormal.kernels.step import (
    StepParams,
    StepState,
)
from newnormal.types import (
    Floats,
    Ints,
)


class Dims(NamedTuple):
    """The sizes that streams of one shape share."""

    channels: int
    experts: int
    window: int
    weights: int
    votes: int
    expert_votes: int
    rank: int  # of the linear subspaces
    windows_rank: int
    shapes: int
    bins: int  # of the rhythm's levels
    vote_bins: int  # of the votes that are usual
    lags: int
    changes: int
    kept_scores: int  # of a shadow


@inlined
def model_at(base: int, at: Ints, dims: Dims) -> tuple[StepState, CommitteeState]:
    """Return the state of a model in a block; its arrays are the first ones of STATE."""
    C, J, L, P, V = dims.channels, dims.experts, dims.window, dims.weights, dims.votes
    step = StepState(
        floats2(base + at[0], L, C),
        floats(base + at[1], C),
        floats32(base + at[2], P),
        floats32(base + at[3], P),
        floats(base + at[4], 1),
        ints(base + at[5], 7),
    )
    own = CommitteeState(
        floats2(base + at[6], J, C),
        floats3(base + at[7], J, L, C),
        floats3(base + at[8], J, L, C),
        floats2(base + at[9], J, 1),
        ints2(base + at[10], J, 7),
        floats(base + at[11], 1),
        MembersState(
            floats32_2(base + at[12], SPAN, C),
            floats32_2(base + at[13], LONG, C),
            ints(base + at[14], 2),
        ),
        AcceptedState(
            floats2(base + at[15], PLACES, C),
            ints(base + at[16], PLACES),
            ints(base + at[17], PLACES),
            floats2(base + at[18], PATTERNS, V),
            floats2(base + at[19], PATTERNS, C),
            ints(base + at[20], 3),
        ),
    )
    return step, own


@inlined
def alarm_at(base: int, at: Ints, dims: Dims) -> AlarmState:
    """Return the state of the alarm threshold in a block."""
    k = AT_ALARM
    return AlarmState(
        floats(base + at[k], 7),
        ints(base + at[k + 1], 7),
        floats(base + at[k + 2], RECENT),
        floats(base + at[k + 3], dims.channels),
        floats(base + at[k + 4], KNOTS),
        floats(base + at[k + 5], 4),
    )


@inlined
def drift_at(base: int, at: Ints, dims: Dims) -> DriftState:
    """Return the state of the drift meter in a block."""
    k, C = AT_DRIFT, dims.channels
    return DriftState(
        floats(base + at[k], C),
        floats(base + at[k + 1], C),
        floats(base + at[k + 2], C),
        floats(base + at[k + 3], C),
        floats(base + at[k + 4], C),
        floats(base + at[k + 5], 4 * C),
        floats(base + at[k + 6], 4 * C),
        floats(base + at[k + 7], C),
        floats(base + at[k + 8], C),
        floats(base + at[k + 9], C),
        floats(base + at[k + 10], C),
        floats(base + at[k + 11], 4 * C),
        floats(base + at[k + 12], 4 * C),
        ints(base + at[k + 13], 3),
    )


@inlined
def step_params_at(fit: int, at: Ints, dims: Dims, threshold: float, lr: np.float32) -> StepParams:
    """Return the parameters of the loop in a block, with this threshold and learning rate."""
    k, C = AT_MEAN, dims.channels
    numbers = floats(fit + at[AT_NUMBERS], NUMBERS)
    return StepParams(
        floats(fit + at[k], C),
        floats(fit + at[k + 1], C),
        floats32(fit + at[k + 2], dims.weights),
        1,
        threshold,
        threshold,
        numbers[DECAY],
        lr,
    )


@inlined
def committee_params_at(fit: int, at: Ints, dims: Dims, learn_below: Floats) -> CommitteeParams:
    """Return the parameters of a committee in a block, but for what its experts learn below."""
    C, J, V, E, K = dims.channels, dims.experts, dims.votes, dims.expert_votes, dims.rank
    numbers = floats(fit + at[AT_NUMBERS], NUMBERS)
    k, m = AT_MODEL, AT_MEMBERS
    members = MembersParams(
        floats32_2(fit + at[m], C, PAST * C),
        floats32(fit + at[m + 1], C),
        floats32(fit + at[m + 2], C),
        floats32_2(fit + at[m + 3], C, C),
        floats32(fit + at[m + 4], BLOCKS * C),
        floats32_2(fit + at[m + 5], dims.windows_rank, BLOCKS * C),
        floats32_2(fit + at[m + 6], dims.shapes, BLOCKS * C),
        floats32_2(fit + at[m + 7], dims.bins, C),
        floats32_2(fit + at[m + 8], dims.bins, C),
        floats32_2(fit + at[m + 9], dims.vote_bins, V),
    )
    return CommitteeParams(
        floats(fit + at[k], J),
        floats2(fit + at[k + 1], J, C),
        learn_below,
        floats32(fit + at[k + 3], J),
        floats3(fit + at[k + 4], E, K, C),
        ints(fit + at[k + 5], E),
        ints(fit + at[k + 6], E),
        floats2(fit + at[k + 7], V, C),
        floats(fit + at[k + 8], V),
        floats(fit + at[k + 9], V),
        floats(fit + at[k + 10], V),
        ints(fit + at[k + 11], V),
        numbers[FLOOR],
        numbers[KEEP],
        int(numbers[REPORTED_EXPERT]),
        members,
        numbers[LEVEL_LIMIT],
    )


@inlined
def alarm_params_at(fit: int, at: Ints) -> AlarmParams:
    """Return the parameters of the alarm threshold in a block."""
    numbers = floats(fit + at[AT_NUMBERS], NUMBERS)
    return AlarmParams(
        numbers[ALARM_LOCATION],
        numbers[SPREAD],
        numbers[RATE],
        numbers[STEP],
        numbers[RISE],
        numbers[RAISES],
        numbers[GAP],
        numbers[STAND],
        numbers[SPAN_OF_RATE],
    )


@inlined
def drift_params_at(fit: int, at: Ints, dims: Dims) -> DriftParams:
    """Return the parameters of the drift meter in a block."""
    k, C = AT_DRIFT_PARAMS, dims.channels
    return DriftParams(
        floats(fit + at[k], C),
        floats(fit + at[k + 1], C),
        floats(fit + at[k + 2], C),
        floats2(fit + at[k + 3], C, C),
        floats(fit + at[k + 4], 4 * C),
        floats2(fit + at[k + 5], dims.lags, 4 * C),
    )
