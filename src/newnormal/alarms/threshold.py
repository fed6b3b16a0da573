"""The alarm threshold of one stream: where it is, how it moves, and how often it is crossed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from newnormal.alarms.tail import Tail
from newnormal.config import SAMPLES_PER_DAY
from newnormal.errors import ParameterError
from newnormal.kernels.alarm import (
    ALARMS,
    HEIGHT,
    KNOTS,
    LOCATION,
    OPEN,
    RECENT_ALARMS,
    RECENT_SAMPLES,
    SEEN,
    START_HEIGHT,
    START_LOCATION,
    AlarmOut,
    AlarmParams,
    AlarmState,
    judge,
    judge_scores,
    threshold_at,
)
from newnormal.kernels.decision import AGE
from newnormal.texts import number_text
from newnormal.types import Floats, Floats32, Ints
from newnormal.types.tables import first

if TYPE_CHECKING:
    from newnormal.core.state import Fitted


@dataclass(frozen=True)
class AlarmRate:
    """Alarms so far, beside the limit; rates are alarms a day, NaN before the first sample."""

    # alarms, samples: alarms opened, and samples that had a score
    alarms: int
    samples: int
    per_day: float  # the rate over all of them
    # the rate over about the last seven days: what lies that far back counts 1/e
    recent_per_day: float
    limit_per_day: float  # the limit; NaN where there is none

    def __str__(self) -> str:
        plural = "" if self.alarms == 1 else "s"
        text = f"{self.alarms:,} alarm{plural} in {self.samples:,} samples"
        if self.samples:
            rate, lately = map(number_text, (self.per_day, self.recent_per_day))
            text += f": {rate} a day, {lately} a day lately"
        if not math.isnan(self.limit_per_day):
            text += f"; limit on false ones: {number_text(self.limit_per_day)} a day"
        return text


class AlarmThreshold(NamedTuple):
    """A threshold and the alarms it opens: scores in, alarms out.

    `newnormal.thresholds.Budget.calibrate` makes one that is held to a limit, `AlarmThreshold.at`
    one that stays where it is. Where there is a limit, scores are logarithms of the detector's.
    """

    params: AlarmParams  # what fitting left
    chances: Floats  # (KNOTS,) the chance to reach each of state.tail_levels
    state: AlarmState  # what changes while a stream runs

    @classmethod
    def of(cls, params: AlarmParams, height: float, tail: Tail) -> AlarmThreshold:
        """Return a threshold at its start, at a height above the location."""
        knots = len(tail.levels)
        tail_levels, chances = np.full(KNOTS, np.inf), np.zeros(KNOTS)
        tail_levels[:knots], chances[:knots] = tail.levels, tail.chances
        state = first(
            AlarmState,
            {},
            levels=start_levels(params.location, height),
            tail_levels=tail_levels,
            tail_excess=tail.excess.copy(),
        )
        return cls(params, chances, state)

    @property
    def knots(self) -> int:
        """How many of the levels of the tail are known."""
        return int(np.isfinite(self.state.tail_levels).sum())

    @classmethod
    def at(
        cls,
        threshold: float,
        scores: Floats,
        *,
        gap: int = 10,
        samples_per_day: float = SAMPLES_PER_DAY,
    ) -> AlarmThreshold:
        """Return a threshold that stays; p-values come from history's `scores`.

        Its ratio is the score over the threshold, so these are scores and not their logarithms.

        >>> threshold = AlarmThreshold.at(4.0, np.ones(100))
        >>> threshold.judge(np.array([2.0, 6.0])).ratios
        array([0.5, 1.5])
        """
        params = AlarmParams(
            location=0.0,
            spread=1.0,
            rate=0.0,
            step=0.0,
            gap=float(gap),
            stand=math.inf,
            day=float(samples_per_day),
        )
        return cls.of(params, float(threshold), Tail.of(scores, gap))

    @classmethod
    def of_stream(cls, fitted: Fitted, state: AlarmState) -> AlarmThreshold:
        """Return the threshold of a fitted detector in a state, which it shares."""
        return cls(fitted.alarm, fitted.tail_chances, state)

    @property
    def threshold(self) -> float:
        """What the next score will be compared with."""
        levels = self.state.levels
        return float(threshold_at(levels[LOCATION], self.params.spread, levels[HEIGHT]))

    @property
    def threshold_score(self) -> float:
        """The same as a score of the detector."""
        return self._as_score(self.threshold)

    @property
    def typical_score(self) -> float:
        """`typical` as a score of the detector."""
        return self._as_score(self.typical)

    def _as_score(self, level: float) -> float:
        return float(np.exp(level)) if self.params.rate else level

    @property
    def typical(self) -> float:
        """The score that is typical: half of them are higher."""
        return float(self.state.levels[LOCATION]) if self.params.rate else self._tail_median()

    @property
    def alarm(self) -> int:
        """The number of the open alarm, or 0."""
        return int(self.state.counts[OPEN])

    @property
    def age(self) -> int:
        """How many samples ago the open alarm opened; 0 where none is open."""
        return max(int(self.state.counts[AGE]) - 1, 0) if self.alarm else 0

    @property
    def alarm_rate(self) -> AlarmRate:
        """How often alarms opened, beside the limit."""
        levels, counts = self.state.levels, self.state.counts
        per_day = self.params.day
        seen, recent = int(counts[SEEN]), float(levels[RECENT_SAMPLES])
        return AlarmRate(
            int(counts[ALARMS]),
            seen,
            int(counts[ALARMS]) / seen * per_day if seen else math.nan,
            float(levels[RECENT_ALARMS]) / recent * per_day if recent else math.nan,
            self.params.rate * per_day if self.params.rate else math.nan,
        )

    def judge(self, scores: Floats) -> AlarmOut:
        """Judge the scores of consecutive samples and follow them."""
        scores = np.ascontiguousarray(scores, dtype=np.float64)
        return judge(scores, self.state, self.params, self.chances)

    def close(self) -> None:
        """Close the open alarm, if there is one.

        A score that is still at the threshold opens the next one.
        """
        self.state.counts[[OPEN, AGE]] = 0

    def lift(self, typical: float) -> None:
        """Raise the threshold for good, if this is the typical score now and it was lower."""
        state = self.state
        if self.params.rate:
            lifted = max(float(state.levels[START_LOCATION]), typical)
            state.levels[[LOCATION, START_LOCATION]] = lifted
        elif typical > self._tail_median() > 0:
            factor = typical / self._tail_median()
            state.tail_levels[: self.knots] *= factor
            start, chance, scale, shape = state.tail_excess.tolist()
            state.tail_excess[:] = factor * start, chance, factor * scale, shape
            state.levels[START_HEIGHT] *= factor
            state.levels[HEIGHT] *= factor

    def _tail_median(self) -> float:
        """Return the score that half of history's reach."""
        used = slice(self.knots)
        return float(np.interp(0.5, self.chances[used][::-1], self.state.tail_levels[used][::-1]))


