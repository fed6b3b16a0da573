"""Each channel judged by itself: what is expected of it, its range, and what counts as missing.

The expectation of a channel never has a part of the value that it judges. It is the rhythm's level
at this phase, plus a slow level of the channel, plus a linear forecast of what is left from its own
last PAST samples. It is also compared with the level alone: what goes away slowly is forecast well.
And its smoothed distance from the level has a limit: a fault that stays may be no farther than
single samples are. A value beyond its range is hidden: for all that follows it is replaced by its
expectation, so that no fault enters a level, a forecast or a member of the committee. While a
channel is hidden, or missing, its expectation also follows the other channels, by what they leave
of their own forecasts now, and its range grows with the time for which it has been hidden, as on
history. A channel never makes another one look faulty.

The order within a sample is a contract:

1. every channel is forecast from its own past, over a gap too, and compared with its range as it
   was; where it is beyond, what its fault moved before is taken back;
2. what is beyond it, hidden or missing is estimated from the channels that are not;
3. it is judged again against that; a value near a level that was accepted before, or on the way
   to it, is taken for it;
4. episodes open, go on or close: a channel's episode is over after GAP quiet samples. One that was
   hardly beyond its limit raises the limits, its own most; they come back;
5. levels and past follow what is not hidden, for the next sample.

Scaled values are in history's standard deviations. Shapes: T samples, C channels, B bins.

One module because the order within a sample reads top to bottom, with the arrays it works on.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from newnormal.kernels.compiled import compiled, inlined, inner, uncounted
from newnormal.kernels.decision import (
    AGE,
    CLOSES,
    COUNTED,
    GAP,
    JUST_BEYOND,
    OPENS,
    PAUSE,
    QUIET,
    RAISE,
    RAISED,
    follow,
    is_beyond,
)
from newnormal.kernels.linking import linked
from newnormal.kernels.step import LARGEST, copy
from newnormal.types import NO_TIME, Floats, Floats32, Ints
from newnormal.types.tables import (
    ABOVE,
    ANY,
    BINARY,
    KNOWN,
    LEVEL,
    LEVEL_OR_NAN,
    NOT_NEGATIVE,
    OBSERVED,
    SHIFT,
    Array,
    Counter,
    Scalar,
    counters,
    within,
)

PAST = 5  # samples that a forecast takes
RECENT = 32  # values kept, of which a change takes the median
HORIZONS = 8  # at which a range is known: hidden for 1, 2, 4, ..., 128 samples
LONGEST = 1 << (HORIZONS - 1)
# As if hidden for so long: nothing is known of the newest values. For PAST samples, after which
# there is a forecast again, its range is that of the distance from the level.
UNKNOWN = 4 * LONGEST
HOMES = 4  # levels of a channel that were accepted
_LOW_RATIO = 0.75  # of its limit, within which a channel is quiet again
_KEEP_STEP = 0.5 ** (1 / 12)  # of the mean step at each sample
_KEEP_LASTING = 0.5 ** (1 / 4)  # of the smoothed distance from the level, at each sample
# Of the smoothed score, at each sample: a half-life of two. With it AUPRC is .423 and .413 on 20
# and 36 real streams (.419 and .411 without), .314 on NAB (.303).
_KEEP_SCORE = 0.5 ** (1 / 2)
_LEAST_SCORE = 1e-300
_RANKED = 4.0  # times its least limit, the unit in which a channel's distance ranks a sample
_DRIFT = 0.1  # of its limit, what a forecast may leave at each sample before a fault begins
_SWEEPS = 6  # over the hidden channels, until their estimates agree
_FARTHEST = 2e6  # scaled values beyond are taken for this, as drift does

_RAISE_OTHERS, _RAISED_OTHERS = 0.1, 1.5  # what an episode adds to the limits of other channels
WIDEST = 100.0  # of a channel where history never was, which is _ROUGH there
_ROUGH = 1.5  # times its steps on history
_DAYS = 2.0  # in which a limit comes back from one raise
# Samples for which a channel may stand on the way to an accepted level, of the slowest way, and
# what a return without arriving counts.
_WAY_FREE, _WAY_SLOWEST, _WAY_RETURN = 10, 48, 3

# Positions in a row of ChannelState.counts, after those of its episode.
HIDDEN = 7  # samples for which it has been hidden or missing; falls quickly once it is back
OUTSIDE = 8  # newest samples outside all values that were normal
WAY = 9  # samples on the way to an accepted level; a return without arriving counts more
STEADY = 10  # newest samples without a gap, an episode or another level
SLOW = 11  # 1: the episode began beyond the limit of the distance from the level
LASTING = 12  # 1: it began beyond the limit of the smoothed distance
COUNTS = counters(
    **COUNTED,
    hidden=HIDDEN,
    outside=OUTSIDE,
    way=WAY,
    steady=STEADY,
    slow=Counter(SLOW, 0, 1),
    lasting=Counter(LASTING, 0, 1),
)
LEAST_LIMIT = 4  # position in ChannelParams.tails
# Positions in ChannelState.ring.
NEXT = 0  # the row of `recent` that comes next
SEEN = 1  # samples seen
_RING = counters(next=Counter(NEXT, 0, RECENT - 1), seen=SEEN)


class HomeState(NamedTuple):
    """What was accepted of the channels as normal, beside where they are."""

    # Levels: of the newest open change the one that it left, then accepted ones; NaN for none.
    # Of what is kept to go back to, the first is the level of then.
    homes: Annotated[Floats, Array(HOMES, "C", range=LEVEL_OR_NAN, first=np.nan, seldom=True)]
    lows: Annotated[Floats, Array("C", range=KNOWN)]  # the least and the largest normal value
    highs: Annotated[Floats, Array("C", range=KNOWN)]


class ChannelState(NamedTuple):
    """What changes while a stream runs; values are scaled, without the rhythm's level."""

    levels: Annotated[Floats, Array("C", range=LEVEL)]  # the slow level of what is not hidden
    past: Annotated[Floats, Array(PAST, "C", range=SHIFT)]  # minus that level, the newest first
    recent: Annotated[Floats32, Array(RECENT, "C", range=LEVEL)]  # as observed, in a ring
    raised: Annotated[Floats, Array("C", range=ABOVE, first=1.0)]  # of its start, the limit
    # The episode's highest ratio, of the distance by which it began
    peaks: Annotated[Floats, Array("C", range=NOT_NEGATIVE)]
    steps: Annotated[Floats, Array("C", range=within(0, 1e9))]  # the mean step of what is observed
    lasting: Annotated[Floats, Array("C", range=SHIFT)]  # the smoothed distance from the level
    last: Annotated[Floats, Array("C", range=LEVEL)]  # the newest value observed
    before: Annotated[Floats, Array("C", range=LEVEL)]  # the median before the newest episode
    shifts: Annotated[Floats, Array("C", range=SHIFT)]  # from the accepted level, of open changes
    ways: Annotated[Floats, Array("C", range=NOT_NEGATIVE)]  # how far the way to one began
    normal: HomeState
    counts: Annotated[Ints, COUNTS.of_each("C")]
    ring: Annotated[Ints, _RING]
    time: Annotated[Ints, Array(1, range=ANY, first=NO_TIME)]  # of the newest sample, ns
    # The smoothed logarithm of what ranks samples; NaN before the first
    smooth: Annotated[Floats, Array(1, range=OBSERVED, first=np.nan)]


