"""From history to a fitted detector.

One module because it goes from history to a fitted detector, for both of them.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from newnormal.acceptance import NormalRange, TimedAcceptance
from newnormal.acceptance.review import KEPT_LEVELS
from newnormal.alarms import AlarmLog, AlarmThreshold
from newnormal.alarms.log import log_scores
from newnormal.alarms.threshold import Peaks, known_scores, threshold_of
from newnormal.config import Config, samples_per_day
from newnormal.core.outliers import find_outliers, without
from newnormal.core.rhythm import Rhythm
from newnormal.core.scaling import Scaler
from newnormal.core.stages import NO_ACCEPTANCE, NO_ALARMS
from newnormal.core.state import Fitted, StreamState, copied
from newnormal.core.windows import threshold_scores
from newnormal.errors import NewnormalError, NewnormalWarning, ParameterError
from newnormal.kernels.alarm import HEIGHT, START_HEIGHT
from newnormal.kernels.channels import ChannelParams
from newnormal.kernels.step import StepParams
from newnormal.kernels.stream import Baseline
from newnormal.models.base import Model, OnEpoch, OnPhase, Training, scores
from newnormal.models.channels import fit_channels, history_faults, limits_of
from newnormal.models.registry import find
from newnormal.thresholds import (
    Budget,
    Fixed,
    MovingThreshold,
    Threshold,
    as_threshold,
    check_target,
    start_of,
)
from newnormal.tuning import choose
from newnormal.tuning.choose import early_samples
from newnormal.tuning.progress import FitProgress
from newnormal.types import Floats, Floats32, Times

_LEARNED_NOTHING = (
    "no autoencoder learned anything from history: the score is that of the other members\n"
    "hint: fit on more history, or look at explain()"
)
# Of the limit on alarms, what the channels have together. The joint score has what is `careful` of
# it: on 20 and 36 real streams that found .57 and .63 of the events at .91 and .94 false alarms a
# day, before channels had a third limit, .95 and .99 with it; half of the limit .57 and .59 at .88
# and .93, all of it .62 and .69 at 1.05 and 1.12.
CHANNELS_SHARE = 0.2
DEFAULT_QUANTILE = 0.99  # of history's scores, where neither threshold nor budget is given
_LEFT_OUT = (
    "hint: each is ten times as far from the median as any other; write NaN where nothing was "
    "measured, or give more history with such values if they are normal"
)


@dataclass(frozen=True, eq=False)
class HistoryScores:
    """History's scores: in the order of time, and as a threshold's rule takes them."""

    ordered: Floats
    for_rule: Floats


@dataclass(frozen=True)
class ThresholdSpec:
    """What the threshold is to achieve: a rule, or a budget of alarms."""

    rule: Threshold | MovingThreshold
    alarms_per_day: float | None = None
    risk: float | None = None

    @classmethod
    def of(cls, options: dict[str, Any]) -> ThresholdSpec:
        """Take the threshold out of a detector's options, and check it."""
        threshold = options.pop("threshold")
        alarms_per_day, risk = options.pop("alarms_per_day"), options.pop("risk")
        rule = as_threshold(DEFAULT_QUANTILE if threshold is None else threshold)
        if alarms_per_day is not None or risk is not None:
            check_target(alarms_per_day, risk)  # the samples a day are known after `fit` alone
            if threshold is not None:
                name = "risk" if alarms_per_day is None else "alarms_per_day"
                raise ParameterError(
                    f"expected threshold or {name}, found both: threshold={threshold!r}, "
                    f"{name}={risk if alarms_per_day is None else alarms_per_day!r}",
                    hint="a threshold stays where it is put, a limit moves it: leave one out",
                )
        return cls(rule, alarms_per_day, risk)

    @property
    def is_budget(self) -> bool:
        """Whether there is a budget of alarms."""
        return self.alarms_per_day is not None or self.risk is not None

    @property
    def has_alarms(self) -> bool:
        """Whether samples are turned into alarms: where the threshold moves."""
        return self.is_budget or isinstance(self.rule, MovingThreshold)

    def moving_parts(self, history_scores: HistoryScores) -> dict[str, Any]:
        """Return the rule and its state at the start; None for a threshold that stays."""
        if self.is_budget or not isinstance(self.rule, MovingThreshold):
            return {"rule": None, "moving_start": None}
        return {"rule": self.rule, "moving_start": start_of(self.rule, history_scores.ordered)}

    def rate(self, period: np.timedelta64 | None) -> float:
        """Return the budget in alarms a sample; 0 without one."""
        if not self.is_budget:
            return 0.0
        return Budget(self.alarms_per_day, self.risk, samples_per_day(period)).rate

    def peaks(self, history_scores: HistoryScores) -> Peaks | None:
        """Return where any budget puts the threshold; None without one."""
        if not self.is_budget:
            return None
        return Peaks.of(known_scores(log_scores(history_scores.ordered)), Budget.gap)

    def threshold(
        self, history_scores: HistoryScores, period: np.timedelta64 | None, *, careful: bool = False
    ) -> AlarmThreshold:
        """Return the alarm threshold that history's scores give, at the budget or `careful`."""
        per_day = samples_per_day(period)
        if self.is_budget:
            budget = Budget(self.alarms_per_day, self.risk, per_day)
            return budget.calibrate(log_scores(history_scores.ordered), careful=careful)
        tau = checked_threshold(self.rule, history_scores)
        return AlarmThreshold.at(tau, history_scores.ordered, samples_per_day=per_day)


