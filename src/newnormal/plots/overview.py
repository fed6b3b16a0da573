"""The picture of a fleet: a row a stream, those that need attention first.

In a lane, alarms, changes and labels are bars with numbers.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

import numpy as np

from newnormal.alarms.words import headline, most_important, urgency
from newnormal.errors import ParameterError
from newnormal.metrics.alarms import true_alarms
from newnormal.plots.canvas import NORMAL, SMALL, Style, blank
from newnormal.plots.panels import legend, shortened, strip, tidy, write
from newnormal.plots.stack import Ruler, scale
from newnormal.plots.thinning import bin_starts, ratios_of
from newnormal.texts import counted
from newnormal.types import (
    ACCEPTED,
    PENDING,
    REJECTED,
    REVERTED,
    Alarm,
    Change,
    ChangeSpan,
    Floats,
    Incident,
    Timeline,
    Verdicts,
)

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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
        draw_bars(axes, _states(span, timeline, x, style), (base + 0.06 * high, 0.4 * high))
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
        axes.broken_barh(parts, height, linewidth=0, alpha=alpha, **hatched(colour, hatch))


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


STREAMS = 30  # drawn, unless said otherwise
# Inches. A row is a stream; in it are the name, its course, and two lines of text.
_WIDTH, _ROW, _NAME, _COURSE, _LEFT, _GAP = 9.0, 0.4, 1.35, 3.5, 0.14, 0.15
_LETTERS, _NAME_LETTERS, _LINES = 64, 19, 2
_HIGHEST = 2.0  # ratio of score and threshold at the upper edge of a row
_POINTS = 400
_STATES = ("in alarm", "change pending", "change rejected", "normal")


def is_fleet(verdicts: Any) -> TypeGuard[Mapping[str, Verdicts]]:
    """Whether these are verdicts of several streams: a mapping, or a fleet's from a layer above."""
    return isinstance(verdicts, Mapping) or hasattr(verdicts, "incidents")


def fleet_figure(
    verdicts: Mapping[str, Verdicts], style: Style, name: str, streams: int | Sequence[str] | None
) -> Figure:
    """Draw how far each stream's score was from its threshold, its alarms, and what happened."""
    timelines = [Timeline.of(verdicts[stream], stream) for stream in verdicts]
    shown = _chosen(timelines, streams)
    head = _head(timelines, name)
    incident = _incident(verdicts)
    below = textwrap.wrap(incident, 104, max_lines=2, placeholder=" …") if incident else []
    top = 0.2 + 0.25 * len(head) + 0.19 * len(below) + 0.1
    total = top + _ROW * max(len(shown), 1) + 0.85
    figure = blank(_WIDTH, total, style)
    y = write(figure, head, total - 0.2, style.ink, size=NORMAL + 1, weight="bold")
    write(figure, below, y, style.quiet)
    if len(shown) < len(timelines):
        left = f"and {len(timelines) - len(shown):,} more streams, of less concern"
        write(figure, [left], 0.36, style.quiet)
    if not any(map(len, shown)):
        return figure
    height = _ROW * len(shown)
    axes = figure.add_axes(
        ((_LEFT + _NAME) / _WIDTH, 0.85 / total, _COURSE / _WIDTH, height / total)
    )
    _rows(axes, shown, style)
    for nth, timeline in enumerate(shown):
        _describe(figure, timeline, total - top - _ROW * (nth + 0.5), style)
    legend(figure, _marks(shown, style), style)
    return figure


def _chosen(timelines: list[Timeline], streams: int | Sequence[str] | None) -> list[Timeline]:
    if streams is not None and not isinstance(streams, int):
        names = [streams] if isinstance(streams, str) else list(streams)
        by_name = {timeline.name: timeline for timeline in timelines}
        for name in names:
            if name not in by_name:
                raise ParameterError(
                    f"channels: expected names of streams, found {name!r}",
                    hint=f"the streams are {', '.join(list(by_name)[:20])}",
                )
        return [by_name[name] for name in names]
    count = STREAMS if streams is None else streams
    if count < 1:
        raise ParameterError(f"channels: expected at least 1, found {count}")
    return sorted(timelines, key=attention)[:count]


def _head(timelines: Sequence[Timeline], name: str) -> list[str]:
    counts = Counter(timeline.status for timeline in timelines)
    states = ", ".join(f"{counts[state]:,} {state}" for state in _STATES if counts[state])
    text = f"{counted(len(timelines), 'stream')}: {states}"
    if not timelines:
        text = "no streams"
    return textwrap.wrap(f"{name}: {text}" if name else text, 90, max_lines=2, placeholder=" …")


def _incident(verdicts: Any) -> str:
    """Return the newest incident, an open one first, in a sentence; empty without any."""
    newest: dict[int, Incident] = {}
    for event in getattr(verdicts, "incidents", ()):
        newest[event.incident.number] = event.incident
    if not newest:
        return ""
    last = max(newest.values(), key=lambda incident: (incident.open, incident.number))
    many = f"{len(newest)} incidents, the newest" if len(newest) > 1 else "One incident"
    return f"{many}: {last.sentence}"