class ChannelParams(NamedTuple):
    """What fitting found; see `newnormal.models.channels`."""

    lags: Annotated[
        Floats, Array("C", PAST, range=within(-100, 100))
    ]  # of the forecast, the newest first
    # From what the other channels leave of their forecasts to what this one does
    others: Annotated[Floats32, Array("C", "C", range=within(-1e6, 1e6), seldom=True)]
    limits: Annotated[Floats, Array("C", range=ABOVE)]  # of the distance; infinity: none
    slow_limits: Annotated[Floats, Array("C", range=ABOVE)]  # of the distance from the level
    lasting_limits: Annotated[Floats, Array("C", range=ABOVE)]  # of that, smoothed
    # The tails of all three on history: start, peaks a sample, scale, shape, the least limit
    tails: Annotated[Floats, Array(3, "C", 5, range=NOT_NEGATIVE, seldom=True)]
    # Half the range of a channel that is hidden for 1, 2, 4, ... samples
    widths: Annotated[Floats, Array("C", HORIZONS, range=NOT_NEGATIVE, seldom=True)]
    lows: Annotated[Floats, Array("C", range=KNOWN, seldom=True)]  # history's least and largest
    highs: Annotated[Floats, Array("C", range=KNOWN, seldom=True)]
    # The least and the largest level on history, without the rhythm
    low_levels: Annotated[Floats, Array("C", range=KNOWN, seldom=True)]
    high_levels: Annotated[Floats, Array("C", range=KNOWN, seldom=True)]
    steps: Annotated[Floats, Array("C", range=ABOVE)]  # the mean step on history
    rhythmic: Annotated[Ints, Array("C", range=BINARY)]  # 1: the rhythm's level is subtracted
    # 1: a flag or a command, which has no limit of its own
    flags: Annotated[Ints, Array("C", range=BINARY)]
    keep: Annotated[float, Scalar(0, 1)]  # share of its level that a channel keeps at each sample
    day: Annotated[float, Scalar(1, 1e300)]  # samples
    period: Annotated[float, Scalar(0, 1e300)]  # ns; 0 where it is not known


