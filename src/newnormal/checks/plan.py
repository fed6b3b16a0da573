"""What `fit` would do with a series, found by the code that fits."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from newnormal.base import BaseDetector
from newnormal.checks.findings import Finding, Remedies
from newnormal.checks.texts import length, seconds
from newnormal.config import Config, duration, samples_per_day
from newnormal.core.history import median_period
from newnormal.detector import Detector
from newnormal.errors import ParameterError
from newnormal.fitting import ThresholdSpec
from newnormal.kernels.members import KINDS
from newnormal.tabular import InputProfile, Table
from newnormal.texts import number_text
from newnormal.thresholds import Budget
from newnormal.tuning.choose import early_samples, outline
from newnormal.types import Floats


@dataclass(frozen=True)
class FitPlan:
    """What `fit` would do.

    Attributes
    ----------
    method
        ``"detector"`` or ``"m2n2"``.
    time
        The column or columns of the times; () where they have no name or there are none.
    channels, left_out
        The columns that become channels, and the others.
    samples, held_out
        How many samples it would learn from, and on how many of the newest it would test its
        choices before.
    period
        The time between samples; None where that is not known.
    samples_per_day
        What a day is taken to have.
    window, stride
        Samples judged together, and samples that a verdict waits for.
    members, not_used
        The parts of the committee, and those that it would have with other history, with the
        reason.
    alarms_per_day, risk
        The limit on false alarms; both None where a threshold is given.
    accept_after
        Samples that a change must last before it can become normal; infinity: never; None:
        nothing is accepted.
    seed
        Of all that is random.
    """

    method: str
    time: tuple[str, ...]
    channels: tuple[str, ...]
    left_out: tuple[str, ...]
    samples: int
    held_out: int
    period: np.timedelta64 | None
    samples_per_day: float
    window: int
    stride: int
    members: tuple[str, ...]
    not_used: tuple[tuple[str, str], ...]
    alarms_per_day: float | None
    risk: float | None
    accept_after: float | None
    seed: int

    def as_dict(self) -> dict[str, Any]:
        """Return it as values of JSON."""
        patience = self.accept_after
        return {
            "method": self.method,
            "time": list(self.time),
            "channels": list(self.channels),
            "left_out": list(self.left_out),
            "samples": self.samples,
            "held_out_samples": self.held_out,
            "period_seconds": None if self.period is None else seconds(self.period),
            "samples_per_day": self.samples_per_day,
            "window": self.window,
            "stride": self.stride,
            "members": list(self.members),
            "members_not_used": dict(self.not_used),
            "alarms_per_day": self.alarms_per_day,
            "risk": self.risk,
            "accept_after_samples": None if patience is None or math.isinf(patience) else patience,
            "accepts": patience is not None and not math.isinf(patience),
            "seed": self.seed,
        }

    @property
    def accept_text(self) -> str:
        """How long a change must last to become normal, as text."""
        if self.accept_after is None:
            return "never: nothing is accepted"
        if math.isinf(self.accept_after):
            return "never without a person"
        samples = f"{number_text(self.accept_after, digits=6)} samples"
        if self.period is None:
            return samples
        took = np.timedelta64(round(self.accept_after * seconds(self.period) * 1e9), "ns")
        return f"{length(took)} ({samples})"


def period_of(table: Table, config: Config) -> np.timedelta64 | None:
    """Return the time between samples as `fit` takes it."""
    if config.period is not None:
        return duration(config.period, "period")
    return median_period(table.times)


def planned(
    table: Table,
    channels: tuple[str, ...],
    time: tuple[str, ...],
    detector: BaseDetector,
    period: np.timedelta64 | None,
    scaled: Floats,
    rhythm: bool,
) -> FitPlan:
    """Return what `fit` would do with a series that it takes."""
    config, spec = detector.settings()
    samples = len(table.values)
    members: tuple[str, ...] = (str(config.model),)
    not_used: tuple[tuple[str, str], ...] = ()
    held_out, stride = 0, config.judging_stride()
    if isinstance(detector, Detector):
        fit_outline = outline(scaled, rhythm)
        held_out = samples - early_samples(samples) if fit_outline.tested else 0
        stride = 1  # each sample gets its verdict at once
        experts = [
            "linear subspace" if vote.linear else "autoencoder" for vote in fit_outline.plan.votes
        ]
        every = list(zip([*experts, *KINDS], fit_outline.dropped, strict=True))
        members = tuple(kind for kind, why in every if not why)
        not_used = tuple((kind, why) for kind, why in every if why)
    accepts = isinstance(detector, Detector) or config.accept_after is not None
    return FitPlan(
        detector.method,
        time,
        channels,
        tuple(_left_out(table.profile, channels, time)),
        samples,
        held_out,
        period,
        samples_per_day(period),
        config.window,
        stride,
        members,
        not_used,
        spec.alarms_per_day,
        spec.risk,
        _patience(config, period) if accepts else None,
        config.seed,
    )


def limit_findings(
    config: Config, spec: ThresholdSpec, period: np.timedelta64 | None, remedies: Remedies
) -> list[Finding]:
    """Return the errors that `fit` would raise of options that this period rules out."""
    findings = []
    try:
        if spec.is_budget:
            Budget(spec.alarms_per_day, spec.risk, samples_per_day(period))
        config.patience(period)
    except ParameterError as error:
        fewer = f"{samples_per_day(period) / 10:.1g}"
        name, value = ("accept_after", "SAMPLES")
        if "alarms_per_day" in error.message:
            name, value = ("alarms_per_day", fewer)
        option = remedies.set(name, value)
        findings.append(Finding("error", "limit", None, error.message, option))
    return findings


def _patience(config: Config, period: np.timedelta64 | None) -> float | None:
    try:
        return config.patience(period)
    except ParameterError:  # one of `limit_findings`
        return None


def _left_out(
    profile: InputProfile | None, channels: tuple[str, ...], time: tuple[str, ...]
) -> list[str]:
    """Return the columns of a file that are neither the time nor a channel."""
    header = () if profile is None else profile.header
    if not set(channels) & set(header):  # long data: channels are tags
        return []
    return [name for name in header if name not in (*channels, *time)]
