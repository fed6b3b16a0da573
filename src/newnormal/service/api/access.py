"""Who may do what: tokens, sessions of browsers, and requests that another site made.

Without any token, everybody who reaches the service may do everything: it listens on 127.0.0.1
then, or its configuration is insecure. With tokens, a request carries one as ``Authorization:
Bearer``, or the cookie of a session that was begun with one. Programs that cannot send that carry
it as InfluxDB's ``Token``, or as the password of ``Basic``; a browser is never asked for those.

One module because every request passes all of it: its Host, how many a client makes, who it is.
"""

import base64
import hmac
import ipaddress
import math
import secrets
import socket
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from newnormal.errors import NewnormalError, StateError
from newnormal.service.api.files import CONTENT_POLICY
from newnormal.service.api.problems import HttpProblem, problem_answer, problem_of
from newnormal.service.api.threads import ReadingThreads
from newnormal.service.config import OPERATE, ROLES, hash_token, is_loopback, token_matches
from newnormal.service.service import Service

COOKIE = "newnormal_session"
SESSIONS, TOKENS = "sessions", "tokens"  # spaces of the store's settings
LIFETIME = 7 * 86_400  # seconds of a session
_MOST_SESSIONS = 1_000
_STALE = 2.0  # seconds after which tokens are read from the store again
_TRIES, _WINDOW = 10, 300.0  # logins that fail, and in how many seconds
_MOST_CLIENTS = 10_000
_SAFE = ("GET", "HEAD", "OPTIONS")
LOCAL = "local"  # who, where nobody is asked
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
_REMOTE_WRITE = b"x-prometheus-remote-write-version"


@dataclass(frozen=True)
class Caller:
    """Who makes a request."""

    who: str  # the name of the token; ``"local"`` where none is needed
    role: str  # ``"read"``, ``"write"`` or ``"operate"``
    session: str | None = None  # what the store knows the session by; None without one

    def may(self, role: str) -> bool:
        """Whether it has a role, or one that includes it."""
        return ROLES.index(self.role) >= ROLES.index(role)


@dataclass(frozen=True)
class Session:
    """A browser that is logged in."""

    who: str
    csrf: str
    expires: float  # seconds since 1970
    token: str  # its hash: the session ends when the token is revoked