def start_levels(location: float, height: float) -> Floats:
    """Return AlarmState.levels before the first score."""
    levels = np.zeros(7)
    levels[[LOCATION, START_LOCATION]] = location
    levels[[HEIGHT, START_HEIGHT]] = height
    return levels


def threshold_of(rule: Any, moving: Floats) -> float:
    """Return where a `MovingThreshold` puts the threshold, if that is a number."""
    level = float(rule.threshold(moving))
    if math.isnan(level):
        raise ParameterError(
            f"threshold: expected a number from {type(rule).__name__}.threshold, found NaN",
            hint="it must return the score from which on a sample is anomalous, whatever the state",
        )
    return level


def judge_moving(
    rule: Any,
    moving: Floats,
    scores: Floats,
    channels: Floats32,
    episodes: Ints,
    state: AlarmState,
    params: AlarmParams,
    chances: Floats,
    out: AlarmOut,
) -> None:
    """Judge as `newnormal.kernels.alarm.judge_scores` does, and update the rule after each score.

    `params` are those of a threshold that stays; `moving` is the rule's own state. The order within
    a sample: the rule puts the threshold, the score is judged, the rule updates its state.
    """
    for t in range(len(scores)):
        state.levels[HEIGHT] = threshold_of(rule, moving)
        row = slice(t, t + 1)
        part = AlarmOut._make(column[row] for column in out)
        judge_scores(scores[row], channels[row], episodes[row], state, params, chances, part)
        if not np.isnan(scores[t]):
            rule.update(moving, float(scores[t]), bool(part.anomalous[0]))
    state.levels[HEIGHT] = threshold_of(rule, moving)
