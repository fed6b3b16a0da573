"""Kafka: how a cluster is reached and what its errors mean, for the source and the sink."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from newnormal.errors import InputError, ParameterError, extra
from newnormal.io.options import Options

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Producer

_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_ATTEMPT = 0.5  # s to wait for an answer before looking whether the connection was refused
_SECRET = re.compile(r"password|secret|token|jaas|\.pem$")

# What librdkafka adds to an error, which differs each time.
_ADDED = re.compile(r" \(after \d+ms in state [^)]*\)|, \d+ identical error\(s\) suppressed")

# Settings of librdkafka that options have, and which ones.
_OPTIONS = {
    "bootstrap.servers": "servers",
    "metadata.broker.list": "servers",
    "security.protocol": "tls and user",
    "sasl.mechanism": "sasl",
    "sasl.mechanisms": "sasl",
    "sasl.username": "user",
    "ssl.ca.location": "ca_file",
    "ssl.certificate.location": "cert_file",
    "ssl.key.location": "key_file",
    "group.id": "group",
}

_log = logging.getLogger(__name__)


class KafkaCluster:
    """The connection to a cluster.

    Options: `servers`; `user`, `password` and `sasl`, the mechanism (PLAIN, SCRAM-SHA-256 or
    SCRAM-SHA-512); `tls`, `ca_file`, `cert_file`, `key_file` and `key_password`; `options`, other
    settings of librdkafka.

    `options`: the options of the source or the sink; those of this class are taken from it.

    >>> table = {"servers": ["kafka-1:9093"], "user": "nn", "password": "swordfish", "tls": True}
    >>> cluster = KafkaCluster(Options("source bus", table))
    >>> cluster.servers, cluster.protection
    ('kafka-1:9093', 'TLS, user nn')
    """

    def __init__(self, options: Options) -> None:
        self.where = options.where
        self.servers = ", ".join(_servers(options))  # the addresses, as messages show them
        self.troubles = KafkaTroubles(self.servers)  # what librdkafka reported of the connection
        user: str | None = options.text("user", None)
        password = options.secret("password")
        mechanism = options.choice("sasl", *_MECHANISMS)
        files: dict[str, str | None] = {
            "ssl.ca.location": options.text("ca_file", None),
            "ssl.certificate.location": options.text("cert_file", None),
            "ssl.key.location": options.text("key_file", None),
            "ssl.key.password": options.secret("key_password"),
        }
        tls = options.flag("tls", any(files.values()))
        self._chosen: dict[str, str] = options.table("options", {})
        if any(files.values()) and not tls:
            raise ParameterError(
                f"{self.where}: expected tls = true with ca_file, cert_file or key_file, "
                "found tls = false"
            )
        if (user is None) != (password is None):
            raise ParameterError(
                f"{self.where}: expected user and password together, found one of them",
                hint="password_file or password_env name the password",
            )
        sasl = user is not None
        self._fixed: dict[str, Any] = {
            "bootstrap.servers": self.servers.replace(" ", ""),
            "security.protocol": ("SASL_" if sasl else "") + ("SSL" if tls else "PLAINTEXT"),
            **{name: value for name, value in files.items() if value is not None},
        }
        if sasl:
            self._fixed |= {
                "sasl.mechanisms": mechanism,
                "sasl.username": user,
                "sasl.password": password,
            }
        self.protection = f"{'TLS' if tls else 'no TLS'}, {f'user {user}' if sasl else 'no user'}"
        _check_settings(self.where, self._chosen, self._fixed)

    def described(self, cluster_id: str | None) -> str:
        """Return the cluster as a sentence names it."""
        return f"cluster {cluster_id} at {self.servers} ({self.protection})"

    def consumer(self, fixed: Mapping[str, Any], defaults: Mapping[str, Any]) -> Consumer:
        """Return a consumer; `fixed` settings cannot be chosen by `options`, `defaults` can."""
        made: Consumer = self._made("Consumer", fixed, defaults)
        return made

    def producer(self, fixed: Mapping[str, Any], defaults: Mapping[str, Any]) -> Producer:
        """Return a producer; settings as those of a consumer."""
        made: Producer = self._made("Producer", fixed, defaults)
        return made

    def _made(self, kind: str, fixed: Mapping[str, Any], defaults: Mapping[str, Any]) -> Any:
        with extra("kafka", "confluent-kafka"):
            import confluent_kafka
        _check_settings(self.where, self._chosen, fixed)
        settings = {
            "client.id": "newnormal",
            "log_level": 2,  # of syslog: `Troubles` gets the errors
            "topic.metadata.refresh.interval.ms": 30_000,
            "reconnect.backoff.max.ms": 2_000,
            **defaults,
            **self._chosen,
            **self._fixed,
            **fixed,
            "error_cb": self.troubles,
        }
        try:
            return getattr(confluent_kafka, kind)(settings, logger=_log)
        except confluent_kafka.KafkaException as error:
            raise ParameterError(
                f"{self.where}: expected settings that librdkafka takes, "
                f"found {error_text(error.args[0])}",
                hint="its CONFIGURATION.md lists what options can have",
            ) from None

    def metadata(self, client: Consumer | Producer, timeout: float) -> Any:
        """Return what brokers and topics there are; an InputError if no broker answers.

        A consumer must not have subscribed: a message that it got would be lost.
        """
        from confluent_kafka import KafkaException

        until = time.monotonic() + timeout
        while True:
            left = until - time.monotonic()
            try:
                return client.list_topics(timeout=max(0.1, min(_ATTEMPT, left)))
            except KafkaException as error:
                client.poll(0)  # has librdkafka report why
                self.troubles.check()
                if left > _ATTEMPT:
                    continue
                raise InputError(
                    f"{self.servers}: expected a broker to answer, "
                    f"found {self.troubles.last or error_text(error.args[0])}",
                    hint="check servers, and that Kafka runs",
                ) from None


class KafkaTroubles:
    """Takes what librdkafka reports of the connection."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._refusal: InputError | None = None
        self.last = ""  # the last error, in words
        self.down = False  # whether no broker could be reached, until `over`

    def __call__(self, error: KafkaError) -> None:
        """Take an error; librdkafka tries again by itself after most of them."""
        from confluent_kafka import KafkaError

        if error.code() == KafkaError._ALL_BROKERS_DOWN:  # each of them has an error of its own
            self.down = True
            return
        self.last = error_text(error)
        hint = {
            KafkaError._AUTHENTICATION: "check user, password and sasl",
            KafkaError.SASL_AUTHENTICATION_FAILED: "check user, password and sasl",
            KafkaError.UNSUPPORTED_SASL_MECHANISM: "check sasl",
            KafkaError._SSL: "check tls, ca_file, cert_file and key_file",
        }.get(error.code())
        if hint is not None or error.fatal():
            self._refusal = InputError(
                f"{self._servers}: expected the brokers to take the connection, found {self.last}",
                hint=hint,
            )

    def check(self) -> None:
        """Raise an InputError if the connection was refused, so that trying again is useless."""
        refusal, self._refusal = self._refusal, None
        if refusal is not None:
            raise refusal

    def over(self) -> None:
        """Take note that brokers answer."""
        self._refusal, self.last, self.down = None, "", False