class ChannelOut(NamedTuple):
    """What is known of each sample: a row a sample."""

    expected: Floats  # (T, C) in the user's units, as the next two
    lows: Floats  # (T, C) the range
    highs: Floats  # (T, C)
    ratios: Floats32  # (T, C) distance from the expectation in units of the limit; 0 where missing
    clean: Floats  # (T, C) scaled, what is hidden or missing replaced by its expectation
    hidden: Ints  # (T, C) 1 where it is
    paces: Floats32  # (T, C) how many times its usual size the mean step is
    open: Ints  # (T,) how many episodes are open
    # (T,) mean of the three largest distances from what was accepted, in units of _RANKED least
    # limits: no limit on alarms has a part in it. 0 with fewer channels, where it costs: AUPRC .28
    # instead of .30 on NAB's 26 streams
    ranks: Floats


class ChannelWork(NamedTuple):
    """Working memory; what it holds before is not read."""

    forecast: Floats  # (C,)
    left: Floats  # (C,) what is observed minus the forecast; of what is hidden, estimated
    width: Floats  # (C,)
    base: Floats  # (C,) the rhythm's level
    out: Ints  # (C,) 1 where the value is not to be used
    sorted: Floats  # (RECENT,)
    past: Floats  # (PAST,)


@compiled
def blank_work(channels: int) -> ChannelWork:
    """Return working memory."""
    return ChannelWork(
        np.empty(channels),
        np.empty(channels),
        np.empty(channels),
        np.empty(channels),
        np.empty(channels, np.int64),
        np.empty(RECENT),
        np.empty(PAST),
    )


@uncounted
def advance(
    work: ChannelWork,
    samples: Floats,
    times: Ints,
    phases: Floats,
    state: ChannelState,
    params: ChannelParams,
    mean: Floats,
    scale: Floats,
    rhythm: Floats32,
    out: ChannelOut,
) -> None:
    """Judge samples (T, C), NaN where missing, and follow them.

    `times` (T,) are in ns, NO_TIME where not known; `rhythm` (B, C) are its levels.
    """
    T, C = samples.shape
    for t in range(T):
        if state.ring[SEEN] == 0:
            _begin(samples[t], phases[t], state, params, mean, scale, rhythm)
        state.ring[SEEN] += 1
        _skip(times[t], state, params)
        anything = _forecast(samples[t], phases[t], state, params, mean, scale, rhythm, work)
        if anything:
            _estimate(params.others, work)
        top1 = top2 = top3 = 0.0
        count = 0
        for c in range(C):
            z = _scaled(samples[t, c], mean[c], scale[c])
            rank = _judge(c, t, z, state, params, work, out)
            out.expected[t, c] = out.expected[t, c] * scale[c] + mean[c]
            out.lows[t, c] = out.lows[t, c] * scale[c] + mean[c]
            out.highs[t, c] = out.highs[t, c] * scale[c] + mean[c]
            count += state.counts[c, AGE] > 0
            if rank > top1:
                top1, top2, top3 = rank, top1, top2
            elif rank > top2:
                top2, top3 = rank, top2
            elif rank > top3:
                top3 = rank
        state.ring[NEXT] = (state.ring[NEXT] + 1) % RECENT
        out.open[t] = count
        out.ranks[t] = (top1 + top2 + top3) / 3 if C >= 3 else 0.0


linked_advance = linked(advance)


