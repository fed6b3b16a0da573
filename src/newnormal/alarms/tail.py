"""The tail of history's scores: how likely a score is, and how often alarms reach it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np

from newnormal.errors import InputError
from newnormal.kernels.alarm import KNOTS, p_values, peaks
from newnormal.types import Floats
from newnormal.types.tables import NOT_NEGATIVE, Array, Scalar

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