def flattened(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options whose table `options` has texts by the names of librdkafka's settings.

    >>> flattened({"options": {"fetch": {"wait": {"max.ms": 100}}, "check.crcs": True}})
    {'options': {'fetch.wait.max.ms': '100', 'check.crcs': 'true'}}
    """
    flat = dict(options)
    if isinstance(flat.get("options"), Mapping):
        flat["options"] = _flat(flat["options"], "")
    return flat


def _flat(table: Mapping[str, Any], before: str) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{before}{key}"
        if isinstance(value, Mapping):
            settings |= _flat(value, f"{name}.")
        elif isinstance(value, bool):
            settings[name] = "true" if value else "false"
        else:
            settings[name] = str(value) if isinstance(value, int | float) else value
    return settings


def _servers(options: Options) -> list[str]:
    listed: tuple[str, ...] = options.texts("servers")
    servers = [server.strip() for text in listed for server in text.split(",")]
    for server in servers:
        host, _, port = server.rpartition(":")
        if not host or "/" in server or not port.isdecimal():
            raise ParameterError(
                f"{options.where}: servers: expected host:port, found {server!r}",
                hint="such as those of bootstrap.servers",
            )
    return servers


def _check_settings(where: str, chosen: Mapping[str, str], fixed: Mapping[str, Any]) -> None:
    for name in chosen:
        if _SECRET.search(name):
            raise ParameterError(
                f"{where}: options: expected no secret in the configuration, found {name}",
                hint="password_file or password_env, key_password_file or key_password_env name it",
            )
        if name in _OPTIONS or name in fixed:
            option = _OPTIONS.get(name)
            raise ParameterError(
                f"{where}: options: expected settings that are not set already, found {name}",
                hint=f"use {option}" if option else "newnormal needs the value that it sets",
            )


def error_text(error: KafkaError) -> str:
    """Return an error in words, without what differs each time."""
    return _ADDED.sub("", error.str())
