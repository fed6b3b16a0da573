"""Routes of streams."""

import math
from typing import Any

import pytest

from tests.service.asgi import API, Client
from tests.service.fake_service import PERIOD, SECOND, START, FakeService


@pytest.fixture
def service() -> FakeService:
    return FakeService(120)


def get(client: Client, path: str, status: int = 200, **parameters: Any) -> Any:
    found = client.get(API + path, params=parameters)
    assert found.status_code == status, found.text
    return found.json()


def everything(client: Client, path: str, **parameters: Any) -> list[Any]:
    found: list[Any] = []
    cursor: str | None = None
    while True:
        more: dict[str, Any] = {} if cursor is None else {"cursor": cursor}
        page = get(client, path, 200, **parameters, **more)
        found += page["items"]
        cursor = page["cursor"]
        if cursor is None:
            return found


@pytest.mark.parametrize("order", ["attention", "name", "newest", "ratio"])
@pytest.mark.parametrize("limit", [1, 7, 500])
def test_pages_of_streams_have_each_stream_once_in_order(
    client: Client, service: FakeService, order: str, limit: int
) -> None:
    found = everything(client, "/streams", sort=order, limit=limit)
    assert sorted(each["id"] for each in found) == sorted(service.views)
    assert found == everything(client, "/streams", sort=order, limit=500)


def test_streams_in_alarm_come_first_and_then_changes(client: Client) -> None:
    kinds = [each["attention"] for each in everything(client, "/streams")]
    ranks = ["alarm", "change", "silence", "channels", "failed", ""]
    assert kinds == sorted(kinds, key=ranks.index)
    assert {"alarm", "change", "failed", ""} <= set(kinds)


def test_the_state_of_the_item_that_a_sentence_is_about_is_known(client: Client) -> None:
    about = [each for each in everything(client, "/streams") if each["item"] is not None]
    assert len(about) > 3
    for each in about:
        item = get(client, f"/items/{each['item']}")
        assert (each["sentence"], each["item_state"]) == (item["sentence"], item["state"])
    assert {each["item_state"] for each in everything(client, "/streams")} >= {"", "open"}


def test_the_worst_ratio_comes_first_and_streams_without_one_last(client: Client) -> None:
    ratios = [each["ratio"] for each in everything(client, "/streams", sort="ratio")]
    known = [each for each in ratios if each is not None]
    assert known == sorted(known, reverse=True) and ratios[len(known) :] == [None] * 8


def test_streams_are_found_by_a_part_of_the_name_in_any_case(client: Client) -> None:
    found = everything(client, "/streams", search="PRESS-0017")
    assert [each["name"] for each in found] == ["hall-05/press-0017"]
    assert get(client, "/streams", search="no such")["items"] == []


def test_streams_are_filtered_by_state_and_need(client: Client, service: FakeService) -> None:
    live = {each.id for each in service.streams() if each.state == "live"}
    assert {each["id"] for each in everything(client, "/streams", state="live")} == live
    several = everything(client, "/streams", state="fitting,collecting")
    assert {each["state"] for each in several} == {"fitting", "collecting"}
    needing = everything(client, "/streams", attention="any")
    quiet = everything(client, "/streams", attention="none")
    assert all(each["attention"] for each in needing)
    assert not any(each["attention"] for each in quiet)
    assert len(needing) + len(quiet) == 120


def test_a_list_says_how_many_there_are(client: Client) -> None:
    page = get(client, "/streams", limit=3, search="hall-01")
    assert (page["total"], page["streams"], len(page["items"])) == (10, 120, 3)
    assert page["counts"]["live"] == sum(
        each["state"] == "live" for each in everything(client, "/streams")
    )


def test_an_offset_skips_entries(client: Client) -> None:
    whole = everything(client, "/streams", sort="name")
    assert get(client, "/streams", sort="name", offset=40, limit=5)["items"] == whole[40:45]
    assert get(client, "/streams", offset=1000)["items"] == []


def test_a_list_takes_less_than_750_bytes_a_stream() -> None:
    with Client(FakeService(2000)) as client:
        size = 0
        cursor: str | None = None
        for _ in range(4):
            more: dict[str, str] = {} if cursor is None else {"cursor": cursor}
            answer = client.get(f"{API}/streams", params={"limit": 500, **more})
            size += len(answer.content)
            cursor = answer.json()["cursor"]
        assert cursor is None and size < 750 * 2000


