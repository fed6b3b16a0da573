"""Many streams of one shape: what `newnormal.core.loop` does to one, in one compiled call.

`advance` goes through streams one after the other; threads are given different streams. It calls
the kernels of one stream, so that a stream's bits are those of a detector alone. What is rare needs
Python: where an alarm opens, gets worse or closes, a value goes missing for too long, a change
opens or is reviewed. There it stops for that stream, and says why (`why`); the caller does what is
to be done, by the code of one stream, and calls again for the samples that are left.

The order is that of `newnormal.core.loop`. A stretch ends where a review is due. For each stretch:
channels are judged, the shadow is trained, the model consumes the samples, and then row by row, as
far as nothing rare happens, silence, drift and alarms are judged.

Shapes: S streams, N rows of all streams together, C channels, J experts, L window length, P weights
of all experts, V votes.

One module because it has the order of the loop once more, for many streams.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from newnormal.kernels import drift as drifting
from newnormal.kernels.alarm import AlarmOut, linked_judge_scores
from newnormal.kernels.alarm_log import LogRows, linked_follow
from newnormal.kernels.blocks import (
    Dims,
    alarm_at,
    alarm_params_at,
    changes_at,
    channel_at,
    channel_params_at,
    committee_at,
    committee_params_at,
    drift_at,
    drift_params_at,
    learn_threshold_at,
    limits_at,
    log_at,
    observed_at,
    review_at,
    shadow_counts_at,
    shadow_scores_at,
    step_at,
    step_params_at,
    tail_chances_at,
)
from newnormal.kernels.channels import ChannelOut, rank
from newnormal.kernels.channels import blank_work as blank_channel_work
from newnormal.kernels.channels import linked_advance as advance_channels
from newnormal.kernels.committee import (
    CommitteeParams,
    CommitteeState,
    CommitteeWork,
    advance_beside_in,
    advance_in,
    blank_work,
)
from newnormal.kernels.compiled import compiled, inlined, inner, uncounted
from newnormal.kernels.drift import DriftOut
from newnormal.kernels.linking import linked
from newnormal.kernels.members import FAR
from newnormal.kernels.mlp import NOTHING_AHEAD, request
from newnormal.kernels.step import RESTORED, SEEN, StepOut, StepParams, StepState, copy
from newnormal.kernels.step import blank_work as blank_step_work
from newnormal.kernels.stream import (
    CHANGE_NUMBER,
    CHANGE_STATE,
    CHANGES,
    IS_REJECTED,
    REVIEWS,
    SHADOW_NEXT,
    SHADOW_SCORES,
    SHADOW_TRAINS,
)
from newnormal.kernels.uneventful import Columns, add_times, quiet_rows, review, review_is_trivial
from newnormal.types import Bools, Floats, Floats32, Ints

# Why a stream's samples were not all consumed, as bits: what Python has to do, in this order.
DONE = 0
OPENS = 1  # an alarm opens, gets worse or closes at the row `event`: `alarms.log.track`
CHANGE = 2  # a channel went beyond the limit at the last of them: `acceptance.crossed`
SILENT = 4  # the next row is one of silence, or the first one after
REVIEW = 8  # the stretch is over, and its review is not one that finds nothing


class Stops(NamedTuple):
    """Where each stream stopped, and why."""

    done: Ints  # (S,) the row after the last that is final
    since: Ints  # (S,) the first row of those that OPENS and CHANGE are about
    event: Ints  # (S,) the row of the event that OPENS is about
    consumed: Ints  # (S,) the row after the last that the model has consumed
    is_due: Bools  # (S,) whether a review is due once those are final
    why: Ints  # (S,) the bits above
    restored: Ints  # (S,) times that weights which had diverged were put back


class Streams(NamedTuple):
    """Where the blocks of S streams are, and where in a block each array is."""

    states: Ints  # (S,) addresses
    fits: Ints  # (S,)
    shadows: Ints  # (S,) 0 without one
    state_at: Ints  # offsets, in the order of kernels.blocks
    fitted_at: Ints
    shadow_at: Ints
    state_lines: Ints  # the cache lines of a block that every sample touches
    fitted_lines: Ints
    at_a_time: int  # how many of them to ask for at a time


@compiled
def advance(
    which: Ints,
    streams: Streams,
    dims: Dims,
    widths: Ints,
    samples: Floats,
    times: Ints,
    phases: Floats,
    first: Ints,
    last: Ints,
    flush: bool,
    columns: Columns,
    stops: Stops,
) -> None:
    """Consume the rows `first` to `last` of some of S streams, up to what is rare.

    `which` are the positions of those to go through. `stops.done` is where each goes on: its first
    row at the first call. `samples` (N, C) hold no infinity; `times` (N,) are in ns, NO_TIME where
    there are none. Nothing is ever pending, so `flush` has no effect: as a constant here, it would
    make the kernels of one stream be compiled a second time.
    """
    most = 1
    for k in range(len(which)):
        s = which[k]
        length = int(limits_at(streams.fits[s], streams.fitted_at, dims).review_length)
        most = max(most, min(last[s] - first[s], length))
    lines = NOTHING_AHEAD + len(streams.state_lines) + len(streams.fitted_lines)
    step_work = blank_step_work(dims.window, dims.channels, widths, lines)
    work = blank_work(most, dims.experts, dims.channels, step_work)
    channel_work = blank_channel_work(dims.channels)
    crossings = np.empty(most, np.bool_)
    spare = _spare(most, dims)
    # An empty array that lies at C numbers of its own: see `committee.advance_in`.
    nothing = np.empty(dims.channels)[:0].reshape((0, 0, 0))
    for k in range(len(which)):
        s = which[k]
        base, at = streams.states[s], streams.state_at
        fit, fit_at = streams.fits[s], streams.fitted_at
        _ahead(which, k, streams, work.step.ahead)
        counts = step_at(base, at, dims).counts
        restored = counts[RESTORED]
        if stops.done[s] == first[s]:
            add_times(times[first[s] : last[s]], base, at, dims)
        stops.why[s] = DONE
        while stops.done[s] < last[s] and stops.why[s] == DONE:
            start = stops.done[s]
            limits = limits_at(fit, fit_at, dims)
            length = int(limits.review_length)
            reviews = review_at(base, at, dims).counts[REVIEWS]
            room = (reviews + 1) * length - counts[SEEN]
            end = min(start + room, last[s])
            stops.is_due[s] = end - start == room
            stops.consumed[s] = end
            threshold = learn_threshold_at(base, at, dims)[0]
            judged = ChannelOut(
                columns.expected[start:end],
                columns.lows[start:end],
                columns.highs[start:end],
                columns.channel_ratios[start:end],
                columns.clean[start:end],
                columns.hidden[start:end],
                columns.paces[start:end],
                columns.episodes[start:end],
                columns.ranks[start:end],
            )
            advance_channels(
                channel_work,
                samples[start:end],
                times[start:end],
                phases[start:end],
                channel_at(base, at, dims),
                channel_params_at(fit, fit_at, dims),
                step_params_at(fit, fit_at, dims).mean,
                step_params_at(fit, fit_at, dims).scale,
                committee_params_at(fit, fit_at, dims).members.rhythm_levels,
                judged,
            )
            for model in range(2):  # the shadow's, and then the stream's own
                is_shadow = model == 0
                if is_shadow and not _trains(streams.shadows[s], streams.shadow_at, dims):
                    continue
                _consume(
                    streams.shadows[s] if is_shadow else base,
                    streams.shadow_at if is_shadow else at,
                    fit,
                    fit_at,
                    dims,
                    widths,
                    work,
                    nothing,
                    samples[start:end],
                    judged,
                    phases[start:end],
                    flush,
                    threshold,
                    limits.learning_margin if is_shadow else 1.0,
                    not is_shadow and _is_frozen(base, at, dims),
                    is_shadow,
                    spare,
                    columns.scores[start:end],
                    columns.joint[start:end],
                    columns.shares[start:end],
                    columns.votes[start:end],
                )
                if is_shadow:
                    _keep_scores(
                        streams.shadows[s], streams.shadow_at, dims, spare.out.scores[: end - start]
                    )
            request(work.step.ahead)
            stops.why[s] = _judge(
                s, base, at, fit, fit_at, dims, crossings, samples, times, end, columns, stops
            )
            if stops.why[s] == DONE and stops.is_due[s]:
                if streams.shadows[s] == 0 and review_is_trivial(
                    base, at, fit, fit_at, dims, length
                ):
                    review(base, at, fit, fit_at, dims)
                else:
                    stops.why[s] = REVIEW
        stops.restored[s] += counts[RESTORED] - restored


class Spare(NamedTuple):
    """Room for what a shadow makes of rows, and for one row of the stream as observed."""

    out: StepOut
    votes: Floats32
    one: StepOut
    one_votes: Floats32
    sample: Floats


@compiled
def _spare(rows: int, dims: Dims) -> Spare:
    C = dims.channels
    return Spare(
        StepOut(
            np.empty(rows),
            np.empty(rows, np.bool_),
            np.empty((rows, C)),
            np.empty((rows, C), np.float32),
        ),
        np.empty((rows, dims.votes), np.float32),
        StepOut(np.empty(1), np.empty(1, np.bool_), np.empty((1, C)), np.empty((1, C), np.float32)),
        np.empty((1, dims.votes), np.float32),
        np.empty((1, C)),
    )


@inlined
def _ahead(which: Ints, k: int, streams: Streams, ahead: Ints) -> None:
    """Write down what the stream after this one needs; of the last one, its own."""
    s = which[min(k + 1, len(which) - 1)]
    at = NOTHING_AHEAD
    ahead[0] = at
    ahead[1] = streams.at_a_time
    for i in range(len(streams.state_lines)):
        ahead[at + i] = streams.states[s] + streams.state_lines[i]
    at += len(streams.state_lines)
    for i in range(len(streams.fitted_lines)):
        ahead[at + i] = streams.fits[s] + streams.fitted_lines[i]


@linked
@inner
def _consume(
    base: int,
    at: Ints,
    fit: int,
    fit_at: Ints,
    dims: Dims,
    widths: Ints,
    work: CommitteeWork,
    nothing: Floats,
    samples: Floats,
    judged: ChannelOut,
    phases: Floats,
    flush: bool,
    threshold: float,
    margin: float,
    is_frozen: bool,
    is_shadow: bool,
    spare: Spare,
    scores: Floats,
    joint: Floats,
    shares: Floats32,
    votes: Floats32,
) -> None:
    """Hand samples to a model, which learns from scores up to `margin` times its thresholds.

    What a shadow makes of them is in `spare`; the stream's own model fills the others.
    """
    step, own = step_at(base, at, dims), committee_at(base, at, dims)
    mean, scale, fitted, stride, _, _, decay, lr = step_params_at(fit, fit_at, dims)
    lr = np.float32(0) if is_frozen else lr
    below = margin * threshold
    params = StepParams(mean, scale, fitted, stride, below, below, decay, lr)
    fixed = committee_params_at(fit, fit_at, dims)
    for j in range(dims.experts):
        work.below[j] = margin * fixed.learn_below[j]
    model = CommitteeParams(
        fixed.decays,
        fixed.scales,
        work.below,
        fixed.rates,
        fixed.bases,
        fixed.experts,
        fixed.linear,
        fixed.residual_scale,
        fixed.centers,
        fixed.spreads,
        fixed.weights,
        fixed.smoothed,
        fixed.keep,
        fixed.reported_expert,
        fixed.members,
        fixed.level_limit,
    )
    T, C = samples.shape
    out = StepOut(
        spare.out.scores[:T], spare.out.anomalous[:T], spare.out.expected[:T], spare.out.shares[:T]
    )
    if is_shadow:
        for t in range(T):
            for c in range(C):
                work.masked[t, c] = np.nan if judged.hidden[t, c] else samples[t, c]
        masked, own_votes = work.masked[:T], spare.votes[:T]
        clean = (masked, judged.clean, phases, flush, widths)
        advance_in(work, *clean, step, own, params, model, out, nothing, own_votes)
    else:
        _begin(samples[0], step, own, params)
        own_out = StepOut(joint, out.anomalous, out.expected, shares)
        models = (step, own, observed_at(base, at, dims), params, model)
        given = (samples, judged, phases, flush, widths)
        room = (spare.one, spare.one_votes, spare.sample)
        advance_beside_in(work, *given, *models, own_out, nothing, votes, *room, scores)
        rank(scores, judged.ranks, channel_at(base, at, dims).smooth, scores)
    copy(own.levels[model.reported_expert], step.trend)


@inlined
def _trains(shadow: int, at: Ints, dims: Dims) -> bool:
    return shadow != 0 and shadow_counts_at(shadow, at, dims)[SHADOW_TRAINS] != 0


@uncounted
def _is_frozen(base: int, at: Ints, dims: Dims) -> bool:
    """Whether the model learns nothing, because a rejected change lasts."""
    changes = changes_at(base, at, dims).counts
    is_frozen = False
    for row in range(CHANGES):
        is_frozen = is_frozen or changes[row, CHANGE_STATE] == IS_REJECTED
    return is_frozen


@uncounted
def _keep_scores(shadow: int, at: Ints, dims: Dims, new: Floats) -> None:
    """Append scores to those that a shadow keeps; see `TimedAcceptance.train_shadow`."""
    scores, counts = shadow_scores_at(shadow, at, dims), shadow_counts_at(shadow, at, dims)
    for t in range(len(new)):
        if not np.isnan(new[t]):
            scores[counts[SHADOW_NEXT]] = new[t]
            counts[SHADOW_NEXT] = (counts[SHADOW_NEXT] + 1) % len(scores)
            counts[SHADOW_SCORES] = min(counts[SHADOW_SCORES] + 1, len(scores))


@inlined
def _begin(sample: Floats, step: StepState, own: CommitteeState, params: StepParams) -> None:
    """Begin each trend at the first sample of a stream."""
    if step.counts[SEEN] == 0:
        J, C = own.levels.shape
        for c in range(C):
            z = (sample[c] - params.mean[c]) / params.scale[c]
            z = 0.0 if np.isnan(z) else min(max(z, -FAR), FAR)
            for j in range(J):
                own.levels[j, c] = z


@linked
@inner
def _judge(
    s: int,
    base: int,
    at: Ints,
    fit: int,
    fit_at: Ints,
    dims: Dims,
    crossings: Bools,
    samples: Floats,
    times: Ints,
    end: int,
    columns: Columns,
    stops: Stops,
) -> int:
    """Judge the rows that the model has consumed, up to what is rare; return what that is."""
    changes = changes_at(base, at, dims).counts
    newest = 0
    for row in range(CHANGES):
        newest = max(newest, changes[row, CHANGE_NUMBER])
    drift, drift_params = drift_at(base, at, dims), drift_params_at(fit, fit_at, dims)
    alarm, alarm_params = alarm_at(base, at, dims), alarm_params_at(fit, fit_at, dims)
    chances = tail_chances_at(fit, fit_at, dims)
    start = stops.done[s]
    while start < end:
        # A channel crosses the limit at the last of these rows if at all: silence is not to be
        # judged beyond it.
        stop = min(end, start + drifting.EVERY - drift.counts[drifting.SEEN] % drifting.EVERY)
        stop = quiet_rows(base, at, fit, fit_at, dims, samples, times, start, stop)
        if stop == start:
            return SILENT
        moved = DriftOut(columns.distances[start:stop], crossings)
        stop = start + drifting.linked_advance(
            samples[start:stop],
            columns.expected[start:stop],
            columns.hidden[start:stop],
            drift,
            drift_params,
            moved,
        )
        columns.changes[start:stop] = newest
        judged = AlarmOut(
            columns.thresholds[start:stop],
            columns.ratios[start:stop],
            columns.anomalous[start:stop],
            columns.alarms[start:stop],
            columns.p_values[start:stop],
            columns.joint_ratios[start:stop],
        )
        linked_judge_scores(
            columns.joint[start:stop],
            columns.channel_ratios[start:stop],
            columns.episodes[start:stop],
            alarm,
            alarm_params,
            chances,
            judged,
        )
        why = DONE
        rows = LogRows(
            samples[start:stop],
            times[start:stop],
            judged.alarms,
            columns.scores[start:stop],
            judged.ratios,
            judged.joint,
            judged.p_values,
            columns.channel_ratios[start:stop],
            columns.expected[start:stop],
            columns.lows[start:stop],
            columns.highs[start:stop],
            columns.shares[start:stop],
            columns.paces[start:stop],
            columns.votes[start:stop],
        )
        seen = step_at(base, at, dims).counts[SEEN]
        event = linked_follow(log_at(base, at, dims), rows, 0, seen - end + start)
        if event < stop - start:
            why = OPENS
            stops.event[s] = start + event
        if crossings[stop - start - 1]:
            why |= CHANGE
        stops.done[s] = stop
        stops.since[s] = start
        if why != DONE:
            return why
        start = stop
    return DONE
