"""`plot`, and the picture of a stream: what happened, where and since when."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from newnormal.alarms.words import (
    headline,
    most_important,
    range_text,
    since_text,
    timeline_counts_text,
)
from newnormal.errors import InputError, ParameterError
from newnormal.metrics import Evaluation
from newnormal.plots.canvas import DARK, LIGHT, NORMAL, SMALL, Style, blank, check_extra
from newnormal.plots.overview import (
    alarm_bars,
    alarm_lane,
    change_lane,
    fleet_figure,
    hatched,
    is_fleet,
    rows_of,
    spans_of,
)
from newnormal.plots.panels import (
    alarm_strip,
    legend,
    legend_rows,
    range_panel,
    score_panel,
    score_range,
    shortened,
    strip,
    tidy,
    write,
)
from newnormal.plots.stack import Ruler, column, scale
from newnormal.plots.thinning import in_ratios
from newnormal.texts import number_text
from newnormal.types import ACCEPTED, PENDING, REJECTED, Alarm, Floats, Ints, Timeline, Verdicts

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot(
    verdicts: Any,
    *,
    name: str = "",
    labels: Any = None,
    channels: int | Sequence[str] | None = None,
    dark: bool = False,
    evaluation: Evaluation | None = None,
) -> Figure:
    """Draw what happened: the channels concerned with their ranges, alarms, changes, the ratio.

    Any number of samples will do: each pixel shows the extremes of what falls into it. A notebook
    shows the figure; ``figure.savefig("live.png")`` writes it. Needs the extra ``plot``.

    Parameters
    ----------
    verdicts
        Verdicts from `run` or `score`; or those of a fleet, or verdicts by stream, of which those
        that need attention are drawn first.
    name
        Of the stream or of the file, for the headline.
    labels
        1 for a sample that is labelled as a fault, 0 for another; None: as in the input. Only
        with labels an alarm is called true or false.
    channels
        How many channels to draw, those concerned first, or their names; of a fleet, how many
        streams, or their names. None: 4 channels, or 30 streams.
    dark
        Whether the paper is dark.
    evaluation
        From `newnormal.metrics.evaluate`, for its figures below the headline.

    Examples
    --------
    >>> import numpy as np
    >>> from newnormal import Detector, plot
    >>> rng = np.random.default_rng(0)
    >>> history = np.sin(np.arange(600) / 9)[:, None] + rng.normal(0, 0.1, (600, 2))
    >>> live = history[:230].copy()
    >>> live[200:] += 3
    >>> detector = Detector(alarms_per_day=1, epochs=1).fit(history)
    >>> figure = plot(detector.run(live), name="plant")
    >>> figure.texts[0].get_text()[:33]
    'plant: In alarm since sample 200:'
    """
    check_extra()
    style = DARK if dark else LIGHT
    if is_fleet(verdicts):
        if labels is not None or evaluation is not None:
            raise InputError(
                "labels: expected those of one stream, found a fleet's verdicts",
                hint="draw one stream: newnormal.plot(verdicts[stream], labels=labels)",
            )
        return fleet_figure(verdicts, style, name, channels)
    timeline = Timeline.of(verdicts, name, labels) if isinstance(verdicts, Verdicts) else verdicts
    if not isinstance(timeline, Timeline):
        raise InputError(
            f"expected verdicts to draw, found {type(verdicts).__name__}",
            hint="pass what detector.run(series), detector.score(series) or fleet.run(...) returns",
        )
    return stream_figure(timeline, style, channels, evaluation)


CHANNELS = 4  # shown, unless said otherwise
_SENTENCES = 5  # alarms in words below the picture
_LINE = 0.19  # inches of a line of text
_WIDE = 104  # letters across
_NAME = 60  # letters of a channel's name
_LANE, _SIGNAL, _SCORE, _GAP = 0.3, 0.85, 0.85, 0.28


class _Texts(NamedTuple):
    """All that is written above and below the panels."""

    head: list[str]
    below: list[str]
    lines: list[str]


def stream_figure(
    timeline: Timeline,
    style: Style,
    channels: int | Sequence[str] | None = None,
    evaluation: Evaluation | None = None,
) -> Figure:
    """Draw a timeline: headline, lanes, the channels concerned, the ratio, alarms in words."""
    if not len(timeline):
        return _empty(timeline, style)
    shown = _chosen(timeline, channels)
    texts = _texts(timeline, shown, _why(timeline, channels), evaluation)
    lanes = _lanes(timeline)
    top = 0.2 + 0.25 * len(texts.head) + _LINE * len(texts.below) + 0.06
    marks = _marks(timeline, style)
    foot = 0.75 + _LINE * (len(texts.lines) + legend_rows(marks))
    rows = {"changes": max(rows_of(timeline.changes), default=0) + 1}
    heights = [(0.04 if nth else top, _LANE * rows.get(lane, 1)) for nth, lane in enumerate(lanes)]
    heights += [(_GAP, _SIGNAL)] * len(shown) + [(_GAP, _SCORE)]
    figure, axes = column(heights, foot, style)
    ruler = Ruler.of(timeline.verdicts)
    for panel in axes:
        panel.set_xlim(*ruler.ends)
    panels = iter(axes)
    for lane in lanes:
        panel = next(panels)
        _lane(panel, lane, timeline, ruler.x, style)
        tidy(panel, "", style)
    for channel in shown:
        _signal(next(panels), timeline, ruler.x, int(channel), style)
    _score(axes[-1], timeline, ruler.x, style)
    scale(axes[-1], ruler, style)
    _write(figure, texts, legend_rows(marks), style)
    legend(figure, marks, style)
    return figure


def _chosen(timeline: Timeline, channels: int | Sequence[str] | None) -> Ints:
    if channels is not None and not isinstance(channels, int):
        names = [channels] if isinstance(channels, str) else list(channels)
        if unknown := [name for name in names if name not in timeline.channels]:
            raise ParameterError(
                f"channels: expected names of channels, found {unknown[0]!r}",
                hint=f"the channels are {', '.join(timeline.channels[:20])}",
            )
        return np.array([timeline.channels.index(name) for name in names], dtype=np.int64)
    count = CHANNELS if channels is None else channels
    if count < 1:
        raise ParameterError(f"channels: expected at least 1, found {count}")
    if timeline.concern.any():
        return timeline.order[:count]
    return np.argsort(-_weights(timeline.verdicts), kind="stable")[:count]


def _why(timeline: Timeline, channels: int | Sequence[str] | None) -> str:
    """Return why these channels are shown and others are not; empty where they were named."""
    if channels is not None and not isinstance(channels, int):
        return ""
    return ", those concerned" if timeline.concern.any() else ", those of the largest shares"


def _weights(verdicts: Verdicts) -> Floats:
    """Return each channel's part in the anomalous samples, or in all where there is none."""
    if verdicts.shares is None:
        return np.zeros(len(verdicts.channels))
    rows = verdicts.anomalous if verdicts.anomalous.any() else np.isfinite(verdicts.scores)
    # Not shares[rows]: that would copy them, and there may be a hundred million.
    return np.asarray(verdicts.shares.sum(axis=0, dtype=np.float64, where=rows[:, None]))


