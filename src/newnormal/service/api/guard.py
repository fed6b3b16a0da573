"""What every request passes: its Host, how many a client makes, and headers of every answer."""

import ipaddress
import socket
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from newnormal.errors import NewnormalError
from newnormal.service.api.access import Access
from newnormal.service.api.files import CONTENT_POLICY
from newnormal.service.api.problems import HttpProblem, problem_answer, problem_of
from newnormal.service.service import Service

_HEADERS = [
    (b"content-security-policy", CONTENT_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_ALWAYS = ("/healthz", "/readyz")  # asked by address, and often
_BURST = 2.0  # seconds' worth of requests at once
_MOST_CLIENTS = 10_000
_REMOTE_WRITE = b"x-prometheus-remote-write-version"


class Guard:
    """Refuse requests before anything reads them, and add headers to every answer."""

    def __init__(
        self,
        app: ASGIApp,
        service: Service,
        access: Access,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._service = service
        self._access = access
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1003})
            else:
                await self._app(scope, receive, send)
            return

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                names = {name for name, _ in message["headers"]}
                more = [header for header in _HEADERS if header[0] not in names]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        try:
            if scope["path"] not in _ALWAYS:
                self._check_begun()
                self._check_address(scope)
                self._check_rate(scope)
                self._check_host(scope)
        except HttpProblem as problem:
            await problem_answer(problem)(scope, receive, sent)
            return
        except NewnormalError as error:  # tokens cannot be read: the store is damaged, or gone
            await problem_answer(problem_of(error))(scope, receive, sent)
            return
        await self._app(scope, receive, sent)

    def _check_begun(self) -> None:
        if getattr(self._service, "store", None) is None:
            raise HttpProblem(
                503,
                "expected a service that runs, found one that starts",
                "try again soon",
                {"Retry-After": "2"},
            )

    def _check_address(self, scope: Scope) -> None:
        if not scope.get("query_string", b"").isascii():
            raise HttpProblem(
                400,
                "expected an address of ASCII characters, found others",
                "write other characters as % and two figures",
            )

    def _check_rate(self, scope: Scope) -> None:
        rate = float(self._service.config.limits.requests_per_second)
        most = max(rate * _BURST, 1.0)
        client = scope.get("client")
        name = client[0] if client else ""
        now = self._clock()
        left, before = self._buckets.pop(name, (most, now))
        left = min(most, left + (now - before) * rate)
        self._buckets[name] = (left - 1 if left >= 1 else left, now)
        if len(self._buckets) > _MOST_CLIENTS:
            self._buckets.popitem(last=False)
        if left < 1:
            # Prometheus, and Telegraf's output for InfluxDB 1, drop what is answered 429 and send
            # again what is answered 503.
            again = scope["path"] == "/write" or any(
                name == _REMOTE_WRITE for name, _ in scope["headers"]
            )
            raise HttpProblem(
                503 if again else 429,
                f"expected at most {rate:g} requests a second, found more",
                "send more samples in a request, or raise limits.requests_per_second",
                {"Retry-After": "1"},
            )

    def _check_host(self, scope: Scope) -> None:
        """Refuse a name that was pointed at this machine by someone else.

        Such a name makes the page of another site one of the same site: only tokens are safe from
        that, since browsers keep cookies by name. An address in figures cannot be pointed anywhere.
        """
        config = self._service.config
        if not config.allowed_hosts and not self._access.open:
            return
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        host = _host(hosts[0].decode("latin-1")) if len(hosts) == 1 else None
        if host is not None and (_is_address(host) or host in self._names(config)):
            return
        shown = "none" if not hosts else repr(hosts[0][:100].decode("latin-1"))
        raise HttpProblem(
            421,
            f"expected a Host that this service has, found {shown}",
            "use 127.0.0.1, or add the name to allowed_hosts",
        )

    def _names(self, config: Any) -> set[str]:
        public = urlsplit(config.public_url or "").hostname or ""
        allowed = {str(name).lower() for name in config.allowed_hosts}
        return {"localhost", config.host.lower(), public, *allowed, *_machine_names()} - {""}


def _host(value: str) -> str | None:
    try:
        parts = urlsplit(f"//{value}")
        _ = parts.port
    except ValueError:
        return None
    plain = parts.netloc == value and "@" not in value
    return parts.hostname if plain else None


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


@cache
def _machine_names() -> frozenset[str]:
    return frozenset({socket.gethostname().lower()})
