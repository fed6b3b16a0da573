"""One review of a stream: find changes, accept what is stable, see what has reverted.

`newnormal.acceptance.policy` has the order of things and the times of reviews.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from newnormal.acceptance.changes import (
    ALARM,
    IS_PENDING,
    IS_REJECTED,
    KNOWN,
    LAST_ALARM,
    MOVED,
    MOVES,
    NEWEST,
    NUMBER,
    PLACED,
    REJECTED_ALARM,
    REVIEWS,
    SINCE,
    START,
    STATE,
    open_change,
    open_slots,
    reserve,
)
from newnormal.acceptance.range import NormalRange
from newnormal.acceptance.shadow import (
    POSITIONS,
    SCORES,
    TRAINS,
    Timing,
    blank_shadow,
    ordered,
)
from newnormal.alarms.log import close, log_scores, newest_alarm, open_alarm
from newnormal.alarms.threshold import AlarmThreshold
from newnormal.core.scaling import saturate
from newnormal.core.state import Baseline, Fitted, ModelState, Shadow, StreamState, copied
from newnormal.errors import FeedbackError
from newnormal.kernels.alarm import HEIGHT, LOCATION, START_HEIGHT, START_LOCATION
from newnormal.kernels.drift import (
    CROSSED,
    KEEP,
    NEAR,
    SETTLING,
    WARM,
    lag_index,
    measure,
    weights_moved,
)
from newnormal.kernels.drift import SEEN as DRIFT_SEEN
from newnormal.types import (
    ACCEPTED,
    CHANGED,
    REJECTED,
    REVERTED,
    ROLLED_BACK,
    Alarm,
    Event,
    Floats,
)

__all__ = ["KEPT", "Review"]

# Positions in Baseline.levels.
KEPT_LEVELS = [LOCATION, HEIGHT, START_HEIGHT, START_LOCATION]
_MOVED = len(KEPT_LEVELS)

_SHADOWED = 0.25  # of `accept_after`, after which a change gets a shadow
# What is predictable scores below the threshold most of the time; or, where that is low, below this
# many times what was typical: for eight days one real stream has a normal that scores ten times so.
_PREDICTABLE = 20.0
_STABLE = 0.9  # of the shadow's newer scores are no higher than all of its older ones
KEPT = 3  # baselines that one can go back to
# The weights may move by half their own length. Learning at the rates that are chosen from
# history moved them by less than a fifth of it on each of twenty real streams.
_LIMIT = 0.5
_FARTHEST = 1e9  # reported of weights that have left all bounds: JSON has no infinity
_MAIN = 0.5  # of the farthest channel's distance: a channel that far is part of the change
_MOVED_LEVEL = 0.5  # of history's standard deviations: a level that moved less did not move
_RECENT = 2  # reviews since an alarm, in which a change may have begun with it
_SURELY = 10  # samples, before which a jump's end is not extrapolated
_NO_TIME = np.iinfo(np.int64).min


class Review:
    """One review of one stream, or one act of a person, and what it changes."""

    def __init__(
        self,
        timing: Timing,
        fitted: Fitted,
        state: StreamState,
        time: np.datetime64 | None,
    ) -> None:
        assert fitted.drift is not None and state.drift is not None
        assert state.review is not None and state.changes is not None
        self.timing = timing
        self.fitted = fitted
        self.state = state
        self.time = time  # of the newest sample that has a verdict
        self.counts = state.review.counts
        self.levels = state.review.levels
        self.changes = state.changes
        self.drift = state.drift
        self.range = NormalRange(fitted.drift, state.drift)
        self.judged = state.judged

    @property
    def threshold(self) -> AlarmThreshold:
        """The stream's alarm threshold; it shares the state."""
        return AlarmThreshold.of_stream(self.fitted, self.state.alarm)

    @property
    def distance(self) -> float:
        """How far stream or weights are from the accepted normal; 1 is the limit."""
        return max(self.range.distance, float(self.levels[MOVES]))

    # ------------------------------------------------------------------ the review

    def review(self) -> list[Event]:
        """Find what changed or reverted, and accept what has been stable long enough."""
        self.counts[REVIEWS] += 1
        self.drift.counts[CROSSED] = 0
        self._measure_weights()
        events = self._reverted()
        events += self._stands_outside()
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
        crossing = np.where(self.drift.owned == 0, self.drift.crossing, 0.0)
        main = crossing >= max(NEAR, _MAIN * float(crossing.max()))
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
        return bool(alarm.number > self.counts[LAST_ALARM] and (alarm.open or reviews <= _RECENT))

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
            events += self._open(outside & (far >= _MAIN * far.max()), alarm)
        return events

    def _open(self, channels: NDArray[np.bool_], alarm: Alarm | None) -> list[Event]:
        """Open a change of these channels, which began with this alarm or now."""
        changes, slot, newest = self.changes, reserve(self.changes), self.judged - 1
        self.counts[NEWEST] += 1
        start, time = newest, self.time
        if alarm is not None:
            start, time = alarm.start, alarm.start_time
            self.counts[LAST_ALARM] = alarm.number
        changes.counts[slot] = (
            self.counts[NEWEST],
            start,
            newest,
            newest,
            IS_PENDING,
            0 if alarm is None else alarm.number,
            newest,
        )
        changes.times[slot] = (
            _NO_TIME if time is None else time.astype("datetime64[ns]").astype(np.int64)
        )
        C = len(channels)
        changes.channels[slot] |= channels  # those of a change that had no row of its own too
        changes.before[slot] = self.drift.start[C : 2 * C] + self.range.params.centre
        changes.after[slot] = self._level(slot)
        moved = self.levels[MOVES] if not channels.any() else self.drift.distances[channels].max()
        changes.distances[slot] = moved
        self.drift.owned[channels] = 1
        # What the changed channels left unexplained of the others is as it was before.
        others = np.flatnonzero(self.drift.owned == 0)
        self.drift.position[others] = self.drift.start[others]
        if self.drift.counts[DRIFT_SEEN] >= WARM:
            measure(self.drift, self.range.params)
        events = [self._event(CHANGED, slot, alarm)]
        if alarm is not None and alarm.number == self.counts[REJECTED_ALARM]:
            events += self.reject(slot)
        return events

    def _reverted(self) -> list[Event]:
        """Close the changes whose channels are back where they were."""
        events = []
        for slot in open_slots(self.changes):
            if not self._is_back(slot):
                continue
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
        if self.judged - changes.counts[slot, KNOWN] < self.timing.review_length:
            return False
        before, after = changes.before[slot, channels], changes.after[slot, channels]
        moved = np.abs(after - before)
        away = np.abs(self.drift.levels[channels] - before)
        near = (moved < _MOVED_LEVEL) | (away < moved / 2)
        return bool((self.drift.distances[channels] <= NEAR).all() and near.all())

    def _level(self, slot: int) -> Floats:
        """Return the level that each channel moves to: at once where the change began so."""
        before, levels = self.changes.before[slot], self.drift.levels
        age = max(self.judged - int(self.changes.counts[slot, START]), _SURELY)
        if not self.changes.counts[slot, ALARM]:  # it came slowly
            return levels.copy()
        moved: Floats = before + (levels - before) / (1 - KEEP**age)
        return moved

    def _follow_levels(self) -> None:
        """Judge the stream from where the channels of open changes are."""
        changes, model = self.changes, self.fitted.model
        for slot in open_slots(changes):
            channels = changes.channels[slot] != 0
            if not channels.any():
                continue
            before, after = changes.before[slot], changes.after[slot]
            start = int(changes.counts[slot, START])
            if self._moves_on(slot, channels):
                changes.after[slot] = after = self._level(slot)
                changes.counts[slot, PLACED] = self.judged
            changes.distances[slot] = self.drift.distances[channels].max()
            shift = np.where(channels, after - before, 0.0)
            model.translate(self.state.model, slot, shift, self.judged - start)
            if self.state.shadow is not None:
                model.translate(self.state.shadow.model, slot, shift, self.judged - start)
        if self.drift.counts[DRIFT_SEEN] >= WARM:
            measure(self.drift, self.range.params)

    def _moves_on(self, slot: int, channels: NDArray[np.bool_]) -> bool:
        """Whether a change is not where it was: still settling, or farther off than normal goes."""
        changes = self.changes
        start, placed = changes.counts[slot, [START, PLACED]].tolist()
        if placed < start + SETTLING:
            return True
        C = len(channels)
        lag = lag_index(self.judged - placed, len(self.range.params.wanders))
        wander = self.range.params.wanders[lag, C : 2 * C]
        away = np.abs(self.drift.levels - changes.after[slot])
        back = np.abs(self.drift.levels - changes.before[slot]) < away
        return bool((channels & ~back & (away > wander)).any())

    # ------------------------------------------------------------------ acceptance by time

    def _wait(self) -> list[Event]:
        """Train a shadow on pending changes; accept those that have been stable long enough."""
        shadow = self._track()
        pending = open_slots(self.changes, IS_PENDING)
        ages = {slot: self.judged - int(self.changes.counts[slot, SINCE]) for slot in pending}
        if not shadow.counts[TRAINS]:
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
        start = int(self.changes.counts[open_slots(self.changes, IS_PENDING)[-1], START])
        position = self.range.extrapolated(self.judged - start)
        shadow = self.state.shadow
        if shadow is not None and shadow.counts[POSITIONS]:
            last = shadow.positions[-1]
            if self.range.jumped(last, position, self.timing.review_length):
                self._restart_timers()
        if self.state.shadow is None:
            width = len(self.drift.lows)
            self.state.shadow = blank_shadow(copied(self.state.model), self.timing, width)
        shadow = self.state.shadow
        shadow.positions[:-1] = shadow.positions[1:]
        shadow.positions[-1] = position
        shadow.counts[POSITIONS] = min(shadow.counts[POSITIONS] + 1, len(shadow.positions))
        return shadow

    def _start_shadow(self, shadow: Shadow) -> None:
        """Copy the running model into the shadow, which learns from here on."""
        shadow = shadow._replace(model=copied(self.state.model))
        shadow.counts[TRAINS] = 1
        self.state.shadow = shadow
        slot = open_slots(self.changes, IS_PENDING)[-1]
        self._shift_trend(shadow.model, int(self.changes.counts[slot, START]))

    def _is_settled(self, shadow: Shadow) -> bool:
        """Whether the stream is predictable and stable, by a shadow that stayed within bounds."""
        moved = self._weights_moved(shadow.model) - self.levels[MOVED]
        if shadow.counts[SCORES] < self.timing.scores or moved > _LIMIT:
            return False
        older, newer = np.array_split(ordered(shadow), 2)
        limit, typical = self.threshold.threshold_score, self.threshold.typical_score
        predictable = np.median(newer) < max(limit, _PREDICTABLE * typical)
        stable = np.quantile(newer, _STABLE) <= max(limit, older.max())
        kept = int(shadow.counts[POSITIONS])
        positions = shadow.positions[len(shadow.positions) - kept :]
        lag = max(1, kept - 1) * self.timing.review_length
        there = not self.range.jumped(positions[0], positions[-1], lag)
        return bool(predictable and stable and there)

    # ------------------------------------------------------------------ feedback

    def accept(self, slot: int) -> list[Event]:
        """Accept a change as normal."""
        state, fitted = self.state, self.fitted
        start = int(self.changes.counts[slot, START])
        event = self._event(ACCEPTED, slot)
        assert event.change is not None
        events = [replace(event, change=replace(event.change, state=ACCEPTED))]
        ahead = self.range.extrapolated(self.judged - start)
        shadow = state.shadow
        positions: list[Floats] = []
        if shadow is not None:
            positions = list(shadow.positions[len(shadow.positions) - shadow.counts[POSITIONS] :])
        alone = len(open_slots(self.changes)) == 1
        if shadow is not None and shadow.counts[TRAINS] and alone:
            state.model = copied(shadow.model)
            if shadow.counts[SCORES] == self.timing.scores:
                self._raise_threshold(ordered(shadow))
        elif not fitted.model.translates:
            self._shift_trend(state.model, start)
        fitted.model.accept_translation(state.model, slot)
        if open_alarm(state.log, fitted.channels) is not None and alone:
            self.threshold.close()
            events = [
                *close(
                    state.log,
                    fitted.channels,
                    ACCEPTED,
                    self.judged - 1,
                    self.time,
                    fitted.has_rhythm,
                ),
                *events,
            ]
        levels = state.alarm.levels
        levels[START_LOCATION] = max(levels[START_LOCATION], levels[LOCATION])
        self._free(slot, keep=True)
        self._keep_undo()
        self.range.widen([*positions, self.drift.position.copy(), ahead])
        self._renew()
        return events

    def accept_pattern(self, alarm: Alarm) -> list[Event]:
        """Accept samples like those of an alarm as normal; close it if it is open."""
        state, fitted = self.state, self.fitted
        self._keep_undo()
        channels = np.array([name in alarm.channels for name in fitted.channels])
        fitted.model.accept_pattern(state.model, np.array(alarm.votes), channels)
        if state.shadow is not None:
            fitted.model.accept_pattern(state.shadow.model, np.array(alarm.votes), channels)
        events: list[Event] = []
        found = open_alarm(state.log, fitted.channels)
        if found is not None and found.number == alarm.number:
            self.threshold.close()
            events = close(
                state.log,
                fitted.channels,
                ACCEPTED,
                self.judged - 1,
                self.time,
                fitted.has_rhythm,
            )
        state.accepted = self._present()
        state.last_quiet = copied(state.accepted)
        return events

    def reject(self, slot: int) -> list[Event]:
        """Go back to what was known before a change, and learn nothing while it lasts."""
        self.changes.counts[slot, STATE] = IS_REJECTED
        # What drifts too slowly to stand out was learned long before it was known.
        back = self.state.last_quiet
        if not self.changes.counts[slot, ALARM]:
            back = self.state.accepted or self.fitted.baseline
        assert back is not None
        weights, trend = self.fitted.model.snapshot(self.state.model)
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
        self.levels[MOVED] = back.levels[_MOVED]
        self._measure_weights()
        self._restart_timers()
        state.accepted, state.last_quiet = back, copied(back)
        self._follow_threshold()
        return [Event(ROLLED_BACK, self.judged - 1, self.time)]

    # ------------------------------------------------------------------ inside

    def _event(self, kind: str, slot: int, alarm: Alarm | None = None) -> Event:
        change = open_change(self.fitted, self.state, slot)
        return Event(kind, self.judged - 1, self.time, alarm, change)

    def _free(self, slot: int, *, keep: bool = False) -> None:
        """Forget a change; `keep` what the model judges it from."""
        channels = self.changes.channels[slot] != 0
        self.drift.owned[channels] = 0
        self.changes.counts[slot] = 0
        self.changes.channels[slot] = 0
        if not keep:
            self.fitted.model.drop_translation(self.state.model, slot)
            if self.state.shadow is not None:
                self.fitted.model.drop_translation(self.state.shadow.model, slot)
        if self.drift.counts[DRIFT_SEEN] >= WARM:
            measure(self.drift, self.range.params)

    def _keep_undo(self) -> None:
        assert self.state.last_quiet is not None
        self.state.undo = (*self.state.undo, copied(self.state.last_quiet))[-KEPT:]

    def _renew(self) -> None:
        """Take the present as accepted."""
        state = self.state
        self.levels[MOVED] = self._weights_moved(state.model)
        self.levels[MOVES] = 0.0
        self._follow_threshold()
        state.accepted = self._present()
        state.last_quiet = copied(state.accepted)
        if not open_slots(self.changes):
            self.range.mark()

    def _restart_timers(self) -> None:
        """Restart the acceptance timers of what is pending, and its shadow."""
        pending = open_slots(self.changes, IS_PENDING)
        self.changes.counts[pending, SINCE] = self.judged
        self.state.shadow = None

    def _follow_threshold(self) -> None:
        """Learn below the alarm threshold, as far as it was accepted."""
        self.state.learn_threshold[0] = self.threshold.threshold_score

    def _raise_threshold(self, scores: Floats) -> None:
        """Raise the threshold with the typical one of these scores, of an accepted normal.

        It never falls, and what is rare among them, which may be a fault, has no part in it.
        """
        if self.fitted.alarm.rate:
            scores = log_scores(scores)
        self.threshold.lift(float(np.median(scores)))

    def _present(self) -> Baseline:
        """Return what is normal now."""
        weights, trend = self.fitted.model.snapshot(self.state.model)
        alarm, drift = self.state.alarm, self.range.state
        kept = (*alarm.levels[KEPT_LEVELS], self.levels[MOVED])
        return copied(
            Baseline(
                weights,
                trend,
                drift.lows,
                drift.highs,
                alarm.tail_levels,
                alarm.tail_excess,
                np.array(kept),
                self.fitted.model.accepted(self.state.model),
            )
        )

    def _restore(self, back: Baseline) -> None:
        """Restore what the model knew, and what scores were compared with; counters stay."""
        self.fitted.model.restore_learned(self.state.model, back.weights, back.trend)
        self.fitted.model.restore_accepted(self.state.model, back.accepted)
        alarm = self.state.alarm
        alarm.tail_levels[:] = back.tail_levels
        alarm.tail_excess[:] = back.tail_excess
        alarm.levels[KEPT_LEVELS] = back.levels[:_MOVED]

    def _shift_trend(self, model: ModelState, start: int) -> None:
        """Shift the trend to where it would be in the end, given where the stream is going."""
        fitted, step = self.fitted, self.fitted.step
        if step.decay == 1 or fitted.model.translates:
            return
        since = self.judged - start
        ahead = self.range.extrapolated(since)
        with np.errstate(over="ignore"):  # a channel whose scale is next to nothing
            jump: Floats = (self.range.level(ahead) - self.range.level(self.range.state.start)) / (
                step.scale
            )
        # So far out that the range measures no more in full, the newest samples are better.
        samples = model.step.samples
        out = self.range.beyond(ahead) & ~np.isnan(samples).all(axis=0)
        jump[out] = 0
        fitted.model.shift_trend(model, saturate(jump), since, step.decay)
        if out.any():
            weights, trend = fitted.model.snapshot(model)
            level = np.nanmedian(samples[:, out], axis=0)
            with np.errstate(over="ignore"):
                z = saturate((level - step.mean[out]) / step.scale[out])
            trend[..., out] = z - fitted.model.center[out]
            fitted.model.restore_learned(model, weights, trend)

    def _measure_weights(self) -> None:
        moved = self._weights_moved(self.state.model) - float(self.levels[MOVED])
        self.levels[MOVES] = max(0.0, moved) / _LIMIT

    def _weights_moved(self, model: ModelState) -> float:
        """Return how far the weights are from the fitted ones, in their own length."""
        moved = weights_moved(model.step.weights, self.fitted.step.fitted)
        return min(float(moved), _FARTHEST)


__all__ += ["KEPT_LEVELS", "NUMBER"]
