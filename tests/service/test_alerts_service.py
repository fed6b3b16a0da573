"""Alerts and pull sources of a service that runs: from a sample to a receiver."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from newnormal.client import Client
from newnormal.service.config import SinkConfig, SourceConfig
from newnormal.testing import MemoryPullSource
from tests.service.fake_service import FakeService, served
from tests.service.receiver import Receiver
from tests.service.running import (
    HISTORY,
    Start,
    arrival,
    config_of,
    fits,
    go_live,
    push,
    running,
    samples,
    settle,
    state,
)
from tests.waiting import until


def fault(first: int) -> Any:
    """Return samples with a fault at their beginning."""
    values = samples(first, 60)
    values[:6] += 30.0
    return arrival(first, values)


def test_a_restart_resolves_an_alarm_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Receiver() as receiver:
        sink = SinkConfig("hook", "webhook", {"url": receiver.url})
        config = config_of(tmp_path, sinks=(sink,), public_url="https://watch.example.org")
        receiver.answer = lambda _: (503, {})
        with running(config, monkeypatch) as service:
            go_live(service)
            push(service, fault(HISTORY))
            until(lambda: receiver.requests, "an attempt")
            until(lambda: service.health()["status"] == "degraded", "a sink that is down")
            message = service.health()["parts"]["sink hook"]["message"]
            assert "expected a status 2xx, found 503" in message
        receiver.answer = lambda _: (200, {})
        with running(config, monkeypatch) as service:
            [alarm] = service.store.items.page(kinds=["alarm"]).items
            service.decide(alarm.key, "accept", stream=alarm.stream, who="kim").result()

            def delivered() -> bool:
                return service.store.outbox.counts()["hook"]["waiting"] == 0

            until(delivered, "all alerts at the receiver")
            items = service.store.items.page(limit=500).items
            expected = {f"{each.key}:fired" for each in items}
            expected |= {f"{each.key}:resolved" for each in items if not each.open}
            assert set(receiver.seen) == expected
            until(lambda: service.health()["parts"]["sink hook"]["ok"], "a sink that is well")
        fired = next(each.json for each in receiver.requests if each.key == f"{alarm.key}:fired")
        assert fired["stream"] == "m"
        assert fired["sentence"]
        assert fired["evidence"]
        assert fired["link"] == f"https://watch.example.org/#/item/{alarm.key}"
        assert f"{alarm.key}:resolved" in receiver.seen


class Plant(MemoryPullSource):
    """The history of a stream, as a source that is configured gives it."""

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        super().__init__([arrival(0, samples(0, HISTORY), "pulled")], name, options)


def test_a_pull_source_feeds_a_stream_and_goes_on_where_it_was(start: Start) -> None:
    for count in (HISTORY, 0):
        with start(sources=(SourceConfig("plant", f"{__name__}:Plant", {}),)) as service:

            def message() -> Any:
                return service.health()["parts"].get("source plant", {}).get("message")

            until(lambda: str(message()).startswith("ended"), "the end of the source")
            assert message() == f"ended after {count} samples"
            settle(service)
            view = service.stream_named("pulled")
            assert view is not None
            assert view.samples >= HISTORY - 1
            assert view.counts.get("duplicate", 0) == 0
            assert service.input_position("plant") == {"input": "plant", "at": HISTORY}


def test_the_client_works_with_the_service_itself(start: Start) -> None:
    with (
        start() as service,
        served(cast(FakeService, service)) as address,
        Client(address) as client,
    ):
        history = arrival(0, samples(0, HISTORY))
        times = history.times.astype("datetime64[ns]")
        assert client.push("m", history.values, times, channels=["a", "b"]) == HISTORY
        fits(service).fit()
        until(lambda: state(service) == "live", "a stream that is live")
        events = client.events(after="0-0")
        assert next(events).kind == "stream"
        found = fault(HISTORY)
        times = found.times.astype("datetime64[ns]")
        client.push("m", found.values, times, channels=["a", "b"])
        opened = next(each for each in events if each.kind == "opened")
        events.close()
        settle(service)
        item = client.item(opened.body["item"])
        assert item["kind"] == "alarm"
        assert client.stream("m")["state"] == "live"
        assert client.comment(item["key"], "planted")["text"] == "planted"
        assert client.health()["status"] == "ok"
