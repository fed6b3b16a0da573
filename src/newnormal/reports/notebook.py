"""What a notebook shows of our values: plain tables, and below them a page to zoom.

Tables have no colours of their own, so that they fit a light and a dark notebook, and no script:
a viewer that removes scripts and frames still shows what happened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from newnormal.alarms.words import (
    change_text,
    duration_text,
    headline,
    most_important,
    number_texts,
    range_text,
    short_moment_text,
    since_text,
    timeline_counts_text,
)
from newnormal.base import BaseDetector
from newnormal.fleet import Fleet, FleetVerdicts
from newnormal.plots.attention import attention
from newnormal.reports.writing import page_of
from newnormal.texts import counted
from newnormal.types import (
    Alarm,
    Change,
    Event,
    Evidence,
    Incident,
    Timeline,
    Verdicts,
)

PAGE = 400_000  # bytes of the page inside a notebook
_ROWS = 5  # alarms, changes or streams in a table
_HEIGHT = 640  # pixels
_NO_HEADLINE = "<style>.nn-headline { display: none; }</style>"
_LEFT = ' style="text-align:left"'


def html(found: Any) -> str:
    """Return a value as HTML for a notebook."""
    for kind, shown in _SHOWN.items():
        if isinstance(found, kind):
            text: str = shown(found)
            return f"<div>{text}</div>"
    return f"<pre>{escape(repr(found))}</pre>"


# ---------------------------------------------------------------------- verdicts


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


def _fleet_verdicts(found: FleetVerdicts) -> str:
    names = list(found)
    if any(found[name].observed is None for name in names):
        return _head(repr(found))
    timelines = sorted((Timeline.of(found[name], name) for name in names), key=attention)
    counts = Counter(each.status for each in timelines)
    states = ", ".join(f"{count:,} {state}" for state, count in counts.items())
    about = [f"{len(found):,} rows", f"{int(found.anomalous.sum()):,} anomalous"]
    text = _head(f"{counted(len(timelines), 'stream')}: {states}" if names else "No streams", about)
    text += _incidents({each.incident.number: each.incident for each in found.incidents}.values())
    rows = [(each.name, each.status, headline(each)) for each in timelines[:_ROWS]]
    text += _table(("stream", "status", ""), rows, len(timelines) - len(rows))
    return text + (_frame(found) if names else "")


def _frame(found: Verdicts | FleetVerdicts) -> str:
    """Return the page of a run, in a frame that its scripts cannot leave.

    Without its headline, which the tables above it have.
    """
    page = page_of(found, budget=PAGE).replace("</head>", f"{_NO_HEADLINE}</head>", 1)
    page = escape(page, quote=True)
    return (
        f'<iframe srcdoc="{page}" sandbox="allow-scripts" title="What happened" loading="lazy" '
        f'style="width:100%;height:{_HEIGHT}px;border:0"></iframe>'
    )


# ---------------------------------------------------------------------- detectors


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
        ("alarm threshold", number_texts(detector.alarm_threshold_)[0]),
    ]
    return text + _table((), facts) + _alarms(detector.alarms_) + _changes(detector.changes_)


def _fleet(fleet: Fleet) -> str:
    text = _head(repr(fleet))
    text += _incidents([each for each in fleet.incidents_ if each.open])
    rows = [
        (stream, _what(each), each.sentence if isinstance(each, Alarm) else change_text(each))
        for found in (fleet.alarms_, fleet.changes_)
        for stream, opened in found.items()
        for each in opened
    ]
    if not rows:
        return text + _table((), [("open alarms and changes", "none")])
    return text + _table(("stream", "", ""), rows[:_ROWS], len(rows) - _ROWS)


def _what(found: Alarm | Change) -> str:
    if isinstance(found, Alarm):
        return f"alarm {found.number}, since {since_text(found)}"
    return f"change {found.number}, {found.state}, since {since_text(found)}"


# ---------------------------------------------------------------------- alarms and changes


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
        (
            f"{each.number}",
            since_text(each),
            each.sentence,
            "open" if each.open else "closed",
        )
        for each in alarms[:_ROWS]
    ]
    return _table(("alarm", "since", "", ""), rows, len(alarms) - len(rows))


def _changes(changes: Sequence[Change]) -> str:
    opened = sorted(changes, key=lambda each: (not each.open, -each.number))
    rows = [
        (f"{each.number}", since_text(each), change_text(each), each.state)
        for each in opened[:_ROWS]
    ]
    return _table(("change", "since", "", ""), rows, len(opened) - len(rows))


def _incidents(incidents: Iterable[Incident]) -> str:
    newest = sorted(incidents, key=lambda each: (not each.open, -each.number))
    rows = [
        (f"{each.number}", "open" if each.open else "ended", each.sentence)
        for each in newest[:_ROWS]
    ]
    return _table(("incident", "", ""), rows, len(newest) - len(rows))


def _evidence(evidence: Sequence[Evidence]) -> str:
    rows = []
    for each in evidence:
        known = (each.observed, each.expected, each.low, each.high)
        texts = iter(number_texts(*(value for value in known if value is not None)))
        observed, expected, low, high = ("" if value is None else next(texts) for value in known)
        span = f"{low} to {high}" if low and high else ""
        rows.append((each.channel, observed or "missing", expected, span, each.direction))
    return _table(("channel", "observed", "expected", "range", ""), rows)


# ---------------------------------------------------------------------- HTML


def _head(title: str, about: Iterable[str] = ()) -> str:
    more = " · ".join(escape(each) for each in about if each)
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
