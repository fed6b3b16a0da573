"""The webhook: what it posts, how it is signed, and what it makes of each answer."""

import hashlib
import hmac
import json
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from newnormal.engine.store import Store
from newnormal.errors import ParameterError
from newnormal.io.http import connection_hint
from newnormal.io.options import Options
from newnormal.io.registry import ALERT_SINKS
from newnormal.io.sinks.alerts import Alert, AlertRefusedError, SinkDownError
from newnormal.io.sinks.http import HttpAnswer, HttpReceiver
from newnormal.io.sinks.webhook import WebhookSink, signature
from newnormal.service.config import SinkConfig
from newnormal.service.connectors import make_sink
from newnormal.service.sinks import Sinks
from newnormal.testing import check_alert_sink
from tests.errors import raised
from tests.http_server import Request
from tests.service.receiver import Receiver

NOW = 1_800_000_000.0
ALERT = Alert(
    "alarm-1-1-1:fired",
    {
        "key": "alarm-1-1-1:fired",
        "item": "alarm-1-1-1",
        "status": "fired",
        "sentence": "température 90",
        "streams": ["press-1"],
        "opened": "2027-01-15T08:00:00Z",
    },
)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


def sink_for(receiver: Receiver, **options: Any) -> WebhookSink:
    options = {"url": receiver.url, **options}
    return receiver.closing(WebhookSink("chat", options, clock=lambda: NOW))


def test_an_alert_is_posted_as_json_with_its_key(receiver: Receiver) -> None:
    sink_for(receiver).send(ALERT)
    [request] = receiver.requests
    assert request.method == "POST"
    assert request.json == ALERT.body
    assert request.key == "alarm-1-1-1:fired"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["user-agent"] == "newnormal"
    assert "x-newnormal-signature" not in request.headers
    assert "authorization" not in request.headers


def test_a_receiver_can_verify_the_signature(receiver: Receiver) -> None:
    sink_for(receiver, secret="swordfish", token="nn_1").send(ALERT)
    [request] = receiver.requests
    timestamp = request.headers["x-newnormal-timestamp"]
    assert timestamp == "1800000000"
    message = timestamp.encode() + b"." + request.body
    ref = hmac.new(b"swordfish", message, hashlib.sha256).hexdigest()
    assert request.headers["x-newnormal-signature"] == f"sha256={ref}"
    assert signature("swordfish", timestamp, request.body) == f"sha256={ref}"
    assert signature("swordfish", timestamp, request.body + b" ") != f"sha256={ref}"
    assert request.headers["authorization"] == "Bearer nn_1"


@pytest.mark.parametrize("status", [200, 201, 202, 204])
def test_any_status_2xx_means_that_it_was_taken(receiver: Receiver, status: int) -> None:
    receiver.answer = lambda _: (status, {})
    sink_for(receiver).send(ALERT)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (500, "expected a status 2xx, found 500 Internal Server Error"),
        (503, "found 503 Service Unavailable"),
        (429, "found 429 Too Many Requests"),
        (401, "found 401 Unauthorized"),
        (404, "found 404 Not Found"),
        (410, "found 410 Gone"),
        (408, "found 408 Request Timeout"),
    ],
)
def test_a_broken_receiver_takes_nothing(receiver: Receiver, status: int, message: str) -> None:
    receiver.answer = lambda _: (status, {})
    with pytest.raises(SinkDownError, match=message):
        sink_for(receiver).send(ALERT)


@pytest.mark.parametrize("status", [400, 409, 413, 422])
def test_a_receiver_may_refuse_an_alert_in_its_own_words(receiver: Receiver, status: int) -> None:
    receiver.answer = lambda _: (status, {})
    with pytest.raises(AlertRefusedError, match=f"found {status} .*: seen by the <receiver>"):
        sink_for(receiver).send(ALERT)


def test_redirections_are_not_followed(receiver: Receiver) -> None:
    receiver.answer = lambda _: (307, {"Location": "http://169.254.169.254/latest"})
    error = raised(SinkDownError, lambda: sink_for(receiver).send(ALERT))
    assert error.hint == "redirections are not followed: set the new address"
    assert len(receiver.requests) == 1


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("120", 120.0),
        ("1000000", 3600.0),
        ("-5", 0.0),
        ("Fri, 15 Jan 2027 08:02:00 GMT", 120.0),
        ("soon", None),
    ],
)
def test_a_receiver_may_ask_for_a_wait(receiver: Receiver, text: str, after: float | None) -> None:
    receiver.answer = lambda _: (503, {"Retry-After": text})
    assert raised(SinkDownError, lambda: sink_for(receiver).send(ALERT)).after == after


def test_a_receiver_that_is_gone_is_asked_once_an_hour(receiver: Receiver) -> None:
    receiver.answer = lambda _: (410, {})
    with pytest.raises(SinkDownError, match="410 Gone") as caught:
        sink_for(receiver).send(ALERT)
    assert caught.value.after == 3600.0
    assert "remove the sink" in str(caught.value.hint)


def test_a_receiver_that_is_not_there_is_an_error_without_the_address(receiver: Receiver) -> None:
    with Receiver() as gone:
        url = gone.url + "/key-that-is-a-secret"
    with pytest.raises(SinkDownError, match=r"127\.0\.0\.1: expected an answer, found") as caught:
        sink_for(receiver, url=url).send(ALERT)
    assert "secret" not in str(caught.value)


