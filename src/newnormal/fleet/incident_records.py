"""What is kept of openings and incidents, as values of JSON and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from newnormal.errors import StateError
from newnormal.state.schema import LARGEST_COUNT, Facts

MOST_OPENINGS = 10_000
MOST_PAST = 100  # incidents that have ended
MOST_STREAMS = 20_000  # of incidents that have ended, all together
_MOST = 1_000_000  # names, and streams of an open incident
_FIRST, _LAST = -(2**63) + 1, 2**63 - 1  # moments


@dataclass
class Kept:
    """An opening: with the size of the fleet then, and the number of its incident, 0 for none."""

    moment: int
    stream: str
    alarm: int
    fleet: int
    incident: int = 0

    @property
    def order(self) -> tuple[int, str, int]:
        """By what openings are sorted."""
        return self.moment, self.stream, self.alarm


@dataclass
class IncidentRecord:
    """An incident: the moment and the number of the first alarm of each stream."""

    number: int
    start: int
    end: int
    fleet: int
    ended: bool = False
    streams: dict[str, tuple[int, int]] = field(default_factory=dict)

    def add(self, opening: Kept) -> None:
        """Add an opening."""
        found = opening.moment, opening.alarm
        self.streams[opening.stream] = min(found, self.streams.get(opening.stream, found))
        if opening.moment >= self.end:
            self.fleet = opening.fleet
        self.start, self.end = min(self.start, opening.moment), max(self.end, opening.moment)


@dataclass
class IncidentRecords:
    """All that a tracker keeps.

    Attributes
    ----------
    period
        The time between samples, or None.
    openings
        The newest ones, sorted.
    incidents
        By number.
    count
        Incidents so far.
    now
        The newest moment known of.
    forgotten
        The moment of the newest opening that is no longer kept.
    """

    period: np.timedelta64 | None
    openings: list[Kept] = field(default_factory=list)
    incidents: dict[int, IncidentRecord] = field(default_factory=dict)
    count: int = 0
    now: int | None = None
    forgotten: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as values of JSON; openings and incidents name streams by their place."""
        names: dict[str, int] = {}

        def place(name: str) -> int:
            return names.setdefault(name, len(names))

        openings = [
            [place(each.stream), each.alarm, each.moment, each.fleet, each.incident]
            for each in self.openings
        ]
        incidents = [
            {
                "number": each.number,
                "start": each.start,
                "end": each.end,
                "fleet": each.fleet,
                "ended": each.ended,
                "streams": [
                    [place(name), alarm, moment] for name, (moment, alarm) in each.streams.items()
                ],
            }
            for each in self.incidents.values()
        ]
        return {
            "period": None if self.period is None else int(self.period.astype(np.int64)),
            "now": self.now,
            "forgotten": self.forgotten,
            "count": self.count,
            "names": list(names),
            "openings": openings,
            "incidents": incidents,
        }

    @classmethod
    def from_json(cls, found: object) -> IncidentRecords:
        """Return what `to_json` was made from, checked."""
        facts = Facts(found, "incidents.")
        period = None
        if facts.has("period"):
            period = np.timedelta64(facts.count("period", 1, 2**59), "ns")
        else:
            facts.take("period")
        names = facts.list("names", _MOST)
        if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            raise facts.wrong("names", "different names", names)
        count = facts.count("count")
        now, forgotten = _moment(facts, "now"), _moment(facts, "forgotten")
        openings = [
            Kept(moment, names[at], alarm, fleet, incident)
            for at, alarm, moment, fleet, incident in _rows(
                facts,
                "openings",
                MOST_OPENINGS,
                ((0, len(names) - 1), _ALARMS, _MOMENTS, (1, LARGEST_COUNT), (0, count)),
            )
        ]
        incidents = [
            _record(each, names) for each in facts.parts("incidents", MOST_PAST + MOST_OPENINGS)
        ]
        facts.done()
        by_number = {each.number: each for each in incidents}
        kept = cls(period, openings, by_number, count, now, forgotten)
        _check(facts, kept, len(incidents))
        return kept


_ALARMS = (1, LARGEST_COUNT)
_MOMENTS = (_FIRST, _LAST)


def _moment(facts: Facts, name: str) -> int | None:
    if facts.has(name):
        return facts.count(name, _FIRST, _LAST)
    found: None = facts.take(name)
    return found


def _rows(
    facts: Facts, name: str, most: int, ranges: Sequence[tuple[int, int]]
) -> list[tuple[int, ...]]:
    """Take a list of rows of whole numbers out, each within its range."""
    rows = facts.list(name, most)
    for row in rows:
        fits = isinstance(row, list) and len(row) == len(ranges)
        if not fits or not all(
            type(each) is int and least <= each <= largest
            for each, (least, largest) in zip(row, ranges, strict=True)
        ):
            raise facts.wrong(name, f"rows of {len(ranges)} whole numbers in range", row)
    return [tuple(row) for row in rows]


def _record(facts: Facts, names: Sequence[str]) -> IncidentRecord:
    record = IncidentRecord(
        facts.count("number", 1),
        facts.count("start", _FIRST, _LAST),
        facts.count("end", _FIRST, _LAST),
        facts.count("fleet", 1),
        facts.flag("ended"),
    )
    rows = _rows(facts, "streams", _MOST, ((0, len(names) - 1), _ALARMS, _MOMENTS))
    record.streams = {names[at]: (moment, alarm) for at, alarm, moment in rows}
    moments = [moment for moment, _ in record.streams.values()]
    if not rows or len(record.streams) < len(rows):
        raise facts.wrong("streams", "different streams", rows)
    if min(moments) != record.start or max(moments) > record.end:
        raise facts.wrong("start", "that of the first stream, and an end after all", record.start)
    facts.done()
    return record


def _check(facts: Facts, kept: IncidentRecords, incidents: int) -> None:
    """Raise a StateError unless the parts fit together."""
    order = [each.order for each in kept.openings]
    if order != sorted(order):
        raise facts.wrong("openings", "openings in the order of time", "another order")
    if len({(each.stream, each.alarm) for each in kept.openings}) < len(order):
        raise facts.wrong("openings", "different alarms", "one twice")
    if len(kept.incidents) < incidents or any(each > kept.count for each in kept.incidents):
        raise facts.wrong("incidents", f"different numbers up to {kept.count}", [*kept.incidents])
    moments = [each.moment for each in kept.openings]
    moments += [each.end for each in kept.incidents.values()]
    if moments and (kept.now is None or kept.now < max(moments)):
        raise facts.wrong("now", f"at least {max(moments)}, the newest opening", kept.now)
    if moments[:1] and kept.forgotten is not None and order and kept.forgotten > moments[0]:
        raise facts.wrong("forgotten", f"at most {moments[0]}, the oldest opening", kept.forgotten)
    past = [each for each in kept.incidents.values() if each.ended]
    if len(past) > MOST_PAST or sum(len(each.streams) for each in past) > MOST_STREAMS:
        raise StateError(
            f"incidents.incidents: expected at most {MOST_PAST} that have ended, with "
            f"{MOST_STREAMS:,} streams, found more"
        )
