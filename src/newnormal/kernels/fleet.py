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
from newnormal.kernels.compiled import compiled, copy, inlined, uncounted
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
    "FITTED_OFTEN",
    "NUMBERS",
    "OPENS",
    "REVIEW",
    "SHADOW",
    "SILENT",
    "STATE",
    "STATE_OFTEN",
    "Columns",
    "Dims",
    "Stops",
    "Streams",
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

# Of these, what not every sample touches.
_SELDOM = (
    "model.step.good",
    "model.own.members.means",  # a row in ten
    "model.own.accepted.shifts",
    "model.own.accepted.at",
    "model.own.accepted.peaks",
    "model.own.accepted.channels",
    "alarm.tail_levels",
    "log.times",
    "log.votes",
    "silence.channels",
    "drift.position",
    "drift.start",
    "drift.jumps",
    "drift.crossing",
    "drift.lows",
    "drift.highs",
    *STATE[STATE.index("last_quiet.weights") :],
    "weights",
    "tail_chances",
    "drift.centre",
    "drift.blend",
    "drift.margins",
    "drift.wanders",
    "model.members.rhythm_levels",
    "model.members.rhythm_spreads",
    "watched",
)
STATE_OFTEN = tuple(name for name in STATE if name not in _SELDOM)
FITTED_OFTEN = tuple(name for name in FITTED if name not in _SELDOM)

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


class Streams(NamedTuple):
    """Where the blocks of S streams are, and where in a block each array is."""

    states: Ints  # (S,) addresses
    fits: Ints  # (S,)
    shadows: Ints  # (S,) 0 without one
    state_at: Ints  # offsets, in the order of STATE
    fitted_at: Ints
    shadow_at: Ints
    state_lines: Ints  # the cache lines of a block that every sample touches
    fitted_lines: Ints


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
    columns: Columns,
    stops: Stops,
) -> None:
    """Consume the rows `first` to `last` of some of S streams, up to what is rare.

    `which` are the positions of those to go through. `stops.done` is where each goes on: its first
    row at the first call. `samples` (N, C) hold no infinity; `times` (N,) are in ns, NO_TIME where
    there are none.
    """
    most = 1
    for k in range(len(which)):
        s = which[k]
        length = int(floats(streams.fits[s] + streams.fitted_at[_NUMBERS], NUMBERS)[REVIEW_LENGTH])
        most = max(most, min(last[s] - first[s], length))
    lines = len(streams.state_lines) + len(streams.fitted_lines)
    work = blank_work(most, dims.experts, dims.window, dims.channels, widths, lines)
    crossings = np.empty(most, np.bool_)
    # An empty array that lies at C numbers of its own: see `committee.advance_in`.
    nothing = np.empty(dims.channels)[:0].reshape((0, 0, 0))
    for k in range(len(which)):
        s = which[k]
        base, at = streams.states[s], streams.state_at
        fit, fit_at = streams.fits[s], streams.fitted_at
        _ahead(which, k, streams, work.ahead)
        counts = ints(base + at[_STEP_COUNTS], 7)
        restored = counts[RESTORED]
        if stops.done[s] == first[s]:
            _add_times(times[first[s] : last[s]], base, at, dims)
        stops.why[s] = DONE
        while stops.done[s] < last[s] and stops.why[s] == DONE:
            start = stops.done[s]
            length = int(floats(fit + fit_at[_NUMBERS], NUMBERS)[REVIEW_LENGTH])
            reviews = ints(base + at[_REVIEW_COUNTS], 4)[REVIEWS]
            room = (reviews + 1) * length - counts[SEEN]
            end = min(start + room, last[s])
            stops.is_due[s] = end - start == room
            stops.consumed[s] = end
            if streams.shadows[s] != 0:
                _train_shadow(
                    streams.shadows[s],
                    streams.shadow_at,
                    floats(base + at[_LEARN_THRESHOLD], 1)[0],
                    fit,
                    fit_at,
                    dims,
                    widths,
                    work,
                    nothing,
                    samples[start:end],
                    phases[start:end],
                )
            out = StepOut(
                columns.scores[start:end],
                columns.anomalous[start:end],
                columns.expected[start:end],
                columns.shares[start:end],
            )
            votes = columns.votes[start:end]
            _consume(
                base,
                at,
                fit,
                fit_at,
                dims,
                widths,
                work,
                nothing,
                samples[start:end],
                phases[start:end],
                out,
                votes,
            )
            stops.why[s] = _judge(
                s, base, at, fit, fit_at, dims, crossings, samples, times, end, columns, stops
            )
            if stops.why[s] == DONE and stops.is_due[s]:
                if streams.shadows[s] == 0 and _is_quiet(base, at, fit, fit_at, dims, length):
                    _review(base, at, fit, fit_at, dims)
                else:
                    stops.why[s] = REVIEW
        stops.restored[s] += counts[RESTORED] - restored


