"""One fitted detector, and the variants made of it."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from newnormal import M2N2, Detector, Fixed, Quantile
from newnormal.errors import ParameterError
from newnormal_reproduce.engine.arrays import AnyDetector, Floats
from newnormal_reproduce.engine.published import DEFAULT, Rule
from newnormal_reproduce.engine.trial import Trial
from newnormal_reproduce.engine.variants import Variant


@dataclass(frozen=True, eq=False)
class TrialFit:
    """A detector fitted once, from which every variant starts with the same weights."""

    detector: AnyDetector  # never run: variants are copies
    history_scores: Floats  # from which a rule takes a threshold
    seconds: float  # of fitting

    @classmethod
    def on(cls, history: Floats, trial: Trial) -> "TrialFit":
        """Fit the trial's model on history."""
        unfitted = _detector(trial)
        began = time.perf_counter()
        detector = unfitted.fit(history)
        seconds = time.perf_counter() - began
        scores = detector.history_scores_
        assert scores is not None
        return cls(detector, scores, seconds)

    def threshold(self, rule: Rule, oracle: Callable[[], float]) -> float:
        """Return the threshold of a rule; `oracle` computes Q*."""
        if rule.fixed is not None:
            return rule.fixed
        if rule.percentile is None:
            return oracle()
        return Quantile(rule.percentile / 100).fit(self.history_scores)

    def as_variant(
        self, variant: Variant, threshold: float, *, decay: float, lr: float
    ) -> AnyDetector:
        """Return a copy with the fitted weights that runs as a variant, with a fixed threshold.

        `Detector` chose γ and η itself and always detrends and adapts.
        """
        tau = Fixed(threshold)
        if not isinstance(self.detector, Detector):
            return self.detector.with_options(
                threshold=tau,
                decay=decay,
                lr=lr,
                detrend=variant.detrend,
                adapt=variant.adapt,
                scores=self.history_scores,
            )
        if not (variant.detrend and variant.adapt):
            raise ParameterError(
                f"variants: Detector always detrends and adapts, found {variant.name!r}",
                hint="use DT+TTA, or another model",
            )
        return self.detector.with_options(threshold=tau, scores=self.history_scores)

    def with_limit(self, alarms_per_day: float) -> AnyDetector:
        """Return a copy of a fitted `Detector` with a limit of alarms, at one sample a minute.

        It equals ``Detector(alarms_per_day=...)`` fitted on the same history.
        """
        if not isinstance(self.detector, Detector):
            raise ParameterError(
                f"alarms_per_day: expected a fitted Detector, found {self.detector!r}",
                hint=f"use the model {DEFAULT!r}",
            )
        return self.detector.with_options(alarms_per_day=alarms_per_day, scores=self.history_scores)


def _detector(trial: Trial) -> AnyDetector:
    """Return the trial's detector before the fit."""
    options = asdict(trial.options)
    if trial.model == DEFAULT:
        training = {name: options[name] or None for name in ("epochs", "batch")}
        return Detector(seed=trial.seed, **training)
    # Some models cannot adapt, so the fit is frozen; `as_variant` turns adaptation on.
    return M2N2(model=trial.model, seed=trial.seed, adapt=False, **options)