@uncounted
def rank(observed: Floats, ranks: Floats, smooth: Floats, scores: Floats) -> None:
    """Write the scores of rows (T,): what ranks them.

    It is the score of the values as observed, times one more than `ranks`, how far channels are out
    by themselves; or its smoothed value where that is higher: a fault lasts.
    """
    for t in range(len(observed)):
        score = min(observed[t] * (1 + ranks[t]), LARGEST)
        if not np.isnan(score):
            level = np.log(max(score, _LEAST_SCORE))
            before = level if np.isnan(smooth[0]) else smooth[0]
            smooth[0] = _KEEP_SCORE * before + (1 - _KEEP_SCORE) * level
            if smooth[0] > level:
                score = np.exp(smooth[0])
        scores[t] = score


@compiled
def judge(
    samples: Floats,
    times: Ints,
    phases: Floats,
    state: ChannelState,
    params: ChannelParams,
    mean: Floats,
    scale: Floats,
    rhythm: Floats32,
    out: ChannelOut,
) -> None:
    """Do what `advance` does, in working memory of its own."""
    work = blank_work(samples.shape[1])
    advance(work, samples, times, phases, state, params, mean, scale, rhythm, out)


@inlined
def _scaled(x: float, mean: float, scale: float) -> float:
    """Return a value in history's standard deviations, within ±_FARTHEST; NaN where missing."""
    z = (x - mean) / scale
    z = _FARTHEST if z > _FARTHEST else z
    return -_FARTHEST if z < -_FARTHEST else z


@inlined
def rhythm_level(phase: float, rhythm: Floats32, c: int) -> float:
    """Return the rhythm's level of a channel, interpolated between bins; NaN without a phase."""
    if np.isnan(phase):
        return np.nan
    B = len(rhythm)
    low = int(phase) % B
    part = phase - np.floor(phase)
    return (1 - part) * rhythm[low, c] + part * rhythm[(low + 1) % B, c]


@linked  # compiled into the loop it doubles the time of a sample
@inner
def _begin(
    sample: Floats,
    phase: float,
    state: ChannelState,
    params: ChannelParams,
    mean: Floats,
    scale: Floats,
    rhythm: Floats32,
) -> None:
    """Begin each level at the first sample, as far as history had such a level."""
    for c in range(len(sample)):
        z = _scaled(sample[c], mean[c], scale[c])
        base = rhythm_level(phase, rhythm, c) if params.rhythmic[c] else 0.0
        level = 0.0 if np.isnan(z - base) else z - base
        level = min(max(level, params.low_levels[c]), params.high_levels[c])
        state.last[c] = 0.0 if np.isnan(z) else min(max(z, params.lows[c]), params.highs[c])
        state.levels[c] = state.before[c] = level
        state.steps[c] = params.steps[c]
        state.counts[c, HIDDEN] = UNKNOWN
        for k in range(RECENT):
            state.recent[k, c] = level


@inner
def _skip(time: int, state: ChannelState, params: ChannelParams) -> None:
    """Take samples that did not come for missing ones: the forecast goes on over a gap."""
    before = state.time[0]
    if time != NO_TIME:
        state.time[0] = time
    if before == NO_TIME or time == NO_TIME or params.period <= 0:
        return
    skipped = int(min((time - before) / params.period - 0.5, UNKNOWN))
    if skipped < 1:
        return
    for c in range(len(state.levels)):
        hidden = state.counts[c, HIDDEN] + skipped
        state.counts[c, HIDDEN] = UNKNOWN if hidden > LONGEST else hidden
        state.counts[c, STEADY] = 0
        for _ in range(min(skipped, LONGEST)):
            _go_on(params.lags[c], state.past[:, c])


@inner
def _go_on(lags: Floats, past: Floats) -> None:
    """Put the forecast of the next sample into the newest ones, minus their level."""
    total = 0.0
    for k in range(PAST):
        total += lags[k] * past[k]
    for k in range(PAST - 1, 0, -1):
        past[k] = past[k - 1]
    past[0] = total


@inlined
def _width_hidden(widths: Floats, slow: float, hidden: int) -> float:
    """Return half the range of a channel that has been hidden for so many samples."""
    j = 0
    while j < HORIZONS - 1 and (1 << j) < hidden:
        j += 1
    return max(widths[j], slow) if hidden > LONGEST else widths[j]


