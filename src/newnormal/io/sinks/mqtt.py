"""Alerts as messages of a broker of MQTT."""

import json
import time
from collections.abc import Callable, Mapping
from secrets import token_hex
from typing import Any

from newnormal.errors import ParameterError
from newnormal.io.mqtt import LEAST_ERROR, BrokerError, MqttBroker, MqttConnection
from newnormal.io.sinks.alerts import RESOLVED, Alert, AlertRefusedError, AlertSink
from newnormal.io.topics import TopicTemplate

_TOPIC = "newnormal/alerts/{stream}"
_NAMES = ("stream", "kind", "item", "status")
_INCIDENT = "incidents"  # instead of the stream
_MEDIA = "application/json"
_IDLE = 30.0  # s without a message after which a connection is made anew
_HEADER = 64  # bytes that a packet has beside topic and payload, at most
_PACKET = 268_435_455  # bytes of a packet, at most

# Reason codes that are about the one message: invalid topic, packet too large, invalid payload.
_ABOUT_ALERT = (144, 149, 153)


class MqttSink(AlertSink):
    """Publishes each alert as JSON with QoS 1, and waits until the broker has it.

    Options: those of `newnormal.io.mqtt.MqttBroker`; `topic`, with ``{stream}``, ``{kind}``,
    ``{item}`` and ``{status}``; `retain`; `client_id`.

    With `retain`, the broker keeps the newest alert of each topic for who subscribes later. If the
    topic has ``{item}``, it keeps alerts of open items alone: what is resolved is removed.

    `clock` gives seconds.
    """

    def __init__(
        self, name: str, options: Mapping[str, Any], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(name, options)
        where = self.options.where
        self._broker = MqttBroker(self.options)
        self._topic = TopicTemplate(where, self.options.text("topic", _TOPIC), _NAMES)
        self._retain = self.options.flag("retain")
        self._client_id: str = self.options.text("client_id", f"newnormal-{name}-{token_hex(4)}")
        self.options.end()
        if self._retain and self._topic.has("status"):
            raise ParameterError(
                f"{where}: topic: expected no {{status}} beside retain, found it",
                hint="what has fired would stay there after it is resolved",
            )
        # To connect, for the broker's answer to that, and for those to two messages.
        self.timeout = 4 * self._broker.timeout
        self._clock = clock
        self._connection: MqttConnection | None = None
        self._used = 0.0

    def send(self, alert: Alert) -> None:
        """Publish an alert."""
        body = json.dumps(alert.body, ensure_ascii=False, allow_nan=False).encode()
        stream = alert.body["stream"]
        topic = self._topic.fill(
            {
                "stream": _INCIDENT if stream is None else str(stream),
                "kind": str(alert.body["kind"]),
                "item": alert.item,
                "status": alert.status,
            }
        )
        connection = self._open()
        removes = self._retain and self._topic.has("item") and alert.status == RESOLVED
        try:
            self._publish(connection, topic, body, retain=self._retain and not removes)
            if removes:
                self._publish(connection, topic, b"", retain=True)
        except BrokerError:
            self.close()
            raise
        self._used = self._clock()

    def check(self) -> str:
        """Connect as another client, which sends nothing."""
        connection = self._broker.connect(f"{self._client_id}-check")
        try:
            self._check_limits(connection)
        finally:
            connection.close()
        kept = ", and are retained" if self._retain else ""
        return (
            f"{self._broker.address} speaks MQTT {self._broker.version}; "
            f"alerts go to {self._topic.text}{kept}"
        )

    def close(self) -> None:
        """Leave the broker."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _open(self) -> MqttConnection:
        """Return a connection that was used lately, or a new one."""
        if self._connection is not None and self._clock() > self._used + _IDLE:
            self.close()  # it may be gone: nobody has looked at it since
        if self._connection is None:
            connection = self._broker.connect(self._client_id)
            try:
                self._check_limits(connection)
            except BrokerError:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _check_limits(self, connection: MqttConnection) -> None:
        """Raise an error if the broker takes no such messages."""
        if connection.limit("MaximumQoS", 2) < 1:
            raise connection.error("a broker that takes messages of QoS 1", "QoS 0 alone")
        if self._retain and not connection.limit("RetainAvailable", 1):
            raise connection.error(
                "a broker that retains messages", "one that does not", "set retain = false"
            )

    def _publish(
        self, connection: MqttConnection, topic: str, body: bytes, *, retain: bool
    ) -> None:
        most = connection.limit("MaximumPacketSize", _PACKET)
        if len(topic.encode()) + len(body) + _HEADER > most:
            raise AlertRefusedError(
                f"{self._broker.address}: expected a message of at most {most:,} bytes, "
                f"found {len(body):,}"
            )
        reason = connection.publish(topic, body, retain=retain, media=_MEDIA)
        if reason.value < LEAST_ERROR:
            return
        message = f"{self._broker.address}: expected {topic!r} to be taken, found {reason}"
        if reason.value in _ABOUT_ALERT:
            raise AlertRefusedError(message)
        raise BrokerError(message, hint="check what the broker allows this user to write")
