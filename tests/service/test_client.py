"""The Python client, against the API over HTTP and against servers that misbehave."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newnormal.arrivals.arrival import Arrival
from newnormal.client import Client, ServiceError
from newnormal.engine.hub import Resync
from newnormal.errors import InputError, MissingExtraError
from newnormal.service.service import Service
from tests.http_server import HttpServer, Request
from tests.service.asgi import served
from tests.service.plant import (
    ALARMED,
    PENDING,
    QUIET,
    close_alarm,
    feed,
    open_alarm,
    plant,
    stream_name,
)
from tests.service.running import fits, logged, settle
from tests.waiting import until


def no_wait(_: float) -> None:
    raise AssertionError("expected no retry")


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[Service, str]]:
    with plant(now=None) as service, served(service) as address:
        yield service, address


@pytest.fixture
def service(running: tuple[Service, str]) -> Service:
    return running[0]


@pytest.fixture
def client(running: tuple[Service, str]) -> Iterator[Client]:
    with Client(running[1], wait=no_wait) as client:
        yield client


def pushed(service: Service, stream: str) -> list[Arrival]:
    entries = logged(service)
    return [each for entry in entries for each in entry.arrivals if each.stream == stream]


def test_one_sample_is_pushed_as_a_mapping(service: Service, client: Client) -> None:
    time = "2026-01-01T00:00:00.000000001Z"
    assert client.push("one", {"temp": 71.5, "flow": None}, time) == 1
    [found] = pushed(service, "one")
    assert found.channels == ("temp", "flow")
    assert found.times.tolist() == [1_767_225_600_000_000_001]
    assert found.values[0, 0] == 71.5 and np.isnan(found.values[0, 1])


def test_a_sample_without_a_time_has_the_clocks(service: Service, client: Client) -> None:
    client.push("untimed", {"temp": 71.5})
    [found] = pushed(service, "untimed")
    assert found.times.shape == (1,)


def test_many_samples_are_columns_an_array_or_a_frame(service: Service, client: Client) -> None:
    import pandas as pd  # type: ignore[import-untyped]

    times = pd.date_range("2026-01-01", periods=2500, freq="s", tz="UTC")
    values = np.random.default_rng(0).normal(size=(2500, 2))
    values[7, 1] = np.nan
    frame = pd.DataFrame(values, columns=["a", "b"]).assign(time=times)
    plain = times.tz_localize(None).to_numpy()
    assert client.push("columns", {"a": values[:, 0], "b": list(values[:, 1])}, plain) == 2500
    assert client.push("array", values, plain, channels=["a", "b"]) == 2500
    assert client.push("frame", frame) == 2500
    ref = plain.astype("datetime64[ns]").astype(np.int64)
    for stream in ("columns", "array", "frame"):
        found = pushed(service, stream)
        assert [len(each.times) for each in found] == [1000, 1000, 500]
        assert all(each.channels == ("a", "b") for each in found)
        np.testing.assert_array_equal(np.concatenate([each.times for each in found]), ref)
        np.testing.assert_array_equal(np.concatenate([each.values for each in found]), values)


def test_times_may_be_datetimes(service: Service, client: Client) -> None:
    client.push("dated", {"a": 1.0}, datetime(2026, 1, 1, tzinfo=UTC))
    assert pushed(service, "dated")[0].times.tolist() == [1_767_225_600 * 10**9]


def test_many_samples_need_times(client: Client) -> None:
    with pytest.raises(InputError, match="push: array: expected times, found none"):
        client.push("array", [[1.0], [2.0]])


def test_history_is_uploaded_from_a_file(service: Service, client: Client, tmp_path: Path) -> None:
    rows = [f"2026-01-01T00:{m:02}:{s:02}Z,{m + s}" for m in range(10) for s in range(60)]
    path = tmp_path / "history.csv"
    path.write_text("time,temp\n" + "\n".join(rows))
    assert client.upload_history("uploaded", path)["samples"] == 600
    [arrival] = pushed(service, "uploaded")
    assert arrival.channels == ("temp",)
    assert client.upload_history("again", path.read_bytes(), time="time")["samples"] == 600


def test_streams_and_items_come_page_after_page(
    service: Service, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("newnormal.client._PAGE", 7)
    ids = [each["id"] for each in client.streams(sort="name")]
    assert sorted(ids) == sorted(each.id for each in service.streams())
    keys = [each["key"] for each in client.items(open=True)]
    assert sorted(keys) == sorted(
        each.key for each in service.store.items.page(limit=500).items if each.open
    )
    assert [each["kind"] for each in client.items(kind="incident")] == ["incident"] * 2


def test_a_stream_is_found_by_its_name(service: Service, client: Client) -> None:
    client.push("line 1/press?#", {"a": 1.0})
    settle(service)
    assert client.stream("line 1/press?#")["name"] == "line 1/press?#"


def test_an_item_has_its_comments(client: Client) -> None:
    client.comment("alarm-3-1-1", "the pump, again")
    assert [each["text"] for each in client.item("alarm-3-1-1")["comments"]] == ["the pump, again"]


def test_health_is_returned(client: Client) -> None:
    assert client.health()["status"] == "ok"


def test_items_are_rejected_and_accepted_and_an_acceptance_is_undone(client: Client) -> None:
    alarm, change = f"alarm-{ALARMED}-1-1", f"change-{PENDING}-1-1"
    assert client.accept(alarm, "a test")["state"] == "closed"
    assert client.reject(change)["state"] == "rejected"
    assert client.accept(change)["state"] == "accepted"
    client.undo(stream_name(PENDING))
    with pytest.raises(ServiceError, match="expected an accepted new normal to go back from"):
        client.undo(stream_name(PENDING))


def test_a_stream_is_fitted_again(service: Service, client: Client) -> None:
    client.refit(stream_name(6), first=0, last=1500)
    job = until(lambda: [job for job in fits(service).jobs if job.stream == 6], "a fit")[0]
    assert len(job.history.values) == 1501


def test_an_error_has_the_sentence_and_the_hint_of_the_service(client: Client) -> None:
    with pytest.raises(ServiceError) as caught:
        client.stream("nobody")
    assert caught.value.status == 404
    assert "/api/v1/streams/by-name/nobody: expected" in caught.value.message
    assert caught.value.hint


def test_a_service_that_is_not_there_is_tried_again_and_then_an_error() -> None:
    waits: list[float] = []
    with Client("http://127.0.0.1:9", wait=waits.append) as client:
        with pytest.raises(ServiceError, match=r"http://127\.0\.0\.1:9: expected the service to"):
            client.push("a", {"b": 1.0})
        assert waits == [0.5, 1.0, 2.0, 4.0, 8.0]
        waits.clear()
        with pytest.raises(ServiceError) as caught:
            next(client.events())
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0]
    assert caught.value.hint == "newnormal serve starts it"


class Scripted(HttpServer):
    """A server that gives one answer after the other; None: it hangs up."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        super().__init__()

    def respond(self, request: Request) -> Any:
        self.paths.append(request.path)
        self.headers.append(request.headers)
        return self.answers.pop(0)