@inlined
def _ahead(which: Ints, k: int, streams: Streams, ahead: Ints) -> None:
    """Write down what the stream after this one needs; of the last one, its own."""
    s = which[min(k + 1, len(which) - 1)]
    n = len(streams.state_lines)
    for i in range(n):
        ahead[i] = streams.states[s] + streams.state_lines[i]
    for i in range(len(streams.fitted_lines)):
        ahead[n + i] = streams.fits[s] + streams.fitted_lines[i]


@uncounted
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
    phases: Floats,
    out: StepOut,
    votes: Floats32,
) -> None:
    """Hand samples to the model; it learns nothing while a rejected change lasts."""
    changes = ints2(base + at[_CHANGES], dims.changes, 7)
    threshold = floats(base + at[_LEARN_THRESHOLD], 1)[0]
    numbers = floats(fit + fit_at[_NUMBERS], NUMBERS)
    lr = np.float32(numbers[LR])
    for row in range(dims.changes):
        if changes[row, CHANGE_STATE] == IS_REJECTED:
            lr = np.float32(0)
    step, own = _model(base, at, dims)
    params = _step_params(fit, fit_at, dims, threshold, lr)
    model = _committee_params(fit, fit_at, dims, floats(fit + fit_at[_LEARN_BELOW], dims.experts))
    _begin(samples[0], step, own, params)
    advance_in(work, samples, phases, False, widths, step, own, params, model, out, nothing, votes)
    copy(own.levels[model.reported_expert], step.trend)


@compiled
def _train_shadow(
    base: int,
    at: Ints,
    learn_threshold: float,
    fit: int,
    fit_at: Ints,
    dims: Dims,
    widths: Ints,
    work: CommitteeWork,
    nothing: Floats,
    samples: Floats,
    phases: Floats,
) -> None:
    """Hand a shadow what the running model is about to consume; see `TimedAcceptance`."""
    counts = ints(base + at[_SHADOW_COUNTS], 4)
    if counts[SHADOW_TRAINS] == 0:
        return
    T = len(samples)
    numbers = floats(fit + fit_at[_NUMBERS], NUMBERS)
    step, own = _model(base, at, dims)
    eager = numbers[EAGER] * learn_threshold
    params = _step_params(fit, fit_at, dims, eager, np.float32(numbers[LR]))
    below = numbers[EAGER] * floats(fit + fit_at[_LEARN_BELOW], dims.experts)
    model = _committee_params(fit, fit_at, dims, below)
    out = StepOut(
        np.empty(T),
        np.empty(T, np.bool_),
        np.empty((T, dims.channels)),
        np.empty((T, dims.channels), np.float32),
    )
    _begin(samples[0], step, own, params)
    votes = np.empty((T, dims.votes), np.float32)
    advance_in(work, samples, phases, False, widths, step, own, params, model, out, nothing, votes)
    copy(own.levels[model.reported_expert], step.trend)
    scores = floats(base + at[_SHADOW_SCORES], dims.kept_scores)
    for t in range(T):
        if not np.isnan(out.scores[t]):
            scores[counts[SHADOW_NEXT]] = out.scores[t]
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


