"""librdkafka's mock cluster in this process, and a relay between it and its clients.

The cluster speaks Kafka's protocol on ports of 127.0.0.1, so other processes can use it, too. It
keeps about 5 MB of each partition, knows groups, and shows messages of transactions that were
aborted, which a real broker would not.
"""

import ctypes
import json
import socket
import ssl
import struct
import threading
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from typing import Any, NamedTuple, Self

import pytest

pytest.importorskip("confluent_kafka", reason="needs the extra kafka")

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition, cimpl

from tests.peers import Peer
from tests.waiting import until

_PRODUCER = 0
_QUIET = {"log_level": 0}
_HOST = b"127.0.0.1"
_VERSIONS, _HANDSHAKE, _AUTHENTICATE = 18, 17, 36  # kinds of requests
_REFUSED = 58  # the error of a user who is not let in


class Sent(NamedTuple):
    """A message that a topic has."""

    key: str
    value: Any
    headers: Mapping[str, str]
    partition: int


class Kafka(Peer):
    """A cluster with one broker, which has no topics."""

    def __init__(self) -> None:
        super().__init__()
        self._library = _library()
        conf = self._library.rd_kafka_conf_new()
        text = ctypes.create_string_buffer(500)
        self._library.rd_kafka_conf_set(conf, b"log_level", b"0", text, 500)
        self._handle = self._library.rd_kafka_new(_PRODUCER, conf, text, 500)
        self._cluster = self._library.rd_kafka_mock_cluster_new(self._handle, 1)
        self._library.rd_kafka_mock_group_initial_rebalance_delay_ms(self._cluster, 0)
        self.server: str = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()
        self._producer = Producer({"bootstrap.servers": self.server, **_QUIET})

    @property
    def port(self) -> int:
        return int(self.server.rpartition(":")[2])

    def topic(self, name: str, partitions: int = 1) -> None:
        """Make a topic."""
        made = self._library.rd_kafka_mock_topic_create(self._cluster, name.encode(), partitions, 1)
        assert made == 0, made

    def produce(
        self,
        topic: str,
        value: Any,
        *,
        key: str | bytes | None = None,
        partition: int = 0,
        time: int = 0,
    ) -> None:
        """Queue a message, which `flush` sends; a value that is no bytes becomes JSON.

        Parameters
        ----------
        time
            In ms since 1970; 0: now.
        """
        payload = value if value is None or isinstance(value, bytes) else json.dumps(value)
        while True:
            with suppress(BufferError):
                self._producer.produce(topic, payload, key, partition, timestamp=time)
                return
            self._producer.poll(0.1)

    def flush(self) -> None:
        """Return once the broker has all messages."""
        assert self._producer.flush(30.0) == 0

    def send(self, topic: str, values: Iterable[Any], **more: Any) -> None:
        """Send messages, and return once the broker has them."""
        for each in values:
            self.produce(topic, each, **more)
        self.flush()

    def messages(self, topic: str) -> list[Sent]:
        """Return all messages of a topic."""
        found: list[Sent] = []
        with closing(self._reader("reader")) as reader:
            numbers = reader.list_topics(topic, timeout=10.0).topics[topic].partitions
            left = {
                number: reader.get_watermark_offsets(TopicPartition(topic, number), timeout=10.0)[1]
                for number in numbers
            }
            reader.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in numbers])
            while len(found) < sum(left.values()):
                for each in reader.consume(100, timeout=0.1):
                    assert each.error() is None
                    found.append(_sent(each))
        return found

    def committed(self, group: str, topic: str, partition: int = 0) -> int:
        """Return the offset that a group has committed; -1001: none."""
        with closing(self._reader(group)) as reader:
            (found,) = reader.committed([TopicPartition(topic, partition)], timeout=10.0)
            return int(found.offset)

    def _reader(self, group: str) -> Consumer:
        return Consumer({"bootstrap.servers": self.server, "group.id": group, **_QUIET})

    def fail(self, request: int, *errors: int) -> None:
        """Have the next requests of a kind fail: the numbers are those of the protocol."""
        self._library.rd_kafka_mock_push_request_errors_array(
            self._cluster, request, len(errors), (ctypes.c_int * len(errors))(*errors)
        )

    def close(self) -> None:
        if self._cluster is not None:
            self._library.rd_kafka_mock_cluster_destroy(self._cluster)
            self._library.rd_kafka_destroy(self._handle)
            self._cluster = None


def _sent(message: Any) -> Sent:
    headers = {name: value.decode() for name, value in message.headers() or ()}
    key = (message.key() or b"").decode()
    return Sent(key, json.loads(message.value()), headers, message.partition())


