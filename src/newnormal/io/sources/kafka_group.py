"""A member of a consumer group that begins in each partition where the service's log says.

Kafka keeps the order within a partition alone. Where the messages of a stream are spread over
partitions, a backlog would come as all of one partition and then all of another one, and the
second half would be late: messages are put in the order of their times while some are behind.
One module because which partitions are behind and what they hold back change together.
"""

from __future__ import annotations

import heapq
import math
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast

from newnormal.errors import InputError, ParameterError
from newnormal.io.kafka import KafkaCluster, error_text

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

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


Partition = tuple[str, int]  # a topic, and the number of the partition

BEGINNING, END = "beginning", "end"

FIRST_ANSWER = 10.0  # s to wait for a broker before messages are read
_ANSWER = 0.4  # s to wait for a broker while they are
_WAIT = 0.25  # s for messages; a batch has what came meanwhile
_JOINING = 0.4  # s to be assigned partitions, and for their first messages
_SLICE = 500  # messages that are fetched at once
_HELD = 32 * 2**20  # bytes of messages that wait for other partitions
_BATCH = 8 * 2**20  # bytes of messages that are given out at once
_OVERHEAD = 300  # bytes of memory that a message needs beside its own
_PATIENCE = 10.0  # s that others wait for a partition without messages
_LOOK_EVERY = 30.0  # s between two looks at the topics
_LOOK_AGAIN = 3.0  # s, while one is missing
_SILENT = 5.0  # s without an answer of a broker, after which that is a notice
_CLOSING = 3.0  # s to wait for brokers at the end
_FUTURE = 60_000  # ms that a message may be ahead of the clock
_SHOWN = 5  # partitions that a sentence names

_FIXED = {
    "group.protocol": "classic",
    "partition.assignment.strategy": "range,roundrobin",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",  # so that nothing is left out unnoticed
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
}
_DEFAULTS = {
    "session.timeout.ms": 10_000,  # after a kill, the next start waits for it
    "queued.max.messages.kbytes": 16_384,
    "fetch.max.bytes": 16 * 2**20,
}


class KafkaTopics:
    """The topics to read: names, and regular expressions that begin with ``^``.

    >>> topics = KafkaTopics("source bus", ["metrics", "^plant-.*"])
    >>> topics.among(["plant-1", "plant-2", "__consumer_offsets", "other"])
    (['plant-1', 'plant-2'], ['metrics'])
    """

    def __init__(self, where: str, topics: Sequence[str]) -> None:
        self._topics = {topic: _pattern(where, topic) for topic in topics}

    def among(self, existing: Collection[str]) -> tuple[list[str], list[str]]:
        """Return those that exist, and what no topic is there for."""
        wanted: set[str] = set()
        absent = []
        for each, pattern in self._topics.items():
            if pattern is None:
                matching = {each} & set(existing)
            else:
                matching = {name for name in existing if pattern.match(name)}
                matching = {name for name in matching if not name.startswith("__")}  # Kafka's own
            wanted |= matching
            absent += [] if matching else [each]
        return sorted(wanted), absent


def _pattern(where: str, topic: str) -> re.Pattern[str] | None:
    try:
        return re.compile(topic) if topic.startswith("^") else None
    except re.error as error:
        raise ParameterError(
            f"{where}: topics: expected a regular expression, found {topic!r}: {error}",
            hint="a topic that begins with ^ is one",
        ) from None


