"""Many streams of one shape: what `newnormal.core.loop` does to one, in one compiled call.

`advance` goes through streams one after the other; threads are given different streams. It calls
the kernels of one stream, so that a stream's bits are those of a detector alone. What is rare needs
Python: where an alarm opens, gets worse or closes, a value goes missing for too long, a change
opens or is reviewed. There it stops for that stream, and says why (`why`); the caller does what is
to be done, by the code of one stream, and calls again for the samples that are left.

The order is that of `newnormal.core.loop`. A stretch ends where a review is due. For each stretch:
the shadow is trained, the model consumes the samples, and then row by row, as far as nothing rare
happens, silence, drift and alarms are judged.

Shapes: S streams, N rows of all streams together, C channels, J experts, L window length, P weights
of all experts, V votes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from newnormal.kernels import drift as drifting
from newnormal.kernels.accepted import PATTERNS, PLACES, AcceptedState
from newnormal.kernels.alarm import (
    HEIGHT,
    KNOTS,
    LOCATION,
    LOW_RATIO,
    RECENT,
    START_HEIGHT,
    START_LOCATION,
    AlarmOut,
    AlarmParams,
    AlarmState,
    judge_scores,
)
from newnormal.kernels.committee import (
    CommitteeParams,
    CommitteeState,
    CommitteeWork,
    advance_in,
    blank_work,
)
from newnormal.kernels.compiled import compiled, inlined
from newnormal.kernels.drift import CROSSED, MARK, WARM, DriftOut, DriftParams, DriftState
from newnormal.kernels.members import BLOCKS, FAR, LONG, PAST, SPAN, MembersParams, MembersState
from newnormal.kernels.memory import (
    bools,
    floats,
    floats2,
    floats3,
    floats32,
    floats32_2,
    ints,
    ints2,
)
from newnormal.kernels.step import RESTORED, SEEN, StepOut, StepParams, StepState
from newnormal.types import NO_TIME, Bools, Floats, Floats32, Ints

__all__ = [
    "CHANGE",
    "DONE",
    "FITTED",
    "NUMBERS",
    "OPENS",
    "REVIEW",
    "SHADOW",
    "SILENT",
    "STATE",
    "Columns",
    "Dims",
    "Stops",
    "advance",
]

# Why a stream's samples were not all consumed, as bits: what Python has to do, in this order.
DONE = 0
OPENS = 1  # an alarm opens, gets worse or closes in the rows from `since` on: `alarms.log.track`
CHANGE = 2  # a channel went beyond the limit at the last of them: `acceptance.crossed`
SILENT = 4  # the next row is one of silence, or the first one after
REVIEW = 8  # the stretch is over, and its review is not one that finds nothing

# The arrays of a stream's state that are used here, by their names in its layout.
STATE = (
    "model.step.samples",
    "model.step.trend",
    "model.step.weights",
    "model.step.good",
    "model.step.reach",
    "model.step.counts",
    "model.own.levels",
    "model.own.trails",
    "model.own.residuals",
    "model.own.reaches",
    "model.own.counts",
    "model.own.smooth",
    "model.own.members.recent",
    "model.own.members.means",
    "model.own.members.counts",
    "model.own.accepted.shifts",
    "model.own.accepted.used",
    "model.own.accepted.at",
    "model.own.accepted.peaks",
    "model.own.accepted.channels",
    "model.own.accepted.counts",
    "times.times",
    "times.last",
    "times.counts",
    "learn_threshold",
    "alarm.levels",
    "alarm.counts",
    "alarm.recent",
    "alarm.raised",
    "alarm.tail_levels",
    "alarm.tail_excess",
    "log.counts",
    "log.levels",
    "log.times",
    "log.votes",
    "silence.counts",
    "silence.times",
    "silence.missing",
    "silence.channels",
    "drift.levels",
    "drift.steps",
    "drift.still",
    "drift.last",
    "drift.missing",
    "drift.position",
    "drift.start",
    "drift.distances",
    "drift.jumps",
    "drift.crossing",
    "drift.owned",
    "drift.lows",
    "drift.highs",
    "drift.counts",
    "review.counts",
    "review.levels",
    "changes.counts",
    "last_quiet.weights",
    "last_quiet.trend",
    "last_quiet.lows",
    "last_quiet.highs",
    "last_quiet.tail_levels",
    "last_quiet.tail_excess",
    "last_quiet.levels",
    "last_quiet.accepted.shifts",
    "last_quiet.accepted.used",
    "last_quiet.accepted.at",
    "last_quiet.accepted.peaks",
    "last_quiet.accepted.channels",
    "last_quiet.accepted.counts",
)

# The same of what fitting left.
FITTED = (
    "numbers",
    "mean",
    "scale",
    "weights",
    "model.decays",
    "model.scales",
    "model.learn_below",
    "model.rates",
    "model.bases",
    "model.experts",
    "model.linear",
    "model.residual_scale",
    "model.centers",
    "model.spreads",
    "model.weights",
    "model.smoothed",
    "model.members.forecast",
    "model.members.intercept",
    "model.members.level_mean",
    "model.members.level_inverse",
    "model.members.windows_mean",
    "model.members.windows_basis",
    "model.members.shapes",
    "model.members.rhythm_levels",
    "model.members.rhythm_spreads",
    "model.members.usual_votes",
    "tail_chances",
    "drift.mean",
    "drift.scale",
    "drift.centre",
    "drift.blend",
    "drift.margins",
    "drift.wanders",
    "watched",
)

# The same of a shadow; its model's arrays are the first ones of STATE.
SHADOW = (*STATE[: STATE.index("times.times")], "scores", "counts")

# Positions in the numbers of what fitting left.
(
    DECAY,
    LR,
    FLOOR,
    KEEP,
    LEVEL_LIMIT,
    REPORTED_EXPERT,
    ALARM_LOCATION,
    SPREAD,
    RATE,
    STEP,
    RISE,
    RAISES,
    GAP,
    STAND,
    SPAN_OF_RATE,
    MOST_MISSING,
    LONGEST_SILENCE,
    REVIEW_LENGTH,
    EAGER,
) = range(19)
NUMBERS = 19

# Positions in LogState, SilenceState, ReviewState, ChangeState, Shadow and SampleTimes: those of
# `newnormal.alarms`, `newnormal.acceptance` and `newnormal.core.times`, which a test compares.
LOG_NUMBER, LOG_START, LOG_END, LOG_NEWEST = 0, 1, 2, 4
PEAK_SCORE = 0
END_TIME = 1
SILENCE_NUMBER, SILENCE_ALL, SILENCE_ANY = 0, 2, 3
LAST_TIME = 1
REVIEWS, LAST_ALARM = 0, 2
MOVED, MOVES = 0, 1
CHANGE_NUMBER, CHANGE_STATE, IS_REJECTED = 0, 4, 2
SHADOW_TRAINS, SHADOW_SCORES, SHADOW_NEXT = 0, 1, 2
TIMES_HELD, TIMES_TIMED = 0, 1
WEIGHTS_LIMIT, FARTHEST_WEIGHTS = 0.5, 1e9
RECENT_REVIEWS = 2


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


class Columns(NamedTuple):
    """What is known of each row; `Verdicts` has the same columns."""

    scores: Floats
    thresholds: Floats
    anomalous: Bools
    expected: Floats  # (N, C)
    shares: Floats32  # (N, C)
    ratios: Floats
    p_values: Floats
    alarms: Ints
    distances: Floats
    changes: Ints
    votes: Floats32  # (N, V)


class Stops(NamedTuple):
    """Where each stream stopped, and why."""

    done: Ints  # (S,) the row after the last that is final
    since: Ints  # (S,) the first row of those that OPENS and CHANGE are about
    consumed: Ints  # (S,) the row after the last that the model has consumed
    is_due: Bools  # (S,) whether a review is due once those are final
    why: Ints  # (S,) the bits above
    restored: Ints  # (S,) times that weights which had diverged were put back


class _Stream(NamedTuple):
    """The arrays of one stream."""

    step: StepState
    own: CommitteeState
    times: Ints
    last_time: Ints
    times_counts: Ints
    learn_threshold: Floats
    alarm: AlarmState
    log_counts: Ints
    log_levels: Floats
    log_times: Ints
    log_votes: Floats
    silence_counts: Ints
    silence_times: Ints
    missing: Ints
    silent: Ints
    drift: DriftState
    review_counts: Ints
    review_levels: Floats
    changes: Ints


class _Fitted(NamedTuple):
    """What fitting left of one stream."""

    numbers: Floats
    mean: Floats
    scale: Floats
    weights: Floats32
    model: CommitteeParams
    alarm: AlarmParams
    tail_chances: Floats
    drift: DriftParams
    watched: Bools


@compiled
def advance(
    streams: Ints,
    states: Ints,
    fits: Ints,
    shadows: Ints,
    state_at: Ints,
    fitted_at: Ints,
    shadow_at: Ints,
    dims: Dims,
    widths: Ints,
    samples: Floats,
    times: Ints,
    phases: Floats,
    first: Ints,
    last: Ints,
    columns: Columns,
    stops: Stops,
) -> None:
    """Consume the rows `first` to `last` of some of S streams, up to what is rare.

    `streams` are the positions of those to go through. `stops.done` is where each goes on, its
    first row at the first call. `states`, `fits` and `shadows` (S,) are the addresses of the blocks of each stream, 0 without
    a shadow, and the `…_at` say where in a block each array is. `samples` (N, C) hold no infinity;
    `times` (N,) are in ns, NO_TIME where there are none.
    """
    most = 1
    for k in range(len(streams)):
        length = int(floats(fits[streams[k]] + fitted_at[0], NUMBERS)[REVIEW_LENGTH])
        most = max(most, min(last[streams[k]] - first[streams[k]], length))
    work = blank_work(most, dims.experts, dims.window, dims.channels, widths)
    seen = StepOut(
        np.empty(most),
        np.empty(most, np.bool_),
        np.empty((most, dims.channels)),
        np.empty((most, dims.channels), np.float32),
    )
    crossings = np.empty(most, np.bool_)
    # An empty array that lies at C numbers of its own: see `committee.advance_in`.
    nothing = np.empty(dims.channels)[:0].reshape((0, 0, 0))
    for k in range(len(streams)):
        s = streams[k]
        fitted = _fitted(fits[s], fitted_at, dims)
        stream = _stream(states[s], state_at, dims)
        if stops.done[s] == first[s]:
            _add_times(times[first[s] : last[s]], stream)
        stops.why[s] = DONE
        restored = stream.step.counts[RESTORED]
        while stops.done[s] < last[s] and stops.why[s] == DONE:
            _stretch(
                s,
                stream,
                fitted,
                states[s],
                state_at,
                shadows[s],
                shadow_at,
                dims,
                widths,
                work,
                seen,
                crossings,
                nothing,
                samples,
                times,
                phases,
                last[s],
                columns,
                stops,
            )
        stops.restored[s] += stream.step.counts[RESTORED] - restored


@compiled
def _stretch(
    s: int,
    stream: _Stream,
    fitted: _Fitted,
    base: int,
    state_at: Ints,
    shadow: int,
    shadow_at: Ints,
    dims: Dims,
    widths: Ints,
    work: CommitteeWork,
    seen: StepOut,
    crossings: Bools,
    nothing: Floats,
    samples: Floats,
    times: Ints,
    phases: Floats,
    last: int,
    columns: Columns,
    stops: Stops,
) -> None:
    """Consume rows up to the next review."""
    numbers = fitted.numbers
    start = stops.done[s]
    length = int(numbers[REVIEW_LENGTH])
    reviews = stream.review_counts[REVIEWS]
    room = (reviews + 1) * length - stream.step.counts[SEEN]
    end = min(start + room, last)
    stops.is_due[s] = end - start == room
    stops.consumed[s] = end
    threshold = stream.learn_threshold[0]
    is_frozen = False
    newest = 0
    for row in range(dims.changes):
        is_frozen = is_frozen or stream.changes[row, CHANGE_STATE] == IS_REJECTED
        newest = max(newest, stream.changes[row, CHANGE_NUMBER])
    lr = np.float32(numbers[LR])

    if shadow != 0 and ints(shadow + shadow_at[-1], 4)[SHADOW_TRAINS]:
        eager = numbers[EAGER] * threshold
        params = StepParams(
            fitted.mean, fitted.scale, fitted.weights, 1, eager, eager, numbers[DECAY], lr
        )
        _train_shadow(
            shadow,
            shadow_at,
            dims,
            widths,
            work,
            seen,
            nothing,
            samples[start:end],
            phases[start:end],
            params,
            fitted,
            columns.votes[start:end],
        )

    params = StepParams(
        fitted.mean,
        fitted.scale,
        fitted.weights,
        1,
        threshold,
        threshold,
        numbers[DECAY],
        np.float32(0) if is_frozen else lr,
    )
    out = StepOut(
        columns.scores[start:end],
        columns.anomalous[start:end],
        columns.expected[start:end],
        columns.shares[start:end],
    )
    _begin(samples[start], stream.step, stream.own, params)
    advance_in(
        work,
        samples[start:end],
        phases[start:end],
        False,
        widths,
        stream.step,
        stream.own,
        params,
        fitted.model,
        out,
        nothing,
        columns.votes[start:end],
    )
    stream.step.trend[:] = stream.own.levels[fitted.model.reported_expert]

    stops.why[s] = _judge(
        s, stream, fitted, crossings, samples, times, start, end, newest, columns, stops
    )
    if stops.why[s] == DONE and stops.is_due[s]:
        if _is_quiet(stream, fitted, shadow, newest, length):
            _review(stream, fitted, base, state_at, dims)
        else:
            stops.why[s] = REVIEW


@compiled
def _begin(sample: Floats, step: StepState, own: CommitteeState, params: StepParams) -> None:
    """Begin each trend at the first sample of a stream."""
    if step.counts[SEEN] != 0:
        return
    J, C = own.levels.shape
    for c in range(C):
        z = (sample[c] - params.mean[c]) / params.scale[c]
        z = 0.0 if np.isnan(z) else min(max(z, -FAR), FAR)
        for j in range(J):
            own.levels[j, c] = z


@compiled
def _train_shadow(
    shadow: int,
    shadow_at: Ints,
    dims: Dims,
    widths: Ints,
    work: CommitteeWork,
    seen: StepOut,
    nothing: Floats,
    samples: Floats,
    phases: Floats,
    params: StepParams,
    fitted: _Fitted,
    votes: Floats32,
) -> None:
    """Hand a shadow what the running model is about to consume; see `TimedAcceptance`."""
    T = len(samples)
    step, own = _model(shadow, shadow_at, dims)
    scores = floats(shadow + shadow_at[-2], dims.kept_scores)
    counts = ints(shadow + shadow_at[-1], 4)
    below = fitted.numbers[EAGER] * fitted.model.learn_below
    model = fitted.model
    eager = CommitteeParams(
        model.decays,
        model.scales,
        below,
        model.rates,
        model.bases,
        model.experts,
        model.linear,
        model.residual_scale,
        model.centers,
        model.spreads,
        model.weights,
        model.smoothed,
        model.floor,
        model.keep,
        model.reported_expert,
        model.members,
        model.level_limit,
    )
    out = StepOut(seen.scores[:T], seen.anomalous[:T], seen.expected[:T], seen.shares[:T])
    _begin(samples[0], step, own, params)
    advance_in(
        work, samples, phases, False, widths, step, own, params, eager, out, nothing, votes
    )
    step.trend[:] = own.levels[model.reported_expert]
    for t in range(T):
        if not np.isnan(out.scores[t]):
            scores[counts[SHADOW_NEXT]] = out.scores[t]
            counts[SHADOW_NEXT] = (counts[SHADOW_NEXT] + 1) % len(scores)
            counts[SHADOW_SCORES] = min(counts[SHADOW_SCORES] + 1, len(scores))


@compiled
def _judge(
    s: int,
    stream: _Stream,
    fitted: _Fitted,
    crossings: Bools,
    samples: Floats,
    times: Ints,
    start: int,
    end: int,
    newest: int,
    columns: Columns,
    stops: Stops,
) -> int:
    """Judge the rows that the model has consumed, up to what is rare; return what that is."""
    at = start
    while at < end:
        stop = _quiet_rows(stream, fitted, samples, times, at, end)
        if stop == at:
            stops.done[s] = at
            return SILENT
        moved = DriftOut(columns.distances[at:stop], crossings[: stop - at])
        stop = at + drifting.advance(samples[at:stop], stream.drift, fitted.drift, moved)
        columns.changes[at:stop] = newest
        judged = AlarmOut(
            columns.thresholds[at:stop],
            columns.ratios[at:stop],
            columns.anomalous[at:stop],
            columns.alarms[at:stop],
            columns.p_values[at:stop],
        )
        judge_scores(
            columns.scores[at:stop],
            columns.shares[at:stop],
            stream.alarm,
            fitted.alarm,
            fitted.tail_chances,
            judged,
        )
        why = DONE
        if not _follow(stream, columns, times, at, stop, end):
            why = OPENS
        if moved.crossings[stop - at - 1]:
            why |= CHANGE
        stops.done[s] = stop
        stops.since[s] = at
        if why != DONE:
            return why
        at = stop
    return DONE


@compiled
def _quiet_rows(
    stream: _Stream, fitted: _Fitted, samples: Floats, times: Ints, start: int, end: int
) -> int:
    """Return the first row at which an alarm by silence opens, grows or closes; `end` for none.

    The state of silence is that before this row: see `newnormal.alarms.silence.find_silence`.
    """
    C = samples.shape[1]
    most, longest = fitted.numbers[MOST_MISSING], fitted.numbers[LONGEST_SILENCE]
    counts, missing = stream.silence_counts, stream.missing
    stop = end
    for row in range(start, end):
        before, now = stream.silence_times[LAST_TIME], times[row]
        if before != NO_TIME and now != NO_TIME and (now - before) / 1e9 > longest:
            stop = row
            break
        is_any = False
        is_all = True
        for c in range(C):
            is_any = is_any or np.isnan(samples[row, c])
            is_all = is_all and np.isnan(samples[row, c])
        if is_any or counts[SILENCE_ANY]:
            if _is_news(stream, fitted, samples[row], is_all, most):
                stop = row
                break
            for c in range(C):
                missing[c] = missing[c] + 1 if np.isnan(samples[row, c]) else 0
            counts[SILENCE_ALL] = counts[SILENCE_ALL] + 1 if is_all else 0
            counts[SILENCE_ANY] = 1 if is_any else 0
        if now != NO_TIME:
            stream.silence_times[LAST_TIME] = now
    return stop


@compiled
def _is_news(
    stream: _Stream, fitted: _Fitted, sample: Floats, is_all: bool, most: float
) -> bool:
    """Whether an alarm by silence opens, grows or closes with this sample."""
    counts, missing = stream.silence_counts, stream.missing
    every = is_all and counts[SILENCE_ALL] + 1 > most
    any_known_gone = False
    any_new = False
    room = False
    for k in range(len(stream.silent)):
        room = room or stream.silent[k] < 0
    for c in range(len(sample)):
        gone = np.isnan(sample[c]) and missing[c] + 1 > most and (every or fitted.watched[c])
        known = False
        for k in range(len(stream.silent)):
            known = known or stream.silent[k] == c
        if counts[SILENCE_NUMBER] == 0:
            any_new = any_new or gone
        else:
            any_known_gone = any_known_gone or (gone and known)
            any_new = any_new or (gone and not known and room)
    return any_new or (counts[SILENCE_NUMBER] != 0 and not any_known_gone)


@compiled
def _follow(
    stream: _Stream, columns: Columns, times: Ints, start: int, stop: int, end: int
) -> bool:
    """Follow the alarm through rows; False where it opens, gets worse or closes there."""
    number = stream.log_counts[LOG_NUMBER]
    for row in range(start, stop):
        if columns.alarms[row] != number:
            return False
        if number and columns.scores[row] > stream.log_levels[PEAK_SCORE]:
            return False
    if number == 0:
        return True
    first = stream.step.counts[SEEN] - end  # the model has consumed the rows up to `end`
    for row in range(start, stop):
        if columns.anomalous[row] or columns.ratios[row] >= LOW_RATIO:
            stream.log_counts[LOG_END] = first + row
            stream.log_times[END_TIME] = times[row]
        for v in range(len(stream.log_votes)):
            if columns.votes[row, v] > stream.log_votes[v]:  # not so for NaN
                stream.log_votes[v] = columns.votes[row, v]
    return True


@compiled
def _is_quiet(
    stream: _Stream, fitted: _Fitted, shadow: int, newest: int, length: int
) -> bool:
    """Whether a review finds nothing: no change is open, and none can open."""
    if newest != 0 or shadow != 0:
        return False
    counts = stream.log_counts
    if counts[LOG_NEWEST] > stream.review_counts[LAST_ALARM]:
        reviews = (stream.step.counts[SEEN] - counts[LOG_START]) / length
        if counts[LOG_NUMBER] != 0 or reviews <= RECENT_REVIEWS:
            return False
    return _moves(stream, fitted) <= 1


@compiled
def _moves(stream: _Stream, fitted: _Fitted) -> float:
    """Return how far the weights have moved since they were accepted; 1 is the limit."""
    moved = min(drifting.weights_moved(stream.step.weights, fitted.weights), FARTHEST_WEIGHTS)
    return max(0.0, moved - stream.review_levels[MOVED]) / WEIGHTS_LIMIT


@compiled
def _review(stream: _Stream, fitted: _Fitted, base: int, at: Ints, dims: Dims) -> None:
    """Review a stream without alarm or change: keep what is normal; see `acceptance.review`."""
    drift = stream.drift
    stream.review_counts[REVIEWS] += 1
    drift.counts[CROSSED] = 0
    stream.review_levels[MOVES] = _moves(stream, fitted)
    is_warm = drift.counts[drifting.SEEN] >= WARM
    if is_warm:
        drifting.measure(drift, fitted.drift)
    if stream.log_counts[LOG_NUMBER] != 0:
        return
    k = STATE_LAST_QUIET
    C, J, V = dims.channels, dims.experts, dims.votes
    floats32(base + at[k], dims.weights)[:] = stream.step.weights
    floats2(base + at[k + 1], J, C)[:] = stream.own.levels
    floats(base + at[k + 2], 4 * C)[:] = drift.lows
    floats(base + at[k + 3], 4 * C)[:] = drift.highs
    floats(base + at[k + 4], KNOTS)[:] = stream.alarm.tail_levels
    floats(base + at[k + 5], 4)[:] = stream.alarm.tail_excess
    kept = floats(base + at[k + 6], 5)
    kept[0] = stream.alarm.levels[LOCATION]
    kept[1] = stream.alarm.levels[HEIGHT]
    kept[2] = stream.alarm.levels[START_HEIGHT]
    kept[3] = stream.alarm.levels[START_LOCATION]
    kept[4] = stream.review_levels[MOVED]
    accepted = stream.own.accepted
    floats2(base + at[k + 7], PLACES, C)[:] = accepted.shifts
    ints(base + at[k + 8], PLACES)[:] = accepted.used
    ints(base + at[k + 9], PLACES)[:] = accepted.at
    floats2(base + at[k + 10], PATTERNS, V)[:] = accepted.peaks
    floats2(base + at[k + 11], PATTERNS, C)[:] = accepted.channels
    ints(base + at[k + 12], 3)[:] = accepted.counts
    if is_warm:
        drift.start[:] = drift.position
        drift.jumps[:] = 0
        drift.counts[MARK] = drift.counts[drifting.SEEN]


@compiled
def _add_times(times: Ints, stream: _Stream) -> None:
    """Append the times of samples about to come: see `newnormal.core.times.SampleTimes`."""
    held, counts = stream.times, stream.times_counts
    L = len(held)
    for t in range(max(0, len(times) - L), len(times)):
        if counts[TIMES_HELD] < L:
            counts[TIMES_HELD] += 1
        if times[t] == NO_TIME and counts[TIMES_TIMED] == 0:
            continue
        for k in range(L - 1):
            held[k] = held[k + 1]
        held[L - 1] = times[t]
        if times[t] != NO_TIME:
            counts[TIMES_TIMED] = 1
            stream.last_time[0] = times[t]


# ---------------------------------------------------------------------- where the arrays are


@inlined
def _model(base: int, at: Ints, dims: Dims) -> tuple[StepState, CommitteeState]:
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
def _stream(base: int, at: Ints, dims: Dims) -> _Stream:
    C = dims.channels
    step, own = _model(base, at, dims)
    return _Stream(
        step,
        own,
        ints(base + at[21], dims.window),
        ints(base + at[22], 1),
        ints(base + at[23], 2),
        floats(base + at[24], 1),
        AlarmState(
            floats(base + at[25], 7),
            ints(base + at[26], 7),
            floats(base + at[27], RECENT),
            floats(base + at[28], C),
            floats(base + at[29], KNOTS),
            floats(base + at[30], 4),
        ),
        ints(base + at[31], 5),
        floats(base + at[32], 4),
        ints(base + at[33], 3),
        floats(base + at[34], dims.votes),
        ints(base + at[35], 4),
        ints(base + at[36], 2),
        ints(base + at[37], C),
        ints(base + at[38], 5),
        DriftState(
            floats(base + at[39], C),
            floats(base + at[40], C),
            floats(base + at[41], C),
            floats(base + at[42], C),
            floats(base + at[43], C),
            floats(base + at[44], 4 * C),
            floats(base + at[45], 4 * C),
            floats(base + at[46], C),
            floats(base + at[47], C),
            floats(base + at[48], C),
            floats(base + at[49], C),
            floats(base + at[50], 4 * C),
            floats(base + at[51], 4 * C),
            ints(base + at[52], 3),
        ),
        ints(base + at[53], 4),
        floats(base + at[54], 2),
        ints2(base + at[55], dims.changes, 7),
    )


STATE_LAST_QUIET = 56  # the position of its first array in STATE


@inlined
def _fitted(base: int, at: Ints, dims: Dims) -> _Fitted:
    C, J, V, E, K = dims.channels, dims.experts, dims.votes, dims.expert_votes, dims.rank
    numbers = floats(base + at[0], NUMBERS)
    members = MembersParams(
        floats32_2(base + at[16], C, PAST * C),
        floats32(base + at[17], C),
        floats32(base + at[18], C),
        floats32_2(base + at[19], C, C),
        floats32(base + at[20], BLOCKS * C),
        floats32_2(base + at[21], dims.windows_rank, BLOCKS * C),
        floats32_2(base + at[22], dims.shapes, BLOCKS * C),
        floats32_2(base + at[23], dims.bins, C),
        floats32_2(base + at[24], dims.bins, C),
        floats32_2(base + at[25], dims.vote_bins, V),
    )
    model = CommitteeParams(
        floats(base + at[4], J),
        floats2(base + at[5], J, C),
        floats(base + at[6], J),
        floats32(base + at[7], J),
        floats3(base + at[8], E, K, C),
        ints(base + at[9], E),
        ints(base + at[10], E),
        floats2(base + at[11], V, C),
        floats(base + at[12], V),
        floats(base + at[13], V),
        floats(base + at[14], V),
        ints(base + at[15], V),
        numbers[FLOOR],
        numbers[KEEP],
        int(numbers[REPORTED_EXPERT]),
        members,
        numbers[LEVEL_LIMIT],
    )
    alarm = AlarmParams(
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
    drift = DriftParams(
        floats(base + at[27], C),
        floats(base + at[28], C),
        floats(base + at[29], C),
        floats2(base + at[30], C, C),
        floats(base + at[31], 4 * C),
        floats2(base + at[32], dims.lags, 4 * C),
    )
    return _Fitted(
        numbers,
        floats(base + at[1], C),
        floats(base + at[2], C),
        floats32(base + at[3], dims.weights),
        model,
        alarm,
        floats(base + at[26], KNOTS),
        drift,
        bools(base + at[33], C),
    )
