"""Malformed requests to the service, from a seed: any route, parameter, header and body."""

import gzip
import json
import random
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from urllib.parse import quote, unquote

API = "/api/v1"
_READ = (
    *("/openapi.json", "/streams", "/streams/by-name/{name}", "/streams/{id}"),
    *("/streams/{id}/series", "/streams/{id}/picture", "/streams/{id}/models", "/items"),
    *("/items/{key}", "/events", "/events.json", "/health", "/settings", "/alerts"),
    *("/maintenance", "/session"),
)
_CHANGED = (
    *("/streams/{id}/models/{id}/restore", "/streams/{id}/refit", "/streams/{id}/undo"),
    *("/streams/history", "/streams/history", "/items/{key}/accept", "/items/{key}/reject"),
    *("/items/{key}/comments", "/maintenance", "/samples", "/samples", "/samples", "/samples"),
    *("/login", "/logout"),
)
ROUTES = (
    *(("GET", path) for path in ("/", "/static/{file}", "/healthz", "/readyz", "/metrics")),
    *(("GET", API + path) for path in _READ),
    *(("POST", API + path) for path in _CHANGED),
    *(("DELETE", API + path) for path in ("/streams/{id}", "/maintenance/{key}")),
)
METHODS = ("GET", "POST", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS", "get", "FOO", "")
PARAMETERS = (
    *("search", "state", "attention", "sort", "cursor", "offset", "limit", "from", "to", "points"),
    *("channels", "kind", "stream", "open", "after", "ticks", "by", "long", "time", "zone", "x"),
)
WORDS: tuple[Any, ...] = (
    *("", "0", "-1", "7", "500", "501", "1e3", "NaN", "inf", "9" * 30, "0x10", "١٢", "true"),
    *("null", "[]", "{}", "'", '"', "a,b", ",", "*", "%", "..", "../../etc/passwd", "\x00", "\n"),
    *("alarm-1-1-1", "incident-1", "live", "alarm", "attention", "name", "a", "12-0"),
    *("2026-01-01T00:00:00Z", "2026-13-45", "WzEsIDJd", "a" * 5000, "é" * 300, "\U0001f600"),
    *(
        "<script>alert(1)</script>",
        "1' OR '1'='1",
        "${jndi:ldap://x}",
        "\ud800",
        "m/1",
    ),
)
HEADERS: dict[str, tuple[Any, ...]] = {
    "content-type": (
        *("application/json", "text/csv", "application/x-ndjson", "text/plain", "image/png", ""),
        *("application/json; charset=utf-16", ";;;", "a" * 3000, "multipart/form-data; boundary=x"),
    ),
    "content-encoding": ("gzip", "gzip", "deflate", "br", "gzip, gzip", "identity", "x", ""),
    "content-length": ("0", "5", "-1", "99999999999", "x", "1e9", ""),
    "last-event-id": ("12-0", "0-0", "x", "-", "9" * 40 + "-0", ""),
    "host": ("127.0.0.1", "evil.example", "", "[::1]", "localhost:99999", "a@b", "[", "\u00e9"),
    "origin": ("http://127.0.0.1:8765", "null", "http://[", "https://evil.example", ""),
    "sec-fetch-site": ("same-origin", "cross-site", "x"),
    "authorization": ("Bearer x", "Bearer", "Basic eA==", "", "Bearer \u00e9"),
    "cookie": ("newnormal_session=x", "newnormal_session=", "a=b; ; =", "\u00ff" * 50),
    "x-csrf-token": ("x", ""),
    "x-newnormal": ("1", ""),
    "if-none-match": ("*", '"x"', ""),
    "accept": ("text/event-stream", "*/*"),
    "transfer-encoding": ("chunked",),
}
SAMPLES: tuple[bytes, ...] = (
    b'{"stream": "a", "time": "2026-01-01T00:00:00Z", "values": {"x": 1.5, "y": null}}',
    b'[{"stream": "a", "time": 0, "values": {"x": 1}}, {"stream": "b", "values": {"x": 2}}]',
    b'{"stream": "a", "times": [0, 1], "channels": ["x", "y"], "values": [[1, 2], [3, 4]]}',
    b'{"stream": "a", "times": [0, 1], "values": {"x": [1, 2]}}',
    b'{"stream": "a", "time": 0, "values": {"x": 1}}\n{"stream": "a", "values": {"x": 2}}\n',
    b"stream,time,x,y\na,2026-01-01T00:00:00Z,1,2\na,2026-01-01T00:00:10Z,3,\n",
    b"stream,time,channel,value\na,0,x,1\na,0,y,2\n",
    b"time;load\n31.12.2026;0,5\n01.01.2027;0,7\n",
    b'{"comment": "fine"}',
    b'{"text": "fine"}',
    b'{"token": "nn_x"}',
    b'{"first": 0, "last": 100}',
    b'{"begin": 0, "end": "2026-01-01", "streams": "press-*", "reason": "x"}',
    b"",
    b"{}",
)
PIECES = (
    *(b"{", b"}", b"[", b"]", b'"', b",", b":", b"\n", b"\x00", b"\xff", b"\\u0000", b"\\ud800"),
    *(
        *(b"null", b"true", b"NaN", b"Infinity", b"-", b"1e999", b"9" * 400, b"[" * 2000),
        b'{"a":' * 900,
    ),
    *(
        *(b'{"a":' * 900, b"stream", b"values", b"times", b"channels", b";", b"\t", b'""'),
        b"\xef\xbb\xbf",
    ),
)


@dataclass
class Request:
    """A request as it goes over the wire."""

    method: str
    path: bytes
    query: bytes = b""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    pieces: list[bytes] = field(default_factory=list)


def request_of(seed: int) -> Request:
    """Return a request, the same for the same seed."""
    draw = random.Random(seed)
    method, template = draw.choice(ROUTES)
    path = _path(draw, template, "9" if method == "DELETE" else "1")
    if draw.random() < 0.1:
        method = draw.choice(METHODS)
    found = Request(method, path, _query(draw))
    headers = {"host": "127.0.0.1:8765"}
    for name, values in HEADERS.items():
        if draw.random() < (0.3 if name.startswith("content-t") else 0.03):
            headers[name] = draw.choice(values)
    body = _body(draw, headers) if draw.random() < 0.8 else b""
    found.headers = [(k.encode(), v.encode("utf-8", "surrogatepass")) for k, v in headers.items()]
    cuts = sorted(draw.randrange(len(body) + 1) for _ in range(draw.choice((0, 0, 1, 3))))
    ends = [0, *cuts, len(body)]
    found.pieces = [body[a:b] for a, b in pairwise(ends)]
    return found


def _path(draw: random.Random, path: str, stream: str) -> bytes:
    if draw.random() < 0.05:
        return b"/" + bytes(draw.randrange(33, 256) for _ in range(draw.randrange(40)))
    good = {
        "{id}": (stream,),
        "{key}": ("alarm-1-1-1", "alarm-1-1-2", "change-1-1-1", "incident-1"),
        "{name}": ("m/1", "a"),
        "{file}": ("decode.js", "index.html"),
    }
    for place, values in good.items():
        while place in path:
            word = draw.choice(values) if draw.random() < 0.6 else draw.choice(WORDS)
            path = path.replace(place, quote(word.encode("utf-8", "surrogatepass"), safe="/"), 1)
    if draw.random() < 0.03:
        path += draw.choice(("/", "//", "?", "%", "%zz", "/..", "/x"))
    return path.encode()


def _query(draw: random.Random) -> bytes:
    if draw.random() < 0.35:
        return b""
    if draw.random() < 0.05:
        return bytes(draw.randrange(33, 256) for _ in range(draw.randrange(60)))
    parts = []
    for _ in range(draw.randrange(1, 4)):
        word = draw.choice(WORDS).encode("utf-8", "surrogatepass")
        parts.append(draw.choice(PARAMETERS).encode() + b"=" + quote(word).encode())
    return b"&".join(parts)


def _body(draw: random.Random, headers: dict[str, str]) -> bytes:
    if draw.random() < 0.1:
        body = bytes(draw.randrange(256) for _ in range(draw.randrange(300)))
    elif draw.random() < 0.15:
        body = json.dumps(_value(draw, 4)).encode()
    else:
        body = draw.choice(SAMPLES)
        for _ in range(draw.choice((0, 1, 1, 2, 5))):
            at = draw.randrange(len(body) + 1)
            end = min(len(body), at + draw.choice((0, 0, 1, 5, 50)))
            body = body[:at] + draw.choice(PIECES) + body[end:]
    if headers.get("content-encoding") == "gzip" and draw.random() < 0.8:
        body = gzip.compress(body * draw.choice((1, 1, 50, 3000)))
        if draw.random() < 0.3:
            body = body[: draw.randrange(len(body))]
    return body


def _value(draw: random.Random, depth: int) -> Any:
    plain: tuple[Any, ...] = (
        None,
        True,
        -1,
        1.5,
        10**30,
        "a",
        "",
        "\x00",
        [],
        {},
        "2026-01-01",
        float("nan"),
    )
    if depth == 0 or draw.random() < 0.3:
        return draw.choice(plain)
    if draw.random() < 0.4:
        return [_value(draw, depth - 1) for _ in range(draw.randrange(4))]
    names = (
        *("stream", "time", "times", "values", "channels", "x", "comment", "text", "token", "end"),
    )
    return {draw.choice(names): _value(draw, depth - 1) for _ in range(draw.randrange(5))}


async def ask(app: Any, request: Request) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers and body of an app's answer; of an endless one, its beginning."""
    import asyncio

    sent = list(request.pieces) or [b""]
    gone = asyncio.Event()
    found: dict[str, Any] = {"status": 0, "headers": {}, "body": b""}

    async def receive() -> Any:
        if sent:
            return {"type": "http.request", "body": sent.pop(0), "more_body": bool(sent)}
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            found["status"] = message["status"]
            found["headers"] = {k.decode(): v.decode("latin-1") for k, v in message["headers"]}
        else:
            found["body"] += message.get("body", b"")
            if found["headers"].get("content-type", "").startswith("text/event-stream"):
                gone.set()

    path = unquote(request.path.decode("latin-1"))
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": path,
        "raw_path": request.path,
        "query_string": request.query,
        "root_path": "",
        "headers": request.headers,
        "client": ("127.0.0.1", 1234),
        "server": ("127.0.0.1", 8765),
    }
    await asyncio.wait_for(app(scope, receive, send), 60)
    return found["status"], found["headers"], found["body"]
