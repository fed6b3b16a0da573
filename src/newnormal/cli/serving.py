"""The process of the service: the port, the signals, the order of starting and stopping; --check.

One module because a check tries what a start takes: the port, the folder and each connection.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from newnormal.cli.console import FAILED, put, say
from newnormal.errors import NewnormalError, StateError, extra
from newnormal.texts import number_text, number_texts, shown

if TYPE_CHECKING:
    from newnormal.service.config import ServiceConfig
    from newnormal.service.service import Service

Prepare = Callable[[Callable[[float, float], None], Callable[[], bool]], object]
_LEAST = 50_000_000  # bytes that must be free: the log and the store grow by some of it at a start
_LISTENS = "0A"  # the state of a socket that listens, in /proc
_BACKLOG = 1024
_IN_FLIGHT = 5  # seconds that requests have to end
_KEEP_ALIVE = 75  # seconds
_NOTICE = 1.0  # seconds in which those who ask /readyz learn that it ends
_MOST = 5_000
_FILES = 65_536  # that may be open, where the system allows so many
_OWN_FILES = 150  # databases, models, processes that fit, sinks


def run(
    config: ServiceConfig, load: Callable[[], ServiceConfig], *, prepare: Prepare | None = None
) -> None:
    """Run the service until a signal ends it; `load` reads the configuration again.

    `prepare` is called before the service starts, while a page says how far it is: with a function
    to call with the share that is done and the seconds that all of it takes, and one that tells
    whether to stop.
    """
    _check_installed()
    with listening(config) as (port, number):
        from newnormal.service.api.app import make_app
        from newnormal.service.memory import share
        from newnormal.service.service import Service

        share()
        config = replace(config, port=number)
        service = Service(config)
        running = _Running(service, make_app(service), config, load, prepare)
        running.serve(port)


def _check_installed() -> None:
    for name in ("fastapi", "uvicorn", "httpx", "orjson", "prometheus_client"):
        with extra("serve", name):
            __import__(name)


@contextmanager
def listening(config: ServiceConfig) -> Iterator[tuple[socket.socket, int]]:
    """Take the port of the service, so that nobody else has it; give its number too."""
    host = config.host.strip("[]")
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        # asyncio sends small answers at once (TCP_NODELAY) only where the protocol is named: else
        # each would wait 40 ms for the client's confirmation of the packet before.
        port = socket.socket(family, kind, socket.IPPROTO_TCP)
    except OSError as error:
        raise _unusable(config, error) from None
    try:
        port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            with suppress(OSError):  # "::" is for IPv4 too, where the system can
                port.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        try:
            port.bind(address)
            port.listen(_BACKLOG)
        except OSError as error:
            raise _unusable(config, error) from None
        yield port, int(port.getsockname()[1])
    finally:
        port.close()


class PortInUseError(StateError):
    """Somebody else has the port."""


def _unusable(config: ServiceConfig, error: OSError) -> StateError:
    where = f"{config.host}:{config.port}"
    if error.errno == errno.EADDRINUSE:
        return PortInUseError(
            f"{where}: expected a free port, found one in use",
            hint="another newnormal serve may be running; --port takes another port",
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return StateError(
            f"{where}: expected a port that this user may take, found one that it may not",
            hint="take a port above 1023, and a reverse proxy for 80 and 443",
        )
    return StateError(
        f"{where}: expected an address of this machine, found: {error.strerror or error}",
        hint="127.0.0.1 is for this machine alone, 0.0.0.0 for all that can reach it",
    )


class _Running:
    """A service and its server: in the main thread, as signals come there."""

    def __init__(
        self,
        service: Service,
        app: Any,
        config: ServiceConfig,
        load: Callable[[], ServiceConfig],
        prepare: Prepare | None = None,
    ) -> None:
        import uvicorn

        self._service, self._config, self._load = service, config, load
        self._prepare = prepare
        self._app, self._gate = app, _Gate(app)
        self._server = uvicorn.Server(
            uvicorn.Config(
                self._gate,
                http=connection_kind(room_for_connections(), _KEEP_ALIVE),
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=bool(config.trusted_proxies),
                forwarded_allow_ips=list(config.trusted_proxies),
                lifespan="on",
                timeout_keep_alive=_KEEP_ALIVE,
                timeout_graceful_shutdown=_IN_FLIGHT,
            )
        )
        # Its own handlers would end the process before the service has stopped.
        self._server.capture_signals = _no_signals  # type: ignore[method-assign]
        self._signals: list[int] = []
        self._changed = threading.Event()
        self._ended = threading.Event()
        self._failed: BaseException | None = None
        self._demo: Any = None

    def serve(self, port: socket.socket) -> None:
        """Serve until a signal comes, then stop in order."""
        before = self._install()
        follower = threading.Thread(target=self._follow, name="newnormal-signals", daemon=True)
        starter = threading.Thread(target=self._start, name="newnormal-start", daemon=True)
        try:
            say(f"newnormal is at {self._config.url}")
            follower.start()
            starter.start()
            self._server.run(sockets=[port])
        finally:
            self._ended.set()
            self._changed.set()
            follower.join()
            starter.join()
            if self._demo is not None:
                self._demo.stop()
            if self._gate.open:
                self._service.stop()
            for number, handler in before.items():
                signal.signal(number, handler)
        if self._failed is not None:
            raise self._failed
        say("stopped: all that was acknowledged is kept")

    # --- starting

    def _start(self) -> None:
        try:
            if self._prepare is not None:
                self._prepare(self._gate.show, self._ended.is_set)
            if self._ended.is_set():
                return
            self._gate.compiling = None
            self._service.start()
            self._gate.open = True
            if self._config.demo:
                from newnormal.service.demo import DemoSender

                say("twenty simulated machines begin; within seconds there is something to see")
                self._demo = DemoSender(self._service)
                self._demo.start()
        except BaseException as error:  # noqa: BLE001  (it is raised in the main thread)
            self._failed = error
            self._server.should_exit = True

    # --- signals

    def _install(self) -> dict[int, Any]:
        numbers = [signal.SIGTERM, signal.SIGINT]
        numbers += [signal.SIGHUP] if hasattr(signal, "SIGHUP") else []
        return {number: signal.signal(number, self._note) for number in numbers}

    def _note(self, number: int, frame: FrameType | None) -> None:
        del frame
        self._signals.append(number)
        self._changed.set()

    def _follow(self) -> None:
        """Do what signals ask for, in a thread that may wait."""
        ends = 0
        while not self._ended.is_set():
            self._changed.wait()
            self._changed.clear()
            while self._signals:
                if self._signals.pop(0) in (signal.SIGTERM, signal.SIGINT):
                    ends += 1
                    self._end(ends)
                else:
                    self._reload()

    def _end(self, times: int) -> None:
        if times > 1:
            self._server.force_exit = True  # requests in flight are cut off
            return
        say("stopping")
        self._service.drain()  # /readyz and senders learn it first
        self._ended.wait(_NOTICE)
        self._app.state.closing.set()  # pages that follow events are let go
        self._server.should_exit = True

    def _reload(self) -> None:
        from newnormal.service.config import needs_restart

        if not self._gate.open:
            say("not reloaded: the service is starting; send the signal again once it is ready")
            return
        try:
            new = self._load()
            kept = [
                name
                for name in needs_restart(self._config, new)
                # The demo without a folder has one that no file names.
                if not (self._config.demo and name in ("data", "demo"))
                and not (name == "port" and new.port == 0)
            ]
            taken = replace(new, **{name: getattr(self._config, name) for name in _fixed()})
            self._service.reload(taken)
            self._config = taken
        except NewnormalError as error:
            say(f"error: {error.message}")
            say("the configuration stays as it was" + (f"; {error.hint}" if error.hint else ""))
            return
        except Exception as error:  # noqa: BLE001  (the thread must go on: SIGTERM comes here, too)
            say(f"error: not reloaded: {type(error).__name__}: {error}")
            return
        say("reloaded" + (f"; a restart is needed for {', '.join(kept)}" if kept else ""))


class _Gate:
    """Answers for the service while it starts, which after a kill can take a while."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.open = False  # whether the service answers itself
        # the share that is compiled and the seconds that all of it takes; None: nothing to compile
        self.compiling: tuple[float, float] | None = None

    def show(self, share: float, seconds: float) -> None:
        """Show from now on how far compiling is."""
        self.compiling = share, seconds

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self.open or scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        alive = scope["path"] == "/healthz"
        is_page = scope["path"] == "/"
        body = b'{"status": "starting"}' if alive else self._page() if is_page else _STARTING
        headers = [
            (b"content-type", b"text/html; charset=utf-8" if is_page else b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"content-security-policy", _POLICY),
            (b"cache-control", b"no-store"),
            (b"retry-after", b"2"),
            (b"refresh", b"2"),
        ]
        start = {"type": "http.response.start", "status": 200 if alive else 503}
        await send({**start, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _page(self) -> bytes:
        if self.compiling is None:
            return _PAGE.format(what="It reads what it has kept.").encode()
        share, seconds = self.compiling
        what = (
            f"The first start compiles for this machine, once: about {seconds:.0f} s in all."
            f'<p><progress value="{share:.2f}">{share:.0%}</progress>'
        )
        return _PAGE.format(what=what).encode()


_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>newnormal is starting</title>
<body style="font: 16px/1.5 system-ui, sans-serif; max-width: 32em; margin: 20vh auto">
<h1 style="font-size: 1.4em">newnormal is starting</h1>
<p>{what}
<p>This page loads again by itself.
</html>
"""
_POLICY = b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
_STARTING = b'{"error": "newnormal is starting", "hint": "try again in a moment"}'


def _fixed() -> list[str]:
    from newnormal.io.options import settings_of
    from newnormal.service.config import ServiceConfig

    return [name for name, setting in settings_of(ServiceConfig).items() if not setting.live]


@contextmanager
def _no_signals() -> Iterator[None]:
    yield


def room_for_connections() -> int:
    """Return how many connections there may be, after asking the system for more open files.

    Without a limit, the system refuses connections and files alike, and asyncio writes about each
    that it cannot take, thousands of times a second.
    """
    try:
        import resource
    except ImportError:  # not on Windows, which has no such limit
        return _MOST
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if most == resource.RLIM_INFINITY else min(most, _FILES)
    if files != resource.RLIM_INFINITY and files < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
        files = wanted
    if files == resource.RLIM_INFINITY:
        return _MOST
    return min(_MOST, max(files - _OWN_FILES, files // 4))


def connection_kind(most: int, patience: float) -> type[asyncio.Protocol]:
    """Return uvicorn's connection, with limits.

    Beyond `most` connections one more is closed at once. `patience` is about how many seconds the
    head of a request has to come, at first and after an answer: it is looked at that often.
    """
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    class LimitedConnection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
        _looking: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > most:
                transport.abort()
                return
            self._look(first=True, before=None)

        def connection_lost(self, exc: Exception | None) -> None:
            if self._looking is not None:
                self._looking.cancel()
            super().connection_lost(exc)

        def _look(self, *, first: bool, before: Any) -> None:
            """Close the connection if no request began since the last look, and none goes on."""
            cycle = self.cycle
            idle = cycle is None or cycle.response_complete
            if idle and cycle is before and not first:
                self.transport.abort()
                return
            again = lambda: self._look(first=False, before=cycle)  # noqa: E731
            self._looking = self.loop.call_later(patience, again)

    return LimitedConnection


def check(config: ServiceConfig, reachable: Callable[[ServiceConfig], None]) -> None:
    """Print a line for each thing that was tried; exit with 1 if one failed.

    `reachable` raises an error if others can reach the service and nothing holds them off.
    """
    from newnormal.service.connectors import make_any_sink, make_source

    name = "the configuration" if config.path is None else str(config.path)
    put(f"ok      {shown(name)}")
    tried: list[tuple[str, Callable[[], str]]] = [
        ("host", lambda: _host(config, reachable)),
        ("data", lambda: _data(config.data)),
    ]
    tried += [
        (f"sink {sink.name}", lambda sink=sink: _tried(make_any_sink(sink)))  # type: ignore[misc]
        for sink in config.sinks
    ]
    tried += [
        (f"source {source.name}", lambda source=source: _tried(make_source(source)))  # type: ignore[misc]
        for source in config.sources
    ]
    if not all([_is_well(name, attempt) for name, attempt in tried]):  # noqa: C419 (each is tried)
        sys.exit(FAILED)


def _is_well(name: str, attempt: Callable[[], str]) -> bool:
    """Try one thing, and print what was found."""
    try:
        problem = attempt()
    except Exception as error:  # noqa: BLE001  (a connector of somebody else may raise any)
        message = error.message if isinstance(error, NewnormalError) else repr(error)
        if not message.startswith((f"{name}: ", f"{name}, ")):
            message = f"{name}: {message}"
        put(f"failed  {shown(message)}")
        if isinstance(error, NewnormalError) and error.hint is not None:
            put(f"        hint: {shown(error.hint)}")
        return False
    put(f"{'warning' if 'warning: ' in problem else 'ok':<8}{shown(f'{name}: {problem}')}")
    return True


def _tried(connection: Any) -> str:
    try:
        return str(connection.check())
    finally:
        connection.close()


def _host(config: ServiceConfig, reachable: Callable[[ServiceConfig], None]) -> str:
    from newnormal.fleet.folder.lock import process_using

    reachable(config)
    where = f"{config.host}, {f'port {config.port}' if config.port else 'any free port'}"
    try:
        with listening(config):
            return where
    except PortInUseError:
        process = process_using(config.data)
        listens = None if process is None else _listens(process, config.port)
        if process is None or listens is False:
            raise
        by = "by" if listens else "perhaps by"
        return f"{where}, in use {by} the service of {config.data}, process {process}"


def _listens(process: int, port: int) -> bool | None:
    """Return whether a process listens on a port; None where the system does not tell."""
    proc = Path("/proc", str(process))
    sockets = set()
    lines = []
    try:
        for handle in (proc / "fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                sockets.add(os.readlink(handle))
        for name in ("tcp", "tcp6"):
            with suppress(FileNotFoundError):  # a system without IPv6
                lines += (proc / "net" / name).read_text().splitlines()[1:]
    except OSError:
        return None
    for line in lines:
        _, local, _, state, _, _, _, _, _, inode, *_ = line.split()
        its_port = int(local.rpartition(":")[2], 16)
        if state == _LISTENS and its_port == port and f"socket:[{inode}]" in sockets:
            return True
    return False


def _data(folder: Path) -> str:
    """Return what a data folder is; raise an error if nothing can be written there."""
    from newnormal.fleet.folder.lock import process_using

    target = folder if folder.exists() else folder.absolute().parent
    try:
        with tempfile.TemporaryFile(dir=target):
            pass
        free = shutil.disk_usage(target).free
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _full(target, 0) from None
        raise StateError(
            f"expected a folder that can be written, found {target}: {error.strerror}",
            hint="make it, or give it to the user that the service runs as",
        ) from None
    if free < _LEAST:
        raise _full(target, free)
    process = process_using(folder)
    used = "" if process is None else f"; in use by a service that runs, process {process}"
    return f"{folder}, {number_text(free, 'B')} free{used}"


def _full(folder: Path, free: int) -> StateError:
    least, rest = number_texts(_LEAST, free, unit="B")
    return StateError(
        f"expected at least {least} free in {folder}, found {rest}",
        hint="make room on that disk, or give another folder with --data",
    )
