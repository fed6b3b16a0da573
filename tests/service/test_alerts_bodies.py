"""What alerts there are, what they hold, and which of them a maintenance window keeps back."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from newnormal.engine.alert_bodies import alerts_of
from newnormal.engine.store import Store
from newnormal.engine.values import EventRow, Item, StreamView
from newnormal.errors import ParameterError
from newnormal.service.alerts import Window, add_window, covering, end_window, windows

URL = "https://watch.example.org/"
VIEW = StreamView(3, "press-1", "live")
BODY: dict[str, Any] = {
    "peak": {"channels": {"temp": 0.75, "pressure": 0.25}},
    "evidence": [{"channel": "temp", "observed": 90.0}],
    "severity": 41,
    "severity_word": "medium",
}
ITEM = Item(
    "alarm-3-1-2", "alarm", 3, 1, 2, "open", 10**9, 2 * 10**9, None, 2.5, "temp 90", BODY, 7
)


def event(kind: str) -> EventRow:
    return EventRow(7, 0, kind, 2 * 10**9, 3, ITEM.key, {})


def keys(kind: str, item: Item, view: StreamView | None = VIEW) -> list[str]:
    return [key for key, _ in alerts_of(event(kind), item, view, URL)]


def test_an_alarm_that_opens_makes_an_alert_with_all_that_a_receiver_needs() -> None:
    [(key, body)] = alerts_of(event("opened"), ITEM, VIEW, URL)
    assert key == "alarm-3-1-2:fired"
    assert body == {
        "version": 1,
        "key": "alarm-3-1-2:fired",
        "status": "fired",
        "item": "alarm-3-1-2",
        "kind": "alarm",
        "state": "open",
        "stream": "press-1",
        "streams": ["press-1"],
        "sentence": "temp 90",
        "opened": "1970-01-01T00:00:01Z",
        "updated": "1970-01-01T00:00:02Z",
        "ended": None,
        "ratio": 2.5,
        "severity": 41,
        "severity_word": "medium",
        "channels": ["temp", "pressure"],
        "evidence": [{"channel": "temp", "observed": 90.0}],
        "generation": 1,
        "link": "https://watch.example.org/#/item/alarm-3-1-2",
    }


def test_an_alarm_that_closes_makes_the_alert_that_resolves_it() -> None:
    closed = replace(ITEM, state="closed", ended=5 * 10**9)
    [(key, body)] = alerts_of(event("closed"), closed, VIEW, None)
    assert (key, body["status"], body["ended"]) == (
        "alarm-3-1-2:resolved",
        "resolved",
        "1970-01-01T00:00:05Z",
    )
    assert body["link"] is None


@pytest.mark.parametrize("kind", ["updated", "comment"])
def test_what_changes_nothing_for_a_receiver_makes_no_alert(kind: str) -> None:
    assert keys(kind, ITEM) == []
    assert keys(kind, replace(ITEM, state="closed")) == []


def test_a_severity_that_rises_makes_an_alert_that_fires_with_it() -> None:
    worse = replace(ITEM, body={**ITEM.body, "severity": 80, "severity_word": "critical"})
    [(key, body)] = alerts_of(event("updated"), worse, VIEW, None, ITEM)
    assert (key, body["key"], body["status"]) == (f"{ITEM.key}:critical", key, "fired")
    assert body["severity"] == 80 and alerts_of(event("updated"), ITEM, VIEW, None, ITEM) == []


@pytest.mark.parametrize(
    ("kind", "state", "expected"),
    [
        ("changed", "pending", ["fired"]),
        ("rejected", "rejected", []),
        ("accepted", "accepted", ["resolved"]),
        ("reverted", "reverted", ["resolved"]),
        ("changed", "reverted", ["fired", "resolved"]),
    ],
)
def test_a_change_is_resolved_when_it_ends(kind: str, state: str, expected: list[str]) -> None:
    change = replace(ITEM, key="change-3-1-1", kind="change", state=state, body={"channels": ["a"]})
    assert keys(kind, change) == [f"change-3-1-1:{each}" for each in expected]
    for _, body in alerts_of(event(kind), change, VIEW, URL):
        assert body["channels"] == ["a"]


def test_an_incident_names_all_of_its_streams() -> None:
    incident = replace(
        ITEM, key="incident-1", kind="incident", stream=None, body={"streams": {"a": 1, "b": 4}}
    )
    [(_, body)] = alerts_of(event("incident"), incident, None, URL)
    assert (body["stream"], body["streams"]) == (None, ["a", "b"])
    assert keys("incident_ended", replace(incident, state="closed"), None) == [
        "incident-1:resolved"
    ]


@pytest.mark.parametrize(("kind", "item"), [("silent", "silence"), ("channels", "channels")])
def test_silence_and_other_channels_make_alerts(kind: str, item: str) -> None:
    assert keys(kind, replace(ITEM, kind=item)) == ["alarm-3-1-2:fired"]


def test_a_ratio_that_is_infinite_is_left_out_as_json_has_none() -> None:
    [(_, body)] = alerts_of(event("opened"), replace(ITEM, ratio=math.inf), VIEW, URL)
    assert body["ratio"] is None
    json.dumps(body, allow_nan=False)


def test_the_same_event_makes_the_same_alert() -> None:
    assert alerts_of(event("opened"), ITEM, VIEW, URL) == alerts_of(
        event("opened"), ITEM, VIEW, URL
    )


def test_a_window_covers_items_that_opened_in_it_and_not_at_its_end() -> None:
    window = Window("w", 100, 200, "press-*")
    assert [window.covers(["press-1"], at, at) for at in (99, 100, 199, 200)] == [
        False,
        True,
        True,
        False,
    ]
    assert not window.covers(["oven"], 150, 150)
    assert window.covers(["press-1"], 50, 100)
    assert window.covers(["press-1"], 199, 900)
    assert not window.covers(["press-1"], 50, 99)
    assert not window.covers(["press-1"], 200, 900)


def test_a_window_covers_an_incident_if_it_covers_all_of_its_streams() -> None:
    window = Window("w", 100, 200, "press-*")
    assert window.covers(["press-1", "press-2"], 150, 150)
    assert not window.covers(["press-1", "oven"], 150, 150)
    assert not window.covers([], 150, 150)
    assert Window("w", 100, 200).covers([], 150, 150)


def test_windows_are_kept_listed_and_removed(store: Store) -> None:
    first = add_window(store.settings, 100, 200, "press-*", reason="new bearings", who="kim")
    last = add_window(store.settings, 300, 400)
    assert windows(store.settings) == [last, first]
    assert first.reason == "new bearings" and first.who == "kim"
    assert covering(windows(store.settings), ["press-1"], 150, 150) == first
    assert covering(windows(store.settings), ["press-1"], 250, 250) is None
    assert end_window(store.settings, first.id)
    assert windows(store.settings) == [last]


@pytest.mark.parametrize("name", ["", "0" * 12, "../settings", "x"])
def test_a_window_that_is_not_there_is_not_removed(store: Store, name: str) -> None:
    assert not end_window(store.settings, name)


def test_a_window_that_ends_before_it_begins_is_refused(store: Store) -> None:
    with pytest.raises(ParameterError, match="expected an end after the beginning"):
        add_window(store.settings, 200, 200)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"streams": ""}, "streams: expected 1 to 500 characters, found 0"),
        ({"reason": "x" * 501}, "reason: expected 0 to 500 characters, found 501"),
    ],
)
def test_texts_of_a_window_have_a_limit(store: Store, texts: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        add_window(store.settings, 100, 200, **texts)
