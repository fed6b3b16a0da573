"""Incidents: alarms that open in many streams of a fleet at about the same time.

An incident begins with the opening that makes it at least 3 streams, and at least a tenth of the
fleet's, within 5 periods; all openings of these 5 periods are in it. Each later opening within 5
periods of the newest one in it joins it. It ends when 5 periods passed without one.

An opening that is reported late counts for its own time, as if it had come in order. Where it
completes an incident, that is reported now; where it belongs to one already reported, it joins
that. What has been reported stays: two incidents that a late opening connects keep their numbers,
and the opening joins the earlier one. Where the newest incident was reported as ended and turns out
to go on, it is reported again under its number. So which openings are in incidents does not depend
on how they were cut into calls. For this the newest 10,000 openings are kept; an older one that
comes is ignored.

One module because what is kept of openings and incidents is what finds them.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np

from newnormal.alarms.words import duration_text
from newnormal.errors import InputError, ParameterError, StateError
from newnormal.fleet.folder.names import AGAIN
from newnormal.state.facts import Facts
from newnormal.types import INCIDENT, INCIDENT_ENDED, Incident, IncidentEvent
from newnormal.types.tables import LARGEST_COUNT

LEAST_STREAMS = 3
LEAST_SHARE = 10  # one of so many of the fleet's streams
PERIODS = 5  # that openings of one incident are apart at most
MOST_OPENINGS = 10_000
MOST_PAST = 100  # incidents that have ended
MOST_STREAMS = 20_000  # of incidents that have ended, all together
_NAMED = 3  # streams in a sentence
_MOST = 1_000_000  # names, and streams of an open incident
_ALARMS = (1, LARGEST_COUNT)
_MOMENTS = (-(2**63) + 1, 2**63 - 1)


class Opening(NamedTuple):
    """An alarm opened.

    `moment` is nanoseconds since 1970, and `time` the same as a time; where streams have no times,
    `moment` is the number of a sample, and `time` is None.
    """

    stream: str
    alarm: int
    moment: int
    time: np.datetime64 | None = None


@dataclass
class KeptOpening:
    """An opening: with the size of the fleet then, and the number of its incident, 0 for none."""

    moment: int
    stream: str
    alarm: int
    fleet: int
    incident: int = 0

    @property
    def order(self) -> tuple[int, str, int]:
        """What openings are sorted by."""
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

    def add(self, opening: KeptOpening) -> None:
        """Add an opening."""
        first = opening.moment, opening.alarm
        self.streams[opening.stream] = min(first, self.streams.get(opening.stream, first))
        if opening.moment >= self.end:
            self.fleet = opening.fleet
        self.start, self.end = min(self.start, opening.moment), max(self.end, opening.moment)


@dataclass
class IncidentRecords:
    """All that a tracker keeps."""

    period: np.timedelta64 | None  # the time between samples, or None
    openings: list[KeptOpening] = field(default_factory=list)  # the newest ones, sorted
    incidents: dict[int, IncidentRecord] = field(default_factory=dict)  # by number
    count: int = 0  # incidents so far
    now: int | None = None  # the newest moment known of
    forgotten: int | None = None  # the moment of the newest opening that is no longer kept

    def to_json(self) -> dict[str, Any]:
        """Return it as values of JSON; openings and incidents name streams by their place."""
        names: dict[str, int] = {}

        def place(name: str) -> int:
            return names.setdefault(name, len(names))

        openings = [
            [place(one.stream), one.alarm, one.moment, one.fleet, one.incident]
            for one in self.openings
        ]
        incidents = [
            vars(record)
            | {
                "streams": [
                    [place(name), alarm, moment] for name, (moment, alarm) in record.streams.items()
                ]
            }
            for record in self.incidents.values()
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
    def from_json(cls, found: object) -> "IncidentRecords":
        """Return what `to_json` was made from, checked."""
        facts = Facts(found, "incidents.")
        period = facts.nullable("period", facts.count, 1, 2**59)
        names = facts.list("names", _MOST)
        if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            raise facts.wrong("names", "different names", names)
        count = facts.count("count")
        now, forgotten = (
            facts.nullable(name, facts.count, *_MOMENTS) for name in ("now", "forgotten")
        )
        ranges = (0, len(names) - 1), _ALARMS, _MOMENTS, (1, LARGEST_COUNT), (0, count)
        openings = [
            KeptOpening(moment, names[at], alarm, fleet, incident)
            for at, alarm, moment, fleet, incident in _rows(
                facts, "openings", MOST_OPENINGS, ranges
            )
        ]
        parts = facts.parts("incidents", MOST_PAST + MOST_OPENINGS)
        incidents = [_record(part, names) for part in parts]
        facts.done()
        by_number = {record.number: record for record in incidents}
        step = None if period is None else np.timedelta64(period, "ns")
        kept = cls(step, openings, by_number, count, now, forgotten)
        _check(facts, kept, len(incidents))
        return kept


class IncidentTracker:
    """Finds the incidents of a fleet from the alarms that open.

    `period`: the time between samples, where openings have times; None: they have none, and a
    period is one sample.

    Examples
    --------
    >>> tracker = IncidentTracker(None)
    >>> openings = [Opening("web-1", 1, 7), Opening("web-2", 4, 8), Opening("db", 1, 10)]
    >>> (event,) = tracker.update(openings, streams=12)
    >>> event.incident.sentence
    'Alarms opened in 3 of 12 streams within 3 samples: web-1, web-2 and db.'
    >>> [event.kind for event in tracker.advance(16)]
    ['incident_ended']
    """

    def __init__(self, period: np.timedelta64 | None) -> None:
        if period is not None:
            period = period.astype("timedelta64[ns]")
            if not period > np.timedelta64(0, "ns"):
                raise ParameterError(f"period: expected a time above zero, found {period!r}")
        self._begin(IncidentRecords(period))

    def _begin(self, kept: IncidentRecords) -> None:
        self._kept = kept
        period = kept.period
        self._span = PERIODS * (1 if period is None else int(period.astype(np.int64)))
        self._seen = {(opening.stream, opening.alarm) for opening in kept.openings}

    @property
    def period(self) -> np.timedelta64 | None:
        """The time between samples; None where openings have no times."""
        return self._kept.period

    def follow(self, period: np.timedelta64 | None) -> None:
        """Take another period, because streams came or went.

        Times do not become numbers of samples, or the other way round, once there are openings.
        """
        kept = self._kept
        if (period is None) == (kept.period is None) or not kept.openings:
            kept.period = None if period is None else period.astype("timedelta64[ns]")
            self._begin(kept)

    def forget(self, stream: str) -> None:
        """Forget the alarms of a stream that is no more; they stay in their incidents.

        Another stream of that name counts its alarms from 1 again.
        """
        kept = self._kept
        kept.openings = [opening for opening in kept.openings if opening.stream != stream]
        self._begin(kept)

    @property
    def incidents(self) -> list[Incident]:
        """The open incident and the newest hundred past ones, in the order of their numbers."""
        records = self._kept.incidents
        return [self._incident(records[number]) for number in sorted(records)]

    @property
    def open(self) -> Incident | None:
        """The open incident, or None."""
        records = self._kept.incidents.values()
        return next((self._incident(record) for record in records if not record.ended), None)

    def update(self, openings: Sequence[Opening], streams: int) -> list[IncidentEvent]:
        """Take alarms that opened, in any order, in a fleet of so many streams.

        Return the incidents that began and ended with them, in the order of time. An alarm that
        was given before is ignored.
        """
        for opening in openings:
            self._check(opening)
        kept, first = self._kept, None
        for opening in openings:
            name = (opening.stream, opening.alarm)
            late = kept.forgotten is not None and opening.moment <= kept.forgotten
            if late or name in self._seen:
                continue
            self._seen.add(name)
            new = KeptOpening(opening.moment, opening.stream, opening.alarm, streams)
            insort(kept.openings, new, key=lambda opening: opening.order)
            first = new.moment if first is None else min(first, new.moment)
        if first is None:
            return []
        return self._moved(kept.openings[-1].moment, self._assign(first))

    def advance(self, moment: int) -> list[IncidentEvent]:
        """Take note that it is this moment; return the incidents that ended."""
        if all(record.ended for record in self._kept.incidents.values()):
            self._kept.now = moment if self._kept.now is None else max(self._kept.now, moment)
            return []
        return self._moved(moment, {})

    def to_json(self) -> dict[str, Any]:
        """Return everything as values of JSON; bounded, however long the fleet runs."""
        return self._kept.to_json()

    @classmethod
    def from_json(cls, facts: object) -> Self:
        """Return the tracker that `to_json` was called on; a StateError for anything else."""
        tracker = cls.__new__(cls)
        tracker._begin(IncidentRecords.from_json(facts))
        return tracker

    @classmethod
    def of_file(cls, facts: object, origin: str) -> Self:
        """Return what `from_json` does; its StateError names the file."""
        try:
            return cls.from_json(facts)
        except StateError as error:
            raise StateError(f"{origin}: {error.message}", hint=AGAIN) from None

    def _check(self, opening: Opening) -> None:
        timed = opening.time is not None
        if timed != (self._kept.period is not None):
            expected, found = ("no time", opening.time) if timed else ("a time", "none")
            raise InputError(
                f"stream {opening.stream!r}, alarm {opening.alarm}: expected {expected}, "
                f"found {found}",
                hint="all streams of a fleet have times, or none has",
            )

    # ------------------------------------------------------------------ which are together

    def _assign(self, since: int) -> dict[int, Incident]:
        """Give openings their incidents, from the moment of the first new one on.

        Return those that began, by number, as they stood at the moment they were complete.
        """
        begun, records = {}, self._kept.incidents
        for group, complete in self._groups(since):
            numbers = {opening.incident for opening in group if opening.incident}
            joined = [records[number] for number in sorted(numbers) if number in records]
            if numbers and not joined:  # so many incidents ago that they are no longer kept
                continue
            if not joined:
                self._kept.count += 1
                number, first = self._kept.count, group[0]
                joined = [IncidentRecord(number, first.moment, first.moment, first.fleet)]
                records[number] = joined[0]
                _join([opening for opening in group if opening.moment <= complete], joined)
                begun[number] = self._incident(joined[0])
            _join(group, joined)
        return begun

    def _groups(self, first: int) -> Iterator[tuple[list[KeptOpening], int]]:
        """Give the openings of each incident, and the moment at which it was complete.

        Those that are more than 5 periods older than `first` stay as they are. An opening that has
        an incident continues that, also where what completed it is no longer kept.
        """
        openings, span = self._kept.openings, self._span
        begin = bisect_left(openings, first - span, key=lambda opening: opening.moment)
        window: Counter[str] = Counter()  # openings of each stream in the last 5 periods
        oldest = begin
        group = begin  # where the openings of the incident that goes on begin; None of it: at
        complete = 0
        newest: int | None = None  # of the incident that goes on
        if begin and openings[begin - 1].incident:
            group, newest = begin - 1, openings[begin - 1].moment
        for at in range(begin, len(openings)):
            opening = openings[at]
            window[opening.stream] += 1
            while openings[oldest].moment < opening.moment - span:
                _remove(window, openings[oldest].stream)
                oldest += 1
            if newest is not None and opening.moment > newest + span:
                yield openings[group:at], complete
                newest = None
            many = len(window) >= LEAST_STREAMS and len(window) * LEAST_SHARE >= opening.fleet
            if newest is None:
                group, complete = at, opening.moment
            if many:
                group = min(group, oldest)
            if many or newest is not None or opening.incident:
                newest = opening.moment
        if newest is not None:
            yield openings[group:], complete

    # ------------------------------------------------------------------ what is reported

    def _moved(self, moment: int, begun: dict[int, Incident]) -> list[IncidentEvent]:
        """Return what began and ended up to a moment, in the order of time."""
        kept = self._kept
        kept.now = moment if kept.now is None else max(kept.now, moment)
        events = []
        records = sorted(kept.incidents.values(), key=lambda record: (record.start, record.number))
        for record in records:
            if record.number in begun:
                events.append(IncidentEvent(INCIDENT, begun[record.number]))
            ended = record.end + self._span < kept.now
            if record is not records[-1]:  # another one began after it
                ended = ended or record.ended
            if ended != record.ended:
                record.ended = ended
                kind = INCIDENT_ENDED if ended else INCIDENT
                events.append(IncidentEvent(kind, self._incident(record)))
        self._trim()
        return events

    def _incident(self, record: IncidentRecord) -> Incident:
        ordered = sorted(record.streams.items(), key=lambda stream: (stream[1][0], stream[0]))
        streams = {name: alarm for name, (_, alarm) in ordered}
        return Incident(
            record.number,
            record.start,
            self._time(record.start),
            record.end,
            self._time(record.end),
            streams,
            not record.ended,
            self._sentence(record, list(streams)),
        )

    def _time(self, moment: int) -> np.datetime64 | None:
        return None if self._kept.period is None else np.datetime64(moment, "ns")

    def _sentence(self, record: IncidentRecord, names: list[str]) -> str:
        length = record.end - record.start
        within = "at the same time"
        if length:
            seconds = None if self._kept.period is None else length / 1e9
            within = f"within {duration_text(length, seconds)}"
        fleet = max(record.fleet, len(names))
        return f"Alarms opened in {len(names)} of {fleet} streams {within}: {_listed(names)}."

    def _trim(self) -> None:
        """Forget the oldest openings and incidents beyond what is kept."""
        kept = self._kept
        extra = len(kept.openings) - MOST_OPENINGS
        if extra > 0:
            self._seen -= {(old.stream, old.alarm) for old in kept.openings[:extra]}
            kept.forgotten = kept.openings[extra - 1].moment
            del kept.openings[:extra]
        past = [number for number in sorted(kept.incidents) if kept.incidents[number].ended]
        streams = sum(len(kept.incidents[number].streams) for number in past)
        for number in past:
            if len(past) <= MOST_PAST and streams <= MOST_STREAMS:
                break
            streams -= len(kept.incidents.pop(number).streams)
            past = past[1:]


def _join(group: Sequence[KeptOpening], records: Sequence[IncidentRecord]) -> None:
    """Add openings without an incident to that of these which began last before each."""
    ordered = sorted(records, key=lambda record: record.start)
    for opening in group:
        if opening.incident:
            continue
        before = [record for record in ordered if record.start <= opening.moment]
        record = (before or ordered)[-1 if before else 0]
        opening.incident = record.number
        record.add(opening)


def _remove(window: Counter[str], stream: str) -> None:
    window[stream] -= 1
    if not window[stream]:
        del window[stream]


def _listed(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    if len(names) > _NAMED + 1:
        return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED} more"
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _rows(
    facts: Facts, name: str, count: int, ranges: Sequence[tuple[int, int]]
) -> list[tuple[int, ...]]:
    """Take a list of rows of whole numbers out, each within its range."""
    rows = facts.list(name, count)
    for row in rows:
        fits = isinstance(row, list) and len(row) == len(ranges)
        if not fits or not all(
            type(cell) is int and least <= cell <= most
            for cell, (least, most) in zip(row, ranges, strict=True)
        ):
            raise facts.wrong(name, f"rows of {len(ranges)} whole numbers in range", row)
    return [tuple(row) for row in rows]


def _record(facts: Facts, names: Sequence[str]) -> IncidentRecord:
    record = IncidentRecord(
        facts.count("number", 1),
        facts.count("start", *_MOMENTS),
        facts.count("end", *_MOMENTS),
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
    order = [opening.order for opening in kept.openings]
    if order != sorted(order):
        raise facts.wrong("openings", "openings in the order of time", "another order")
    if len({(opening.stream, opening.alarm) for opening in kept.openings}) < len(order):
        raise facts.wrong("openings", "different alarms", "one twice")
    if len(kept.incidents) < incidents or any(number > kept.count for number in kept.incidents):
        raise facts.wrong("incidents", f"different numbers up to {kept.count}", [*kept.incidents])
    moments = [opening.moment for opening in kept.openings]
    moments += [record.end for record in kept.incidents.values()]
    if moments and (kept.now is None or kept.now < max(moments)):
        raise facts.wrong("now", f"at least {max(moments)}, the newest opening", kept.now)
    if moments[:1] and kept.forgotten is not None and order and kept.forgotten > moments[0]:
        raise facts.wrong("forgotten", f"at most {moments[0]}, the oldest opening", kept.forgotten)
    past = [len(record.streams) for record in kept.incidents.values() if record.ended]
    if len(past) > MOST_PAST or sum(past) > MOST_STREAMS:
        raise StateError(
            f"incidents.incidents: expected at most {MOST_PAST} that have ended, with "
            f"{MOST_STREAMS:,} streams, found more"
        )
