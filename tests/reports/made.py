"""Timelines made by hand, and pages read back as their script reads them."""

import base64
import json
import re
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from newnormal import types

START = np.datetime64("2026-03-01T12:00:00", "ns")


def minutes(count: int) -> types.Times:
    """Return a time a minute."""
    return START + np.arange(count) * np.timedelta64(60, "s")


def timeline(
    values: types.Floats,
    *,
    name: str = "plant",
    channels: tuple[str, ...] | None = None,
    scores: types.Floats | None = None,
    threshold: float | types.Floats = 1.0,
    expects: bool = True,
    margins: bool = True,
    times: types.Times | None = None,
    zone: str | None = None,
    first: int = 0,
    found: tuple[types.Alarm | types.Change, ...] = (),
    remaining: tuple[types.Alarm | types.Change, ...] = (),
    labels: Any = None,
) -> types.Timeline:
    """Return a timeline of samples; scores are 0.5 but where given."""
    length, count = values.shape
    names = tuple(f"c{at}" for at in range(count)) if channels is None else channels
    own = np.full(length, 0.5) if scores is None else scores
    thresholds = np.broadcast_to(np.asarray(threshold, np.float64), (length,)).copy()
    events = tuple(
        types.Event("closed", each.start, None, each)
        if isinstance(each, types.Alarm)
        else types.Event("changed", each.start, None, None, each)
        for each in found
    )
    observed = types.Observed(
        values,
        np.full(count, 2.0) if margins else None,
        events,
        remaining,
        None if labels is None else np.asarray(labels).astype(bool),
    )
    verdicts = types.Verdicts(
        own,
        thresholds,
        own >= thresholds,
        values * 0.5 + 1.0 if expects else None,
        np.zeros((length, count), np.float32) if expects else None,
        times,
        names,
        first,
        zone=zone,
        observed=observed,
    )
    return types.Timeline.of(verdicts, name)


def alarm_at(
    number: int,
    start: int,
    end: int,
    *,
    channel: str = "c0",
    ratio: float = 2.0,
    reason: str | None = "back to normal",
    times: types.Times | None = None,
) -> types.Alarm:
    """Return an alarm that lasted from one sample to another."""

    def when(sample: int) -> np.datetime64 | None:
        return None if times is None else times[sample]

    return types.Alarm(
        number,
        start,
        when(start),
        end,
        when(end),
        types.Peak(start, when(start), 2.0, ratio, 0.001, {channel: 0.9}),
        reason,
        evidence=(types.Evidence(channel, 9.0, 1.0, -1.0, 3.0),),
        sentence=f"{channel} 9, expected -1 to 3; high for a while",
    )


def changed(number: int, start: int, state: str = "pending", channel: str = "c0") -> types.Change:
    """Return a change since a sample."""
    return types.Change(
        number, start, None, (channel,), {channel: 1.0}, {channel: 4.0}, state, None, 1.5, "moved"
    )


@dataclass(frozen=True)
class Block:
    """A block with its numbers."""

    per: int
    detail: bool
    start: float
    end: float
    columns: dict[str, types.Floats]


@dataclass(frozen=True)
class Page:
    """What a page's script finds in it."""

    text: str
    meta: dict[str, Any]
    blocks: list[list[Block]]


def read_page(text: str) -> Page:
    """Return the data of a page."""
    (report,) = re.findall(r'<script type="application/json" id="report">(.*?)</script>', text)
    meta = json.loads(report)
    packed = dict(
        re.findall(r'<script type="text/plain" id="data-(\d+)">([A-Za-z0-9+/=]*)</script>', text)
    )
    blocks = []
    for number, stream in enumerate(meta["streams"]):
        data = packed.get(str(number))
        assert (data is None) == (not stream["blocks"])
        unpacked = b"" if data is None else zlib.decompress(base64.b64decode(data))
        blocks.append([_block(each, unpacked) for each in stream["blocks"] or []])
    return Page(text, meta, blocks)


def _block(block: dict[str, Any], data: bytes) -> Block:
    columns: dict[str, types.Floats] = {}
    for name, column in block["columns"].items():
        kind = "<f8" if name == "x" else "<f4"
        found = np.frombuffer(data, kind, block["points"], column["at"])
        columns[name] = found.astype(np.float64) + column["base"]
    return Block(block["per"], block["detail"], block["start"], block["end"], columns)
