"""Publish events to subscribers."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from newnormal.engine.values import EventRow


class Tick(NamedTuple):
    """Streams that have newer samples, with the number of the newest."""

    streams: Mapping[int, int]


class Resync(NamedTuple):
    """The subscriber was too slow, and messages were dropped: it must read everything anew."""


Message = EventRow | Tick | Resync


class Subscription:
    """The messages for one subscriber, from any thread."""

    def __init__(self, hub: "Hub", most: int) -> None:
        self._hub, self._most = hub, most
        self._messages: deque[Message] = deque()
        self._lock = threading.Lock()
        self._wake: Callable[[], None] | None = None
        self.closed = False

    def put(self, message: Message) -> None:
        """Add a message; where there is no room, drop all and say so."""
        with self._lock:
            if len(self._messages) >= self._most:
                self._messages.clear()
                self._messages.append(Resync())
            if isinstance(message, Tick) and self._messages:
                last = self._messages[-1]
                if isinstance(last, Tick):  # the newer one has all of it
                    self._messages[-1] = Tick({**last.streams, **message.streams})
                    return
            self._messages.append(message)
            wake = self._wake
        if wake is not None:
            wake()

    def get(self) -> Message | None:
        """Return the next message; None if there is none."""
        with self._lock:
            return self._messages.popleft() if self._messages else None

    async def aget(self, timeout: float | None = None) -> Message | None:
        """Return the next message; None if none came in time, or when it is closed."""
        loop = asyncio.get_running_loop()
        there = asyncio.Event()

        def wake() -> None:
            try:
                loop.call_soon_threadsafe(there.set)
            except RuntimeError:  # the loop has ended, and with it the subscriber
                self.close()

        with self._lock:
            waits = not self._messages and not self.closed
            self._wake = wake if waits else None
        if waits:
            try:
                await asyncio.wait_for(there.wait(), timeout)
            except TimeoutError:
                pass
            finally:
                self._wake = None
        return self.get()

    def close(self) -> None:
        """End it."""
        with self._lock:
            self.closed = True
            wake = self._wake
        self._hub.leave(self)
        if wake is not None:
            wake()


class Hub:
    """Gives each message to all subscribers.

    >>> hub = Hub()
    >>> follower = hub.subscribe()
    >>> hub.publish(Tick({1: 7}))
    >>> follower.get()
    Tick(streams={1: 7})
    """

    def __init__(self) -> None:
        self._subscribers: set[Subscription] = set()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._subscribers)

    def subscribe(self, maxsize: int = 1000) -> Subscription:
        """Return a new subscription, of at most so many messages that wait."""
        subscription = Subscription(self, maxsize)
        with self._lock:
            self._subscribers.add(subscription)
        return subscription

    def leave(self, subscription: Subscription) -> None:
        """Forget a subscription."""
        with self._lock:
            self._subscribers.discard(subscription)

    def publish(self, message: Message) -> None:
        """Give a message to all."""
        with self._lock:
            subscribers = list(self._subscribers)
        for subscriber in subscribers:
            subscriber.put(message)

    def close(self) -> None:
        """End all subscriptions."""
        for subscriber in list(self._subscribers):
            subscriber.close()
