"""Routes of streams."""

import math
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

from newnormal.engine.values import ThinnedSeries
from newnormal.service.api import streams
from newnormal.service.api.pictures import _column, series_json
from newnormal.service.service import Service
from tests.present import present
from tests.service.asgi import API, Client, everything, get
from tests.service.plant import (
    ALARMED,
    COLLECTING,
    HISTORY,
    PENDING,
    PERIOD,
    STREAMS,
    feed,
    plant,
    put,
    stream_name,
)
from tests.service.running import SECOND, START, fit_next, fits

BEGIN = START + HISTORY * PERIOD  # the first sample of a live stream


@pytest.fixture
def service() -> Iterator[Service]:
    with plant() as made:
        yield made


@pytest.mark.parametrize("order", ["attention", "name", "newest", "ratio"])
@pytest.mark.parametrize("limit", [1, 7, 500])
def test_pages_of_streams_have_each_stream_once_in_order(
    reader: Client, order: str, limit: int
) -> None:
    found = everything(reader, "/streams", sort=order, limit=limit)
    assert sorted(each["id"] for each in found) == list(range(1, STREAMS + 1))
    assert found == everything(reader, "/streams", sort=order, limit=500)


def test_streams_in_alarm_come_first_and_then_changes(reader: Client) -> None:
    kinds = [each["attention"] for each in everything(reader, "/streams")]
    assert kinds == [*["alarm"] * 6, "change", "failed", *[""] * 12]


def test_the_state_of_the_item_that_a_sentence_is_about_is_known(reader: Client) -> None:
    about = [each for each in everything(reader, "/streams") if each["item"] is not None]
    assert len(about) > 3
    for each in about:
        item = get(reader, f"/items/{each['item']}")
        assert (each["sentence"], each["item_state"]) == (item["sentence"], item["state"])
    assert {each["item_state"] for each in everything(reader, "/streams")} >= {"", "open", "closed"}


def test_the_worst_ratio_comes_first_and_streams_without_one_last(reader: Client) -> None:
    ratios = [each["ratio"] for each in everything(reader, "/streams", sort="ratio")]
    assert ratios[:17] == sorted(ratios[:17], reverse=True) and ratios[17:] == [None] * 3


def test_streams_are_found_by_a_part_of_the_name_in_any_case(reader: Client) -> None:
    found = everything(reader, "/streams", search="PRESS-17")
    assert [each["name"] for each in found] == [stream_name(ALARMED)]
    assert get(reader, "/streams", search="no such")["items"] == []


def test_streams_are_filtered_by_state_and_need(reader: Client) -> None:
    live = everything(reader, "/streams", state="live")
    assert {each["id"] for each in live} == set(range(1, COLLECTING))
    several = everything(reader, "/streams", state="fitting,collecting")
    assert {each["state"] for each in several} == {"fitting", "collecting"}
    needing = everything(reader, "/streams", attention="any")
    quiet = everything(reader, "/streams", attention="none")
    assert all(each["attention"] for each in needing)
    assert not any(each["attention"] for each in quiet)
    assert len(needing) + len(quiet) == STREAMS


def test_a_list_says_how_many_there_are(reader: Client) -> None:
    page = get(reader, "/streams", limit=3, search="hall-1")
    assert (page["total"], page["streams"], len(page["items"])) == (7, STREAMS, 3)
    counts = {"live": 17, "alarm": 6, "change": 1, "collecting": 1, "fitting": 1, "failed": 1}
    assert page["counts"] == counts


def test_an_offset_skips_entries(reader: Client) -> None:
    whole = everything(reader, "/streams", sort="name")
    assert get(reader, "/streams", sort="name", offset=10, limit=5)["items"] == whole[10:15]
    assert get(reader, "/streams", offset=1000)["items"] == []


def test_a_list_takes_less_than_500_bytes_a_stream(reader: Client) -> None:
    """So those of all of two thousand are less than a megabyte."""
    found = reader.get(f"{API}/streams", params={"state": "live"})
    assert len(found.content) < 500 * len(found.json()["items"])


def test_a_stream_is_found_by_number_and_by_name(reader: Client) -> None:
    found = get(reader, f"/streams/{ALARMED}")
    assert found["channels"] == ["temperature", "pressure", "vibration"]
    assert found["channel_count"] == 3
    assert found["newest"] == "2026-01-01T06:39:50Z" and found["period"] == 10
    assert get(reader, f"/streams/by-name/{stream_name(ALARMED)}") == found


def test_a_number_that_is_not_finite_is_null(reader: Client) -> None:
    assert math.isnan(present(reader.service.stream(COLLECTING)).ratio)
    assert get(reader, f"/streams/{COLLECTING}")["ratio"] is None


