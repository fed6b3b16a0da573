"""Alerts as messages of a topic of Kafka."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from newnormal.errors import InputError
from newnormal.io.kafka import KafkaCluster, error_text, flattened
from newnormal.io.sinks.alerts import Alert, AlertRefusedError, AlertSink, SinkDownError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

_WAIT = 0.1  # s between two looks whether the sink was closed
_MORE = 2.0  # s that the report of a message may be late

_FIXED = {"acks": "all"}
_DEFAULTS = {
    "enable.idempotence": True,
    "allow.auto.create.topics": False,  # a topic of a name that is wrong is not made
    "linger.ms": 0,
}


class KafkaSink(AlertSink):
    """Sends each alert as a message; all replicas in sync have it when `send` returns.

    The value is the alert's JSON, the key that of its item, so both alerts of an item are in one
    partition in their order; the header ``newnormal-key`` is the alert's key.

    Options: those of `newnormal.io.kafka.KafkaCluster`; `topic`; `timeout` (10s).
    """

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        super().__init__(name, flattened(options))
        self._cluster = KafkaCluster(self.options)
        self._topic: str = self.options.text("topic")
        self._seconds: float = self.options.seconds("timeout", "10s", least="1s")
        self.options.end()
        self.timeout = self._seconds + 2 * _MORE
        self._lock = threading.Lock()
        self._closed = False
        self._producer: Producer | None = self._connected()

    def _connected(self) -> Producer:
        fixed = {**_FIXED, "message.timeout.ms": int(self._seconds * 1000)}
        return self._cluster.producer(fixed, _DEFAULTS)

    def send(self, alert: Alert) -> None:
        """Send an alert; return once the brokers have it."""
        with self._lock:
            if (error := self._report(alert)) is not None:
                self._judge(error)
            self._cluster.troubles.over()

    def _report(self, alert: Alert) -> KafkaError | None:
        """Return what the brokers reported of a message: None, they have it."""
        from confluent_kafka import KafkaException

        if self._closed:
            raise SinkDownError(f"{self._cluster.servers}: expected an open sink, found it closed")
        if self._producer is None:
            self._producer = self._connected()
        reports: list[KafkaError | None] = []

        def report(error: KafkaError | None, _: Message) -> None:
            reports.append(error)

        value = json.dumps(alert.body, ensure_ascii=False, allow_nan=False).encode()
        try:
            self._producer.produce(
                self._topic,
                value,
                alert.item.encode(),
                headers=[
                    ("newnormal-key", alert.key.encode()),
                    ("content-type", b"application/json"),
                ],
                on_delivery=report,
            )
        except KafkaException as error:
            cause: KafkaError = error.args[0]
            return cause
        until = time.monotonic() + self._seconds + _MORE
        while not reports and time.monotonic() < until and not self._closed:
            self._producer.poll(_WAIT)
        if reports:
            return reports[0]
        self._producer = None
        raise self._down("no report of the message")

    def _judge(self, error: KafkaError) -> None:
        from confluent_kafka import KafkaError

        code, problem = error.code(), error_text(error)
        if code in (
            KafkaError.MSG_SIZE_TOO_LARGE,
            KafkaError.RECORD_LIST_TOO_LARGE,
            KafkaError.INVALID_MSG,
            KafkaError.INVALID_RECORD,
        ):
            raise AlertRefusedError(
                f"{self._topic}: expected a message that the brokers take, found {problem}",
                hint="max.message.bytes of the topic and message.max.bytes of options limit it",
            )
        self._producer = None  # it remembers what brokers refused, also when that is mended
        if code == KafkaError._MSG_TIMED_OUT:
            problem = self._cluster.troubles.last or problem
        hint = {
            KafkaError.TOPIC_AUTHORIZATION_FAILED: "the user must be allowed to write the topic",
            KafkaError.CLUSTER_AUTHORIZATION_FAILED: "allow the user IdempotentWrite, or set "
            'options = {"enable.idempotence" = false}',
            KafkaError.UNKNOWN_TOPIC_OR_PART: "make the topic",
            KafkaError._UNKNOWN_TOPIC: "make the topic",
        }.get(code)
        raise self._down(problem, hint)

    def _down(self, problem: str, hint: str | None = None) -> SinkDownError:
        return SinkDownError(
            f"{self._cluster.servers}: expected the topic {self._topic} to take the message, "
            f"found {problem}",
            hint=hint,
        )

    def check(self) -> str:
        """Ask for the brokers and whether the topic is there."""
        with self._lock:
            producer = self._connected() if self._producer is None else self._producer
            metadata = self._cluster.metadata(producer, self._seconds)
        topic = metadata.topics.get(self._topic)
        if topic is None or topic.error is not None:
            raise InputError(
                f"{self._cluster.servers}: expected the topic {self._topic}, found none",
                hint="make it: kafka-topics.sh --create --topic "
                f"{self._topic} --bootstrap-server {self._cluster.servers.partition(',')[0]}",
            )
        count, brokers = len(topic.partitions), len(metadata.brokers)
        return (
            f"{self._cluster.described(metadata.cluster_id)}; "
            f"topic {self._topic}, {count} partitions, {brokers} brokers"
        )

    def close(self) -> None:
        """Send nothing more."""
        self._closed = True
        with self._lock:
            self._producer = None
