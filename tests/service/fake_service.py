"""A service without a log and detectors: generated streams, whose samples are computed.

What the API's and the page's tests talk to.
"""

from __future__ import annotations

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
from newnormal.errors import FeedbackError, InputError
from newnormal.io.arrivals import Arrival
from newnormal.service.api.app import make_app
from newnormal.service.config import Limits, ServiceConfig
from newnormal.service.hub import Hub, Tick
from newnormal.service.store import Store
from newnormal.service.store.sample_reader import SampleReader
from newnormal.service.store.samples import SampleTable
from newnormal.service.values import Comment, EventRow, Item, StoredRows, StreamView
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


class FakeSamples(SampleTable):
    """The samples of the store, made when they are asked for."""

    def __init__(self, service: FakeService) -> None:
        super().__init__(service.store.connection, None)
        self.service = service
        self.made: dict[int, Any] = {}

    def count(self, stream: int) -> int:
        return self._reader(stream).count

    def _reader(self, stream: int) -> SampleReader:
        with self.service.lock:
            view = self.service.stream(stream)
            if view is not None:
                alarms = self.service.of_stream(stream, "alarm")
                facts = (
                    view.samples,
                    view.generation,
                    [(a.body["start"], a.body["end"]) for a in alarms],
                )
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
            anomalous=scores > 1,
            expected=expected,
            margins=np.full(len(view.channels), MARGIN),
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
        self.begin = begin
        self.config = fake_config() if config is None else config
        self.hub = Hub()
        folder = tempfile.mkdtemp()
        Path(folder, "store.sqlite").write_bytes(_empty_store())
        self.store = Store(Path(folder, "store.sqlite"))
        self.store.samples = FakeSamples(self)
        weakref.finalize(self, _remove, self.store, folder)
        self.ready = self.writable = True
        self.position = 0
        self.pushed: list[tuple[Sequence[Arrival], bool]] = []
        self.fails: Exception | None = None  # raised by `push`
        self.samples = samples
        self.clock = clock or (lambda: self.begin + self.samples * PERIOD)
        self.parts: dict[str, tuple[bool, str]] = {"log": (True, ""), "store": (True, "")}
        self.views: dict[int, StreamView] = {}
        self.lock = threading.RLock()
        self.models_of: dict[int, list[dict[str, Any]]] = {}
        for number in range(1, streams + 1):
            self.views[number] = self._made(number)
        self._story()

    # --- generated facts

    def _made(self, number: int) -> StreamView:
        state = {0: "collecting", 1: "fitting", 2: "failed"}.get(number % 50, "live")
        live = state == "live"
        wave = 0.5 + 0.2 * np.sin(np.arange(60) / 5 + number)
        names = CHANNELS[: 2 + number % 4]
        self.models_of[number] = [self._model(number, 1, names)] if live else []
        return StreamView(
            id=number,
            name=f"hall-{number % 12:02d}/press-{number:04d}",
            state=state,
            channels=names,
            samples=self.samples if live else 400,
            needed=1000,
            period=PERIOD,
            newest=self.begin + ((self.samples if live else 400) - 1) * PERIOD,
            ratio=float(wave[-1]) if live else float("nan"),
            distance=0.2 if live else float("nan"),
            sparkline=tuple(round(float(each), 3) for each in wave) if live else (),
            attention="failed" if state == "failed" else "",
            generation=1 if live else 0,
            counts={"late": 0, "duplicate": 0, "out_of_order": 0, "jumped": 0, "unknown": 0},
            problem="expected 2 channels that vary, found none" if state == "failed" else "",
        )

    def _model(self, stream: int, generation: int, names: tuple[str, ...]) -> dict[str, Any]:
        return {
            "generation": generation,
            "file": f"{stream}-{generation}.nn",
            "fitted": self.begin + 1000 * PERIOD,
            "first": 0,
            "last": 999,
            "channels": list(names),
            "reason": "history",
        }

    def _story(self) -> None:
        """Open, close and decide things in some of the streams."""
        for view in list(self.views.values()):
            if view.state != "live":
                continue
            if view.id % 3 == 0:
                item = self.inject_alarm(view.id, back=900 + view.id % 700, length=60)
                self.close_alarm(item.key)
            if view.id % 17 == 0:
                self.inject_alarm(view.id, back=40, length=40, ratio=2 + view.id % 5)
            if view.id % 23 == 0:
                self.inject_change(view.id, back=600)
            if view.id % 37 == 0:
                self.inject_change(view.id, back=3000, state="accepted")
        live = [each for each in self.views.values() if each.state == "live"][:5]
        if len(live) == 5:
            self.inject_incident([each.id for each in live])

    def of_stream(self, stream: int, kind: str) -> list[Item]:
        page = self.store.items.page(stream=stream, kinds=[kind], limit=10**6)
        return sorted(page.items, key=lambda each: each.number)

    def item(self, key: str) -> Item:
        item = self.store.items.get(key)
        assert item is not None
        return item

    def items(self) -> tuple[Item, ...]:
        return self.store.items.page(limit=10**6).items

    def events(self) -> list[EventRow]:
        return self.store.events.read(limit=10**6)

    def put(self, item: Item) -> None:
        self.store.items.put(item)
        self.store.commit()

    def _happened(self, kind: str, item: Item | None, stream: int | None, body: Any) -> EventRow:
        self.position += 1
        when = self.clock() if item is None else item.updated
        event = EventRow(
            self.position, 0, kind, when, stream, None if item is None else item.key, body
        )
        self.store.events.put(event)
        self.store.commit()
        self.hub.publish(event)
        return event

    def _settle(self, stream: int) -> None:
        """Let the view of a stream say what its items are."""
        view = self.views[stream]
        items = list(self.store.items.page(stream=stream, limit=10**6).items)
        items.sort(key=lambda each: each.updated)
        opened = [each for each in items if each.open]
        ranks = ("alarm", "change", "silence", "channels")
        worst_kind = min((ranks.index(each.kind) for each in opened), default=None)
        shown = (opened or items)[-1] if items else None
        alarms = [each for each in items if each.kind == "alarm"]
        bad = max((each.ratio for each in opened if each.kind == "alarm"), default=0.6)
        self.views[stream] = replace(
            view,
            attention="" if worst_kind is None else ranks[worst_kind],
            sentence="" if shown is None else shown.sentence,
            item=None if shown is None else shown.key,
            item_state="" if shown is None else shown.state,
            last_alarm=max((each.opened for each in alarms), default=None),
            ratio=bad,
            sparkline=(*view.sparkline[:-1], bad),
            counts={
                **view.counts,
                "alarms": len(alarms),
                "changes": sum(each.kind == "change" for each in items),
            },
        )

    # --- ways to make something happen

    def inject_alarm(
        self, stream: int, *, back: int = 0, length: int = 1, ratio: float = 3.0
    ) -> Item:
        """Open an alarm, `back` samples before the newest one."""
        with self.lock:
            view = self.views[stream]
            number = 1 + len(self.of_stream(stream, "alarm"))
            first = max(view.samples - 1 - back, 0)
            last = min(first + length - 1, view.samples - 1)
            start, end = (self.begin + each * PERIOD for each in (first, last))
            channel = view.channels[0]
            observed = 10.0 * ratio
            sentence = f"{channel} {observed:g}, expected 8 to 11, {ratio:g} times the threshold"
            evidence = {
                "channel": channel,
                "observed": observed,
                "expected": 9.5,
                "low": 8.0,
                "high": 11.0,
                "direction": "high",
            }
            body = {
                "number": number,
                "start": first,
                "start_time": iso(start),
                "end": last,
                "end_time": iso(end),
                "peak": {
                    "sample": first,
                    "time": iso(start),
                    "score": ratio,
                    "ratio": ratio,
                    "p_value": 1e-4,
                    "channels": {channel: 0.9},
                },
                "open": True,
                "reason": None,
                "cause": "score",
                "evidence": [evidence],
                "sentence": sentence,
            }
            item = Item(
                f"alarm-{stream}-1-{number}", "alarm", stream, 1, number, "open", start, end,
                None, ratio, sentence, body, self.position + 1,
            )  # fmt: skip
            self.put(item)
            self._settle(stream)
            self._happened("opened", item, stream, {"alarm": body})
            return item

    def close_alarm(self, key: str, reason: str = "score back to normal") -> Item:
        """Close an open alarm."""
        with self.lock:
            item = self.item(key)
            body = {**item.body, "open": False, "reason": reason}
            closed = replace(
                item, state="closed", ended=item.updated, body=body, position=self.position + 1
            )
            self.put(closed)
            assert item.stream is not None
            self._settle(item.stream)
            self._happened("closed", closed, item.stream, {"alarm": body})
            return closed

    def inject_change(self, stream: int, *, back: int = 0, state: str = "pending") -> Item:
        """Let a change begin, `back` samples before the newest one."""
        with self.lock:
            view = self.views[stream]
            number = 1 + len(self.of_stream(stream, "change"))
            first = max(view.samples - 1 - back, 0)
            start = self.begin + first * PERIOD
            channel = view.channels[-1]
            sentence = f"{channel} from 12 to 15, 1.8 times the distance that is normal"
            body = {
                "number": number,
                "start": first,
                "start_time": iso(start),
                "channels": [channel],
                "before": {channel: 12.0},
                "after": {channel: 15.0},
                "state": state,
                "alarm": None,
                "distance": 1.8,
                "sentence": sentence,
            }
            done = state in ("accepted", "reverted")
            item = Item(
                f"change-{stream}-1-{number}", "change", stream, 1, number, state, start, start,
                start + 60 * PERIOD if done else None, 0.0, sentence, body, self.position + 1,
            )  # fmt: skip
            self.put(item)
            self._settle(stream)
            self._happened("changed" if not done else state, item, stream, {"change": body})
            return item

    def inject_incident(self, streams: Sequence[int]) -> Item:
        """Let an incident begin in some streams."""
        with self.lock:
            number = 1 + sum(e.kind == "incident" for e in self.items())
            alarms = [self.inject_alarm(each, back=30, length=20) for each in streams]
            start = min(each.opened for each in alarms)
            sentence = f"{len(streams)} streams in alarm within a minute"
            names = {self.views[e.stream or 0].name: e.number for e in alarms}
            body = {
                "number": number,
                "start": start,
                "start_time": iso(start),
                "end": start,
                "end_time": iso(start),
                "streams": names,
                "open": True,
                "sentence": sentence,
            }
            item = Item(
                f"incident-{number}", "incident", None, 0, number, "open", start, start,
                None, 3.0, sentence, body, self.position + 1,
            )  # fmt: skip
            self.put(item)
            self._happened("incident", item, None, {"incident": body})
            return item

    def inject_outage(self, streams: Sequence[int]) -> Item:
        """Let some streams be silent together."""
        with self.lock:
            since = min(self.views[each].newest or 0 for each in streams)
            names = [self.views[each].name for each in streams]
            sentence = f"no samples of {len(names)} streams of source plant: {channels_text(names)}"
            body = {"streams": dict.fromkeys(names, 0), "cause": "silence", "source": "plant"}
            item = Item(
                "incident-silence-1", "incident", None, 0, 0, "open", since, since + 300 * 10**9,
                None, float(len(names)), sentence, body, self.position + 1,
            )  # fmt: skip
            self.put(item)
            for each in streams:
                self.views[each] = replace(
                    self.views[each], attention="silence", sentence=sentence, item=item.key
                )
            self._happened("incident", item, None, {"incident": body, "sentence": sentence})
            return item

    def tick(self, samples: int = 1) -> None:
        """Let every live stream have some samples more."""
        with self.lock:
            self.samples += samples
            moved = {}
            for number, view in self.views.items():
                if view.state == "live":
                    count = view.samples + samples
                    newest = self.begin + (count - 1) * PERIOD
                    self.views[number] = replace(view, samples=count, newest=newest)
                    moved[number] = count - 1
            self.hub.publish(Tick(moved))

    # --- what the API calls

    def push(
        self,
        arrivals: Sequence[Arrival],
        *,
        history: bool = False,
        source: str = "",
        input_position: Mapping[str, Any] | None = None,
        past: bool = False,
    ) -> Future[int]:
        if self.fails is not None:
            raise self.fails
        self.pushed.append((arrivals, history))
        with self.lock:
            self.position += 1
            for arrival in arrivals:
                if self.stream_named(arrival.stream) is None:
                    number = max(self.views, default=0) + 1
                    self.views[number] = StreamView(
                        number, arrival.stream, "collecting", arrival.channels, needed=1000
                    )
                    self._happened("stream", None, number, {"state": "collecting"})
        return _done(self.position)

    def decide(
        self,
        item_key: str | None,
        verb: str,
        /,
        *,
        stream: int | None = None,
        who: str,
        comment: str = "",
    ) -> Future[Item | None]:
        with self.lock:
            if verb == "rollback":
                accepted = [
                    each
                    for each in self.of_stream(stream or 0, "change")
                    if each.state == "accepted"
                ]
                if not accepted:
                    return _failed(FeedbackError("there is nothing to roll back"))
                return _done(self._decided(accepted[-1], "rejected", "rolled_back"))
            item = self.store.items.get(item_key or "")
            if item is None or not item.open or item.kind == "incident":
                return _failed(
                    FeedbackError(
                        f"expected an open alarm or change, found {item_key!r}",
                        hint="GET /api/v1/items?open=true lists those that are open",
                    )
                )
            if comment:
                self.store.items.add_comment(Comment(item.key, self.clock(), who, comment))
            if item.kind == "alarm" and verb == "accept":
                closed = self.close_alarm(item.key, "accepted")
                return _done(closed)
            if item.kind == "alarm":
                return _done(item)
            state = {"accept": "accepted", "reject": "rejected"}[verb]
            return _done(self._decided(item, state, state))

    def _decided(self, item: Item, state: str, kind: str) -> Item:
        body = {**item.body, "state": state}
        ended = item.updated if state == "accepted" else None
        changed = replace(item, state=state, body=body, ended=ended, position=self.position + 1)
        self.put(changed)
        assert item.stream is not None
        self._settle(item.stream)
        self._happened(kind, changed, item.stream, {"change": body})
        return changed

    def refit(
        self, stream: int, *, first: int | None = None, last: int | None = None
    ) -> Future[None]:
        with self.lock:
            view = self.views[stream]
            names = view.channels
            self.models_of[stream].append(self._model(stream, view.generation + 1, names))
            self.views[stream] = replace(view, generation=view.generation + 1)
            self._happened("stream", None, stream, {"state": "live"})
        return _done(None)

    def remove(self, stream: int) -> Future[None]:
        with self.lock:
            self.views.pop(stream, None)
            self.store.connection.write("DELETE FROM items WHERE stream = ?", stream)
            self.store.commit()
            self._happened("removed", None, stream, {})
        return _done(None)

    def restore_model(self, stream: int, generation: int) -> Future[None]:
        if generation not in [each["generation"] for each in self.models_of[stream]]:
            return _failed(
                InputError(
                    f"expected a model of stream {stream}, found generation {generation}",
                    hint="GET /api/v1/streams/ID/models lists them",
                )
            )
        return self.refit(stream)

    def streams(self) -> Sequence[StreamView]:
        with self.lock:
            return tuple(self.views.values())

    def stream(self, number: int, /) -> StreamView | None:
        return self.views.get(number)

    def stream_named(self, name: str) -> StreamView | None:
        with self.lock:
            return next((each for each in self.views.values() if each.name == name), None)

    def models(self, stream: int) -> list[dict[str, Any]]:
        return list(self.models_of.get(stream, ()))

    def health(self) -> dict[str, Any]:
        states = Counter(each.state for each in self.streams())
        bad = [name for name, (ok, _) in self.parts.items() if not ok]
        return {
            "status": "degraded" if bad else "ok",
            "parts": {
                name: {"ok": ok, "message": message} for name, (ok, message) in self.parts.items()
            },
            "position": self.position,
            "applied": self.position,
            "lag_entries": 0,
            "lag_s": 0.0,
            "streams": dict(states),
            "samples": sum(each.samples for each in self.streams()),
            "samples_per_s": 200.0,
            "disk": {"free": 10**10, "used": 10**7},
        }

    def report(self, part: str, ok: bool, message: str = "") -> None:
        self.parts[part] = (ok, message)


def _remove(store: Store, folder: str) -> None:
    store.close()
    shutil.rmtree(folder)


def iso(time_ns: int) -> str:
    return f"{np.datetime64(time_ns, 'ns')}Z"


def _done(value: Any) -> Future[Any]:
    made: Future[Any] = Future()
    made.set_result(value)
    return made


def _failed(error: Exception) -> Future[Any]:
    made: Future[Any] = Future()
    made.set_exception(error)
    return made


def app_of(service: FakeService) -> FastAPI:
    """Return the app of a service."""
    return make_app(cast("Any", service))


@contextmanager
def served(service: FakeService, port: int = 0) -> Iterator[str]:
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