@inner
def _forecast(
    sample: Floats,
    phase: float,
    state: ChannelState,
    params: ChannelParams,
    mean: Floats,
    scale: Floats,
    rhythm: Floats32,
    work: ChannelWork,
) -> bool:
    """Compare each channel with its own forecast; return whether any is not to be used."""
    anything = False
    for c in range(len(sample)):
        base = rhythm_level(phase, rhythm, c) if params.rhythmic[c] else 0.0
        work.base[c] = base
        total = state.levels[c]
        for k in range(PAST):
            total += params.lags[c, k] * state.past[k, c]
        work.forecast[c] = total
        counts = state.counts[c]
        width = params.limits[c] * state.raised[c]
        if counts[AGE] > 0:
            width *= _LOW_RATIO
        hidden = counts[HIDDEN]
        if hidden > 0:
            width = max(width, _width_hidden(params.widths[c], params.slow_limits[c], hidden))
        counts[SLOW] *= counts[AGE] > 0
        counts[LASTING] *= counts[AGE] > 0
        usual = params.widths[c, HORIZONS - 1]
        work.width[c] = width = usual if counts[LASTING] else width
        y = _scaled(sample[c], mean[c], scale[c]) - base
        left = y - total
        away = y - state.levels[c]
        if not np.isnan(away):
            state.lasting[c] = lasting_after(state.lasting[c], away, usual)
        is_out = np.isnan(left) or counts[AGE] > 0
        if not is_out and is_beyond(abs(left) / width):
            is_out = not _rewind(c, y, -left, True, state, params, work)
            if is_out:
                _rewind(c, y, left, False, state, params, work)
            total = work.forecast[c]
            left = y - total
        elif not is_out and hidden == 0:
            # What leaves its level slowly is forecast well, and what stays away by less than single
            # samples go is no farther than they are: both are faults all the same.
            slow = params.slow_limits[c] * state.raised[c]
            limit = params.lasting_limits[c] * state.raised[c]
            is_slow = is_beyond(abs(away) / slow)
            lasts = is_beyond(abs(state.lasting[c]) / limit) and away * state.lasting[c] > 0
            if is_slow or (lasts and is_beyond(abs(away) / usual)):
                is_out = True
                counts[SLOW] = is_slow
                if not _rewind(c, y, away, False, state, params, work):
                    work.forecast[c] = state.levels[c]
                    work.width[c] = slow if is_slow else usual
                    counts[HIDDEN], counts[LASTING] = LONGEST, not is_slow
                    for k in range(PAST):
                        state.past[k, c] = 0.0
        work.out[c] = 1 if is_out else 0
        work.left[c] = 0.0 if is_out else left
        anything = anything or is_out
    return anything


@inlined
def lasting_after(lasting: float, away: float, usual: float) -> float:
    """Return the smoothed distance from the level, after one that counts as `usual` at most."""
    away = min(max(away, -usual), usual)
    return _KEEP_LASTING * lasting + (1 - _KEEP_LASTING) * away


@inner
def _rewind(
    c: int,
    y: float,
    side: float,
    is_back: bool,
    state: ChannelState,
    params: ChannelParams,
    work: ChannelWork,
) -> bool:
    """Take back what a fault moved before it was beyond a limit; return whether that was anything.

    It began where the sum of what forecasts left, towards the fault's side and less _DRIFT of the
    limit each, is highest, if that is the limit or more. From there on its values count as missing.
    `is_back`: the fault was never beyond a limit, and this value is where it was before.
    """
    counts, recent, lags, past = state.counts[c], state.recent, params.lags[c], work.past
    most = min(RECENT - PAST - 1, counts[STEADY] - PAST)
    level, total, highest, first = state.levels[c], 0.0, 0.0, 0
    best = level
    for i in range(1, most + 1):
        value = recent[(state.ring[NEXT] - i) % RECENT, c]
        gain = max(1 - params.keep, 1 / (state.ring[SEEN] - i))
        level = (level - gain * value) / (1 - gain)
        left = value - level
        for k in range(PAST):
            left -= lags[k] * (recent[(state.ring[NEXT] - i - 1 - k) % RECENT, c] - level)
        total += (left if side > 0 else -left) / params.limits[c] - _DRIFT
        if total > highest:
            highest, first, best = total, i, level
    if not is_beyond(highest):
        return False
    for k in range(PAST):
        past[k] = recent[(state.ring[NEXT] - first - 1 - k) % RECENT, c] - best
    for _ in range(first):
        _go_on(lags, past)
    total = best
    for k in range(PAST):
        total += lags[k] * past[k]
    hidden = min(counts[HIDDEN] + first, LONGEST)
    width = params.limits[c] * state.raised[c]
    width = max(width, _width_hidden(params.widths[c], 0.0, hidden))
    if is_beyond(abs(y - total) / width) == is_back:
        return False
    work.forecast[c], work.width[c] = total, width
    state.levels[c], counts[HIDDEN], counts[STEADY] = best, hidden, 0
    for k in range(PAST):
        state.past[k, c] = past[k]
    return True


