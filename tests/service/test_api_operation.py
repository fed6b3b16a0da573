"""The page's files, health, metrics, settings, maintenance, and the OpenAPI document."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from newnormal.service import metrics
from newnormal.service.config import SinkConfig, SourceConfig, TokenConfig, hash_token
from newnormal.service.service import Service
from tests.present import present
from tests.service.asgi import API, Client, get
from tests.service.plant import (
    ALARM,
    ALARMED,
    COLLECTING,
    HISTORY,
    INCIDENT,
    STREAMS,
    plant,
    stream_name,
)
from tests.service.test_api_access import NEEDED, PUBLIC


@pytest.fixture
def service() -> Iterator[Service]:
    with plant() as made:
        yield made


# --- the page


def test_the_page_and_its_files_come_with_a_tag_that_spares_the_second_time(reader: Client) -> None:
    for path, kind in (
        ("/", "text/html; charset=utf-8"),
        ("/static/picture.js", "text/javascript; charset=utf-8"),
        ("/static/page.css", "text/css; charset=utf-8"),
        ("/static/uPlot.iife.min.js", "text/javascript; charset=utf-8"),
    ):
        found = reader.get(path)
        assert found.status_code == 200 and found.headers["content-type"] == kind
        again = reader.get(path, headers={"if-none-match": found.headers["etag"]})
        assert again.status_code == 304 and not again.content
        assert reader.request("HEAD", path).status_code == 200


@pytest.mark.parametrize(
    "name",
    [
        *("nothing.js", "..%2f..%2fconfig.py", "%2e%2e", ".", "__init__.py", "README.md"),
        *("LICENSE", "page%2findex.html", "%00.js", "a" * 300 + ".js"),
    ],
)
def test_only_files_of_the_page_are_given_out(reader: Client, name: str) -> None:
    found = reader.get(f"/static/{name}")
    assert found.status_code == 404 and found.json()["error"]


def test_every_answer_has_the_headers_that_keep_a_browser_safe(reader: Client) -> None:
    for path in ("/", f"{API}/streams", "/metrics", "/nothing", "/healthz", f"{API}/login"):
        headers = reader.get(path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; ")
        assert "frame-ancestors 'none'" in policy and "base-uri 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
    assert "content-security-policy" in reader.get("/", headers={"host": "evil.example"}).headers


def test_what_is_not_there_is_said_in_json(reader: Client) -> None:
    found = reader.get("/api/v2/streams")
    assert found.status_code == 404 and "'/api/v2/streams'" in found.json()["error"]
    found = reader.request("PUT", f"{API}/streams")
    assert found.status_code == 405
    assert found.json()["error"] == "/api/v1/streams: expected GET, found PUT"
    assert reader.get(f"{API}/streams/").status_code == 404


def test_an_error_that_nobody_thought_of_tells_nothing_of_the_program(
    service: Service, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> Any:
        raise RuntimeError("the secret path /var/x")

    monkeypatch.setattr(service, "streams", broken)
    with Client(service) as client, pytest.raises(RuntimeError):
        client.get(f"{API}/streams")
    assert "the secret path" in caplog.text


# --- health and settings


def test_a_service_that_is_not_ready_says_so(client: Client, service: Service) -> None:
    assert client.get("/readyz").json() == {"status": "ok"}
    service.ready = False
    found = client.get("/readyz")
    assert found.status_code == 503 and found.headers["retry-after"] == "2"
    assert client.get("/healthz").json() == {"status": "ok"}


def test_a_log_that_cannot_be_written_says_so(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert measured(client.get("/metrics").text)["newnormal_ready"][0].value == 1
    monkeypatch.setattr(Service, "writable", False)
    found = client.get("/readyz")
    assert found.status_code == 503 and found.headers["retry-after"] == "2"
    assert found.json()["error"] == "expected a log that can be written, found one that cannot"
    assert measured(client.get("/metrics").text)["newnormal_ready"][0].value == 0


def test_before_the_store_is_open_everything_else_waits(service: Service) -> None:
    with Client(service) as client:
        service.store = None  # type: ignore[assignment]
        found = client.get(f"{API}/streams")
        assert found.status_code == 503 and "found one that starts" in found.json()["error"]
        assert client.get("/healthz").status_code == 200


def test_health_has_every_part(client: Client, service: Service) -> None:
    service.report("sinks", False, "chat: 500")
    found = client.get(f"{API}/health").json()
    assert found["status"] == "degraded" and found["version"]
    assert found["parts"]["sinks"] == {"ok": False, "message": "chat: 500"}


def test_settings_have_no_secret(client: Client, service: Service) -> None:
    service.config = replace(
        service.config,
        tokens=(TokenConfig("me", "operate", hash_token("nn_me")),),
        sinks=(SinkConfig("chat", "webhook", {"url": "https://x/secret-1", "secret": "secret-2"}),),
        sources=(SourceConfig("bus", "mqtt", {"password": "secret-3"}),),
    )
    found = client.get(f"{API}/settings", headers={"authorization": "Bearer nn_me"})
    assert "secret-" not in found.text and "sha256" not in found.text
    body = found.json()
    assert body["tokens"] == [{"name": "me", "role": "operate"}]
    assert body["sinks"] == [{"name": "chat", "kind": "webhook"}]
    assert body["sources"] == [{"name": "bus", "kind": "mqtt"}]
    assert body["limits"]["streams"] == 10_000 and body["streams"]["history"] == HISTORY


def test_settings_say_how_fast_simulated_machines_are(client: Client, service: Service) -> None:
    assert get(client, "/settings")["simulated"] is None
    service.config = replace(service.config, demo=True)
    assert get(client, "/settings")["simulated"] == {"machines": 20, "minutes_a_second": 20}


def test_alerts_have_every_sink(
    client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    sinks = (SinkConfig("chat", "webhook"), SinkConfig("mail", "smtp"))
    service.config = replace(service.config, sinks=sinks)
    counts = {"waiting": 2, "delivered": 5, "failing": 1, "oldest": 1_767_225_600 * 10**9}
    monkeypatch.setattr(service.store.outbox, "counts", lambda: {"chat": counts})
    found = client.get(f"{API}/alerts").json()["sinks"]
    assert found["chat"]["oldest"] == "2026-01-01T00:00:00Z" and found["chat"]["waiting"] == 2
    assert found["mail"] == {"kind": "smtp", "waiting": 0, "delivered": 0, "failing": 0}


# --- maintenance


def test_a_maintenance_window_is_made_listed_and_removed(client: Client) -> None:
    made = client.post(
        f"{API}/maintenance",
        json={"begin": "2026-01-01T00:00:00Z", "end": 1767229200, "streams": "press-*"},
    )
    assert made.status_code == 201
    assert (made.json()["end"], made.json()["who"]) == ("2026-01-01T01:00:00Z", "local")
    assert client.get(f"{API}/maintenance").json()["items"] == [made.json()]
    assert made.json()["active"] is False
    now = client.post(f"{API}/maintenance", json={"end": "2200-01-01", "reason": "new pump"})
    assert now.json()["active"] is True and now.json()["streams"] == "*"
    assert client.delete(f"{API}/maintenance/{made.json()['id']}").json() == {"done": True}
    assert client.delete(f"{API}/maintenance/{made.json()['id']}").status_code == 404
    assert client.get(f"{API}/maintenance").json()["items"] == [now.json()]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "end: expected a value, found none"),
        ({"end": "soon"}, "end: expected a time, found 'soon'"),
        ({"end": None}, "end: expected a time, found None"),
        ({"end": [1]}, "end: expected a time"),
        ({"begin": 100, "end": 50}, "expected an end after the beginning"),
        ({"end": "2200-01-01", "streams": 5}, "streams: expected text, found 5"),
        ({"end": "2200-01-01", "streams": ""}, "streams: expected 1 to 500 characters"),
        ({"end": "2200-01-01", "reason": "a" * 501}, "reason: expected 0 to 500 characters"),
    ],
)
def test_a_maintenance_window_ends_after_it_began(reader: Client, body: Any, message: str) -> None:
    found = reader.post(f"{API}/maintenance", json=body)
    assert found.status_code == 422 and message in found.json()["error"]


# --- metrics


def measured(text: str) -> dict[str, list[Any]]:
    return {each.name: each.samples for each in text_string_to_metric_families(text)}


def test_metrics_have_what_a_dashboard_needs(
    client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = {"waiting": 2, "delivered": 5, "failing": 0}
    monkeypatch.setattr(service.store.outbox, "counts", lambda: {"chat": counts})
    found = client.get("/metrics")
    assert found.headers["content-type"].startswith("text/plain")
    values = measured(found.text)
    by_stream = {each.labels["stream"]: each.value for each in values["newnormal_score_ratio"]}
    assert by_stream[stream_name(ALARMED)] == present(service.stream(ALARMED)).ratio > 2
    states = {each.labels["state"] for each in values["newnormal_stream_state"]}
    assert states == {"live", "fitting", "collecting", "failed"}
    assert values["newnormal_alarms_open"][0].value == len(INCIDENT) + 1
    for metric in (
        *("newnormal_distance", "newnormal_lag_seconds", "newnormal_samples", "newnormal_alarms"),
        *("newnormal_healthy", "newnormal_log_lag_seconds", "newnormal_samples_dropped"),
        *("newnormal_alerts", "newnormal_streams", "newnormal_ready"),
    ):
        assert values[metric], metric
    assert "newnormal_samples_total{" in found.text
    assert values["newnormal_streams_left_out"][0].value == 0


def test_a_stream_without_a_score_has_no_ratio(reader: Client) -> None:
    values = measured(reader.get("/metrics").text)
    names = {each.labels["stream"] for each in values["newnormal_score_ratio"]}
    assert stream_name(COLLECTING) not in names and "NaN" not in reader.get("/metrics").text


def test_of_many_streams_those_that_need_attention_are_measured(reader: Client) -> None:
    text, _ = metrics.exposition(reader.service, most=8)
    values = measured(text.decode())
    assert len(values["newnormal_stream_state"]) == 8
    assert values["newnormal_streams_left_out"][0].value == STREAMS - 8
    alarming = {stream_name(each) for each in (*INCIDENT, ALARMED)}
    assert alarming <= {each.labels["stream"] for each in values["newnormal_stream_state"]}
    assert sum(each.value for each in values["newnormal_streams"]) == STREAMS


def test_the_lag_of_a_stream_is_the_age_of_its_newest_sample(reader: Client) -> None:
    newest = present(present(reader.service.stream(ALARMED)).newest)
    text, _ = metrics.exposition(reader.service, clock=lambda: newest + 90 * 10**9)
    lags = {e.labels["stream"]: e.value for e in measured(text.decode())["newnormal_lag_seconds"]}
    assert lags[stream_name(ALARMED)] == 90


# --- the OpenAPI document


@pytest.fixture
def document(reader: Client) -> Any:
    return reader.get(f"{API}/openapi.json").json()


def test_the_document_has_every_route(document: Any) -> None:
    found = {(method.upper(), path) for path, each in document["paths"].items() for method in each}
    expected = {
        (method, path.replace("{name:path}", "{name}"))
        for method, path in PUBLIC | set(NEEDED)
        if method != "HEAD" and not path.startswith(("/static", f"{API}/openapi")) and path != "/"
    }
    assert found == expected


def test_the_document_describes_every_parameter_answer_and_body(document: Any) -> None:
    import re

    operations = set()
    for path, each in document["paths"].items():
        for method, operation in each.items():
            where = f"{method} {path}"
            assert operation["operationId"] not in operations
            operations.add(operation["operationId"])
            assert operation.get("description"), where
            named = {p["name"] for p in operation.get("parameters", []) if p["in"] == "path"}
            assert named == set(re.findall(r"{(\w+)}", path)), where
            good = [status for status in operation["responses"] if status.startswith("2")]
            assert len(good) == 1, where
            assert good == ["204"] or operation["responses"][good[0]]["content"], where
    for reference in set(re.findall(r'"#/([^"]+)"', json.dumps(document))):
        place = document
        for part in reference.split("/"):
            place = place[part]


def test_the_document_is_valid(document: Any) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    assert document["openapi"].startswith("3.1")
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize(
    "path",
    [
        *("/streams?limit=3", "/streams/17", "/streams/17/series?points=5", "/streams/17/picture"),
        *("/streams/17/models", "/items?limit=3", f"/items/{ALARM}", "/items/incident-1"),
        *("/events.json", "/health", "/settings", "/alerts", "/maintenance", "/session"),
    ],
)
def test_answers_are_as_the_document_says(reader: Client, document: Any, path: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    template = API + path.partition("?")[0]
    for value, part in ((ALARM, "{key}"), ("17", "{id}"), ("incident-1", "{key}")):
        template = template.replace(value, part)
    answer = document["paths"][template]["get"]["responses"]["200"]
    schema = {
        **answer["content"]["application/json"]["schema"],
        "components": document["components"],
    }
    jsonschema.Draft202012Validator(schema).validate(reader.get(API + path).json())
