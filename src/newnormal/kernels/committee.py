"""A committee: experts score the stream minus their own trends; the votes of all are averaged.

An expert follows the stream with a memory of its own, an exponential moving average moved by every
sample, and scores what is left: with an autoencoder, by the loop of `newnormal.kernels.step`, and
some also with a linear subspace. Each score is a vote: the mean over channels of the squared
residual, in units of what history left of that channel; its logarithm, standardised by history.
Members without a trend (`newnormal.kernels.members`) vote as well. What a vote usually is at this
phase of the rhythm is subtracted from it, and a vote below 0 counts as 0.

Shapes: T samples handed in, J experts, L window length, C channels, P weights of an expert, E votes
of experts, V votes, those of experts first, K rank of a subspace, R rows of the output. V is the
same for every committee of one kind: a vote of weight 0 is skipped.

One module because the loop reads top to bottom, with the arrays it works on.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from newnormal.kernels.accepted import (
    NEXT_PATTERN,
    PLACES,
    AcceptedState,
    copy_accepted,
    is_accepted,
    linked_move_back,
)
from newnormal.kernels.channels import ChannelOut
from newnormal.kernels.compiled import compiled, inlined, inner, uncounted
from newnormal.kernels.decision import decide
from newnormal.kernels.linking import linked
from newnormal.kernels.members import (
    BLOCKS,
    LEAST,
    MembersParams,
    MembersState,
    MembersWork,
    emphasis,
    usual,
    vote_members,
)
from newnormal.kernels.mlp import NOTHING_AHEAD
from newnormal.kernels.step import (
    LEARNED,
    PENDING,
    RESTORED,
    SATURATION,
    STEP_COUNTS,
    StepOut,
    StepParams,
    StepState,
    StepWork,
    copy,
)
from newnormal.kernels.step import advance_in as advance_expert
from newnormal.kernels.step import blank_work as blank_step_work
from newnormal.types import Floats, Floats32, Ints
from newnormal.types.tables import (
    ANY,
    BINARY,
    BOUNDED,
    BOUNDED_OR_NAN,
    CHANCE,
    COUNT,
    KNOWN,
    MODERATE,
    OBSERVED,
    SPREAD,
    UNIT,
    Array,
    Scalar,
)

# In history's standard deviations: one absurd value must not drag a trend along for days.
FARTHEST = 1e3
APART = 300  # samples after the last hidden value, for which the stream as observed is kept


class CommitteeState(NamedTuple):
    """What changes of a committee while its stream runs, besides its `StepState`."""

    # Each expert's trend, in history's standard deviations
    levels: Annotated[Floats, Array("J", "C", range=BOUNDED)]
    # The trends that were subtracted from the newest samples
    past_trends: Annotated[Floats, Array("J", "L", "C", range=BOUNDED)]
    # The newest samples minus those trends
    residuals: Annotated[Floats, Array("J", "L", "C", range=BOUNDED_OR_NAN, first=np.nan)]
    weight_bounds: Annotated[Floats, Array("J", 1, range=ANY)]  # as StepState.reach, an expert each
    counts: Annotated[Ints, STEP_COUNTS.of_each("J")]  # as StepState.counts, an expert each
    # The smoothed votes together; NaN before the first
    smooth: Annotated[Floats, Array(1, range=OBSERVED, first=np.nan)]
    members: MembersState  # of the members without a trend
    accepted: AcceptedState  # places and patterns


class CommitteeParams(NamedTuple):
    """What stays as `fit` left it, besides the `StepParams`."""

    # Share of its trend that an expert keeps at each sample
    decays: Annotated[Floats, Array("J", range=CHANCE)]
    # Standard deviation of what is left of a channel on history
    scales: Annotated[Floats, Array("J", "C", range=MODERATE)]
    # An expert learns from samples whose own score is below
    learn_below: Annotated[Floats, Array("J", range=KNOWN)]
    rates: Annotated[Floats32, Array("J")]  # learning rates
    # Orthonormal rows; unused ones are 0
    bases: Annotated[Floats, Array("E", "R", "C", range=UNIT)]
    experts: Annotated[Ints, Array("E", range=COUNT)]  # the expert that a vote belongs to
    # 1 where it is the subspace's vote and not the autoencoder's
    linear: Annotated[Ints, Array("E", range=BINARY)]
    # Mean squared residual of each channel on history
    residual_scale: Annotated[Floats, Array("V", "C", range=MODERATE)]
    centers: Annotated[Floats, Array("V", range=BOUNDED)]  # mean of the logarithm on history
    spreads: Annotated[Floats, Array("V", range=SPREAD)]  # its standard deviation
    weights: Annotated[Floats, Array("V", range=CHANCE)]  # of the votes, 1 in all; 0 is not counted
    smoothed: Annotated[Ints, Array("V", range=BINARY)]  # 1 where it is smoothed
    # Share of the smoothed votes that a sample keeps; 0 does not smooth
    keep: Annotated[float, Scalar(0, 1)]
    reported_expert: Annotated[int, Scalar(0, 7)]  # the expert whose trend is reported
    members: MembersParams  # of the members without a trend
    level_limit: Annotated[float, Scalar(0)]  # T² up to which a sample is within history's range


class ObservedState(NamedTuple):
    """The stream as observed, nothing hidden: beside a committee's state while that differs."""

    samples: Annotated[Floats, Array("L", "C", range=OBSERVED, first=np.nan, seldom=True)]
    counts: Annotated[Ints, STEP_COUNTS]
    own: CommitteeState
    left: Annotated[Ints, Array(1, range=COUNT)]  # samples until it is dropped; 0: there is none


