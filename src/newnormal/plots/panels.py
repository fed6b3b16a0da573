"""The panels pictures are made of: a channel, a score, a strip of alarms, text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from newnormal.plots.canvas import LIGHT, NORMAL, SMALL, Style
from newnormal.plots.thinning import BINS, broken, middle, outline, peaks, stretches
from newnormal.types import Bools, Floats, Verdicts

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


LEFT = 0.14  # inches


def write(
    figure: Figure,
    lines: Sequence[str],
    y: float,
    colour: str,
    *,
    left: float = LEFT,
    size: float = SMALL,
    weight: str = "normal",
    line: float | None = None,
) -> float:
    """Write lines, the first at `y` inches from the foot, and return where the next would be."""
    width, height = figure.get_size_inches()
    step = line or (0.25 if size > NORMAL else 0.19)
    for text in lines:
        figure.text(
            left / width,
            y / height,
            text,
            fontsize=size,
            fontweight=weight,
            color=colour,
            va="center",
            parse_math=False,
        )
        y -= step
    return y


def shortened(name: str, letters: int) -> str:
    """Return a name with at most about so many letters; both ends may distinguish it from others.

    >>> shortened("temperature of the oil", 12), shortened("flow", 12)
    ('temper…he oil', 'flow')
    """
    return name if len(name) <= letters else f"{name[: letters // 2]}…{name[-(letters // 2) :]}"


_DASHES = (0, (4, 3))
_LONGEST = 13  # characters of a name beside a panel


def tidy(axes: Axes, name: str, style: Style = LIGHT) -> None:
    """Remove what is not data, and write the name at the left."""
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.spines["left"].set_color(style.pale)
    axes.tick_params(labelsize=SMALL, labelcolor=style.ink, color=style.pale, length=3)
    axes.tick_params(axis="x", length=0, labelbottom=False)
    axes.set_ylabel(shortened(name, _LONGEST), fontsize=SMALL, color=style.ink, parse_math=False)
    axes.yaxis.set_label_coords(-0.058, 0.5)


def signal_panel(
    axes: Axes, x: Floats, values: Floats, labels: Bools | None, over: Floats | None = None
) -> None:
    """Draw one channel, what lies `over` it (its trend, or what was expected), and the labels."""
    shade(axes, x, labels, LIGHT.true)
    axes.plot(*broken(*outline(x, values)), color=LIGHT.line, linewidth=0.7)
    if over is not None:
        axes.plot(*broken(*middle(x, over)), color=LIGHT.ink, linewidth=1.3)
    _signal_scale(axes, [signal_limits(values)], LIGHT)


def range_panel(
    axes: Axes,
    x: Floats,
    values: Floats,
    labels: Bools | None,
    expected: Floats | None,
    band: tuple[Floats, Floats] | None,
    beyond: Bools | None,
    style: Style,
) -> None:
    """Draw one channel in front of what was expected: a line, and the range as a band.

    Samples that are `beyond` the range are marked.
    """
    axes.set_facecolor(style.paper)
    shade(axes, x, labels, style.true)
    limits = [signal_limits(values)]
    if expected is not None:
        axes.plot(*broken(*middle(x, expected)), color=style.expected, linewidth=1.1)
    if band is not None:
        (places, low), (_, high) = (broken(*middle(x, edge)) for edge in band)
        axes.fill_between(places, low, high, color=style.band, alpha=0.45, linewidth=0)
        limits.append(signal_limits(np.concatenate([low, high]), 0.02))
    _dots(axes, x, values, style.value)
    axes.plot(*broken(*outline(x, values)), color=style.value, linewidth=0.75)
    for flags, colour in () if beyond is None else _kinds(beyond, labels, style):
        marked = broken(*outline(x, np.where(flags, values, np.nan)))
        axes.plot(*marked, ".-", color=colour, linewidth=1.1, markersize=3)
    _signal_scale(axes, limits, style)


def _dots(axes: Axes, x: Floats, y: Floats, colour: str) -> None:
    """Draw values without a neighbour, which a line does not show; many are a line anyway."""
    there = np.concatenate([[False], ~np.isnan(y), [False]])
    alone = there[1:-1] & ~there[:-2] & ~there[2:]
    if alone.any() and len(y) <= 2 * BINS:
        axes.plot(x[alone], y[alone], ".", color=colour, markersize=2.5)


def _signal_scale(axes: Axes, limits: Sequence[tuple[float, float] | None], style: Style) -> None:
    from matplotlib.ticker import MaxNLocator

    if ranges := [limit for limit in limits if limit is not None]:
        low, high = _together(ranges)
        room = 0.12 * (high - low) or max(abs(high), 1.0) / 10
        axes.set_ylim(low - room, high + room)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_offset_position("right")  # the common part of large numbers; left is a title
    axes.yaxis.get_offset_text().set(fontsize=SMALL, color=style.ink)


def signal_limits(values: Floats, left_out: float = 0.001) -> tuple[float, float] | None:
    """Return the limits of a scale: of all values, unless some are very far from nearly all.

    Those are left out that are farther from nearly all of them than twice their width. None
    where no value is known.

    >>> values = np.append(np.linspace(0, 1, 10_000), [2.5, 90.0])
    >>> [round(limit, 1) for limit in signal_limits(values)]
    [0.0, 3.0]
    """
    seen = values[np.isfinite(values)]
    if not len(seen):
        return None
    left_out = max(left_out, min(0.02, 2 / len(seen)))  # of a few samples, one or two
    low, high = np.quantile(seen, [left_out, 1 - left_out])
    least, most, room = seen.min(), seen.max(), 2 * (high - low)
    if room == 0:
        return float(least), float(most)
    return float(max(least, low - room)), float(min(most, high + room))


def _together(limits: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return limits for values, the first, and for what was expected; values matter more."""
    (low, high), *others = limits
    room = 2 * (high - low)
    floor, ceiling = (low - room, high + room) if room else (-np.inf, np.inf)
    for least, most in others:
        low, high = min(low, max(least, floor)), max(high, min(most, ceiling))
    return low, high


