"""Samples from the messages of a broker of MQTT.

One module because deliveries, unread messages and tries to connect are the state of one source.
"""

import hashlib
import socket
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any

from newnormal.arrivals.arrival import Arrival
from newnormal.errors import InputError, ParameterError
from newnormal.io import mqtt
from newnormal.io.payloads import Payloads, PayloadValue, PlainTextError, together
from newnormal.io.sources.base import Source
from newnormal.io.topics import TopicPatterns, covers
from newnormal.texts import counted, shortened

if TYPE_CHECKING:
    from paho.mqtt.reasoncodes import ReasonCode

_SIZE = 8  # bytes of a digest
_EVERY = 60.0  # s between two changes of what is reported
_SHOWN = 200  # characters
_WAITS = (1.0, 2.0, 5.0, 10.0, 30.0)  # s to wait after so many failures
_CLOSED = 3  # connections that end within `_HELD_BACK`, as another client takes the session
_HELD_BACK = 60.0  # s to leave the session to another client before it is taken again
_REPORTED = 600.0  # s for which another client or a message that could not be read is reported
WINDOW = 2000  # messages that are taken before they are acknowledged
_IDLE = 1.0  # s to wait for a message
_LINGER = 0.05  # s to wait for more of them after the first
_LARGEST = 1 << 20  # bytes of a message that is read
_MOST_BYTES = 8 << 20  # of all messages of a batch
_KEEP = "7d"
_NUMBERS = 65_535  # that messages have, from 1 on
_RECENT = 30_000  # messages in the log that are remembered: fewer than until a number comes again
_TRIED = 2.0  # s for which `check` listens
_NO_TOPIC = "newnormal/acknowledged"  # nobody subscribes to it, so unsubscribing changes nothing


def digest_of(message: mqtt.MqttMessage) -> bytes:
    """Return what tells a message that is sent again from others: number, topic and payload.

    A broker that sends a message again has to keep its number.
    """
    digest = blake2b(message.number.to_bytes(2, "big"), digest_size=_SIZE)
    topic = (message.topic or "").encode()
    digest.update(len(topic).to_bytes(2, "big"))
    digest.update(topic)
    digest.update(message.payload)
    return digest.digest()


