"""The picture of a fleet: a row a stream, those that need attention first."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

import numpy as np

from newnormal.alarms.words import headline
from newnormal.errors import ParameterError
from newnormal.plots.attention import attention
from newnormal.plots.canvas import NORMAL, SMALL, blank
from newnormal.plots.lanes import Bar, alarm_bars, draw_bars, hatched, spans_of
from newnormal.plots.panels import legend, tidy
from newnormal.plots.stack import Ruler, scale
from newnormal.plots.style import Style
from newnormal.plots.thinning import bin_starts, ratios_of
from newnormal.plots.words import shortened, write
from newnormal.texts import counted
from newnormal.types import (
    ACCEPTED,
    PENDING,
    REJECTED,
    REVERTED,
    Floats,
    Incident,
    Timeline,
    Verdicts,
)

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STREAMS = 30  # drawn, unless said otherwise
# Inches. A row is a stream; in it are the name, its course, and two lines of text.
_WIDTH, _ROW, _NAME, _COURSE, _LEFT, _GAP = 9.0, 0.4, 1.35, 3.5, 0.14, 0.15
_LETTERS, _NAME_LETTERS, _LINES = 64, 19, 2
_HIGHEST = 2.0  # ratio of score and threshold at the upper edge of a row
_POINTS = 400
_STATES = ("in alarm", "change pending", "change rejected", "normal")


class VerdictsByStream(Protocol):
    """The verdicts of several streams, by their names."""

    def __iter__(self) -> Iterator[str]: ...
    def __getitem__(self, stream: str, /) -> Verdicts: ...


def is_fleet(verdicts: Any) -> TypeGuard[VerdictsByStream]:
    """Whether these are verdicts of several streams: a mapping, or a fleet's from a layer above."""
    return isinstance(verdicts, Mapping) or hasattr(verdicts, "incidents")


def fleet_figure(
    verdicts: VerdictsByStream, style: Style, name: str, streams: int | Sequence[str] | None
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
    dates = all(ruler.dates for ruler in rulers if len(ruler.x))
    if not dates:
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
    labelled = any(timeline.labels is not None for timeline in shown)
    if labelled:
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