def test_a_stream_is_found_by_number_and_by_name(client: Client, service: FakeService) -> None:
    view = service.views[17]
    found = get(client, "/streams/17")
    assert found["channels"] == list(view.channels)
    assert found["channel_count"] == len(view.channels)
    assert found["newest"] == "2026-01-03T07:33:10Z" and found["period"] == 10
    assert get(client, f"/streams/by-name/{view.name}") == found


def test_a_number_that_is_not_finite_is_null(client: Client, service: FakeService) -> None:
    assert math.isnan(service.views[100].ratio)
    assert get(client, "/streams/100")["ratio"] is None


@pytest.mark.parametrize("path", ["/streams/999", "/streams/-1", f"/streams/{10**30}"])
def test_an_unknown_stream_is_not_found(client: Client, path: str) -> None:
    for suffix in ("", "/series", "/picture", "/models"):
        found = get(client, path + suffix, 404)
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
    client: Client, parameters: dict[str, str], message: str
) -> None:
    assert message in get(client, "/streams", 422, **parameters)["error"]


def test_a_cursor_of_another_order_is_refused(client: Client) -> None:
    cursor = get(client, "/streams", sort="name", limit=1)["cursor"]
    assert "cursor" in get(client, "/streams", 422, sort="attention", cursor=cursor)["error"]


# --- series and pictures


def test_a_series_has_the_columns_that_a_picture_asks_for(client: Client) -> None:
    found = get(client, "/streams/17/series", points=50)
    names = {"score", "threshold", "ratio"}
    for k in range(3):
        names |= {f"{kind}:{k}" for kind in ("low", "high", "expected", "least", "most", "ratio")}
    assert set(found["columns"]) == names
    assert {len(each) for each in found["columns"].values()} == {len(found["x"])}
    assert 50 <= len(found["x"]) <= 100 and found["per"] == 256 and found["exact"] is False
    assert found["x"] == sorted(found["x"]) and found["x"][0] == START / SECOND


def test_a_series_of_some_channels_keeps_their_positions(client: Client) -> None:
    by_name = get(client, "/streams/17/series", channels="vibration")
    assert "low:2" in by_name["columns"] and "low:0" not in by_name["columns"]
    assert get(client, "/streams/17/series", channels="2") == by_name
    both = get(client, "/streams/17/series", channels="vibration,temperature")
    assert {"low:0", "low:2"} <= set(both["columns"])
    none = get(client, "/streams/17/series", channels="")["columns"]
    assert none.keys() == {"score", "threshold", "ratio"}
    assert "channels" in get(client, "/streams/17/series", 422, channels="speed")["error"]


