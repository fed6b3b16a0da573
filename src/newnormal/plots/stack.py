"""A stream and what detectors made of it, one panel below the other on one axis of time.

`compare` draws a data set and the verdicts of several detectors on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, timedelta, timezone, tzinfo
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

from newnormal.datasets import Dataset
from newnormal.plots.canvas import INK, LIGHT, NORMAL, SMALL, Style, blank
from newnormal.plots.panels import alarm_strip, key, score_panel, score_range, signal_panel, tidy
from newnormal.plots.thinning import in_ratios
from newnormal.types import Bools, Floats, Verdicts
from newnormal.types.zones import minutes_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Inches. Below the gaps in which there is text, panels of one group are close together.
_WIDTH, _LEFT, _RIGHT = 9.0, 0.68, 0.22
_TITLED, _CLOSE, _FOOT = 0.45, 0.1, 0.8
_SIGNAL, _SCORE, _STRIP = 0.9, 1.4, 0.16
# Along an axis of years, months, days, hours, minutes or seconds: every place, what is written once
# at the end of the axis, and the places at which the next larger unit begins.
_DATES = (
    ["%Y", "%Y-%m", "%m-%d", "%H:%M", "%H:%M", "%S.%f"],
    ["", "", "%Y", "%Y-%m-%d", "%Y-%m-%d", "%Y-%m-%d %H:%M"],
    ["", "%Y-%m", "%m-%d", "%m-%d", "%H:%M", "%H:%M"],
)


class Ruler(NamedTuple):
    """Where the samples lie along the axis of time."""

    x: Floats
    name: str
    dates: bool = False
    zone: str | None = None

    @classmethod
    def of(cls, verdicts: Verdicts) -> Ruler:
        """Return the verdicts' times or, where one is missing, the samples' numbers."""
        times = verdicts.times
        if times is None or np.isnat(times).any():
            return cls(verdicts.samples.astype(np.float64), "sample")
        # Matplotlib counts days since 1970.
        days = times.astype("datetime64[ns]").astype(np.float64) / 86_400e9
        return cls(days, verdicts.zone or "", dates=True, zone=verdicts.zone)

    @property
    def ends(self) -> tuple[float, float]:
        """From where to where the axis goes: one sample is in its middle."""
        first, last = float(self.x[0]), float(self.x[-1])
        if last > first:
            return first, last
        room = 1 / 48 if self.dates else 0.5
        return first - room, first + room


class Signal(NamedTuple):
    """One channel, and a line to draw over it."""

    name: str
    values: Floats
    over: Floats | None


class DetectorRun(NamedTuple):
    """The verdicts of one detector, with its name and a remark on them."""

    name: str
    remark: str
    verdicts: Verdicts

    @property
    def decides(self) -> bool:
        """Whether the ratio decides, and not the score."""
        return self.verdicts.channel_ratios is not None


class ChangeMark(NamedTuple):
    """A sample at which something lasting begins, and what it is."""

    sample: int
    text: str


def stack(
    ruler: Ruler,
    signals: Sequence[Signal],
    runs: Sequence[DetectorRun],
    labels: Bools,
    *,
    heading: str,
    over: str | None,
    changes: Sequence[ChangeMark] = (),
    comparable: bool = True,
) -> Figure:
    """Draw signals, and below them for each run its score and its alarms.

    `heading` names the signals, `over` what is drawn over them. Scores that are `comparable`
    have one scale.
    """
    figure, axes = column(
        [(_CLOSE if nth else _TITLED, _SIGNAL) for nth in range(len(signals))]
        + [height for _ in runs for height in [(_TITLED, _SCORE), (_CLOSE, _STRIP)]]
    )
    panels = iter(axes)
    for signal in signals:
        panel = next(panels)
        signal_panel(panel, ruler.x, signal.values, labels, signal.over)
        tidy(panel, signal.name)
    # The score of `Detector` ranks: what decides is the ratio.
    runs = [run._replace(verdicts=in_ratios(run.verdicts)) if run.decides else run for run in runs]
    everyone = [run.verdicts for run in runs]
    for run in runs:
        limits = score_range(everyone if comparable else [run.verdicts])
        panel = next(panels)
        score_panel(panel, ruler.x, run.verdicts, labels, limits)
        tidy(panel, "ratio" if run.decides else "score")
        _entitle(panel, run.name, run.remark)
        panel = next(panels)
        alarm_strip(panel, ruler.x, run.verdicts, labels)
        tidy(panel, "")

    _entitle(axes[0], heading)
    for panel in axes:
        panel.set_xlim(*ruler.ends)
        for change in changes:
            panel.axvline(ruler.x[change.sample], color=INK, linewidth=0.9)
    for change in changes:
        _announce(axes[0], ruler.x[change.sample], change.text)
    scale(axes[-1], ruler)
    key(figure, over)
    return figure


def column(
    heights: Sequence[tuple[float, float]], foot: float = _FOOT, style: Style = LIGHT
) -> tuple[Figure, list[Axes]]:
    """Return a figure of panels one below the other, given the gap above and height of each."""
    total = sum(gap + height for gap, height in heights) + foot
    figure = blank(_WIDTH, total, style)
    left, width = _LEFT / _WIDTH, 1 - (_LEFT + _RIGHT) / _WIDTH
    axes, bottom = [], total
    for gap, height in heights:
        bottom -= gap + height
        axes.append(figure.add_axes((left, bottom / total, width, height / total)))
    return figure, axes


def _entitle(axes: Axes, name: str, remark: str = "") -> None:
    axes.set_title(name, loc="left", fontsize=NORMAL, fontweight="bold", color=INK, pad=5)
    axes.set_title(remark, loc="right", fontsize=SMALL, color=INK, pad=5)


def _announce(axes: Axes, x: float, text: str) -> None:
    axes.annotate(
        text,
        (x, 1),
        xycoords=axes.get_xaxis_transform(),
        xytext=(0, 5),
        textcoords="offset points",
        fontsize=SMALL,
        color=INK,
    )


def scale(axes: Axes, ruler: Ruler, style: Style = LIGHT) -> None:
    """Write dates, or numbers with thousands set apart, along the axis of time."""
    from matplotlib import dates, ticker

    axes.tick_params(axis="x", length=3, labelbottom=True)
    axes.set_xlabel(ruler.name, fontsize=SMALL, color=style.ink)
    if ruler.dates:
        zone = _tzinfo(ruler.zone)
        locator = dates.AutoDateLocator(tz=zone)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        written = dates.ConciseDateFormatter(locator, zone, *_DATES)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_formatter(written)
        axes.xaxis.get_offset_text().set(fontsize=SMALL, color=style.ink)
    else:
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.10g}"))


def _tzinfo(zone: str | None) -> tzinfo:
    """Return a zone for dates: an IANA name or an offset; UTC where it is not known here."""
    if zone is None or zone == "UTC":
        return UTC
    if zone[0] in "+-":
        return timezone(timedelta(minutes=minutes_of(zone)))
    try:
        return ZoneInfo(zone)
    except (KeyError, ValueError, OSError):  # ZoneInfoNotFoundError is a KeyError
        return UTC


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
