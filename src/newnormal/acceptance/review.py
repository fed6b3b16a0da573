"""One review of a stream: find changes, accept what is stable, see what has reverted.

`newnormal.acceptance.policy` has the order of things and the times of reviews.

One module because it is one class: what a review asks of a stream, what it decides, and what a
person decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from newnormal.acceptance.changes import (
    free_row,
    is_told,
    open_change,
    open_slots,
    remember,
    reopen,
    rhythm_level,
)
from newnormal.acceptance.range import SURELY, NormalRange, squeezed, unsqueezed
from newnormal.acceptance.shadow import Timing, blank_shadow, ordered
from newnormal.alarms.log import close, log_scores, newest_alarm, open_alarm
from newnormal.alarms.threshold import AlarmThreshold
from newnormal.core.scaling import saturate
from newnormal.core.state import Fitted, StreamState, copied
from newnormal.errors import FeedbackError
from newnormal.kernels.alarm import HEIGHT, LOCATION, OPEN, START_HEIGHT, START_LOCATION
from newnormal.kernels.channels import (
    HIDDEN,
    LASTING,
    NEXT,
    OUTSIDE,
    STEADY,
    WIDEST,
    HomeState,
    copy_normal,
)
from newnormal.kernels.decision import AGE, GAP, QUIET
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
from newnormal.kernels.stream import (
    ACCEPTED_CHANGES,
    CHANGE_ALARM,
    CHANGE_KIND,
    CHANGE_KNOWN,
    CHANGE_NUMBER,
    CHANGE_PLACED,
    CHANGE_SINCE,
    CHANGE_START,
    CHANGE_STATE,
    FARTHEST_WEIGHTS,
    IS_PENDING,
    IS_REJECTED,
    KEPT_UNDO,
    LAST_ALARM,
    LOG_NUMBER,
    MOVED,
    MOVED_LEVEL,
    MOVES,
    NEVER_BEFORE,
    NEVER_SEEN,
    NEWEST_CHANGE,
    RECENT_REVIEWS,
    REJECTED_ALARM,
    REVIEWS,
    SHADOW_POSITIONS,
    SHADOW_SCORES,
    SHADOW_TRAINS,
    STANDS,
    STANDS_STILL,
    WEIGHTS_LIMIT,
    Baseline,
    ModelState,
    Shadow,
)
from newnormal.types import (
    ACCEPTED,
    BECAME_CHANGE,
    CHANGED,
    REJECTED,
    REVERTED,
    UNDONE,
    Alarm,
    Change,
    Event,
    Floats,
    ns_of_time,
)
from newnormal.types.tables import FAR_LEVEL

# Positions in Baseline.levels.
KEPT_LEVELS = [LOCATION, HEIGHT, START_HEIGHT, START_LOCATION]
MOVED_WEIGHTS = len(KEPT_LEVELS)

_BEYOND = 2.0  # of history's standard deviations: how far beyond the newest value a jump may end
_MOVED_LEVEL = 0.5  # of history's standard deviations: a level that moved less did not move
_WIDER = 1.2  # times the farthest of the newest values, the range of a channel in a change
_MOVES_AGAIN = 8  # samples without a move, below which a channel does not stand still
_MARGIN = 0.01  # of history's standard deviations, beyond accepted values, is normal too
_ROUGHER = 2.0  # of its limit, that of a channel whose alarm comes and goes for as long
_MOSTLY = 3  # samples hidden, from which on most are: one that is not takes off more than it adds
_SHADOWED = 0.25  # of `accept_after`, after which a change gets a shadow
# What is predictable scores below the threshold most of the time; or, where that is low, below this
# many times what was typical: for eight days one real stream has a normal that scores ten times so.
_PREDICTABLE = 20.0
_STABLE = 0.9  # of the shadow's newer scores are no higher than all of its older ones


class Review:
    """One stream while it is reviewed, or while a person acts on it."""

    def __init__(
        self, timing: Timing, fitted: Fitted, state: StreamState, time: np.datetime64 | None
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
        # None between two reviews: it is ahead of the sample then.
        self.channel = state.channel
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

    @property
    def _models(self) -> list[ModelState]:
        """The running model's state, and its shadow's."""
        shadow = self.state.shadow
        return [self.state.model, *([] if shadow is None else [shadow.model])]

    def _event(self, kind: str, slot: int, alarm: Alarm | None = None) -> Event:
        change = open_change(self.fitted, self.state, slot)
        return Event(kind, self.judged - 1, self.time, alarm, change)

    def _free(self, slot: int, *, keep: bool = False) -> None:
        """Forget a change; `keep` what the model judges it from."""
        channels = self.changes.channels[slot] != 0
        self.drift.in_change[channels] = 0
        self.changes.counts[slot] = 0
        self.changes.channels[slot] = 0
        if not keep:
            if self.channel is not None:
                self.channel.shifts[channels] = 0
                self.channel.normal.homes[0, channels] = np.nan
            for model in self._models:
                self.fitted.model.drop_translation(model, slot)
        if self.drift.counts[DRIFT_SEEN] >= WARM:
            measure(self.drift, self.range.params)

    def _keep_undo(self, change: int = 0) -> None:
        assert self.state.last_quiet is not None
        self.state.undo = (*self.state.undo, copied(self.state.last_quiet))[-KEPT_UNDO:]
        changes = self.counts[ACCEPTED_CHANGES:]
        changes[:] = [change, *changes[:-1]]

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
        self.changes.counts[open_slots(self.changes, IS_PENDING), CHANGE_SINCE] = self.judged
        self.state.shadow = None

    def _follow_threshold(self) -> None:
        """Learn below the alarm threshold, as far as it was accepted."""
        self.state.learn_threshold[0] = self.threshold.threshold_score

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
                self._normal(),
            )
        )

    def _normal(self) -> HomeState | None:
        """Return what was accepted of the channels, with their levels in the first row of homes."""
        if self.channel is None:
            return None
        kept = copied(self.channel.normal)
        copy_normal(self.channel, kept)
        return kept

    def _restore(self, back: Baseline) -> None:
        """Restore what the model knew, and what scores were compared with; counters stay."""
        self.fitted.model.restore_learned(self.state.model, back.weights, back.trend)
        self.fitted.model.restore_accepted(self.state.model, back.accepted)
        if self.channel is not None and self.fitted.channel is not None:
            normal, levels = self.channel.normal, back.normal.homes[0]
            gone = np.abs(self.channel.levels - levels) >= self.fitted.channel.limits
            self.channel.levels[gone], self.channel.past[:, gone] = levels[gone], 0
            self.channel.counts[gone, STEADY] = 0
            self.channel.recent[:, gone] = levels[gone]
            normal.homes[1:] = back.normal.homes[1:]
            normal.lows[:], normal.highs[:] = back.normal.lows, back.normal.highs
        self._drop_observed()
        alarm = self.state.alarm
        alarm.tail_levels[:] = back.tail_levels
        alarm.tail_excess[:] = back.tail_excess
        alarm.levels[KEPT_LEVELS] = back.levels[:MOVED_WEIGHTS]

    def _drop_observed(self) -> None:
        """Drop the stream as observed: it begins anew where what is accepted changes."""
        if self.state.observed is not None:
            self.state.observed.left[:] = 0

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
        self.levels[MOVES] = max(0.0, moved) / WEIGHTS_LIMIT

    def _weights_moved(self, model: ModelState) -> float:
        """Return how far the weights are from the fitted ones, in their own length."""
        moved = weights_moved(model.step.weights, self.fitted.step.fitted)
        return min(float(moved), FARTHEST_WEIGHTS)

    # ------------------------------------------------------------------ where a change is

    def _level(self, slot: int, beyond: float = _BEYOND) -> Floats:
        """Return the level that each channel moves to, at once if it began so; without rhythm.

        It may be this far `beyond` what was seen, in history's standard deviations. Of channels
        that are judged by themselves it is the median of their newest values where those are
        hidden, and their slow level once they are judged from there.
        """
        state, params = self.channel, self.fitted.channel
        if state is not None and params is not None:
            hidden = (state.counts[:, AGE] > 0) | (params.flags != 0)
            own = np.where(state.shifts != 0, state.levels, np.median(state.recent, axis=0))
            return np.where(
                hidden | (state.shifts != 0), own, self._without_rhythm(self.drift.levels)
            )
        before, levels = squeezed(self.changes.before[slot]), self.drift.levels
        age = max(self.judged - int(self.changes.counts[slot, CHANGE_START]), SURELY)
        if not self.changes.counts[slot, CHANGE_ALARM]:  # it came slowly
            return unsqueezed(levels)
        level = before + (levels - before) / (1 - KEEP**age)
        newest = np.where(np.isnan(self.drift.last), levels, self.drift.last)
        low, high = np.minimum(levels, newest), np.maximum(levels, newest)
        return unsqueezed(level.clip(low - beyond, high + beyond))

    def _rhythm_level(self) -> Floats:
        """Return the rhythm's level of each channel now."""
        return rhythm_level(self.fitted, self.judged - 1, self.time)

    def _without_rhythm(self, levels: Floats) -> Floats:
        """Return squeezed levels of now as they are without the rhythm of their channels."""
        return (unsqueezed(levels) - self._rhythm_level()).clip(-FAR_LEVEL, FAR_LEVEL)

    def _stand(self, channels: NDArray[np.bool_]) -> None:
        """Judge channels that have stayed away for long from where they are.

        Their range is as wide as their newest values are apart.
        """
        state, params = self.channel, self.fitted.channel
        assert state is not None and params is not None
        seen = self.fitted.model.seen_levels(self.state.observed, state.counts[:, AGE])
        seen = np.where(params.rhythmic != 0, np.nan, seen)
        newest = np.roll(state.recent, -state.ring[NEXT], axis=0).astype(np.float64)
        for c in np.flatnonzero(channels).tolist():
            recent = newest[-max(state.counts[c, AGE], 1) :, c]
            level = float(np.median(recent))
            if abs(seen[c] - level) < params.limits[c]:  # not so for NaN
                level = float(seen[c])  # of a longer time
            if state.shifts[c] == 0 or np.isnan(state.normal.homes[0, c]):
                state.normal.homes[0, c] = state.levels[c]
            state.shifts[c] = level - state.normal.homes[0, c]
            state.levels[c] = level
            state.past[:, c] = 0
            state.counts[c, [AGE, HIDDEN, QUIET, STEADY]] = 0
            apart = _WIDER * np.abs(recent - level).max() / params.limits[c]
            state.raised[c] = min(max(state.raised[c], apart), WIDEST)
        levels = squeezed(state.levels + self._rhythm_level())[channels]
        self.drift.levels[channels] = self.drift.last[channels] = levels
        if self.drift.counts[DRIFT_SEEN] >= WARM:
            measure(self.drift, self.range.params)

    def _follow(self, slot: int) -> None:
        """Bring `after` and the distance of a change up to date."""
        changes, channels = self.changes, self.changes.channels[slot] != 0
        if not channels.any():
            return
        before, after, farthest = (
            each[slot] for each in (changes.before, changes.after, changes.farthest)
        )
        level = self._level(slot)
        away = np.abs(level - before) >= np.abs(farthest - before) / 2  # else it is on its way back
        if self.channel is None:
            away[:] = self._moves_on(slot, channels)
        away &= changes.counts[slot, CHANGE_KIND] != STANDS_STILL  # it stands where it stood
        if away.any():
            after[away] = level[away]
            level = self._level(slot, 0.0)
            away &= np.abs(level - before) > np.abs(farthest - before)
            farthest[away] = level[away]
            changes.counts[slot, CHANGE_PLACED] = self.judged
        changes.distances[slot] = self.drift.distances[channels].max()

    def _stands(self, slot: int) -> bool:
        """Whether a change has lasted, or was rejected: the stream is judged from where it is."""
        start, state = self.changes.counts[slot, [CHANGE_START, CHANGE_STATE]].tolist()
        lasts = self.judged - start >= STANDS * self.timing.review_length
        return bool(lasts or state == IS_REJECTED)

    def _place(self, slot: int, *, decided: bool = False) -> None:
        """Judge the stream from where the channels of a change are, for long or by decision."""
        changes, channels, state = self.changes, self.changes.channels[slot] != 0, self.channel
        if state is None or not channels.any():
            return
        ages = state.counts[:, AGE]
        standing = channels & (ages > 0)
        if not decided:
            standing &= ages >= STANDS * self.timing.review_length
        self._stand(standing)
        left = state.normal.homes[0]
        there = np.where(state.shifts != 0, state.levels - left, left - state.levels)
        moved = np.where(np.isnan(left), changes.after[slot] - changes.before[slot], there)
        shift = np.where(channels, moved, 0.0)
        age = self.judged - int(changes.counts[slot, CHANGE_START])
        if standing.any():  # what the members remember of it was hidden
            self.fitted.model.recall(self.state.model, self.state.observed, standing, shift, age)
            self.state.shadow = None
            age = 0
        for model in self._models:
            self.fitted.model.translate(model, slot, shift, age)

    def _moves_on(self, slot: int, channels: NDArray[np.bool_]) -> bool:
        """Whether a change is not where it was: still settling, or farther off than normal goes."""
        changes = self.changes
        start, placed = changes.counts[slot, [CHANGE_START, CHANGE_PLACED]].tolist()
        if placed < start + SETTLING:
            return True
        C = len(channels)
        lag = lag_index(self.judged - placed, len(self.range.params.max_drift))
        wander = self.range.params.max_drift[lag, C : 2 * C]
        away = np.abs(self.drift.levels - squeezed(changes.after[slot]))
        back = np.abs(self.drift.levels - squeezed(changes.before[slot])) < away
        return bool((channels & ~back & (away > wander)).any())

    # ------------------------------------------------------------------ decisions

    def accept(self, slot: int) -> list[Event]:
        """Accept a change as normal."""
        state, fitted = self.state, self.fitted
        start = int(self.changes.counts[slot, CHANGE_START])
        self._follow(slot)
        self._place(slot, decided=True)
        event = self._event(ACCEPTED, slot)
        assert event.change is not None
        events = [replace(event, change=replace(event.change, state=ACCEPTED))]
        ahead = self.range.extrapolated(self.judged - start)
        shadow = state.shadow
        positions: list[Floats] = []
        if shadow is not None:
            kept_from = len(shadow.positions) - shadow.counts[SHADOW_POSITIONS]
            positions = list(shadow.positions[kept_from:])
        alone = len(open_slots(self.changes)) == 1
        if shadow is not None and shadow.counts[SHADOW_TRAINS] and alone:
            state.model = copied(shadow.model)
            if shadow.counts[SHADOW_SCORES] == self.timing.scores:
                scores = ordered(shadow)  # a fault, rare among them, has no part in the median
                scores = log_scores(scores) if fitted.alarm.rate else scores
                self.threshold.lift(float(np.median(scores)))
        elif not fitted.model.translates:
            self._shift_trend(state.model, start)
        fitted.model.accept_translation(state.model, slot)
        self._accept_homes(self.changes.channels[slot] != 0)
        self._drop_observed()
        alarm = open_alarm(fitted, state.log)
        if alarm is not None and (alone or alarm.number == event.change.alarm):
            events = [*self._close_alarm(), *events]
        levels = state.alarm.levels
        if not fitted.model.translates:  # else the scores are soon as low as before
            levels[START_LOCATION] = max(levels[START_LOCATION], levels[LOCATION])
        explained, C = self._explained(slot), len(fitted.channels)
        beside = self.drift.position.copy()
        beside[:C] += explained
        self._free(slot, keep=True)
        self._keep_undo(event.change.number)
        # What others, still open, are about is not accepted with it.
        kept = self.drift.in_change != 0
        positions += [self.drift.position.copy(), ahead, beside]
        self.range.widen(positions, kept, explained)
        self._renew()
        return events

    def _accept_homes(self, channels: NDArray[np.bool_]) -> None:
        """Accept where channels are: the level that they left stays normal, too."""
        state = self.channel
        if state is None:
            return
        homes = state.normal.homes
        moved = channels & ~np.isnan(homes[0])
        homes[2:, moved], homes[1, moved] = homes[1:-1, moved], homes[0, moved]
        homes[0, channels] = np.nan
        state.shifts[channels] = 0
        values = state.recent[:, channels] + self._rhythm_level()[channels]
        normal = state.normal
        lows, highs = values.min(axis=0) - _MARGIN, values.max(axis=0) + _MARGIN
        normal.lows[channels] = np.minimum(normal.lows[channels], lows)
        normal.highs[channels] = np.maximum(normal.highs[channels], highs)
        state.counts[channels, OUTSIDE] = 0

    def _explained(self, slot: int) -> Floats:
        """Return by how much a change moves what is left unexplained of the other channels, (C,).

        Their levels did not follow it.
        """
        changes, channels = self.changes, self.changes.channels[slot] != 0
        moved = squeezed(changes.after[slot]) - squeezed(changes.before[slot])
        explained: Floats = self.range.params.unexplained @ np.where(channels, moved, 0.0)
        return np.where(channels, 0.0, explained)

    def accept_pattern(self, alarm: Alarm) -> list[Event]:
        """Accept samples like those of an alarm as normal; close it if it is open."""
        state, fitted = self.state, self.fitted
        if alarm.open and self._away().any():
            events = self._open(self._away(), alarm)
            return events + self.accept(open_slots(self.changes)[-1])
        self._keep_undo()
        channels = np.array([name in alarm.channels for name in fitted.channels])
        open_one = open_alarm(fitted, state.log)
        is_open = open_one is not None and open_one.number == alarm.number
        for model in self._models:
            fitted.model.accept_pattern(model, np.array(alarm.votes), channels, grows=is_open)
        if self.channel is not None:
            self._accept_values(alarm)
        events = self._close_alarm() if is_open else []
        state.accepted = self._present()
        state.last_quiet = copied(state.accepted)
        return events

    def _accept_values(self, alarm: Alarm) -> None:
        """Accept the levels that the channels of an alarm had where they were farthest out."""
        state, step, slot = self.channel, self.fitted.step, free_row(self.changes)
        assert state is not None
        shift = np.zeros(len(self.fitted.channels))
        for part in alarm.evidence:
            if part.ratio is None or part.observed is None or part.expected is None:
                continue
            c = self.fitted.channels.index(part.channel)
            values = np.array([part.observed, part.expected])
            with np.errstate(over="ignore"):
                value, expected = unsqueezed(squeezed((values - step.mean[c]) / step.scale[c]))
            shift[c] = away = value - expected
            homes, normal = state.normal.homes[:, c], state.normal
            homes[2:], homes[1] = homes[1:-1].copy(), unsqueezed(squeezed(state.levels[c] + away))
            normal.lows[c] = min(normal.lows[c], value)
            normal.highs[c] = max(normal.highs[c], value)
        if slot is not None and shift.any():
            for model in self._models:
                self.fitted.model.translate(model, slot, shift, 0)
                self.fitted.model.accept_translation(model, slot, stays=alarm.open)

    def _close_alarm(self, reason: str = ACCEPTED, change: int = 0) -> list[Event]:
        """Close the open alarm: what it is about is normal, or a change."""
        self.threshold.close()
        if self.channel is not None:
            self.channel.counts[:, AGE] = 0
        known = self.fitted, self.state.log, reason, self.judged - 1, self.time
        return close(*known, change)

    def reject(self, slot: int) -> list[Event]:
        """Go back to what was known before a change, and learn nothing while it lasts."""
        self.changes.counts[slot, CHANGE_STATE] = IS_REJECTED
        self._follow(slot)
        self._place(slot, decided=True)
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
        events = [self._event(REJECTED, slot), *self._close_changed()]
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

    def undo(self, past: Mapping[int, Change]) -> list[Event]:
        """Undo the newest acceptance; if it was of a change of the `past`, that is open again."""
        state = self.state
        if not state.undo:
            raise FeedbackError(
                "expected an accepted new normal to go back from, found none since `fit`",
                hint="`newnormal watch` with a new --state folder (reset()) goes back to what "
                "`fit` left",
            )
        *rest, back = state.undo
        state.undo = tuple(rest)
        number, *older = self.counts[ACCEPTED_CHANGES:].tolist()
        self.counts[ACCEPTED_CHANGES:] = [*older, 0]
        before = state.copy()
        self._restore(back)
        self.range.move(back.lows, back.highs)
        self.drift.start.clip(back.lows, back.highs, out=self.drift.start)
        self.levels[MOVED] = back.levels[MOVED_WEIGHTS]
        self._measure_weights()
        self._restart_timers()
        state.accepted, state.last_quiet = back, copied(back)
        self._follow_threshold()
        change, slot = past.get(number), free_row(self.changes)
        if change is None or slot is None:
            return [Event(UNDONE, self.judged - 1, self.time)]
        reopen(self.fitted, state, slot, change, before)
        return [self._event(UNDONE, slot)]

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
            remember(self.fitted, self.state, slot)
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
        if changes.counts[slot, CHANGE_KIND] == STANDS_STILL:  # it is over once they move again
            return bool((self.drift.unchanged_for[channels] < _MOVES_AGAIN).all())
        channel = self.channel
        if channel is not None and channel.counts[channels][:, [AGE, OUTSIDE]].any():
            return False
        before, after = (squeezed(each[slot]) for each in (changes.before, changes.after))
        levels = np.where(self._rhythm_level(), squeezed(self._level(slot)), self.drift.levels)
        moved, away = np.abs(after - before)[channels], np.abs(levels - before)[channels]
        near = (moved < _MOVED_LEVEL) | (away < moved / 2)
        return bool((self.drift.distances[channels] <= NEAR).all() and near.all())

    # ------------------------------------------------------------------ a review

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
        events += self._close_changed()
        if open_slots(self.changes, IS_PENDING):
            return events + self._wait()
        self.state.shadow = None
        if not open_slots(self.changes) and open_alarm(self.fitted, self.state.log) is None:
            self.state.last_quiet = self._present()
            self.range.mark()
        return events

    def _close_changed(self) -> list[Event]:
        """Close an alarm of which all that is left is a change."""
        channel, counts = self.channel, self.state.alarm.counts
        if channel is None or not counts[OPEN] or counts[AGE] or (channel.counts[:, AGE] > 0).any():
            return []
        own = self.changes.counts[:, CHANGE_ALARM] == self.state.log.counts[LOG_NUMBER]
        number = max(self.changes.counts[own, CHANGE_NUMBER], default=self.counts[NEWEST_CHANGE])
        return self._close_alarm(BECAME_CHANGE, int(number))

    def crossed(self) -> list[Event]:
        """Open the change of the channels that went beyond the limit at the newest sample."""
        own = slice(3 * len(self.drift.in_change), None)
        stuck = self.drift.position[own] - self.drift.highs[own] > self.range.params.margins[own]
        stuck &= self.drift.in_change == 0
        if stuck.any():
            return self._open(stuck, None, STANDS_STILL)
        main = self._about(self.drift.crossing)
        alarm = newest_alarm(self.fitted, self.state.log)
        if alarm is not None and alarm.open and self.state.channel is not None:
            beyond = self.state.log.ratios > 0
            main &= ~beyond  # of these a review decides whether they stay away
            if not main.any():
                return []
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
        alarm = newest_alarm(self.fitted, self.state.log)
        events: list[Event] = []
        weights = [s for s in open_slots(self.changes) if not self.changes.channels[s].any()]
        if self.levels[MOVES] > 1 and not weights:
            events += self._open(np.zeros(len(self.drift.in_change), np.bool_), None)
        if self.channel is not None:
            return events + self._stays_away(alarm)
        if alarm is None or not self._is_recent(alarm):
            return events
        outside = self.range.outside & (self.drift.in_change == 0)
        lasts = self.judged - alarm.start >= self.timing.review_length
        if lasts and outside.any() and self.drift.counts[DRIFT_SEEN] >= WARM:
            far = np.where(outside, np.maximum(self.drift.distances, self.drift.jumps), 0.0)
            events += self._open(self._about(far), alarm)
        return events

    def _away(self) -> NDArray[np.bool_]:
        """Return which channels have an episode, and are beyond their limits most of the time."""
        state, params = self.channel, self.fitted.channel
        if state is None or params is None:
            return np.zeros(len(self.fitted.channels), np.bool_)
        apart = np.abs(np.median(state.recent, axis=0) - state.levels)
        hidden = (state.counts[:, AGE] > 0) & (state.counts[:, HIDDEN] >= _MOSTLY)
        limits = np.where(state.counts[:, LASTING], params.lasting_limits, params.limits)
        return np.asarray((apart >= limits) & hidden)

    def _stays_away(self, alarm: Alarm | None) -> list[Event]:
        """Open the change of channels that stay away for long, or where history never was."""
        state, away = self.channel, self._away()
        assert state is not None
        lasting = state.counts[:, AGE] >= STANDS * self.timing.review_length
        events: list[Event] = []
        if (lasting & away & (self.drift.in_change == 0)).any():
            events += self._open(self._together(lasting & away), alarm)
        coming = np.flatnonzero(lasting & ~away)  # and going: it is a rougher channel for now
        state.raised[coming] = np.maximum(state.raised[coming], _ROUGHER)
        never = (state.counts[:, OUTSIDE] >= NEVER_SEEN) & (self.drift.in_change == 0)
        if never.any():
            is_open = alarm is not None and alarm.open
            events += self._open(self._together(never), alarm if is_open else None, NEVER_BEFORE)
        return events

    def _together(self, channels: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which channels of no change went away with these, in the same alarm."""
        starts = self.state.log.spans[:, 0]
        same = (starts >= 0) & (np.abs(starts - starts[channels].min()) <= GAP)
        return np.asarray((channels | (same & self._away())) & (self.drift.in_change == 0))

    def _about(self, far: Floats) -> NDArray[np.bool_]:
        """Return which channels a change is about: those that moved, or else the farthest.

        Where one moves, what it leaves unexplained of the others moves as well.
        """
        free = self.drift.in_change == 0
        channels: NDArray[np.bool_] = self.range.moved & free
        if not channels.any():
            channels[np.where(free, far, -1.0).argmax()] = True
        return channels

    def _open(
        self, channels: NDArray[np.bool_], alarm: Alarm | None, kind: int = MOVED_LEVEL
    ) -> list[Event]:
        """Open a change of these channels, which began with this alarm or now."""
        changes, slot, newest = self.changes, free_row(self.changes), self.judged - 1
        if alarm is None and kind != STANDS_STILL and channels.any():
            channels = channels & ~is_told(self.fitted, self.state, self.judged)
            if not channels.any():
                return []
        same = [
            row
            for row in open_slots(changes, IS_PENDING)
            if alarm is not None and changes.counts[row, CHANGE_ALARM] == alarm.number
        ]
        if slot is None or (same and kind == MOVED_LEVEL):
            row = (same or open_slots(changes, IS_PENDING) or open_slots(changes))[-1]
            return self._join(channels, row)
        self.counts[NEWEST_CHANGE] += 1
        start, time = newest, self.time
        still = self.drift.unchanged_for[channels]
        if alarm is not None:
            start, time = alarm.start, alarm.start_time
            self.counts[LAST_ALARM] = alarm.number
            if self.channel is not None and channels.any():
                age = int(self.channel.counts[channels, AGE].max())
                if 0 < age < self.judged - start:  # it joined an alarm of others
                    start, time = self._earlier(age - 1)
        if kind == STANDS_STILL:
            start, time = self._earlier(int(still.max()))
        number, cause = self.counts[NEWEST_CHANGE], 0 if alarm is None else alarm.number
        changes.counts[slot] = (number, start, newest, newest, IS_PENDING, cause, newest, kind)
        changes.times[slot] = ns_of_time(time)
        C = len(channels)
        changes.channels[slot] = channels
        before = self.drift.start[C : 2 * C]
        if alarm is None:  # it came slowly: from the border of what was normal
            own = slice(C, 2 * C)
            normal = self.drift.position[own].clip(self.drift.lows[own], self.drift.highs[own])
            before = np.where(normal != self.drift.position[own], normal, before)
        changes.before[slot] = self._without_rhythm(before + self.range.params.centre)
        if self.channel is not None:
            began = self.channel.counts[:, AGE] > 0
            changes.before[slot, began] = self.channel.before[began]
        changes.after[slot] = self._level(slot)
        changes.farthest[slot] = self._level(slot, 0.0)
        if kind == STANDS_STILL and self.state.channel is not None:
            stands_at = self._without_rhythm(self.drift.seen)[channels]
            changes.after[slot, channels] = changes.farthest[slot, channels] = stands_at
        moved = self.levels[MOVES] if not channels.any() else self.drift.distances[channels].max()
        changes.distances[slot] = moved
        self.drift.in_change[channels] = 1
        # What the changed channels left unexplained of the others is as it was before.
        others = np.flatnonzero(self.drift.in_change == 0)
        self.drift.position[others] = self.drift.start[others]
        if self.drift.counts[DRIFT_SEEN] >= WARM:
            measure(self.drift, self.range.params)
        return [self._event(CHANGED, slot, alarm)]

    def _earlier(self, samples: int) -> tuple[int, np.datetime64 | None]:
        """Return the sample that was so many before the newest, and its time by the period."""
        time = self.time
        if time is not None and self.fitted.period is not None:
            time = time - samples * self.fitted.period
        return self.judged - 1 - samples, time

    def _join(self, channels: NDArray[np.bool_], slot: int) -> list[Event]:
        """Give channels to a change that began with the same alarm, or if there is no room."""
        changes = self.changes
        changes.channels[slot] |= channels
        self.drift.in_change[channels] = 1
        if self.channel is not None:
            changes.before[slot, channels] = self.channel.before[channels]
            level = self._level(slot)[channels]
            changes.after[slot, channels] = changes.farthest[slot, channels] = level
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
