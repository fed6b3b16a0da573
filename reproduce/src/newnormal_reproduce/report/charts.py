"""Charts of results: bars, clouds of points, curves, and bands, as small panels side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from newnormal_reproduce.engine.arrays import Bools, Floats, runs
from newnormal_reproduce.report.figures import FALSE, INK, LINE, NORMAL, PALE, SMALL, TRUE, blank

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL, _GAP, _LEFT, _RIGHT, _TOP, _FOOT = 2.55, 0.55, 0.62, 0.15, 0.42, 0.85


class ComparedBar(NamedTuple):
    """One bar, and the mark of what it is compared with; NaN where there is none."""

    name: str
    value: float
    beside: float
    text: str


class Cloud(NamedTuple):
    """Points of a plane in groups; or the values of one channel, of which histograms are drawn."""

    title: str
    groups: Mapping[str, Floats]  # (n, 2) or (n,)


class Curve(NamedTuple):
    """A line with a name; the same name has the same colour in all panels."""

    name: str
    x: Floats
    y: Floats
    strong: bool = False
    mark: tuple[float, float] | None = None


class Panel(NamedTuple):
    """Curves over one pair of axes."""

    title: str
    curves: Sequence[Curve]
    x: str
    y: str
    diagonal: bool = False
    level: float | None = None  # of a score without information
    log: bool = False


class Band(NamedTuple):
    """A line with its spread; or, with no spread, the line alone."""

    name: str
    x: Floats
    middle: Floats
    spread: Floats | None
    colour: str
    width: float = 1.2


def bars(rows: Sequence[ComparedBar], *, axis: str, ours: str, beside: str) -> Figure:
    """Draw values on a log scale, one bar below the other, each with the mark of another's."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    height = 0.27 * len(rows) + 1.15
    figure = blank(9.0, height)
    axes = figure.add_axes((0.315, 0.8 / height, 0.575, 1 - 0.9 / height))
    places = np.arange(len(rows))[::-1]
    values = np.array([row.value for row in rows])
    marks = np.array([row.beside for row in rows])
    shown_values = np.concatenate([values, marks])
    shown_values = shown_values[np.isfinite(shown_values) & (shown_values > 0)]
    low = float(shown_values.min()) / 3 if len(shown_values) else 0.1
    axes.set_xscale("log")
    shown = np.where(np.isfinite(values) & (values > 0), values, low)
    axes.barh(places, shown - low, left=low, height=0.6, color=TRUE, alpha=0.85)
    axes.scatter(marks, places, marker="|", s=190, color=FALSE, linewidths=2.2, zorder=3)
    axes.set_xlim(low, float(shown_values.max()) * 3 if len(shown_values) else 10)
    axes.set_ylim(-0.7, len(rows) - 0.3)
    axes.set_yticks(places, [row.name for row in rows])
    for place, row in zip(places, rows, strict=True):
        axes.text(
            1.01,
            place,
            row.text,
            transform=axes.get_yaxis_transform(),
            va="center",
            fontsize=SMALL,
            color=INK,
        )
    _calm(axes)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=PALE, linewidth=0.5, alpha=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel(axis, fontsize=SMALL, color=INK)
    _legend(
        figure,
        {
            ours: Patch(facecolor=TRUE, alpha=0.85),
            beside: Line2D([], [], color=FALSE, marker="|", markersize=10, mew=2.2, linewidth=0),
        },
    )
    return figure


def clouds(panels: Sequence[Cloud], *, columns: int = 4) -> Figure:
    """Draw groups of points, one panel a data set; the first three groups have fixed colours."""
    from matplotlib.lines import Line2D

    figure, axes = _grid(len(panels), columns, foot=0.45)
    looks = ((LINE, "o", 5.0), (TRUE, "o", 5.0), (FALSE, "x", 16.0))
    for panel, place in zip(panels, axes, strict=True):
        for (colour, marker, size), (name, points) in zip(
            looks, panel.groups.items(), strict=False
        ):
            del name
            if points.ndim == 1:
                _histogram(place, panel.groups, points, colour)
                continue
            place.scatter(
                points[:, 0],
                points[:, 1],
                s=size,
                marker=marker,
                color=colour,
                linewidths=0 if marker == "o" else 0.9,
                alpha=0.55 if marker == "o" else 0.9,
                rasterized=True,  # thousands of points: as a drawing they would weigh megabytes
            )
        place.set_xticks([])
        place.set_yticks([])
        _calm(place)
        place.spines[["left", "bottom"]].set_visible(True)
        _entitle(place, panel.title)
    names = list(dict.fromkeys(name for panel in panels for name in panel.groups))
    _legend(
        figure,
        {
            name: Line2D([], [], color=colour, marker=marker, markersize=6, linewidth=0)
            for name, (colour, marker, _) in zip(names, looks, strict=False)
        },
    )
    return figure