class CommitteeWork(NamedTuple):
    """Working memory of `advance` for up to R rows; what it holds before is not read."""

    scaled: Floats  # (R, C)
    trails: Floats  # (J, R, C)
    residuals: Floats  # (J, R, C)
    votes: Floats  # (R,) those that are smoothed, together
    prompt: Floats  # (R,) the others
    zeros: Floats  # (C,) an expert's mean
    held: Floats  # (C,) an expert's trend: it is subtracted already
    moved: Floats  # (R, C) by how much samples are moved back
    clean: Floats  # (R, C) what replaces missing values, moved back as well
    masked: Floats  # (R, C) samples without what is hidden
    unit: Floats  # (C,)
    scratch: Floats  # (C,)
    square: Floats  # (C,)
    below: Floats  # (J,) for the caller
    members: MembersWork
    out: StepOut  # R rows: an expert's verdicts
    step: StepWork


@compiled
def blank_work(rows: int, experts: int, channels: int, step: StepWork) -> CommitteeWork:
    """Return working memory for so many rows, with that of a step."""
    return CommitteeWork(
        np.empty((rows, channels)),
        np.empty((experts, rows, channels)),
        np.empty((experts, rows, channels)),
        np.empty(rows),
        np.empty(rows),
        np.empty(channels),
        np.empty(channels),
        np.empty((rows, channels)),
        np.empty((rows, channels)),
        np.empty((rows, channels)),
        np.empty(channels),
        np.empty(channels),
        np.empty(channels),
        np.empty(experts),
        MembersWork(
            np.empty(channels, np.float32),
            np.empty(BLOCKS * channels, np.float32),
            np.empty(BLOCKS * channels, np.float32),
            np.empty(channels),
        ),
        StepOut(
            np.empty(rows),
            np.empty(rows, np.bool_),
            np.empty((rows, channels)),
            np.empty((rows, channels), np.float32),
        ),
        step,
    )


@uncounted
def detrend(
    scaled: Floats, decay: float, hold: bool, level: Floats, trail: Floats, residual: Floats
) -> None:
    """Fill `residual` with scaled samples (T, C) minus the trend, and `trail` with that trend.

    The trend includes the sample itself; a missing value leaves it as it was. With `hold` it does
    not move. A value farther from it than FARTHEST moves it as one at that distance.
    """
    T, C = scaled.shape
    for t in range(T):
        for c in range(C):
            z = scaled[t, c]
            if not hold and not np.isnan(z):
                pull = min(max(z, level[c] - FARTHEST), level[c] + FARTHEST)
                level[c] = decay * level[c] + (1 - decay) * pull
            trail[t, c] = level[c]
            residual[t, c] = z - level[c]


@inlined
def subspace_residual(sample: Floats, basis: Floats, squares: Floats, scratch: Floats) -> None:
    """Fill the squared residual of one sample (C,) outside a subspace; a missing value is 0."""
    K, C = basis.shape
    for c in range(C):
        scratch[c] = 0.0 if np.isnan(sample[c]) else sample[c]
        squares[c] = scratch[c]
    for k in range(K):
        length = 0.0
        for c in range(C):
            length += basis[k, c] * scratch[c]
        for c in range(C):
            squares[c] -= length * basis[k, c]
    for c in range(C):
        squares[c] = 0.0 if np.isnan(sample[c]) else squares[c] * squares[c]


