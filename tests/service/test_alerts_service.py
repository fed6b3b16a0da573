"""Alerts and sources of a service that runs: from a sample to a receiver; none of the past."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from newnormal.client import Client
from newnormal.service.config import SinkConfig, SourceConfig
from newnormal.service.service import Service
from newnormal.testing import MemorySource
from tests.service.asgi import served
from tests.service.receiver import Receiver
from tests.service.running import (
    HISTORY,
    PERIOD,
    START,
    Start,
    arrival,
    config_of,
    fit_next,
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
    """Return samples with a fault at their end."""
    values = samples(first, 60)
    values[-6:] += 30.0
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
            assert alarm.open
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


class Plant(MemorySource):
    """The history of a stream, as a source that is configured gives it."""

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        super().__init__([arrival(0, samples(0, HISTORY), "pulled")], name, options)


def test_a_source_feeds_a_stream_and_goes_on_where_it_was(start: Start) -> None:
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
        served(service) as address,
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


# --- what a source reads of the time before its first start


SINKS = (SinkConfig("lines", "newnormal.testing:MemoryAlertSink"),)


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    with running(config_of(tmp_path, sinks=SINKS), monkeypatch) as found:
        yield found


def send(
    service: Service,
    first: int,
    last: int,
    *names: str,
    fault: tuple[int, int] = (0, 0),
    past: bool = False,
) -> None:
    """Send samples `first` to `last`, with a fault in those from one to another."""
    given = []
    for at, name in enumerate(names or ("m",)):
        values = samples(first, last - first, at)
        begin, end = (max(each - first, 0) for each in fault)
        values[begin:end] += 9.0
        given.append(arrival(first, values, name))
    service.push(given, source="hosts", input_position={"at": last}, past=past).result()
    settle(service)


def alarms(service: Service) -> list[tuple[str, int, str]]:
    found = service.store.items.page(kinds=["alarm"], limit=500).items
    return sorted((each.key, (each.opened - START) // PERIOD, each.state) for each in found)


def alerts(service: Service, kind: str = "alarm") -> list[tuple[str, str]]:
    found = service.store.outbox.all()
    return [(e.body["item"], e.body["status"]) for e in found if e.body["kind"] == kind]


def test_an_alarm_of_the_past_is_in_the_inbox_and_has_no_alert(service: Service) -> None:
    go_live(service)
    send(service, HISTORY, 400, fault=(200, 220), past=True)
    assert alarms(service) == [("alarm-1-1-1", 200, "closed")]
    send(service, 400, 500)
    assert alerts(service) == []
    send(service, 500, 600, fault=(520, 540))
    assert alerts(service) == [("alarm-1-1-2", "fired"), ("alarm-1-1-2", "resolved")]
    assert service.applier.report.unreported == set()


def test_an_alarm_that_is_open_when_the_past_ends_is_told(service: Service) -> None:
    go_live(service)
    send(service, HISTORY, 400, fault=(395, 400), past=True)
    assert alarms(service) == [("alarm-1-1-1", 395, "open")]
    assert alerts(service) == []
    send(service, 400, 402, fault=(395, 402))
    assert alerts(service) == [("alarm-1-1-1", "fired")]
    send(service, 402, 500)
    assert alarms(service) == [("alarm-1-1-1", 395, "closed")]
    assert alerts(service) == [("alarm-1-1-1", "fired"), ("alarm-1-1-1", "resolved")]


def test_samples_that_waited_for_the_first_fit_are_of_the_past_as_well(service: Service) -> None:
    send(service, 0, HISTORY, past=True)
    send(service, HISTORY, 400, fault=(200, 220), past=True)
    send(service, 400, 420, fault=(410, 420))
    fit_next(service)
    assert alarms(service) == [("alarm-1-1-1", 200, "closed"), ("alarm-1-1-2", 410, "open")]
    assert alerts(service) == [("alarm-1-1-2", "fired")]


def test_other_streams_are_told_meanwhile(service: Service) -> None:
    go_live(service, "m", "n")
    send(service, HISTORY, 400, "m", fault=(395, 400), past=True)
    push(service, arrival(HISTORY, samples(HISTORY, 30, 1) + 9.0, "n"))
    assert set(alerts(service)) == {("alarm-2-1-1", "fired")}  # again where it gets more severe


def test_an_incident_of_the_past_has_no_alert_at_its_end_either(service: Service) -> None:
    names = ("m", "n", "o")
    go_live(service, *names)
    send(service, HISTORY, 400, *names, fault=(395, 400), past=True)
    (incident,) = service.store.items.page(kinds=["incident"], limit=500).items
    assert incident.open
    send(service, 400, 402, *names, fault=(395, 402))
    assert [status for _, status in alerts(service)] == ["fired"] * 3
    send(service, 402, 700, *names)
    (incident,) = service.store.items.page(kinds=["incident"], limit=500).items
    assert not incident.open
    assert alerts(service, "incident") == []
    assert service.applier.report.unreported == set()


def test_what_is_untold_survives_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(tmp_path, sinks=SINKS)
    with running(config, monkeypatch) as service:
        go_live(service)
        send(service, HISTORY, 400, fault=(395, 400), past=True)
    with running(config, monkeypatch) as service:
        assert service.applier.report.unreported == {"alarm-1-1-1"}
        assert alerts(service) == []
        send(service, 400, 402, fault=(395, 402))
        assert alerts(service) == [("alarm-1-1-1", "fired")]
