"""Limits on bodies, decompression, rates and subscribers."""

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from newnormal.service.api import bodies
from newnormal.service.api.access import Guard
from newnormal.service.api.problems import HttpProblem
from newnormal.service.limits import Lease, SharedLimit
from tests.errors import raised
from tests.service.asgi import API, Client, run_apart
from tests.service.plant import ALARM, plant

LIMITS = {"max_body": 2_000, "decompressed": 5_000, "samples_per_request": 10, "channels": 4}
SAMPLE = {"stream": "a", "time": 0, "values": {"x": 1}}


@pytest.fixture
def client() -> Iterator[Client]:
    with plant(empty=True, limits=LIMITS) as service, Client(service) as made:
        yield made


def room() -> Lease:
    return SharedLimit("bytes", 0).lease("someone", 10**6)


def push(client: Client, content: Any, **headers: str) -> Any:
    return client.post(f"{API}/samples", content=content, headers=headers)


class Sent:
    """A body in pieces, that knows how many were taken."""

    def __init__(self, piece: bytes, count: int) -> None:
        self.piece, self.count, self.taken = piece, count, 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for _ in range(self.count):
            self.taken += 1
            yield self.piece


def test_a_body_that_is_declared_too_large_is_refused_before_it_is_read(client: Client) -> None:
    body = Sent(b" " * 100, 1000)
    found = push(client, body, **{"content-length": "100000"})
    assert found.status_code == 413
    assert found.json()["error"] == "expected a body of at most 2,000 bytes, found more"
    assert "limits.max_body" in found.json()["hint"]


def test_a_body_without_a_length_is_refused_once_it_is_too_large(client: Client) -> None:
    from starlette.requests import Request

    taken = 0

    async def receive() -> Any:
        nonlocal taken
        taken += 1
        return {"type": "http.request", "body": b" " * 100, "more_body": True}

    request = Request({"type": "http", "method": "POST", "headers": []}, receive)
    error = raised(HttpProblem, lambda: run_apart(bodies.read_body(request, 2_000, room())))
    assert error.status == 413 and taken == 21


def test_a_bomb_is_refused_at_the_limit_and_takes_no_memory(client: Client) -> None:
    bomb = gzip.compress(bytes(1_000_000), mtime=0)
    assert len(bomb) < 2_000
    found = push(client, bomb, **{"content-encoding": "gzip"})
    assert found.status_code == 413
    assert "at most 5,000 bytes once it is decompressed" in found.json()["error"]
    unpack = bodies.Gunzip(5_000)
    with pytest.raises(HttpProblem):
        unpack.pieces(bomb)
    assert unpack._left == -1  # not one byte more than is needed to know


def test_a_bomb_in_many_members_is_refused(client: Client) -> None:
    bomb = gzip.compress(bytes(600), mtime=0) * 30
    assert push(client, bomb, **{"content-encoding": "gzip"}).status_code == 413


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("members", [1, 3])
def test_gzip_is_undone_however_it_is_cut(size: int, members: int) -> None:
    text = json.dumps([SAMPLE] * 20).encode()
    body = b"".join(gzip.compress(text, mtime=0) for _ in range(members)) + b"\0\0"
    unpack = bodies.Gunzip(10**6)
    found = b""
    for at in range(0, len(body), size):
        found += b"".join(unpack.pieces(body[at : at + size]))
    unpack.end()
    assert found == text * members


def test_a_gzipped_sample_is_taken(client: Client) -> None:
    body = gzip.compress(json.dumps(SAMPLE).encode())
    assert push(client, body, **{"content-encoding": "GZIP"}).json()["samples"] == 1


@pytest.mark.parametrize(
    ("body", "encoding", "status", "message"),
    [
        (b"abc", "gzip", 400, "expected a body of gzip, found other bytes"),
        (gzip.compress(b"x" * 500, mtime=0)[:-9], "gzip", 400, "found only its beginning"),
        (gzip.compress(b"{}", mtime=0) + b"rest", "gzip", 400, "expected a body of gzip"),
        (zlib.compress(b"{}"), "deflate", 415, "Content-Encoding: expected gzip or none"),
        (b"{}", "br", 415, "found 'br'"),
        (b"{}", "gzip, gzip", 415, "found 'gzip, gzip'"),
    ],
)
def test_a_body_that_is_compressed_in_another_way_is_refused(
    client: Client, body: bytes, encoding: str, status: int, message: str
) -> None:
    found = push(client, body, **{"content-encoding": encoding})
    assert found.status_code == status and message in found.json()["error"]


@pytest.mark.parametrize("length", ["-1", "1e3", "many", "+5", "9" * 40])
def test_a_length_that_is_none_is_refused(client: Client, length: str) -> None:
    assert push(client, b"{}", **{"content-length": length}).status_code in (400, 413)


