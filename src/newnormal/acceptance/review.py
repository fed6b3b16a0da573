"""One review of a stream: find changes, accept what is stable, see what has reverted.

`newnormal.acceptance.policy` has the order of things and the times of reviews.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from newnormal.acceptance.changes import free_row, open_slots
from newnormal.acceptance.decisions import Decisions
from newnormal.acceptance.range import unsqueezed
from newnormal.acceptance.shadow import blank_shadow, ordered
from newnormal.alarms.log import newest_alarm, open_alarm
from newnormal.core.state import copied
from newnormal.kernels.drift import (
    CROSSED,
    WARM,
    measure,
)
from newnormal.kernels.drift import SEEN as DRIFT_SEEN
from newnormal.kernels.stream import (
    CHANGE_ALARM,
    CHANGE_SINCE,
    CHANGE_START,
    IS_PENDING,
    LAST_ALARM,
    MOVED,
    MOVES,
    NEWEST_CHANGE,
    RECENT_REVIEWS,
    REJECTED_ALARM,
    REVIEWS,
    SHADOW_POSITIONS,
    SHADOW_SCORES,
    SHADOW_TRAINS,
    WEIGHTS_LIMIT,
    Shadow,
)
from newnormal.types import (
    CHANGED,
    Alarm,
    Event,
    Floats,
    ns_of_time,
)

_SHADOWED = 0.25  # of `accept_after`, after which a change gets a shadow
# What is predictable scores below the threshold most of the time; or, where that is low, below this
# many times what was typical: for eight days one real stream has a normal that scores ten times so.
_PREDICTABLE = 20.0
_STABLE = 0.9  # of the shadow's newer scores are no higher than all of its older ones


class Review(Decisions):
    """One review of one stream, and what it changes."""

    def review(self) -> list[Event]:
        """Find what changed or reverted, and accept what has been stable long enough."""
        self.counts[REVIEWS] += 1
        self.drift.counts[CROSSED] = 0
        self._measure_weights()
        events = self._reverted()
        events += self._stands_outside()
        for slot in open_slots(self.changes, IS_PENDING):
            if self.changes.counts[slot, CHANGE_ALARM] == self.counts[REJECTED_ALARM] > 0:
                events += self.reject(slot)
        self._follow_levels()
        if not open_slots(self.changes):
            self.state.shadow = None
            if open_alarm(self.state.log, self.fitted.channels) is None:
                self.state.last_quiet = self._present()
                self.range.mark()
            return events
        if open_slots(self.changes, IS_PENDING):
            events += self._wait()
        else:
            self.state.shadow = None
        return events

    def crossed(self) -> list[Event]:
        """Open the change of the channels that went beyond the limit at the newest sample."""
        main = self._about(self.drift.crossing)
        alarm = newest_alarm(self.state.log, self.fitted.channels, self.fitted.has_rhythm)
        if alarm is not None and not (self._is_recent(alarm) and self._is_about(alarm, main)):
            alarm = None
        return self._open(main, alarm)

    def _is_about(self, alarm: Alarm, channels: NDArray[np.bool_]) -> bool:
        """Whether an alarm is open, or about one of these channels."""
        named = [self.fitted.channels[at] in alarm.channels for at in np.flatnonzero(channels)]
        return alarm.open or any(named)

    def _is_recent(self, alarm: Alarm) -> bool:
        """Whether a change that is found now may have begun with an alarm."""
        reviews = (self.judged - alarm.start) / self.timing.review_length
        return bool(
            alarm.number > self.counts[LAST_ALARM] and (alarm.open or reviews <= RECENT_REVIEWS)
        )

    def _stands_outside(self) -> list[Event]:
        """Open the change of a stream that an alarm left outside its normal, or of the weights."""
        alarm = newest_alarm(self.state.log, self.fitted.channels, self.fitted.has_rhythm)
        events: list[Event] = []
        weights = [s for s in open_slots(self.changes) if not self.changes.channels[s].any()]
        if self.levels[MOVES] > 1 and not weights:
            events += self._open(np.zeros(len(self.drift.owned), np.bool_), None)
        if alarm is None or not self._is_recent(alarm):
            return events
        outside = self.range.outside & (self.drift.owned == 0)
        lasts = self.judged - alarm.start >= self.timing.review_length
        if lasts and outside.any() and self.drift.counts[DRIFT_SEEN] >= WARM:
            far = np.where(outside, np.maximum(self.drift.distances, self.drift.jumps), 0.0)
            events += self._open(self._about(far), alarm)
        return events

    def _about(self, far: Floats) -> NDArray[np.bool_]:
        """Return which channels a change is about: those that moved, or else the farthest.

        Where one moves, what it leaves unexplained of the others moves as well.
        """
        free = self.drift.owned == 0
        found: NDArray[np.bool_] = self.range.moved & free
        if not found.any():
            found[np.where(free, far, -1.0).argmax()] = True
        return found

    def _open(self, channels: NDArray[np.bool_], alarm: Alarm | None) -> list[Event]:
        """Open a change of these channels, which began with this alarm or now."""
        changes, slot, newest = self.changes, free_row(self.changes), self.judged - 1
        if slot is None:
            return self._join(channels)
        self.counts[NEWEST_CHANGE] += 1
        start, time = newest, self.time
        if alarm is not None:
            start, time = alarm.start, alarm.start_time
            self.counts[LAST_ALARM] = alarm.number
        changes.counts[slot] = (
            self.counts[NEWEST_CHANGE],
            start,
            newest,
            newest,
            IS_PENDING,
            0 if alarm is None else alarm.number,
            newest,
        )
        changes.times[slot] = ns_of_time(time)
        C = len(channels)
        changes.channels[slot] = channels
        before = self.drift.start[C : 2 * C]
        if alarm is None:  # it came slowly: from the border of what was normal
            own = slice(C, 2 * C)
            normal = self.drift.position[own].clip(self.drift.lows[own], self.drift.highs[own])
            before = np.where(normal != self.drift.position[own], normal, before)
        changes.before[slot] = unsqueezed(before + self.range.params.centre)
        changes.after[slot] = self._level(slot)
        changes.farthest[slot] = self._level(slot, 0.0)
        moved = self.levels[MOVES] if not channels.any() else self.drift.distances[channels].max()
        changes.distances[slot] = moved
        self.drift.owned[channels] = 1
        # What the changed channels left unexplained of the others is as it was before.
        others = np.flatnonzero(self.drift.owned == 0)
        self.drift.position[others] = self.drift.start[others]
        if self.drift.counts[DRIFT_SEEN] >= WARM:
            measure(self.drift, self.range.params)
        return [self._event(CHANGED, slot, alarm)]

    def _join(self, channels: NDArray[np.bool_]) -> list[Event]:
        """Give channels to the newest change that is pending, where there is no room for another.

        Of eight that are all rejected, to the newest of them.
        """
        slot = (open_slots(self.changes, IS_PENDING) or open_slots(self.changes))[-1]
        self.changes.channels[slot] |= channels
        self.drift.owned[channels] = 1
        return []

    def _follow_levels(self) -> None:
        """Follow the channels of open changes, and judge the stream from where they are."""
        for slot in open_slots(self.changes):
            self._follow(slot)
            if self._stands(slot):
                self._place(slot)
        if self.drift.counts[DRIFT_SEEN] >= WARM:
            measure(self.drift, self.range.params)

    # ------------------------------------------------------------------ acceptance by time

    def _wait(self) -> list[Event]:
        """Train a shadow on pending changes; accept those that have been stable long enough."""
        shadow = self._track()
        pending = open_slots(self.changes, IS_PENDING)
        ages = {
            slot: self.judged - int(self.changes.counts[slot, CHANGE_SINCE]) for slot in pending
        }
        if not shadow.counts[SHADOW_TRAINS]:
            if max(ages.values()) >= _SHADOWED * self.timing.accept_after:
                self._start_shadow(shadow)
            return []
        events: list[Event] = []
        if self._is_settled(shadow):
            for slot, age in ages.items():
                if age >= self.timing.accept_after:
                    events += self.accept(slot)
        return events

    def _track(self) -> Shadow:
        """Keep the position; restart the timers where the stream has gone elsewhere."""
        start = int(self.changes.counts[open_slots(self.changes, IS_PENDING)[-1], CHANGE_START])
        position = self.range.extrapolated(self.judged - start)
        shadow = self.state.shadow
        if shadow is not None and shadow.counts[SHADOW_POSITIONS]:
            last = shadow.positions[-1]
            if self.range.jumped(last, position, self.timing.review_length):
                self._restart_timers()
        if self.state.shadow is None:
            width = len(self.drift.lows)
            self.state.shadow = blank_shadow(copied(self.state.model), self.timing, width)
        shadow = self.state.shadow
        shadow.positions[:-1] = shadow.positions[1:]
        shadow.positions[-1] = position
        shadow.counts[SHADOW_POSITIONS] = min(
            shadow.counts[SHADOW_POSITIONS] + 1, len(shadow.positions)
        )
        return shadow

    def _start_shadow(self, shadow: Shadow) -> None:
        """Copy the running model into the shadow, which learns from here on."""
        shadow = shadow._replace(model=copied(self.state.model))
        shadow.counts[SHADOW_TRAINS] = 1
        self.state.shadow = shadow
        slot = open_slots(self.changes, IS_PENDING)[-1]
        self._shift_trend(shadow.model, int(self.changes.counts[slot, CHANGE_START]))

    def _is_settled(self, shadow: Shadow) -> bool:
        """Whether the stream is predictable and stable, by a shadow that stayed within bounds."""
        moved = self._weights_moved(shadow.model) - self.levels[MOVED]
        if shadow.counts[SHADOW_SCORES] < self.timing.scores or moved > WEIGHTS_LIMIT:
            return False
        older, newer = np.array_split(ordered(shadow), 2)
        limit, typical = self.threshold.threshold_score, self.threshold.typical_score
        predictable = np.median(newer) < max(limit, _PREDICTABLE * typical)
        stable = np.quantile(newer, _STABLE) <= max(limit, older.max())
        kept = int(shadow.counts[SHADOW_POSITIONS])
        positions = shadow.positions[len(shadow.positions) - kept :]
        lag = max(1, kept - 1) * self.timing.review_length
        there = not self.range.jumped(positions[0], positions[-1], lag)
        return bool(predictable and stable and there)
