"""Others that speak MQTT: a broker that answers as a test wants, a sender, and a receiver."""

import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from tests.clocks import StillClock
from tests.peers import Peer
from tests.waiting import until

CONNECT, CONNACK, PUBLISH, PUBACK = 1, 2, 3, 4
SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK = 8, 9, 10, 11
PINGREQ, PINGRESP, DISCONNECT = 12, 13, 14


def packet(kind: int, body: bytes = b"", flags: int = 0) -> bytes:
    return bytes([kind << 4 | flags]) + _length(len(body)) + body


def text(found: str | bytes) -> bytes:
    encoded = found.encode() if isinstance(found, str) else found
    return struct.pack("!H", len(encoded)) + encoded


def publish(
    topic: str | bytes,
    payload: bytes,
    number: int = 0,
    *,
    again: bool = False,
    retained: bool = False,
    version: int = 5,
    properties: bytes = b"",
) -> bytes:
    """Return a message; with a number it has QoS 1."""
    flags = (8 if again else 0) | (2 if number else 0) | (1 if retained else 0)
    body = text(topic) + (struct.pack("!H", number) if number else b"")
    if version == 5:
        body += _length(len(properties)) + properties
    return packet(PUBLISH, body + payload, flags)


def _length(count: int) -> bytes:
    found = b""
    while True:
        count, part = divmod(count, 128)
        found += bytes([part | 128 if count else part])
        if not count:
            return found


class Packet(NamedTuple):
    kind: int
    flags: int
    body: bytes

    @property
    def number(self) -> int:
        """Of an acknowledgement, a subscription or an end of one."""
        found: int = struct.unpack_from("!H", self.body)[0]
        return found


class Stream:
    """Packets of a connection, one after the other."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._rest = b""

    def packets(self) -> Iterator[Packet]:
        """Give packets until the connection ends."""
        while True:
            if (found := self._whole()) is not None:
                yield found
                continue
            try:
                more = self._connection.recv(1 << 16)
            except OSError:
                return
            if not more:
                return
            self._rest += more

    def _whole(self) -> Packet | None:
        length = shift = 0
        for at in range(1, min(5, len(self._rest))):
            length |= (self._rest[at] & 127) << shift
            shift += 7
            if self._rest[at] < 128:
                end = at + 1 + length
                if len(self._rest) < end:
                    return None
                first, body = self._rest[0], self._rest[at + 1 : end]
                self._rest = self._rest[end:]
                return Packet(first >> 4, first & 15, body)
        return None


class FakeBroker(Peer):
    """A broker that answers as a test wants. By default it takes everything."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = StillClock(1000.0)  # for connectors
        self.reason = 0  # of its answer to CONNECT
        self.resumed = False  # whether it says that it has kept the session
        self.limits = b""  # the properties of its answer to CONNECT, by version 5
        self.granted: int | None = 1  # its answer to a subscription; None: it does not answer
        self.taken = 0  # its answer to a message, by version 5
        self.confirms = True  # whether it answers to the end of a subscription
        self.closes = False
        self.is_silent = False
        self.then: list[bytes] = []  # what it sends once it has accepted a client
        self.packets: list[Packet] = []  # what it was sent, by all clients
        self.clients = 0  # how many have connected
        self._server = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        found: int = self._server.getsockname()[1]
        return found

    def numbers(self, kind: int) -> list[int]:
        """Return the numbers of the packets of a kind."""
        return [each.number for each in list(self.packets) if each.kind == kind]

    def send(self, *packets: bytes) -> None:
        """Send packets to the client that is there."""
        self._connections[-1].sendall(b"".join(packets))

    def drop(self) -> None:
        """End the connection of the client that is there."""
        _close(self._connections[-1])

    def close(self) -> None:
        _close(self._server)
        for each in self._connections:
            _close(each)
        self._thread.join(10.0)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self._connections.append(connection)
            threading.Thread(target=self._handle, args=(connection,), daemon=True).start()

    def _handle(self, connection: socket.socket) -> None:
        version = 5
        with suppress(OSError):
            for found in Stream(connection).packets():
                if found.kind == CONNECT:
                    version = found.body[6] if len(found.body) > 6 else 0
                    self.clients += 1
                answer = self._answer(found, version)
                self.packets.append(found)
                connection.sendall(answer)
                if found.kind == DISCONNECT or self.closes:
                    break
        _close(connection)

    def _answer(self, found: Packet, version: int) -> bytes:
        has_properties = version == 5
        if found.kind == CONNECT:
            body = bytes([int(self.resumed), self.reason])
            if has_properties:
                body += _length(len(self.limits)) + self.limits
            return b"" if self.is_silent else packet(CONNACK, body) + b"".join(self.then)
        if found.kind == SUBSCRIBE and self.granted is not None:
            body = found.body[:2] + (b"\0" if has_properties else b"") + bytes([self.granted])
            return packet(SUBACK, body)
        if found.kind == UNSUBSCRIBE and self.confirms:
            return packet(UNSUBACK, found.body[:2] + (b"\0\x11" if has_properties else b""))
        if found.kind == PUBLISH and found.flags & 6:
            at = 2 + struct.unpack_from("!H", found.body)[0]
            number = found.body[at : at + 2]
            return packet(PUBACK, number + (bytes([self.taken, 0]) if has_properties else b""))
        if found.kind == PINGREQ:
            return packet(PINGRESP)
        return b""


def _close(found: socket.socket) -> None:
    with suppress(OSError):
        found.shutdown(socket.SHUT_RDWR)
    found.close()


