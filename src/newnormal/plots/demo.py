"""The demo's picture: what is shown in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from newnormal.datasets import Dataset
from newnormal.plots.stack import Change, Judged, Ruler, Signal, stack
from newnormal.types import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DAY = np.timedelta64(1, "D")


def demo_figure(
    data: Dataset,
    trend: Floats,
    runs: Sequence[Judged],
    *,
    channels: Sequence[str],
    changes: Sequence[str],
) -> Figure:
    """Draw the plant, whose normal changes, and what several detectors made of it.

    Parameters
    ----------
    data
        The stream, with its labels, sampling period and shifts.
    trend
        The trend one of the detectors followed, shape (T, C).
    runs
        Each detector's verdicts on ``data.test``.
    channels
        The channels to show, two or three of them.
    changes
        What happens at each of ``data.shifts``.
    """
    days = np.arange(len(data.test), dtype=np.float64) * float((data.period or _DAY) / _DAY)
    columns = [data.channels.index(name) for name in channels]
    return stack(
        Ruler(days, "days since going live"),
        [Signal(data.channels[c], data.test[:, c], trend[:, c]) for c in columns],
        runs,
        data.labels.astype(bool),
        heading="The plant",
        over="trend",
        changes=[Change(*change) for change in zip(data.shifts, changes, strict=True)],
    )
