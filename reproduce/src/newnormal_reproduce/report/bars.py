"""Grouped bars: a group for each data set, a bar for each name, a mark at the paper's figure."""

import math
from collections.abc import Mapping
from textwrap import wrap
from typing import TYPE_CHECKING, TypeAlias

from newnormal_reproduce.engine.published import Figure as Value
from newnormal_reproduce.report.figures import INK, PALE, SMALL, blank, colour_of, label_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WRAPPED = 14  # characters that fit below a group
_HEIGHT = 4.1  # inches

Group: TypeAlias = dict[str, tuple[Value, Value | None]]  # (ours, the paper's) by name


def grouped_bars(
    groups: Mapping[str, Group], *, axis: str, level: float | None = None, written: bool = False
) -> "Figure":
    """Draw a bar for each name, with its deviation over seeds and a mark at the paper's figure.

    With `written`, the value stands above its bar.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    width = max(6.5, 1.6 + 1.05 * len(groups) * max(1.0, len(names) / 5))
    figure = blank(width, _HEIGHT)
    axes = figure.add_subplot()
    bar = 0.8 / max(len(names), 1)
    for column, group in enumerate(groups.values()):
        for nth, name in enumerate(names):
            if name not in group:
                continue
            ours, paper = group[name]
            x = column - 0.4 + (nth + 0.5) * bar
            axes.bar(x, ours.mean, bar * 0.88, color=colour_of(name), alpha=0.88, linewidth=0)
            if ours.std:
                axes.plot(
                    [x, x], [ours.mean - ours.std, ours.mean + ours.std], color=INK, linewidth=0.8
                )
            if written:
                top = ours.mean + (ours.std or 0.0)
                axes.annotate(
                    f"{ours.mean:.2f}",
                    (x, top),
                    xytext=(0, 2),
                    textcoords="offset points",
                    ha="center",
                    fontsize=SMALL,
                    color=INK,
                )
            if paper is not None:
                axes.plot(
                    [x - bar * 0.44, x + bar * 0.44], [paper.mean] * 2, color=INK, linewidth=1.6
                )
    if level is not None:
        axes.axhline(level, color=INK, linewidth=0.8)
    labels = [wrap(label_of(name).replace("/", " "), _WRAPPED) for name in groups]
    axes.set_xticks(range(len(groups)), ["\n".join(label) for label in labels], fontsize=SMALL)
    axes.set_xlim(-0.55, len(groups) - 0.45)
    axes.set_ylabel(axis, fontsize=SMALL, color=INK)
    axes.tick_params(labelsize=SMALL, length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(axis="y", color=PALE, linewidth=0.5, alpha=0.7)
    axes.set_axisbelow(True)
    marks: dict[str, Patch | Line2D] = {
        name: Patch(facecolor=colour_of(name), alpha=0.88) for name in names
    }
    if any(paper is not None for group in groups.values() for _, paper in group.values()):
        marks["the paper"] = Line2D([], [], color=INK, linewidth=1.6)
    lines = math.ceil(len(marks) / max(3, int(width / 1.3)))
    figure.legend(
        list(marks.values()),
        list(marks),
        loc="lower center",
        ncol=math.ceil(len(marks) / max(lines, 1)),
        frameon=False,
        fontsize=SMALL,
    )
    below = (0.3 + 0.16 * max(map(len, labels)) + 0.19 * lines) / _HEIGHT
    axes.set_position((0.6 / width, below, 1 - 0.75 / width, 0.95 - below))
    return figure