def curves(panels: Sequence[Panel], colours: Mapping[str, str], *, columns: int = 4) -> Figure:
    """Draw curves of several names, one panel a data set, on axes from 0 to 1 where not `log`."""
    from matplotlib.lines import Line2D

    figure, axes = _grid(len(panels), columns)
    for panel, place in zip(panels, axes, strict=True):
        if panel.diagonal:
            place.plot([0, 1], [0, 1], color=PALE, linewidth=0.9)
        if panel.level is not None:
            place.axhline(panel.level, color=PALE, linewidth=0.9)
        for curve in panel.curves:
            place.plot(
                curve.x,
                curve.y,
                color=colours[curve.name],
                linewidth=1.9 if curve.strong else 1.1,
                zorder=3 if curve.strong else 2,
            )
            if curve.mark is not None:
                place.plot(
                    *curve.mark, marker="o", markersize=4.5, color=colours[curve.name], zorder=4
                )
        if panel.log:
            place.set_xscale("log")
            place.set_ylim(0, None)
        else:
            place.set_xlim(-0.01, 1.01)
            place.set_ylim(-0.01, 1.02)
        _calm(place)
        place.set_xlabel(panel.x, fontsize=SMALL, color=INK)
        place.set_ylabel(panel.y, fontsize=SMALL, color=INK)
        _entitle(place, panel.title)
    strong = {curve.name: curve.strong for panel in panels for curve in panel.curves}
    _legend(
        figure,
        {
            name: Line2D([], [], color=colours[name], linewidth=2.2 if heavy else 1.4)
            for name, heavy in strong.items()
        },
    )
    return figure


def bands(
    panels: Sequence[tuple[str, Sequence[Band], Floats, Bools]],
    *,
    axis: str,
    changes: Sequence[float] = (),
    together: bool = False,
) -> Figure:
    """Draw lines with their spread, one panel below the other: (title, bands, x, labels) each.

    `together`: on one scale, which leaves out the farthest hundredth on either side.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    width, height, gap, foot = 9.0, 1.35, 0.45, 1.0
    total = (height + gap) * len(panels) + foot
    figure = blank(width, total)
    marks: dict[str, Artist] = {}
    limits = _limits([line.middle for _, lines, *_ in panels for line in lines], together)
    for nth, (title, lines, x, labels) in enumerate(panels):
        bottom = total - (nth + 1) * (height + gap)
        axes = figure.add_axes((0.062, bottom / total, 0.925, height / total))
        axes.broken_barh(
            [(x[start], np.append(x, x[-1])[stop] - x[start]) for start, stop in runs(labels)],
            (0, 1),
            transform=axes.get_xaxis_transform(),
            facecolor=TRUE,
            edgecolor=TRUE,
            linewidth=0.6,
            alpha=0.2,
        )
        for line in lines:
            if line.spread is not None:
                axes.fill_between(
                    line.x,
                    line.middle - line.spread,
                    line.middle + line.spread,
                    color=line.colour,
                    alpha=0.22,
                    linewidth=0,
                )
            axes.plot(line.x, line.middle, color=line.colour, linewidth=line.width)
            marks.setdefault(line.name, Line2D([], [], color=line.colour, linewidth=1.8))
        for change in changes:
            axes.axvline(change, color=INK, linewidth=0.9)
        axes.set_xlim(x[0], x[-1])
        if limits is not None:
            axes.set_ylim(*limits)
        _calm(axes)
        axes.tick_params(axis="x", labelbottom=nth == len(panels) - 1)
        _entitle(axes, title)
        if nth == len(panels) - 1:
            axes.set_xlabel(axis, fontsize=SMALL, color=INK)
    if any(labels.any() for *_, labels in panels):
        marks["labelled anomaly"] = Patch(facecolor=TRUE, alpha=0.25)
    _legend(figure, marks)
    return figure


def _limits(values: Sequence[Floats], together: bool) -> tuple[float, float] | None:
    if not together:
        return None
    low, high = np.nanquantile(np.concatenate([*values]), [0.01, 0.99])
    room = 0.12 * (high - low) or 1.0
    return float(low - room), float(high + room)


def _grid(count: int, columns: int, foot: float = _FOOT) -> tuple[Figure, list[Axes]]:
    """Return a figure of square panels in rows, and their axes."""
    columns = max(1, min(columns, count))
    rows = math.ceil(count / columns)
    step = _PANEL + _GAP
    width = max(_LEFT + columns * step - _GAP + _RIGHT, 7.0)
    height = rows * (_PANEL + _TOP) + (rows - 1) * (_GAP - 0.1) + foot
    figure = blank(width, height)
    return figure, [
        figure.add_axes(
            (
                (_LEFT + (nth % columns) * step) / width,
                (height - (nth // columns) * (_PANEL + _TOP + _GAP - 0.1) - _TOP - _PANEL) / height,
                _PANEL / width,
                _PANEL / height,
            )
        )
        for nth in range(count)
    ]


def _histogram(axes: Axes, groups: Mapping[str, Floats], values: Floats, look: str) -> None:
    """Draw one of several histograms on common bins, which leave out the farthest values."""
    everything = np.concatenate([*groups.values()])
    low, high = np.quantile(everything, [0.005, 0.995])
    edges = np.linspace(low, max(high, low + 1e-9), 41).tolist()
    if not len(values):
        return
    if look == FALSE:
        axes.hist(values, edges, density=True, histtype="step", color=look, linewidth=1.1)
    else:
        axes.hist(values, edges, density=True, histtype="stepfilled", color=look, alpha=0.5)


def _legend(figure: Figure, marks: Mapping[str, Artist]) -> None:
    """Name the marks at the foot of a figure; in two lines where one is too long."""
    # About 0.075 inches a letter and 0.55 a mark.
    inches = sum(0.075 * len(name) + 0.55 for name in marks)
    figure.legend(
        list(marks.values()),
        list(marks),
        loc="lower center",
        ncols=len(marks) if inches < figure.get_figwidth() else math.ceil(len(marks) / 2),
        frameon=False,
        fontsize=SMALL,
        labelcolor=INK,
        handlelength=1.5,
        columnspacing=1.5,
    )


def _calm(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(PALE)
    axes.tick_params(labelsize=SMALL, labelcolor=INK, color=PALE, length=3, which="both")


def _entitle(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=NORMAL - 0.5, fontweight="bold", color=INK, pad=5)
