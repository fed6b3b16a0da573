"""The demo: one plant, one history, two detectors, one frozen and one that learns.

The settings were chosen for this kind of plant, on seeds 0 to 9, and checked on seeds 10 to 19.
The figure needs the extra ``plot``; nothing else needs one.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from newnormal import metrics, plots
from newnormal.base import BaseDetector
from newnormal.datasets import Dataset, plant
from newnormal.detector import M2N2
from newnormal.types import Bools, Floats, Verdicts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_QUIET = np.timedelta64(1, "h")  # without a false alarm


@dataclass(frozen=True, eq=False)
class DemoRow:
    """The results of one detector on the live part."""

    name: str  # "frozen" or "adapting"
    settings: str  # the detector's options, as code
    verdicts: Verdicts
    precision: float  # sample by sample, as recall and F1
    recall: float
    f1: float
    auroc: float
    auprc: float  # by the trapezoidal rule
    # Normal samples after the first shift that were called anomalous. Samples, not events: an
    # alarm that never ends would count as one event.
    false_alarms: int
    false_alarm_share: float
    quiet_after: np.timedelta64 | None  # from the first shift to an hour without a false alarm
    samples_per_second: float  # of the live run, after a warm-up


@dataclass(frozen=True, eq=False)
class PlantDemo:
    """The plant, the trend of the adapting detector, (T, C), and the results of each detector."""

    data: Dataset
    trend: Floats
    frozen: DemoRow
    adapting: DemoRow


def fit_on_history(detector: BaseDetector, data: Dataset, **callbacks: Any) -> None:
    """Fit a detector on the history of a plant; the callbacks are those of `fit`."""
    detector.fit(data.train, times=data.train_times, **callbacks)


def run_demo(
    seed: int = 0,
    say: Callable[[str], None] = lambda _: None,
    fit: Callable[[BaseDetector, Dataset], None] = fit_on_history,
) -> PlantDemo:
    """Generate a plant, fit on its history, and run its live part twice, frozen and adapting.

    Parameters
    ----------
    seed
        Of the plant and of both detectors.
    say
        Called with a line of text as each part begins.
    fit
        Fits a detector on the history, such as with a bar of progress.
    """
    say("making three weeks of a plant that is retuned twice")
    data = plant(seed=seed, speed_up=2.0)
    frozen = M2N2(fit_stride=1, threshold=1.0, detrend=False, adapt=False, seed=seed)
    adapting = M2N2(fit_stride=1, threshold=1.0, half_life="1h", lr=0.03, seed=seed)
    rows = []
    for name, detector in (("frozen", frozen), ("adapting", adapting)):
        say(f"{name}: fitting on {len(data.train):,} samples of history")
        fit(detector, data)
        say(f"{name}: judging {len(data.test):,} live samples")
        rows.append(_judge(name, detector, data))
    return PlantDemo(data, _trend(adapting, data), *rows)


def picture(demo: PlantDemo) -> "Figure":
    """Return the figure of both detectors, one above the other."""
    return plots.compare(
        demo.data,
        [
            plots.DetectorRun(f"{row.name.capitalize()} detector", _remark(row), row.verdicts)
            for row in (demo.frozen, demo.adapting)
        ],
        channels=("temperature", "vibration"),
        trend=demo.trend,
        changes=("level shift: the new normal", "dynamics change: cycles twice as fast"),
        heading="The plant",
        days=True,
    )


def _judge(name: str, detector: BaseDetector, data: Dataset) -> DemoRow:
    detector.run(data.test[: 10 * detector.window_])
    detector.reset()
    start = time.perf_counter()
    verdicts = detector.run(data.test, times=data.test_times)
    seconds = time.perf_counter() - start

    counts = metrics.confusion(data.labels, verdicts.anomalous)
    after = slice(data.shifts[0], None)
    normal = data.labels[after] == 0
    false = verdicts.anomalous[after] & normal
    return DemoRow(
        name=name,
        settings=repr(detector),
        verdicts=verdicts,
        precision=counts.precision,
        recall=counts.recall,
        f1=counts.f1,
        auroc=metrics.auroc(data.labels, verdicts.scores),
        auprc=metrics.auprc(data.labels, verdicts.scores),
        false_alarms=int(false.sum()),
        false_alarm_share=float(false.sum() / normal.sum()),
        quiet_after=_quiet_after(false, data.period or _QUIET),
        samples_per_second=len(verdicts) / seconds,
    )


def _quiet_after(false: Bools, period: np.timedelta64) -> np.timedelta64 | None:
    """Return the time until the first stretch of `_QUIET` without a false alarm."""
    alarms = np.flatnonzero(false)
    begins, ends = np.append(0, alarms + 1), np.append(alarms, len(false))
    quiet = np.flatnonzero((ends - begins) * period >= _QUIET)
    return begins[quiet[0]] * period if len(quiet) else None


def _trend(detector: BaseDetector, data: Dataset) -> Floats:
    """Run over the live part again, window by window, and return the trend after each."""
    detector.reset()
    trend = np.empty_like(data.test)
    for start in range(0, len(trend), detector.window_):
        window = slice(start, start + detector.window_)
        detector.run(data.test[window], flush=False)
        trend[window] = detector.trend_
    return trend


def _remark(row: DemoRow) -> str:
    quiet = ", not one quiet hour"
    if row.quiet_after is not None:
        quiet = f", quiet again after {row.quiet_after / np.timedelta64(1, 'h'):.1f} h"
    share = percent(row.false_alarm_share)
    return f"{share} of normal samples flagged after the shift{quiet} · F1 {row.f1:.2f}"


def percent(share: float) -> str:
    """Return a share in per cent; 100 only if it is exactly 1."""
    return "100 %" if share == 1 else f"{min(100 * share, 99.9):.1f} %"