class Access:
    """Tokens and sessions, of the configuration and the store; `reading` writes them."""

    def __init__(
        self, service: Service, reading: ReadingThreads, clock: Callable[[], float] = time.time
    ) -> None:
        self._service = service
        self._reading = reading
        self._clock = clock
        self._stored: tuple[float, dict[str, tuple[str, str]]] = (-math.inf, {})
        self._sessions: dict[str, Session] | None = None
        self._failed: OrderedDict[str, tuple[int, float]] = OrderedDict()

    @property
    def open(self) -> bool:
        """Whether nobody needs a token."""
        config = self._service.config
        return not self._tokens() and (config.insecure or is_loopback(config.host))

    def caller(self, request: Request) -> Caller:
        """Return the caller; raise 401 or 403 if there is none with access."""
        self._check_site(request)
        if self.open:
            self._check_browser(request)
            return Caller(LOCAL, OPERATE)
        token = _sent_token(request.headers.get("authorization", ""))
        if token is not None:
            known = self._token(token)
            if known is None:
                raise _unknown("expected a token of this service, found another one")
            return Caller(known[0], known[1])
        return self._of_session(request)

    def _of_session(self, request: Request) -> Caller:
        key, session = self.session(request)
        if session is None:
            raise _unknown("expected a token or a login, found none")
        roles = dict(self._tokens().values())
        if session.token not in roles:
            raise _unknown("expected a token that is known, found one that was revoked")
        self._check_browser(request)
        if request.method not in _SAFE:
            sent = request.headers.get("x-csrf-token", "")
            if not hmac.compare_digest(sent.encode(), session.csrf.encode()):
                raise HttpProblem(
                    403,
                    "expected the header X-CSRF-Token of this session, found another or none",
                    "GET api/v1/session gives it as csrf",
                )
        return Caller(session.who, roles[session.token], key)

    def session(self, request: Request) -> tuple[str, Session | None]:
        """Return the session that a request has the cookie of, if there is one."""
        key = hash_token(request.cookies.get(COOKIE, ""))
        session = self._known_sessions().get(key)
        alive = session is not None and session.expires > self._clock()
        return key, session if alive else None

    def _tokens(self) -> dict[str, tuple[str, str]]:
        """Return hash and role of each token by its name."""
        now = time.monotonic()
        if not 0 <= now - self._stored[0] < _STALE:
            self._stored = (now, self._read_tokens())
        configured = self._service.config.tokens
        return {**self._stored[1], **{token.name: (token.hash, token.role) for token in configured}}

    def _read_tokens(self) -> dict[str, tuple[str, str]]:
        try:
            settings = self._service.store.settings
            stored = settings.all(TOKENS)
            if not stored and not settings.are_intact():  # there may have been a token
                raise StateError(
                    "expected tokens or none, found damaged settings",
                    hint="newnormal serve token add NAME makes a token; or restore a backup",
                )
        except StateError:
            if math.isinf(self._stored[0]):
                raise
            return self._stored[1]  # those of before: health says what is wrong with the store
        return {
            name: (str(token["hash"]), str(token["role"]))
            for name, token in stored.items()
            if isinstance(token, Mapping) and token.get("role") in ROLES and "hash" in token
        }

    def _token(self, token: str) -> tuple[str, str, str] | None:
        match = None
        for name, (hashed, role) in self._tokens().items():
            if token_matches(token, hashed):  # all are compared, however soon one fits
                match = (name, role, hashed)
        return match if token else None

    async def login(self, token: str, client: str) -> tuple[str, Session, str]:
        """Begin a session; return its cookie, itself and its role."""
        self._check_tries(client)
        known = self._token(token)
        if known is None:
            self._count_failure(client)
            raise HttpProblem(
                401,
                "expected a token of this service, found another one",
                "newnormal serve token add NAME makes one",
            )
        self._failed.pop(client, None)
        name, role, hashed = known
        cookie = secrets.token_urlsafe(32)
        session = Session(name, secrets.token_urlsafe(32), self._clock() + LIFETIME, hashed)
        sessions = self._known_sessions()
        ended = [key for key, other in sessions.items() if other.expires <= self._clock()]
        rest = len(sessions) - len(ended) - _MOST_SESSIONS + 1
        if rest > 0:
            oldest = sorted(sessions, key=lambda key: sessions[key].expires)
            ended += [key for key in oldest if key not in ended][:rest]
        for key in ended:
            await self._forget(key)
        sessions[hash_token(cookie)] = session
        await self._reading(
            self._service.store.settings.put, SESSIONS, hash_token(cookie), vars(session).copy()
        )
        return cookie, session, role

    async def logout(self, request: Request) -> None:
        """End the session of a request, if there is one."""
        key, session = self.session(request)
        if session is not None:
            await self._forget(key)

    async def _forget(self, key: str) -> None:
        self._known_sessions().pop(key, None)
        await self._reading(self._service.store.settings.delete, SESSIONS, key)

    def _known_sessions(self) -> dict[str, Session]:
        if self._sessions is None:
            self._sessions = {
                key: Session(**each)
                for key, each in self._service.store.settings.all(SESSIONS).items()
            }
        return self._sessions

    def _check_tries(self, client: str) -> None:
        count, since = self._failed.get(client, (0, 0.0))
        left = since + _WINDOW - time.monotonic()
        if count >= _TRIES and left > 0:
            raise HttpProblem(
                429,
                f"expected at most {_TRIES} logins that fail, found more",
                "wait some minutes, then log in with a token of this service",
                {"Retry-After": str(int(left) + 1)},
            )

    def _count_failure(self, client: str) -> None:
        now = time.monotonic()
        count, since = self._failed.pop(client, (0, now))
        self._failed[client] = (count + 1, since) if now - since < _WINDOW else (1, now)
        while len(self._failed) > _MOST_CLIENTS:
            self._failed.popitem(last=False)

    def check_foreign(self, request: Request) -> None:
        """Refuse a login or logout that the page of another site sends."""
        self._check_site(request)
        self._check_browser(request)

    def _check_site(self, request: Request) -> None:
        """Refuse what the page of another site asks for behind its reader's back."""
        if request.headers.get("sec-fetch-site", "") == "cross-site":
            raise _foreign("found a request that the page of another site made")

    def _check_browser(self, request: Request) -> None:
        """Refuse a change that another site's page could have sent.

        A browser says where a change comes from, and adds neither a content type of JSON nor a
        header of ours to what a page of another site sends without asking. A program says none of
        this and has no cookie that it would be given without knowing.
        """
        if request.method in _SAFE:
            return
        headers = request.headers
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin is None and site is None and COOKIE not in request.cookies:
            return
        if site not in (None, "same-origin", "none"):
            raise _foreign(f"found one of a page of {site}")
        if origin is not None and not self._is_own(origin, headers.get("host", "")):
            raise _foreign(f"found one of {origin[:100]!r}")
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if "x-newnormal" not in headers and kind != "application/json":
            raise HttpProblem(
                403,
                "expected the header X-Newnormal or a body of application/json, found neither",
                "set X-Newnormal: 1",
            )

    def _is_own(self, origin: str, host: str) -> bool:
        """Whether an origin is that of the service itself."""
        try:
            netloc = urlsplit(origin).netloc.lower()
            public = urlsplit(self._service.config.public_url or "").netloc.lower()
        except ValueError:
            return False
        return bool(netloc) and netloc in (host.lower(), public)


def needs(role: str) -> Callable[[Request], Awaitable[Caller]]:
    """Return the dependency of a route that a role is needed for."""

    async def checked(request: Request) -> Caller:
        caller: Caller = request.app.state.access.caller(request)
        request.state.caller = caller
        if not caller.may(role):
            raise HttpProblem(
                403,
                f"expected a token of the role {role}, found one of {caller.role}",
                "the operator makes one: newnormal serve token add NAME --role " + role,
            )
        return caller

    checked.__dict__["role"] = role
    return checked


def _sent_token(header: str) -> str | None:
    """Return the token that a request carries, in any of the ways; None without one."""
    kind, _, text = header.partition(" ")
    text = text.strip()
    if kind.lower() in ("bearer", "token"):
        return text
    if kind.lower() != "basic":
        return None
    try:
        return base64.b64decode(text, validate=True).decode().partition(":")[2]
    except ValueError:
        return ""


def _unknown(error: str) -> HttpProblem:
    return HttpProblem(
        401,
        error,
        "send it as Authorization: Bearer TOKEN, or log in on the page",
        {"WWW-Authenticate": "Bearer"},
    )


def _foreign(origin: str) -> HttpProblem:
    return HttpProblem(
        403,
        f"expected a request of the service's own page or of a program, {origin}",
        "open the page at the address of the service itself",
    )


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
