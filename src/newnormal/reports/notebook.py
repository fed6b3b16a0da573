"""What a notebook shows of our values: plain tables, and below them a page to zoom.

Tables have no colours of their own, so that they fit a light and a dark notebook, and no script:
a viewer that removes scripts and frames still shows what happened.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from newnormal.alarms.words import (
    change_text,
    duration_text,
    headline,
    most_important,
    range_text,
    short_moment_text,
    since_text,
    timeline_counts_text,
)
from newnormal.base import BaseDetector
from newnormal.fleet import Fleet, FleetVerdicts
from newnormal.plots.overview import attention
from newnormal.reports.writing import page_of
from newnormal.texts import between_text, counted, number_text, number_texts
from newnormal.types import Alarm, Change, Event, Evidence, Incident, Timeline, Verdicts

PAGE = 400_000  # bytes of the page inside a notebook
_ROWS = 5  # alarms, changes or streams in a table
_HEIGHT = 640  # pixels
_NO_HEADLINE = "<style>.nn-headline { display: none; }</style>"
_LEFT = ' style="text-align:left"'


def html(value: Any) -> str:
    """Return a value as HTML for a notebook."""
    for kind, show in _SHOWN.items():
        if isinstance(value, kind):
            text: str = show(value)
            return f"<div>{text}</div>"
    return f"<pre>{escape(repr(value))}</pre>"


def _verdicts(verdicts: Verdicts) -> str:
    if verdicts.observed is None:
        return _head(repr(verdicts))
    timeline = Timeline.of(verdicts)
    anomalous = f"{int(verdicts.anomalous.sum()):,} anomalous"
    about = [range_text(timeline), anomalous, timeline_counts_text(timeline)]
    text = _head(headline(timeline), about)
    text += _alarms(most_important(timeline))
    text += _changes([span.change for span in timeline.changes])
    return text + (_frame(verdicts) if len(verdicts) else "")


def _fleet_verdicts(verdicts: FleetVerdicts) -> str:
    names = list(verdicts)
    if any(verdicts[name].observed is None for name in names):
        return _head(repr(verdicts))
    timelines = sorted((Timeline.of(verdicts[name], name) for name in names), key=attention)
    counts = Counter(timeline.status for timeline in timelines)
    states = ", ".join(f"{count:,} {state}" for state, count in counts.items())
    about = [f"{len(verdicts):,} rows", f"{int(verdicts.anomalous.sum()):,} anomalous"]
    text = _head(f"{counted(len(timelines), 'stream')}: {states}" if names else "No streams", about)
    text += _incidents(
        {event.incident.number: event.incident for event in verdicts.incidents}.values()
    )
    rows = [(timeline.name, timeline.status, headline(timeline)) for timeline in timelines[:_ROWS]]
    text += _table(("stream", "status", ""), rows, len(timelines) - len(rows))
    return text + (_frame(verdicts) if names else "")


def _frame(verdicts: Verdicts | FleetVerdicts) -> str:
    """Return the page of a run, in a frame that its scripts cannot leave.

    Without its headline, which the tables above it have.
    """
    page = page_of(verdicts, budget=PAGE).replace("</head>", f"{_NO_HEADLINE}</head>", 1)
    page = escape(page, quote=True)
    return (
        f'<iframe srcdoc="{page}" sandbox="allow-scripts" title="What happened" loading="lazy" '
        f'style="width:100%;height:{_HEIGHT}px;border:0"></iframe>'
    )


def _detector(detector: BaseDetector) -> str:
    text = _head(repr(detector))
    if not detector.__sklearn_is_fitted__():
        return text + _table((), [("state", "not fitted: call fit(history)")])
    channels = detector.channels_
    named = ", ".join(channels[:_ROWS]) + (", …" if len(channels) > _ROWS else "")
    facts = [("status", detector.status_), (counted(len(channels), "channel"), named)]
    if detector.period_ is not None:
        seconds = float(detector.period_.astype("timedelta64[ns]").astype("int64")) / 1e9
        facts.append(("a sample every", duration_text(1, seconds)))
    seen = f"{detector.counters['seen']:,}"
    if detector.last_time_ is not None:
        seen += f", the newest at {short_moment_text(detector.last_time_, 0, detector.zone_)}"
    facts += [
        ("samples since fit", seen),
        ("alarm threshold", number_text(detector.alarm_threshold_)),
    ]
    return text + _table((), facts) + _alarms(detector.alarms_) + _changes(detector.changes_)


def _fleet(fleet: Fleet) -> str:
    text = _head(repr(fleet))
    text += _incidents([incident for incident in fleet.incidents_ if incident.open])
    rows = [
        (stream, _what(item), item.sentence if isinstance(item, Alarm) else change_text(item))
        for by_stream in (fleet.alarms_, fleet.changes_)
        for stream, opened in by_stream.items()
        for item in opened
    ]
    if not rows:
        return text + _table((), [("open alarms and changes", "none")])
    return text + _table(("stream", "", ""), rows[:_ROWS], len(rows) - _ROWS)


def _what(item: Alarm | Change) -> str:
    if isinstance(item, Alarm):
        return f"alarm {item.number}, since {since_text(item)}"
    return f"change {item.number}, {item.state}, since {since_text(item)}"


def _alarm(alarm: Alarm) -> str:
    state = "open" if alarm.open else f"closed: {alarm.reason}"
    text = _head(f"Alarm {alarm.number}: {alarm.sentence}", [f"since {since_text(alarm)}", state])
    return text + _evidence(alarm.evidence)


def _change(change: Change) -> str:
    title = f"Change {change.number}, {change.state}: {change_text(change)}"
    text = _head(title, [f"since {since_text(change)}"])
    rows = [
        (name, *number_texts(change.before[name], change.after[name])) for name in change.channels
    ]
    return text + _table(("channel", "before", "after"), rows[:_ROWS], len(rows) - _ROWS)


def _event(event: Event) -> str:
    when = short_moment_text(event.time, event.sample, event.zone)
    text = f"<p>{escape(event.kind.replace('_', ' '))} at {escape(when)}</p>"
    if event.change is not None:
        return text + _change(event.change)
    return text + ("" if event.alarm is None else _alarm(event.alarm))


def _incident(incident: Incident) -> str:
    text = _head(f"Incident {incident.number}: {incident.sentence}")
    rows = [(stream, f"{number}") for stream, number in incident.streams.items()]
    return text + _table(("stream", "alarm"), rows[:_ROWS], len(rows) - _ROWS)


def _alarms(alarms: Sequence[Alarm]) -> str:
    rows = [
        (f"{alarm.number}", since_text(alarm), alarm.sentence, "open" if alarm.open else "closed")
        for alarm in alarms[:_ROWS]
    ]
    return _table(("alarm", "since", "", ""), rows, len(alarms) - len(rows))


def _changes(changes: Sequence[Change]) -> str:
    opened = sorted(changes, key=lambda change: (not change.open, -change.number))
    rows = [
        (f"{change.number}", since_text(change), change_text(change), change.state)
        for change in opened[:_ROWS]
    ]
    return _table(("change", "since", "", ""), rows, len(opened) - len(rows))


def _incidents(incidents: Iterable[Incident]) -> str:
    newest = sorted(incidents, key=lambda incident: (not incident.open, -incident.number))
    rows = [
        (f"{incident.number}", "open" if incident.open else "ended", incident.sentence)
        for incident in newest[:_ROWS]
    ]
    return _table(("incident", "", ""), rows, len(newest) - len(rows))


def _evidence(channels: Sequence[Evidence]) -> str:
    rows = []
    for channel in channels:
        texts = channel.texts
        span = between_text([texts["low"], texts["high"]]) if {"low", "high"} <= {*texts} else ""
        observed, expected = texts.get("observed", "missing"), texts.get("expected", "")
        rows.append((channel.channel, observed, expected, span, channel.direction))
    return _table(("channel", "observed", "expected", "range", ""), rows)


def _head(title: str, about: Iterable[str] = ()) -> str:
    more = " · ".join(escape(text) for text in about if text)
    return f"<p><b>{escape(title)}</b>{f'<br>{more}' if more else ''}</p>"


def _table(names: Sequence[str], rows: Sequence[Sequence[str]], more: int = 0) -> str:
    """Return rows of text as a table, and how many are left out; nothing without rows."""
    if not rows:
        return ""
    head = "".join(f"<th{_LEFT}>{escape(name)}</th>" for name in names)
    body = "".join(
        f"<tr>{''.join(f'<td{_LEFT}>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    left = f"<p>and {more:,} more</p>" if more > 0 else ""
    start = f"<thead><tr>{head}</tr></thead>" if names else ""
    return f"<table>{start}<tbody>{body}</tbody></table>{left}"


_SHOWN: dict[type, Any] = {
    Verdicts: _verdicts,
    FleetVerdicts: _fleet_verdicts,
    BaseDetector: _detector,
    Fleet: _fleet,
    Alarm: _alarm,
    Change: _change,
    Event: _event,
    Incident: _incident,
}