def test_a_request_may_bring_so_many_samples_and_channels(client: Client) -> None:
    several = [{**SAMPLE, "time": at} for at in range(11)]
    assert push(client, json.dumps(several[:10])).status_code == 200
    found = push(client, json.dumps(several))
    assert found.status_code == 413
    assert found.json()["error"] == "expected at most 10 samples, found more"
    wide = {**SAMPLE, "values": {f"c{k}": 1 for k in range(5)}}
    found = push(client, json.dumps(wide))
    assert found.status_code == 413 and "at most 4 channels, found 5" in found.json()["error"]


def test_a_small_body_is_limited_by_itself(reader: Client) -> None:
    assert reader.post(f"{API}/items/{ALARM}/accept", content=b" " * 70_000).status_code == 413


@pytest.mark.parametrize(("goes", "status"), [(False, 408), (True, 400)])
def test_a_body_that_does_not_come_is_given_up_and_a_client_that_goes_is_no_error(
    monkeypatch: pytest.MonkeyPatch, goes: bool, status: int
) -> None:
    from starlette.requests import Request

    monkeypatch.setattr(bodies, "_PATIENCE", 10.0 if goes else 0.01)

    async def receive() -> Any:
        return {"type": "http.disconnect"} if goes else await asyncio.Event().wait()

    request = Request({"type": "http", "method": "POST", "headers": []}, receive)
    error = raised(HttpProblem, lambda: run_apart(bodies.read_body(request, 100, room())))
    assert error.status == status


def test_members_that_hold_nothing_do_not_keep_it_busy(client: Client) -> None:
    body = gzip.compress(b"", mtime=0) * 10_001
    limits = {**LIMITS, "max_body": 1 << 20}
    with plant(empty=True, limits=limits) as service, Client(service) as other:
        found = push(other, body, **{"content-encoding": "gzip"})
    assert found.status_code == 413
    assert found.json()["error"] == "expected gzip of at most 10,000 members, found more"


def test_a_request_that_would_take_too_much_memory_is_refused_before_it_is_decoded() -> None:
    limits = {"memory": 1 << 20}
    with plant(empty=True, limits=limits) as service, Client(service) as client:
        found = push(client, b"[" + b"0," * 10_000 + b"0]")
        assert found.status_code == 413 and "raise limits.memory" in found.json()["hint"]
        assert push(client, json.dumps(SAMPLE)).status_code == 200
        assert service.bodies.taken == 0


def test_where_others_take_the_memory_the_same_request_is_asked_for_again() -> None:
    with plant(empty=True) as service, Client(service) as client:
        with service.bodies.lease("127.0.0.1", service.config.limits.memory) as other:
            other.take(service.config.limits.memory // 4)
            body = json.dumps([{**SAMPLE, "time": at} for at in range(2_000)])
            found = push(client, body)
            assert found.status_code == 503 and found.headers["retry-after"] == "1"
            assert "bytes of requests at once of 127.0.0.1" in found.json()["error"]
            assert push(client, json.dumps(SAMPLE)).status_code == 200  # a small one
        assert push(client, body).status_code == 200


# --- rates


def test_a_client_may_make_so_many_requests_a_second_and_others_are_not_concerned() -> None:
    limits = {"requests_per_second": 5}
    with plant(empty=True, limits=limits) as service, Client(service) as client:
        now = [0.0]
        _guard(client)._clock = lambda: now[0]
        statuses = [client.get(f"{API}/session").status_code for _ in range(15)]
        assert statuses == [200] * 10 + [429] * 5
        refused = client.get("/")
        assert refused.headers["retry-after"] == "1"
        assert "at most 5 requests a second" in refused.json()["error"]
        assert client.get("/healthz").status_code == 200
        other = client.another("10.0.0.9")
        assert client.runner.run(other.get("/")).status_code == 200
        client.runner.run(other.aclose())
        now[0] = 1.0
        statuses = [client.get(f"{API}/session").status_code for _ in range(7)]
        assert statuses == [200] * 5 + [429] * 2
        sender = {"X-Prometheus-Remote-Write-Version": "0.1.0"}  # which drops what is answered 429
        assert client.post(f"{API}/write", headers=sender).status_code == 503
        assert client.post("/write").status_code == 503


def test_clients_that_are_counted_are_limited_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    from newnormal.service.api import access

    monkeypatch.setattr(access, "_MOST_CLIENTS", 3)
    with plant(empty=True) as service, Client(service) as client:
        for last in range(6):
            other = client.another(f"10.0.0.{last}")
            client.runner.run(other.get("/healthz"))
            client.runner.run(other.get("/"))
            client.runner.run(other.aclose())
        assert list(_guard(client)._buckets) == ["10.0.0.3", "10.0.0.4", "10.0.0.5"]


def _guard(client: Client) -> Any:
    """Return the guard of an app that has answered once."""
    if client.app.middleware_stack is None:
        client.app.middleware_stack = client.app.build_middleware_stack()
    found: Any = client.app.middleware_stack
    while not isinstance(found, Guard):
        found = found.app
    return found
