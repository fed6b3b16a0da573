"""`compare`: a data set and the verdicts of several detectors on it, in one picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from newnormal.datasets import Dataset
from newnormal.plots.stack import ChangeMark, DetectorRun, Ruler, Signal, stack
from newnormal.types import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DAY = np.timedelta64(1, "D")


def compare(
    data: Dataset,
    runs: Sequence[DetectorRun],
    *,
    channels: Sequence[str],
    trend: Floats | None = None,
    changes: Sequence[str] = (),
    heading: str | None = None,
    days: bool = False,
    comparable: bool = True,
) -> Figure:
    """Draw channels of a data set, and below them the score and the alarms of each detector.

    Labelled samples are shaded. Needs the extra ``plot``.

    Parameters
    ----------
    data
        The data set.
    runs
        The verdicts of each detector on ``data.test``.
    channels
        The names of the channels to draw.
    trend
        A line over each channel, shape (T, C), such as the trend that a detector followed.
    changes
        What begins at each of ``data.shifts``; none is marked by default.
    heading
        Above the channels; None: the name of the data set.
    days
        Whether the axis counts days, by ``data.period``, and not samples.
    comparable
        Whether all scores have one scale.

    Examples
    --------
    >>> from newnormal import M2N2
    >>> from newnormal.datasets import neurips_ts_uni
    >>> data = neurips_ts_uni(length=600)
    >>> verdicts = M2N2(epochs=1).fit(data.train).run(data.test)
    >>> figure = compare(data, [DetectorRun("M2N2", "", verdicts)], channels=data.channels)
    >>> len(figure.axes)
    3
    """
    samples = np.arange(len(data.test), dtype=np.float64)
    ruler = Ruler(samples, "sample")
    if days:
        ruler = Ruler(samples * float((data.period or _DAY) / _DAY), "days since going live")
    columns = [data.channels.index(name) for name in channels]
    return stack(
        ruler,
        [
            Signal(
                f"channel {name}" if name.isdigit() else name,
                data.test[:, column],
                None if trend is None else trend[:, column],
            )
            for name, column in zip(channels, columns, strict=True)
        ],
        runs,
        data.labels.astype(bool),
        heading=data.name if heading is None else heading,
        over=None if trend is None else "trend",
        changes=[ChangeMark(*mark) for mark in zip(data.shifts, changes, strict=bool(changes))],
        comparable=comparable,
    )