@linked
@inner
def advance_in(
    work: CommitteeWork,
    samples: Floats,
    clean: Floats,
    phases: Floats,
    flush: bool,
    widths: Ints,
    step: StepState,
    state: CommitteeState,
    step_params: StepParams,
    params: CommitteeParams,
    out: StepOut,
    squares: Floats,
    each: Floats32,
) -> None:
    """Do what `advance` does, in working memory that is handed in; for compiled callers.

    `squares` may be empty, but C numbers must lie where it begins: in the loop that adds up
    squares LLVM checks whether it overlaps what is read there, and where it seems to, as an empty
    array that lies anywhere may, it adds up in another order.
    """
    recent, counts = step.samples, step.counts
    J, L, C = state.residuals.shape
    E = len(params.experts)
    P = len(step.weights) // J
    pending = counts[PENDING]
    R = len(out.scores)

    # The rows are the samples pending so far and then the new ones.
    scaled, votes, prompt = work.scaled[:R], work.votes[:R], work.prompt[:R]
    for r in range(R):
        for c in range(C):
            x = recent[L - pending + r, c] if r < pending else samples[r - pending, c]
            z = (x - step_params.mean[c]) / step_params.scale[c]
            z = SATURATION if z > SATURATION else z
            scaled[r, c] = -SATURATION if z < -SATURATION else z

    # A sample at an accepted place is judged as if it had stayed where it was.
    moved = work.moved[:R]
    moves = _any(state.accepted.used)
    if moves:
        moved[:] = 0
        members = params.members
        for r in range(pending, R):
            linked_move_back(
                scaled[r],
                state.accepted,
                members.level_mean,
                members.level_inverse,
                params.level_limit,
                moved[r],
            )
    filled = work.clean[:R]
    for r in range(R):
        for c in range(C):
            filled[r, c] = clean[r - pending, c] if r >= pending else np.nan
            if moves:
                filled[r, c] -= moved[r, c]

    seen = StepOut(
        work.out.scores[:R], work.out.anomalous[:R], work.out.expected[:R], work.out.shares[:R]
    )
    zeros, held = work.zeros, work.held
    zeros[:] = 0
    held[:] = 0
    votes[:] = 0
    prompt[:] = 0
    out.shares[:] = 0
    each[:] = np.nan
    unit, scratch, square = work.unit, work.scratch, work.square
    for j in range(J):
        trails, residuals = work.trails[j, :R], work.residuals[j, :R]
        for r in range(pending):
            copy(state.past_trends[j, L - pending + r], trails[r])
            copy(state.residuals[j, L - pending + r], residuals[r])
        detrend(
            scaled[pending:],
            params.decays[j],
            step_params.decay == 1,
            state.levels[j],
            trails[pending:],
            residuals[pending:],
        )
        part = slice(j * P, (j + 1) * P)
        expert = StepState(
            state.residuals[j],
            held,
            step.weights[part],
            step.good[part],
            state.weight_bounds[j],
            state.counts[j],
        )
        expert_params = StepParams(
            zeros,
            params.scales[j],
            step_params.fitted[part],
            step_params.stride,
            params.learn_below[j],
            params.learn_below[j],
            1.0,
            params.rates[j] if step_params.lr != 0 else np.float32(0),
        )
        advance_expert(work.step, residuals[pending:], flush, widths, expert, expert_params, seen)
        _append(trails[pending:], state.past_trends[j])
        for v in range(E):
            if params.experts[v] != j or params.weights[v] == 0:
                continue
            for r in range(R):
                if np.isnan(seen.scores[r]):
                    votes[r] = np.nan
                    continue
                observed = 0.0
                for c in range(C):
                    observed += 0.0 if np.isnan(residuals[r, c]) else 1.0
                if params.linear[v]:
                    for c in range(C):
                        unit[c] = residuals[r, c] / params.scales[j, c]
                    subspace_residual(unit, params.bases[v], square, scratch)
                else:
                    for c in range(C):
                        square[c] = seen.shares[r, c] * (seen.scores[r] * observed)
                total = 0.0
                for c in range(C):
                    if squares.size:
                        squares[v, r, c] = square[c]
                    square[c] /= params.residual_scale[v, c]
                    total += square[c]
                vote = (np.log(total / observed + LEAST) - params.centers[v]) / params.spreads[v]
                vote -= usual(phases[r], params.members.usual_votes, v)
                weight = emphasis(vote, params.weights[v])
                each[r, v] = vote
                if params.smoothed[v]:
                    votes[r] += params.weights[v] * max(vote, 0.0)
                else:
                    prompt[r] += params.weights[v] * max(vote, 0.0)
                for c in range(C):
                    if total > 0:
                        out.shares[r, c] += weight * square[c] / total
    vote_members(
        work.members,
        work.step.ahead,
        scaled,
        filled,
        phases,
        state.members,
        params.members,
        params.residual_scale[E:],
        params.centers[E:],
        params.spreads[E:],
        params.weights[E:],
        params.smoothed[E:],
        votes,
        prompt,
        out.shares,
        squares[E:],
        each[:, E:],
    )
    if state.accepted.counts[NEXT_PATTERN] > 0:
        for r in range(R):
            if is_accepted(each[r], out.shares[r], state.accepted):
                votes[r] = 0.0
                prompt[r] = 0.0
    _conclude(votes, prompt, params.keep, state.smooth, step_params.alarm_threshold, out)
    copy(state.counts[0], counts)
    counts[RESTORED] = 0
    for j in range(J):
        counts[LEARNED] = max(counts[LEARNED], state.counts[j, LEARNED])
        counts[RESTORED] += state.counts[j, RESTORED]
    _append(samples, recent)