def fit_m2n2(
    config: Config,
    spec: ThresholdSpec,
    history: Floats,
    channels: tuple[str, ...],
    period: np.timedelta64 | None,
    on_epoch: OnEpoch | None = None,
    on_phase: OnPhase | None = None,
) -> tuple[Fitted, HistoryScores]:
    """Fit the paper's method on history (T, C)."""
    decay = config.decay_per_window(period)
    model = find(config.model)(config.window, len(channels), config.latent)
    _check_adapts(config, model)
    scaler = model.scaler(history)
    progress = FitProgress(on_epoch, on_phase)
    progress.begin("learning history", 0.0, 0.9, config.epochs)
    how = config.training_stride(), config.epochs, config.batch, config.seed
    weights, losses = model.fit(scaler.apply(history), Training(*how, on_epoch=progress.on_epoch))
    _check_weights(weights)
    progress.begin("scoring history", 0.9, 1.0)
    # History is scored as it was learned: the model frozen, the trend at history's mean.
    stride = config.judging_stride()
    held = StepParams(
        scaler.mean, scaler.scale, weights, stride, math.inf, math.inf, 1.0, np.float32(0)
    )
    ordered = scores(model, held, history)
    last = scores(model, held._replace(stride=config.window), history[-config.window :])
    history_scores = HistoryScores(ordered, threshold_scores(ordered, last, stride))
    params = held._replace(
        decay=decay if config.detrend else 1.0, lr=np.float32(config.lr if config.adapt else 0)
    )
    fitted = _assembled(config, spec, history_scores, model, params, history, channels, period)
    return replace(fitted, losses=tuple(losses)), history_scores


def fit_auto(
    config: Config,
    spec: ThresholdSpec,
    history: Floats,
    channels: tuple[str, ...],
    period: np.timedelta64 | None,
    on_epoch: OnEpoch | None = None,
    on_phase: OnPhase | None = None,
    *,
    times: Times | None = None,
    zone: str | None = None,
    epochs: int | None = None,
    batch: int | None = None,
) -> tuple[Fitted, HistoryScores]:
    """Choose a committee from history (T, C) alone, and fit it; warn of values left out."""
    outliers = find_outliers(history)
    history = without(history, outliers)
    left_out = tuple(outlier.sentence(channels, times) for outlier in outliers)
    for sentence in left_out:
        warnings.warn(f"{sentence}\n{_LEFT_OUT}", NewnormalWarning, stacklevel=5)
    scaler = Scaler.fit(history)
    scaled = scaler.apply(history)
    rhythm = Rhythm.fit(scaled, times, period, zone)
    phases = None if rhythm is None else rhythm.phases(times, -len(scaled), len(scaled))
    faults = history_faults(history, scaler, scaled, channels, rhythm, times)
    chosen = choose(
        scaled,
        seed=config.seed,
        epochs=epochs,
        batch=batch,
        on_epoch=on_epoch,
        on_phase=on_phase,
        phases=phases,
        rhythm=rhythm,
        early_rhythm=_early_rhythm(rhythm, scaled, times, period, zone),
        notes=(
            *(f"{text[:1].upper()}{text[1:]}." for text in (*left_out, faults) if text),
            *(() if rhythm is None else (rhythm.sentence(channels),)),
        ),
    )
    _check_weights(chosen.fitted)
    if chosen.choice.learned_nothing:
        warnings.warn(_LEARNED_NOTHING, NewnormalWarning, stacklevel=4)
    history_scores = HistoryScores(chosen.scores, chosen.scores)
    params = StepParams(
        scaler.mean,
        scaler.scale,
        chosen.fitted,
        1,  # each sample gets its verdict at once
        math.inf,
        math.inf,
        0.0,
        np.float32(1),
    )
    fitted = _assembled(
        config,
        spec,
        history_scores,
        chosen.model,
        params,
        history,
        channels,
        period,
        _fit_channels(scaled, spec, period, rhythm, phases),
    )
    fitted = replace(fitted, choice=chosen.choice, losses=tuple(chosen.losses), rhythm=rhythm)
    return fitted, history_scores


