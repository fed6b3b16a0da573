"""The panels pictures are made of: a channel, a score against its threshold, a strip of alarms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from newnormal.metrics.alarms import Span, find_events
from newnormal.plots.canvas import FALSE, GROUND, INK, LINE, PALE, SMALL, TRUE
from newnormal.plots.thinning import middle, outline, peaks, stretches
from newnormal.types import Bools, Floats, Verdicts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "alarm_strip",
    "key",
    "score_panel",
    "score_range",
    "signal_panel",
    "span_strip",
    "tidy",
]

_DASHES = (0, (4, 3))
_LONGEST = 13  # characters of a name beside a panel


def tidy(axes: Axes, name: str) -> None:
    """Remove what is not data, and write the name at the left."""
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.spines["left"].set_color(PALE)
    axes.tick_params(labelsize=SMALL, labelcolor=INK, color=PALE, length=3)
    axes.tick_params(axis="x", length=0, labelbottom=False)
    axes.set_ylabel(_short(name), fontsize=SMALL, color=INK, parse_math=False)
    axes.yaxis.set_label_coords(-0.058, 0.5)


def signal_panel(
    axes: Axes, x: Floats, values: Floats, labels: Bools, over: Floats | None = None
) -> None:
    """Draw one channel, what lies `over` it (its trend, or what was expected), and the labels.

    The scale leaves out the farthest thousandth on either side: one spike would flatten the rest.
    """
    from matplotlib.ticker import MaxNLocator

    _shade(axes, x, labels)
    axes.plot(*outline(x, values), color=LINE, linewidth=0.7)
    if over is not None:
        axes.plot(*middle(x, over), color=INK, linewidth=1.3)
    seen = values[np.isfinite(values)]
    if len(seen):
        low, high = np.quantile(seen, [0.001, 0.999])
        room = 0.15 * (high - low) or max(abs(high), 1.0) / 10
        axes.set_ylim(low - room, high + room)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_offset_position("right")  # the common part of large numbers; left is a title
    axes.yaxis.get_offset_text().set(fontsize=SMALL, color=INK)


def score_panel(
    axes: Axes, x: Floats, verdicts: Verdicts, labels: Bools, limits: tuple[float, float]
) -> None:
    """Draw the score on a log scale, its threshold, and in colour what reaches above it."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.set_yscale("log")
    axes.set_ylim(*limits)
    axes.yaxis.set_major_locator(LogLocator(numticks=6))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    scores = np.clip(verdicts.scores, limits[0], None)  # 0 has no logarithm; NaN stays NaN
    bars = np.clip(verdicts.thresholds, *limits)
    _shade(axes, x, labels)
    axes.plot(*outline(x, scores), color=LINE, linewidth=0.6)
    for flags, colour in _alarms(verdicts, labels):
        places, tops = peaks(x, scores, flags)
        axes.vlines(places, peaks(x, bars, flags)[1], tops, color=colour, linewidth=1.0)
    bars[bars != verdicts.thresholds] = np.nan  # an infinite one has no place
    axes.plot(*outline(x, bars), color=INK, linewidth=1.0, linestyle=_DASHES)


def score_range(runs: Sequence[Verdicts]) -> tuple[float, float]:
    """Return limits for the scores and thresholds of several runs, so that they compare.

    The least of the scores are left out: on a log scale they reach far down.
    """
    shown = np.concatenate([part for run in runs for part in (run.scores, run.thresholds)])
    shown = shown[np.isfinite(shown) & (shown > 0)]
    if not len(shown):
        return 0.1, 10.0
    return float(np.quantile(shown, 0.01)) / 1.5, float(shown.max()) * 1.5


def alarm_strip(axes: Axes, x: Floats, verdicts: Verdicts, labels: Bools) -> None:
    """Draw the anomalous samples as a bar code."""
    _strip(axes, x, "alarms", _alarms(verdicts, labels))


def span_strip(axes: Axes, x: Floats, name: str, spans: Sequence[Span], labels: Bools) -> None:
    """Draw alarms or changes while they are open; in colour those that opened, true or false.

    In grey is what began with an alarm, or before the first sample.
    """
    found = find_events(labels, [span.start for span in spans])
    flags = {colour: np.zeros(len(x), dtype=bool) for colour in (PALE, FALSE, TRUE)}
    for span, true in zip(spans, found, strict=True):
        colour = (TRUE if true else FALSE) if span.opening else PALE
        flags[colour][span.start : span.stop] = True
    _strip(axes, x, name, [(flag, colour) for colour, flag in flags.items()])


def _strip(axes: Axes, x: Floats, name: str, parts: Sequence[tuple[Bools, str]]) -> None:
    axes.set_ylim(0, 1)
    axes.set_yticks([])
    axes.set_facecolor(GROUND)
    axes.text(
        -0.008,
        0.5,
        name,
        transform=axes.transAxes,
        ha="right",
        va="center",
        fontsize=SMALL,
        color=INK,
    )
    for flags, colour in parts:
        axes.broken_barh(
            stretches(x, flags), (0, 1), facecolor=colour, edgecolor=colour, linewidth=0.6
        )


def key(figure: Figure, over: str | None) -> None:
    """Explain the marks at the foot of a figure; `over` is what lies over the signal."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    marks = {
        "signal, score": Line2D([], [], color=LINE, linewidth=1.5),
        over: Line2D([], [], color=INK, linewidth=1.5),
        "threshold": Line2D([], [], color=INK, linewidth=1.0, linestyle=_DASHES),
        "labelled event": Patch(facecolor=TRUE, alpha=0.25),
        "true alarm": Patch(facecolor=TRUE),
        "false alarm": Patch(facecolor=FALSE),
    }
    shown = {name: mark for name, mark in marks.items() if name is not None}
    figure.legend(
        list(shown.values()),
        list(shown),
        loc="lower center",
        ncols=len(shown),
        frameon=False,
        fontsize=SMALL,
        labelcolor=INK,
        handlelength=1.5,
        columnspacing=1.5,
    )


def _short(name: str) -> str:
    """Return a name that fits beside a panel; both ends may distinguish it from others."""
    return name if len(name) <= _LONGEST else f"{name[:6]}…{name[-6:]}"


def _alarms(verdicts: Verdicts, labels: Bools) -> tuple[tuple[Bools, str], ...]:
    return (verdicts.anomalous & ~labels, FALSE), (verdicts.anomalous & labels, TRUE)


def _shade(axes: Axes, x: Floats, labels: Bools) -> None:
    axes.broken_barh(
        stretches(x, labels),
        (0, 1),
        transform=axes.get_xaxis_transform(),
        facecolor=TRUE,
        edgecolor=TRUE,
        linewidth=0.6,
        alpha=0.2,
    )
