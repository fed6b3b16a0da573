"""Where the arrays of a stream are in its blocks: written by a command.

``python -m tests.house.write_blocks`` makes it from the lines of the arrays.

A stream has a block of what changes and one of what fitting left; a stream with a pending change
has one more, its shadow's. Streams of one shape have their arrays at the same offsets, `at`, in the
order of the lines that declare them. The functions here give the tuples of arrays that the kernels
of one stream take.
"""

from typing import NamedTuple

import numpy as np

from newnormal.kernels.accepted import AcceptedState
from newnormal.kernels.alarm import AlarmParams, AlarmState
from newnormal.kernels.channels import ChannelParams, ChannelState, HomeState
from newnormal.kernels.committee import CommitteeParams, CommitteeState, ObservedState
from newnormal.kernels.compiled import inlined
from newnormal.kernels.drift import DriftParams, DriftState
from newnormal.kernels.members import MembersParams, MembersState
from newnormal.kernels.memory import (
    bools,
    floats,
    floats2,
    floats3,
    floats32,
    floats32_2,
    ints,
    ints2,
    times,
)
from newnormal.kernels.step import StepParams, StepState
from newnormal.kernels.stream import (
    Baseline,
    ChangeState,
    LogState,
    ReviewState,
    SilenceState,
    StreamLimits,
    TimesState,
)
from newnormal.types import Bools, Floats, Ints


class Dims(NamedTuple):
    """The sizes that streams of one shape share."""

    channels: int
    experts: int
    window: int
    weights: int
    votes: int
    expert_votes: int
    rank: int
    windows_rank: int
    shapes: int
    bins: int
    lags: int
    kept_scores: int
    kept_positions: int


LETTERS = "CJLPVERDHBWNM"  # of these sizes in the shapes of arrays


@inlined
def step_at(base: int, at: Ints, dims: Dims) -> StepState:
    """Return `model.step` of a StreamState."""
    return StepState(
        floats2(base + at[0], dims.window, dims.channels),
        floats(base + at[1], dims.channels),
        floats32(base + at[2], dims.weights),
        floats32(base + at[3], dims.weights),
        floats(base + at[4], 1),
        ints(base + at[5], 7),
    )


@inlined
def committee_at(base: int, at: Ints, dims: Dims) -> CommitteeState:
    """Return `model.own` of a StreamState."""
    return CommitteeState(
        floats2(base + at[6], dims.experts, dims.channels),
        floats3(base + at[7], dims.experts, dims.window, dims.channels),
        floats3(base + at[8], dims.experts, dims.window, dims.channels),
        floats2(base + at[9], dims.experts, 1),
        ints2(base + at[10], dims.experts, 7),
        floats(base + at[11], 1),
        MembersState(
            floats32_2(base + at[12], 20, dims.channels),
            floats32_2(base + at[13], 100, dims.channels),
            ints(base + at[14], 2),
            ints(base + at[15], dims.channels),
        ),
        AcceptedState(
            floats2(base + at[16], 16, dims.channels),
            ints(base + at[17], 16),
            ints(base + at[18], 16),
            floats2(base + at[19], 10, dims.votes),
            floats2(base + at[20], 10, dims.channels),
            ints(base + at[21], 3),
        ),
    )


@inlined
def times_at(base: int, at: Ints, dims: Dims) -> TimesState:
    """Return `times` of a StreamState."""
    return TimesState(
        times(base + at[22], dims.window),
        times(base + at[23], 1),
        ints(base + at[24], 2),
    )


@inlined
def learn_threshold_at(base: int, at: Ints, dims: Dims) -> Floats:  # noqa: ARG001
    """Return `learn_threshold` of a StreamState."""
    return floats(base + at[25], 1)


@inlined
def alarm_at(base: int, at: Ints, dims: Dims) -> AlarmState:  # noqa: ARG001
    """Return `alarm` of a StreamState."""
    return AlarmState(
        floats(base + at[26], 7),
        ints(base + at[27], 11),
        floats(base + at[28], 60),
        floats(base + at[29], 257),
        floats(base + at[30], 4),
    )


@inlined
def log_at(base: int, at: Ints, dims: Dims) -> LogState:
    """Return `log` of a StreamState."""
    return LogState(
        ints(base + at[31], 6),
        floats(base + at[32], 6),
        ints(base + at[33], 3),
        ints2(base + at[34], dims.channels, 4),
        floats(base + at[35], dims.channels),
        floats2(base + at[36], 4, dims.channels),
        ints(base + at[37], 5),
        floats(base + at[38], 5),
        floats2(base + at[39], 5, 5),
        floats(base + at[40], dims.votes),
    )


@inlined
def silence_at(base: int, at: Ints, dims: Dims) -> SilenceState:
    """Return `silence` of a StreamState."""
    return SilenceState(
        ints(base + at[41], 4),
        ints(base + at[42], 2),
        ints(base + at[43], dims.channels),
        ints(base + at[44], 5),
    )


