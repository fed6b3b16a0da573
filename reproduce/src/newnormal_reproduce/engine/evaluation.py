"""Evaluates one fit as each of its trials requires."""

import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from newnormal import Detector, metrics
from newnormal.datasets import Dataset
from newnormal_reproduce.engine.arrays import Bools, Floats
from newnormal_reproduce.engine.fit import TrialFit
from newnormal_reproduce.engine.trial import SampleVerdicts, Trial, TrialOutcome
from newnormal_reproduce.engine.variants import FROZEN, Variant, variant_named

_LARGE = 10.0  # times the score without learning: learning on history should lower it
_SMALLEST = 8  # powers of ten tried


class _Run(NamedTuple):
    """One pass over the test part; the threshold decides verdicts, and scores if it adapts."""

    scores: Floats
    thresholds: Floats
    anomalous: Bools
    learned: int
    restored: int
    seconds: float


@dataclass(eq=False)
class Evaluator:
    """A fitted detector and a data set, on which trials are evaluated one after the other."""

    fit: TrialFit
    data: Dataset
    _runs: dict[tuple[object, ...], _Run] = field(default_factory=dict)
    _rates: dict[tuple[object, ...], float] = field(default_factory=dict)

    def evaluate(self, trial: Trial, path: Path) -> tuple[TrialOutcome, SampleVerdicts]:
        """Return the outcome of a trial, and the verdict of each sample."""
        variant = variant_named(trial.variant)
        tau = self.threshold(trial)
        lr = trial.options.lr
        if trial.steady and variant.adapt and lr:
            lr = self._steady_rate(trial, variant, tau)
        run = self._run(variant, tau, trial.options.decay, lr)
        # `Detector` may move its threshold, and judges each channel by itself as well.
        thresholds, anomalous = np.full(len(run.scores), tau), np.asarray(run.scores >= tau)
        if isinstance(self.fit.detector, Detector):
            thresholds, anomalous = run.thresholds, run.anomalous
        judgement = SampleVerdicts(run.scores, thresholds, anomalous)
        outcome = TrialOutcome(
            trial=trial,
            tau=tau,
            lr=lr,
            learned=run.learned,
            restored=run.restored,
            fit_seconds=self.fit.seconds,
            seconds=run.seconds,
            report=metrics.report(self.data.labels, run.scores, predictions=judgement.anomalous),
            path=path,
        )
        return outcome, judgement

    def threshold(self, trial: Trial) -> float:
        """Return the trial's threshold; Q* is that of the frozen model for every variant."""

        def oracle() -> float:
            frozen = self._run(FROZEN, np.inf, trial.options.decay, trial.options.lr)
            return metrics.best_f1(self.data.labels, frozen.scores).threshold

        return self.fit.threshold(trial.rule, oracle)

    def _run(self, variant: Variant, tau: float, decay: float, lr: float) -> _Run:
        """Run over the test part once; a second call returns the same result."""
        key = (variant, decay if variant.detrend else None, (tau, lr) if variant.adapt else None)
        if key not in self._runs:
            detector = self.fit.as_variant(variant, tau, decay=decay, lr=lr)
            began = time.perf_counter()
            verdicts = detector.run(self.data.test)
            seconds = time.perf_counter() - began
            counters = detector.counters
            self._runs[key] = _Run(
                verdicts.scores,
                verdicts.thresholds,
                verdicts.anomalous,
                counters["learned"],
                counters["restored"],
                seconds,
            )
        return self._runs[key]

    def _steady_rate(self, trial: Trial, variant: Variant, tau: float) -> float:
        """Return the largest of η, η/10, η/100 ... that does not diverge on history."""
        key = (variant, tau, trial.options)
        if key not in self._rates:
            rates = [trial.options.lr / 10**power for power in range(_SMALLEST)]
            decay, history = trial.options.decay, self.data.train
            fixed = self.fit.as_variant(replace(variant, adapt=False), tau, decay=decay, lr=0.0)
            without = fixed.run(history).scores
            self._rates[key] = next(
                (
                    rate
                    for rate in rates
                    if not diverges(self.fit, variant, tau, decay, rate, history, without)
                ),
                0.0,
            )
        return self._rates[key]


def diverges(
    fit: TrialFit,
    variant: Variant,
    tau: float,
    decay: float,
    lr: float,
    history: Floats,
    without: Floats,
) -> bool:
    """Return whether learning at a rate diverges when the detector runs over its own history.

    It does if the guard put good weights back, a score is not finite, or the mean score is above
    ten times the mean of `without`, the scores of the same detector without learning.
    """
    detector = fit.as_variant(variant, tau, decay=decay, lr=lr)
    scores = detector.run(history).scores
    if detector.counters["restored"] or not np.isfinite(scores[~np.isnan(without)]).all():
        return True
    return bool(np.nanmean(scores) > _LARGE * np.nanmean(without))
