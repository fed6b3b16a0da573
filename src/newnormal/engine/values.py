"""What the parts of the service give each other, as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from newnormal.types import Bools, Floats, Ints

# The states of a stream.
COLLECTING = "collecting"  # its samples are kept as history
FITTING = "fitting"  # a worker fits; samples that come wait in the store
LIVE = "live"
FAILED = "failed"  # the last fit failed: it goes on collecting, and will be tried again

HELD = "held: "  # begins the error of an alert that waits for the end of a maintenance window


@dataclass(frozen=True, eq=False)
class StoredRows:
    """Consecutive samples of a stream as they are stored."""

    first: int  # the number of the first one, counted from 0 over the life of the stream
    channels: tuple[str, ...]  # the names of the columns
    times: Ints  # (N,) in ns since 1970, increasing
    values: Floats  # (N, C); NaN where missing
    # (N,), NaN and False before the stream is live.
    scores: Floats
    thresholds: Floats
    ratios: Floats
    anomalous: Bools
    # (N, C), NaN before the stream is live, as all that follow.
    expected: Floats
    below: Floats  # how far below and above `expected` the range reaches: mostly the same
    above: Floats
    channel_ratios: Floats  # distance from `expected` in units of the channel's limit

    def __len__(self) -> int:
        return len(self.times)

    @classmethod
    def of_samples(
        cls, first: int, channels: tuple[str, ...], times: Ints, values: Floats
    ) -> "StoredRows":
        """Return samples that were not judged."""
        unknown, judged = np.full(values.shape, np.nan), np.zeros(len(values), np.bool_)
        none = (np.full(len(values), np.nan),) * 3
        return cls(first, channels, times, values, *none, judged, *(unknown,) * 4)


@dataclass(frozen=True, eq=False)
class ThinnedSeries:
    """A stretch of a stream, thinned so that no extreme is lost.

    A point stands for `per` consecutive samples (fewer at the end) and lies at the first of them.
    """

    per: int  # samples a point; 1: every sample
    channels: tuple[str, ...]  # the channels that follow, in this order
    times: Ints  # (P,) in ns
    # (P,) of the sample of the point that is worst: whose ratio is the highest.
    scores: Floats
    thresholds: Floats
    ratios: Floats
    # (P, C) extremes of the values.
    low: Floats
    high: Floats
    expected: Floats  # (P, C) the mean of what was expected
    # (P, C) the extremes of the expected range, and the highest ratio of the channel.
    least: Floats
    most: Floats
    channel_ratios: Floats
    anomalous: Bools  # (P,) whether any sample of the point is anomalous


@dataclass(frozen=True)
class Comment:
    """What a person wrote about an item."""

    item: str
    time: int  # ns
    who: str
    text: str


@dataclass(frozen=True)
class Item:
    """One thing of the inbox: an alarm, a change, an incident, a silence, other channels."""

    # Its name everywhere, which never changes: in addresses, alerts and the log of events. Made by
    # the engine, the same whenever the same log is applied, such as ``"alarm-12-1-3"``: kind,
    # stream, generation of the model, number.
    key: str
    kind: str  # ``"alarm"``, ``"change"``, ``"incident"``, ``"silence"`` or ``"channels"``
    stream: int | None  # the number of the stream; None for an incident
    generation: int
    number: int
    # ``"open"`` or ``"closed"`` (alarm, silence, incident); ``"pending"``, ``"accepted"``,
    # ``"rejected"`` or ``"reverted"`` (change, channels).
    state: str
    # Times of samples in ns: since when, and when it was last reported.
    opened: int
    updated: int
    ended: int | None  # when it ended; None while it is open
    ratio: float  # how bad: the highest score over its threshold; 0 where that is not known
    sentence: str  # all of it in one sentence
    # `Alarm.as_dict`, `Change.as_dict` or `Incident.as_dict`; for others what they show.
    body: Mapping[str, Any]
    position: int  # of the log, of the entry that changed it last

    @property
    def open(self) -> bool:
        """Whether it still concerns anybody: open, pending, or rejected and still there."""
        return self.state in ("open", "pending") or (
            self.state == "rejected" and self.ended is None
        )


class ItemPage(NamedTuple):
    """Some items, and where the next ones begin."""

    items: tuple[Item, ...]
    cursor: str | None  # None: there are no more


class EventRow(NamedTuple):
    """Something that happened, as the log of events has it and as subscribers get it."""

    # Of the entry of the log that it came from, and its place among those of that entry.
    position: int
    order: int
    # ``"opened"``, ``"closed"``, ``"accepted"`` and so on (as `Event.kind`), ``"incident"``,
    # ``"incident_ended"``, ``"silent"``, ``"samples_again"``, ``"channels"``, ``"stream"`` (it
    # appeared, or its state is another), ``"removed"``, ``"feedback"``, ``"comment"``.
    kind: str
    time: int  # in ns, of the sample at which it was known
    stream: int | None  # the stream's number, or None
    item: str | None  # the key of the item, or None
    body: Mapping[str, Any]  # what it shows, as JSON values

    @property
    def id(self) -> str:
        """Its name, which increases: for cursors and `Last-Event-ID`."""
        return f"{self.position}-{self.order}"


@dataclass(frozen=True)
class StreamView:
    """A stream as the overview shows it: replaced whenever it changes, never altered."""

    # The number that addresses use, and its name.
    id: int
    name: str
    state: str  # ``"collecting"``, ``"fitting"``, ``"live"`` or ``"failed"``
    channels: tuple[str, ...] = ()  # those of the model; before it is fitted, those that were seen
    samples: int = 0  # how many closed samples there are
    needed: int = 0  # how many samples of history the first fit waits for
    period: int | None = None  # in ns; None while it is not known
    newest: int | None = None  # the time of the newest closed sample in ns; None before the first
    ratio: float = float("nan")  # score over threshold of the newest sample; NaN before it is live
    # From the accepted normal; 1 is the limit. NaN before it is live.
    distance: float = float("nan")
    # The highest ratio of each of the last stretches, oldest first; at most 60.
    sparkline: tuple[float, ...] = ()
    # What needs a person, worst first: ``"alarm"``, ``"change"``, ``"silence"``, ``"channels"``,
    # ``"failed"``; "" if nothing does.
    attention: str = ""
    # The newest open item in one sentence; of the last one if none is open; "" before the first.
    sentence: str = ""
    # The key and the state of that item; None and "" before the first.
    item: str | None = None
    item_state: str = ""
    last_alarm: int | None = None  # the time at which the last alarm opened in ns, or None
    generation: int = 0  # how many models it has had
    # Samples that were dropped: `late`, `duplicate`, `jumped` (far ahead, and not confirmed),
    # `replaced` (by a history); that were put in order (`out_of_order`); `alarms`, `changes`.
    counts: Mapping[str, int] = field(default_factory=dict)
    problem: str = ""  # why the last fit failed, or ""
