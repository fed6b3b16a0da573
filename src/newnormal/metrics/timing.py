"""What an operator feels: how late an event is noticed, and how many alarms are for nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from newnormal.errors import ParameterError
from newnormal.metrics.inputs import labels_and_predictions, runs
from newnormal.types import Bools, Floats

Period: TypeAlias = float | timedelta | np.timedelta64
"""The time from one sample to the next: seconds, or a timedelta."""


@dataclass(frozen=True, eq=False)
class DetectionDelay:
    """How long after its start each event was noticed; missed events are kept apart.

    Attributes
    ----------
    delays
        One value an event, in order; NaN for a missed one.
    """

    delays: Floats

    @property
    def events(self) -> int:
        """How many events there are."""
        return len(self.delays)

    @property
    def missed(self) -> int:
        """How many of them no prediction fell into."""
        return int(np.count_nonzero(np.isnan(self.delays)))

    @property
    def detected(self) -> int:
        """How many of them some prediction fell into."""
        return self.events - self.missed

    @property
    def mean(self) -> float:
        """The mean delay of the detected events; NaN where there are none."""
        return float(np.nanmean(self.delays)) if self.detected else np.nan

    @property
    def median(self) -> float:
        """The median delay of the detected events; NaN where there are none."""
        return float(np.nanmedian(self.delays)) if self.detected else np.nan


def detection_delay(
    labels: ArrayLike, predictions: ArrayLike, *, period: Period | None = None
) -> DetectionDelay:
    """Return, for each event, how long after its start the first prediction inside it comes.

    The delay of a missed event is unknown, not large: read `missed` beside the mean, which a
    detector improves by missing the hard events.

    Parameters
    ----------
    labels
        1 for a labelled sample, 0 for a normal one; a run of 1s is an event.
    predictions
        1 where the detector's verdict is anomalous.
    period
        The time from one sample to the next, in seconds or as a timedelta. With it delays are in
        seconds, without it in samples.

    Examples
    --------
    >>> delay = detection_delay([0, 1, 1, 1, 0, 1, 1], [0, 0, 0, 1, 1, 0, 0])
    >>> delay.delays.tolist(), delay.missed
    ([2.0, nan], 1)
    """
    truth, predicted = labels_and_predictions(labels, predictions)
    unit = 1.0 if period is None else period_seconds(period)
    return DetectionDelay(_delays(truth, predicted) * unit)


def false_alarms(labels: ArrayLike, predictions: ArrayLike) -> int:
    """Count the alarms for nothing: runs of predictions that share no sample with an event.

    Ten anomalous samples in a row are one alarm. A run that begins before an event and reaches
    into it is early, not false.

    Examples
    --------
    >>> false_alarms([0, 0, 0, 0, 1, 1], [1, 1, 0, 1, 1, 0])
    1
    """
    truth, predicted = labels_and_predictions(labels, predictions)
    starts, stops = runs(predicted)
    labelled_before = np.concatenate([[0], np.cumsum(truth)])
    return int(np.count_nonzero(labelled_before[starts] == labelled_before[stops]))


def false_alarms_per_day(labels: ArrayLike, predictions: ArrayLike, *, period: Period) -> float:
    """Return `false_alarms` divided by the days the samples span.

    Parameters
    ----------
    labels
        1 for a labelled sample, 0 for a normal one.
    predictions
        1 where the detector's verdict is anomalous.
    period
        The time from one sample to the next, in seconds or as a timedelta.

    Examples
    --------
    >>> false_alarms_per_day([0, 0, 0, 0], [0, 1, 1, 0], period=timedelta(hours=3))
    2.0
    """
    count = false_alarms(labels, predictions)
    return count / (np.size(labels) * period_seconds(period) / 86_400)


def period_seconds(period: Period) -> float:
    """Return a sampling period in seconds, or raise `ParameterError`."""
    if isinstance(period, np.timedelta64):
        seconds = float(period / np.timedelta64(1, "s"))
    elif isinstance(period, timedelta):
        seconds = period.total_seconds()
    elif isinstance(period, int | float | np.integer | np.floating):
        seconds = float(period)
    else:
        raise ParameterError(
            f"period must be seconds or a timedelta, found {period!r}",
            hint="for one sample a minute: period=60",
        )
    if not 0 < seconds < np.inf:
        raise ParameterError(
            f"period must be positive, found {period!r}",
            hint="it is the time from one sample to the next",
        )
    return seconds


def _delays(truth: Bools, predicted: Bools) -> Floats:
    starts, stops = runs(truth)
    positions = np.append(np.flatnonzero(predicted), len(predicted))
    first = positions[np.searchsorted(positions, starts)]
    return np.where(first < stops, first - starts, np.nan)