def test_a_series_of_a_range_takes_times_in_any_way(client: Client) -> None:
    begin, end = START + 100 * PERIOD, START + 110 * PERIOD
    texts = get(
        client,
        "/streams/17/series",
        200,
        **{"from": "2026-01-01T00:16:40Z", "to": "2026-01-01T01:18:20+01:00"},
    )
    span = {"from": begin // SECOND, "to": end / SECOND}
    numbers = get(client, "/streams/17/series", 200, **span)
    assert texts == numbers and len(texts["x"]) == 11 and texts["per"] == 1
    assert get(client, "/streams/17/series", **{"from": end // SECOND, "to": 0})["x"] == []
    assert (
        "from: expected a time" in get(client, "/streams/17/series", 422, **{"from": "x"})["error"]
    )


def test_a_stream_without_samples_has_an_empty_series(client: Client, service: FakeService) -> None:
    client.post(f"{API}/samples", json={"stream": "new", "time": 0, "values": {"a": 1}})
    view = service.stream_named("new")
    assert view is not None
    assert get(client, f"/streams/{view.id}/series")["x"] == []
    picture = get(client, f"/streams/{view.id}/picture")
    assert picture["stream"]["alarms"] == [] and picture["stream"]["start"] is None


def test_where_samples_are_missing_a_line_is_broken() -> None:
    import numpy as np

    from newnormal.engine.values import ThinnedSeries
    from newnormal.service.api.pictures import series_json

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
    import numpy as np

    from newnormal.service.api.pictures import _column

    values = 1e9 + np.array([0.25, 0.5, np.nan, np.inf])
    np.testing.assert_array_equal(_column(values, np.zeros(0, np.int64)), values)


def test_a_picture_has_what_a_report_has(client: Client, service: FakeService) -> None:
    service.inject_change(17, back=500)
    service.inject_change(17, back=2000, state="accepted")
    found = get(client, "/streams/17/picture")
    assert found["axis"] == {"kind": "time", "zone": "UTC"}
    stream = found["stream"]
    assert stream["status"] == "in alarm" and stream["blocks"] == [] and stream["labels"] is None
    assert stream["start"] == START // SECOND
    assert stream["channels"][0] == {"name": "temperature", "concern": 0.9}
    assert stream["channels"][2]["concern"] == 1.0
    (alarm,) = stream["alarms"]
    assert alarm["open"] and alarm["end"] == stream["end"]  # it goes on
    assert (alarm["samples"], alarm["lasted"]) == (41, "6.8 min")
    assert alarm["since"] == "2026-01-03 07:26:30Z" and alarm["evidence"][0]["direction"] == "high"
    pending, accepted = sorted(stream["changes"], key=lambda each: each["state"], reverse=True)
    assert pending["steps"] == [[pending["steps"][0][0], "pending"]]
    assert pending["end"] == stream["end"]
    assert [each[1] for each in accepted["steps"]] == ["pending", "accepted"]
    assert accepted["end"] == accepted["steps"][1][0]


def test_a_picture_of_a_range_has_what_happened_in_it(client: Client, service: FakeService) -> None:
    service.close_alarm(service.inject_alarm(17, back=15_000, length=10).key)
    early = get(client, "/streams/17/picture", to=(START + 10_000 * PERIOD) // SECOND)
    assert [each["number"] for each in early["stream"]["alarms"]] == [2]


# --- what people ask for


def test_a_stream_is_fitted_again_and_the_old_model_can_be_restored(client: Client) -> None:
    assert client.post(f"{API}/streams/17/refit").json() == {"done": True}
    found = get(client, "/streams/17/models")
    assert [each["generation"] for each in found["items"]] == [2, 1]
    assert found["items"][1]["fitted"] == "2026-01-01T02:46:40Z" and "file" not in found["items"][0]
    assert client.post(f"{API}/streams/17/models/1/restore").status_code == 200
    refused = client.post(f"{API}/streams/17/models/9/restore")
    assert refused.status_code == 409 and "generation 9" in refused.json()["error"]


@pytest.mark.parametrize(
    "body",
    [{"first": -1}, {"first": "0"}, {"last": 10**9}, {"first": 5, "last": 4}, {"first": True}, []],
)
def test_samples_to_fit_must_be_there(client: Client, body: Any) -> None:
    refused = client.post(f"{API}/streams/17/refit", json=body)
    assert refused.status_code == 422 and refused.json()["hint"]


def test_the_last_accepted_change_is_undone(client: Client, service: FakeService) -> None:
    refused = client.post(f"{API}/streams/17/undo", json={})
    assert refused.status_code == 409
    assert refused.json()["error"] == "there is nothing to roll back"
    service.inject_change(17, state="accepted")
    found = client.post(f"{API}/streams/17/undo", json={"comment": "the wrong one"}).json()
    assert found["item"]["state"] == "rejected"


def test_a_removed_stream_is_gone(client: Client) -> None:
    assert client.delete(f"{API}/streams/17").json() == {"done": True}
    get(client, "/streams/17", 404)


def test_what_takes_too_long_is_a_503_that_says_it_goes_on(
    client: Client, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    from concurrent.futures import Future

    from newnormal.service.api import streams

    monkeypatch.setattr(streams, "_APPLIED", 0.01)
    monkeypatch.setattr(service, "remove", lambda number: Future())
    found = client.delete(f"{API}/streams/17")
    assert found.status_code == 503 and found.headers["retry-after"] == "10"
    assert "it is logged, and will be done" in found.json()["error"]


def test_all_of_two_thousand_streams_in_lists_are_less_than_a_megabyte() -> None:
    size = 0
    with Client(FakeService(2_000)) as client:
        for offset in range(0, 2_000, 100):
            size += len(client.get(f"{API}/streams?limit=100&offset={offset}").content)
    assert size < 1_000_000
