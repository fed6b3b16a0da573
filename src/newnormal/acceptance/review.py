"""One review of a stream: accept what is stable, go back where a person rejects it.

`newnormal.acceptance.policy` has the order of things and the times of reviews.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from newnormal.acceptance.range import NormalRange
from newnormal.alarms.log import close, log_scores, mark, open_alarm
from newnormal.alarms.threshold import AlarmThreshold
from newnormal.core.scaling import saturate
from newnormal.core.state import Baseline, Fitted, ModelState, Shadow, StreamState, copied
from newnormal.errors import FeedbackError
from newnormal.kernels.alarm import HEIGHT, LOCATION, START_HEIGHT
from newnormal.kernels.drift import NEAR, weights_moved
from newnormal.types import (
    ACCEPTED,
    CANDIDATE,
    DISTANCE,
    IN_ALARM,
    REJECTED,
    Alarm,
    AlarmEvent,
    Floats,
)

__all__ = ["KEPT", "Review", "Timing", "blank_shadow", "ordered"]

# Positions in ReviewState.counts.
REVIEWS = 0  # since fit
NUMBER = 1  # of the alarm that all this is about; 0 for none
SINCE = 2  # the sample at which its acceptance timer started; -1: at the alarm's start
FROZEN = 3  # 1 while trend and weights are held, after a rejection

# Positions in ReviewState.levels.
MOVED = 0  # how far the weights had moved when normal was last accepted, in their own length
MOVES = 1  # how far they have moved since; 1 is the limit

# Positions in Shadow.counts.
TRAINS = 0  # 1 once the shadow's model learns
SCORES = 1  # scores kept, of all that the ring holds
NEXT = 2  # where the next one goes
POSITIONS = 3  # positions kept

# Positions in Baseline.levels.
_LOCATION, _HEIGHT, _START_HEIGHT, _MOVED = range(4)

_SHADOWED = 0.25  # of `accept_after`, after which an alarm gets a shadow
# What is predictable scores below the threshold most of the time; or, where that is low, below this
# many times what was typical: for eight days one real stream has a normal that scores ten times so.
_PREDICTABLE = 20.0
_STABLE = 0.9  # of the shadow's newer scores are no higher than all of its older ones
KEPT = 3  # baselines that one can go back to
# The weights may move by half their own length. Learning at the rates that are chosen from
# history moved them by less than a fifth of it on each of twenty real streams.
_LIMIT = 0.5
_FARTHEST = 1e9  # reported of weights that have left all bounds: JSON has no infinity


class Timing(NamedTuple):
    """How long things take, in samples."""

    accept_after: float  # before which nothing is accepted without a person; infinity: never
    review_length: int  # samples between reviews
    scores: int  # that a shadow keeps
    positions: int  # that a shadow keeps, one a review


class Review:
    """One review of one stream, or one act of a person, and what it changes."""

    def __init__(
        self,
        timing: Timing,
        fitted: Fitted,
        state: StreamState,
        time: np.datetime64 | None,
    ) -> None:
        assert fitted.drift is not None and state.drift is not None and state.review is not None
        self.timing = timing
        self.fitted = fitted
        self.state = state
        self.time = time  # of the newest sample that has a verdict
        self.counts = state.review.counts
        self.levels = state.review.levels
        self.range = NormalRange(fitted.drift, state.drift)
        self.judged = state.judged

    @property
    def alarm(self) -> Alarm | None:
        """The open alarm, or None."""
        return open_alarm(self.state.log, self.fitted.channels)

    @property
    def threshold(self) -> AlarmThreshold:
        """The stream's alarm threshold; it shares the state."""
        return AlarmThreshold.of_stream(self.fitted, self.state.alarm)

    @property
    def distance(self) -> float:
        """How far stream or weights are from the accepted normal; 1 is the limit."""
        return max(self.range.distance, float(self.levels[MOVES]))

    @property
    def outside(self) -> bool:
        """Whether stream or weights are outside the accepted normal."""
        return self.range.outside or bool(self.levels[MOVES] > NEAR)

    # ------------------------------------------------------------------ the review

    def review(self) -> list[AlarmEvent]:
        """Review the open alarm and accept it if it has been stable long enough."""
        self.counts[REVIEWS] += 1
        self._measure_weights()
        alarm = self.alarm
        if alarm is None:
            self.counts[FROZEN] = 0
            self._forget()
            self.state.last_quiet = self._present()
            self.range.mark()
            return []
        if alarm.number != self.counts[NUMBER]:  # the one before was closed since the last review
            self.counts[FROZEN] = 0
            self._forget()
            self.counts[NUMBER] = alarm.number
        if alarm.state == REJECTED:
            self._keep_frozen(alarm)
            return []
        shadow = self._track(alarm)
        since = int(self.counts[SINCE])
        age = self.judged - (alarm.start if since < 0 else since)
        if not shadow.counts[TRAINS]:
            if age >= _SHADOWED * self.timing.accept_after:
                self._start_shadow(shadow, alarm)
            return []
        settled = self._is_settled(shadow)
        events = self._mark(CANDIDATE if settled else IN_ALARM)
        if settled and age >= self.timing.accept_after:
            events += self.accept()
        return events

    def _track(self, alarm: Alarm) -> Shadow:
        """Keep the position; restart the timer where the stream has gone elsewhere."""
        position = self.range.extrapolated(self.judged - alarm.start)
        restarts = self.outside and self.counts[SINCE] < 0
        shadow = self.state.shadow
        if shadow is not None and shadow.counts[POSITIONS]:
            last = shadow.positions[-1]
            restarts = restarts or self.range.jumped(last, position, self.timing.review_length)
        if restarts:
            self._restart_timer(self.judged)
        if self.state.shadow is None:
            width = len(self.range.state.lows)
            self.state.shadow = blank_shadow(copied(self.state.model), self.timing, width)
        shadow = self.state.shadow
        shadow.positions[:-1] = shadow.positions[1:]
        shadow.positions[-1] = position
        shadow.counts[POSITIONS] = min(shadow.counts[POSITIONS] + 1, len(shadow.positions))
        return shadow

    def _start_shadow(self, shadow: Shadow, alarm: Alarm) -> None:
        """Copy the running model into the shadow, which learns from here on."""
        shadow = shadow._replace(model=copied(self.state.model))
        shadow.counts[TRAINS] = 1
        self.state.shadow = shadow
        self._shift_trend(shadow.model, alarm)

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

    def accept(self) -> list[AlarmEvent]:
        """Accept what the open alarm is about as normal, and close it."""
        state, fitted = self.state, self.fitted
        alarm = self._open("accept")
        if alarm.number != self.counts[NUMBER]:
            self._forget()
        ahead = self.range.extrapolated(self.judged - alarm.start)
        shadow = state.shadow
        positions: list[Floats] = []
        if shadow is not None:
            positions = list(shadow.positions[len(shadow.positions) - shadow.counts[POSITIONS] :])
        if shadow is None or not shadow.counts[TRAINS]:
            # Nothing has learned it yet: its level, at least, is known.
            self._shift_trend(state.model, alarm)
        else:
            state.model = copied(shadow.model)
            if shadow.counts[SCORES] == self.timing.scores:
                self._raise_threshold(ordered(shadow))
        self.threshold.close()
        events = close(state.log, fitted.channels, ACCEPTED, self.judged - 1, self.time)
        assert state.last_quiet is not None
        state.undo = (*state.undo, copied(state.last_quiet))[-KEPT:]
        self.range.widen([*positions, self.range.state.position.copy(), ahead])
        self.levels[MOVED] = self._weights_moved(state.model)
        self.levels[MOVES] = 0.0
        self.counts[FROZEN] = 0
        self._forget()
        state.accepted = self._present()
        state.last_quiet = copied(state.accepted)
        self.range.mark()
        self._follow_threshold()
        return events

    def reject(self) -> list[AlarmEvent]:
        """Go back to what was known before the open alarm, and freeze it."""
        alarm = self._open("reject")
        timed = alarm.number == self.counts[NUMBER] and self.counts[SINCE] >= 0
        self._forget()
        self.counts[NUMBER] = alarm.number
        self.counts[SINCE] = self.judged if timed or self.outside else -1
        self._go_back(alarm)
        return self._mark(REJECTED)

    def rollback(self) -> list[AlarmEvent]:
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
        self._forget()
        state.accepted, state.last_quiet = back, copied(back)
        alarm = self.alarm
        events: list[AlarmEvent] = []
        if alarm is not None:
            self.counts[NUMBER] = alarm.number
            if alarm.state == CANDIDATE:
                events = self._mark(IN_ALARM)
        self._follow_threshold()
        return events

    def _go_back(self, alarm: Alarm) -> None:
        """Restore what was known before the alarm, and freeze it."""
        # What drifts too slowly to stand out was learned long before its alarm.
        back = self.state.last_quiet
        if alarm.cause == DISTANCE:
            back = self.state.accepted or self.fitted.baseline
        assert back is not None
        self._restore(back)
        self.counts[FROZEN] = 1
        self._measure_weights()

    def _keep_frozen(self, alarm: Alarm) -> None:
        """Learn nothing while a rejected alarm lasts, except to come back when the stream does."""
        if not self.outside:
            # Of what was never outside, only the score shows the end.
            self.counts[FROZEN] = self.counts[SINCE] < 0
        elif not self.counts[FROZEN]:  # it was not over: what was learned since is undone
            self._go_back(alarm)
        if self.outside and self.counts[SINCE] < 0:
            self.counts[SINCE] = self.judged

    # ------------------------------------------------------------------ inside

    def _open(self, act: str) -> Alarm:
        alarm = self.alarm
        if alarm is None:
            raise FeedbackError(
                f"expected an open alarm to {act}, found none",
                hint="`rollback` undoes the newest acceptance",
            )
        return alarm

    def _mark(self, state: str) -> list[AlarmEvent]:
        return mark(self.state.log, self.fitted.channels, state, self.judged - 1, self.time)

    def _forget(self) -> None:
        """Forget the alarm, its timer and its shadow."""
        self.counts[NUMBER] = 0
        self._restart_timer(-1)

    def _restart_timer(self, since: int) -> None:
        """Restart the acceptance timer at `since` (-1: the alarm's start)."""
        self.counts[SINCE] = since
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
        kept = (*alarm.levels[[LOCATION, HEIGHT, START_HEIGHT]], self.levels[MOVED])
        return copied(
            Baseline(
                weights,
                trend,
                drift.lows,
                drift.highs,
                alarm.tail_levels,
                alarm.tail_excess,
                np.array(kept),
            )
        )

    def _restore(self, back: Baseline) -> None:
        """Restore what the model knew, and what scores were compared with; counters stay."""
        self.fitted.model.restore_learned(self.state.model, back.weights, back.trend)
        alarm = self.state.alarm
        alarm.tail_levels[:] = back.tail_levels
        alarm.tail_excess[:] = back.tail_excess
        alarm.levels[[LOCATION, HEIGHT, START_HEIGHT]] = back.levels[:_MOVED]

    def _shift_trend(self, model: ModelState, alarm: Alarm) -> None:
        """Shift the trend to where it would be in the end, given where the stream is going."""
        fitted, step = self.fitted, self.fitted.step
        if step.decay == 1:
            return
        since = self.judged - alarm.start
        age = 0 if self.counts[FROZEN] else since
        ahead = self.range.extrapolated(since)
        with np.errstate(over="ignore"):  # a channel whose scale is next to nothing
            jump: Floats = (self.range.level(ahead) - self.range.level(self.range.state.start)) / (
                step.scale
            )
        # So far out that the range measures no more in full, the newest samples are better.
        samples = model.step.samples
        out = self.range.beyond(ahead) & ~np.isnan(samples).all(axis=0)
        jump[out] = 0
        fitted.model.shift_trend(model, saturate(jump), age, step.decay)
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


def blank_shadow(model: ModelState, timing: Timing, width: int) -> Shadow:
    """Return a shadow that has kept nothing yet; positions are `width` wide."""
    scores = timing.scores if math.isfinite(timing.accept_after) else 1  # it never trains
    return Shadow(
        model, np.zeros(scores), np.zeros((timing.positions, width)), np.zeros(4, np.int64)
    )


def ordered(shadow: Shadow) -> Floats:
    """Return the shadow's scores, the newest last."""
    count, at = shadow.counts[[SCORES, NEXT]].tolist()
    if count < len(shadow.scores):
        return shadow.scores[:count].copy()
    return np.roll(shadow.scores, -at)
