"""Alerts from what happens to items: when an item opens, gets more severe, or ends."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from newnormal.engine.values import EventRow, Item, StreamView
from newnormal.io.sinks.alerts import FIRED, RESOLVED
from newnormal.types.arrays import time_text

KINDS = ("alarm", "change", "incident", "silence", "channels")  # of items that have alerts

_VERSION = 1  # of the body
OPENING = frozenset({"opened", "changed", "incident", "silent", "channels"})  # kinds of event
_REMARKS = {"comment", "updated"}  # kinds of event that change nothing for a receiver


def alerts_of(
    event: EventRow,
    item: Item,
    view: StreamView | None,
    public_url: str | None,
    before: Item | None = None,
) -> list[tuple[str, dict[str, Any]]]:
    """Return the alerts that an event of an item makes, each with its key.

    The same event and item make the same alerts. The key of an alert is that of its item with the
    status, or with a severity that has risen from that `before`: an item has at most one of each.

    Parameters
    ----------
    event
        What happened.
    item
        The item of it, as it is afterwards.
    view
        The stream of it; None for an incident.
    public_url
        Where people find the page, such as ``"https://newnormal.example.com"``; None: alerts have
        no link.

    Returns
    -------
    list
        Keys and bodies; the body is described in the guide *Alerts*. Nothing, one alert, or both
        where an item opened and ended at once.

    Examples
    --------
    >>> item = Item("alarm-3-1-1", "alarm", 3, 1, 1, "open", 0, 0, None, 2.5, "temp 90", {}, 7)
    >>> event = EventRow(7, 0, "opened", 0, 3, item.key, {})
    >>> view = StreamView(3, "press-1", "live")
    >>> [(key, body)] = alerts_of(event, item, view, "http://127.0.0.1:8765")
    >>> key, body["stream"], body["opened"], body["link"]
    ('alarm-3-1-1:fired', 'press-1', '1970-01-01T00:00:00Z', 'http://127.0.0.1:8765/#/item/alarm-3-1-1')
    """
    word = item.body.get("severity_word")
    known = word if before is None else before.body.get("severity_word")
    has_risen = event.kind == "updated" and known != word
    if item.kind not in KINDS or (event.kind in _REMARKS and not has_risen):
        return []
    statuses = {}
    if event.kind in OPENING or has_risen:
        statuses[str(word) if has_risen else FIRED] = FIRED
    if not item.open:
        statuses[RESOLVED] = RESOLVED
    return [
        (key, _body(key, status, item, view, public_url))
        for key, status in ((f"{item.key}:{part}", status) for part, status in statuses.items())
    ]


def _body(
    key: str, status: str, item: Item, view: StreamView | None, public_url: str | None
) -> dict[str, Any]:
    return {
        "version": _VERSION,
        "key": key,
        "status": status,
        "item": item.key,
        "kind": item.kind,
        "state": item.state,
        "stream": None if view is None else view.name,
        "streams": _streams(item, view),
        "sentence": item.sentence,
        "opened": _text(item.opened),
        "updated": _text(item.updated),
        "ended": None if item.ended is None else _text(item.ended),
        "ratio": item.ratio if math.isfinite(item.ratio) else None,
        "severity": item.body.get("severity"),
        "severity_word": item.body.get("severity_word"),
        "channels": _channels(item.body),
        "evidence": list(item.body.get("evidence") or ()),
        "generation": item.generation,
        "link": None if not public_url else f"{public_url.rstrip('/')}/#/item/{item.key}",
    }


def _streams(item: Item, view: StreamView | None) -> list[str]:
    """Return the names of all streams that an item concerns."""
    if view is not None:
        return [view.name]
    return list(item.body.get("streams") or ())


def _channels(body: Mapping[str, Any]) -> list[str]:
    """Return the channels of an alarm, largest share first, or of a change."""
    peak = body.get("peak")
    named = peak.get("channels") if isinstance(peak, Mapping) else body.get("channels")
    return list(named or ())


def _text(time: int) -> str:
    return time_text(np.datetime64(time, "ns")) + "Z"
