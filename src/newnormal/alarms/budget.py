"""A threshold held to a budget of alarms while the scores drift."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from newnormal.alarms.tail import Peaks, Tail, known_scores
from newnormal.config import MINUTES
from newnormal.errors import ParameterError
from newnormal.kernels.budget import (
    AGE,
    ALARMS,
    HEIGHT,
    LOCATION,
    OPEN,
    PEAK,
    RECENT_ALARMS,
    RECENT_SAMPLES,
    SEEN,
    Marks,
    Standing,
    Terms,
    hold,
    threshold_at,
)
from newnormal.types import Floats, Ints

__all__ = ["Budget", "Gauge", "Judged", "Realised", "check_target"]

# An alarm raises the threshold by half a spread. What the budget is overdrawn by when the scores
# rise for good is how far they rise over this; from a quarter to one, the realised rates of
# twenty real streams hardly differed.
_STEP = 0.5
# One ordinary alarm in twenty peaks so high as to pass for severe.
_RARE = 0.05
# The location follows by one spread a day at most: days of drift, not hours of a fault.
_DAILY_PACE = 1.0
# The threshold may sink to half the height with the most alarms in history: scores may have become
# calmer since, but where alarms run into each other, lowering it only makes fewer.
_FLOOR = 0.5
_RECENT_DAYS = 7  # that the recent rate is about
_NOWHERE = np.zeros(0, np.int8)


@dataclass(frozen=True)
class Budget:
    """How many alarms normal operation may raise: a target, and the rule to hold a threshold to it.

    The budget is for alarms without a cause. A fault's alarm is raised whatever has been spent,
    and one that stands out as no normal score does costs little of it.

    Parameters
    ----------
    alarms_per_day
        Alarms a day, on average.
    risk
        Instead: the chance that an alarm opens at any one sample.
    samples_per_day
        How many samples a day has; the default is one a minute.
    gap
        Samples of quiet that end an alarm. More of them make fewer, longer alarms; a budget that
        leaves less than about five gaps between alarms cannot be met, and is fallen short of.
    accept_after
        Samples for which an alarm keeps the threshold from moving, however high its scores;
        infinity: for as long as it is open.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> gauge = Budget(alarms_per_day=3).calibrate(rng.normal(size=3 * 1440))
    >>> judged = gauge.judge(rng.normal(size=14 * 1440) + 1)
    >>> print(gauge.realised)
    44 alarms in 20160 samples: 3.14 a day, 3.14 a day lately, 3 a day budgeted

    Notes
    -----
    Scores must be on a scale where distances mean the same everywhere: logarithms of squared
    residuals, or their standardised mean.

    The threshold starts where history's peaks, declustered and extrapolated by a generalised
    Pareto tail (`Peaks`), reach it at the target rate. From there on it moves as the level of
    adaptive conformal inference does (Gibbs and Candès, Adaptive conformal inference under
    distribution shift, NeurIPS 2021), but by alarms instead of samples: with a step g, alarms at
    a full charge over T samples out of alarm differ from rate · T by (h(T) - h(0)) / g, where h
    is the threshold's height above the scores' running median.
    """

    alarms_per_day: float | None = None
    risk: float | None = None
    samples_per_day: float = MINUTES
    gap: int = 10
    accept_after: float = MINUTES

    def __post_init__(self) -> None:
        check_target(self.alarms_per_day, self.risk)
        if not _is_number(self.samples_per_day) or not 0 < self.samples_per_day < math.inf:
            raise ParameterError(
                f"samples_per_day: expected a number above 0, found {self.samples_per_day!r}",
                hint="1440 for one sample a minute",
            )
        if self.alarms_per_day is not None and self.alarms_per_day >= self.samples_per_day:
            raise ParameterError(
                f"alarms_per_day: expected less than the {self.samples_per_day:g} samples a day, "
                f"found {self.alarms_per_day!r}",
                hint="1 is an alarm a day; 0.1 is one in ten days",
            )
        if not _is_number(self.gap) or self.gap < 1 or self.gap % 1 != 0:
            raise ParameterError(
                f"gap: expected a whole number of samples, 1 or more, found {self.gap!r}",
                hint="an alarm ends after this many samples of quiet",
            )
        if not _is_number(self.accept_after) or not self.accept_after >= 1:
            raise ParameterError(
                f"accept_after: expected a number of samples, 1 or more, "
                f"found {self.accept_after!r}",
                hint="1440 is a day of one sample a minute; infinity never follows an alarm",
            )

    @property
    def rate(self) -> float:
        """The target in alarms a sample."""
        if self.risk is not None:
            return float(self.risk)
        return float(self.alarms_per_day or 0.0) / self.samples_per_day

    def fit(self, scores: Floats) -> float:
        """Return the threshold that history's scores give: the start of the one held."""
        return self.calibrate(scores).threshold

    def calibrate(self, scores: Floats) -> Gauge:
        """Return a gauge at its start, given history's scores in the order of time.

        Any number of scores will do. With few of them the threshold is guessed: as far above the
        highest as a tail that falls by 1/e in half a spread takes to reach the target. Scores
        that are all the same have a spread of 1. NaN is left out.
        """
        known = known_scores(scores)
        fit = Peaks.of(known, self.gap)
        height = fit.height(self.rate)
        terms = Terms(
            location=fit.location,
            spread=fit.spread,
            height=height,
            floor=_FLOOR * fit.floor,
            severe=fit.height(_RARE * min(self.rate, fit.rate)) - height,
            rate=self.rate,
            step=_STEP,
            pace=_DAILY_PACE / self.samples_per_day,
            gap=float(self.gap),
            accept_after=float(np.ceil(self.accept_after)),
            span=_RECENT_DAYS * float(self.samples_per_day),
        )
        return Gauge(terms, Tail.beyond(known, fit))

    def to_json(self) -> dict[str, Any]:
        """Return the budget as values JSON knows."""
        return {
            "alarms_per_day": self.alarms_per_day,
            "risk": self.risk,
            "samples_per_day": float(self.samples_per_day),
            "gap": self.gap,
            "accept_after": None if math.isinf(self.accept_after) else float(self.accept_after),
        }

    @classmethod
    def from_json(cls, budget: Mapping[str, Any]) -> Budget:
        """Return what `to_json` was made from."""
        accept_after = budget["accept_after"]
        return replace(
            cls(**{**budget, "accept_after": 1}),
            accept_after=math.inf if accept_after is None else accept_after,
        )