def _lanes(timeline: Timeline) -> list[str]:
    lanes = ["alarms" if timeline.alarms or timeline.verdicts.alarms is not None else "anomalous"]
    if timeline.changes:
        lanes.append("changes")
    if timeline.labels is not None:
        lanes.append("labels")
    return lanes


def _lane(axes: Axes, kind: str, timeline: Timeline, x: Floats, style: Style) -> None:
    if kind == "alarms":
        alarm_lane(axes, timeline, x, style)
    elif kind == "changes":
        change_lane(axes, timeline, x, style)
    elif kind == "labels":
        assert timeline.labels is not None
        strip(axes, x, "labels", [(timeline.labels, style.true)], style)
    else:
        alarm_strip(axes, x, timeline.verdicts, timeline.labels, "anomalous", style)


def _signal(axes: Axes, timeline: Timeline, x: Floats, channel: int, style: Style) -> None:
    """Draw a channel, and shade it where it has a part in an alarm or in a change."""
    name = timeline.channels[channel]
    expected, ratios = timeline.verdicts.expected, timeline.verdicts.channel_ratios
    range_panel(
        axes,
        x,
        timeline.values[:, channel],
        timeline.labels,
        None if expected is None else expected[:, channel],
        timeline.ranges and (timeline.ranges[0][:, channel], timeline.ranges[1][:, channel]),
        None if ratios is None else ratios[:, channel] >= 1,
        style,
    )
    bars = alarm_bars(timeline, x, style)
    for alarm in timeline.alarms:
        if _concerns(alarm, name):
            bar = bars[alarm.number]
            axes.axvspan(bar.start, bar.end, color=bar.colour, alpha=0.3, linewidth=1.2, zorder=0)
    for span in timeline.changes:
        if name in span.change.channels:
            start, end = spans_of(timeline, x, span.change.start, span.end)
            colour = style.state(span.change.state)
            axes.axvspan(start, end, color=colour, alpha=0.13, linewidth=0, zorder=0)
    tidy(axes, "", style)
    _entitle(axes, name, _part(timeline, name), style)


def _part(timeline: Timeline, name: str) -> str:
    alarms = [alarm for alarm in timeline.alarms if _concerns(alarm, name)]
    changes = [span.change for span in timeline.changes if name in span.change.channels]
    texts = [_numbers("alarm", [alarm.number for alarm in alarms])] if alarms else []
    for state in dict.fromkeys(change.state for change in changes):
        numbers = [change.number for change in changes if change.state == state]
        texts.append(f"{_numbers('change', numbers)} {state}")
    return " · ".join(texts)


