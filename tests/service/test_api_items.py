"""Routes of the inbox."""

from typing import Any

import pytest

from tests.service.asgi import API, Client
from tests.service.fake_service import PERIOD, SECOND, START, FakeService


@pytest.fixture
def service() -> FakeService:
    return FakeService(120)


def everything(client: Client, **parameters: Any) -> list[Any]:
    found: list[Any] = []
    cursor: str | None = None
    while True:
        more: dict[str, str] = {} if cursor is None else {"cursor": cursor}
        page = client.get(f"{API}/items", params={**parameters, **more}).json()
        found += page["items"]
        cursor = page["cursor"]
        if cursor is None:
            return found


def test_pages_have_each_item_once_newest_first(client: Client, service: FakeService) -> None:
    found = everything(client, limit=7)
    assert sorted(each["key"] for each in found) == sorted(item.key for item in service.items())
    assert found == everything(client, limit=500)
    times = [each["updated"] for each in found]
    assert times == sorted(times, reverse=True)


def test_items_are_filtered_by_kind_state_stream_and_whether_they_are_open(client: Client) -> None:
    assert {each["kind"] for each in everything(client, kind="alarm,change")} == {"alarm", "change"}
    assert {each["state"] for each in everything(client, state="accepted")} == {"accepted"}
    assert {each["stream"] for each in everything(client, stream=17)} == {17}
    assert all(each["open"] for each in everything(client, open="true"))
    early = everything(client, to=(START + 19_000 * PERIOD) // SECOND)
    assert early and all(each["opened"] < "2026-01-03T04:46:41Z" for each in early)


@pytest.mark.parametrize(
    ("parameters", "status", "message"),
    [
        ({"kind": "fault"}, 422, "kind: expected alarm, change, incident, silence, channels"),
        ({"state": "shut"}, 422, "state: expected open, closed, pending"),
        ({"stream": "999"}, 404, "stream: expected the number of a stream, found 999"),
        ({"stream": str(10**40)}, 404, "stream: expected the number of a stream"),
        ({"open": "perhaps"}, 422, "open: expected a valid boolean"),
        ({"from": "yesterday"}, 422, "from: expected a time, found 'yesterday'"),
        ({"cursor": "x"}, 400, "cursor: expected one that a list gave, found 'x'"),
    ],
)
def test_a_list_of_items_says_what_is_wrong_with_its_parameters(
    client: Client, parameters: dict[str, str], status: int, message: str
) -> None:
    found = client.get(f"{API}/items", params=parameters)
    assert found.status_code == status and message in found.json()["error"]


def test_an_item_has_evidence_and_comments(client: Client, service: FakeService) -> None:
    service.inject_change(17, back=40)
    found = client.get(f"{API}/items/alarm-17-1-1").json()
    assert found["stream_name"] == "hall-05/press-0017" and found["open"]
    assert found["body"]["evidence"][0]["channel"] == "temperature"
    assert found["comments"] == []
    assert [each["key"] for each in found["related"]] == ["change-17-1-1"]


def test_an_incident_has_its_alarms_and_each_of_them_the_incident(client: Client) -> None:
    found = client.get(f"{API}/items/incident-1").json()
    alarms = [each["key"] for each in found["related"]]
    assert len(alarms) == 5
    alarm = client.get(f"{API}/items/{alarms[0]}").json()
    assert "incident-1" in [each["key"] for each in alarm["related"]]


@pytest.mark.parametrize("verb", ["accept", "reject", "comments"])
@pytest.mark.parametrize("key", ["alarm-1-1-999", "x", "..%2F..", "%00", "a" * 200])
def test_an_unknown_item_is_not_found(client: Client, key: str, verb: str) -> None:
    assert client.get(f"{API}/items/{key}").status_code == 404
    found = client.post(f"{API}/items/{key}/{verb}", json={"text": "a"})
    assert found.status_code == 404 and found.json()["hint"]


def test_an_alarm_is_accepted_and_closes(client: Client, service: FakeService) -> None:
    found = client.post(f"{API}/items/alarm-17-1-1/accept", json={"comment": "a new tool"}).json()
    assert (found["item"]["state"], found["item"]["open"]) == ("closed", False)
    assert service.store.items.comments("alarm-17-1-1")[0].text == "a new tool"
    again = client.post(f"{API}/items/alarm-17-1-1/accept")
    assert again.status_code == 409 and "expected an open alarm" in again.json()["error"]


@pytest.mark.parametrize(("verb", "state"), [("accept", "accepted"), ("reject", "rejected")])
def test_a_change_is_accepted_or_rejected(
    client: Client, service: FakeService, verb: str, state: str
) -> None:
    item = service.inject_change(17)
    assert client.post(f"{API}/items/{item.key}/{verb}").json()["item"]["state"] == state
    assert client.get(f"{API}/items/{item.key}").json()["state"] == state


def test_a_comment_is_kept_with_who_wrote_it(client: Client) -> None:
    made = client.post(f"{API}/items/alarm-17-1-1/comments", json={"text": " pump 3 \U0001f600"})
    assert made.status_code == 201 and made.json()["who"] == "local"
    (found,) = client.get(f"{API}/items/alarm-17-1-1").json()["comments"]
    assert found == made.json() and found["text"] == "pump 3 \U0001f600"


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        (b"", 422, "text: expected a value, found none"),
        (b'{"text": " "}', 422, "text: expected at least 1 character, found ' '"),
        (b'{"text": 5}', 422, "text: expected text, found 5"),
        (b'{"text": "%s"}' % (2001 * b"a"), 422, "text: expected at most 2000 characters, found"),
        (b"[]", 422, "request: expected an object, found []"),
        *((body, 400, "expected a body of JSON") for body in (b"{", b"\xff", b"[" * 30_000)),
    ],
)
def test_a_body_is_a_json_object(client: Client, body: bytes, status: int, error: str) -> None:
    found = client.post(f"{API}/items/alarm-17-1-1/comments", content=body)
    assert found.status_code == status and found.json()["error"].startswith(error)
