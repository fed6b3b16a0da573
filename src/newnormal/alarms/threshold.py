"""The alarm threshold of one stream: where it is, how it moves, and how often it is crossed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from newnormal.config import SAMPLES_PER_DAY
from newnormal.errors import InputError, ParameterError
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
    p_values,
    peaks,
    threshold_at,
)
from newnormal.kernels.decision import AGE
from newnormal.texts import number_text
from newnormal.types import Floats, Floats32, Ints
from newnormal.types.tables import NOT_NEGATIVE, Array, Scalar, first

if TYPE_CHECKING:
    from newnormal.core.state import Fitted

# Peaks the tail is fitted to: enough for a scale within a fifth, few enough to be the tail.
_PEAKS = 30
# From fewer peaks than this the tail's shape is not estimated.
_SHAPELY = 20
# Before any peak, the tail is taken to fall by 1/e in half a spread, and that prior weighs as
# much as three peaks: on twenty real streams the fitted scales were 0.2 to 2 spreads.
_PRIOR_SCALE = 0.5
_PRIOR_PEAKS = 3
# A negative shape would have an end beyond which nothing is possible, which no history proves;
# above a half, the variance is infinite and the moments do not determine the shape.
_SHAPES = (0.0, 0.5)


class Peaks(NamedTuple):
    """How many alarms history's scores would have raised, by the threshold's height.

    A height is a score in spreads above the location. Alarms are counted by the rule that will
    raise them, so that what is extrapolated is alarms and not samples. A state file has them: the
    limit of a live stream can be changed.

    Peaks over a threshold, declustered: Davison and Smith, Models for exceedances over high
    thresholds, JRSS B 52 (1990). Scale and shape by probability-weighted moments: Hosking and
    Wallis, Parameter and quantile estimation for the generalized Pareto distribution,
    Technometrics 29 (1987).
    """

    # location, spread: the scores' median, and their interquartile range as a standard deviation
    location: Annotated[float, Scalar(-1e300, 1e300)]
    spread: Annotated[float, Scalar(0, 1e300, above=True)]
    # heights from the third quartile up, and the alarms a sample that a threshold there, or the
    # best one above it, would have raised, (2, Q)
    counted: Annotated[Floats, Array(2, "Q", range=NOT_NEGATIVE)]
    # the height with the most alarms: below it they run into each other
    floor: Annotated[float, Scalar(0, 1e300, above=True)]
    # start, rate: where the tail begins, and how many alarms a sample reach it
    start: Annotated[float, Scalar(0, 1e300, above=True)]
    rate: Annotated[float, Scalar(0, 1, above=True)]
    # scale, shape: of the generalised Pareto distribution of peaks above `start`
    scale: Annotated[float, Scalar(0, 1e300, above=True)]
    shape: Annotated[float, Scalar(0, 1)]

    @classmethod
    def of(cls, scores: Floats, gap: int) -> Peaks:
        """Return the peaks of finite scores, in the order of time."""
        location, spread = _centre(scores)
        heights = (scores - location) / spread
        chances = np.concatenate([np.linspace(0.75, 0.98, 47), np.linspace(0.981, 1.0, 96)])
        levels = np.unique(np.quantile(heights, chances))
        levels = levels[levels > 0]
        if len(levels) == 0:  # no score is above the typical one
            levels = np.ones(1)
        room = np.empty(len(heights))
        counts = np.array([peaks(heights, level, gap, room) for level in levels.tolist()])
        best = np.maximum.accumulate(counts[::-1])[::-1]
        start = levels[np.flatnonzero(best >= min(_PEAKS, best[0]))[-1]]
        count = peaks(heights, float(start), gap, room)
        scale, shape = _pareto(room[:count] - start)
        return cls(
            location,
            spread,
            np.array([levels, best / len(heights)]),
            float(levels[np.flatnonzero(counts == best[0])[-1]]),
            float(start),
            # Even where nothing ever rose, the next sample may.
            max(count, 1) / len(heights),
            scale,
            shape,
        )

    def careful(self, rate: float) -> float:
        """Return the part of a limit of `rate` a sample that is used, where not all of it is.

        It is n / (n + 1) of it, where n is how many alarms the limit allows in these scores: the
        fewer, the less is known of the tail that they were to show.
        """
        allowed = _PEAKS * rate / self.rate
        return rate * allowed / (allowed + 1)

    def height(self, rate: float) -> float:
        """Return the height that alarms reach at `rate` a sample: counted, or extrapolated.

        Where no height has that many, the one with the most.
        """
        if rate >= self.rate:
            reached = np.flatnonzero(self.counted[1] >= rate)
            return float(self.counted[0, reached[-1]]) if len(reached) else self.floor
        times = self.rate / rate
        if self.shape == 0:
            return self.start + self.scale * math.log(times)
        return self.start + self.scale / self.shape * (math.pow(times, self.shape) - 1)


@dataclass(frozen=True, eq=False)
class Tail:
    """How likely a score this high is, judged by history's: a p-value.

    Within history it is the conformal p-value, the rank among history's scores; above the height
    that the highest peaks reach, the tail fitted to those, until that has no number above 0.

    >>> scores = np.random.default_rng(0).normal(size=2_000)
    >>> tail = Tail.of(scores)
    >>> tail.p_values(np.array([-9.0, 0.0, 3.0, 9.0])).round(3)
    array([1.   , 0.484, 0.001, 0.   ])

    Exceedances and cluster peaks share their limit distribution, so the tail of the peaks serves
    for all scores. Ranks are exchangeable only between like and like: history that the model was
    fitted on scores lower than the stream will, and the p-values are then too small until the
    location has followed.
    """

    # levels, chances: increasing scores, and the chance to reach each
    levels: Floats
    chances: Floats
    excess: Floats  # where the tail begins, the chance to reach it, and its scale and shape

    @classmethod
    def of(cls, scores: Floats, gap: int = 10) -> Tail:
        """Return the tail of history's scores; NaN is left out."""
        finite = known_scores(scores)
        return cls.beyond(finite, Peaks.of(finite, gap))

    @classmethod
    def beyond(cls, scores: Floats, fit: Peaks) -> Tail:
        """Return the tail of finite scores whose peaks are known already."""
        start = fit.location + fit.spread * fit.start
        ordered = np.sort(scores)
        knots = np.quantile(ordered, np.linspace(0, 1, KNOTS - 1), method="lower")
        levels = np.unique(np.append(knots[knots < start], start))
        chances = _ranks(ordered, levels)
        excess = np.array([start, chances[-1], fit.scale * fit.spread, fit.shape])
        return cls(levels, chances, excess)

    def p_values(self, scores: Floats) -> Floats:
        """Return the chance of each score, or of a higher one; NaN for NaN."""
        out = np.empty(len(scores))
        p_values(scores, self.levels, self.chances, self.excess, out)
        return out


