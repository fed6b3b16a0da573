"""The messages of Kafka as samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from newnormal.errors import InputError
from newnormal.io.arrivals import Arrival
from newnormal.io.payloads import Payloads, Value, together
from newnormal.types import NO_TIME

if TYPE_CHECKING:
    from confluent_kafka import Message

Partition = tuple[str, int]  # a topic, and the number of the partition

_LARGEST = 4 * 2**20  # bytes of a message that is read
_LATEST = 2**63 // 1_000_000  # ms since 1970
_SHOWN = 5  # partitions that a sentence names
_COUNT_EVERY = 10.0  # s: a notice that changes is logged again


class _Read(NamedTuple):
    """A message that was read."""

    partition: Partition
    behind: int  # the offset behind it
    values: list[Value]


class Samples:
    """Reads messages, and gives out their samples in batches.

    Parameters
    ----------
    payloads
        Reads the values of messages.
    clock
        Returns seconds that always increase.
    """

    def __init__(self, payloads: Payloads, clock: Callable[[], float]) -> None:
        self._payloads = payloads
        self._clock = clock
        self._ready: list[_Read] = []
        self._unread = 0
        self._why = ""  # the last message could not be read
        self._notice = ""
        self._changed_at = -_COUNT_EVERY

    def __bool__(self) -> bool:
        return bool(self._ready)

    def read(self, messages: Iterable[Message]) -> None:
        """Take messages; those that cannot be read are counted."""
        for each in messages:
            partition, offset = partition_of(each), cast("int", each.offset())
            try:
                values = self._values(each)
            except InputError as error:
                self._unread += 1
                self._why = f"{shown([partition])}, offset {offset}: {error.message}"
                values = []
            self._ready.append(_Read(partition, offset + 1, values))

    def take(self, limit: int, behind: dict[Partition, int]) -> list[Arrival]:
        """Return the next samples, at most `limit`.

        Parameters
        ----------
        behind
            The offsets behind the messages whose samples were given out; it is changed.
        """
        count = len(self._ready)
        while True:
            part = self._ready[:count]
            found = together([value for each in part for value in each.values], limit)
            if sum(len(each.times) for each in found) <= limit:
                break
            if count == 1:
                return self._take_part(limit)
            count //= 2
        for each in part:
            behind[each.partition] = each.behind
        del self._ready[:count]
        return found

    def _take_part(self, limit: int) -> list[Arrival]:
        """Return the first samples of a message with many; its offset counts with the last."""
        first = self._ready[0]
        samples = limit
        while True:
            count = _count_of(first.values, samples) if samples else limit
            found = together(first.values[:count], limit)
            if sum(len(each.times) for each in found) <= limit:
                break
            samples //= 2
        self._ready[0] = first._replace(values=first.values[count:])
        return found

    def _values(self, message: Message) -> list[Value]:
        payload = message.value()
        if payload is None:  # a compacted topic's mark that a key was removed
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
        if received == NO_TIME and any(each.time == NO_TIME for each in values):
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


def partition_of(message: Message) -> Partition:
    """Return the partition of a message."""
    return cast("str", message.topic()), cast("int", message.partition())


def shown(partitions: Sequence[Partition]) -> str:
    """Return partitions as a sentence names them.

    >>> shown([("metrics", 0)]), shown([("m", at) for at in range(7)])
    ('metrics [0]', 'm [0], m [1], m [2], m [3], m [4] and 2 more')
    """
    found = ", ".join(f"{topic} [{number}]" for topic, number in partitions[:_SHOWN])
    more = len(partitions) - _SHOWN
    return f"{found} and {more} more" if more > 0 else found


def _text(key: bytes) -> str:
    """Return a key as text; one that is no text, in hexadecimal digits."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return key.hex()
    return text if text.isprintable() else key.hex()


def _count_of(values: Sequence[Value], samples: int) -> int:
    """Return how many values the first samples have."""
    last: tuple[str, int] | None = None
    for at, value in enumerate(values):
        if (value.stream, value.time) != last:
            last = value.stream, value.time
            samples -= 1
            if samples < 0:
                return at
    return len(values)
