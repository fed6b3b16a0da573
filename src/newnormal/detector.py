"""The two detectors: `Detector` chooses for itself, `M2N2` is the paper's method.

Here are their options and how they are fitted; `newnormal.base` has what they share.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, TypeAlias

import numpy as np

from newnormal import hooks
from newnormal.base import BaseDetector
from newnormal.config import Config
from newnormal.core.state import Fitted
from newnormal.errors import ParameterError
from newnormal.fitting import HistoryScores, ThresholdSpec, fit_auto, fit_m2n2
from newnormal.models.registry import find
from newnormal.state import State
from newnormal.tabular import Table
from newnormal.thresholds import MovingThreshold, Threshold
from newnormal.tuning import LATENT, WINDOW, explain
from newnormal.turns import add_lock

DEFAULT_ALARMS_PER_DAY = 1.0  # of a Detector without alarms_per_day, risk and threshold

Duration: TypeAlias = float | str | timedelta | np.timedelta64


class Detector(BaseDetector):
    """Detects anomalies in a live stream, and keeps learning what normal is.

    Fit it on history that is mostly normal; then hand it the stream, sample by sample (`step`) or
    in stretches (`run`). Each sample has its verdict at once. It chooses its settings from history
    alone, a committee of autoencoders and of simpler models: `explain` describes the choice. Its
    alarms are events (`take_events`), and what lasts is accepted as a new normal, or rejected, by
    time or by a person (`accept`, `reject`, `undo`).

    Parameters
    ----------
    alarms_per_day
        A limit: the most false alarms a day that normal operation may cost. The threshold rises
        with alarms and comes back, and never sinks below where history puts it. None: 1, unless
        `risk` or `threshold` is given.
    risk
        Instead: the limit as the chance that a false alarm opens at any one sample.
    threshold
        Instead: the quantile of history's scores, between 0 and 1, from which on a sample is
        anomalous; or a Threshold, such as ``newnormal.Fixed(4.0)``, which stay where they are put;
        or a MovingThreshold; or the import path of a rule.
    accept_after
        How long a change must last before it can become normal without a person, in samples or
        in time ("1d"); or "never". None: a day, or 1,440 samples where history has no times.
    epochs, batch
        How training goes through the history. None: until the losses settle, and 64.
    period
        Time between samples; None: the median in history, where that has times.
    seed
        The same seed, data and machine give the same detector, bit for bit.
    units
        Units of channels by name, for words: ``{"disk": "B"}`` gives "disk 93.5 GB". A file may
        have them, too, in a row below its header.

    Attributes
    ----------
    memories_, rates_, members_, smoothing_
        What was chosen: the half-lives of the trends in samples, the learning rate beside each,
        every vote with its weight, and the half-life of the score's smoothing.

    Examples
    --------
    >>> import numpy as np
    >>> from newnormal import Detector
    >>> rng = np.random.default_rng(0)
    >>> history = np.sin(np.arange(600) / 9)[:, None] + rng.normal(0, 0.1, (600, 2))
    >>> live = history[:205].copy()
    >>> live[200] += 3
    >>> detector = Detector(alarms_per_day=1).fit(history)
    >>> verdicts = detector.run(live)
    >>> detector.alarm_.start, verdicts.anomalous[:200].any()
    (200, np.False_)
    """

    method = "detector"

    def __init__(
        self,
        *,
        alarms_per_day: float | None = None,
        risk: float | None = None,
        threshold: float | str | Threshold | MovingThreshold | None = None,
        accept_after: Duration | None = None,
        epochs: int | None = None,
        batch: int | None = None,
        period: Duration | None = None,
        seed: int = 0,
        units: Mapping[str, str] | None = None,
        **method: Any,
    ) -> None:
        _refuse(method)
        add_lock(self)
        self.alarms_per_day = alarms_per_day
        self.risk = risk
        self.threshold = threshold
        self.accept_after = accept_after
        self.epochs = epochs
        self.batch = batch
        self.period = period
        self.seed = seed
        self.units = units
        self._settings()

    def _settings(self) -> tuple[Config, ThresholdSpec]:
        options = self.get_params()
        if all(options[name] is None for name in ("alarms_per_day", "risk", "threshold")):
            options["alarms_per_day"] = DEFAULT_ALARMS_PER_DAY
        spec = ThresholdSpec.of(options)
        return Config.of(**options, window=WINDOW, latent=LATENT), spec

    def _fit(
        self, config: Config, spec: ThresholdSpec, history: Table, *args: Any
    ) -> tuple[Fitted, HistoryScores]:
        return fit_auto(
            config,
            spec,
            history.values,
            *args,
            times=history.times,
            zone=history.zone,
            epochs=self.epochs,
            batch=self.batch,
        )

    def explain(self) -> str:
        """Return what was chosen from history, and why, in sentences and one table."""
        return explain(self._trained().choice)

    @property
    def memories_(self) -> tuple[float, ...]:
        """The half-lives of the trends, in samples."""
        return tuple(self._trained().choice.plan.memories)

    @property
    def rates_(self) -> tuple[float, ...]:
        """The learning rate beside each."""
        return tuple(self._trained().choice.plan.rates)

    @property
    def members_(self) -> tuple[Any, ...]:
        """Every vote, with its weight."""
        return tuple(self._trained().choice.members)

    @property
    def smoothing_(self) -> float:
        """The half-life of the score's smoothing, in samples."""
        return float(self._trained().choice.plan.smoothing)