def _fit_channels(
    scaled: Floats,
    spec: ThresholdSpec,
    period: np.timedelta64 | None,
    rhythm: Rhythm | None,
    phases: Floats | None,
) -> ChannelParams:
    """Return what is expected of each channel by itself, and its limit."""
    rate, day = CHANNELS_SHARE * spec.rate(period), samples_per_day(period)
    ns = 0.0 if period is None else period / np.timedelta64(1, "ns")
    if rhythm is None or phases is None:
        return fit_channels(scaled, rate, day, None, None, ns)
    return fit_channels(scaled, rate, day, rhythm.explained, rhythm.levels_at(phases), ns)


def _spread(channel: ChannelParams, scale: Floats) -> Floats:
    """Return the usual distance of each channel from what is expected, in the user's units."""
    return np.asarray(channel.widths[:, 0] / 3 * scale)


def _early_rhythm(
    rhythm: Rhythm | None,
    scaled: Floats,
    times: Times | None,
    period: np.timedelta64 | None,
    zone: str | None,
) -> Rhythm | None:
    """Return the rhythm of the part of history that the test is not made on, if it is the same."""
    if rhythm is None:
        return None
    early = early_samples(len(scaled))
    part = Rhythm.fit(scaled[:early], None if times is None else times[:early], period, zone)
    same = part is not None and part.levels.shape == rhythm.levels.shape and times is not None
    return part if same else None


def _assembled(
    config: Config,
    spec: ThresholdSpec,
    history_scores: HistoryScores,
    model: Model,
    params: StepParams,
    history: Floats,
    channels: tuple[str, ...],
    period: np.timedelta64 | None,
    channel: ChannelParams | None = None,
) -> Fitted:
    """Return the fitted detector with its threshold, its alarms and what it accepts."""
    accepts = channel is not None or config.accept_after is not None
    normal = NormalRange.fit(history) if accepts else None
    fitted = Fitted(
        config=config,
        channels=channels,
        period=period,
        model=model,
        step=params,
        **_threshold_parts(spec.threshold(history_scores, period, careful=channel is not None)),
        **spec.moving_parts(history_scores),
        alarms=AlarmLog() if accepts or spec.has_alarms else NO_ALARMS,
        acceptance=TimedAcceptance(config.patience(period)) if accepts else NO_ACCEPTANCE,
        drift=None if normal is None else normal.params,
        channel=channel,
        spread=model.expected_spread(params) if channel is None else _spread(channel, params.scale),
        peaks=spec.peaks(history_scores),
        never_missing=np.asarray(~np.isnan(history).any(axis=0)),
    )
    if normal is not None:
        trend = model.snapshot(model.initial(params.fitted))[1]
        drift = normal.state
        fitted = replace(fitted, baseline=_baseline(fitted, trend, drift.lows, drift.highs))
    return _with_learn_threshold(fitted)