@uncounted
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
    changes = ints2(base + at[_CHANGES], dims.changes, 7)
    newest = 0
    for row in range(dims.changes):
        newest = max(newest, changes[row, CHANGE_NUMBER])
    drift, drift_params = _drift(base, at, dims), _drift_params(fit, fit_at, dims)
    alarm, alarm_params = _alarm(base, at, dims), _alarm_params(fit, fit_at)
    chances = floats(fit + fit_at[_TAIL_CHANCES], KNOTS)
    start = stops.done[s]
    while start < end:
        # A channel crosses the limit at the last of these rows if at all: silence is not to be
        # judged beyond it.
        stop = min(end, start + drifting.EVERY - drift.counts[drifting.SEEN] % drifting.EVERY)
        stop = _quiet_rows(base, at, fit, fit_at, dims, samples, times, start, stop)
        if stop == start:
            return SILENT
        moved = DriftOut(columns.distances[start:stop], crossings)
        stop = start + drifting.advance(samples[start:stop], drift, drift_params, moved)
        columns.changes[start:stop] = newest
        judged = AlarmOut(
            columns.thresholds[start:stop],
            columns.ratios[start:stop],
            columns.anomalous[start:stop],
            columns.alarms[start:stop],
            columns.p_values[start:stop],
        )
        scores, shares = columns.scores[start:stop], columns.shares[start:stop]
        judge_scores(scores, shares, alarm, alarm_params, chances, judged)
        why = DONE
        if not _follow(base, at, dims, columns, times, start, stop, end):
            why = OPENS
        if crossings[stop - start - 1]:
            why |= CHANGE
        stops.done[s] = stop
        stops.since[s] = start
        if why != DONE:
            return why
        start = stop
    return DONE


@uncounted
def _quiet_rows(
    base: int,
    at: Ints,
    fit: int,
    fit_at: Ints,
    dims: Dims,
    samples: Floats,
    times: Ints,
    start: int,
    end: int,
) -> int:
    """Return the first row at which an alarm by silence opens, grows or closes; `end` for none.

    The state of silence is that before this row: see `newnormal.alarms.silence.find_silence`.
    """
    C = dims.channels
    counts, newest = ints(base + at[_SILENCE_COUNTS], 4), ints(base + at[_SILENCE_TIMES], 2)
    missing = ints(base + at[_MISSING], C)
    numbers = floats(fit + fit_at[_NUMBERS], NUMBERS)
    most, longest = numbers[MOST_MISSING], numbers[LONGEST_SILENCE]
    for row in range(start, end):
        before, now = newest[LAST_TIME], times[row]
        if before != NO_TIME and now != NO_TIME and (now - before) / 1e9 > longest:
            return row
        absent = 0
        for c in range(C):
            absent += np.isnan(samples[row, c])
        if absent or counts[SILENCE_ANY]:
            channels = ints(base + at[_SILENT], 5)
            watched = bools(fit + fit_at[_WATCHED], C)
            if _is_news(samples[row], counts, missing, channels, watched, most):
                return row
            for c in range(C):
                missing[c] = missing[c] + 1 if np.isnan(samples[row, c]) else 0
            counts[SILENCE_ALL] = counts[SILENCE_ALL] + 1 if absent == C else 0
            counts[SILENCE_ANY] = 1 if absent else 0
        if now != NO_TIME:
            newest[LAST_TIME] = now
    return end


@uncounted
def _is_news(
    sample: Floats, counts: Ints, missing: Ints, channels: Ints, watched: Bools, most: float
) -> bool:
    """Whether an alarm by silence opens, grows or closes with this sample."""
    C = len(sample)
    every = True
    for c in range(C):
        every = every and np.isnan(sample[c])
    every = every and counts[SILENCE_ALL] + 1 > most
    is_open = counts[SILENCE_NUMBER] != 0
    is_room = not is_open
    for k in range(len(channels)):
        is_room = is_room or channels[k] < 0
    stays = False
    grows = False
    for c in range(C):
        is_gone = np.isnan(sample[c]) and missing[c] + 1 > most and (every or watched[c])
        is_known = False
        for k in range(len(channels)):
            is_known = is_known or (is_open and channels[k] == c)
        stays = stays or (is_gone and is_known)
        grows = grows or (is_gone and not is_known and is_room)
    return grows or (is_open and not stays)