class Sender:
    """Publishes with QoS 1 by version 3.1.1, many at once, and again what was not acknowledged."""

    def __init__(self, port: int, name: str = "sender", window: int = 1000) -> None:
        self._port, self._name, self._window = port, name, window
        self.acknowledged = 0  # messages that the broker has taken
        # Payloads of messages that were sent again, as the broker may have taken them or not.
        self.repeated: Counter[bytes] = Counter()

    def send(
        self, messages: Sequence[tuple[str, bytes]], *, retain: bool = False, qos: int = 1
    ) -> None:
        """Return once the broker has them all."""
        if not qos:
            with self._connected() as (connection, _):
                connection.sendall(
                    b"".join(publish(topic, body, version=4) for topic, body in messages)
                )
            return
        waiting = dict(enumerate(messages))
        while waiting:
            with suppress(OSError), self._connected() as (connection, packets):
                self._some(connection, packets, waiting, retain)

    def _some(
        self,
        connection: socket.socket,
        packets: Iterator[Packet],
        waiting: dict[int, tuple[str, bytes]],
        retain: bool,
    ) -> None:
        """Send all that waits, on one connection."""
        left = iter(list(waiting.items()))
        sent: dict[int, int] = {}  # numbers of packets, and which messages they have

        def more(count: int) -> bytes:
            found = b""
            for _, (at, (topic, body)) in zip(range(count), left, strict=False):
                number = at % 60_000 + 1
                sent[number] = at
                found += publish(topic, body, number, retained=retain, version=4)
            return found

        try:
            connection.sendall(more(self._window))
            while sent and (answer := next(packets, None)) is not None:
                if answer.kind == PUBACK:
                    waiting.pop(sent.pop(answer.number))
                    self.acknowledged += 1
                if len(sent) <= self._window // 2 and (packed := more(self._window // 2)):
                    connection.sendall(packed)
        finally:  # the connection may also end by an error
            self.repeated.update(waiting[each][1] for each in sent.values())

    @contextmanager
    def _connected(self) -> Iterator[tuple[socket.socket, Iterator[Packet]]]:
        connection = until(self._connection, "the broker")
        assert connection is not None
        try:
            connection.sendall(packet(CONNECT, text("MQTT") + b"\x04\x02\0\0" + text(self._name)))
            packets = Stream(connection).packets()
            if (answer := next(packets, None)) is None:
                raise ConnectionResetError
            assert answer.body[1] == 0, answer
            yield connection, packets
            connection.sendall(packet(DISCONNECT))
        finally:
            _close(connection)

    def _connection(self) -> socket.socket | None:
        try:
            return socket.create_connection(("127.0.0.1", self._port), 5.0)
        except OSError:
            return None


class Received(NamedTuple):
    topic: str
    payload: bytes
    retained: bool


@contextmanager
def receiving(port: int, *filters: str) -> Iterator[list[Received]]:
    """Give the messages of a broker as they come; paho's client receives them."""
    from paho.mqtt.client import Client
    from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

    found: list[Received] = []
    ready = threading.Event()
    client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv311)
    client.on_message = lambda _client, _data, each: found.append(
        Received(each.topic, bytes(each.payload), each.retain)
    )
    client.on_subscribe = lambda *_: ready.set()

    def subscribe(*_: object) -> None:
        client.subscribe([(each, 1) for each in filters])

    client.on_connect = subscribe
    client.connect("127.0.0.1", port)
    client.loop_start()
    try:
        assert ready.wait(20.0), "no answer to the subscription"
        yield found
    finally:
        client.disconnect()
        client.loop_stop()


def plain(values: Iterable[float], topic: str = "plant/press/temp") -> list[tuple[str, bytes]]:
    """Return messages of plain numbers."""
    return [(topic, repr(each).encode()) for each in values]


class Tap:
    """Stands between a client and its broker, and sees what is acknowledged."""

    def __init__(self, broker: int) -> None:
        self._broker = broker
        self.holds = False  # acknowledgements, and all that the client sends after them
        self.held = 0  # how many acknowledgements were
        self._server = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.acknowledged: list[bytes] = []  # payloads, each as often as the client did
        self.clients = 0  # how often one has connected
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def port(self) -> int:
        found: int = self._server.getsockname()[1]
        return found

    def close(self) -> None:
        for each in (self._server, *self._open):
            _close(each)

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection(("127.0.0.1", self._broker), 5.0)
            except OSError:
                _close(client)
                continue
            broker.settimeout(None)
            self._open += [client, broker]
            sent: dict[int, bytes] = {}
            for source, target in ((client, broker), (broker, client)):
                threading.Thread(
                    target=self._pass_on, args=(source, target, sent), daemon=True
                ).start()

    def _pass_on(
        self, source: socket.socket, target: socket.socket, sent: dict[int, bytes]
    ) -> None:
        is_held = False
        with suppress(OSError):
            for found in Stream(source).packets():
                if found.kind == CONNECT:
                    self.clients += 1
                    sent[0] = found.body[6:7]  # the version
                elif found.kind == PUBLISH and found.flags & 6:
                    at = 2 + struct.unpack_from("!H", found.body)[0]
                    # By version 5, a byte follows that says that there are no properties.
                    begin = at + (3 if sent[0] == b"\5" else 2)
                    sent[struct.unpack_from("!H", found.body, at)[0]] = found.body[begin:]
                elif found.kind == PUBACK and self.holds:
                    is_held = True
                    self.held += 1
                elif found.kind == PUBACK:
                    self.acknowledged.append(sent[found.number])
                if not is_held:
                    target.sendall(packet(found.kind, found.body, found.flags))
        _close(source)
        _close(target)