def refit_threshold(
    fitted: Fitted,
    config: Config,
    spec: ThresholdSpec,
    before: ThresholdSpec,
    history_scores: HistoryScores | None,
    *,
    anew: bool = False,
) -> Fitted:
    """Return the same fit with other options: threshold, budget, memory, learning rate.

    Without history's scores, only a threshold that does not need them can be set, or another budget
    than the one `before`. What is as before stays, unless it is to be taken `anew` from the scores.
    """
    params = fitted.step
    channel = fitted.channel
    rate = spec.rate(fitted.period)
    if channel is not None:
        kinds = limits_of(channel.tails, channel.flags != 0, CHANNELS_SHARE * rate)
        names = ("limits", "slow_limits", "lasting_limits")
        channel = channel._replace(**dict(zip(names, kinds, strict=True)))
    if fitted.choice is None:
        decay = config.decay_per_window(fitted.period) if config.detrend else 1.0
        lr = config.lr if config.adapt else 0
        assert isinstance(fitted.model, Model)
        _check_adapts(config, fitted.model)
        params = params._replace(decay=decay, lr=np.float32(lr))
    peaks = fitted.peaks if spec.is_budget else None
    moving: dict[str, Any] = {"rule": fitted.rule, "moving_start": fitted.moving_start}
    if spec == before and not anew:
        threshold = _start(fitted)
    elif peaks is not None and not anew:
        used = rate if channel is None else peaks.careful(rate)
        threshold = _moved(fitted, peaks.height(used))
        threshold = threshold._replace(params=fitted.alarm._replace(rate=rate))
    elif history_scores is None and (
        spec.is_budget or fitted.alarm.rate or not isinstance(spec.rule, Fixed)
    ):
        raise ParameterError(
            "scores: expected history's scores for this threshold, found none",
            hint="pass scores=, or threshold=newnormal.Fixed(...) where there was no budget",
        )
    else:
        history_scores = history_scores or HistoryScores(np.zeros(1), np.zeros(1))
        steps = np.diff(history_scores.ordered)
        if spec.is_budget and len(steps) > 1 and (steps >= 0).all() and steps.any():
            raise ParameterError(
                "scores: expected them in the order of time for a limit on alarms, "
                "found them sorted",
                hint="leave scores out, or pass a score for each of history's samples in "
                "their order",
            )
        moving, peaks = spec.moving_parts(history_scores), spec.peaks(history_scores)
        if spec.is_budget or fitted.alarm.rate:
            threshold = spec.threshold(history_scores, fitted.period, careful=channel is not None)
        else:  # the tail of the scores stays
            threshold = _moved(fitted, checked_threshold(spec.rule, history_scores))
    accepted = isinstance(fitted.acceptance, TimedAcceptance)
    accepts = accepted
    if fitted.choice is None and config.accept_after != fitted.config.accept_after:
        accepts = config.accept_after is not None
    if accepts and not accepted:
        raise ParameterError(
            "accept_after: expected None for a detector that was fitted without acceptance, "
            f"found {config.accept_after!r}",
            hint="fit a new detector with it: the range of normal is taken from history",
        )
    tracked = fitted.alarms.active and not (accepted or before.has_alarms)  # by `track_alarms`
    changed = replace(
        fitted,
        config=config,
        step=params,
        **_threshold_parts(threshold),
        **moving,
        alarms=AlarmLog() if accepts or spec.has_alarms or tracked else NO_ALARMS,
        acceptance=TimedAcceptance(config.patience(fitted.period)) if accepts else NO_ACCEPTANCE,
        channel=channel,
        drift=fitted.drift if accepts else None,
        baseline=None,
        peaks=peaks,
    )
    if accepts:
        kept = fitted.baseline
        assert kept is not None
        baseline = _baseline(changed, kept.trend, kept.lows, kept.highs)
        changed = replace(changed, baseline=baseline)
    return _with_learn_threshold(changed)


def check_live(spec: ThresholdSpec, options: Mapping[str, Any]) -> None:
    """Raise a ParameterError unless these options of a live stream can be changed."""
    for name in options:
        if name not in ("alarms_per_day", "risk"):
            raise ParameterError(
                f"{name}: expected an option that a live stream can change, found {name}",
                hint="these are alarms_per_day and risk; with_options has the other options that "
                "need no training and begins a stream anew, fit has the rest",
            )
    check_target(options.get("alarms_per_day"), options.get("risk"))
    if not spec.is_budget:
        raise ParameterError(
            f"{next(iter(options))}: expected a detector with a limit on alarms, found one with a "
            "threshold, which has no tail to take a limit from",
            hint="with_options(threshold=None, alarms_per_day=1) begins a stream anew with a limit",
        )