def _rows(axes: Axes, shown: Sequence[Timeline], style: Style) -> None:
    """Draw the course of each stream in a row of one pair of axes."""
    rulers = [Ruler.of(timeline.verdicts) for timeline in shown]
    if not all(ruler.dates for ruler in rulers if len(ruler.x)):
        rulers = [
            Ruler(timeline.verdicts.samples.astype(np.float64), "sample") for timeline in shown
        ]
    axes.set_facecolor(style.paper)
    axes.set_ylim(-len(shown), 0)
    courses = [ruler.x for ruler in rulers if len(ruler.x)]
    everyone = np.array([min(x[0] for x in courses), max(x[-1] for x in courses)])
    first, last = rulers[0]._replace(x=everyone).ends
    axes.set_xlim(first, last)
    bars: list[tuple[int, Bar]] = []
    for nth, (timeline, ruler) in enumerate(zip(shown, rulers, strict=True)):
        base = -nth - 0.92
        axes.axhspan(base, base + 0.84, color=style.ground, linewidth=0, zorder=0)
        if not len(timeline):
            continue
        for span in timeline.changes:
            ends = spans_of(timeline, ruler.x, span.change.start, span.end)
            state = span.change.state
            bars.append((nth, Bar(*ends, style.state(state), style.hatch(state))))
        bars += [(nth, bar) for bar in alarm_bars(timeline, ruler.x, style).values()]
        places, worst = _course(timeline, ruler.x)
        axes.plot(places, base + 0.84 * worst / _HIGHEST, color=style.value, linewidth=0.7)
        axes.hlines(base + 0.42, first, last, color=style.pale, linewidth=0.6, linestyle="--")
    for nth in sorted({nth for nth, _ in bars}):
        row_bars = [bar for row, bar in bars if row == nth]
        draw_bars(axes, row_bars, (-nth - 0.92, 0.84), alpha=0.45)
    tidy(axes, "", style)
    axes.spines["left"].set_visible(False)
    axes.set_yticks([])
    zones = {ruler.zone for ruler in rulers}
    scale(axes, rulers[0]._replace(zone=zones.pop() if len(zones) == 1 else "UTC"), style)


def _course(timeline: Timeline, x: Floats) -> tuple[Floats, Floats]:
    """Return the worst ratio of score and threshold in each of some stretches."""
    starts = bin_starts(len(x), _POINTS)
    highest = np.fmax.reduceat(ratios_of(timeline.verdicts), starts)
    return x[starts], np.clip(highest, 0, _HIGHEST)


def _describe(figure: Figure, timeline: Timeline, y: float, style: Style) -> None:
    """Write a stream's name at the left, and what happened at the right."""
    name = shortened(timeline.name, _NAME_LETTERS)
    calm = timeline.status == "normal"
    colour = style.ink if not calm else style.quiet
    write(figure, [name], y, colour, weight="normal" if calm else "bold")
    lines = textwrap.wrap(headline(timeline), _LETTERS, max_lines=_LINES, placeholder=" …")
    left = _LEFT + _NAME + _COURSE + _GAP
    write(figure, lines, y + 0.075 * (len(lines) - 1), colour, left=left, line=0.15, size=SMALL - 1)


def _marks(shown: Sequence[Timeline], style: Style) -> dict[str, Artist]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    marks: dict[str, Artist] = {
        "score beside its threshold": Line2D([], [], color=style.value, linewidth=1.2),
        "threshold": Line2D([], [], color=style.pale, linewidth=1.2, linestyle="--"),
    }
    if any(timeline.labels is not None for timeline in shown):
        marks["true alarm"] = Patch(facecolor=style.true, alpha=0.6)
        marks["false alarm"] = Patch(facecolor=style.alarm, alpha=0.6)
    elif any(timeline.alarms for timeline in shown):
        marks["alarm"] = Patch(facecolor=style.alarm, alpha=0.6)
    states = {span.change.state for timeline in shown for span in timeline.changes}
    for state in (PENDING, ACCEPTED, REJECTED, REVERTED):
        if state in states:
            look = hatched(style.state(state), style.hatch(state))
            marks[f"change {state}"] = Patch(linewidth=0, alpha=0.6, **look)
    return marks


def attention(timeline: Timeline) -> tuple[float, ...]:
    """Return what streams are sorted by: the one that needs attention most is the least.

    1. An open alarm; the higher its peak's ratio, the earlier.
    2. A pending change, which waits for a decision; the farther from normal, the earlier.
    3. A rejected change, from which the stream is not back.
    4. Alarms that are over; the newer the last one, the earlier.
    5. Changes that are over; the newer, the earlier.
    6. The others; the higher their worst ratio of score and threshold, the earlier.

    Equal ones stay in the fleet's order.
    """
    remaining = timeline.observed.remaining
    alarms = [item for item in remaining if isinstance(item, Alarm)]
    changes = [item for item in remaining if isinstance(item, Change)]
    if remaining:
        place, size = urgency(alarms, changes)
        return 1 + place, size
    if timeline.alarms:
        return 4, min(timeline.last - alarm.end for alarm in timeline.alarms)
    if timeline.changes:
        return 5, min(timeline.last - span.end for span in timeline.changes)
    return 6, -float(np.nan_to_num(ratios_of(timeline.verdicts)).max(initial=-np.inf))


def needs_attention(timeline: Timeline) -> bool:
    """Whether something is open: an alarm, or a change."""
    return bool(timeline.observed.remaining)
