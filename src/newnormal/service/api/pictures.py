"""A stream as the page's picture wants it: points of a range, and what happened in it."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from newnormal.alarms.words import change_text, length_text
from newnormal.engine.store import Store
from newnormal.engine.values import Item, StreamView, ThinnedSeries
from newnormal.errors import StateError
from newnormal.service.api.shown import iso, seconds
from newnormal.service.service import Service
from newnormal.types import Alarm, Change, Floats

_MOST_EVENTS = 500  # of each kind, the newest


def series_json(series: ThinnedSeries, known: Sequence[str], period: int | None) -> dict[str, Any]:
    """Return a stretch of a stream as `points` of a provider gives it to a picture.

    Columns of a channel end in its position among the stream's channels. Where samples are
    missing between two points, a point without values stands between them.
    """
    x = np.asarray(series.times, np.int64) / 1e9
    gaps = _gaps(series, period)
    columns = {
        name: _column(getattr(series, f"{name}s"), gaps) for name in ("score", "threshold", "ratio")
    }
    position_of = {name: position for position, name in enumerate(known)}
    for k, name in enumerate(series.channels):
        for kind in ("low", "high", "expected", "least", "most", "channel_ratios"):
            column = f"{kind.removeprefix('channel_').removesuffix('s')}:{position_of[name]}"
            columns[column] = _column(getattr(series, kind)[:, k], gaps)
    middles = (x[gaps - 1] + x[gaps]) / 2
    return {
        "x": np.insert(x, gaps, middles).round(6),
        "columns": columns,
        "per": int(series.per),
        "exact": False,  # true where some stretches show every sample although others do not
        "anomalous": np.flatnonzero(np.insert(series.anomalous, gaps, values=False)),
    }


def _gaps(series: ThinnedSeries, period: int | None) -> Any:
    """Return the positions of points before which samples are missing."""
    if period is None or len(series.times) < 2:
        return np.zeros(0, np.int64)
    widest = 1.5 * series.per * period + 2 * period
    return np.flatnonzero(np.diff(series.times) > widest) + 1


def _column(values: Floats, gaps: Any) -> Floats:
    """Return values to a millionth of what they span: a picture shows less."""
    numbers = np.insert(np.asarray(values, np.float64), gaps, np.nan)
    finite = numbers[np.isfinite(numbers)]
    span = float(np.ptp(finite)) if finite.size else 0.0
    if 1e-200 < span < 1e200:
        decimals = 6 - math.floor(math.log10(span))
        return np.round(numbers, decimals) if decimals < 300 else numbers
    return numbers


def picture_json(
    service: Service, view: StreamView, begin: int | None = None, end: int | None = None
) -> dict[str, Any]:
    """Return what a report's page knows of a stream beside its numbers.

    `begin`, `end`: in ns: only what happened between is given; None: whenever.
    """
    store = service.store
    first = _oldest(store, view)
    newest = view.newest
    alarms, changes = (
        sorted(
            store.items.page(
                kinds=[kind], stream=view.id, begin=begin, end=end, limit=_MOST_EVENTS
            ).items,
            key=lambda item: item.opened,
        )
        for kind in ("alarm", "change")
    )
    concern = _concern(alarms, changes)
    counts = view.counts
    stream = {
        "id": view.id,
        "name": view.name,
        "state": view.state,
        "status": _status(alarms, changes),
        "samples": view.samples,
        "anomalous": None,
        "missing": 0,
        "start": None if first is None else seconds(first),
        "end": None if newest is None else seconds(newest),
        "period": None if view.period is None else seconds(view.period),
        "first": 0,
        "channels": [
            {"name": name, "concern": round(concern.get(name, 0.0), 6)} for name in view.channels
        ],
        "alarms": [_alarm(item, view) for item in alarms],
        "changes": [_change(item, newest) for item in changes],
        "labels": None,
        "more": {
            "alarms": _more(counts.get("alarms"), alarms, begin, end),
            "changes": _more(counts.get("changes"), changes, begin, end),
            "channels": 0,
        },
        "sparkline": None,
        "blocks": [],
    }
    return {"axis": {"kind": "time", "zone": "UTC"}, "stream": stream}


def _oldest(store: Store, view: StreamView) -> int | None:
    first = store.samples.first_kept(view.id)
    try:
        return int(store.samples.rows(view.id, first, first).times[0])
    except StateError:  # there is none, or retention removed it meanwhile
        return view.newest


def _concern(alarms: Sequence[Item], changes: Sequence[Item]) -> dict[str, float]:
    """Return how much each channel had to do with what happened, of which 1 is the most."""
    concern: dict[str, float] = {}
    for item in alarms:
        for name, share in item.body["peak"]["channels"].items():
            concern[name] = max(concern.get(name, 0.0), float(share))
    for item in changes:
        concern |= dict.fromkeys(item.body["channels"], 1.0)
    return concern


def _status(alarms: Sequence[Item], changes: Sequence[Item]) -> str:
    if any(item.open for item in alarms):
        return "in alarm"
    states = {item.state for item in changes}
    if "pending" in states:
        return "change pending"
    return "change rejected" if "rejected" in states else "normal"


def _more(total: int | None, shown: Sequence[Item], begin: int | None, end: int | None) -> int:
    if total is None or begin is not None or end is not None:
        return 0
    return max(0, total - len(shown))


def _alarm(item: Item, view: StreamView) -> dict[str, Any]:
    body = item.body
    alarm = replace(Alarm.from_dict(body), zone="UTC")
    end = item.updated if item.ended is None else item.ended
    if item.open and view.newest is not None and view.newest > end:
        # It is reported again only when it becomes worse: it lasts until now.
        end = view.newest
        steps = 0 if not view.period else round((end - item.opened) / view.period)
        alarm = replace(
            alarm, end=max(alarm.end, alarm.start + steps), end_time=np.datetime64(end, "ns")
        )
    peak = alarm.peak.time
    return {
        "key": item.key,
        "number": item.number,
        "generation": item.generation,
        "cause": alarm.cause,
        "open": item.open,
        "reason": alarm.reason,
        "sentence": item.sentence,
        "start": seconds(item.opened),
        "end": seconds(max(end, item.opened)),
        "peak": seconds(item.opened if peak is None else int(peak.astype(np.int64))),
        "ratio": item.ratio,
        "samples": alarm.end - alarm.start + 1,
        "since": _when(item.opened),
        "until": _when(max(end, item.opened)),
        "lasted": length_text(alarm),
        "evidence": body["evidence"],
        "shares": body["peak"]["channels"],
    }


def _change(item: Item, newest: int | None) -> dict[str, Any]:
    body = item.body
    change = Change.from_dict(body)
    until = max(item.opened, item.updated if newest is None else newest)
    decided = item.updated if item.ended is None else item.ended
    steps = [[seconds(item.opened), "pending"]]
    if item.state != "pending":
        steps.append([seconds(max(decided, item.opened)), item.state])
    return {
        "key": item.key,
        "number": item.number,
        "generation": item.generation,
        "state": item.state,
        "open": item.open,
        "sentence": change_text(change),
        "channels": list(change.channels),
        "before": change.before,
        "after": change.after,
        "units": dict(change.units),
        "since": _when(item.opened),
        "alarm": change.alarm,
        "steps": steps,
        "end": seconds(until if item.open else max(decided, item.opened)),
    }


def _when(time: int) -> str:
    """Return a time as the lists show it: without seconds that are 0."""
    text = str(iso(time)).replace("T", " ")
    return text[:16] + text[19:] if text[16:19] == ":00" and text[19:20] != "." else text
