"""What the API needs of the service, of its store and of its hub."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, Protocol, TypeVar

from newnormal.io.arrivals import Arrival
from newnormal.service.values import (
    Comment,
    EventRow,
    Item,
    ItemPage,
    Rows,
    Series,
    StreamView,
)

_P = ParamSpec("_P")
_T = TypeVar("_T")
_THREADS = 4  # that read the store; each has a connection of its own


class Subscription(Protocol):
    """What one subscriber has not read yet."""

    closed: bool

    async def aget(self, timeout: float | None = None) -> Any:
        """Return the next message; None if none came in time, or when it is closed."""

    def close(self) -> None:
        """Get no more messages."""


class Hub(Protocol):
    """Gives every message to every subscriber."""

    def subscribe(self, maxsize: int = 1000) -> Subscription:
        """Begin to collect messages."""


class Store(Protocol):
    """What was kept; every method may take a while."""

    def count(self, stream: int) -> int:
        """Return the number of the next sample."""

    def first_kept(self, stream: int) -> int:
        """Return the number of the first sample that is still there."""

    def rows(
        self, stream: int, first: int, last: int, channels: Sequence[str] | None = None
    ) -> Rows:
        """Return some samples."""

    def series(
        self,
        stream: int,
        begin: int,
        end: int,
        points: int,
        channels: Sequence[str] | None = None,
    ) -> Series:
        """Return a stretch, thinned."""

    def item(self, key: str) -> Item | None:
        """Return an item."""

    def items(
        self,
        *,
        kinds: Sequence[str] | None = None,
        states: Sequence[str] | None = None,
        stream: int | None = None,
        open_only: bool = False,
        begin: int | None = None,
        end: int | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> ItemPage:
        """Return items, newest first."""

    def events(
        self, *, after: str | None = None, stream: int | None = None, limit: int = 100
    ) -> list[EventRow]:
        """Return events in their order."""

    @property
    def newest_event(self) -> str:
        """The id of the newest event."""

    def comment(self, comment: Comment) -> None:
        """Keep a comment."""

    def comments(self, key: str) -> list[Comment]:
        """Return the comments of an item, oldest first."""

    def alert_counts(self) -> Mapping[str, Mapping[str, Any]]:
        """Return how many alerts of each sink wait, were delivered and fail."""

    def get(self, space: str, name: str) -> Any:
        """Return a setting, or None."""

    def put(self, space: str, name: str, value: Any) -> None:
        """Keep a setting."""

    def delete(self, space: str, name: str) -> None:
        """Forget a setting."""

    def all(self, space: str) -> dict[str, Any]:
        """Return the settings of a space."""


class Facade(Protocol):
    """The service."""

    @property
    def config(self) -> Any:
        """Its configuration, another one after it was reloaded."""

    @property
    def store(self) -> Store:
        """What it keeps."""

    @property
    def hub(self) -> Hub:
        """What tells of news."""

    @property
    def ready(self) -> bool:
        """Whether it has started and does not stop."""

    @property
    def writable(self) -> bool:
        """Whether its log can be written."""

    def push(
        self,
        arrivals: Sequence[Arrival],
        *,
        history: bool = False,
        source: str = "",
        place: Mapping[str, Any] | None = None,
    ) -> Future[int]:
        """Log samples; the position once they are durable."""

    def decide(
        self,
        item: str | None,
        verb: str,
        /,
        *,
        stream: int | None = None,
        who: str,
        comment: str = "",
    ) -> Future[Item | None]:
        """Apply what a person decides."""

    def refit(
        self, stream: int, *, first: int | None = None, last: int | None = None
    ) -> Future[None]:
        """Fit again."""

    def remove(self, stream: int) -> Future[None]:
        """Remove a stream."""

    def restore_model(self, stream: int, generation: int) -> Future[None]:
        """Go back to an older model."""

    def streams(self) -> Sequence[StreamView]:
        """Return all streams."""

    def stream(self, number: int, /) -> StreamView | None:
        """Return a stream by its number."""

    def stream_named(self, name: str) -> StreamView | None:
        """Return a stream by its name."""

    def models(self, stream: int) -> list[dict[str, Any]]:
        """Return the models that a stream has had."""

    def health(self) -> dict[str, Any]:
        """Return how everything is."""


class Reading:
    """Some threads for what takes a while, so that requests do not wait for each other."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, "newnormal-api")

    async def __call__(
        self, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> _T:
        """Return what a function returns that is called in one of the threads."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: function(*args, **kwargs))

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)
