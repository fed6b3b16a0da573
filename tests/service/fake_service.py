"""A service without a log and detectors: generated streams, whose samples are made when read.

What the API's and the page's tests talk to. Its store, records of streams and reports are real.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
from fastapi import FastAPI

from newnormal.alarms.words import channels_text
from newnormal.arrivals.arrival import Arrival
from newnormal.arrivals.order import Order
from newnormal.engine.database import Database
from newnormal.engine.hub import Hub, Tick
from newnormal.engine.reporting import Reporter
from newnormal.engine.store import Store
from newnormal.engine.store.samples import SampleTable
from newnormal.engine.store.stream_reader import StreamReader
from newnormal.engine.streams import (
    FittedModel,
    StreamRecord,
    StreamRecords,
    check_without_model,
)
from newnormal.engine.values import Comment, EventRow, Item, StoredRows, StreamView
from newnormal.errors import FeedbackError, InputError
from newnormal.fleet.results import FleetEvent
from newnormal.service.api.app import make_app
from newnormal.service.config import Limits, ServiceConfig
from newnormal.service.limits import SharedLimit
from newnormal.service.service import Service
from newnormal.types import Alarm, Change, Event, Evidence, Incident, IncidentEvent, Peak
from tests.present import present
from tests.waiting import until

SECOND = 10**9
PERIOD = 10 * SECOND
SAMPLES = 20_000
CHANNELS = ("temperature", "pressure", "vibration", "current", "flow")
START = 1_767_225_600 * SECOND  # 2026-01-01
MARGIN = 1.5


def fake_config(**changes: Any) -> ServiceConfig:
    """Return a configuration without a limit of requests a second."""
    limits = {"requests_per_second": 1e6, **changes.pop("limits", {})}
    return ServiceConfig(limits=Limits(**limits), **changes)


@cache
def _empty_store() -> bytes:
    """Return the file of a store that has nothing: to make one takes longer than to copy it."""
    with tempfile.TemporaryDirectory() as folder:
        Store(Path(folder, "store.sqlite")).close()
        return Path(folder, "store.sqlite").read_bytes()


def _temporary_store() -> Store:
    folder = tempfile.mkdtemp()
    Path(folder, "store.sqlite").write_bytes(_empty_store())
    store = Store(Path(folder, "store.sqlite"))
    weakref.finalize(store, _remove, store.connection.database, folder, os.getpid())
    return store


def _remove(database: Database, folder: str, process: int) -> None:
    if process == os.getpid():  # not in a fork
        database.close()
        shutil.rmtree(folder)


class FakeSamples(SampleTable):
    """The samples of the store, made when they are asked for."""

    def __init__(self, service: FakeService) -> None:
        super().__init__(service.store.connection, None)
        self.service = weakref.proxy(service)
        self.made: dict[int, Any] = {}

    def count(self, stream: int) -> int:
        return self._reader(stream).count

    def _reader(self, stream: int) -> StreamReader:
        with self.service.lock:
            view = self.service.stream(stream)
            if view is not None:
                alarms = self.service.of_stream(stream, "alarm")
                spans = [(alarm.body["start"], alarm.body["end"]) for alarm in alarms]
                facts = view.samples, view.generation, spans
                if self.made.get(stream) != facts:
                    self.made[stream] = facts
                    self.add(stream, self._rows(view, alarms))
            return super()._reader(stream)

    def _rows(self, view: StreamView, alarms: Sequence[Item]) -> StoredRows:
        numbers = np.arange(view.samples)
        values, expected = self._values(view, numbers)
        scores = 0.5 + 0.2 * np.sin(numbers / 40 + view.id)
        for alarm in alarms:
            inside = slice(alarm.body["start"], alarm.body["end"] + 1)
            values[inside, 0] += 4 * alarm.ratio
            scores[inside] = alarm.ratio
        times = self.service.begin + numbers * PERIOD
        rows = StoredRows.of_samples(0, view.channels, times, values)
        if view.generation == 0:
            return rows
        return replace(
            rows,
            scores=scores,
            thresholds=np.ones(len(numbers)),
            ratios=scores,
            anomalous=scores > 1,
            expected=expected,
            below=np.full(expected.shape, MARGIN),
            above=np.full(expected.shape, MARGIN),
            channel_ratios=abs(values - expected) / MARGIN,
        )

    def _values(self, view: StreamView, numbers: Any) -> tuple[Any, Any]:
        k = np.arange(len(view.channels))
        expected = 10 * k + view.id % 7 + 5 * np.sin(numbers[:, None] / (90 + 11 * k))
        noise = np.sin(numbers * 12.9898 + view.id)[:, None] * 43758.5453
        return expected + (noise - np.floor(noise) - 0.5), expected


class FakeService:
    """What `Service` is to the API, with generated streams.

    `inject_alarm` opens one as a detector would; `tick` lets time pass.
    """

    def __init__(
        self,
        streams: int = 20,
        *,
        config: Any = None,
        samples: int = SAMPLES,
        begin: int = START,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self.begin, self.samples = begin, samples
        self.clock = clock or (lambda: self.begin + self.samples * PERIOD)
        self.config = fake_config() if config is None else config
        self.lock = threading.RLock()
        self.hub = Hub()
        self.ready = self.writable = True
        self.position = 0
        self.pushed: list[tuple[Sequence[Arrival], bool]] = []
        self.fails: Exception | None = None  # raised by `push`
        self.bodies = SharedLimit("bytes of requests", small=1 << 20)
        self.parts: dict[str, tuple[bool, str]] = {"log": (True, ""), "store": (True, "")}
        self.clear(streams)

    def clear(self, streams: int) -> None:
        """Begin anew with so many streams."""
        self.store = _temporary_store()
        self.store.samples = FakeSamples(self)
        self.records = StreamRecords()
        self.removed_counts = Counter[str]()
        self.reporter = Reporter(self.store, self.hub, lambda: (), lambda: None)
        for number in range(1, streams + 1):
            self.records.add(self._made(number))
        self._story()

    def _made(self, number: int) -> StreamRecord:
        state = {0: "collecting", 1: "fitting", 2: "failed"}.get(number % 50, "live")
        order = Order(PERIOD)
        order.channels = CHANNELS[: 2 + number % 4]
        record = StreamRecord(number, f"hall-{number % 12:02d}/press-{number:04d}", order, state)
        record.count = self.samples if state == "live" else 400
        order.newest = order.closed = self._time(record.count - 1)
        if state == "live":
            wave = 0.5 + 0.2 * np.sin(np.arange(60) / 5 + number)
            record.ring = [round(float(ratio), 3) for ratio in wave]
            record.ratio, record.distance = float(wave[-1]), 0.2
            record.models.append(self._model(record))
        elif state == "failed":
            record.problem = "expected 2 channels that vary, found none"
        return record

    def _model(self, record: StreamRecord) -> FittedModel:
        number = record.generation + 1
        channels, file = record.order.channels, f"{record.id}-{number}.nn"
        return FittedModel(number, file, channels, 0, 999, "history", self._time(1000))

    def _time(self, sample: int) -> int:
        return self.begin + sample * PERIOD

    def _story(self) -> None:
        """Open, close and decide things in some of the streams."""
        live = [record.id for record in self.records if record.is_live]
        for number in live:
            if number % 3 == 0:
                item = self.inject_alarm(number, back=900 + number % 700, length=60)
                self.close_alarm(item.key)
            if number % 17 == 0:
                self.inject_alarm(number, back=40, length=40, ratio=2 + number % 5)
            if number % 23 == 0:
                self.inject_change(number, back=600)
            if number % 37 == 0:
                self.inject_change(number, back=3000, state="accepted")
        if len(live) >= 5:
            self.inject_incident(live[:5])

    # --- what there is

    @property
    def views(self) -> dict[int, StreamView]:
        return {view.id: view for view in self.streams()}

    def record(self, number: int) -> StreamRecord:
        return present(self.records.get(number))

    def of_stream(self, stream: int, kind: str) -> list[Item]:
        page = self.store.items.page(stream=stream, kinds=[kind], limit=10**6)
        return sorted(page.items, key=lambda item: item.number)

    def item(self, key: str) -> Item:
        return present(self.store.items.get(key))

    def items(self) -> tuple[Item, ...]:
        return self.store.items.page(limit=10**6).items

    def events(self) -> list[EventRow]:
        return self.store.events.read(limit=10**6)

    # --- ways to make something happen

    @contextmanager
    def _happening(self) -> Iterator[None]:
        """Report what happens inside as one record of the log."""
        with self.lock:
            self.position += 1
            self.reporter.begin(self.position)
            yield
            self.store.commit()
            self.reporter.publish()

    def put(self, item: Item) -> None:
        """Replace an item, without an event."""
        self.store.items.put(item)
        self.store.commit()

    def rename(self, number: int, name: str) -> None:
        record = self.record(number)
        self.records.remove(record)
        record.name = name
        record.version += 1
        self.records.add(record)

    def _report(
        self, kind: str, stream: int, time: int, item: Alarm | Change, ratio: float | None = None
    ) -> Item:
        record = self.record(stream)
        facts: Any = {"alarm" if isinstance(item, Alarm) else "change": item}
        event = Event(kind, record.count - 1, np.datetime64(time, "ns"), **facts)
        with self._happening():
            (made,) = self.reporter.events(record, [FleetEvent(record.name, event)]).values()
            if ratio is not None:
                record.ratio, record.ring = ratio, [*record.ring[:-1], ratio]
                record.version += 1
        return made

    def inject_alarm(
        self, stream: int, *, back: int = 0, length: int = 1, ratio: float = 3.0
    ) -> Item:
        """Open an alarm, `back` samples before the newest one."""
        record = self.record(stream)
        first = max(record.count - 1 - back, 0)
        last = min(first + length - 1, record.count - 1)
        start, end = (np.datetime64(self._time(sample), "ns") for sample in (first, last))
        channel, observed = record.order.channels[0], 10.0 * ratio
        alarm = Alarm(
            1 + len(self.of_stream(stream, "alarm")),
            first,
            start,
            last,
            end,
            Peak(first, start, ratio, ratio, 1e-4, {channel: 0.9}),
            evidence=(Evidence(channel, observed, 9.5, 8.0, 11.0),),
            sentence=f"{channel} {observed:g}, expected 8 to 11, {ratio:g} times the threshold",
            zone="UTC",
        )
        return self._report("opened", stream, self._time(last), alarm, ratio)

    def close_alarm(self, key: str, reason: str = "back to normal") -> Item:
        """Close an open alarm."""
        item = self.item(key)
        alarm = replace(Alarm.from_dict(item.body), reason=reason)
        return self._report("closed", item.stream or 0, item.updated, alarm, 0.6)

    def inject_change(self, stream: int, *, back: int = 0, state: str = "pending") -> Item:
        """Let a change begin, `back` samples before the newest one."""
        record = self.record(stream)
        first = max(record.count - 1 - back, 0)
        channel = record.order.channels[-1]
        change = Change(
            1 + len(self.of_stream(stream, "change")),
            first,
            np.datetime64(self._time(first), "ns"),
            (channel,),
            {channel: 12.0},
            {channel: 15.0},
            state,
            distance=1.8,
            sentence=f"{channel} from 12 to 15, 1.8 times the distance that is normal",
            zone="UTC",
        )
        if state in ("accepted", "reverted"):
            return self._report(state, stream, self._time(first + 60), change)
        return self._report("changed", stream, self._time(first), change)

    def inject_incident(self, streams: Sequence[int]) -> Item:
        """Let an incident begin in some streams."""
        number = 1 + sum(item.kind == "incident" for item in self.items())
        alarms = [self.inject_alarm(stream, back=30, length=20) for stream in streams]
        start = min(alarm.opened for alarm in alarms)
        time = np.datetime64(start, "ns")
        names = {self.record(alarm.stream or 0).name: alarm.number for alarm in alarms}
        sentence = f"{len(streams)} streams in alarm within a minute"
        incident = Incident(number, start, time, start, time, names, sentence=sentence, zone="UTC")
        with self._happening():
            self.reporter.incident(IncidentEvent("incident", incident), self.records)
        return self.item(f"incident-{number}")

    def inject_outage(self, streams: Sequence[int]) -> Item:
        """Let some streams be silent together."""
        records = [self.record(number) for number in streams]
        since = min(record.order.closed for record in records)
        names = [record.name for record in records]
        sentence = f"no samples of {len(names)} streams of source plant: {channels_text(names)}"
        body = {"streams": dict.fromkeys(names, 0), "cause": "silence", "source": "plant"}
        item = Item(
            "incident-silence-1", "incident", None, 0, 0, "open", since, since + 300 * SECOND,
            None, float(len(names)), sentence, body, self.position + 1,
        )  # fmt: skip
        with self._happening():
            self.reporter.of_many("incident", item)
            for record in records:
                record.outage = item
                record.version += 1
        return item

    def tick(self, samples: int = 1) -> None:
        """Let every live stream have some samples more."""
        with self.lock:
            self.samples += samples
            live = [record for record in self.records if record.is_live]
            for record in live:
                record.count += samples
                record.order.closed = self._time(record.count - 1)
                record.version += 1
            self.hub.publish(Tick({record.id: record.count - 1 for record in live}))

    # --- what the API calls

    def push(
        self,
        arrivals: Sequence[Arrival],
        *,
        history: bool = False,
        source: str = "",
        input_position: Mapping[str, Any] | None = None,
        past: bool = False,
        writer: str = "",
    ) -> Future[int]:
        if self.fails is not None:
            raise self.fails
        if history:
            check_without_model(self.records, [each.stream for each in arrivals])
        self.pushed.append((arrivals, history))
        with self._happening():
            for arrival in arrivals:
                if self.records.named(arrival.stream) is None:
                    record = StreamRecord(self.records.next_id, arrival.stream, Order())
                    record.order.channels = arrival.channels
                    self.reporter.state_of(self.records.add(record), self.clock())
        return _done(self.position)

    def decide(
        self, key: str | None, verb: str, *, stream: int | None = None, who: str, comment: str = ""
    ) -> Future[Item | None]:
        with self.lock:
            if verb == "undo":
                accepted = [
                    item
                    for item in self.of_stream(stream or 0, "change")
                    if item.state == "accepted"
                ]
                if not accepted:
                    return _failed(FeedbackError("there is nothing to roll back"))
                return _done(self._decided(accepted[-1], "rejected"))
            item = self.store.items.get(key or "")
            if item is None or not item.open or item.kind == "incident":
                return _failed(
                    FeedbackError(
                        f"expected an open alarm or change, found {key!r}",
                        hint="GET /api/v1/items?open=true lists those that are open",
                    )
                )
            if comment:
                self.store.items.add_comment(Comment(item.key, self.clock(), who, comment))
            if item.kind == "alarm":
                accepts = verb == "accept"
                return _done(self.close_alarm(item.key, "accepted") if accepts else item)
            return _done(self._decided(item, {"accept": "accepted", "reject": "rejected"}[verb]))

    def _decided(self, item: Item, state: str) -> Item:
        change = replace(Change.from_dict(item.body), state=state)
        return self._report(state, item.stream or 0, item.updated, change)

    def refit(
        self, stream: int, *, first: int | None = None, last: int | None = None
    ) -> Future[None]:
        record = self.record(stream)
        with self._happening():
            record.models.append(self._model(record))
            self.reporter.state_of(record, self.clock())
        return _done(None)

    def remove(self, stream: int) -> Future[None]:
        record = self.record(stream)
        with self._happening():
            self.records.remove(record)
            self.store.forget(stream)
            self.reporter.removed(record)
        return _done(None)

    def restore_model(self, stream: int, generation: int) -> Future[None]:
        if generation not in [model.generation for model in self.record(stream).models]:
            return _failed(
                InputError(
                    f"expected a model of stream {stream}, found generation {generation}",
                    hint="GET /api/v1/streams/ID/models lists them",
                )
            )
        return self.refit(stream)

    def streams(self) -> list[StreamView]:
        with self.lock:
            return [replace(record.shown(), needed=1000) for record in self.records]

    def stream(self, number: int) -> StreamView | None:
        record = self.records.get(number)
        return None if record is None else replace(record.shown(), needed=1000)

    def stream_named(self, name: str) -> StreamView | None:
        record = self.records.named(name)
        return None if record is None else self.stream(record.id)

    def models(self, stream: int) -> list[dict[str, Any]]:
        return [vars(model) for model in self.record(stream).models]

    def take_model(self, stream: int) -> bytes:
        return self.record(stream).name.encode()

    def health(self) -> dict[str, Any]:
        views = self.streams()
        parts = {name: {"ok": ok, "message": text} for name, (ok, text) in self.parts.items()}
        return {
            "status": "ok" if all(part["ok"] for part in parts.values()) else "degraded",
            "parts": parts,
            "position": self.position,
            "applied": self.position,
            "lag_entries": 0,
            "lag_s": 0.0,
            "streams": dict(Counter(view.state for view in views)),
            "samples": sum(view.samples for view in views),
            "samples_per_s": 200.0,
            "disk": {"free": 10**10, "used": 10**7},
        }

    def report(self, part: str, ok: bool, message: str = "") -> None:
        self.parts[part] = (ok, message)


def _done(value: Any) -> Future[Any]:
    made: Future[Any] = Future()
    made.set_result(value)
    return made


def _failed(error: Exception) -> Future[Any]:
    made: Future[Any] = Future()
    made.set_exception(error)
    return made


def app_of(service: FakeService | Service) -> FastAPI:
    """Return the app of a service."""
    return make_app(cast("Any", service))


@contextmanager
def served(service: FakeService | Service, port: int = 0) -> Iterator[str]:
    """Serve the API and the page of a service on 127.0.0.1; give its address."""
    import uvicorn

    config = uvicorn.Config(
        app_of(service),
        host="127.0.0.1",
        port=port,
        log_level="critical",
        timeout_graceful_shutdown=1,  # a page that follows events is cut off
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started or not thread.is_alive(), "the server to start")
    if not server.started:
        raise RuntimeError("the server has not started")
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
