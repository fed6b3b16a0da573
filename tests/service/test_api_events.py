"""Events as they happen, and as a list."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from newnormal.service.api import events
from tests.service.asgi import API, Client, Following, run_apart
from tests.service.fake_service import FakeService, app_of, fake_config

PATH = f"{API}/events"


def with_app(service: FakeService, act: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
    app = app_of(service)
    try:
        run_apart(act(app))
    finally:
        app.state.reading.close()


def test_an_alarm_is_sent_as_it_opens() -> None:
    service = FakeService(20)

    async def act(app: Any) -> None:
        async with Following(app, PATH) as followed:
            assert followed.status == 200
            assert followed.headers["content-type"].startswith("text/event-stream")
            assert followed.headers["cache-control"] == "no-store"
            assert await followed.next() == {"retry": "2000"}
            item = service.inject_alarm(4)
            event = await followed.next()
            assert event["event"] == "opened" and event["id"] == service.events()[-1].id
            body = json.loads(event["data"])
            assert (body["item"], body["stream"], body["kind"]) == (item.key, 4, "opened")
            assert body["body"]["state"] == "open"

    with_app(service, act)


@pytest.mark.parametrize("how", ["header", "query", "both"])
def test_after_a_lost_connection_what_was_missed_is_sent_first_and_once(how: str) -> None:
    service = FakeService(20)
    place = service.events()[-1].id
    missed = [service.inject_alarm(each).key for each in (4, 5, 6)]

    async def act(app: Any) -> None:
        headers = {} if how == "query" else {"last_event_id": place}
        query = {"header": "", "query": f"after={place}", "both": "after=0-0"}[how]
        async with Following(app, PATH, query, **headers) as followed:
            await followed.next()
            found = [json.loads((await followed.next())["data"])["item"] for _ in range(3)]
            assert found == missed
            later = service.inject_alarm(7)
            assert json.loads((await followed.next())["data"])["item"] == later.key

    with_app(service, act)


def test_an_event_before_the_first_message_is_sent_once(monkeypatch: pytest.MonkeyPatch) -> None:
    service = FakeService(20)
    place = service.events()[-1].id
    real = events._missed

    def missed(*given: Any) -> Any:
        service.inject_alarm(4)  # after subscribing: both have it
        return real(*given)

    monkeypatch.setattr(events, "_missed", missed)

    async def act(app: Any) -> None:
        async with Following(app, PATH, f"after={place}") as followed:
            await followed.next()
            first = await followed.next()
            service.inject_alarm(5)
            second = await followed.next()
            assert first["id"] != second["id"]
            assert json.loads(second["data"])["item"] == "alarm-5-1-2"

    with_app(service, act)


def test_who_missed_too_much_is_told_to_read_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_MOST_MISSED", 3)
    monkeypatch.setattr(events, "MOST", 2)
    service = FakeService(60)
    assert len(service.events()) > 10

    async def act(app: Any) -> None:
        async with Following(app, PATH, "after=0-0") as followed:
            await followed.next()
            assert (await followed.next())["event"] == "resync"

    with_app(service, act)


def test_a_slow_subscriber_is_told_to_read_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_WAITING", 2)
    service = FakeService(20)

    async def act(app: Any) -> None:
        async with Following(app, PATH) as followed:
            await followed.next()
            for each in (4, 5, 6, 7):
                service.inject_alarm(each)
            kinds = [(await followed.next())["event"] for _ in range(2)]
            assert "resync" in kinds

    with_app(service, act)


def test_ticks_say_which_streams_have_news_unless_they_are_not_wanted() -> None:
    service = FakeService(4)

    async def act(app: Any) -> None:
        async with (
            Following(app, PATH) as all_of_them,
            Following(app, PATH, "stream=2") as one,
            Following(app, PATH, "ticks=false") as none,
        ):
            for each in (all_of_them, one, none):
                await each.next()
            service.tick()
            tick = await all_of_them.next()
            assert tick["event"] == "tick" and "id" not in tick
            assert json.loads(tick["data"])["streams"] == {"3": 20_000, "4": 20_000}
            service.inject_alarm(3)
            service.inject_alarm(4)
            for each in (all_of_them, none):
                assert (await each.next())["event"] == "opened"
            service.inject_change(2)
            assert json.loads((await one.next())["data"])["stream"] == 2

    with_app(service, act)


def test_a_quiet_connection_has_signs_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_HEARTBEAT", 0.02)
    monkeypatch.setattr(events, "_LOOK", 0.01)

    async def act(app: Any) -> None:
        async with Following(app, PATH) as followed:
            await followed.next()
            assert await followed.next() == {"comment": "alive"}

    with_app(FakeService(2), act)


def test_subscribers_are_limited_and_leave_their_place() -> None:
    service = FakeService(2, config=fake_config(limits={"subscribers": 2}))

    async def act(app: Any) -> None:
        async with Following(app, PATH):
            async with Following(app, PATH), Following(app, PATH) as third:
                assert third.status == 429
                refused = json.loads(await third.whole())
                assert refused["error"] == "expected at most 2 subscribers, found more"
            async with Following(app, PATH) as again:
                assert again.status == 200
        assert len(service.hub) == 0 and app.state.seats == set()

    with_app(service, act)


@pytest.mark.parametrize("what", ["server", "service"])
def test_subscribers_are_let_go_when_the_server_or_the_service_stops(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    service = FakeService(2)
    if what == "server":
        monkeypatch.setattr(events, "_LOOK", 0.01)

    async def act(app: Any) -> None:
        async with Following(app, PATH) as followed:
            await followed.next()
            app.state.closing.set() if what == "server" else service.hub.close()
            await asyncio.wait_for(followed.task, 10)

    with_app(service, act)


@pytest.mark.parametrize("place", ["x", "1", "1-", "-1-0", "1-0-0", "9" * 30 + "-0", "\u0661-0"])
def test_a_place_that_is_none_is_refused(place: str) -> None:
    with Client(FakeService(2)) as client:
        for path in ("events", "events.json"):
            found = client.get(f"{API}/{path}", params={"after": place})
            assert found.status_code == 422
            assert "after: expected the id of an event, such as 12-0" in found.json()["error"]


def test_a_list_of_events_goes_on_after_the_last_one() -> None:
    service = FakeService(60)
    with Client(service) as client:
        found: list[Any] = []
        after: str | None = None
        while True:
            more: dict[str, str] = {} if after is None else {"after": after}
            page = client.get(f"{API}/events.json", params={"limit": 7, **more}).json()
            if not page["items"]:
                assert page["cursor"] == after
                break
            found += page["items"]
            after = page["cursor"]
        assert [each["id"] for each in found] == [each.id for each in service.events()]
        mine = client.get(f"{API}/events.json", params={"stream": 17}).json()["items"]
        assert mine and {each["stream"] for each in mine} == {17}