def _library() -> Any:
    """Return the C library that the Python one is linked to, with its mock clusters."""
    found = ctypes.CDLL(cimpl.__file__)
    if not hasattr(found, "rd_kafka_mock_cluster_new"):
        pytest.skip("needs librdkafka with mock clusters")
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    for name, result, arguments in (
        ("conf_new", pointer, []),
        ("conf_set", number, [pointer, text, text, text, ctypes.c_size_t]),
        ("new", pointer, [number, pointer, text, ctypes.c_size_t]),
        ("destroy", None, [pointer]),
        ("mock_cluster_new", pointer, [pointer, number]),
        ("mock_cluster_destroy", None, [pointer]),
        ("mock_cluster_bootstraps", text, [pointer]),
        ("mock_group_initial_rebalance_delay_ms", None, [pointer, ctypes.c_int32]),
        ("mock_topic_create", number, [pointer, text, number, number]),
        (
            "mock_push_request_errors_array",
            None,
            [pointer, ctypes.c_int16, ctypes.c_size_t, ctypes.POINTER(number)],
        ),
    ):
        function = getattr(found, f"rd_kafka_{name}")
        function.restype, function.argtypes = result, arguments
    return found


class Relay:
    """A port in front of a broker, whose connections can be cut.

    With a context it speaks TLS; with a user, it asks for name and password by SASL's PLAIN.

    A broker names its own port to clients, which would then leave the relay out: answers get the
    relay's port instead.
    """

    def __init__(
        self, port: int, context: ssl.SSLContext | None = None, user: tuple[str, str] | None = None
    ) -> None:
        self._target, self._context, self._user = port, context, user
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._relaying = False
        self.restore()

    @property
    def server(self) -> str:
        return f"127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Cut all connections, and take no new ones."""
        self._relaying = False
        _close(self._listener)  # it wakes the thread that waits for connections
        with self._lock:
            cut, self._open = self._open, set()
        for each in cut:
            _close(each)

    def restore(self) -> None:
        """Take connections again."""
        if self._listener.fileno() < 0:
            listener = until(self._listening, "the port to be free again")
            assert listener is not None
            self._listener = listener
        self._relaying = True
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _listening(self) -> socket.socket | None:
        with suppress(OSError):
            return socket.create_server(("127.0.0.1", self.port))
        return None

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        broker = socket.socket()
        try:
            if self._context is not None:
                client = self._context.wrap_socket(client, server_side=True)
            broker.connect(("127.0.0.1", self._target))
            welcome = self._welcomes(client, broker)
        except OSError:
            welcome = False
        if not welcome:
            _close(client)
            _close(broker)
            return
        with self._lock:
            if not self._relaying:
                _close(client)
                _close(broker)
                return
            self._open |= {client, broker}
        threading.Thread(target=self._move, args=(client, broker), daemon=True).start()
        self._move(broker, client, answers=True)

    def _welcomes(self, client: socket.socket, broker: socket.socket) -> bool:
        """Ask for the user before the broker gets any request but those for versions."""
        if self._user is None:
            return True
        expected = "\0".join(("", *self._user)).encode()
        while True:
            sent = _frame(client)
            kind, _, number = struct.unpack(">hhi", sent[:8])
            if kind == _VERSIONS:
                _send(broker, sent)
                _send(client, _with_sasl(_frame(broker)))
            elif kind == _HANDSHAKE:
                _send(client, struct.pack(">ihih5s", number, 0, 1, 5, b"PLAIN"))
            elif sent.endswith(expected):
                _send(client, struct.pack(">ihhi", number, 0, -1, 0))
                return True
            else:
                text = b"Authentication failed: Invalid username or password"
                answer = struct.pack(f">ihh{len(text)}si", number, _REFUSED, len(text), text, 0)
                _send(client, answer)
                return False

    def _move(self, source: socket.socket, target: socket.socket, *, answers: bool = False) -> None:
        """Move what one side sends to the other, message by message."""
        old, new = (_HOST + struct.pack(">i", port) for port in (self._target, self.port))
        with suppress(OSError), source.makefile("rb") as file:
            while size := file.read(4):
                body = file.read(struct.unpack(">i", size)[0])
                target.sendall(size + (body.replace(old, new) if answers else body))
        _close(source)
        _close(target)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()


def _send(target: socket.socket, message: bytes) -> None:
    target.sendall(struct.pack(">i", len(message)) + message)


def _frame(source: socket.socket) -> bytes:
    """Return the next message."""
    found = b""
    while len(found) < 4 or len(found) < 4 + struct.unpack(">i", found[:4])[0]:
        if not (more := source.recv(1)):
            raise ConnectionError("the other side has closed")
        found += more
    return found[4:]


def _with_sasl(answer: bytes) -> bytes:
    """Return a broker's list of versions with those of authentication."""
    error, count = struct.unpack(">hi", answer[4:10])
    if error:
        return answer
    more = struct.pack(">hhhhhh", _HANDSHAKE, 0, 1, _AUTHENTICATE, 0, 0)
    return answer[:6] + struct.pack(">i", count + 2) + more + answer[10:]


def _close(found: socket.socket) -> None:
    with suppress(OSError):
        found.shutdown(socket.SHUT_RDWR)
    found.close()
