"""A threshold held to a limit on alarms."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from newnormal.alarms.threshold import AlarmThreshold, Peaks, Tail, known_scores
from newnormal.config import SAMPLES_PER_DAY
from newnormal.errors import ParameterError
from newnormal.kernels.alarm import AlarmParams
from newnormal.kernels.decision import RAISE
from newnormal.thresholds.base import is_number
from newnormal.types import Floats

# Found and false alarms hardly differ for alarms that are judged from where they are after 30 to
# 120 samples: on 36 real streams of five collections and on halves of SKAB and NAB.
_STAND = 60  # samples after which an alarm is judged from where the scores are


@dataclass(frozen=True)
class Budget:
    """How many alarms normal operation may cost: a limit, not a quota.

    The threshold starts where history's scores would reach it at that rate, and never sinks below.

    `alarms_per_day`: alarms a day, on average. `risk`: instead: the chance that an alarm opens at
    any one sample. `samples_per_day`: how many samples a day has; the default is one a minute.
    `gap`: samples of quiet that end an alarm. More of them make fewer, longer alarms.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> threshold = Budget(alarms_per_day=3).calibrate(rng.normal(size=3 * 1440))
    >>> judged = threshold.judge(rng.normal(size=14 * 1440))
    >>> print(threshold.alarm_rate)
    32 alarms in 20,160 samples: 2.29 a day, 2.43 a day lately; limit on false ones: 3 a day

    Scores must be on a scale where distances mean the same everywhere: logarithms of squared
    residuals, or their standardised mean.

    The threshold starts where history's peaks, declustered and extrapolated by a generalised
    Pareto tail (`Peaks`), reach it at the limit. Every alarm that was just beyond it raises it by
    half its start, to twice that at most, and it comes back by as much in the time in which one
    alarm is allowed. With a step g, such alarms over T samples out of alarm exceed
    rate · T by (h(T) - h(0)) / g at most, where h is its height: as for the level of adaptive
    conformal inference (Gibbs and Candès, Adaptive conformal inference under distribution shift,
    NeurIPS 2021), but bounded on both sides.
    """

    alarms_per_day: float | None = None
    risk: float | None = None
    samples_per_day: float = SAMPLES_PER_DAY
    gap: int = 10

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

    @property
    def rate(self) -> float:
        """The limit in alarms a sample."""
        if self.risk is not None:
            return float(self.risk)
        return float(self.alarms_per_day or 0.0) / self.samples_per_day

    def fit(self, scores: Floats) -> float:
        """Return the threshold that history's scores give: the start of the one held."""
        return self.calibrate(scores).threshold

    def calibrate(self, scores: Floats, *, careful: bool = False) -> AlarmThreshold:
        """Return a threshold at its start, given history's scores in the order of time.

        Any number of scores will do. With few of them the threshold is guessed: as far above the
        highest as a tail that falls by 1/e in half a spread takes to reach the limit. Scores
        that are all the same have a spread of 1. NaN is left out. `careful` leaves a part of the
        limit for what these scores do not show.
        """
        measured = known_scores(scores)
        fit = Peaks.of(measured, self.gap)
        height = fit.height(fit.careful(self.rate) if careful else self.rate)
        params = AlarmParams(
            location=fit.location,
            spread=fit.spread,
            rate=self.rate,
            step=RAISE,
            gap=float(self.gap),
            stand=float(_STAND),
            day=float(self.samples_per_day),
        )
        return AlarmThreshold.of(params, height, Tail.beyond(measured, fit))

    def to_json(self) -> dict[str, Any]:
        """Return the budget as values of JSON."""
        return {**vars(self), "samples_per_day": float(self.samples_per_day)}

    @classmethod
    def from_json(cls, budget: Mapping[str, Any]) -> "Budget":
        """Return what `to_json` was made from."""
        return cls(**budget)


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
