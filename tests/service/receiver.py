"""A receiver of webhooks on 127.0.0.1, for tests."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Request(NamedTuple):
    method: str
    headers: dict[str, str]  # names in lower case
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found

    @property
    def key(self) -> str:
        return self.headers["x-newnormal-key"]


class Receiver:
    """Keeps what was posted to it, and answers as it is told.

    `answer` returns the status and headers for a request; it may wait. `seen` are the keys of
    requests that were taken, each once, as a receiver that honours keys has them.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.seen: list[str] = []
        self.answer: Callable[[Request], tuple[int, dict[str, str]]] = lambda _: (200, {})
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                try:
                    body = self.rfile.read(length)
                except OSError:
                    body = b""
                if len(body) < length:  # the sender was killed: nothing has arrived
                    self.close_connection = True
                    return
                names = {name.lower(): value for name, value in self.headers.items()}
                request = Request(self.command, names, body)
                receiver.requests.append(request)
                status, headers = receiver.answer(request)
                if self.command == "POST" and 200 <= status < 300:
                    receiver._take(request.key)
                text = b"" if self.command == "HEAD" else b"seen\n by the <receiver>"
                try:
                    self.send_response(status)
                    for name, value in headers.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(text)))
                    self.end_headers()
                    self.wfile.write(text)
                except OSError:  # the sender has given up
                    self.close_connection = True

            do_HEAD = do_POST  # noqa: N815 - as the base class calls it

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )
        self._thread.start()

    def _take(self, key: str) -> None:
        if key not in self.seen:
            self.seen.append(key)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/alerts"

    @property
    def keys(self) -> list[str]:
        return [each.key for each in self.requests if each.method == "POST"]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Give a receiver that is closed at the end."""
    receiver = Receiver()
    try:
        yield receiver
    finally:
        receiver.close()