@uncounted
def _follow(
    base: int,
    at: Ints,
    dims: Dims,
    columns: Columns,
    times: Ints,
    start: int,
    stop: int,
    end: int,
) -> bool:
    """Follow the alarm through rows; False where it opens, gets worse or closes there.

    The model has consumed the rows up to `end`.
    """
    counts = ints(base + at[_LOG_COUNTS], 5)
    number = counts[LOG_NUMBER]
    peak = floats(base + at[_LOG_LEVELS], 4)[PEAK_SCORE]
    for row in range(start, stop):
        if columns.alarms[row] != number or (number and columns.scores[row] > peak):
            return False
    if number == 0:
        return True
    log_times, highest = ints(base + at[_LOG_TIMES], 3), floats(base + at[_LOG_VOTES], dims.votes)
    seen = ints(base + at[_STEP_COUNTS], 7)[SEEN]
    for row in range(start, stop):
        if columns.anomalous[row] or columns.ratios[row] >= LOW_RATIO:
            counts[LOG_END] = seen - end + row
            log_times[END_TIME] = times[row]
        for v in range(dims.votes):
            if columns.votes[row, v] > highest[v]:  # not so for NaN
                highest[v] = columns.votes[row, v]
    return True


@uncounted
def _is_quiet(base: int, at: Ints, fit: int, fit_at: Ints, dims: Dims, length: int) -> bool:
    """Whether a review finds nothing: no change is open, and none can open."""
    changes = ints2(base + at[_CHANGES], dims.changes, 7)
    for row in range(dims.changes):
        if changes[row, CHANGE_NUMBER] != 0:
            return False
    counts = ints(base + at[_LOG_COUNTS], 5)
    if counts[LOG_NEWEST] > ints(base + at[_REVIEW_COUNTS], 4)[LAST_ALARM]:
        reviews = (ints(base + at[_STEP_COUNTS], 7)[SEEN] - counts[LOG_START]) / length
        if counts[LOG_NUMBER] != 0 or reviews <= RECENT_REVIEWS:
            return False
    return _moves(base, at, fit, fit_at, dims) <= 1


@uncounted
def _moves(base: int, at: Ints, fit: int, fit_at: Ints, dims: Dims) -> float:
    """Return how far the weights have moved since they were accepted; 1 is the limit."""
    weights = floats32(base + at[_WEIGHTS], dims.weights)
    fitted = floats32(fit + fit_at[_FITTED_WEIGHTS], dims.weights)
    moved = min(drifting.weights_moved(weights, fitted), FARTHEST_WEIGHTS)
    return max(0.0, moved - floats(base + at[_REVIEW_LEVELS], 2)[MOVED]) / WEIGHTS_LIMIT


@uncounted
def _review(base: int, at: Ints, fit: int, fit_at: Ints, dims: Dims) -> None:
    """Review a stream without alarm or change: keep what is normal; see `acceptance.review`."""
    drift = _drift(base, at, dims)
    levels = floats(base + at[_REVIEW_LEVELS], 2)
    ints(base + at[_REVIEW_COUNTS], 4)[REVIEWS] += 1
    drift.counts[CROSSED] = 0
    levels[MOVES] = _moves(base, at, fit, fit_at, dims)
    is_warm = drift.counts[drifting.SEEN] >= WARM
    if is_warm:
        drifting.measure(drift, _drift_params(fit, fit_at, dims))
    if ints(base + at[_LOG_COUNTS], 5)[LOG_NUMBER] != 0:
        return
    k = _LAST_QUIET
    C, J, V = dims.channels, dims.experts, dims.votes
    step, own = _model(base, at, dims)
    alarm = _alarm(base, at, dims)
    copy(step.weights, floats32(base + at[k], dims.weights))
    copy(own.levels.reshape(J * C), floats(base + at[k + 1], J * C))
    copy(drift.lows, floats(base + at[k + 2], 4 * C))
    copy(drift.highs, floats(base + at[k + 3], 4 * C))
    copy(alarm.tail_levels, floats(base + at[k + 4], KNOTS))
    copy(alarm.tail_excess, floats(base + at[k + 5], 4))
    kept = floats(base + at[k + 6], 5)
    kept[0] = alarm.levels[LOCATION]
    kept[1] = alarm.levels[HEIGHT]
    kept[2] = alarm.levels[START_HEIGHT]
    kept[3] = alarm.levels[START_LOCATION]
    kept[4] = levels[MOVED]
    copy(own.accepted.shifts.reshape(PLACES * C), floats(base + at[k + 7], PLACES * C))
    copy(own.accepted.used, ints(base + at[k + 8], PLACES))
    copy(own.accepted.at, ints(base + at[k + 9], PLACES))
    copy(own.accepted.peaks.reshape(PATTERNS * V), floats(base + at[k + 10], PATTERNS * V))
    copy(own.accepted.channels.reshape(PATTERNS * C), floats(base + at[k + 11], PATTERNS * C))
    copy(own.accepted.counts, ints(base + at[k + 12], 3))
    if is_warm:
        copy(drift.position, drift.start)
        drift.jumps[:] = 0
        drift.counts[MARK] = drift.counts[drifting.SEEN]


