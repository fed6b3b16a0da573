"""What a person, or time, decides about changes and alarms: accept, reject, roll back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from newnormal.acceptance.changes import open_slots
from newnormal.acceptance.levels import Levels
from newnormal.acceptance.range import squeezed
from newnormal.acceptance.reviewed import MOVED_WEIGHTS
from newnormal.acceptance.shadow import ordered
from newnormal.alarms.log import close, open_alarm
from newnormal.core.state import copied
from newnormal.errors import FeedbackError
from newnormal.kernels.alarm import LOCATION, START_LOCATION
from newnormal.kernels.drift import NEAR
from newnormal.kernels.stream import (
    CHANGE_ALARM,
    CHANGE_KNOWN,
    CHANGE_START,
    CHANGE_STATE,
    IS_REJECTED,
    MOVED,
    MOVES,
    REJECTED_ALARM,
    SHADOW_POSITIONS,
    SHADOW_SCORES,
    SHADOW_TRAINS,
)
from newnormal.types import (
    ACCEPTED,
    REJECTED,
    REVERTED,
    ROLLED_BACK,
    Alarm,
    Event,
    Floats,
)

_MOVED_LEVEL = 0.5  # of history's standard deviations: a level that moved less did not move


class Decisions(Levels):
    """Decisions about one stream."""

    def accept(self, slot: int) -> list[Event]:
        """Accept a change as normal."""
        state, fitted = self.state, self.fitted
        start = int(self.changes.counts[slot, CHANGE_START])
        self._follow(slot)
        self._place(slot, whole=True)
        event = self._event(ACCEPTED, slot)
        assert event.change is not None
        events = [replace(event, change=replace(event.change, state=ACCEPTED))]
        ahead = self.range.extrapolated(self.judged - start)
        shadow = state.shadow
        positions: list[Floats] = []
        if shadow is not None:
            positions = list(
                shadow.positions[len(shadow.positions) - shadow.counts[SHADOW_POSITIONS] :]
            )
        alone = len(open_slots(self.changes)) == 1
        if shadow is not None and shadow.counts[SHADOW_TRAINS] and alone:
            state.model = copied(shadow.model)
            if shadow.counts[SHADOW_SCORES] == self.timing.scores:
                self._raise_threshold(ordered(shadow))
        elif not fitted.model.translates:
            self._shift_trend(state.model, start)
        fitted.model.accept_translation(state.model, slot)
        found = open_alarm(state.log, fitted.channels)
        if found is not None and (alone or found.number == event.change.alarm):
            events = [*self._close_alarm(), *events]
        levels = state.alarm.levels
        if not fitted.model.translates:  # else the scores are soon as low as before
            levels[START_LOCATION] = max(levels[START_LOCATION], levels[LOCATION])
        state.alarm.raised[:] = 0  # what raised the threshold is normal now
        explained, C = self._explained(slot), len(fitted.channels)
        beside = self.drift.position.copy()
        beside[:C] += explained
        self._free(slot, keep=True)
        self._keep_undo()
        # What others, still open, are about is not accepted with it.
        kept = self.drift.owned != 0
        positions += [self.drift.position.copy(), ahead, beside]
        self.range.widen(positions, kept, explained)
        self._renew()
        return events

    def _explained(self, slot: int) -> Floats:
        """Return by how much a change moves what is left unexplained of the other channels, (C,).

        Their levels did not follow it.
        """
        changes, channels = self.changes, self.changes.channels[slot] != 0
        moved = squeezed(changes.after[slot]) - squeezed(changes.before[slot])
        found: Floats = self.range.params.blend @ np.where(channels, moved, 0.0)
        return np.where(channels, 0.0, found)

    def accept_pattern(self, alarm: Alarm) -> list[Event]:
        """Accept samples like those of an alarm as normal; close it if it is open."""
        state, fitted = self.state, self.fitted
        self._keep_undo()
        channels = np.array([name in alarm.channels for name in fitted.channels])
        found = open_alarm(state.log, fitted.channels)
        is_open = found is not None and found.number == alarm.number
        for model in self._models:
            fitted.model.accept_pattern(model, np.array(alarm.votes), channels, grows=is_open)
        events = self._close_alarm() if is_open else []
        state.alarm.raised[:] = 0  # what raised the threshold is normal now
        state.accepted = self._present()
        state.last_quiet = copied(state.accepted)
        return events

    def _close_alarm(self) -> list[Event]:
        """Close the open alarm: what it is about is normal."""
        self.threshold.close()
        log, fitted = self.state.log, self.fitted
        newest = self.judged - 1
        return close(log, fitted.channels, ACCEPTED, newest, self.time, fitted.has_rhythm)

    def reject(self, slot: int) -> list[Event]:
        """Go back to what was known before a change, and learn nothing while it lasts."""
        self.changes.counts[slot, CHANGE_STATE] = IS_REJECTED
        self._follow(slot)
        self._place(slot)
        # What drifts too slowly to stand out was learned long before it was known.
        back = self.state.last_quiet
        if not self.changes.counts[slot, CHANGE_ALARM]:
            back = self.state.accepted or self.fitted.baseline
        assert back is not None
        _, trend = self.fitted.model.snapshot(self.state.model)
        if self.fitted.model.translates:
            trend = back.trend
        self.fitted.model.restore_learned(self.state.model, back.weights, trend)
        self.state.shadow = None
        self._measure_weights()
        events = [self._event(REJECTED, slot)]
        if not self.changes.channels[slot].any():  # the weights are back
            events += self._reverted()
        return events

    def reject_alarm(self, alarm: Alarm) -> list[Event]:
        """Reject an alarm whose change is not known yet: it will be rejected when it is."""
        self.counts[REJECTED_ALARM] = alarm.number
        back = self.state.last_quiet
        assert back is not None
        _, trend = self.fitted.model.snapshot(self.state.model)
        self.fitted.model.restore_learned(self.state.model, back.weights, trend)
        return []

    def rollback(self) -> list[Event]:
        """Undo the newest acceptance."""
        state = self.state
        if not state.undo:
            raise FeedbackError(
                "expected an accepted new normal to go back from, found none since `fit`",
                hint="`reset` goes back to what `fit` left",
            )
        *rest, back = state.undo
        state.undo = tuple(rest)
        self._restore(back)
        self.range.move(back.lows, back.highs)
        self.drift.start.clip(back.lows, back.highs, out=self.drift.start)
        self.levels[MOVED] = back.levels[MOVED_WEIGHTS]
        self._measure_weights()
        self._restart_timers()
        state.accepted, state.last_quiet = back, copied(back)
        self._follow_threshold()
        return [Event(ROLLED_BACK, self.judged - 1, self.time)]

    def _reverted(self) -> list[Event]:
        """Close the changes whose channels are back where they were."""
        events = []
        for slot in open_slots(self.changes):
            if not self._is_back(slot):
                continue
            # The stream is on its way back: where it was meanwhile is what the change was.
            self.changes.after[slot] = self.changes.farthest[slot]
            event = self._event(REVERTED, slot)
            assert event.change is not None
            events.append(replace(event, change=replace(event.change, state=REVERTED)))
            self._free(slot)
        if events and not open_slots(self.changes):
            back = self.state.last_quiet
            assert back is not None
            if not self.fitted.model.translates:
                weights, _ = self.fitted.model.snapshot(self.state.model)
                self.fitted.model.restore_learned(self.state.model, weights, back.trend)
        return events

    def _is_back(self, slot: int) -> bool:
        """Whether the channels of a change are inside normal, and nearer to where they were."""
        changes, channels = self.changes, self.changes.channels[slot] != 0
        if not channels.any():
            return bool(self.levels[MOVES] <= NEAR)
        if self.judged - changes.counts[slot, CHANGE_KNOWN] < self.timing.review_length:
            return False
        before, after = (squeezed(each[slot, channels]) for each in (changes.before, changes.after))
        moved = np.abs(after - before)
        away = np.abs(self.drift.levels[channels] - before)
        near = (moved < _MOVED_LEVEL) | (away < moved / 2)
        return bool((self.drift.distances[channels] <= NEAR).all() and near.all())
