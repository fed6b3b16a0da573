"""Malformed requests: a 4xx with a sentence each, no exception, no growth."""

import gc
import json
import random
import socket
import tracemalloc
from collections import Counter
from typing import Any

import pytest

from newnormal.service.config import Limits
from tests.fuzz.requests import ROUTES, Request, ask, request_of
from tests.service.asgi import app_of, run_apart, served
from tests.service.running import HISTORY, Start, arrival, go_live, push, samples

_GROWTH = 300_000  # bytes of the API's own objects
LIMITS = Limits(
    requests_per_second=1e9,
    max_body=100_000,
    decompressed=200_000,
    samples_per_request=1_000,
    channels=50,
)


def checked(request: Request, status: int, headers: dict[str, str], body: bytes) -> None:
    assert 200 <= status < 500, (request, status, body)
    assert headers["x-content-type-options"] == "nosniff"
    if status >= 400 and request.method != "HEAD":
        assert headers["content-type"] == "application/json", request
        found = json.loads(body)
        assert set(found) == {"error", "hint"} and found["error"], request
        assert len(body) < 2_000, request


@pytest.mark.cases(2_000, 100_000)
def test_malformed_requests_are_refused_in_a_sentence_and_leave_nothing_behind(
    start: Start, cases: range
) -> None:
    statuses: Counter[int] = Counter()
    sizes: list[int] = []

    def size() -> int:
        gc.collect()
        kept = tracemalloc.take_snapshot().filter_traces(
            [tracemalloc.Filter(True, f"*{part}*") for part in ("service/api", "io/decoders")]
        )
        return sum(each.size for each in kept.statistics("filename"))

    async def run() -> None:
        for seed in cases:
            if (seed - cases.start) % 200 == 0:  # others may have been removed
                for stream in range(25):
                    body = b'{"stream": "s%d", "time": %d, "values": {"x": 1}}' % (stream, seed)
                    host = (b"host", b"127.0.0.1")
                    pushed = Request("POST", b"/api/v1/samples", b"", [host], [body])
                    assert (await ask(app, pushed))[0] == 200
            request = request_of(seed)
            status, headers, body = await ask(app, request)
            checked(request, status, headers, body)
            statuses[status] += 1
            if seed in (cases[len(cases) // 2], cases[-1]):
                sizes.append(size())

    with start(limits=LIMITS) as service, app_of(service) as app:
        go_live(service, "m/1")
        push(service, arrival(HISTORY, samples(HISTORY, 60) + 9.0, "m/1"))  # an alarm, and a change
        tracemalloc.start()
        try:
            run_apart(run())
        finally:
            tracemalloc.stop()
        assert sizes[1] - sizes[0] < _GROWTH
        assert len(service.hub) == 0 and app.state.seats == set()
        health = service.health()
        assert health["status"] == "ok", health
    # They go far enough to matter: some succeed, and every kind of refusal is met.
    assert statuses[200] > len(cases) // 20
    assert {400, 403, 404, 405, 409, 413, 415, 421, 422} <= set(statuses)


def test_the_requests_meet_every_route_and_are_the_same_for_the_same_seed() -> None:
    beginnings = Counter(request_of(seed).path.decode("latin-1") for seed in range(3_000))
    for _, path in ROUTES:
        plain = path.partition("{")[0]
        assert any(each.startswith(plain) for each in beginnings), path
    assert request_of(5) == request_of(5) != request_of(6)


def raw(seed: int) -> bytes:
    """Return bytes that are nearly HTTP."""
    draw = random.Random(seed)
    request = request_of(seed)
    lines = [request.method.encode() + b" " + request.path + b"?" + request.query + b" HTTP/1.1"]
    lines += [k + b": " + v for k, v in request.headers]
    body = b"".join(request.pieces)
    if not any(k == b"content-length" for k, _ in request.headers):
        lines.append(b"content-length: %d" % len(body))
    lines.append(b"connection: close")
    text = b"\r\n".join(lines) + b"\r\n\r\n" + body
    for _ in range(draw.choice((0, 1, 3))):
        at = draw.randrange(len(text))
        text = text[:at] + bytes([draw.randrange(256)]) + text[at + draw.choice((0, 1)) :]
    return text


def answered(address: tuple[str, int], text: bytes) -> bytes:
    """Return how the server's answer begins; the sender ends its side."""
    with socket.create_connection(address, timeout=10) as connection:
        try:
            connection.sendall(text)
            connection.shutdown(socket.SHUT_WR)
            return connection.recv(64)
        except OSError:  # it was refused before all was sent
            return b""


@pytest.mark.cases(200, 5_000)
def test_bytes_that_are_nearly_http_get_no_5xx_and_the_server_goes_on(
    caplog: Any, start: Start, cases: range
) -> None:
    with start(limits=LIMITS) as service, served(service) as address:
        host, port = address.removeprefix("http://").split(":")
        for seed in cases:
            first = answered((host, int(port)), raw(seed))
            assert b" 5" not in first[8:11], (raw(seed), first)
        whole = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n"
        assert b" 200 " in answered((host, int(port)), whole)
    assert "Traceback" not in caplog.text