@uncounted
def _add_times(times: Ints, base: int, at: Ints, dims: Dims) -> None:
    """Append the times of samples about to come: see `newnormal.core.times.SampleTimes`."""
    L = dims.window
    held, newest = ints(base + at[_TIMES], L), ints(base + at[_LAST_TIME], 1)
    counts = ints(base + at[_TIMES_COUNTS], 2)
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
            newest[0] = times[t]


# ---------------------------------------------------------------------- where the arrays are

# Positions in STATE, SHADOW and FITTED.
_WEIGHTS = STATE.index("model.step.weights")
_STEP_COUNTS = STATE.index("model.step.counts")
_TIMES = STATE.index("times.times")
_LAST_TIME = STATE.index("times.last")
_TIMES_COUNTS = STATE.index("times.counts")
_LEARN_THRESHOLD = STATE.index("learn_threshold")
_ALARM = STATE.index("alarm.levels")
_LOG_COUNTS = STATE.index("log.counts")
_LOG_LEVELS = STATE.index("log.levels")
_LOG_TIMES = STATE.index("log.times")
_LOG_VOTES = STATE.index("log.votes")
_SILENCE_COUNTS = STATE.index("silence.counts")
_SILENCE_TIMES = STATE.index("silence.times")
_MISSING = STATE.index("silence.missing")
_SILENT = STATE.index("silence.channels")
_DRIFT = STATE.index("drift.levels")
_REVIEW_COUNTS = STATE.index("review.counts")
_REVIEW_LEVELS = STATE.index("review.levels")
_CHANGES = STATE.index("changes.counts")
_LAST_QUIET = STATE.index("last_quiet.weights")
_SHADOW_SCORES = SHADOW.index("scores")
_SHADOW_COUNTS = SHADOW.index("counts")
_NUMBERS = FITTED.index("numbers")
_MEAN = FITTED.index("mean")
_FITTED_WEIGHTS = FITTED.index("weights")
_MODEL = FITTED.index("model.decays")
_LEARN_BELOW = FITTED.index("model.learn_below")
_MEMBERS = FITTED.index("model.members.forecast")
_TAIL_CHANCES = FITTED.index("tail_chances")
_DRIFT_PARAMS = FITTED.index("drift.mean")
_WATCHED = FITTED.index("watched")


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
def _alarm(base: int, at: Ints, dims: Dims) -> AlarmState:
    k = _ALARM
    return AlarmState(
        floats(base + at[k], 7),
        ints(base + at[k + 1], 7),
        floats(base + at[k + 2], RECENT),
        floats(base + at[k + 3], dims.channels),
        floats(base + at[k + 4], KNOTS),
        floats(base + at[k + 5], 4),
    )


@inlined
def _drift(base: int, at: Ints, dims: Dims) -> DriftState:
    k, C = _DRIFT, dims.channels
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
def _step_params(fit: int, at: Ints, dims: Dims, threshold: float, lr: np.float32) -> StepParams:
    k, C = _MEAN, dims.channels
    numbers = floats(fit + at[_NUMBERS], NUMBERS)
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
def _committee_params(fit: int, at: Ints, dims: Dims, learn_below: Floats) -> CommitteeParams:
    C, J, V, E, K = dims.channels, dims.experts, dims.votes, dims.expert_votes, dims.rank
    numbers = floats(fit + at[_NUMBERS], NUMBERS)
    k, m = _MODEL, _MEMBERS
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
def _alarm_params(fit: int, at: Ints) -> AlarmParams:
    numbers = floats(fit + at[_NUMBERS], NUMBERS)
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
def _drift_params(fit: int, at: Ints, dims: Dims) -> DriftParams:
    k, C = _DRIFT_PARAMS, dims.channels
    return DriftParams(
        floats(fit + at[k], C),
        floats(fit + at[k + 1], C),
        floats(fit + at[k + 2], C),
        floats2(fit + at[k + 3], C, C),
        floats(fit + at[k + 4], 4 * C),
        floats2(fit + at[k + 5], dims.lags, 4 * C),
    )