class Delivered:
    """Messages that are in the log and that the broker may send again.

    It does so where the connection ends before it has the acknowledgement. That it has it is known
    when it answers to something that was sent behind the acknowledgement.

    `most`: how many are kept.

    >>> delivered = Delivered(4)
    >>> delivered.add([b"first---", b"second--"])
    >>> sent = delivered.count
    >>> delivered.add([b"third---"])
    >>> delivered.confirm(sent)
    >>> b"second--" in delivered, b"third---" in delivered
    (False, True)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._digests: dict[bytes, None] = {}  # in order
        self.count = 0  # of all that were ever added

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._digests

    def __len__(self) -> int:
        return len(self._digests)

    def add(self, digests: Sequence[bytes]) -> None:
        """Add messages, the newest last."""
        for digest in digests:
            self._digests.pop(digest, None)
            self._digests[digest] = None
        self.count += len(digests)
        self._leave(self._most)

    def confirm(self, count: int) -> None:
        """Remove all but those that were added when there were more than `count`."""
        self._leave(self.count - count)

    def clear(self) -> None:
        """Remove all."""
        self._digests.clear()

    def _leave(self, newest: int) -> None:
        for each in list(islice(self._digests, max(0, len(self._digests) - newest))):
            del self._digests[each]

    def text(self, more: Sequence[bytes] = ()) -> str:
        """Return all of them and `more` as a text."""
        return b64encode(b"".join((*self._digests, *more))[-self._most * _SIZE :]).decode()

    def read(self, text: str) -> None:
        """Add those of a text."""
        digests = b64decode(text)
        self.add([digests[at : at + _SIZE] for at in range(0, len(digests), _SIZE)])


class Unread:
    """Messages that gave no values, and what to say of them.

    Broken ones are reported for ten minutes. Texts and objects without the field that is wanted
    are usual beside numbers, so they are reported only if no message of their pattern ever had a
    number. What is reported changes once a minute at most: each change is logged.

    `patterns`: the patterns of topics. `clock` gives seconds.
    """

    def __init__(
        self, patterns: Sequence[str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._patterns, self._clock = patterns, clock
        self._has_numbers = [False] * len(patterns)
        self._without = [0] * len(patterns)
        self._last_without = [""] * len(patterns)
        self._broken = 0
        self._last_broken = ""
        self._broken_at = 0.0
        self._reported = ""
        self._reported_at = -_EVERY

    def is_read(self, pattern: int) -> None:
        """Take note that a message of a pattern had a number."""
        self._has_numbers[pattern] = True

    def has_none(self, pattern: int, topic: str, why: str) -> None:
        """Take note of a message that has no number, and is not broken."""
        self._without[pattern] += 1
        self._last_without[pattern] = shortened(f"{topic}: {why}", _SHOWN)

    def is_broken(self, topic: str, why: str) -> None:
        """Take note of a message that could not be read."""
        self._broken += 1
        self._last_broken = shortened(f"{topic}: {why}", _SHOWN)
        self._broken_at = self._clock()

    def report(self) -> str:
        """Return what people should know; empty: nothing."""
        now = self._clock()
        if self._reported_at + _EVERY <= now:
            report = self._now(now)
            if report != self._reported:
                self._reported, self._reported_at = report, now
        return self._reported

    def _now(self, now: float) -> str:
        parts = []
        if self._broken and self._broken_at + _REPORTED > now:
            parts.append(
                f"{counted(self._broken, 'message')} could not be read, lastly {self._last_broken}"
            )
        for at, pattern in enumerate(self._patterns):
            if self._without[at] and not self._has_numbers[at]:
                parts.append(
                    f"no message of {pattern} has a number, "
                    f"{counted(self._without[at], 'message')} so far, "
                    f"lastly {self._last_without[at]}"
                )
        return "; ".join(parts)


class Tries:
    """Connections that ended or could not be made.

    One that ends without a reason is made again at once. A broker that ends connections again and
    again and yet accepts the client has another client with the same id: not all brokers say so.
    The session is left to that for a minute.

    `clock` gives seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._due = -1.0
        self._failures = 0
        self._trouble = ""
        self._closed: list[float] = []
        self._taken: tuple[float, str] | None = None  # when, and what to say

    def is_due(self) -> bool:
        """Return whether to connect now."""
        return self._clock() >= self._due

    def failed(self, error: mqtt.BrokerError, client_id: str) -> None:
        """Take note of a connection that ended or could not be made."""
        now = self._clock()
        if not isinstance(error, mqtt.ClosedError):
            self._due = now + _WAITS[min(self._failures, len(_WAITS) - 1)]
            self._failures += 1
            self._closed.clear()  # the broker itself was away
            self._trouble = f"{error.message} ({error.hint})" if error.hint else error.message
            return
        self._closed = [each for each in self._closed if each > now - _HELD_BACK] + [now]
        if isinstance(error, mqtt.SessionTakenError) or len(self._closed) >= _CLOSED:
            self._due = now + _HELD_BACK
            self._taken = (
                now,
                f"another client with the client id {client_id!r} has taken the session over, and "
                "messages may have gone to it: set another client_id here or there",
            )

    def succeeded(self) -> None:
        """Take note that messages come."""
        self._failures = 0
        self._trouble = ""

    def report(self) -> str:
        """Return what people should know; empty: nothing."""
        taken = ""
        if self._taken is not None and self._clock() < self._taken[0] + _REPORTED:
            taken = self._taken[1]
        return "; ".join(each for each in (self._trouble, taken) if each)


