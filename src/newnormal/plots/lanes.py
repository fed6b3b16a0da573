"""Lanes: where alarms, changes and labels are, as bars with numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from newnormal.alarms.words import most_important
from newnormal.metrics.alarms import true_alarms
from newnormal.plots.canvas import SMALL
from newnormal.plots.panels import strip
from newnormal.plots.style import Style
from newnormal.types import Alarm, ChangeSpan, Floats, Timeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LETTER = 0.008  # of a lane's width
_ROWS = 3  # of changes that overlap
_LEAST = 0.002  # of a lane's width: a bar of one sample among a million can be seen


class Bar(NamedTuple):
    """From where to where, in the units of the axis, in which colour and with which hatch."""

    start: float
    end: float
    colour: str
    hatch: str = ""


def spans_of(timeline: Timeline, x: Floats, start: int, end: int) -> tuple[float, float]:
    """Return where samples `start` to `end` are along the axis, as far as they are in it."""
    first, last = (min(max(sample - timeline.first, 0), len(x) - 1) for sample in (start, end))
    return float(x[first]), float(x[last])


def alarm_bars(timeline: Timeline, x: Floats, style: Style) -> dict[int, Bar]:
    """Return the bar of each alarm, by its number.

    With labels those that find no labelled event are in the colour of false ones, and one that
    was open before the first sample has neither colour.
    """
    labels = timeline.labels
    met: Mapping[int, bool] = {}
    if labels is not None:
        met = true_alarms(timeline.observed.events, labels, first=timeline.first)
    colours = {True: style.true, False: style.alarm, None: style.line}
    return {
        alarm.number: Bar(
            *spans_of(timeline, x, alarm.start, alarm.end),
            style.alarm if labels is None else colours[met.get(alarm.number)],
        )
        for alarm in timeline.alarms
    }


def alarm_lane(axes: Axes, timeline: Timeline, x: Floats, style: Style) -> None:
    """Draw alarms as bars with their numbers: as many numbers as there is room for."""
    bars = alarm_bars(timeline, x, style)
    strip(axes, x, "alarms", [], style)
    draw_bars(axes, bars.values(), (0.06, 0.42))
    _number(axes, most_important(timeline), bars, style)


def rows_of(changes: Sequence[ChangeSpan]) -> list[int]:
    """Return a row for each change so that no two of a row overlap, as far as there are rows."""
    ends: list[int] = []
    rows = []
    for span in changes:
        free = [row for row, end in enumerate(ends) if end < span.change.start]
        row = free[0] if free else min(len(ends), _ROWS - 1)
        ends[row:] = [span.end, *ends[row + 1 :]]
        rows.append(row)
    return rows


def change_lane(axes: Axes, timeline: Timeline, x: Floats, style: Style) -> None:
    """Draw changes as bands, in each state's colour, with number and state."""
    strip(axes, x, "changes", [], style)
    rows = rows_of(timeline.changes)
    high = 1 / (max(rows) + 1)
    taken: list[list[tuple[float, float]]] = [[] for _ in range(max(rows) + 1)]
    for span, row in reversed([*zip(timeline.changes, rows, strict=True)]):
        base = 1 - (row + 1) * high
        states = _states(span, timeline, x, style)
        draw_bars(axes, states, (base + 0.06 * high, 0.4 * high))
        start, end = spans_of(timeline, x, span.change.start, span.end)
        if not span.change.open:
            colour = style.state(span.change.state)
            axes.plot([end], [base + 0.26 * high], "D", color=colour, markersize=4, clip_on=False)
        text = f"{span.change.number} {span.change.state}"
        middle = _share_of_axis(axes, (start + end) / 2)
        _write(axes, text, middle, taken[row], style, base + 0.76 * high)


def _states(span: ChangeSpan, timeline: Timeline, x: Floats, style: Style) -> list[Bar]:
    """Return a bar for each state that a change was in."""
    edges = [*span.steps, (span.end, "")]
    return [
        Bar(*spans_of(timeline, x, start, end), style.state(state), style.hatch(state))
        for (start, state), (end, _) in pairwise(edges)
    ]


def draw_bars(
    axes: Axes, bars: Iterable[Bar], height: tuple[float, float], alpha: float = 1.0
) -> None:
    """Draw bars; those of one colour are one artist, however many."""
    low, high = axes.get_xlim()
    least = _LEAST * (high - low)
    by_look: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for bar in bars:
        width = max(bar.end - bar.start, least)
        by_look.setdefault((bar.colour, bar.hatch), []).append((bar.start, width))
    for (colour, hatch), parts in by_look.items():
        look = hatched(colour, hatch)
        axes.broken_barh(parts, height, linewidth=0, alpha=alpha, **look)


def hatched(colour: str, hatch: str) -> dict[str, Any]:
    """Return how a patch of a colour is drawn: the stripes of a hatch are paler."""
    if not hatch:
        return {"facecolor": colour, "edgecolor": "none"}
    from matplotlib.colors import to_rgb

    pale = tuple(0.4 * part + 0.6 for part in to_rgb(colour))
    return {"facecolor": colour, "edgecolor": pale, "hatch": hatch}


def _number(axes: Axes, alarms: Sequence[Alarm], bars: dict[int, Bar], style: Style) -> None:
    taken: list[tuple[float, float]] = []
    for alarm in alarms:
        bar = bars[alarm.number]
        _write(
            axes, str(alarm.number), _share_of_axis(axes, (bar.start + bar.end) / 2), taken, style
        )


def _write(
    axes: Axes,
    text: str,
    middle: float,
    taken: list[tuple[float, float]],
    style: Style,
    height: float = 0.76,
) -> None:
    """Write a text above a bar, unless another one is there."""
    half = _LETTER * (len(text) + 1) / 2
    middle = float(np.clip(middle, half, 1 - half))
    if any(middle - half < end and middle + half > start for start, end in taken):
        return
    taken.append((middle - half, middle + half))
    axes.text(
        middle,
        height,
        text,
        transform=axes.transAxes,
        ha="center",
        va="center",
        fontsize=SMALL - 0.5,
        color=style.ink,
    )


def _share_of_axis(axes: Axes, x: float) -> float:
    """Return where x is along the axis, as a share of its length."""
    low, high = axes.get_xlim()
    return (x - low) / (high - low)
