"""A server on 127.0.0.1 that keeps what is sent to it and answers as it is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Heard(NamedTuple):
    """A request."""

    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Listener:
    """Keeps requests. `answer` returns the status, the headers and the text for one."""

    def __init__(self) -> None:
        self.heard: list[Heard] = []
        self.answer: Callable[[Heard], tuple[int, dict[str, str], str]] = lambda _: (200, {}, "ok")
        listener = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                names = {name.lower(): value for name, value in self.headers.items()}
                heard = Heard(self.command, self.path, names, body)
                listener.heard.append(heard)
                status, headers, text = listener.answer(heard)
                given = b"" if self.command == "HEAD" else text.encode()
                try:
                    self.send_response(status)
                    for name, value in headers.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(given)))
                    self.end_headers()
                    self.wfile.write(given)
                except OSError:  # the sender has given up
                    self.close_connection = True

            do_GET = do_HEAD = do_POST  # noqa: N815 - as the base class calls them

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def listening() -> Iterator[Listener]:
    """Give a server that is closed at the end."""
    listener = Listener()
    try:
        yield listener
    finally:
        listener.close()
