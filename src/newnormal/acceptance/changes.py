"""The open changes of a stream: where each is kept, and what it looks like to a person."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from newnormal.acceptance.range import unsqueezed
from newnormal.alarms.words import change_sentence
from newnormal.core.state import Fitted, StreamState
from newnormal.kernels import stream
from newnormal.kernels.drift import DriftParams
from newnormal.models.channels import MARGIN
from newnormal.types import (
    CHANGE_KINDS,
    PENDING,
    REJECTED,
    Bools,
    Change,
    Floats,
    ns_of_time,
    time_of_ns,
)
from newnormal.types.tables import FAR_LEVEL

_TOLD_DAYS = 2.0  # for which a slow change that went again is not told anew
_STATES = {stream.IS_PENDING: PENDING, stream.IS_REJECTED: REJECTED}


def open_slots(changes: stream.ChangeState, state: int | None = None) -> list[int]:
    """Return the rows of open changes, the oldest first; of one state, or of both."""
    rows = np.flatnonzero(changes.counts[:, stream.CHANGE_NUMBER]).tolist()
    slots = [row for row in rows if state in (None, int(changes.counts[row, stream.CHANGE_STATE]))]
    return sorted(slots, key=lambda row: int(changes.counts[row, stream.CHANGE_NUMBER]))


def slot_of(changes: stream.ChangeState, number: int) -> int:
    """Return the row of an open change."""
    return int(np.flatnonzero(changes.counts[:, stream.CHANGE_NUMBER] == number)[0])


def free_row(changes: stream.ChangeState) -> int | None:
    """Return a row without a change, or None where all are taken."""
    free = np.flatnonzero(changes.counts[:, stream.CHANGE_NUMBER] == 0)
    return int(free[0]) if len(free) else None


def open_change(fitted: Fitted, state: StreamState, slot: int) -> Change:
    """Return an open change as a value."""
    changes = state.changes
    assert changes is not None and fitted.drift is not None
    counts = changes.counts[slot].tolist()
    rows = np.flatnonzero(changes.channels[slot])
    rhythm = _rhythm_at_start(fitted, changes, slot)
    before = _levels(fitted.drift, changes.before[slot] + rhythm)
    after = _levels(fitted.drift, changes.after[slot] + rhythm)
    kind = CHANGE_KINDS[counts[stream.CHANGE_KIND]]
    far = -np.abs(changes.after[slot] - changes.before[slot])[rows]
    named = {fitted.channels[at]: at for at in rows[np.argsort(far, kind="stable")].tolist()}
    change = Change(
        counts[stream.CHANGE_NUMBER],
        counts[stream.CHANGE_START],
        time_of_ns(int(changes.times[slot])),
        tuple(named),
        {name: float(before[at]) for name, at in named.items()},
        {name: float(after[at]) for name, at in named.items()},
        _STATES[counts[stream.CHANGE_STATE]],
        counts[stream.CHANGE_ALARM] or None,
        float(changes.distances[slot]),
        kind,
        units={name: fitted.units[name] for name in named if name in fitted.units},
    )
    ends = {name: _beyond(fitted, state, at, after[at]) for name, at in named.items()}
    return replace(change, sentence=change_sentence(change, len(fitted.channels), ends))


def _beyond(fitted: Fitted, state: StreamState, at: int, value: float) -> tuple[str, float] | None:
    """Return how a value lies beyond all that was normal of a channel, and beyond which value."""
    params, scaling = fitted.channel, fitted.drift
    if params is None or scaling is None or state.channel is None:
        return None
    normal = state.channel.normal
    ends, first = ((each.lows[at], each.highs[at]) for each in (normal, params))
    margin = MARGIN / (1 + 2 * MARGIN) * (first[1] - first[0])  # beyond history's own values
    if not math.isfinite(margin):  # it always grows, or always falls
        return None
    for k, (sign, text) in enumerate(((-1, "below {}, the least"), (1, "above {}, the most"))):
        end = float((ends[k] - sign * margin * (ends[k] == first[k])) * scaling.scale[at])
        if math.isfinite(end) and sign * (value - end - scaling.mean[at]) > 0:
            return f"{text} in history", end + float(scaling.mean[at])
    return None


def open_changes(fitted: Fitted, state: StreamState) -> list[Change]:
    """Return the open changes, the oldest first."""
    if state.changes is None:
        return []
    return [open_change(fitted, state, slot) for slot in open_slots(state.changes)]


def reopen(
    fitted: Fitted, state: StreamState, slot: int, change: Change, before: StreamState
) -> None:
    """Put a change into a free row, pending; the stream stands where it stood `before` the undo."""
    changes, drift, channel = state.changes, state.drift, state.channel
    assert changes is not None and drift is not None and fitted.drift is not None
    newest, cause = state.judged - 1, change.alarm or 0
    since = (newest, newest + 1, stream.IS_PENDING, cause, newest, CHANGE_KINDS.index(change.kind))
    changes.counts[slot] = (change.number, change.start, *since)
    changes.times[slot] = ns_of_time(change.start_time)
    named = [fitted.channels.index(name) for name in change.channels]
    changes.channels[slot] = 0
    changes.channels[slot, named] = 1
    params, rhythm = fitted.drift, _rhythm_at_start(fitted, changes, slot)
    for levels, told in ((changes.before, change.before), (changes.after, change.after)):
        values = np.array([told[name] for name in change.channels])
        with np.errstate(over="ignore"):
            scaled = (values - params.mean[named]) / params.scale[named] - rhythm[named]
        levels[slot], levels[slot, named] = 0, np.nan_to_num(scaled).clip(-FAR_LEVEL, FAR_LEVEL)
    changes.farthest[slot], changes.distances[slot] = changes.after[slot], change.distance
    moved = changes.channels[slot] != 0
    drift.in_change[moved] = 1
    if channel is not None and before.channel is not None:
        levels, left = before.channel.levels, before.channel.normal.homes[1]
        moved &= levels != channel.levels  # others are where they were before
        home = np.where(np.isnan(left), channel.levels, left)[moved]
        channel.normal.homes[0, moved], channel.levels[moved] = home, levels[moved]
        channel.shifts[moved] = levels[moved] - home
    model, shift = fitted.model, fitted.model.newest_translation(before.model)
    if shift is not None:  # what the members remember was moved back with it
        model.translate(state.model, slot, shift, 0)
    elif not model.translates:
        weights, _ = model.snapshot(state.model)
        model.restore_learned(state.model, weights, model.snapshot(before.model)[1])


def remember(fitted: Fitted, state: StreamState, slot: int) -> None:
    """Remember a slow change that is over: it is not told anew for some days."""
    changes, params = state.changes, fitted.channel
    assert changes is not None
    alarm, kind = changes.counts[slot, [stream.CHANGE_ALARM, stream.CHANGE_KIND]].tolist()
    if params is None or alarm or kind == stream.STANDS_STILL:
        return
    channels = changes.channels[slot] != 0
    changes.told_until[channels] = state.judged + int(_TOLD_DAYS * params.day)
    farthest = changes.farthest[slot] + _rhythm_at_start(fitted, changes, slot)
    changes.told_level[channels] = farthest[channels]


def is_told(fitted: Fitted, state: StreamState, judged: int) -> Bools:
    """Return which channels are where a slow change, told not long ago, had them at most."""
    channel, params, changes, drift = state.channel, fitted.channel, state.changes, state.drift
    if channel is None or params is None or changes is None or drift is None:
        return np.zeros(len(fitted.channels), np.bool_)
    normal, level = channel.normal, changes.told_level
    low = np.minimum(normal.lows, level) - params.limits
    high = np.maximum(normal.highs, level) + params.limits
    now = unsqueezed(drift.levels)
    told: Bools = changes.told_until > judged
    return told & (low <= now) & (now <= high)


def rhythm_level(fitted: Fitted, sample: int, time: np.datetime64 | None) -> Floats:
    """Return the rhythm's level of each channel at a sample, scaled; 0 without a rhythm."""
    rhythm, channel = fitted.rhythm, fitted.channel
    if rhythm is None or channel is None:
        return np.zeros(len(fitted.channels))
    times = None if time is None else np.array([time])
    levels = rhythm.levels_at(rhythm.phases(times, sample, 1))[0]
    return np.where(channel.rhythmic != 0, levels, 0.0)


def _rhythm_at_start(fitted: Fitted, changes: stream.ChangeState, slot: int) -> Floats:
    """Return the rhythm's level when a change began; its levels are reported for that time."""
    start = int(changes.counts[slot, stream.CHANGE_START])
    return rhythm_level(fitted, start, time_of_ns(int(changes.times[slot])))


def _levels(params: DriftParams, scaled: Floats) -> Floats:
    with np.errstate(over="ignore"):
        levels: Floats = np.nan_to_num(scaled * params.scale + params.mean)
    return levels
