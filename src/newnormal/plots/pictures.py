"""The pictures: what is shown in each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from newnormal.datasets import Dataset
from newnormal.errors import InputError
from newnormal.metrics import Confusion, Evaluation, confusion
from newnormal.metrics.inputs import labels_and_predictions
from newnormal.plots.stack import Change, Judged, Ruler, Signal, stack
from newnormal.tabular import to_table
from newnormal.types import Floats, Verdicts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["demo_figure", "evaluation_figure"]

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


def evaluation_figure(
    series: Any,
    verdicts: Verdicts,
    labels: ArrayLike,
    *,
    channels: int = 3,
    evaluation: Evaluation | None = None,
) -> Figure:
    """Draw the channels behind the alarms, and the score against the labelled events.

    Any number of samples will do: each pixel shows the extremes of what falls into it.

    Parameters
    ----------
    series
        The samples that were judged, as they were given to `run`.
    verdicts
        Their verdicts, from `run`.
    labels
        1 for a labelled sample, 0 for a normal one.
    channels
        How many channels to show at most: those with the largest share in the alarms or, where
        there is no alarm, in all scores.
    evaluation
        Of the same run, from `newnormal.metrics.evaluate`: the alarms that it counts are drawn, and
        its figures are in the title. None: the anomalous samples are drawn.
    """
    truth, anomalous = labels_and_predictions(labels, verdicts.anomalous)
    values = to_table(series, channels=verdicts.channels).values
    if len(values) != len(verdicts):
        raise InputError(
            f"expected the {len(verdicts)} samples that were judged, found {len(values)}",
            hint="pass the series that was given to run",
        )
    shown = np.argsort(-_weights(verdicts), kind="stable")[:channels]
    expected = verdicts.expected
    signals = [
        Signal(verdicts.channels[c], values[:, c], None if expected is None else expected[:, c])
        for c in shown
    ]
    count = len(verdicts.channels)
    of_what = "alarms" if anomalous.any() else "scores"
    subset = f"{len(shown)} of {count} channels, by their share in the {of_what}"
    return stack(
        Ruler.of(verdicts),
        signals,
        [_judged(confusion(truth, anomalous), verdicts, evaluation)],
        truth,
        heading=subset if len(shown) < count else "Channels",
        over=None if expected is None else "expected",
    )


def _judged(counts: Confusion, verdicts: Verdicts, evaluation: Evaluation | None) -> Judged:
    if evaluation is None:
        return Judged("Score", _summary(counts), verdicts)
    alarms = evaluation.alarms
    remark = f"{alarms.false_per_day:.2g} false alarms a day · F1 {counts.f1:.2f}"
    if alarms.events:
        remark = f"{alarms.found} of {alarms.events} events found · {remark}"
    return Judged("Score", remark, verdicts, evaluation.trace)


def _summary(counts: Confusion) -> str:
    labelled = f"{counts.tp + counts.fn:,} samples labelled, {counts.tp + counts.fp:,} flagged"
    if counts.tp + counts.fn == 0:
        return labelled
    return (
        f"{labelled} · precision {counts.precision:.2f} · recall {counts.recall:.2f} · "
        f"F1 {counts.f1:.2f}"
    )


def _weights(verdicts: Verdicts) -> Floats:
    """Return each channel's part in the alarms, or in all scores where there is no alarm."""
    if verdicts.shares is None:
        return np.zeros(len(verdicts.channels))
    rows = verdicts.anomalous if verdicts.anomalous.any() else np.isfinite(verdicts.scores)
    # Not shares[rows]: that would copy them, and there may be a hundred million.
    return np.asarray(verdicts.shares.sum(axis=0, dtype=np.float64, where=rows[:, None]))
