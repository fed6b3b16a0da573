"""What `fit` would do with a series, found by the code that fits, and how much history it takes."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from newnormal.base import BaseDetector
from newnormal.checks.findings import Finding, Remedies, length, seconds
from newnormal.config import Config, duration, samples_per_day
from newnormal.core.history import MINIMUM_WINDOWS, median_period
from newnormal.core.outliers import ChannelOutliers, without
from newnormal.core.phases import DAY
from newnormal.core.rhythm import DAYS_OF_A_KIND, FEWEST_BINS, WEEK, Rhythm
from newnormal.detector import Detector
from newnormal.errors import ParameterError
from newnormal.fitting import ThresholdSpec
from newnormal.kernels.members import KINDS
from newnormal.models.members import fittable
from newnormal.tabular import InputProfile, Table
from newnormal.texts import counted, number_text
from newnormal.thresholds import Budget
from newnormal.tuning.choose import HELD_OUT, LEAST, early_samples, outline
from newnormal.types import Floats

_LONGEST = 1_000_000  # samples held out that nothing asks for more than


@dataclass(frozen=True)
class Need:
    """How much history something takes."""

    # "fit"; "test" of the committee on held-out history; "every_member" of it; "alarm_threshold"
    # within what was seen and not beyond; "daily_rhythm", "weekend_rhythm" and "weekday_rhythm"
    what: str
    samples: int  # how many it takes
    time: np.timedelta64 | None  # how long these take; None where that is not known
    enough: bool  # whether there are as many

    def as_dict(self) -> dict[str, Any]:
        """Return it as values of JSON."""
        return {
            "samples": self.samples,
            "seconds": None if self.time is None else seconds(self.time),
            "enough": self.enough,
        }

    @property
    def text(self) -> str:
        """How much it takes, as text."""
        took = "" if self.time is None else f" ({length(self.time)})"
        return f"{counted(self.samples, 'sample')}{took}"


def needs_of(table: Table, detector: BaseDetector, period: np.timedelta64 | None) -> list[Need]:
    """Return what a detector needs of history, the least first."""
    config, spec = detector.settings()
    samples = len(table.values)
    times = table.times
    span = None if times is None or len(times) == 0 else times[-1] - times[0]

    def need(what: str, least: float) -> Need:
        count = math.ceil(least)
        took = None if period is None else np.timedelta64(int(count * int(_ns(period))), "ns")
        return Need(what, count, took, samples >= count)

    needs = [need("fit", MINIMUM_WINDOWS * config.window)]
    if not isinstance(detector, Detector):
        return needs
    needs.append(need("test", LEAST))
    every = next(n for n in range(LEAST, _LONGEST) if all(fittable(early_samples(n), True)))
    needs.append(need("every_member", every))
    if spec.is_budget:
        allowed = spec.risk or (spec.alarms_per_day or 0) / samples_per_day(period)
        held_out = 1 / allowed if allowed else math.inf
        longest = _LONGEST - early_samples(_LONGEST)
        if held_out <= longest:
            needs.append(need("alarm_threshold", held_out / HELD_OUT))
    if span is None or period is None:
        return needs
    for what, weeks in (
        ("daily_rhythm", 1),
        ("weekend_rhythm", math.ceil(DAYS_OF_A_KIND / 2)),
        ("weekday_rhythm", DAYS_OF_A_KIND),
    ):
        took = weeks * WEEK
        count = math.ceil(took / _ns(period))
        enough = bool(_ns(span) + _ns(period) >= took)
        needs.append(Need(what, count, np.timedelta64(took, "ns"), enough))
    return needs


def _ns(value: np.timedelta64) -> int:
    return max(int(value.astype("timedelta64[ns]").astype(np.int64)), 1)


def cleaned_history(values: Floats, outliers: tuple[ChannelOutliers, ...]) -> Floats:
    """Return history as the committee is given it; a channel without values is 0 throughout."""
    cleaned = without(values, outliers)
    return np.where(np.isnan(cleaned).all(axis=0), 0.0, cleaned)


def rhythm_of(scaled: Floats, table: Table, period: np.timedelta64 | None) -> Rhythm | None:
    """Return the rhythm that the detector would find."""
    return None if len(scaled) < 2 else Rhythm.fit(scaled, table.times, period, table.zone)


def history_findings(
    needs: list[Need], samples: int, period: np.timedelta64 | None, rhythm: Rhythm | None
) -> list[Finding]:
    """Return what more history would do."""
    by_name = {need.what: need for need in needs}
    fit = by_name["fit"]
    here = counted(samples, "sample")
    if not fit.enough:
        sentence = f"there is too little history to fit: {here}, and it takes {fit.text}"
        return [Finding("error", "short_history", None, sentence)]
    test = by_name.get("test")
    if test is not None and not test.enough:
        sentence = f"history is short: with {here} nothing is tested before it is used; "
        return [Finding("warning", "short_history", None, f"{sentence}{test.text} are enough")]
    daily = by_name.get("daily_rhythm")
    slow = period is not None and DAY / _ns(period) < FEWEST_BINS
    every = by_name.get("every_member")
    if daily is not None and not daily.enough and rhythm is None and not slow:
        sentence = f"a daily rhythm, which takes {daily.text}"
    elif every is not None and not every.enough:
        sentence = f"every member of the committee, which takes {every.text}"
    else:
        return []
    return [Finding("note", "short_history", None, f"history is too short for {sentence}")]


@dataclass(frozen=True)
class FitPlan:
    """What `fit` would do.

    `method`: ``"detector"`` or ``"m2n2"``.
    `time`: the column or columns of the times; () where they have no name or there are none.
    `channels`, `left_out`: the columns that become channels, and the others.
    `samples`, `held_out`: how many samples it would learn from, and on how many of the newest it
    would test its choices before.
    `period`: the time between samples; None where that is not known.
    `samples_per_day`: what a day is taken to have.
    `window`, `stride`: samples judged together, and samples that a verdict waits for.
    `members`, `not_used`: the parts of the committee, and those that it would have with other
    history, with the reason.
    `alarms_per_day`, `risk`: the limit on false alarms; both None where a threshold is given.
    `accept_after`: samples that a change must last before it can become normal; infinity: never;
    None: nothing is accepted.
    `seed`: of all that is random.
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