@compiled
def advance(
    samples: Floats,
    clean: Floats,
    phases: Floats,
    flush: bool,
    widths: Ints,
    step: StepState,
    state: CommitteeState,
    step_params: StepParams,
    params: CommitteeParams,
    out: StepOut,
    squares: Floats,
    each: Floats32,
) -> None:
    """Consume samples (T, C) at `phases` (T,) and write the verdicts that became final.

    `step_params.decay` of 1 holds the trends, `step_params.lr` of 0 the weights. A phase is NaN
    where it is unknown. `each` (R, V) gets every vote after what is usual at this phase was
    subtracted; NaN where there is none. `squares` (V, R, C) get each vote's squared residuals, NaN
    where a member has no vote yet; they may be empty: see `advance_in`.
    """
    J, L, C = state.residuals.shape
    work = blank_work(len(out.scores), J, C, blank_step_work(L, C, widths, NOTHING_AHEAD))
    model = (step, state, step_params, params)
    advance_in(work, samples, clean, phases, flush, widths, *model, out, squares, each)


@linked
@inner
def advance_beside_in(
    work: CommitteeWork,
    samples: Floats,
    judged: ChannelOut,
    phases: Floats,
    flush: bool,
    widths: Ints,
    step: StepState,
    state: CommitteeState,
    observed: ObservedState,
    step_params: StepParams,
    params: CommitteeParams,
    out: StepOut,
    squares: Floats,
    each: Floats32,
    spare: StepOut,
    spare_each: Floats32,
    row: Floats,
    scores: Floats,
) -> None:
    """Do what `advance_beside` does, in working memory that is handed in.

    `spare`, `spare_each` and `row` are room for one sample.
    """
    T, C = samples.shape
    accepted = state.accepted
    away = False  # whether the stream is judged from where an open change left it
    for k in range(PLACES // 2):
        away = away or accepted.used[k] != 0
    start = 0
    while start < T:
        stop = start
        while stop < T and not away and observed.left[0] == 0 and not _any(judged.hidden[stop]):
            stop += 1
        apart = stop == start
        stop = start + 1 if apart else stop
        here = (judged.clean[start:stop], phases[start:stop], flush, widths)
        if apart:
            if away or _any(judged.hidden[start]):
                if observed.left[0] == 0:
                    _copy_state(step, state, observed)
                observed.left[0] = APART
            else:
                observed.left[0] -= 1
            for c in range(C):
                most = FARTHEST * step_params.scale[c]
                x = samples[start, c]
                x = step_params.mean[c] + most if x > step_params.mean[c] + most else x
                x = step_params.mean[c] - most if x < step_params.mean[c] - most else x
                row[0, c] = x
            twin = StepState(
                observed.samples, step.trend, step.weights, step.good, step.reach, observed.counts
            )
            held = StepParams(
                step_params.mean,
                step_params.scale,
                step_params.fitted,
                step_params.stride,
                step_params.alarm_threshold,
                step_params.learn_threshold,
                step_params.decay,
                np.float32(0),
            )
            second = (twin, observed.own, held, params)
            advance_in(work, row, *here, *second, spare, squares, spare_each)
            scores[start] = spare.scores[0]
        rows = StepOut(
            out.scores[start:stop],
            out.anomalous[start:stop],
            out.expected[start:stop],
            out.shares[start:stop],
        )
        for t in range(start, stop):
            for c in range(C):
                work.masked[t, c] = np.nan if judged.hidden[t, c] else samples[t, c]
        model = (step, state, step_params, params)
        masked, votes = work.masked[start:stop], each[start:stop]
        advance_in(work, masked, *here, *model, rows, squares, votes)
        if observed.left[0] == 0:
            for t in range(start, stop):
                scores[t] = rows.scores[t - start]
        start = stop


@compiled
def advance_beside(
    samples: Floats,
    judged: ChannelOut,
    phases: Floats,
    flush: bool,
    widths: Ints,
    step: StepState,
    state: CommitteeState,
    observed: ObservedState,
    step_params: StepParams,
    params: CommitteeParams,
    out: StepOut,
    squares: Floats,
    each: Floats32,
    scores: Floats,
) -> None:
    """Consume samples (T, C) as they were judged by channel: what is hidden counts as missing.

    `scores` (T,) get what the samples score as observed, against the accepted normal: while a value
    is hidden or the stream is judged from where a change left it, and for APART samples after that,
    by a second state that sees all values and shares the weights.
    """
    J, L, C = state.residuals.shape
    R = len(out.scores)
    work = blank_work(R, J, C, blank_step_work(L, C, widths, NOTHING_AHEAD))
    spare = StepOut(
        np.empty(1), np.empty(1, np.bool_), np.empty((1, C)), np.empty((1, C), np.float32)
    )
    room = (spare, np.empty((1, each.shape[1]), np.float32), np.empty((1, C)))
    model = (step, state, observed, step_params, params)
    given = (samples, judged, phases, flush, widths)
    advance_beside_in(work, *given, *model, out, squares, each, *room, scores)


@uncounted
def _copy_state(step: StepState, state: CommitteeState, observed: ObservedState) -> None:
    """Copy the first state to the second, but for the places of open changes."""
    own = observed.own
    copy(step.samples.reshape(step.samples.size), observed.samples.reshape(step.samples.size))
    copy(step.counts, observed.counts)
    copy(state.levels.reshape(state.levels.size), own.levels.reshape(state.levels.size))
    size = state.past_trends.size
    copy(state.past_trends.reshape(size), own.past_trends.reshape(size))
    copy(state.residuals.reshape(size), own.residuals.reshape(size))
    copy(state.weight_bounds[:, 0], own.weight_bounds[:, 0])
    copy(state.counts.reshape(state.counts.size), own.counts.reshape(state.counts.size))
    copy(state.smooth, own.smooth)
    members, seen = state.members, own.members
    copy(members.recent.reshape(members.recent.size), seen.recent.reshape(members.recent.size))
    copy(members.means.reshape(members.means.size), seen.means.reshape(members.means.size))
    copy(members.counts, seen.counts)
    copy(members.filled, seen.filled)
    copy_accepted(state.accepted, own.accepted)
    for k in range(PLACES // 2):
        own.accepted.used[k] = 0
        own.accepted.at[k] = 0


@inlined
def _any(used: Ints) -> bool:
    any_used = False
    for k in range(len(used)):
        any_used = any_used or used[k] > 0
    return any_used


@inlined
def _append(source: Floats, newest: Floats) -> None:
    """Append the last rows of `source` to `newest`, whose oldest rows are dropped."""
    L, C = newest.shape
    T = len(source)
    kept = max(L - T, 0)
    for k in range(kept):
        for c in range(C):
            newest[k, c] = newest[L - kept + k, c]
    for k in range(kept, L):
        for c in range(C):
            newest[k, c] = source[T - L + k, c]


@inlined
def _conclude(
    votes: Floats, prompt: Floats, keep: float, smooth: Floats, alarm_threshold: float, out: StepOut
) -> None:
    """Smooth the votes, which are logarithms, and write scores and what is anomalous."""
    for r in range(len(votes)):
        score = np.nan
        if not np.isnan(votes[r]):
            if np.isnan(smooth[0]):
                smooth[0] = votes[r]
            smooth[0] = keep * smooth[0] + (1 - keep) * votes[r]
            score = np.exp(min(smooth[0] + prompt[r], 700.0))
            _normalise(out.shares[r])
        else:
            out.shares[r, :] = np.nan
        out.scores[r] = score
        out.anomalous[r] = decide(score, alarm_threshold, alarm_threshold)[0]


@inlined
def _normalise(shares: Floats32) -> None:
    """Scale shares to a sum of 1, also where a vote without any residual gave none."""
    total = 0.0
    for c in range(len(shares)):
        total += shares[c]
    for c in range(len(shares)):
        shares[c] = shares[c] / total if total > 0 else 0.0
