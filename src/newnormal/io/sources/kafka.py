"""Samples from topics of Kafka."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from newnormal.arrivals.arrival import Arrival
from newnormal.errors import InputError
from newnormal.io.kafka import KafkaCluster, flattened
from newnormal.io.payloads import Payloads, PayloadValue, together
from newnormal.io.sources.base import Source
from newnormal.io.sources.kafka_group import (
    BEGINNING,
    END,
    GroupMember,
    KafkaTopics,
    Partition,
    partition_of,
    shown,
)
from newnormal.types import NO_TIME

if TYPE_CHECKING:
    from confluent_kafka import Message

_COMMIT_EVERY = 5.0  # s
_SHOWN = 5  # topics that a sentence names
_LARGEST = 4 * 2**20  # bytes of a message that is read
_LATEST = 2**63 // 1_000_000  # ms since 1970
_COUNT_EVERY = 10.0  # s: a notice that changes is logged again


class _ReadMessage(NamedTuple):
    """A message that was read."""

    partition: Partition
    behind: int  # the offset behind it
    values: list[PayloadValue]


class KafkaSamples:
    """Reads messages, and gives out their samples in batches.

    `payloads` reads the values of messages. `clock` returns seconds that always increase.
    """

    def __init__(self, payloads: Payloads, clock: Callable[[], float]) -> None:
        self._payloads = payloads
        self._clock = clock
        self._ready: list[_ReadMessage] = []
        self._unread = 0
        self._why = ""  # the last message could not be read
        self._notice = ""
        self._changed_at = -_COUNT_EVERY

    def __bool__(self) -> bool:
        return bool(self._ready)

    def read(self, messages: "Iterable[Message]") -> None:
        """Take messages; those that cannot be read are counted."""
        for message in messages:
            partition, offset = partition_of(message), cast("int", message.offset())
            try:
                values = self._values(message)
            except InputError as error:
                self._unread += 1
                self._why = f"{shown([partition])}, offset {offset}: {error.message}"
                values = []
            self._ready.append(_ReadMessage(partition, offset + 1, values))

    def take(self, limit: int, behind: dict[Partition, int]) -> list[Arrival]:
        """Return the next samples, at most `limit`.

        `behind`: the offsets behind the messages whose samples were given out; it is changed.
        """
        count = len(self._ready)
        while True:
            part = self._ready[:count]
            arrivals = together([value for each in part for value in each.values], limit)
            if sum(len(arrival.times) for arrival in arrivals) <= limit:
                break
            if count == 1:
                return self._take_part(limit)
            count //= 2
        for each in part:
            behind[each.partition] = each.behind
        del self._ready[:count]
        return arrivals

    def _take_part(self, limit: int) -> list[Arrival]:
        """Return the first samples of a message with many; its offset counts with the last."""
        first = self._ready[0]
        samples = limit
        while True:
            count = _count_of(first.values, samples) if samples else limit
            arrivals = together(first.values[:count], limit)
            if sum(len(arrival.times) for arrival in arrivals) <= limit:
                break
            samples //= 2
        self._ready[0] = first._replace(values=first.values[count:])
        return arrivals

    def _values(self, message: "Message") -> list[PayloadValue]:
        if (payload := message.value()) is None:  # a compacted topic's mark that a key was removed
            return []
        if len(payload) > _LARGEST:
            raise InputError(
                f"expected a message of at most {_LARGEST:,} bytes, found {len(payload):,}"
            )
        if payload[:1] == b"\0" and payload[5:6] in (b"{", b"["):
            payload = payload[5:]  # the number of its schema in a registry
        kind, stamp = message.timestamp()
        received = stamp * 1_000_000 if kind and 0 <= stamp < _LATEST else NO_TIME
        topic, key = cast("str", message.topic()), message.key()
        plain = payload.lstrip()[:1] not in (b"{", b"[")
        values = self._payloads.read(
            payload,
            stream=_text(key) if key else topic,
            received=received,
            channel=topic if key and plain else None,
        )
        if received == NO_TIME and any(value.time == NO_TIME for value in values):
            raise InputError("expected a time in the message or a timestamp of Kafka, found none")
        return values

    def notice(self) -> str:
        """Return how many messages could not be read, and why the last one could not."""
        if self._unread and self._clock() - self._changed_at >= _COUNT_EVERY:
            self._changed_at = self._clock()
            self._notice = (
                f"{self._unread:,} messages could not be read and were left out, the last one at "
                f"{self._why}"
            )
        return self._notice


def _text(key: bytes) -> str:
    """Return a key as text; one that is no text, in hexadecimal digits."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return key.hex()
    return text if text.isprintable() else key.hex()


