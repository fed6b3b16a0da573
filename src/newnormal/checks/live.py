"""Live data beside the detector that is to judge it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from newnormal.base import BaseDetector
from newnormal.checks.findings import Finding, Level
from newnormal.checks.texts import length
from newnormal.tabular import default_channels
from newnormal.tabular.columns import alike, listed

_SAME_RATE = 1.25  # the longer period, of the shorter one, at most


def live_findings(
    channels: Sequence[str], period: np.timedelta64 | None, named: bool, model: BaseDetector
) -> list[Finding]:
    """Return in what data differs from the history that a detector was fitted on.

    Parameters
    ----------
    channels, period
        Of the data.
    named
        Whether its channels have names of their own.
    model
        The fitted detector.
    """
    return [*_channels(channels, named, model.channels_), *_rate(period, model.period_)]


def _channels(channels: Sequence[str], named: bool, fitted: Sequence[str]) -> list[Finding]:
    if not named or tuple(fitted) == default_channels(len(fitted)):
        if len(channels) == len(fitted):
            return []
        sentence = f"the model has {len(fitted)} channels, and here are {len(channels)}"
        return [Finding("error", "channels_differ", None, sentence)]
    gone = [name for name in fitted if name not in channels]
    new = [name for name in channels if name not in fitted]
    if not gone and not new:
        return []
    parts = [f"of the model's channels {listed(gone)} are not here"] if gone else []
    parts += [f"the model does not know {listed(new)}"] if new else []
    level: Level = "error" if len(gone) == len(fitted) else "warning"
    hint = alike(gone, new)
    return [Finding(level, "channels_differ", None, "; ".join(parts), hint)]


def _rate(period: np.timedelta64 | None, fitted: np.timedelta64 | None) -> list[Finding]:
    if period is None or fitted is None or not period or not fitted:
        return []
    ratio = float(period / fitted)
    if 1 / _SAME_RATE <= ratio <= _SAME_RATE:
        return []
    sentence = (
        f"samples are {length(period)} apart here, and {length(fitted)} in the model's history"
    )
    option = f"--resample {length(fitted).replace(' ', '')}" if ratio < 1 else None
    return [Finding("warning", "rate_differs", None, sentence, option)]