@linked
@inner
def _estimate(others: Floats32, work: ChannelWork) -> None:
    """Estimate what channels that are not to be used leave of their forecasts, from the others."""
    C = len(work.left)
    for _ in range(_SWEEPS):
        for c in range(C):
            if work.out[c]:
                total = 0.0
                for k in range(C):
                    total += others[c, k] * work.left[k]
                work.left[c] = total


@inner
def _judge(
    c: int,
    t: int,
    z: float,
    state: ChannelState,
    params: ChannelParams,
    work: ChannelWork,
    out: ChannelOut,
) -> float:
    """Judge one channel and follow it; return its ratio from what was accepted, as observed."""
    counts, base = state.counts[c], work.base[c]
    width, forecast = work.width[c], work.forecast[c]
    expected = forecast + (work.left[c] if work.out[c] else 0.0)
    low, high = expected - width, expected + width
    y = z - base
    ratio = rank = way = 0.0
    if np.isnan(base):
        return _pass(c, t, z, state, params, work, out)
    is_missing = np.isnan(z)
    if params.flags[c]:
        low, high = state.normal.lows[c] - base, state.normal.highs[c] - base
        expected = min(max(state.levels[c], low), high)
    elif not is_missing:
        if work.out[c] and counts[AGE] == 0 and not is_beyond(abs(y - expected) / width):
            expected = forecast  # the others would explain it: its own past does not
            low, high = expected - width, expected + width
        ratio = abs(y - expected) / width
        rank = abs(y - expected + state.shifts[c]) / (_RANKED * params.tails[0, c, LEAST_LIMIT])
        if is_beyond(ratio):
            level = state.levels[c]
            moved = _go_home(c, y, base, expected, width, state, params)
            if moved != 0:
                expected, low, high = expected + moved, low + moved, high + moved
                ratio = abs(y - expected) / width
            if state.levels[c] == level:
                way = moved
            elif abs(y - expected) > params.limits[c]:  # it comes slowly: what is left of the way
                way = y - expected
    beyond = is_beyond(ratio)
    out.expected[t, c], out.lows[t, c], out.highs[t, c] = expected + base, low + base, high + base
    out.ratios[t, c] = ratio
    used = y
    if is_missing or beyond:
        used = min(max(expected, -_FARTHEST), _FARTHEST)
        counts[HIDDEN] += counts[HIDDEN] < LONGEST
    elif counts[HIDDEN] > 0:
        counts[HIDDEN] -= 1 + counts[HIDDEN] // 4
    out.clean[t, c] = used + base
    out.hidden[t, c] = 1 if is_missing or beyond else 0
    if not is_missing:
        state.steps[c] += (1 - _KEEP_STEP) * (abs(z - state.last[c]) - state.steps[c])
        state.last[c] = z
        is_outside = z < state.normal.lows[c] or z > state.normal.highs[c]
        counts[OUTSIDE] = counts[OUTSIDE] + 1 if is_outside else 0
    state.recent[state.ring[NEXT], c] = used if is_missing else y
    # Where history never was it may be rougher than anywhere there.
    is_strange = state.last[c] < params.lows[c] or state.last[c] > params.highs[c]
    is_strange = is_strange and state.steps[c] >= _ROUGH * params.steps[c]
    out.paces[t, c] = state.steps[c] / params.steps[c]
    strength = ratio
    if counts[SLOW] and not is_missing:
        strength = abs(y - state.levels[c]) / (params.slow_limits[c] * state.raised[c])
    elif counts[LASTING] and not is_missing:
        strength = abs(state.lasting[c]) / (params.lasting_limits[c] * state.raised[c])
    _follow_episode(c, ratio, strength, is_missing, way != 0, is_strange, state, params, work)
    if params.flags[c]:
        state.levels[c] = used
        return rank
    rest = used - way - state.levels[c]
    for k in range(PAST - 1, 0, -1):
        state.past[k, c] = state.past[k - 1, c]
    state.past[0, c] = rest
    # Of the first samples the level is the mean: one of them says little.
    state.levels[c] += max(1 - params.keep, 1 / state.ring[SEEN]) * rest
    return rank