@dataclass(frozen=True, eq=False)
class Judged:
    """What a gauge says of consecutive scores: one row a score.

    Attributes
    ----------
    scores, thresholds
        The scores, and what each was compared with.
    ratios
        0 for a score that is typical now, 1 at the threshold, below 0 for a lower score than is
        typical; NaN without a score.
    p_values
        The chance of such a score or a higher one, as the threshold stands.
    alarms
        The number of the open alarm, counted from 1; 0 where none is open.
    first
        The sample number of the first row.
    away
        As it was handed in.
    """

    scores: Floats
    thresholds: Floats
    ratios: Floats
    p_values: Floats
    alarms: Ints
    first: int = 0
    away: NDArray[np.int8] | None = None

    def __len__(self) -> int:
        return len(self.scores)


@dataclass(frozen=True)
class Realised:
    """Alarms so far, beside the target; rates are alarms a day, NaN before the first sample.

    Attributes
    ----------
    alarms, samples
        Alarms opened, and samples that had a score.
    per_day
        The rate over all of them.
    recent_per_day
        The rate over about the last seven days: what lies that far back counts 1/e.
    target_per_day
        The budget; NaN where there is none.
    """

    alarms: int
    samples: int
    per_day: float
    recent_per_day: float
    target_per_day: float

    def __str__(self) -> str:
        text = f"{self.alarms} alarm{'' if self.alarms == 1 else 's'} in {self.samples} samples"
        if self.samples:
            text += f": {self.per_day:.3g} a day, {self.recent_per_day:.3g} a day lately"
        if not math.isnan(self.target_per_day):
            text += f", {self.target_per_day:.3g} a day budgeted"
        return text