class GroupMember:
    """Fetches messages as a member of a group.

    `cluster`: where Kafka is. `topics`, `group`, `start`: as the source's options. `clock` returns
    seconds that always increase.
    """

    def __init__(
        self,
        cluster: KafkaCluster,
        topics: KafkaTopics,
        group: str,
        start: str,
        clock: Callable[[], float],
    ) -> None:
        self._cluster, self._topics, self._group, self._start = cluster, topics, group, start
        self._clock = clock
        # for each partition the offset behind the last message that is in a batch: where it begins
        # whenever it is assigned
        self.behind: dict[Partition, int] = {}
        # what tells the cluster from others; None before a broker answered
        self.cluster_id: str | None = None
        self._assigned: dict[Partition, int] = {}  # with the offset that is fetched next
        self._moved = self._revoked = False  # whether partitions were, during a call
        self._ends: dict[Partition, int] = {}  # of partitions that are behind, once known
        self._paused: set[Partition] = set()
        self._backlog = Backlog[Partition, "Message"](_PATIENCE)
        self._mean = _OVERHEAD  # bytes of a message, of those that came last
        self._existing: dict[str, set[Partition]] = {}  # topics that are read
        self._first: frozenset[str] | None = None  # topics that existed at the first look
        self._look_at = 0.0
        self._silent_since: float | None = None
        self._absent: list[str] = []
        self._others: list[Partition] = []  # partitions that another consumer has
        self._lost = 0
        self._odd = ""  # why a partition could not be read where it was to begin
        self._committed: dict[Partition, int] = {}
        self._consumer: Consumer = cluster.consumer({"group.id": group, **_FIXED}, _DEFAULTS)

    def metadata(self) -> tuple[str | None, dict[str, Any]]:
        """Return the id of the cluster and its topics; only before `messages`."""
        metadata = self._cluster.metadata(self._consumer, FIRST_ANSWER)
        return metadata.cluster_id, _readable(metadata.topics)

    def messages(self, limit: int) -> list[Message]:
        """Return the next messages, at most `limit`; wait for them for a second at most."""
        self._look()
        until = self._clock() + _JOINING
        while True:
            messages = self._next(limit)
            settled = self._assigned and not self._backlog.is_anyone_behind
            if messages or settled or self._clock() >= until:
                return messages

    def _next(self, limit: int) -> list[Message]:
        messages = self._backlog.take(limit, _BATCH)
        if not messages or (len(messages) < limit and self._backlog.size < _HELD):
            if not self._fetch(limit - len(messages), 0.0 if messages else _WAIT):
                messages = []  # what was taken comes again
            messages += self._backlog.take(limit - len(messages), _BATCH)
        self._balance()
        return messages

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Report offsets to the broker, for programs that show how far a group is behind."""
        from confluent_kafka import KafkaException

        changed = {
            each: offsets[each]
            for each in self._assigned
            if each in offsets and offsets[each] != self._committed.get(each)
        }
        if changed:
            with suppress(KafkaException):  # nothing depends on it
                self._consumer.commit(
                    offsets=[_named(*each) for each in changed.items()], asynchronous=True
                )
                self._committed |= changed

    def close(self) -> None:
        """Leave the group."""
        # While no broker answers, librdkafka waits without end for what it was to commit.
        closing = threading.Thread(target=self._consumer.close, name="kafka close", daemon=True)
        closing.start()
        closing.join(_CLOSING)

    # ------------------------------------------------------------------ messages

    def _fetch(self, limit: int, wait: float) -> bool:
        """Put messages into the backlog; False if what was there has been dropped."""
        kept = True
        while limit > 0:
            began = self._clock()
            asked = max(1, min(_SLICE, limit, _BATCH // self._mean))
            messages = self._consumer.consume(asked, timeout=wait)
            self._backlog.waited(self._clock() - began, self._paused)
            self._cluster.troubles.check()
            kept = kept and not self._moved
            if self._revoked and messages and self._assigned:
                self._begin()  # they may be of before: all are fetched again
                messages = []
            self._moved = self._revoked = False
            before = self._backlog.size
            for message in messages:
                self._take(message)
            if messages:
                self._mean = max(_OVERHEAD, (self._backlog.size - before) // len(messages))
            if len(messages) < asked or self._backlog.size >= _HELD:
                break
            limit -= len(messages)
            wait = 0.0
        return kept

    def _take(self, message: Message) -> None:
        partition, offset = partition_of(message), message.offset() or 0
        if (error := message.error()) is not None:
            self._take_error(error, partition, offset)
            return
        self._silent_since = None
        if offset < self._assigned.get(partition, math.inf):  # not assigned, or there already
            return
        self._assigned[partition] = offset + 1
        kind, stamp = message.timestamp()
        usable = kind and stamp <= time.time() * 1000 + _FUTURE
        size = len(message.value() or b"") + len(message.key() or b"") + _OVERHEAD
        self._backlog.add(partition, stamp if usable else -math.inf, size, message)
        if self._backlog.is_behind(partition) and offset + 1 >= self._end(partition):
            self._backlog.caught_up(partition)

    def _end(self, partition: Partition) -> int:
        """Return where a partition ended when its first message came."""
        if partition not in self._ends:
            _, self._ends[partition] = self._consumer.get_watermark_offsets(
                _named(partition), cached=True
            )
        return self._ends[partition]

    def _take_error(self, error: KafkaError, partition: Partition, offset: int) -> None:
        from confluent_kafka import KafkaError

        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            self._silent_since = None
            self._backlog.caught_up(partition)
        elif code == KafkaError._AUTO_OFFSET_RESET:
            if partition in self._assigned:
                self._go_on(partition, offset)
        elif code in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED):
            raise InputError(
                f"{self._cluster.servers}: expected leave to read, found {error_text(error)}",
                hint=f"the user must be allowed to read the topics and the group {self._group}",
            )
        elif error.fatal():
            found = error_text(error)
            raise InputError(f"{self._cluster.servers}: expected messages, found {found}")
        else:  # such as a topic that was removed
            self._cluster.troubles.last = error_text(error)
            self._look_at = 0.0

    def _go_on(self, partition: Partition, offset: int) -> None:
        """Go on in a partition that has nothing at an offset."""
        low, high = self._range(partition)
        if 0 <= offset < low:
            self._lost += low - offset
            self._odd = (
                f"up to {self._lost:,} messages were removed before they were read, the last ones "
                f"from {shown([partition])}: keep messages longer (retention.ms)"
            )
        elif offset > high:
            self._odd = (
                f"{shown([partition])} ends at offset {high:,}, before the logged {offset:,}: the "
                "topic was made anew, and is read from its beginning"
            )
        self._assigned[partition] = offset if low <= offset <= high else low
        self._assign()

    def _range(self, partition: Partition) -> tuple[int, int]:
        from confluent_kafka import KafkaException

        try:
            return self._consumer.get_watermark_offsets(_named(partition), timeout=FIRST_ANSWER)
        except KafkaException as error:
            raise InputError(
                f"{shown([partition])}: expected where it begins and ends, "
                f"found {error_text(error.args[0])}"
            ) from None

    def _balance(self) -> None:
        """Fetch no more from partitions that are ahead of others, if much is held."""
        ahead: set[Partition] = set()
        if self._backlog.size >= (_HELD // 2 if self._paused else _HELD):
            ahead.update(self._backlog.ahead())
        if waiting := self._paused - ahead:
            self._consumer.resume([_named(each) for each in waiting])
        if new := ahead - self._paused:
            self._consumer.pause([_named(each) for each in new])
        self._paused = ahead

    # ------------------------------------------------------------------ topics and partitions

    def _look(self) -> None:
        """Look now and then which topics there are; subscribe to those that are wanted."""
        from confluent_kafka import KafkaException

        now = self._clock()
        silent = self._silent_since is not None or self._cluster.troubles.down
        if now < self._look_at and not silent:
            return
        try:
            metadata = self._consumer.list_topics(timeout=_ANSWER)
        except KafkaException:
            self._silent_since = now if self._silent_since is None else self._silent_since
            return
        self._silent_since = None
        self._cluster.troubles.over()
        if self.cluster_id not in (None, metadata.cluster_id):
            raise InputError(
                f"{self._cluster.servers}: expected the cluster {self.cluster_id}, "
                f"found {metadata.cluster_id}"
            )
        self.cluster_id = metadata.cluster_id
        topics = _readable(metadata.topics)
        self._first = frozenset(topics) if self._first is None else self._first
        wanted, self._absent = self._topics.among(topics)
        before, self._existing = (
            self._existing.keys(),
            {name: {(name, number) for number in topics[name].partitions} for name in wanted},
        )
        if self._existing.keys() != before:
            self._subscribe()
        self._look_at = now + (_LOOK_AGAIN if self._absent else _LOOK_EVERY)

    def _subscribe(self) -> None:
        if not self._existing:
            self._consumer.unsubscribe()
            return
        self._consumer.subscribe(
            list(self._existing),
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_revoke,
        )

    def _on_assign(self, _: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self._moved = True
        self._assigned = {(partition.topic, partition.partition): 0 for partition in partitions}
        every = {each for own in self._existing.values() for each in own}
        self._others = sorted(every - self._assigned.keys())
        self._begin()

    def _on_revoke(self, _: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self._moved = self._revoked = True
        for partition in partitions:
            self._assigned.pop((partition.topic, partition.partition), None)
        self._others = []
        self._drop()

    def _begin(self) -> None:
        """Fetch from the offsets behind the last batch."""
        self._drop()
        known = {topic for topic, _ in self.behind}
        for each in self._assigned:
            self._assigned[each] = self._offset(each, known)
        self._assign()

    def _drop(self) -> None:
        self._backlog.restart(self._assigned)
        self._ends = {}

    def _assign(self) -> None:
        self._consumer.resume([_named(each) for each in self._paused])
        self._paused = set()
        self._consumer.assign([_named(*each) for each in self._assigned.items()])

    def _offset(self, partition: Partition, known: Collection[str]) -> int:
        """Return where to begin in a partition; one of a topic that is known is new."""
        from confluent_kafka import OFFSET_BEGINNING

        if partition in self.behind:
            return self.behind[partition]
        topic = partition[0]
        if self._start == BEGINNING or topic in known or topic not in (self._first or ()):
            return OFFSET_BEGINNING
        # The number itself: what comes until the first batch is not left out by another start.
        self.behind[partition] = self._range(partition)[1]
        return self.behind[partition]

    def notices(self) -> list[str]:
        """Return what is wrong: with brokers, topics, other consumers, and messages lost."""
        notices = []
        if self._silent_since is not None and self._clock() - self._silent_since >= _SILENT:
            notices.append(
                f"{self._cluster.servers}: expected a broker to answer, found "
                f"{self._cluster.troubles.last or 'none that does'}"
            )
        if self._absent:
            notices.append(
                f"no topic {', '.join(self._absent)}: it does not exist, or the user may not see it"
            )
        if self._others:
            notices.append(
                f"another consumer in the group {self._group} has {shown(self._others)}: one "
                "service a group is supported; stop the other one, or set another group"
            )
        return notices + ([self._odd] if self._odd else [])


def partition_of(message: Message) -> Partition:
    """Return the partition of a message."""
    return cast("str", message.topic()), cast("int", message.partition())


def shown(partitions: Sequence[Partition]) -> str:
    """Return partitions as a sentence names them.

    >>> shown([("metrics", 0)]), shown([("m", at) for at in range(7)])
    ('metrics [0]', 'm [0], m [1], m [2], m [3], m [4] and 2 more')
    """
    listed = ", ".join(f"{topic} [{number}]" for topic, number in partitions[:_SHOWN])
    more = len(partitions) - _SHOWN
    return f"{listed} and {more} more" if more > 0 else listed


def _readable(topics: Mapping[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in topics.items() if each.error is None}


def _named(partition: Partition, offset: int | None = None) -> TopicPartition:
    from confluent_kafka import TopicPartition

    return TopicPartition(*partition) if offset is None else TopicPartition(*partition, offset)