def test_a_receiver_of_another_protocol_or_not_trusted_is_named_so(receiver: Receiver) -> None:
    plain = httpx.ConnectError("no")
    plain.__context__ = ssl.SSLError("wrong version number")
    assert connection_hint(plain, "it") == (
        "does it speak HTTPS there? If not, begin the address with http://"
    )
    untrusted = httpx.ConnectError("no")
    untrusted.__cause__ = ssl.SSLCertVerificationError("self-signed certificate")
    assert connection_hint(untrusted, "it") == (
        "set ca_file to the certificate that signed this one, if it is to be trusted"
    )
    assert connection_hint(httpx.ConnectError("no"), "it") == "it is down or cannot be reached"
    answer = HttpAnswer(400, "Bad Request", "Client sent an HTTP request to an HTTPS server.", None)
    http = HttpReceiver(Options("sink chat", {"timeout": "1s"}), receiver.url)
    error = raised(SinkDownError, lambda: http.judge(answer))
    assert error.hint == "begin the address with https://"
    http.close()


def test_a_receiver_that_is_too_slow_is_an_error(receiver: Receiver) -> None:
    release = threading.Event()

    def answer(_: Request) -> tuple[int, dict[str, str]]:
        release.wait(60)
        return 200, {}

    receiver.answer = answer
    with pytest.raises(SinkDownError, match="expected an answer in time, found none"):
        sink_for(receiver, timeout="100ms").send(ALERT)
    release.set()


def test_a_sink_that_was_closed_raises_and_does_not_hang(receiver: Receiver) -> None:
    sink = sink_for(receiver)
    sink.close()
    with pytest.raises(SinkDownError, match="RuntimeError"):
        sink.send(ALERT)


def test_the_webhook_passes_its_own_check(receiver: Receiver) -> None:
    with Receiver() as other:
        nobody = other.url
    check_alert_sink(
        lambda: WebhookSink("chat", {"url": receiver.url, "secret": "s"}),
        received=lambda: receiver.keys,
        down=lambda: WebhookSink("chat", {"url": nobody}),
    )


def test_the_check_asks_without_delivering(receiver: Receiver) -> None:
    receiver.answer = lambda _: (405, {})
    found = sink_for(receiver, secret="s").check()
    assert found == "127.0.0.1 answers (status 405); alerts are signed"
    assert [each.method for each in receiver.requests] == ["HEAD"]
    assert sink_for(receiver).check().endswith("not signed")


def test_secrets_come_from_files_and_the_environment(
    receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK", receiver.url)
    monkeypatch.setenv("TOKEN", "nn_1")
    (tmp_path / "secret").write_text("swordfish\n")
    config = SinkConfig(
        "chat",
        "webhook",
        {"url_env": "HOOK", "secret_file": str(tmp_path / "secret"), "token_env": "TOKEN"},
    )
    sink = make_sink(config)
    sink.send(ALERT)
    sink.close()
    [request] = receiver.requests
    assert request.headers["authorization"] == "Bearer nn_1"
    timestamp = request.headers["x-newnormal-timestamp"]
    assert request.headers["x-newnormal-signature"] == signature(
        "swordfish", timestamp, request.body
    )


def test_a_kind_that_is_not_there_is_named() -> None:
    assert str(raised(ParameterError, lambda: make_sink(SinkConfig("chat", "pigeon", {})))) == (
        f"alert sink: expected {', '.join(sorted(ALERT_SINKS))} or package.module:Class, "
        "found 'pigeon'\n"
        "hint: an installed package can add names with entry points of the group "
        "newnormal.alert_sinks; remote_write takes scores"
    )


def test_a_receiver_that_honours_keys_has_alerts_once(receiver: Receiver, tmp_path: Path) -> None:
    """Every other request is taken, but answered with an error: the alert comes again."""
    keys = [f"{item}:{status}" for item in range(10) for status in ("fired", "resolved")]
    done = threading.Event()

    def answer(request: Request) -> tuple[int, dict[str, str]]:
        receiver.take(request.key)
        if len(receiver.seen) == len(keys) and len(receiver.requests) % 2 == 0:
            done.set()
        return (500, {}) if len(receiver.requests) % 2 else (200, {})

    receiver.answer = answer
    store = Store(tmp_path / "store.sqlite")
    for key in keys:
        item, _, status = key.partition(":")
        body = {**ALERT.body, "key": key, "item": item, "status": status}
        store.outbox.put(key, "chat", body)
    store.commit()
    ahead = iter(range(10**9))
    delivery = Sinks([], store, lambda *_: None, lambda: next(ahead) * 10**9)
    try:
        delivery.start([SinkConfig("chat", "webhook", {"url": receiver.url})])
        while store.outbox.counts()["chat"]["waiting"]:
            delivery.wake()
            done.wait(0.01)
    finally:
        delivery.stop()
        store.close()
    assert sorted(receiver.seen) == sorted(keys)
    for number in range(10):
        fired, resolved = f"{number}:fired", f"{number}:resolved"
        assert receiver.seen.index(fired) < receiver.seen.index(resolved)
    repeated = [key for key in keys if receiver.keys.count(key) > 1]
    assert repeated
    bodies = {each.key: json.dumps(each.json) for each in receiver.requests}
    assert all(json.dumps(each.json) == bodies[each.key] for each in receiver.requests)
