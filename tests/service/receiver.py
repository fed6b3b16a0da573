"""A receiver of webhooks on 127.0.0.1, for tests."""

from collections.abc import Callable

from tests.http_server import HttpServer, Request


class Receiver(HttpServer):
    """Keeps what was posted to it, and answers as it is told.

    `answer` returns the status and headers for a request; it may wait. `seen` are the keys of
    requests that were taken, each once, as a receiver that honours keys has them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[Request] = []
        self.seen: list[str] = []
        self.answer: Callable[[Request], tuple[int, dict[str, str]]] = lambda _: (200, {})

    def respond(self, request: Request) -> tuple[int, dict[str, str], bytes]:
        self.requests.append(request)
        status, headers = self.answer(request)
        if request.method == "POST" and 200 <= status < 300:
            self.take(request.key)
        return status, headers, b"seen\n by the <receiver>"

    def take(self, key: str) -> None:
        if key not in self.seen:
            self.seen.append(key)

    @property
    def url(self) -> str:
        return f"{super().url}/alerts"

    @property
    def keys(self) -> list[str]:
        return [each.key for each in self.requests if each.method == "POST"]