DONE: Any = (200, {}, b'{"done": true}')


def test_a_service_that_is_behind_is_given_the_time_it_asks_for() -> None:
    waits: list[float] = []
    busy = (503, {"Retry-After": "7"}, b"{}")
    with Scripted(busy, (429, {}, b""), DONE) as server:
        with Client(server.url, "nn_secret", wait=waits.append) as client:
            assert client.push("a", {"b": 1.0}) == 1
        assert waits == [7.0, 1.0]
        assert {each["authorization"] for each in server.headers} == {"Bearer nn_secret"}


def test_samples_are_sent_again_when_the_connection_is_lost() -> None:
    waits: list[float] = []
    with Scripted(None, DONE) as server, Client(server.url, wait=waits.append) as client:
        assert client.push("a", {"b": 1.0}) == 1
    assert waits == [0.5]


def test_a_comment_is_not_sent_again_when_it_may_have_arrived() -> None:
    with (
        Scripted(None) as server,
        Client(server.url, wait=no_wait) as client,
        pytest.raises(ServiceError, match="expected the service to answer"),
    ):
        client.comment("alarm-1", "again")


def test_an_answer_that_is_not_ours_is_an_error_with_its_status() -> None:
    page = (404, {"Content-Type": "text/html"}, b"<html>")
    with (
        Scripted(page) as server,
        Client(server.url, wait=no_wait) as client,
        pytest.raises(ServiceError, match=r"GET /api/v1/health: Not Found \(status 404\)"),
    ):
        client.health()