class MqttSource(Source):
    """Subscribes to topics with QoS 1; a message is acknowledged once its samples are durable.

    The first connection fails with an error. One that ends later is made again by the source
    itself, which remembers what it has logged: the broker may send that again.

    Options: those of `newnormal.io.mqtt.MqttBroker` and of `newnormal.io.payloads.Payloads`;
    `topics`, patterns as `TopicPattern` takes them; `retained`, ``"ignore"`` or ``"take"``; `keep`,
    for how long the broker keeps messages while nobody fetches them (``"7d"``), or ``"none"``;
    `client_id`.

    `clock` gives seconds.
    """

    def __init__(
        self, name: str, options: Mapping[str, Any], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(name, options)
        where = self.options.where
        self._broker = mqtt.MqttBroker(self.options)
        self._payloads = Payloads(self.options)
        self._topics = TopicPatterns(where, self.options.texts("topics"))
        self._takes_retained = self.options.choice("retained", "ignore", "take") == "take"
        keep: str = self.options.text("keep", _KEEP)
        self._keep = 0.0 if keep == "none" else self.options.seconds("keep", _KEEP)
        self._given_id: str | None = self.options.text("client_id", None)
        self.options.end()
        self._overlapping = self._topics.overlapping()
        if self._overlapping is not None and self._broker.version != "5":
            raise self._twice()
        self._client_id = self._given_id or _default_id(name)
        self._filters = list(self._topics.filters)
        self._left: list[str] = []  # filters to unsubscribe from
        self._clock = clock
        self._ended = threading.Event()
        self._connection: mqtt.MqttConnection | None = None
        self._delivered = Delivered(4 * WINDOW)
        self._recent = Delivered(_RECENT)
        self._counts_up = True  # whether the broker numbers messages one after the other
        self._unread = Unread([pattern.text for pattern in self._topics.patterns], clock)
        self._low_qos = ""
        self._tries = Tries(clock)
        self._was_well = False  # whether the broker has granted all subscriptions
        self._last_time = 0
        self._begin()

    def _begin(self) -> None:
        """Forget what belongs to a connection that is gone."""
        self._asked: dict[int, tuple[str, float]] = {}  # filters whose subscription has no answer
        self._confirming: tuple[int, int] | None = None  # the number of what was asked, and a count
        self._newest = 0  # the number of the last message that was not sent before; 0: none came
        self._parts: list[Arrival] = []  # of the last batch, and not given out
        self._is_given = False  # whether there are samples that were given out and are not durable
        self._unacknowledged: list[int] = []
        self._digests: list[bytes] = []  # of messages in the last batch

    # ------------------------------------------------------------------ what a source does

    def next_batch(self, limit: int) -> Sequence[Arrival]:
        """Return the samples of messages that came within a second."""
        if not self._parts:
            try:
                values = self._gathered(limit)
            except mqtt.BrokerError as error:
                if not self._was_well:
                    raise
                self._tries.failed(error, self._client_id)
                self._leave()
                return ()
            if not values:
                if not self._is_given:
                    self._release()
                return ()
            self._is_given = True
            self._parts = together(values, len(values))
        return self._next_part(limit)

    def snapshot(self) -> dict[str, Any]:
        """Return the session, and which messages the broker may send again."""
        return {
            "broker": self._broker.address,
            "client_id": self._client_id,
            "filters": list(self._filters),
            "delivered": self._delivered.text(() if self._parts else self._digests),
        }

    def resume(self, snapshot: Mapping[str, Any]) -> bool:
        """Take over the session of a snapshot."""
        client_id = self._given_id or str(snapshot.get("client_id", self._client_id))
        is_same = snapshot.get("broker") == self._broker.address
        if is_same and client_id == snapshot.get("client_id"):
            self._delivered.read(snapshot.get("delivered", ""))
            former = snapshot.get("filters", [])
            self._left = [each for each in former if each not in self._filters]
            # Those that the broker has messages of come first: a message belongs to the first.
            self._filters.sort(key=lambda each: each not in former)
        self._client_id = client_id
        return is_same

    def acknowledge(self) -> None:
        """Acknowledge the messages of the last batch, unless a part of it was not given out."""
        if not self._parts:
            self._delivered.add(self._digests)
            self._recent.add(self._digests)
            self._is_given = False
            self._release()

    def notice(self) -> str:
        """Return which messages cannot be read, and whether another client is in the way."""
        parts = [self._tries.report(), self._unread.report(), self._low_qos]
        return "; ".join(part for part in parts if part)

    def check(self) -> str:
        """Connect as another client, subscribe, and listen for two seconds."""
        connection = self._broker.connect(f"{self._client_id}-check")
        try:
            self._check_overlap(connection)
            for wanted in self._filters:
                asked = self._subscribed(connection, wanted)
                self._check_answer(connection, wanted, connection.wait_for(asked))
            return self._listened(connection)
        finally:
            connection.close()

    def close(self) -> None:
        """Leave the broker, which keeps the session."""
        self._ended.set()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    # ------------------------------------------------------------------ connection

    def _open(self) -> mqtt.MqttConnection:
        """Return a connection that has asked for all topics."""
        if self._connection is not None:
            return self._connection
        connection = self._broker.connect(self._client_id, keep=self._keep, window=WINDOW)
        self._connection = connection
        self._begin()
        if not connection.resumed:  # the broker has nothing that it could send again
            self._delivered.clear()
            self._recent.clear()
        self._check_overlap(connection)
        for wanted in self._left:
            connection.unsubscribe(wanted)
        for wanted in self._filters:
            self._asked[self._subscribed(connection, wanted)] = wanted, self._clock()
        return connection

    def _subscribed(self, connection: mqtt.MqttConnection, wanted: str) -> int:
        """Ask for the messages of a filter; return the number of the answer."""
        identifier = 0 if self._overlapping is None else _identifier(wanted)
        return connection.subscribe(wanted, identifier=identifier, retained=self._takes_retained)

    def _check_overlap(self, connection: mqtt.MqttConnection) -> None:
        available = connection.limit("SubscriptionIdentifierAvailable", 1)
        if self._overlapping is not None and not available:
            raise self._twice()

    def _twice(self) -> ParameterError:
        one, other = self._overlapping or ("", "")
        return ParameterError(
            f"source {self.name}: topics: expected filters of which one covers the other or that "
            f"match no common topic, found {one!r} and {other!r}: the broker would send a message "
            "twice",
            hint="version = 5 tells both from each other, or use a filter that covers them",
        )

    def _check_answer(
        self, connection: mqtt.MqttConnection, wanted: str, reasons: "Sequence[ReasonCode]"
    ) -> None:
        """Raise an error unless the broker sends the messages of a filter."""
        for reason in reasons:
            if reason.value >= mqtt.LEAST_ERROR:
                raise connection.error(
                    f"to be allowed to subscribe to {wanted!r}",
                    f"the broker's answer {reason}",
                    "check what the broker allows this user to read",
                )
            if reason.value == 0:
                self._low_qos = (
                    f"the broker grants QoS 0 for {wanted!r}: messages that come while the "
                    "service is down are lost"
                )

    def _take_answers(self, connection: mqtt.MqttConnection) -> None:
        """Look at the broker's answers to subscriptions and to the last acknowledgement."""
        for number, (wanted, since) in list(self._asked.items()):
            if (reasons := connection.answers(number)) is not None:
                del self._asked[number]
                self._check_answer(connection, wanted, reasons)
                if not self._asked:
                    self._was_well = True
                    self._tries.succeeded()
            elif not connection.messages and self._clock() > since + self._broker.timeout:
                raise connection.error(f"an answer to the subscription to {wanted!r}", "none")
        if self._confirming is not None and connection.answers(self._confirming[0]) is not None:
            self._delivered.confirm(self._confirming[1])
            self._confirming = None

    def _release(self) -> None:
        numbers, self._unacknowledged, self._digests = self._unacknowledged, [], []
        connection = self._connection
        if connection is None or not numbers:
            return
        # If the connection is gone, the next batch says so.
        with suppress(mqtt.BrokerError):
            connection.acknowledge(numbers)
            # Before the first new message, the broker may not have sent all that it sends again.
            if self._delivered and self._confirming is None and self._newest:
                self._confirming = connection.unsubscribe(_NO_TOPIC), self._delivered.count

    def _leave(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        self._begin()

    # ------------------------------------------------------------------ messages

    def _gathered(self, limit: int) -> list[PayloadValue]:
        """Return the values of the messages that came."""
        if self._connection is None and not self._tries.is_due():
            self._ended.wait(_IDLE)
            return []
        connection = self._open()
        connection.keep_alive()
        values: list[PayloadValue] = []
        taken = samples = size = 0
        until = time.monotonic() + _IDLE
        while taken < WINDOW and samples < limit and size < _MOST_BYTES:
            if not connection.messages:
                left = max(0.0, until - time.monotonic())
                try:
                    came = connection.turn(left)
                except mqtt.BrokerError:
                    if values:  # they may come again, or never; the next batch has the error
                        break
                    raise
                self._take_answers(connection)
                if self._ended.is_set() or not (came or left):
                    break
                continue
            if not taken:
                until = time.monotonic() + _LINGER
            message = connection.messages.popleft()
            message_values = self._values(message)
            values += message_values
            taken += 1
            size += len(message.payload)
            samples += (
                len(message_values)
                if len(message_values) < 2
                else len({value[::2] for value in message_values})
            )
        return values

    def _values(self, message: mqtt.MqttMessage) -> list[PayloadValue]:
        """Return the values of a message; those that give none need not be durable."""
        if message.number:
            self._unacknowledged.append(message.number)
            if not message.again:
                self._count(message.number)
        named = None if message.topic is None else self._topics.named(message.topic)
        if named is None or message.topic is None or not self._is_wanted(message):
            return []
        digest = digest_of(message) if message.number else b""
        if message.again and self._is_logged(digest):
            return []
        self._last_time = received = max(message.received, self._last_time + 1)
        try:
            if len(message.payload) > _LARGEST:
                raise InputError(
                    f"expected at most {_LARGEST:,} bytes, found {len(message.payload):,}"
                )
            values = self._payloads.read(
                message.payload, stream=named.stream, received=received, channel=named.channel
            )
        except PlainTextError as error:
            self._unread.has_none(named.pattern, message.topic, error.message)
            return []
        except InputError as error:
            self._unread.is_broken(message.topic, error.message)
            return []
        if values:
            self._unread.is_read(named.pattern)
            if digest:
                self._digests.append(digest)
        elif lacking := self._payloads.lacking(message.payload):
            self._unread.has_none(named.pattern, message.topic, lacking)
        return values

    def _count(self, number: int) -> None:
        """Take note of the number of a message that was not sent before."""
        if self._newest and not 0 < (number - self._newest) % _NUMBERS < _NUMBERS // 2:
            self._counts_up = False
        self._newest = number

    def _is_logged(self, digest: bytes) -> bool:
        """Return whether a message that is sent again is in the log.

        A broker that was killed sends messages again that were acknowledged long ago. They are
        recognised among the recent ones if no other message can have had their number since.
        """
        return digest in self._delivered or (self._counts_up and digest in self._recent)

    def _is_wanted(self, message: mqtt.MqttMessage) -> bool:
        """Return whether to take a message that matches a pattern."""
        if message.retained and not self._takes_retained:
            return False
        if self._overlapping is None or not message.subscriptions:
            return True
        # It comes once for each subscription: it belongs to the first.
        known = [each for each in self._filters if covers(each, message.topic or "")]
        came_by = [each for each in known if _identifier(each) in message.subscriptions]
        return not came_by or came_by[0] == known[0]

    def _next_part(self, limit: int) -> list[Arrival]:
        """Return at most so many samples of the last batch."""
        arrivals: list[Arrival] = []
        while self._parts and limit:
            each = self._parts[0]
            if len(each.times) <= limit:
                arrivals.append(self._parts.pop(0))
                limit -= len(each.times)
                continue
            arrivals.append(each._replace(times=each.times[:limit], values=each.values[:limit]))
            self._parts[0] = each._replace(times=each.times[limit:], values=each.values[limit:])
            limit = 0
        return arrivals

    def _listened(self, connection: mqtt.MqttConnection) -> str:
        """Return what came within two seconds."""
        until = time.monotonic() + _TRIED
        values: list[PayloadValue] = []
        count = 0
        while (left := until - time.monotonic()) > 0 and count < WINDOW:
            connection.turn(left)
            while connection.messages:
                message = connection.messages.popleft()
                count += 1
                values += self._values(message)
                connection.acknowledge([message.number] if message.number else [])
        streams = len({value.stream for value in values})
        channels = len({each[:2] for each in values})
        topics = ", ".join(self._filters)
        received = f"{count} messages within {_TRIED:g} s, {channels} channels of {streams} streams"
        bad = self._unread.report()
        return (
            f"{self._broker.address} speaks MQTT {self._broker.version}; subscribed to {topics}; "
            f"{received}{f'; {bad}' if bad else ''}"
        )


def _default_id(name: str) -> str:
    """Return a client id that is the same whenever this machine has a source of this name."""
    machine = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]
    return f"newnormal-{name}-{machine}"


def _identifier(wanted: str) -> int:
    """Return the identifier of a subscription: the same whichever others there are."""
    digest = hashlib.sha256(wanted.encode()).digest()
    return int.from_bytes(digest[:4], "big") % 268_435_455 + 1