@inner
def _pass(
    c: int,
    t: int,
    z: float,
    state: ChannelState,
    params: ChannelParams,
    work: ChannelWork,
    out: ChannelOut,
) -> float:
    """Leave a value unjudged: where in its rhythm the channel is, is not known."""
    low, high = state.normal.lows[c], state.normal.highs[c]
    is_missing = np.isnan(z)
    expected = min(max(state.last[c], low), high)
    out.expected[t, c], out.lows[t, c], out.highs[t, c] = expected, low, high
    out.ratios[t, c], out.paces[t, c] = 0.0, 1.0
    out.clean[t, c] = expected if is_missing else z
    out.hidden[t, c] = 1 if is_missing else 0
    if not is_missing:
        state.last[c] = z
    _follow_episode(c, 0.0, 0.0, is_missing, False, False, state, params, work)
    return 0.0


@inner
def _go_home(
    c: int,
    y: float,
    base: float,
    expected: float,
    width: float,
    state: ChannelState,
    params: ChannelParams,
) -> float:
    """Move a channel to an accepted level that it is near, if it is; return by how much.

    On the way to one that was accepted it stays, and how far it has come is returned. So it does
    from where history never was to history's values; it is moved once its steps are usual.
    """
    homes = state.normal.homes
    for k in range(HOMES):
        home = homes[k, c]
        if np.isnan(home):
            continue
        moved = home - state.levels[c]
        if not is_beyond(abs(y - expected - moved) / width):
            homes[k, c] = state.levels[c]
            state.levels[c] = home
            if k == 0:  # what an open change left, or back to it
                state.shifts[c] = 0.0 if state.shifts[c] else moved
            elif state.shifts[c]:
                state.shifts[c] += moved
            state.counts[c, AGE] = state.counts[c, WAY] = state.counts[c, STEADY] = 0
            return moved
    away, newest = y - expected, state.recent[(state.ring[NEXT] - 1) % RECENT, c]
    for k in range(1, HOMES):
        moved = homes[k, c] - state.levels[c]
        if away * moved > 0 and abs(away) < abs(moved):  # not so for NaN
            jumps = is_beyond(abs(y - newest) / params.limits[c])
            return away if _arrives(c, abs(away), abs(moved), jumps, state) else 0.0
    low, high, level = params.lows[c] - base, params.highs[c] - base, state.levels[c]
    if low <= y <= high and not low <= level <= high:
        if state.steps[c] < _ROUGH * params.steps[c]:
            homes[0, c], state.levels[c], state.shifts[c] = level, level + away, 0.0
            state.counts[c, AGE] = state.counts[c, STEADY] = 0
        return away
    return 0.0


@inner
def _arrives(c: int, away: float, way: float, jumps: bool, state: ChannelState) -> bool:
    """Whether a channel on the way to an accepted level comes on quickly enough to arrive.

    Where the way did not begin with a jump, it may take any time.
    """
    counts = state.counts[c]
    if counts[WAY] == 0:
        if not jumps:
            return True
        state.ways[c] = away
    counts[WAY] += 1
    counts[QUIET] = 0
    made = (away - state.ways[c]) / (way - state.ways[c])
    return counts[WAY] <= _WAY_FREE or made >= counts[WAY] / _WAY_SLOWEST