def known_scores(scores: Floats) -> Floats:
    """Return history's scores without NaN, and infinite ones as the farthest finite.

    A score's logarithm is minus infinity where the model was exactly right.
    """
    scores = np.asarray(scores, dtype=np.float64)
    finite = scores[np.isfinite(scores)]
    if len(finite) == 0:
        raise InputError(
            f"expected history's scores, found {len(scores)} and none of them a number",
            hint="fit on history that can be judged: a sample needs at least one observed channel",
        )
    return np.clip(scores[~np.isnan(scores)], finite.min(), finite.max())


def _centre(scores: Floats) -> tuple[float, float]:
    """Return location and spread; scores that are all the same keep a spread of 1."""
    low, location, high = np.quantile(scores, [0.25, 0.5, 0.75]).tolist()
    # 1.349: the interquartile range of a normal distribution of standard deviation 1.
    spread = (high - low) / 1.349 or float(scores.std())
    # A spread that the location's rounding swallows is none.
    return location, spread if spread > 1e-9 * abs(location) else 1.0


def _pareto(excesses: Floats) -> tuple[float, float]:
    """Return scale and shape of excesses over a threshold, in spreads."""
    count = len(excesses)
    shape = 0.0
    if count >= _SHAPELY:
        ordered = np.sort(excesses)
        exceeded = 1 - (np.arange(1, count + 1) - 0.35) / count
        first, second = float(ordered.mean()), float((ordered * exceeded).mean())
        if first > 2 * second:
            shape = float(np.clip(2 - first / (first - 2 * second), *_SHAPES))
    mean = (float(excesses.sum()) + _PRIOR_PEAKS * _PRIOR_SCALE) / (count + _PRIOR_PEAKS)
    return mean * (1 - shape), shape


def _ranks(ordered: Floats, levels: Floats) -> Floats:
    """Return the conformal p-value of each level: its rank from above, itself counted."""
    reached = len(ordered) - np.searchsorted(ordered, levels, side="left")
    return (reached + 1) / (len(ordered) + 1)


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
