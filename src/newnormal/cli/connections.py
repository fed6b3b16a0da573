"""How many connections the service takes, and for how long one may send nothing."""

import asyncio
from typing import Any

_MOST = 5_000
_FILES = 65_536  # that may be open, where the system allows so many
_OWN_FILES = 150  # databases, models, processes that fit, sinks


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
