"""The app of a service: requests without a network, events piece by piece, or served on a port."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Self, TypeVar

import httpx
from fastapi import FastAPI

from newnormal.service.api.app import make_app
from newnormal.service.service import Service
from tests.waiting import until

API = "/api/v1"
_T = TypeVar("_T")


@contextmanager
def app_of(service: Service) -> Iterator[FastAPI]:
    """Give the app of a service."""
    app = make_app(service)
    try:
        yield app
    finally:
        app.state.reading.close()


@contextmanager
def served(service: Service, port: int = 0) -> Iterator[str]:
    """Serve the API and the page of a service on 127.0.0.1; give its address."""
    import uvicorn

    config = uvicorn.Config(
        make_app(service),
        host="127.0.0.1",
        port=port,
        log_level="critical",
        timeout_graceful_shutdown=1,  # a page that follows events is cut off
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started or not thread.is_alive(), "the server to start")
    if not server.started:
        raise RuntimeError("the server has not started")
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def run_apart(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine in a thread of its own: Playwright leaves a loop in the tests' one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


class Runner:
    """Runs coroutines one after the other, with one loop in a thread of its own."""

    def __init__(self) -> None:
        self._inner = asyncio.Runner()
        self._thread = ThreadPoolExecutor(1)

    def run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        return self._thread.submit(self._inner.run, coroutine).result()

    def close(self) -> None:
        self._thread.submit(self._inner.close).result()
        self._thread.shutdown()


class Client:
    """A client of an app. Cookies are kept; errors of the app are raised."""

    def __init__(
        self,
        service: Service,
        *,
        base_url: str = "http://127.0.0.1:8765",
        address: str = "127.0.0.1",
        headers: dict[str, str] | None = None,
    ) -> None:
        self.service = service
        self.app = make_app(service)
        self.runner = Runner()
        self.base_url = base_url
        self.address = address
        self.headers = headers or {}

    def __enter__(self) -> Self:
        self.client = self.another()
        return self

    def __exit__(self, *given: Any) -> None:
        self.runner.run(self.client.aclose())
        self.app.state.reading.close()
        self.runner.close()

    def another(self, address: str | None = None) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(self.app, client=(address or self.address, 1234))
        return httpx.AsyncClient(transport=transport, base_url=self.base_url, headers=self.headers)

    def request(self, method: str, path: str, **given: Any) -> httpx.Response:
        return self.runner.run(self.client.request(method, path, **given))

    def get(self, path: str, **given: Any) -> httpx.Response:
        return self.request("GET", path, **given)

    def post(self, path: str, **given: Any) -> httpx.Response:
        return self.request("POST", path, **given)

    def delete(self, path: str, **given: Any) -> httpx.Response:
        return self.request("DELETE", path, **given)


def get(client: Client, path: str, status: int = 200, **parameters: Any) -> Any:
    """Return what the API answers, which has this status."""
    found = client.get(API + path, params=parameters)
    assert found.status_code == status, found.text
    return found.json()


def everything(client: Client, path: str, **parameters: Any) -> list[Any]:
    """Return the entries of all pages of a list."""
    found: list[Any] = []
    cursor: dict[str, str] = {}
    while True:
        page = get(client, path, 200, **parameters, **cursor)
        found += page["items"]
        if page["cursor"] is None:
            return found
        cursor = {"cursor": page["cursor"]}


class Following:
    """A request whose answer comes piece by piece."""

    def __init__(self, app: Any, path: str, query: str = "", **headers: str) -> None:
        self.app = app
        self.scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [
                (b"host", b"127.0.0.1:8765"),
                *((k.replace("_", "-").encode(), v.encode()) for k, v in headers.items()),
            ],
            "client": ("127.0.0.1", 1234),
            "server": ("127.0.0.1", 8765),
        }
        self.pieces: asyncio.Queue[Any] = asyncio.Queue()
        self.gone = asyncio.Event()
        self.status = 0
        self.begun = False

    async def __aenter__(self) -> Self:
        self.task = asyncio.create_task(self.app(self.scope, self._receive, self._send))
        message = await self.pieces.get()
        self.status = message["status"]
        self.headers = {k.decode(): v.decode() for k, v in message["headers"]}
        return self

    async def __aexit__(self, *given: Any) -> None:
        self.gone.set()
        await asyncio.wait_for(self.task, 10)

    async def _receive(self) -> Any:
        if not self.begun:
            self.begun = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        await self.pieces.put(message)

    async def next(self) -> dict[str, str]:
        """Return the next event: its fields, `comment` for a comment."""
        message = await asyncio.wait_for(self.pieces.get(), 10)
        fields = {}
        for line in message.get("body", b"").decode().splitlines():
            name, _, value = line.partition(": ")
            if line:
                fields[name or "comment"] = value
        return fields

    async def whole(self) -> bytes:
        """Return the whole answer, which must end."""
        found: bytes = b""
        while True:
            message = await asyncio.wait_for(self.pieces.get(), 10)
            found += message.get("body", b"")
            if not message.get("more_body"):
                return found
