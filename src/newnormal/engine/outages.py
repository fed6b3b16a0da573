"""Streams that fell silent at the same moment: one incident with one alert, not one for each.

A stream that stopped did so between its newest sample and the one after it that did not come.
Streams of the same source, or that are pushed, for which the same moment may be meant are
silent together. Once one of them sends again, those that stay silent are reported anew: what they
had in common is over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from newnormal.alarms.silence import longest_silence
from newnormal.alarms.words import channels_text
from newnormal.engine import items
from newnormal.engine.streams import StreamRecord, StreamRecords
from newnormal.engine.values import Item
from newnormal.texts import counted

if TYPE_CHECKING:
    from newnormal.engine.applying import Applier

RETURNED = "returned"  # in the body of the item: when the first of its streams sent again


def longest_quiet(period: int) -> float:
    """Return for how many seconds a stream of a period in ns may send nothing.

    >>> longest_quiet(15 * 10**9)
    75.0
    """
    return longest_silence(np.timedelta64(period, "ns"))[1]


def may_meet(one: float, one_longest: float, other: float, other_longest: float) -> bool:
    """Whether two streams may have stopped at the same moment.

    Parameters
    ----------
    one, other
        When each sent something last, in s.
    one_longest, other_longest
        For how long each may be silent: half of it after its last sample, another was due.

    Examples
    --------
    >>> may_meet(0.0, 60.0, 29.0, 60.0), may_meet(0.0, 60.0, 31.0, 60.0)
    (True, False)
    >>> may_meet(0.0, 3600.0, 31.0, 60.0)
    True
    """
    return other <= one + one_longest / 2 and one <= other + other_longest / 2


@dataclass
class Outage:
    """Streams that fell silent at the same moment."""

    item: Item  # the incident, as it was last reported
    silent: set[int]  # the numbers of those that are silent still
    # When its first stream sent something last, in s, and for how long that may be silent.
    last: float
    longest: float


class Outages:
    """Those that are open, by key."""

    def __init__(self) -> None:
        self.count = 0  # of all there were
        self.open: dict[str, Outage] = {}

    def to_json(self) -> dict[str, Any]:
        """Return them as JSON values."""
        opened = [
            {**vars(outage), "item": vars(outage.item), "silent": sorted(outage.silent)}
            for outage in self.open.values()
        ]
        return {"count": self.count, "open": opened}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any], streams: StreamRecords) -> Self:
        """Return what `to_json` was called on; its streams are given it."""
        outages = cls()
        outages.count = saved["count"]
        for facts in saved["open"]:
            item = Item(**facts["item"])
            outage = Outage(item, set(facts["silent"]), facts["last"], facts["longest"])
            outages.open[item.key] = outage
            for stream in _silent(outage, streams):
                stream.outage = item
        return outages


def fall_silent(applier: Applier, since_by_number: Sequence[tuple[int, int]], now: int) -> None:
    """Report that streams are silent: each with the time of its newest sample, in ns.

    What the clock found does not hold for a stream that sent something, or was removed, meanwhile.
    """
    silent = [
        stream
        for number, since in since_by_number
        if (stream := applier.streams.get(number)) is not None
        and stream.is_live
        and stream.order.closed == since
        and _is_news(stream)
    ]
    if not silent:
        return
    for stream in silent:
        applier.touched[stream.id] = stream
        leave(applier, stream, now, "those that are still silent are reported anew")
    first = silent[0]
    last, longest = first.order.closed / 1e9, longest_quiet(first.order.period or 0)
    for outage in applier.outages.open.values():
        body = outage.item.body
        alike = body["source"] == first.source and body[RETURNED] is None
        if alike and may_meet(last, longest, outage.last, outage.longest):
            _join(applier, outage, silent, now)
            return
    if len(silent) == 1:
        item = items.silent_item(first, first.order.closed, now, applier.position)
        applier.report.item("silent", first, item, now)
        return
    outages = applier.outages
    outages.count += 1
    item = _item(f"{items.INCIDENT}-silence-{outages.count}", silent, now, applier.position)
    outages.open[item.key] = outage = Outage(item, {each.id for each in silent}, last, longest)
    _report(applier, outage, "incident", item)


def come_back(applier: Applier, stream: StreamRecord, now: int) -> None:
    """Take note that a stream of an outage sent something again, at a time in ns."""
    assert stream.outage is not None
    outage = applier.outages.open[stream.outage.key]
    item = outage.item
    if item.body[RETURNED] is None and len(outage.silent) > 1:
        body = {**item.body, RETURNED: now}
        item = replace(item, body=body, updated=now, position=applier.position)
        _report(applier, outage, "updated", item)
    leave(applier, stream, now)


def leave(applier: Applier, stream: StreamRecord, now: int, reason: str = "samples again") -> None:
    """Take a stream out of its outage, if it has one, which ends with its last stream."""
    if stream.outage is None:
        return
    outage = applier.outages.open[stream.outage.key]
    stream.outage = None
    stream.version += 1
    outage.silent.discard(stream.id)
    if not outage.silent:
        del applier.outages.open[outage.item.key]
        end = max(now, outage.item.body["noticed"])
        item = items.ended(outage.item, "closed", end, applier.position, reason=reason)
        applier.report.of_many("incident_ended", item)


def _is_news(stream: StreamRecord) -> bool:
    """Whether its silence is not known yet, or is that of an outage which others have left."""
    if stream.outage is not None:
        return stream.outage.body[RETURNED] is not None
    return stream.silence is None


def _join(applier: Applier, outage: Outage, joining: Sequence[StreamRecord], now: int) -> None:
    outage.silent |= {stream.id for stream in joining}
    named = map(applier.streams.named, outage.item.body["streams"])
    # One may be there by its name alone.
    every = {stream.id: stream for stream in (*named, *joining) if stream is not None}
    item = _item(outage.item.key, list(every.values()), now, applier.position)
    _report(applier, outage, "updated", item)


def _report(applier: Applier, outage: Outage, kind: str, item: Item) -> None:
    outage.item = item
    for stream in _silent(outage, applier.streams):
        stream.outage = item
        stream.version += 1
    applier.report.of_many(kind, item)


def _silent(outage: Outage, streams: StreamRecords) -> list[StreamRecord]:
    numbered = map(streams.get, sorted(outage.silent))
    return [stream for stream in numbered if stream is not None]


def _item(key: str, streams: Sequence[StreamRecord], now: int, position: int) -> Item:
    """Return the incident of streams that are silent."""
    since = min(stream.order.closed for stream in streams)
    names = [stream.name for stream in streams]
    source = streams[0].source
    whose = f" of source {source}" if source else ""
    return Item(
        key,
        items.INCIDENT,
        None,
        0,
        0,
        "open",
        since,
        now,
        None,
        float(len(names)),
        f"no samples of {counted(len(names), 'stream')}{whose}: {channels_text(names)}",
        {
            "streams": dict.fromkeys(names, 0),
            "cause": items.SILENT,
            "source": source,
            "since": since,
            "noticed": now,
            RETURNED: None,
        },
        position,
    )