def _numbers(what: str, numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"{what} {numbers[0]}"
    if len(numbers) > 4:
        return f"{len(numbers)} {what}s"
    return f"{what}s {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def _concerns(alarm: Alarm, name: str) -> bool:
    return name in alarm.channels or any(evidence.channel == name for evidence in alarm.evidence)


def _entitle(axes: Axes, name: str, remark: str, style: Style) -> None:
    look: dict[str, Any] = {"fontsize": SMALL, "pad": 3, "parse_math": False}
    axes.set_title(shortened(name, _NAME), loc="left", color=style.ink, fontweight="bold", **look)
    axes.set_title(remark, loc="right", color=style.quiet, **look)


def _score(axes: Axes, timeline: Timeline, x: Floats, style: Style) -> None:
    verdicts = in_ratios(timeline.verdicts)
    score_panel(axes, x, verdicts, timeline.labels, score_range([verdicts]), style)
    tidy(axes, "", style)
    anomalous = int(verdicts.anomalous.sum())
    _entitle(axes, "ratio", f"{anomalous:,} anomalous" if anomalous else "", style)


def _texts(timeline: Timeline, shown: Ints, why: str, evaluation: Evaluation | None) -> _Texts:
    name = f"{timeline.name}: " if timeline.name else ""
    head = textwrap.wrap(name + headline(timeline), 90, max_lines=2, placeholder=" …")
    below = [range_text(timeline), timeline_counts_text(timeline)]
    if len(shown) < len(timeline.channels):
        below.append(f"{len(shown)} of {len(timeline.channels)} channels shown{why}")
    if evaluation is not None:
        below += _figures(evaluation)
    important = most_important(timeline)
    listed = important[:_SENTENCES]
    lines = [_line(item) for item in listed]
    left = len(important) - len(listed)
    if left > 0:
        lines.append(f"and {left:,} more of lower peaks" if left > 1 else "and one more")
    return _Texts(head, _wrapped([text for text in below if text]), lines)


def _wrapped(parts: Sequence[str]) -> list[str]:
    """Return parts with dots between them, in as many lines as they need."""
    lines: list[str] = []
    for part in parts:
        longer = f"{lines[-1]} · {part}" if lines else part
        if lines and len(longer) <= _WIDE:
            lines[-1] = longer
        else:
            lines.append(part)
    return lines


def _figures(evaluation: Evaluation) -> list[str]:
    alarms = evaluation.alarms
    events = [f"{alarms.found} of {alarms.events} events found"] if alarms.events else []
    false = f"{number_text(alarms.false_per_day, digits=2)} false alarms a day"
    return [*events, false, f"F1 {evaluation.report.f1:.2f}"]


def _line(alarm: Alarm) -> str:
    still = ", still open" if alarm.open else ""
    text = f"{alarm.number}   {since_text(alarm)}: {alarm.sentence}{still}"
    return textwrap.shorten(text, _WIDE + 12, placeholder=" …") if len(text) > _WIDE + 12 else text


def _write(figure: Figure, texts: _Texts, rows: int, style: Style) -> None:
    y = figure.get_figheight() - 0.2
    y = write(figure, texts.head, y, style.ink, size=NORMAL + 1, weight="bold")
    write(figure, texts.below, y, style.quiet)
    write(figure, texts.lines, 0.08 + _LINE * (rows + len(texts.lines)), style.ink)


def _marks(timeline: Timeline, style: Style) -> dict[str, Artist]:
    """Return what is drawn, with a name for each."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    marks: dict[str, Artist] = {"value": Line2D([], [], color=style.value, linewidth=1.5)}
    if timeline.verdicts.expected is not None:
        marks["expected"] = Line2D([], [], color=style.expected, linewidth=1.5)
    if timeline.ranges is not None:
        marks["expected range"] = Patch(facecolor=style.band, alpha=0.45)
    ratios = timeline.verdicts.channel_ratios
    if timeline.labels is None and ratios is not None and (ratios >= 1).any():
        marks["beyond it"] = Line2D([], [], color=style.alarm, marker=".", linewidth=1.1)
    marks["ratio"] = Line2D([], [], color=style.line, linewidth=1.5)
    marks["limit"] = Line2D([], [], color=style.ink, linewidth=1.0, linestyle=(0, (4, 3)))
    alarms = bool(timeline.alarms) or bool(timeline.verdicts.anomalous.any())
    if timeline.labels is not None:
        marks["labelled"] = Patch(facecolor=style.true, alpha=0.25)
        if alarms:
            marks["true alarm"] = Patch(facecolor=style.true)
            marks["false alarm"] = Patch(facecolor=style.alarm)
    elif alarms:
        marks["alarm"] = Patch(facecolor=style.alarm)
    states = {state for span in timeline.changes for _, state in span.steps}
    for state in (PENDING, ACCEPTED, REJECTED):
        if state in states:
            look = hatched(style.state(state), style.hatch(state))
            marks[f"change {state}"] = Patch(linewidth=0, **look)
    return marks


def _empty(timeline: Timeline, style: Style) -> Figure:
    figure = blank(9.0, 1.0, style)
    name = f"{timeline.name}: " if timeline.name else ""
    write(figure, [f"{name}no samples"], 0.6, style.ink, size=NORMAL + 1, weight="bold")
    return figure