@inner
def _follow_episode(
    c: int,
    ratio: float,
    strength: float,
    is_missing: bool,
    is_on_way: bool,
    is_strange: bool,
    state: ChannelState,
    params: ChannelParams,
    work: ChannelWork,
) -> None:
    """Open, continue or close the episode of a channel; move its limit.

    `strength` is the ratio of the distance by which the episode began: what left its level slowly,
    and is hardly beyond that limit, is far from a forecast that was rewound.
    """
    counts = state.counts[c]
    if counts[AGE] == 0:
        counts[STEADY] = 0 if is_on_way else counts[STEADY] + 1
        if counts[WAY] > 0 and not is_on_way:
            counts[QUIET] += 1
            counts[WAY] += _WAY_RETURN if counts[QUIET] == 1 else 0
            counts[WAY] = 0 if counts[QUIET] >= GAP else counts[WAY]
    event = follow(counts, is_beyond(ratio), is_missing, GAP, params.day)
    if event == OPENS:
        counts[STEADY] = 0
        state.peaks[c] = strength
        if counts[PAUSE] >= LONGEST:  # else it may not be back from the last episode
            state.before[c] = _median(state.recent[:, c], state.ring[NEXT], work.sorted)
    elif counts[AGE] > 0:
        if counts[QUIET] == 0:
            state.peaks[c] = max(state.peaks[c], strength)
    elif event == CLOSES:
        counts[STEADY] = counts[QUIET]
        if state.peaks[c] < JUST_BEYOND:
            for k in range(len(state.raised)):
                step, most = _RAISE_OTHERS, _RAISED_OTHERS
                if k == c and is_strange:
                    step, most = RAISE * state.raised[c], WIDEST
                elif k == c:
                    step, most = RAISE, RAISED
                raised = min(state.raised[k] + step, most)
                state.raised[k] = max(state.raised[k], raised)
    elif state.raised[c] > 1 and not is_strange:
        back = max(RAISE, state.raised[c] - 1) / (_DAYS * params.day)
        state.raised[c] = max(1.0, state.raised[c] - back)


@inner
def _median(values: Floats32, skipped: int, room: Floats) -> float:
    """Return the median of the values but one, by sorting them in."""
    n = 0
    for i in range(len(values)):
        if i == skipped:
            continue
        x = float(values[i])
        k = n
        while k > 0 and room[k - 1] > x:
            room[k] = room[k - 1]
            k -= 1
        room[k] = x
        n += 1
    return room[n // 2]


@compiled
def errors_hidden(
    rest: Floats, left: Floats, lags: Floats, others: Floats32, starts: Ints, horizon: int
) -> Floats:
    """Return how far each channel's expectation errs while it is hidden, (C, starts, horizon).

    `rest` (T, C) is history without its levels, `left` what the forecasts leave of it.
    """
    C = rest.shape[1]
    errors = np.empty((C, len(starts), horizon))
    past = np.empty(PAST)
    for c in range(C):
        for i in range(len(starts)):
            for k in range(PAST):
                x = rest[starts[i] - 1 - k, c]
                past[k] = 0.0 if np.isnan(x) else x
            for h in range(horizon):
                t = starts[i] + h
                expected = 0.0
                for k in range(PAST):
                    expected += lags[c, k] * past[k]
                for k in range(C):
                    if not np.isnan(left[t, k]):
                        expected += others[c, k] * left[t, k]
                errors[c, i, h] = abs(rest[t, c] - expected)
                for k in range(PAST - 1, 0, -1):
                    past[k] = past[k - 1]
                past[0] = expected
    return errors


@compiled
def smoothed(rest: Floats, usual: Floats) -> Floats:
    """Return the smoothed distance from the level, (T, C), of history without its levels."""
    lasting, out = np.zeros(rest.shape[1]), np.empty_like(rest)
    for t in range(len(rest)):
        for c in range(len(lasting)):
            if not np.isnan(rest[t, c]):
                lasting[c] = lasting_after(lasting[c], rest[t, c], usual[c])
            out[t, c] = lasting[c]
    return out


@uncounted
def copy_normal(state: ChannelState, target: HomeState) -> None:
    """Copy what was accepted of the channels, with their levels in the first row of homes."""
    normal = state.normal
    copy(normal.homes.reshape(normal.homes.size), target.homes.reshape(normal.homes.size))
    copy(state.levels, target.homes[0])
    copy(normal.lows, target.lows)
    copy(normal.highs, target.highs)


def blank_out(rows: int, channels: int) -> ChannelOut:
    """Return room for what is known of so many samples."""
    expected, lows, highs, clean = np.empty((4, rows, channels))
    ratios, paces = np.empty((2, rows, channels), np.float32)
    hidden, count = np.empty((rows, channels), np.int64), np.empty(rows, np.int64)
    return ChannelOut(expected, lows, highs, ratios, clean, hidden, paces, count, np.empty(rows))