@inlined
def channel_at(base: int, at: Ints, dims: Dims) -> ChannelState:
    """Return `channel` of a StreamState."""
    return ChannelState(
        floats(base + at[45], dims.channels),
        floats2(base + at[46], 5, dims.channels),
        floats32_2(base + at[47], 32, dims.channels),
        floats(base + at[48], dims.channels),
        floats(base + at[49], dims.channels),
        floats(base + at[50], dims.channels),
        floats(base + at[51], dims.channels),
        floats(base + at[52], dims.channels),
        floats(base + at[53], dims.channels),
        floats(base + at[54], dims.channels),
        floats(base + at[55], dims.channels),
        HomeState(
            floats2(base + at[56], 4, dims.channels),
            floats(base + at[57], dims.channels),
            floats(base + at[58], dims.channels),
        ),
        ints2(base + at[59], dims.channels, 13),
        ints(base + at[60], 2),
        ints(base + at[61], 1),
        floats(base + at[62], 1),
    )


@inlined
def observed_at(base: int, at: Ints, dims: Dims) -> ObservedState:
    """Return `observed` of a StreamState."""
    return ObservedState(
        floats2(base + at[63], dims.window, dims.channels),
        ints(base + at[64], 7),
        CommitteeState(
            floats2(base + at[65], dims.experts, dims.channels),
            floats3(base + at[66], dims.experts, dims.window, dims.channels),
            floats3(base + at[67], dims.experts, dims.window, dims.channels),
            floats2(base + at[68], dims.experts, 1),
            ints2(base + at[69], dims.experts, 7),
            floats(base + at[70], 1),
            MembersState(
                floats32_2(base + at[71], 20, dims.channels),
                floats32_2(base + at[72], 100, dims.channels),
                ints(base + at[73], 2),
                ints(base + at[74], dims.channels),
            ),
            AcceptedState(
                floats2(base + at[75], 16, dims.channels),
                ints(base + at[76], 16),
                ints(base + at[77], 16),
                floats2(base + at[78], 10, dims.votes),
                floats2(base + at[79], 10, dims.channels),
                ints(base + at[80], 3),
            ),
        ),
        ints(base + at[81], 1),
    )


@inlined
def drift_at(base: int, at: Ints, dims: Dims) -> DriftState:
    """Return `drift` of a StreamState."""
    return DriftState(
        floats(base + at[82], dims.channels),
        floats(base + at[83], dims.channels),
        floats(base + at[84], dims.channels),
        floats(base + at[85], dims.channels),
        floats(base + at[86], dims.channels),
        floats(base + at[87], dims.channels),
        floats(base + at[88], 4 * dims.channels),
        floats(base + at[89], 4 * dims.channels),
        floats(base + at[90], dims.channels),
        floats(base + at[91], dims.channels),
        floats(base + at[92], dims.channels),
        floats(base + at[93], dims.channels),
        floats(base + at[94], 4 * dims.channels),
        floats(base + at[95], 4 * dims.channels),
        ints(base + at[96], 3),
    )


@inlined
def review_at(base: int, at: Ints, dims: Dims) -> ReviewState:  # noqa: ARG001
    """Return `review` of a StreamState."""
    return ReviewState(
        ints(base + at[97], 7),
        floats(base + at[98], 2),
    )


@inlined
def changes_at(base: int, at: Ints, dims: Dims) -> ChangeState:
    """Return `changes` of a StreamState."""
    return ChangeState(
        ints2(base + at[99], 8, 8),
        ints(base + at[100], 8),
        floats(base + at[101], 8),
        ints2(base + at[102], 8, dims.channels),
        floats2(base + at[103], 8, dims.channels),
        floats2(base + at[104], 8, dims.channels),
        floats2(base + at[105], 8, dims.channels),
        ints(base + at[106], dims.channels),
        floats(base + at[107], dims.channels),
    )


@inlined
def last_quiet_at(base: int, at: Ints, dims: Dims) -> Baseline:
    """Return `last_quiet` of a StreamState."""
    return Baseline(
        floats32(base + at[108], dims.weights),
        floats2(base + at[109], dims.experts, dims.channels),
        floats(base + at[110], 4 * dims.channels),
        floats(base + at[111], 4 * dims.channels),
        floats(base + at[112], 257),
        floats(base + at[113], 4),
        floats(base + at[114], 5),
        AcceptedState(
            floats2(base + at[115], 16, dims.channels),
            ints(base + at[116], 16),
            ints(base + at[117], 16),
            floats2(base + at[118], 10, dims.votes),
            floats2(base + at[119], 10, dims.channels),
            ints(base + at[120], 3),
        ),
        HomeState(
            floats2(base + at[121], 4, dims.channels),
            floats(base + at[122], dims.channels),
            floats(base + at[123], dims.channels),
        ),
    )


@inlined
def shadow_scores_at(base: int, at: Ints, dims: Dims) -> Floats:
    """Return `scores` of a Shadow."""
    return floats(base + at[22], dims.kept_scores)


@inlined
def shadow_counts_at(base: int, at: Ints, dims: Dims) -> Ints:  # noqa: ARG001
    """Return `counts` of a Shadow."""
    return ints(base + at[24], 4)


