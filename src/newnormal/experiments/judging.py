"""One fit, judged as each unit that shares it says."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from newnormal.datasets import Dataset
from newnormal.detector import Detector
from newnormal.experiments.rows import FROZEN, Fitted, Row, row_named
from newnormal.experiments.unit import Judgement, Outcome, Unit
from newnormal.metrics import best_f1, report
from newnormal.types import Floats

__all__ = ["Bench", "diverges"]

_LARGE = 10.0  # times the score without learning: learning on history should lower it
_SMALLEST = 8  # powers of ten tried


class _Run(NamedTuple):
    """One pass over the test part; the threshold decides verdicts, and scores if it adapts."""

    scores: Floats
    thresholds: Floats
    learned: int
    restored: int
    seconds: float


@dataclass(eq=False)
class Bench:
    """A fitted detector and a data set, on which units are judged one after the other."""

    fitted: Fitted
    data: Dataset
    _runs: dict[tuple[object, ...], _Run] = field(default_factory=dict)
    _rates: dict[tuple[object, ...], float] = field(default_factory=dict)

    def judge(self, unit: Unit, path: Path) -> tuple[Outcome, Judgement]:
        """Return what comes of a unit, and what is said of each sample."""
        row = row_named(unit.row)
        tau = self.threshold(unit)
        lr = unit.options.lr
        if unit.steady and row.adapt and lr:
            lr = self._steady_rate(unit, row, tau)
        run = self._run(row, tau, unit.options.decay, lr)
        # Where the detector itself moves its threshold, that is what it called anomalous.
        thresholds = np.full(len(run.scores), tau)
        if isinstance(self.fitted.detector, Detector):
            thresholds = run.thresholds
        judgement = Judgement(run.scores, thresholds, np.asarray(run.scores >= thresholds))
        outcome = Outcome(
            unit=unit,
            tau=tau,
            lr=lr,
            learned=run.learned,
            restored=run.restored,
            fit_seconds=self.fitted.seconds,
            seconds=run.seconds,
            report=report(self.data.labels, run.scores, predictions=judgement.anomalous),
            path=path,
        )
        return outcome, judgement

    def threshold(self, unit: Unit) -> float:
        """Return the unit's threshold; Q* is that of the frozen model, whatever the row."""

        def oracle() -> float:
            frozen = self._run(FROZEN, np.inf, unit.options.decay, unit.options.lr)
            return best_f1(self.data.labels, frozen.scores).threshold

        return self.fitted.threshold(unit.rule, oracle)

    def _run(self, row: Row, tau: float, decay: float, lr: float) -> _Run:
        """Run over the test part, or remember having done so."""
        key = (row, decay if row.detrend else None, (tau, lr) if row.adapt else None)
        if key not in self._runs:
            detector = self.fitted.as_row(row, tau, decay=decay, lr=lr)
            began = time.perf_counter()
            verdicts = detector.run(self.data.test)
            seconds = time.perf_counter() - began
            counters = detector.counters
            self._runs[key] = _Run(
                verdicts.scores,
                verdicts.thresholds,
                counters["learned"],
                counters["restored"],
                seconds,
            )
        return self._runs[key]

    def _steady_rate(self, unit: Unit, row: Row, tau: float) -> float:
        """Return the largest of η, η/10, η/100 ... that does not diverge on history."""
        key = (row, tau, unit.options)
        if key not in self._rates:
            rates = [unit.options.lr / 10**power for power in range(_SMALLEST)]
            decay = unit.options.decay
            still = replace(row, adapt=False)
            calm = self.fitted.as_row(still, tau, decay=decay, lr=0.0).run(self.data.train).scores
            self._rates[key] = next(
                (
                    rate
                    for rate in rates
                    if not diverges(self.fitted, row, tau, decay, rate, self.data.train, calm)
                ),
                0.0,
            )
        return self._rates[key]


def diverges(
    fitted: Fitted, row: Row, tau: float, decay: float, lr: float, history: Floats, calm: Floats
) -> bool:
    """Return whether learning at a rate diverges when the detector is run over its own history.

    That is: the guard had to put good weights back, a score is not finite, or the mean score is
    above ten times that of the same detector learning nothing, `calm`.
    """
    detector = fitted.as_row(row, tau, decay=decay, lr=lr)
    scores = detector.run(history).scores
    if detector.counters["restored"] or not np.isfinite(scores[~np.isnan(calm)]).all():
        return True
    return bool(np.nanmean(scores) > _LARGE * np.nanmean(calm))
