"""A threshold held to a budget of alarms while the scores drift."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import numpy as np

from newnormal.alarms.tail import Peaks, Tail, known_scores
from newnormal.alarms.threshold import RECENT_DAYS, AlarmThreshold
from newnormal.config import SAMPLES_PER_DAY
from newnormal.errors import ParameterError
from newnormal.kernels.alarm import AlarmParams
from newnormal.thresholds.base import is_number
from newnormal.types import Floats

__all__ = ["Budget", "check_target"]

# An alarm raises the threshold by half a spread. What the budget is overdrawn by when the scores
# rise for good is how far they rise over this; from a quarter to one, the alarm rates of
# twenty real streams hardly differed.
_STEP = 0.5
# One ordinary alarm in twenty peaks so high as to pass for severe.
_RARE = 0.05
# The location follows by one spread a day at most: days of drift, not hours of a fault.
_DAILY_PACE = 1.0
# The threshold may sink to half the height with the most alarms in history: scores may have become
# calmer since, but where alarms run into each other, lowering it only makes fewer.
_FLOOR = 0.5


@dataclass(frozen=True)
class Budget:
    """How many alarms normal operation may cost: the target that a threshold is held to.

    The budget is for alarms without a cause. Real faults are reported even after the budget is used
    up, and one that stands out as no normal score does costs little of it.

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
    >>> threshold = Budget(alarms_per_day=3).calibrate(rng.normal(size=3 * 1440))
    >>> judged = threshold.judge(rng.normal(size=14 * 1440) + 1)
    >>> print(threshold.alarm_rate)
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
    samples_per_day: float = SAMPLES_PER_DAY
    gap: int = 10
    accept_after: float = SAMPLES_PER_DAY

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

    def calibrate(self, scores: Floats) -> AlarmThreshold:
        """Return a threshold at its start, given history's scores in the order of time.

        Any number of scores will do. With few of them the threshold is guessed: as far above the
        highest as a tail that falls by 1/e in half a spread takes to reach the target. Scores
        that are all the same have a spread of 1. NaN is left out.
        """
        known = known_scores(scores)
        fit = Peaks.of(known, self.gap)
        height = fit.height(self.rate)
        params = AlarmParams(
            location=fit.location,
            spread=fit.spread,
            floor=_FLOOR * fit.floor,
            severe=fit.height(_RARE * min(self.rate, fit.rate)) - height,
            rate=self.rate,
            step=_STEP,
            pace=_DAILY_PACE / self.samples_per_day,
            gap=float(self.gap),
            accept_after=float(np.ceil(self.accept_after)),
            span=RECENT_DAYS * float(self.samples_per_day),
        )
        return AlarmThreshold.of(params, height, Tail.beyond(known, fit))

    def to_json(self) -> dict[str, Any]:
        """Return the budget as values of JSON."""
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


def _is_number(value: object) -> TypeGuard[float]:
    return is_number(value) and not math.isnan(value)
