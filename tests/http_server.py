"""HTTP servers on free ports of 127.0.0.1 that answer as a test wants."""

import json
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from tests.peers import Peer


class Request(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def key(self) -> str:
        return self.headers["x-newnormal-key"]


class HttpServer(Peer):
    """A server. Derive from it: `respond` gives status, headers and body; None: it hangs up."""

    def __init__(self) -> None:
        super().__init__()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 2**16  # one packet an answer: the second would wait for 40 ms

            def do_POST(self) -> None:
                length, body = int(self.headers.get("Content-Length", 0)), b""
                with suppress(OSError):
                    body = self.rfile.read(length)
                names = {name.lower(): value for name, value in self.headers.items()}
                request = Request(self.command, self.path, names, body)
                # With less than the whole body, the sender was killed: nothing has arrived.
                answer = server.respond(request) if len(body) == length else None
                if answer is None:
                    self.close_connection = True
                    return
                status, headers, content = answer
                content = b"" if self.command == "HEAD" else content
                try:
                    self.send_response(status)
                    for name, value in headers.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)
                except OSError:  # the sender has given up
                    self.close_connection = True

            do_GET = do_HEAD = do_POST  # noqa: N815 - as the base class calls them

            def date_time_string(self, timestamp: float | None = None) -> str:
                return server.date() or super().date_time_string(timestamp)

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )
        self._thread.start()

    def respond(self, request: Request) -> tuple[int, Mapping[str, str], bytes] | None:
        raise NotImplementedError

    def date(self) -> str:
        """Return the header Date; empty: now."""
        return ""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Listener(HttpServer):
    """Keeps requests. `answer` returns the status, the headers and the text for one."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[Request] = []
        self.answer: Callable[[Request], tuple[int, dict[str, str], str]] = lambda _: (
            200,
            {},
            "ok",
        )

    def respond(self, request: Request) -> tuple[int, Mapping[str, str], bytes]:
        self.heard.append(request)
        status, headers, text = self.answer(request)
        return status, headers, text.encode()