def _count_of(values: Sequence[PayloadValue], samples: int) -> int:
    """Return how many values the first samples have."""
    last: tuple[str, int] | None = None
    for at, value in enumerate(values):
        if (value.stream, value.time) != last:
            last = value.stream, value.time
            samples -= 1
            if samples < 0:
                return at
    return len(values)


class KafkaSource(Source):
    """Reads topics as a member of a consumer group, from the offsets that the service's log has.

    Options: those of `newnormal.io.kafka.KafkaCluster` and of `newnormal.io.payloads.Payloads`;
    `topics`, where one that begins with ``^`` is a regular expression; `group` (newnormal);
    `start`, ``beginning`` (default) or ``end``: where to begin in a topic without a logged offset.

    The stream of a message is what its JSON names, else its key, else its topic. Its time is that
    in the JSON, else its timestamp in Kafka, so a message that is read twice has the same time.

    `clock` returns seconds that always increase.

    Offsets are committed to the broker once their samples are durable, for programs that show lag;
    they are not read. After a rebalance, a partition goes on at the offset behind the last batch.
    """

    def __init__(
        self, name: str, options: Mapping[str, Any], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(name, flattened(options))
        self._cluster = KafkaCluster(self.options)
        self._topics = KafkaTopics(self.options.where, self.options.texts("topics"))
        group: str = self.options.text("group", "newnormal")
        start = self.options.choice("start", BEGINNING, END)
        self._samples = KafkaSamples(Payloads(self.options), clock)
        self.options.end()
        self._clock = clock
        self._lock = threading.Lock()  # the library takes one call at a time
        self._closed = False
        self._durable: dict[Partition, int] = {}
        self._commit_at = 0.0
        self._member = GroupMember(self._cluster, self._topics, group, start, clock)

    def next_batch(self, limit: int) -> Sequence[Arrival]:
        """Return the samples of the next messages."""
        with self._lock:
            if self._closed:
                return []
            if not self._samples:  # all of them were in batches: none can be of a lost partition
                self._samples.read(self._member.messages(limit))
            return self._samples.take(limit, self._member.behind)

    def snapshot(self) -> dict[str, Any]:
        """Return the cluster and the offsets behind the last batch."""
        offsets: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in self._member.behind.items():
            offsets.setdefault(topic, {})[str(partition)] = offset
        return {"cluster": self._member.cluster_id, "offsets": offsets}

    def resume(self, snapshot: Mapping[str, Any]) -> bool:
        """Go on at offsets; False if they are of another cluster."""
        if snapshot["cluster"] is None:  # of before the first message
            return True
        with self._lock:
            self._member.cluster_id, _ = self._member.metadata()
            if self._member.cluster_id != snapshot["cluster"]:
                return False
            self._member.behind = {
                (topic, int(partition)): int(offset)
                for topic, own in snapshot["offsets"].items()
                for partition, offset in own.items()
            }
            return True

    def acknowledge(self) -> None:
        """Commit the offsets, every few seconds."""
        self._durable = dict(self._member.behind)
        with self._lock:
            if not self._closed and self._clock() >= self._commit_at:
                self._commit_at = self._clock() + _COMMIT_EVERY
                self._member.commit(self._durable)

    def notice(self) -> str:
        """Return what is wrong."""
        notices = [*self._member.notices(), self._samples.notice()]
        return "; ".join(notice for notice in notices if notice)

    def check(self) -> str:
        """Ask which topics there are, without joining the group."""
        with self._lock:
            cluster, topics = self._member.metadata()
        wanted, absent = self._topics.among(topics)
        if absent:
            raise InputError(
                f"{self._cluster.servers}: expected the topic {absent[0]}, found none",
                hint="it does not exist, or the user may not see it",
            )
        named = ", ".join(wanted[:_SHOWN]) + (", ..." if len(wanted) > _SHOWN else "")
        partitions = sum(len(topics[each].partitions) for each in wanted)
        return f"{self._cluster.described(cluster)}; topics {named}, {partitions} partitions"

    def close(self) -> None:
        """Leave the group."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._member.commit(self._durable)
                self._member.close()