@inlined
def step_params_at(base: int, at: Ints, dims: Dims) -> StepParams:
    """Return `step` of a FitArrays."""
    stepparams_numbers = floats(base + at[0], 5)
    return StepParams(
        floats(base + at[1], dims.channels),
        floats(base + at[2], dims.channels),
        floats32(base + at[3], dims.weights),
        int(stepparams_numbers[0]),
        stepparams_numbers[1],
        stepparams_numbers[2],
        stepparams_numbers[3],
        np.float32(stepparams_numbers[4]),
    )


@inlined
def committee_params_at(base: int, at: Ints, dims: Dims) -> CommitteeParams:
    """Return `model` of a FitArrays."""
    committeeparams_numbers = floats(base + at[4], 3)
    membersparams_numbers = floats(base + at[17], 1)
    return CommitteeParams(
        floats(base + at[5], dims.experts),
        floats2(base + at[6], dims.experts, dims.channels),
        floats(base + at[7], dims.experts),
        floats32(base + at[8], dims.experts),
        floats3(base + at[9], dims.expert_votes, dims.rank, dims.channels),
        ints(base + at[10], dims.expert_votes),
        ints(base + at[11], dims.expert_votes),
        floats2(base + at[12], dims.votes, dims.channels),
        floats(base + at[13], dims.votes),
        floats(base + at[14], dims.votes),
        floats(base + at[15], dims.votes),
        ints(base + at[16], dims.votes),
        committeeparams_numbers[0],
        int(committeeparams_numbers[1]),
        MembersParams(
            floats32_2(base + at[18], dims.channels, 5 * dims.channels),
            floats32(base + at[19], dims.channels),
            floats32(base + at[20], dims.channels),
            floats32_2(base + at[21], dims.channels, dims.channels),
            floats32(base + at[22], 10 * dims.channels),
            floats32_2(base + at[23], dims.windows_rank, 10 * dims.channels),
            floats32_2(base + at[24], dims.shapes, 10 * dims.channels),
            floats32_2(base + at[25], dims.bins, dims.channels),
            floats32_2(base + at[26], dims.bins, dims.channels),
            floats32_2(base + at[27], dims.bins, dims.votes),
            int(membersparams_numbers[0]),
        ),
        committeeparams_numbers[2],
    )


@inlined
def alarm_params_at(base: int, at: Ints, dims: Dims) -> AlarmParams:  # noqa: ARG001
    """Return `alarm` of a FitArrays."""
    alarmparams_numbers = floats(base + at[28], 7)
    return AlarmParams(
        alarmparams_numbers[0],
        alarmparams_numbers[1],
        alarmparams_numbers[2],
        alarmparams_numbers[3],
        alarmparams_numbers[4],
        alarmparams_numbers[5],
        alarmparams_numbers[6],
    )


@inlined
def tail_chances_at(base: int, at: Ints, dims: Dims) -> Floats:  # noqa: ARG001
    """Return `tail_chances` of a FitArrays."""
    return floats(base + at[29], 257)


@inlined
def drift_params_at(base: int, at: Ints, dims: Dims) -> DriftParams:
    """Return `drift` of a FitArrays."""
    return DriftParams(
        floats(base + at[30], dims.channels),
        floats(base + at[31], dims.channels),
        floats(base + at[32], dims.channels),
        floats2(base + at[33], dims.channels, dims.channels),
        floats(base + at[34], 4 * dims.channels),
        floats2(base + at[35], dims.lags, 4 * dims.channels),
    )


@inlined
def channel_params_at(base: int, at: Ints, dims: Dims) -> ChannelParams:
    """Return `channel` of a FitArrays."""
    channelparams_numbers = floats(base + at[36], 3)
    return ChannelParams(
        floats2(base + at[37], dims.channels, 5),
        floats32_2(base + at[38], dims.channels, dims.channels),
        floats(base + at[39], dims.channels),
        floats(base + at[40], dims.channels),
        floats(base + at[41], dims.channels),
        floats3(base + at[42], 3, dims.channels, 5),
        floats2(base + at[43], dims.channels, 8),
        floats(base + at[44], dims.channels),
        floats(base + at[45], dims.channels),
        floats(base + at[46], dims.channels),
        floats(base + at[47], dims.channels),
        floats(base + at[48], dims.channels),
        ints(base + at[49], dims.channels),
        ints(base + at[50], dims.channels),
        channelparams_numbers[0],
        channelparams_numbers[1],
        channelparams_numbers[2],
    )


@inlined
def watched_at(base: int, at: Ints, dims: Dims) -> Bools:
    """Return `watched` of a FitArrays."""
    return bools(base + at[51], dims.channels)


@inlined
def limits_at(base: int, at: Ints, dims: Dims) -> StreamLimits:  # noqa: ARG001
    """Return `limits` of a FitArrays."""
    streamlimits_numbers = floats(base + at[52], 4)
    return StreamLimits(
        streamlimits_numbers[0],
        streamlimits_numbers[1],
        streamlimits_numbers[2],
        streamlimits_numbers[3],
    )