def move_limits(state: StreamState, before: Fitted, after: Fitted) -> None:
    """Move what a live stream is judged by from one limit on alarms to that of another fit.

    By how much alarms have raised it stays. What `undo` goes back to moves likewise.
    """
    old, new = (fitted.alarm_start.levels[START_HEIGHT] for fitted in (before, after))
    kept = [part.levels for part in (state.last_quiet, state.accepted, *state.undo) if part]
    heights = [KEPT_LEVELS.index(at) for at in (HEIGHT, START_HEIGHT)]
    for levels, at in [(state.alarm.levels, [HEIGHT, START_HEIGHT]), *((k, heights) for k in kept)]:
        levels[at] = levels[at] / old * new  # in this order `old` itself becomes `new`, exactly
    threshold = state.learn_threshold
    threshold[0] = threshold[0] / before.step.learn_threshold * after.step.learn_threshold


def _start(fitted: Fitted) -> AlarmThreshold:
    """Return the alarm threshold at its start."""
    return AlarmThreshold.of_stream(fitted, fitted.alarm_start)


def _moved(fitted: Fitted, tau: float) -> AlarmThreshold:
    """Return the alarm threshold at another place, at its start."""
    start = fitted.alarm_start
    levels = start.levels.copy()
    levels[[HEIGHT, START_HEIGHT]] = tau
    return _start(fitted)._replace(state=start._replace(levels=levels))


def _threshold_parts(threshold: AlarmThreshold) -> dict[str, Any]:
    return {
        "alarm": threshold.params,
        "tail_chances": threshold.chances,
        "alarm_start": threshold.state,
    }


def _with_learn_threshold(fitted: Fitted) -> Fitted:
    """Return the same that learns below the threshold at which alarms open at the start."""
    threshold = _start(fitted).threshold_score
    step = fitted.step._replace(alarm_threshold=threshold, learn_threshold=threshold)
    return replace(fitted, step=step)


def _baseline(fitted: Fitted, trend: Floats, lows: Floats, highs: Floats) -> Baseline:
    """Return what is normal as fitted."""
    start = fitted.alarm_start
    return Baseline(
        fitted.step.fitted,
        trend,
        lows,
        highs,
        start.tail_levels,
        start.tail_excess,
        np.array([*start.levels[KEPT_LEVELS], 0.0]),
        copied(fitted.model.accepted(fitted.model.initial(fitted.step.fitted))),
        fitted.initial_normal(),
    )


def checked_threshold(rule: Threshold | MovingThreshold, history_scores: HistoryScores) -> float:
    """Return the threshold a rule gives, if that is a number."""
    if isinstance(rule, MovingThreshold):
        return threshold_of(rule, start_of(rule, history_scores.ordered))
    tau = float(rule.fit(history_scores.for_rule))
    if math.isnan(tau):
        raise ParameterError(
            f"threshold: expected a number from {rule!r}, found NaN",
            hint="its fit(scores) must return the score from which on a sample is anomalous",
        )
    return tau


def _check_adapts(config: Config, model: Model) -> None:
    """Raise a ParameterError if the model is to learn from the stream and cannot."""
    if config.adapt and not model.learns:
        raise ParameterError(
            f"adapt: {config.model} cannot learn from the stream, found adapt=True",
            hint="pass adapt=False; detrend=True works with any model",
        )
    if config.adapt and model.holds_objects and config.accept_after is not None:
        raise ParameterError(
            f"accept_after: {model.name} holds objects of its own, which cannot be put back when a "
            f"person rejects what they learned, found accept_after={config.accept_after!r}",
            hint="leave accept_after out, or pass adapt=False",
        )


def _check_weights(weights: Floats32) -> None:
    if not np.isfinite(weights).all():
        raise NewnormalError(
            "training did not converge: the model's weights are not finite",
            hint="look for extreme values in the history, or scale it first",
        )


def writable(fitted: Fitted) -> Fitted:
    """Return the same with arrays of its own, all of which can be written to.

    To the compiled kernels an array that cannot is another type.
    """
    return replace(
        fitted,
        model=_own_arrays(fitted.model),
        step=copied(fitted.step),
        tail_chances=copied(fitted.tail_chances),
        alarm_start=copied(fitted.alarm_start),
        moving_start=copied(fitted.moving_start),
        drift=copied(fitted.drift),
        baseline=copied(fitted.baseline),
    )


def _own_arrays(model: Any) -> Any:
    """Return the model with arrays of its own; those of its objects stay shared."""
    twin = copy.copy(model)
    for name, value in vars(model).items():
        if isinstance(value, np.ndarray | tuple):
            setattr(twin, name, copied(value))
        elif isinstance(value, Model):
            setattr(twin, name, _own_arrays(value))
    return twin
