"""Events as they happen, and as a list."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from newnormal.service.api import events
from newnormal.service.service import Service
from tests.service.asgi import API, Client, Following, app_of, get, run_apart
from tests.service.plant import PENDING, QUIET, SAMPLES, close_alarm, feed, open_alarm, plant

PATH = f"{API}/events"
QUERY = "ticks=false"


@pytest.fixture
def service() -> Iterator[Service]:
    with plant() as made:
        yield made


def newest(service: Service) -> str:
    """Return the id of the newest event."""
    return service.store.events.read(limit=500)[-1].id


def with_app(service: Service, act: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
    with app_of(service) as app:
        run_apart(act(app))


async def items(followed: Following, count: int) -> list[str]:
    """Return the items that the next events are about."""
    return [json.loads((await followed.next())["data"])["item"] for _ in range(count)]


def test_an_alarm_is_sent_as_it_opens(service: Service) -> None:
    async def act(app: Any) -> None:
        async with Following(app, PATH, QUERY) as followed:
            assert followed.status == 200
            assert followed.headers["content-type"].startswith("text/event-stream")
            assert followed.headers["cache-control"] == "no-store"
            assert await followed.next() == {"retry": "2000"}
            alarm = open_alarm(service)
            event = await followed.next()
            assert event["event"] == "opened" and event["id"] == newest(service)
            body = json.loads(event["data"])
            assert (body["item"], body["stream"], body["kind"]) == (alarm.key, QUIET, "opened")
            assert body["body"]["state"] == "open"

    with_app(service, act)


@pytest.mark.parametrize("how", ["header", "query", "both"])
def test_after_a_lost_connection_what_was_missed_is_sent_first_and_once(
    service: Service, how: str
) -> None:
    place = newest(service)
    missed = [open_alarm(service, number).key for number in (13, 14)]

    async def act(app: Any) -> None:
        headers = {} if how == "query" else {"last_event_id": place}
        query = {"header": "", "query": f"&after={place}", "both": "&after=0-0"}[how]
        async with Following(app, PATH, QUERY + query, **headers) as followed:
            await followed.next()
            assert await items(followed, 2) == missed
            closed = close_alarm(service, 13)
            assert await items(followed, 1) == [closed.key]

    with_app(service, act)


def test_an_event_before_the_first_message_is_sent_once(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = newest(service)
    real = events._missed

    def missed(*given: Any) -> Any:
        open_alarm(service, 13)  # after subscribing: both have it
        return real(*given)

    monkeypatch.setattr(events, "_missed", missed)

    async def act(app: Any) -> None:
        async with Following(app, PATH, f"{QUERY}&after={place}") as followed:
            await followed.next()
            first = await followed.next()
            later = open_alarm(service, 14)
            second = await followed.next()
            assert first["id"] != second["id"]
            assert json.loads(second["data"])["item"] == later.key

    with_app(service, act)


def test_who_missed_too_much_is_told_to_read_everything(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "_MOST_MISSED", 3)
    monkeypatch.setattr(events, "MOST", 2)

    async def act(app: Any) -> None:
        async with Following(app, PATH, "after=0-0") as followed:
            await followed.next()
            assert (await followed.next())["event"] == "resync"

    with_app(service, act)


def test_a_slow_subscriber_is_told_to_read_everything(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "_WAITING", 2)

    async def act(app: Any) -> None:
        async with Following(app, PATH, QUERY) as followed:
            await followed.next()
            for number in (13, 14, 15, 16):
                open_alarm(service, number)
            kinds = [(await followed.next())["event"] for _ in range(2)]
            assert "resync" in kinds

    with_app(service, act)


def test_ticks_say_which_streams_have_news_unless_they_are_not_wanted(service: Service) -> None:
    async def act(app: Any) -> None:
        async with (
            Following(app, PATH) as all_of_them,
            Following(app, PATH, f"stream={QUIET}") as one,
            Following(app, PATH, QUERY) as none,
        ):
            for followed in (all_of_them, one, none):
                await followed.next()
            with service._touch_lock:
                service._touched.clear()
            feed(service, PENDING, 1)
            tick = await all_of_them.next()
            assert tick["event"] == "tick" and "id" not in tick
            assert json.loads(tick["data"])["streams"] == {str(PENDING): SAMPLES + 1}
            alarms = [open_alarm(service, 13).key, open_alarm(service).key]
            assert await items(none, 2) == alarms
            assert await items(one, 1) == alarms[1:]

    with_app(service, act)


def test_a_quiet_connection_has_signs_of_life(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "_HEARTBEAT", 0.02)
    monkeypatch.setattr(events, "_LOOK", 0.01)

    async def act(app: Any) -> None:
        async with Following(app, PATH, QUERY) as followed:
            await followed.next()
            assert await followed.next() == {"comment": "alive"}

    with_app(service, act)


def test_subscribers_are_limited_and_leave_their_place() -> None:
    async def act(app: Any) -> None:
        async with Following(app, PATH):
            async with Following(app, PATH), Following(app, PATH) as third:
                assert third.status == 429
                refused = json.loads(await third.whole())
                assert refused["error"] == "expected at most 2 subscribers, found more"
            async with Following(app, PATH) as again:
                assert again.status == 200
        assert len(limited.hub) == 0 and app.state.seats == set()

    with plant(empty=True, limits={"subscribers": 2}) as limited:
        with_app(limited, act)


@pytest.mark.parametrize("what", ["server", "service"])
def test_subscribers_are_let_go_when_the_server_or_the_service_stops(
    service: Service, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    if what == "server":
        monkeypatch.setattr(events, "_LOOK", 0.01)

    async def act(app: Any) -> None:
        async with Following(app, PATH) as followed:
            await followed.next()
            app.state.closing.set() if what == "server" else service.hub.close()
            await asyncio.wait_for(followed.task, 10)

    with_app(service, act)


@pytest.mark.parametrize("place", ["x", "1", "1-", "-1-0", "1-0-0", "9" * 30 + "-0", "\u0661-0"])
def test_a_place_that_is_none_is_refused(reader: Client, place: str) -> None:
    for path in ("events", "events.json"):
        error = get(reader, f"/{path}", 422, after=place)["error"]
        assert "after: expected the id of an event, such as 12-0" in error


def test_a_list_of_events_goes_on_after_the_last_one(reader: Client) -> None:
    found: list[Any] = []
    after: dict[str, Any] = {}
    while page := get(reader, "/events.json", limit=7, **after):
        if not page["items"]:
            assert page["cursor"] == after["after"]
            break
        found += page["items"]
        after = {"after": page["cursor"]}
    events = reader.service.store.events.read(limit=500)
    assert [each["id"] for each in found] == [event.id for event in events]
    mine = get(reader, "/events.json", stream=17)["items"]
    assert mine and {each["stream"] for each in mine} == {17}
