"""Routes of the inbox."""

from collections.abc import Iterator
from typing import Any

import pytest

from newnormal.service.service import Service
from tests.service.asgi import API, Client, everything, get
from tests.service.plant import ALARM, ALARMED, CLOSED, INCIDENT, PENDING, plant, stream_name
from tests.service.running import SECOND, START

COMMENTS = f"{API}/items/{ALARM}/comments"


@pytest.fixture
def service() -> Iterator[Service]:
    with plant() as made:
        yield made


def test_pages_have_each_item_once_newest_first(reader: Client) -> None:
    found = everything(reader, "/items", limit=3)
    assert sorted(each["key"] for each in found) == sorted(
        [
            *(f"alarm-{number}-1-1" for number in {*INCIDENT, *CLOSED, PENDING, ALARMED}),
            *("alarm-3-1-2", f"change-{PENDING}-1-1", "incident-1", "incident-2"),
        ]
    )
    assert found == everything(reader, "/items", limit=500)
    times = [each["updated"] for each in found]
    assert times == sorted(times, reverse=True)


def test_items_are_filtered_by_kind_state_stream_and_whether_they_are_open(reader: Client) -> None:
    def shown(what: str, **parameters: Any) -> set[Any]:
        return {each[what] for each in everything(reader, "/items", **parameters)}

    assert shown("kind", kind="alarm,change") == {"alarm", "change"}
    assert shown("state", state="pending") == {"pending"}
    assert shown("stream", stream=ALARMED) == {ALARMED}
    assert shown("open", open="true") == {True}
    early = shown("opened", to=START // SECOND + 14_000)
    assert early and max(early) < "2026-01-01T03:53:21Z"


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
    reader: Client, parameters: dict[str, str], status: int, message: str
) -> None:
    assert message in get(reader, "/items", status, **parameters)["error"]


def test_an_item_has_evidence_comments_and_what_belongs_to_it(reader: Client) -> None:
    found = get(reader, f"/items/{ALARM}")
    assert found["stream_name"] == stream_name(ALARMED) and found["open"]
    assert found["body"]["evidence"][0]["channel"] == "temperature"
    assert found["comments"] == []
    alarm = get(reader, f"/items/alarm-{PENDING}-1-1")
    assert [each["key"] for each in alarm["related"]] == [f"change-{PENDING}-1-1"]


@pytest.mark.parametrize(("incident", "streams"), [("incident-1", 3), ("incident-2", 5)])
def test_an_incident_has_its_alarms_and_each_of_them_the_incident(
    reader: Client, incident: str, streams: int
) -> None:
    alarms = [each["key"] for each in get(reader, f"/items/{incident}")["related"]]
    assert len(alarms) == streams
    for alarm in alarms:
        related = get(reader, f"/items/{alarm}")["related"]
        assert incident in [each["key"] for each in related]


@pytest.mark.parametrize("verb", ["accept", "reject", "comments"])
@pytest.mark.parametrize("key", ["alarm-1-1-999", "x", "..%2F..", "%00", "a" * 200])
def test_an_unknown_item_is_not_found(reader: Client, key: str, verb: str) -> None:
    assert reader.get(f"{API}/items/{key}").status_code == 404
    found = reader.post(f"{API}/items/{key}/{verb}", json={"text": "a"})
    assert found.status_code == 404 and found.json()["hint"]


def test_an_alarm_is_accepted_and_closes(client: Client, service: Service) -> None:
    found = client.post(f"{API}/items/{ALARM}/accept", json={"comment": "a new tool"}).json()
    assert (found["item"]["state"], found["item"]["open"]) == ("closed", False)
    assert service.store.items.comments(ALARM)[0].text == "a new tool"


@pytest.mark.parametrize(("verb", "state"), [("accept", "accepted"), ("reject", "rejected")])
def test_a_change_is_accepted_or_rejected_once(client: Client, verb: str, state: str) -> None:
    path = f"/items/change-{PENDING}-1-1"
    assert client.post(f"{API}{path}/{verb}").json()["item"]["state"] == state
    assert get(client, path)["state"] == state
    again = client.post(f"{API}{path}/accept")
    assert again.status_code == (409 if verb == "accept" else 200)


def test_an_incident_is_decided_by_its_alarms(reader: Client) -> None:
    refused = reader.post(f"{API}/items/incident-2/accept")
    assert refused.status_code == 409
    assert "expected an alarm or a change of a stream" in refused.json()["error"]


def test_a_comment_is_kept_with_who_wrote_it(client: Client) -> None:
    made = client.post(COMMENTS, json={"text": " pump 3 \U0001f600"})
    assert made.status_code == 201 and made.json()["who"] == "local"
    (found,) = get(client, f"/items/{ALARM}")["comments"]
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
def test_a_body_is_a_json_object(reader: Client, body: bytes, status: int, error: str) -> None:
    found = reader.post(COMMENTS, content=body)
    assert found.status_code == status and found.json()["error"].startswith(error)
