"""One stream under review: what is normal now, and the way back to what was."""

from __future__ import annotations

import numpy as np

from newnormal.acceptance.changes import open_change, open_slots
from newnormal.acceptance.range import NormalRange
from newnormal.acceptance.shadow import (
    Timing,
)
from newnormal.alarms.log import log_scores
from newnormal.alarms.threshold import AlarmThreshold
from newnormal.core.scaling import saturate
from newnormal.core.state import Fitted, StreamState, copied
from newnormal.kernels.alarm import HEIGHT, LOCATION, START_HEIGHT, START_LOCATION
from newnormal.kernels.drift import SEEN as DRIFT_SEEN
from newnormal.kernels.drift import (
    WARM,
    measure,
    weights_moved,
)
from newnormal.kernels.stream import (
    CHANGE_SINCE,
    FARTHEST_WEIGHTS,
    IS_PENDING,
    MOVED,
    MOVES,
    WEIGHTS_LIMIT,
    Baseline,
    ModelState,
)
from newnormal.types import (
    Alarm,
    Event,
    Floats,
)

# Positions in Baseline.levels.
KEPT_LEVELS = [LOCATION, HEIGHT, START_HEIGHT, START_LOCATION]
MOVED_WEIGHTS = len(KEPT_LEVELS)

KEPT = 3  # baselines that one can go back to


class Reviewed:
    """One stream while it is reviewed, or while a person acts on it."""

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
        self.drift.owned[channels] = 0
        self.changes.counts[slot] = 0
        self.changes.channels[slot] = 0
        if not keep:
            for model in self._models:
                self.fitted.model.drop_translation(model, slot)
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
        self.changes.counts[pending, CHANGE_SINCE] = self.judged
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
        alarm.levels[KEPT_LEVELS] = back.levels[:MOVED_WEIGHTS]

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