@pytest.mark.parametrize("path", ["/streams/999", "/streams/-1", f"/streams/{10**30}"])
def test_an_unknown_stream_is_not_found(reader: Client, path: str) -> None:
    for suffix in ("", "/series", "/picture", "/models"):
        found = get(reader, path + suffix, 404)
        assert "expected the number of a stream" in found["error"] and found["hint"]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"sort": "size"}, "sort: expected 'attention', 'name', 'newest' or 'ratio', found 'size'"),
        ({"limit": "0"}, "limit: expected greater than or equal to 1, found '0'"),
        ({"limit": "501"}, "limit: expected less than or equal to 500, found '501'"),
        ({"limit": "many"}, "limit: expected a valid integer"),
        ({"state": "lively"}, "state: expected collecting, fitting, live, failed, found 'lively'"),
        ({"cursor": "abc"}, "cursor: expected one that a list of the same order gave"),
    ],
)
def test_a_list_of_streams_says_what_is_wrong_with_its_parameters(
    reader: Client, parameters: dict[str, str], message: str
) -> None:
    assert message in get(reader, "/streams", 422, **parameters)["error"]


def test_a_cursor_of_another_order_is_refused(reader: Client) -> None:
    cursor = get(reader, "/streams", sort="name", limit=1)["cursor"]
    assert "cursor" in get(reader, "/streams", 422, sort="attention", cursor=cursor)["error"]


# --- series and pictures


def test_a_series_has_the_columns_that_a_picture_asks_for(reader: Client) -> None:
    found = get(reader, "/streams/17/series", points=50)
    names = {"score", "threshold", "ratio"}
    for k in range(3):
        names |= {f"{kind}:{k}" for kind in ("low", "high", "expected", "least", "most", "ratio")}
    assert set(found["columns"]) == names
    assert {len(each) for each in found["columns"].values()} == {len(found["x"])}
    assert 50 <= len(found["x"]) <= 100 and found["per"] == 32 and found["exact"] is False
    assert found["x"] == sorted(found["x"]) and found["x"][0] == BEGIN / SECOND


def test_a_series_of_some_channels_keeps_their_positions(reader: Client) -> None:
    by_name = get(reader, "/streams/17/series", channels="vibration")
    assert "low:2" in by_name["columns"] and "low:0" not in by_name["columns"]
    assert get(reader, "/streams/17/series", channels="2") == by_name
    both = get(reader, "/streams/17/series", channels="vibration,temperature")
    assert {"low:0", "low:2"} <= set(both["columns"])
    none = get(reader, "/streams/17/series", channels="")["columns"]
    assert none.keys() == {"score", "threshold", "ratio"}
    assert "channels" in get(reader, "/streams/17/series", 422, channels="speed")["error"]


def test_a_series_of_a_range_takes_times_in_any_way(reader: Client) -> None:
    span: dict[str, Any] = {"from": "2026-01-01T01:16:40Z", "to": "2026-01-01T02:18:20+01:00"}
    texts = get(reader, "/streams/17/series", 200, **span)
    begin, end = START // SECOND + 4600, START / SECOND + 4700
    span = {"from": begin, "to": end}
    numbers = get(reader, "/streams/17/series", 200, **span)
    assert texts == numbers and len(texts["x"]) == 11 and texts["per"] == 1
    assert get(reader, "/streams/17/series", 200, **{"from": end, "to": 0})["x"] == []
    wrong = get(reader, "/streams/17/series", 422, **{"from": "x"})
    assert "from: expected a time" in wrong["error"]


def test_a_stream_without_samples_has_an_empty_series(client: Client, service: Service) -> None:
    put(service, "new")
    number = present(service.stream_named("new")).id
    assert get(client, f"/streams/{number}/series")["x"] == []
    picture = get(client, f"/streams/{number}/picture")
    assert picture["stream"]["alarms"] == [] and picture["stream"]["start"] is None


def test_where_samples_are_missing_a_line_is_broken() -> None:
    wide = np.arange(4.0)[:, None]
    series = ThinnedSeries(
        1, ("a",), np.array([0, 10, 100, 110]) * SECOND, np.arange(4.0), np.ones(4),
        np.arange(4.0), wide, wide, wide, wide - 1, wide + 1, wide,
        np.array([False, False, True, False]),
    )  # fmt: skip
    found = series_json(series, ["z", "a"], 10 * SECOND)
    assert found["x"].tolist() == [0, 10, 55, 100, 110]
    np.testing.assert_array_equal(found["columns"]["low:1"], [0, 1, np.nan, 2, 3])
    assert found["anomalous"].tolist() == [3]