def test_the_token_is_in_no_message() -> None:
    with (
        Scripted((403, {}, b"{}")) as server,
        Client(server.url, "nn_secret") as client,
        pytest.raises(ServiceError) as caught,
    ):
        client.health()
    assert "nn_secret" not in str(caught.value)


def test_without_httpx_the_error_names_the_extra(without: Callable[..., None]) -> None:
    without("httpx")
    with pytest.raises(MissingExtraError, match=r'pip install "newnormal\[serve\]"'):
        Client()


def test_events_after_one_that_was_seen_come_in_order(service: Service, client: Client) -> None:
    feed(service, QUIET, 60)  # so that the incident is over
    before = service.store.events.read(limit=500)[-1].id
    first = open_alarm(service)
    close_alarm(service)
    again = open_alarm(service)
    events = client.events(after=before)
    found = [next(events) for _ in range(3)]
    assert [(each.kind, each.body["item"]) for each in found] == [
        ("opened", first.key),
        ("closed", first.key),
        ("opened", again.key),
    ]
    close_alarm(service)  # now, while it listens
    assert next(events).kind == "closed"
    events.close()


def sse(*events: tuple[str, str], end: str = "") -> tuple[int, dict[str, str], bytes]:
    text = "retry: 2000\n\n: alive\n\n"
    for name, kind in events:
        text += (f"id: {name}\n" if name else "") + f'event: {kind}\ndata: {{"of": "{name}"}}\n\n'
    return 200, {"Content-Type": "text/event-stream"}, (text + end).encode()


def test_a_lost_connection_goes_on_after_the_last_event() -> None:
    waits: list[float] = []
    answers = [
        sse(("1-0", "opened"), ("2-0", "closed"), end="id: 3-0\nevent: op"),
        (503, {}, b"{}"),
        sse(("2-0", "closed"), ("3-0", "opened")),
    ]
    with Scripted(*answers) as server, Client(server.url, wait=waits.append) as client:
        events = client.events()
        assert [next(events).id for _ in range(3)] == ["1-0", "2-0", "3-0"]
        events.close()
        assert server.paths == [
            "/api/v1/events?ticks=false",
            "/api/v1/events?ticks=false&after=2-0",
            "/api/v1/events?ticks=false&after=2-0",
        ]
    assert waits == [0.5, 1.0]


def test_events_that_were_left_out_are_read_as_a_list() -> None:
    listed = b'{"items": [{"id": "%s", "kind": "closed"}], "cursor": "%s"}'
    answers = [
        sse(("1-0", "opened"), ("", "resync"), ("3-0", "opened"), ("4-0", "opened")),
        (200, {}, listed % (b"2-0", b"2-0")),
        (200, {}, listed % (b"3-0", b"3-0")),
        (200, {}, b'{"items": [], "cursor": "3-0"}'),
    ]
    with Scripted(*answers) as server, Client(server.url, wait=no_wait) as client:
        events = client.events()
        assert [next(events).id for _ in range(4)] == ["1-0", "2-0", "3-0", "4-0"]
        events.close()


def test_ticks_come_if_they_are_asked_for() -> None:
    answer = sse(("", "tick"), ("1-0", "opened"))
    with Scripted(answer) as server, Client(server.url, wait=no_wait) as client:
        events = client.events(ticks=True)
        assert [next(events).kind for _ in range(2)] == ["tick", "opened"]
        events.close()


def test_a_slow_reader_of_events_loses_none(service: Service, client: Client) -> None:
    events = client.events(after=service.store.events.read(limit=500)[-1].id)
    alarm = open_alarm(service, 15)
    assert next(events).kind == "opened"
    service.hub.publish(Resync())
    close_alarm(service, 15)
    assert (closed := next(events)).kind == "closed" and closed.body["item"] == alarm.key
    events.close()