def score_panel(
    axes: Axes,
    x: Floats,
    verdicts: Verdicts,
    labels: Bools | None,
    limits: tuple[float, float],
    style: Style = LIGHT,
) -> None:
    """Draw the score on a log scale, its threshold, and in colour what reaches above it."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.set_facecolor(style.paper)
    axes.set_yscale("log")
    axes.set_ylim(*limits)
    narrow = limits[1] < 50 * limits[0]
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if narrow else (1,), numticks=6))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    scores = np.clip(verdicts.scores, limits[0], None)  # 0 has no logarithm; NaN stays NaN
    bars = np.clip(verdicts.thresholds, *limits)
    shade(axes, x, labels, style.true)
    _dots(axes, x, scores, style.line)
    axes.plot(*broken(*outline(x, scores)), color=style.line, linewidth=0.6)
    for flags, colour in _kinds(verdicts.anomalous, labels, style):
        places, tops = peaks(x, scores, flags)
        axes.vlines(places, peaks(x, bars, flags)[1], tops, color=colour, linewidth=1.0)
    bars[bars != verdicts.thresholds] = np.nan  # an infinite one has no place
    axes.plot(*middle(x, bars), color=style.ink, linewidth=1.0, linestyle=_DASHES)


def score_range(runs: Sequence[Verdicts]) -> tuple[float, float]:
    """Return limits for the scores and thresholds of several runs, so that they compare.

    The least of the scores are left out: on a log scale they reach far down.
    """
    shown = np.concatenate([part for run in runs for part in (run.scores, run.thresholds)])
    shown = shown[np.isfinite(shown) & (shown > 0)]
    if not len(shown):
        return 0.1, 10.0
    return float(np.quantile(shown, 0.01)) / 1.5, float(shown.max()) * 1.5


def alarm_strip(
    axes: Axes,
    x: Floats,
    verdicts: Verdicts,
    labels: Bools | None,
    name: str = "alarms",
    style: Style = LIGHT,
) -> None:
    """Draw the anomalous samples as a bar code."""
    strip(axes, x, name, _kinds(verdicts.anomalous, labels, style), style)


def strip(
    axes: Axes, x: Floats, name: str, parts: Sequence[tuple[Bools, str]], style: Style = LIGHT
) -> None:
    """Draw flags as bars, each kind in its colour, and the name at the left."""
    axes.set_ylim(0, 1)
    axes.set_yticks([])
    axes.set_facecolor(style.ground)
    axes.text(
        -0.008,
        0.5,
        name,
        transform=axes.transAxes,
        ha="right",
        va="center",
        fontsize=SMALL,
        color=style.ink,
    )
    for flags, colour in parts:
        axes.broken_barh(
            stretches(x, flags), (0, 1), facecolor=colour, edgecolor=colour, linewidth=0.6
        )


def key(figure: Figure, over: str | None) -> None:
    """Explain the marks at the foot of a figure; `over` is what lies over the signal."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    marks: dict[str | None, Artist] = {
        "signal, score": Line2D([], [], color=LIGHT.line, linewidth=1.5),
        over: Line2D([], [], color=LIGHT.ink, linewidth=1.5),
        "threshold": Line2D([], [], color=LIGHT.ink, linewidth=1.0, linestyle=_DASHES),
        "labelled event": Patch(facecolor=LIGHT.true, alpha=0.25),
        "true alarm": Patch(facecolor=LIGHT.true),
        "false alarm": Patch(facecolor=LIGHT.alarm),
    }
    legend(figure, {name: mark for name, mark in marks.items() if name is not None})


def legend(figure: Figure, marks: Mapping[str, Artist], style: Style = LIGHT) -> None:
    """Name the marks at the foot of a figure; in two lines where one is too long."""
    rows = legend_rows(marks, figure.get_figwidth())
    figure.legend(
        list(marks.values()),
        list(marks),
        loc="lower center",
        ncols=-(-len(marks) // rows),
        frameon=False,
        fontsize=SMALL,
        labelcolor=style.ink,
        handlelength=1.5,
        columnspacing=1.5,
    )


def legend_rows(marks: Iterable[str], width: float = 9.0) -> int:
    """Return in how many lines these names fit into so many inches."""
    # About 0.075 inches a letter and 0.55 a mark.
    return 1 if sum(0.075 * len(name) + 0.55 for name in marks) < width else 2


def _kinds(flags: Bools, labels: Bools | None, style: Style) -> tuple[tuple[Bools, str], ...]:
    """Return flags and their colour; with labels, those for nothing and those that meet one."""
    if labels is None:
        return ((flags, style.alarm),)
    return (flags & ~labels, style.alarm), (flags & labels, style.true)


def shade(axes: Axes, x: Floats, flags: Bools | None, colour: str) -> None:
    """Shade the samples with a flag over the whole height."""
    if flags is None:
        return
    axes.broken_barh(
        stretches(x, flags),
        (0, 1),
        transform=axes.get_xaxis_transform(),
        facecolor=colour,
        edgecolor=colour,
        linewidth=0.6,
        alpha=0.2,
    )
