"""What happened, to where it belongs: the store, the outbox, the subscribers."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from newnormal.engine import items
from newnormal.engine.alert_bodies import OPENING, alerts_of
from newnormal.engine.hub import Hub
from newnormal.engine.log.entries import FeedbackGiven
from newnormal.engine.store import Store
from newnormal.engine.streams import NO_PAST, StreamRecord, StreamRecords
from newnormal.engine.values import EventRow, Item
from newnormal.fleet.results import FleetEvent
from newnormal.types import INCIDENT, OPENED, IncidentEvent

_BEGUN = 100  # incidents of which it is known how often they began: the newest one may go on


class Reporter:
    """Takes events and items of the record that is applied to all who are concerned.

    `sinks` gives the names of the sinks that alerts are for, `url` the address of the page.
    """

    def __init__(
        self,
        store: Store,
        hub: Hub,
        sinks: Callable[[], Iterable[str]],
        url: Callable[[], str | None],
    ) -> None:
        self._store, self._hub, self._sinks, self._url = store, hub, sinks, url
        # the keys of open items that no alert was made for: nor will one be when they end
        self.unreported: set[str] = set()
        self.begun: dict[str, int] = {}  # how often each of the newest incidents began, by number
        self.lost_begun = 0  # how often an incident began at most that the log has no more
        self._position = self._order = 0
        self._waiting: list[EventRow] = []

    def begin(self, position: int) -> None:
        """Begin with another record."""
        self._position, self._order = position, 0

    def publish(self) -> None:
        """Give subscribers what happened, once it is stored."""
        waiting, self._waiting = self._waiting, []
        for event in waiting:
            self._hub.publish(event)

    def drop(self) -> None:
        """Forget what subscribers were not given: they learned of it before a kill, or will."""
        self._waiting.clear()

    def _event(
        self, kind: str, time: int, stream: int | None, item: str | None, body: Mapping[str, Any]
    ) -> EventRow:
        event = EventRow(self._position, self._order, kind, time, stream, item, body)
        self._order += 1
        self._store.events.put(event)
        self._waiting.append(event)
        return event

    def item(
        self,
        kind: str,
        stream: StreamRecord,
        item: Item,
        now: int,
        *,
        keep: bool = True,
        alert: bool = True,
    ) -> None:
        """Report that an item of a stream opened, changed or ended, at the sample of `now`.

        The stream keeps it while it is open if `keep`. Alerts are made if `alert`, and not in the
        stream's past.
        """
        before = stream.items.get(item.key)
        if keep:
            stream.put(item)
        self._store.items.put(item)
        shown = {"stream": stream.name, "sentence": item.sentence, "state": item.state}
        event = self._event(kind, now, stream.id, item.key, {**shown, "kind": item.kind})
        self._alert(event, item, stream, alert and now > stream.past, before)

    def report_past(self, stream: StreamRecord) -> None:
        """Make alerts of what began in a stream's past and is open still, once that is over."""
        if stream.past == NO_PAST or stream.order.closed <= stream.past:
            return
        stream.past = NO_PAST
        for item in stream.items.values():
            if item.key in self.unreported:
                self.unreported.discard(item.key)
                opened = EventRow(self._position, 0, OPENED, item.updated, stream.id, item.key, {})
                self._alert(opened, item, stream, True)

    def _alert(
        self,
        event: EventRow,
        item: Item,
        stream: StreamRecord | None,
        wanted: bool,
        before: Item | None = None,
    ) -> None:
        """Make the alerts of an event, unless none is wanted as an item opens."""
        if event.kind in OPENING and not wanted:
            self.unreported.add(item.key)
        reported = item.key not in self.unreported
        if not item.open:
            self.unreported.discard(item.key)
        if not reported:
            return
        view = None if stream is None else stream.shown()
        for key, body in alerts_of(event, item, view, self._url(), before):
            for sink in self._sinks():
                self._store.outbox.put(key, sink, body)

    def events(
        self, stream: StreamRecord, happened: Iterable[FleetEvent], *, alert: bool = True
    ) -> dict[str, Item]:
        """Report what a detector reported; return the items concerned by key.

        An alarm about a gap in the samples that is known makes no alert.
        """
        concerned: dict[str, Item] = {}
        for of_fleet in happened:
            event = of_fleet.event
            item = items.event_item(stream, event, self._position)
            now = item.updated if item is not None else stream.now
            if item is None:
                body = {"stream": stream.name, "kind": event.kind}
                self._event(event.kind, now, stream.id, None, body)
                continue
            concerned[item.key] = item
            is_known_gap = False
            if event.kind == OPENED and event.alarm is not None:
                stream.counts["alarms"] += 1
                stream.last_alarm = item.opened
                is_known_gap = stream.is_known_gap(event.alarm, now)
            elif item.kind == items.CHANGE and event.kind == "changed":
                stream.counts["changes"] += 1
            self.item(event.kind, stream, item, now, alert=alert and not is_known_gap)
        return concerned

    def incident(self, event: IncidentEvent, streams: StreamRecords, *, alert: bool = True) -> None:
        """Report that an incident began or ended.

        It makes no alert if none of its alarms did: they are of the past, or about gaps that are
        known. One that had ended and goes on is another item, with alerts of its own.
        """
        number = str(event.incident.number)
        if event.kind == INCIDENT:
            self.begun[number] = self.begun.get(number, self.lost_begun) + 1
            for oldest in list(self.begun)[:-_BEGUN]:
                del self.begun[oldest]
        item = items.incident_item(event, self.begun.get(number, 1), self._position)
        alarms = [
            (stream, alarm)
            for name, alarm in event.incident.streams.items()
            if (stream := streams.named(name)) is not None
        ]
        reported = alert and any(
            alarm not in stream.quiet and item.updated > stream.past for stream, alarm in alarms
        )
        self.of_many(event.kind, item, alert=reported)

    def of_many(self, kind: str, item: Item, *, alert: bool = True) -> None:
        """Report that an item of several streams opened, changed or ended."""
        self._store.items.put(item)
        body = {"sentence": item.sentence, "state": item.state, "kind": item.kind}
        row = self._event(kind, item.updated, None, item.key, body)
        self._alert(row, item, None, alert)

    def state_of(self, stream: StreamRecord, now: int) -> None:
        """Report that a stream appeared, or is in another state."""
        stream.version += 1
        body = {"stream": stream.name, "state": stream.state, "problem": stream.problem}
        self._event("stream", now, stream.id, None, body)

    def removed(self, stream: StreamRecord) -> None:
        """Report that a stream is gone."""
        self._event("removed", stream.now, stream.id, None, {"stream": stream.name})

    def feedback(self, stream: StreamRecord, entry: FeedbackGiven, item: Item | None) -> None:
        """Report what a person decided."""
        body = {
            "stream": stream.name,
            "verb": entry.verb,
            "who": entry.who,
            "comment": entry.comment,
            "sentence": "" if item is None else item.sentence,
        }
        self._event("feedback", stream.now, stream.id, entry.item, body)