def test_values_that_differ_little_are_told_apart_in_a_series() -> None:
    values = 1e9 + np.array([0.25, 0.5, np.nan, np.inf])
    np.testing.assert_array_equal(_column(values, np.zeros(0, np.int64)), values)


def test_a_picture_has_what_a_report_has(client: Client, service: Service) -> None:
    feed(service, PENDING, 20, fault=9.0)
    found = get(client, f"/streams/{PENDING}/picture")
    assert found["axis"] == {"kind": "time", "zone": "UTC"}
    stream = found["stream"]
    assert stream["status"] == "in alarm" and stream["blocks"] == [] and stream["labels"] is None
    assert stream["start"] == BEGIN // SECOND
    assert stream["channels"] == [
        {"name": "temperature", "concern": 1.0},
        {"name": "pressure", "concern": 0.0},
        {"name": "vibration", "concern": 1.0},
    ]
    alarm, closed = sorted(stream["alarms"], key=lambda each: -each["number"])
    assert alarm["open"] and alarm["end"] == stream["end"]  # it goes on
    assert (alarm["samples"], alarm["lasted"]) == (20, "3.3 min")
    assert alarm["since"] == "2026-01-01 06:40Z" and alarm["evidence"][0]["direction"] == "high"
    assert closed["reason"] == "back to normal"
    (pending,) = stream["changes"]
    assert pending["steps"] == [[pending["steps"][0][0], "pending"]]
    assert pending["end"] == stream["end"]
    client.post(f"{API}/items/change-{PENDING}-1-1/accept")
    (accepted,) = get(client, f"/streams/{PENDING}/picture")["stream"]["changes"]
    assert [each[1] for each in accepted["steps"]] == ["pending", "accepted"]
    assert accepted["end"] == accepted["steps"][1][0]


def test_a_picture_of_a_range_has_what_happened_in_it(reader: Client) -> None:
    early = get(reader, "/streams/3/picture", to=(BEGIN + 1_000 * PERIOD) // SECOND)
    assert [each["number"] for each in early["stream"]["alarms"]] == [1]
    assert len(get(reader, "/streams/3/picture")["stream"]["alarms"]) == 2


# --- what people ask for


def test_a_stream_is_fitted_again_and_the_old_model_can_be_restored(
    client: Client, service: Service
) -> None:
    assert client.post(f"{API}/streams/17/refit").json() == {"done": True}
    fits(service).jobs.pop(0)  # that of the stream that is being fitted
    fit_next(service)
    found = get(client, "/streams/17/models")
    assert [each["generation"] for each in found["items"]] == [2, 1]
    assert found["items"][1]["fitted"] == "2026-01-01T00:00:00Z" and "file" not in found["items"][0]
    assert client.post(f"{API}/streams/17/models/1/restore").status_code == 200
    refused = client.post(f"{API}/streams/17/models/9/restore")
    assert refused.status_code == 409 and "found 9" in refused.json()["error"]


@pytest.mark.parametrize(
    "body",
    [{"first": -1}, {"first": "0"}, {"last": 10**9}, {"first": 5, "last": 4}, {"first": True}, []],
)
def test_samples_to_fit_must_be_there(reader: Client, body: Any) -> None:
    refused = reader.post(f"{API}/streams/17/refit", json=body)
    assert refused.status_code == 422 and refused.json()["hint"]


def test_the_last_accepted_change_is_undone(client: Client) -> None:
    undo = f"{API}/streams/{PENDING}/undo"
    refused = client.post(undo, json={})
    assert refused.status_code == 409
    assert refused.json()["error"] == (
        "expected an accepted new normal to go back from, found none since `fit`"
    )
    client.post(f"{API}/items/change-{PENDING}-1-1/accept")
    before = get(client, "/events.json", limit=500)["cursor"]
    assert client.post(undo, json={"comment": "the wrong one"}).json() == {"item": None}
    undone, event = get(client, "/events.json", after=before)["items"]
    assert (undone["kind"], event["kind"]) == ("undone", "feedback")
    assert get(client, f"/items/{undone['item']}")["state"] == "pending"
    assert (event["body"]["who"], event["body"]["comment"]) == ("local", "the wrong one")
    assert client.post(undo, json={}).status_code == 409


def test_a_removed_stream_is_gone(client: Client) -> None:
    assert client.delete(f"{API}/streams/17").json() == {"done": True}
    get(client, "/streams/17", 404)


def test_what_takes_too_long_is_a_503_that_says_it_goes_on(
    reader: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "_APPLIED", 0.01)
    monkeypatch.setattr(reader.service, "remove", lambda number: Future())
    found = reader.delete(f"{API}/streams/17")
    assert found.status_code == 503 and found.headers["retry-after"] == "10"
    assert "it is logged, and will be done" in found.json()["error"]
