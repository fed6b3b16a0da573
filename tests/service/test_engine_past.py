"""What a source reads of the time before its first start: in the inbox, without alerts."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from newnormal.service.config import SinkConfig
from newnormal.service.service import Service
from tests.service.running import (
    HISTORY,
    PERIOD,
    START,
    arrival,
    config_of,
    fits,
    go_live,
    push,
    running,
    samples,
    settle,
)

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
    fits(service).fit()
    settle(service)
    assert alarms(service) == [("alarm-1-1-1", 200, "closed"), ("alarm-1-1-2", 410, "open")]
    assert alerts(service) == [("alarm-1-1-2", "fired")]


def test_other_streams_are_told_meanwhile(service: Service) -> None:
    go_live(service, "m", "n")
    send(service, HISTORY, 400, "m", fault=(395, 400), past=True)
    push(service, arrival(HISTORY, samples(HISTORY, 30, 1) + 9.0, "n"))
    assert alerts(service) == [("alarm-2-1-1", "fired")]


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