class M2N2(BaseDetector):
    """The method of *When Model Meets New Normals* (AAAI 2024), with the paper's options.

    Each window updates a trend, which is subtracted; is reconstructed and scored; is judged; and,
    where judged normal, is learned from.

    Parameters
    ----------
    window
        Samples judged together. Trend and weights move once per window.
    stride
        Samples a verdict waits for; divides `window`. None: `window`. 1: a verdict at once.
    fit_stride
        Step between training windows. None: `window`.
    latent
        Width of the autoencoder's bottleneck.
    decay
        Share of the trend that a window keeps, γ. Near 1 is a long memory. None: 0.99.
    half_life
        The same as a half-life: in samples, or in time ("6h"). Instead of `decay`.
    lr
        Size of the learning step, η.
    detrend
        Whether to follow and subtract the trend.
    adapt
        Whether to keep learning. With both off, the detector is frozen.
    model
        The model's name, its import path ("package.module:Class"), or its class.
    epochs, batch
        How training goes through the history.
    accept_after
        As for `Detector`. None: no acceptance; the model learns as in the paper.
    alarms_per_day, risk, period, seed, units
        As for `Detector`; without `alarms_per_day` there is no limit.
    threshold
        As for `Detector`. None: 0.99, unless there is a limit.

    Examples
    --------
    >>> import numpy as np
    >>> from newnormal import M2N2
    >>> rng = np.random.default_rng(0)
    >>> history = np.sin(np.arange(600) / 9)[:, None] + rng.normal(0, 0.1, (600, 2))
    >>> live = history[:240].copy()
    >>> live[200] += 3
    >>> verdicts = M2N2(window=6, threshold=1.0).fit(history).run(live)
    >>> np.flatnonzero(verdicts.anomalous).tolist()
    [200]
    """

    method = "m2n2"

    def __init__(
        self,
        *,
        window: int = 12,
        stride: int | None = None,
        fit_stride: int | None = None,
        latent: int = 16,
        decay: float | None = None,
        half_life: Duration | None = None,
        lr: float = 0.001,
        detrend: bool = True,
        adapt: bool = True,
        model: str | type = "mlp",
        alarms_per_day: float | None = None,
        risk: float | None = None,
        threshold: float | str | Threshold | MovingThreshold | None = None,
        accept_after: Duration | None = None,
        epochs: int = 10,
        batch: int = 64,
        period: Duration | None = None,
        seed: int = 0,
        units: Mapping[str, str] | None = None,
    ) -> None:
        add_lock(self)
        self.window = window
        self.stride = stride
        self.fit_stride = fit_stride
        self.latent = latent
        self.decay = decay
        self.half_life = half_life
        self.lr = lr
        self.detrend = detrend
        self.adapt = adapt
        self.model = model
        self.alarms_per_day = alarms_per_day
        self.risk = risk
        self.threshold = threshold
        self.accept_after = accept_after
        self.epochs = epochs
        self.batch = batch
        self.period = period
        self.seed = seed
        self.units = units
        self._settings()

    def _settings(self) -> tuple[Config, ThresholdSpec]:
        options = self.get_params()
        spec = ThresholdSpec.of(options)
        find(self.model)
        return Config.of(**options), spec

    def _fit(
        self, config: Config, spec: ThresholdSpec, history: Table, *args: Any
    ) -> tuple[Fitted, HistoryScores]:
        return fit_m2n2(config, spec, history.values, *args)

    def explain(self) -> str:
        """Return that nothing was chosen."""
        return "Nothing was chosen: M2N2 has the options it was given. Detector chooses."


def load(
    path: str | os.PathLike[str], model: object = None, threshold: object = None
) -> BaseDetector:
    """Read a detector back, exactly as it was: a `Detector` or an `M2N2`.

    A state file holds no code. Its model is one of newnormal's own or an installed entry point;
    any other class must be named here: ``load(path, model=Mine)``, or by its import path,
    ``model="package.module:Mine"``. The same goes for the class of its threshold.

    The folder of a `watch` of one stream has its detector as of the last checkpoint.
    """
    if os.path.isdir(path):
        detector: BaseDetector = hooks.one_stream(path, model, threshold)
        return detector
    return BaseDetector.load(path, model, threshold)


def from_state(
    state: State, origin: str = "this", model: object = None, threshold: object = None
) -> BaseDetector:
    """Return the detector that `to_state` was called on; `origin` is for errors."""
    return BaseDetector.from_state(state, origin, model, threshold)


def _refuse(method: dict[str, Any]) -> None:
    """Raise an error if `Detector` is given an option of the paper's method."""
    options = M2N2._defaults()
    for name, value in method.items():
        if name in options:
            raise ParameterError(
                f"{name}: Detector chooses it by itself, found {name}={value!r}",
                hint=f"to set it, use the paper's method: newnormal.M2N2({name}={value!r})",
            )
        raise TypeError(f"Detector.__init__() got an unexpected keyword argument {name!r}")
