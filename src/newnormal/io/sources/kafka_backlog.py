"""Messages of several partitions, put in the order of their times while some are behind.

Kafka keeps the order within a partition alone. Where the messages of a stream are spread over
partitions, a backlog would come as all of one partition and then all of another one, and the
second half would be late.
"""

import heapq
import math
from collections import deque
from collections.abc import Collection, Hashable
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class _Held(NamedTuple, Generic[T]):
    time: float
    size: int
    item: T


class Backlog(Generic[K, T]):
    """Holds messages until no partition that is behind can still have an earlier one.

    A partition is behind from `restart` until `caught_up`. It no longer keeps others waiting after
    `patience` seconds in which nothing came from it.

    `patience` is in seconds that were spent waiting, `size` in bytes of all messages that are held.

    >>> backlog = Backlog[int, str](patience=10.0)
    >>> backlog.restart([0, 1])
    >>> for partition, time, text in [(0, 1, "a"), (0, 3, "c"), (1, 2, "b")]:
    ...     backlog.add(partition, time, 1, text)
    >>> backlog.take(10, 100)
    ['a', 'b']
    >>> backlog.caught_up(1)
    >>> backlog.take(10, 100)
    ['c']
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self.restart(())

    def restart(self, partitions: Collection[K]) -> None:
        """Drop everything; all of these partitions are behind."""
        self._queues: dict[K, deque[_Held[T]]] = {partition: deque() for partition in partitions}
        self._newest: dict[K, float] = dict.fromkeys(partitions, -math.inf)
        self._behind: dict[K, float] = dict.fromkeys(partitions, 0.0)  # seconds without a message
        self.size = 0

    @property
    def is_anyone_behind(self) -> bool:
        """Whether there is a partition that others wait for."""
        return bool(self._behind)

    def is_behind(self, partition: K) -> bool:
        """Whether others wait for this partition."""
        return partition in self._behind

    def caught_up(self, partition: K) -> None:
        """Take note that a partition has no backlog any more."""
        self._behind.pop(partition, None)

    def add(self, partition: K, time: float, size: int, item: T) -> None:
        """Add the next message of a partition; one that is earlier than the last counts as that."""
        self._newest[partition] = time = max(time, self._newest[partition])
        self._queues[partition].append(_Held(time, size, item))
        self.size += size
        if partition in self._behind:
            self._behind[partition] = 0.0

    def waited(self, seconds: float, paused: Collection[K]) -> None:
        """Take note of time spent waiting for messages of all partitions but those `paused`."""
        for each in [*self._behind]:
            if each not in paused:
                self._behind[each] += seconds
                if self._behind[each] > self._patience:
                    self.caught_up(each)

    def take(self, count: int, size: int) -> list[T]:
        """Return the earliest messages: at most `count`, and no more once they have `size`."""
        until = self._until()
        heads = [(queue[0].time, at) for at, queue in enumerate(self._queues.values()) if queue]
        queues = list(self._queues.values())
        heapq.heapify(heads)
        items: list[T] = []
        while heads and len(items) < count and size > 0:
            time, at = heads[0]
            if time > until:
                break
            held = queues[at].popleft()
            items.append(held.item)
            self.size -= held.size
            size -= held.size
            if queues[at]:
                heapq.heapreplace(heads, (queues[at][0].time, at))
            else:
                heapq.heappop(heads)
        return items

    def ahead(self) -> list[K]:
        """Return the partitions that hold messages for which others have to catch up."""
        until = self._until()
        return [each for each, queue in self._queues.items() if queue and queue[-1].time > until]

    def holds(self, partition: K) -> bool:
        """Whether there are messages of a partition."""
        return bool(self._queues.get(partition))

    def _until(self) -> float:
        """Return the time up to which messages can be given out."""
        return min((self._newest[each] for each in self._behind), default=math.inf)