class Gauge:
    """A threshold and the alarms it raises, live: scores in, judgements out.

    `Budget.calibrate` makes one that follows the stream, `Gauge.at` one that stays where it is.

    Attributes
    ----------
    terms
        What calibration left.
    tail
        Where p-values come from.
    standing
        What changes while a stream runs; arrays.
    """

    def __init__(self, terms: Terms, tail: Tail, standing: Standing | None = None) -> None:
        self.terms = terms
        self.tail = tail
        self.standing = _fresh(terms) if standing is None else standing

    @classmethod
    def at(
        cls, threshold: float, scores: Floats, *, gap: int = 10, samples_per_day: float = MINUTES
    ) -> Gauge:
        """Return a gauge whose threshold stays; p-values come from history's `scores`.

        Its ratio is the score over the threshold, so these are scores and not their logarithms.

        Examples
        --------
        >>> gauge = Gauge.at(4.0, np.ones(100))
        >>> gauge.judge(np.array([2.0, 6.0])).ratios
        array([0.5, 1.5])
        """
        terms = Terms(
            location=0.0,
            spread=1.0,
            height=float(threshold),
            floor=-math.inf,
            severe=math.inf,
            rate=0.0,
            step=0.0,
            pace=0.0,
            gap=float(gap),
            accept_after=math.inf,
            span=_RECENT_DAYS * float(samples_per_day),
        )
        return cls(terms, Tail.of(scores, gap))

    @property
    def threshold(self) -> float:
        """What the next score will be compared with."""
        levels = self.standing.levels
        return float(threshold_at(levels[LOCATION], self.terms.spread, levels[HEIGHT]))

    @property
    def typical(self) -> float:
        """The score that is typical: half of them are higher."""
        return float(self.standing.levels[LOCATION]) if self.terms.rate else self.tail.median

    @property
    def alarm(self) -> int:
        """The number of the open alarm, or 0."""
        counts = self.standing.counts
        return int(counts[ALARMS]) if counts[OPEN] else 0

    @property
    def age(self) -> int:
        """How many samples ago the open alarm opened; 0 where none is open."""
        return int(self.standing.counts[AGE]) if self.alarm else 0

    @property
    def realised(self) -> Realised:
        """The realised rate beside the target."""
        levels, counts = self.standing
        per_day = self.terms.span / _RECENT_DAYS
        seen, recent = int(counts[SEEN]), float(levels[RECENT_SAMPLES])
        return Realised(
            int(counts[ALARMS]),
            seen,
            int(counts[ALARMS]) / seen * per_day if seen else math.nan,
            float(levels[RECENT_ALARMS]) / recent * per_day if seen else math.nan,
            self.terms.rate * per_day if self.terms.rate else math.nan,
        )

    def judge(self, scores: Floats, first: int = 0, away: NDArray[np.int8] | None = None) -> Judged:
        """Judge the scores of consecutive samples and follow them; `first` is for the result.

        In pieces or at once comes to the same. `away` says of each sample how far the stream is
        from its accepted normal, as `newnormal.kernels.anchor` has it; None: it is at home.
        """
        scores = np.ascontiguousarray(scores, dtype=np.float64)
        rows = len(scores)
        marks = Marks(np.empty(rows), np.empty(rows), np.empty(rows, dtype=np.int64))
        hold(scores, _NOWHERE if away is None else away, self.standing, self.terms, marks)
        return Judged(
            scores,
            marks.thresholds,
            marks.ratios,
            self._p_values(scores, marks.ratios),
            marks.alarms,
            first,
            away,
        )

    def close(self) -> None:
        """End the open alarm, if one is: accepted, or the stream is over. It costs none.

        A score that is still at the threshold opens the next one.
        """
        self.standing.counts[OPEN] = 0

    def adopt(self, other: Gauge) -> None:
        """Judge as another gauge does, that of another normal; what was counted stays."""
        self.terms, self.tail = other.terms, other.tail
        for position in (LOCATION, HEIGHT):
            self.standing.levels[position] = other.standing.levels[position]

    def lift(self, typical: float) -> None:
        """Raise the threshold, if this is the typical score now and it was lower."""
        if self.terms.rate:
            self.standing.levels[LOCATION] = max(self.standing.levels[LOCATION], typical)
        elif typical > self.tail.median > 0:
            factor = typical / self.tail.median
            self.tail = self.tail.scaled(factor)
            self.terms = self.terms._replace(height=factor * self.terms.height)
            self.standing.levels[HEIGHT] *= factor

    def copy(self) -> Gauge:
        """Return a gauge that goes its own way from here."""
        standing = Standing(self.standing.levels.copy(), self.standing.counts.copy())
        return Gauge(self.terms, self.tail, standing)

    def reset(self) -> None:
        """Go back to where calibration left it."""
        self.standing = _fresh(self.terms)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return everything as arrays by name."""
        return {
            "terms": np.array(self.terms),
            "levels": self.standing.levels,
            "counts": self.standing.counts,
            "tail.levels": self.tail.levels,
            "tail.chances": self.tail.chances,
            "tail.excess": self.tail.excess,
        }

    @classmethod
    def restore(cls, tensors: Mapping[str, NDArray[Any]]) -> Gauge:
        """Return the gauge that `tensors` was called on."""
        # Copies: arrays that cannot be written to are another type to the compiled loop.
        terms = Terms._make(tensors["terms"].tolist())
        tail = Tail(*(tensors[f"tail.{name}"].copy() for name in ("levels", "chances", "excess")))
        standing = Standing(tensors["levels"].copy(), tensors["counts"].copy())
        return cls(terms, tail, standing)

    def _p_values(self, scores: Floats, ratios: Floats) -> Floats:
        """Return p-values of scores; where the threshold follows, of what they were in history."""
        if self.terms.rate == 0:
            return self.tail.p_values(scores)
        reach = self.terms.spread * self.terms.height
        return self.tail.p_values(self.terms.location + ratios * reach)


def check_target(alarms_per_day: object, risk: object) -> None:
    """Raise a ParameterError unless one of the two is given and can be a target."""
    if (alarms_per_day is None) == (risk is None):
        found = "neither" if risk is None else "both"
        raise ParameterError(
            f"expected either alarms_per_day or risk, found {found}",
            hint="for example alarms_per_day=1, or risk=1e-4 for a chance a sample",
        )
    if risk is not None and (not _is_number(risk) or not 0 < risk < 1):
        raise ParameterError(
            f"risk: expected a chance a sample between 0 and 1, found {risk!r}",
            hint="1e-4 is one alarm in ten thousand samples",
        )
    if alarms_per_day is not None and (
        not _is_number(alarms_per_day) or not 0 < alarms_per_day < math.inf
    ):
        raise ParameterError(
            f"alarms_per_day: expected a number above 0, found {alarms_per_day!r}",
            hint="1 is an alarm a day; 0.1 is one in ten days",
        )


def _fresh(terms: Terms) -> Standing:
    levels = np.zeros(5)
    levels[LOCATION], levels[HEIGHT], levels[PEAK] = terms.location, terms.height, -math.inf
    return Standing(levels, np.zeros(6, dtype=np.int64))


def _is_number(value: object) -> TypeGuard[float]:
    return (
        isinstance(value, int | float | np.number)
        and not isinstance(value, bool)
        and not math.isnan(value)
    )
