"""Brokers of MQTT: the options, and a connection handled packet by packet in its user's thread.

One module because a broker and its connections are what source and sink share.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from newnormal.errors import NewnormalError, ParameterError, extra
from newnormal.io.options import Options, one_of

if TYPE_CHECKING:
    from paho.mqtt.client import Client
    from paho.mqtt.properties import Properties
    from paho.mqtt.reasoncodes import ReasonCode

LEAST_ERROR = 128  # the first reason code that is an error

_KEEPALIVE = 60  # s without a packet after which the broker is asked whether it is there
_SLICE = 0.1  # s
_TAKEN_OVER = 142

# By reason code, what to do if a client is not accepted.
_HINTS = {
    132: 'version = "3.1.1" and version = 5 set the version',
    133: "client_id sets another one",
    134: "user, and password_file or password_env, set them",
    135: "check user and password, and what the broker allows this user to do",
}
_VERSION = one_of("5", "3.1.1")
_PORTS = {"mqtt": 1883, "mqtts": 8883, "ws": 80, "wss": 443}
_ENCRYPTED = ("mqtts", "wss")
_WEB = ("ws", "wss")
_LONGEST_KEPT = 2**32 - 1  # s: without end
_LARGEST_PACKET = 8 << 20  # bytes; a broker of version 5 sends no larger one


class BrokerError(NewnormalError):
    """The broker cannot be reached, refuses something, or has ended the connection."""


class ClosedError(BrokerError):
    """The connection was open, and ended without a reason."""


class SessionTakenError(ClosedError):
    """Another client has connected with the same client id."""


class MqttMessage(NamedTuple):
    """A message as it came."""

    topic: str | None  # None: it is not UTF-8
    payload: bytes
    number: int  # by which it is acknowledged; 0: it needs no acknowledgement
    again: bool  # whether the broker has sent it before
    retained: bool  # whether the broker had kept it from before the subscription
    # Identifiers of the subscriptions that it came by; empty: they have none.
    subscriptions: tuple[int, ...]
    received: int  # the time in ns


class MqttConnection:
    """A connection to a broker. Used by one thread, which calls `turn` again and again.

    Nothing is read from the network outside of `turn`, so a user that is behind has at most the
    messages of one turn in memory, and the broker keeps the others.

    `client`: of the library, not connected; it acknowledges nothing by itself. `address`: what
    messages begin with. `client_id`: that the client was made with. `timeout`: seconds to wait for
    an answer.
    """

    def __init__(self, client: Client, address: str, client_id: str, timeout: float) -> None:
        self.address, self.client_id = address, client_id
        self.messages: deque[MqttMessage] = deque()  # that came and were not taken
        self.resumed = False  # whether the broker has kept the session
        # what a broker of version 5 said when it accepted the client, by the specification's names
        self.limits: Any = None
        self._client, self._timeout = client, timeout
        self._is_5 = client.protocol == 5
        self._answer: ReasonCode | None = None
        self._ended: ReasonCode | None = None  # why the broker has ended it, where it said so
        self._answers: dict[int, list[ReasonCode]] = {}  # by the number of what was asked
        self._packets = 0
        self._selector = selectors.DefaultSelector()
        self._watched: Any = None
        self._events = 0
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_message = self._on_message
        client.on_subscribe = client.on_unsubscribe = self._on_answers
        client.on_publish = self._on_answer

    def open(self, host: str, port: int, properties: Properties | None, clean: bool) -> None:
        """Connect, and wait until the broker accepts the client.

        `properties`, `clean`: for version 5: what is sent with CONNECT, and whether to begin a new
        session.
        """
        given: dict[str, Any] = {"clean_start": clean, "properties": properties}
        try:
            self._client.connect(host, port, _KEEPALIVE, **(given if self._is_5 else {}))
        except (OSError, ValueError) as error:
            raise self._not_made(error) from error
        self._until(lambda: self._answer is not None, "an answer to CONNECT")

    # ------------------------------------------------------------------ in and out

    def turn(self, seconds: float) -> bool:
        """Handle a packet; wait for it at most so long. Returns False if none came."""
        before = self._packets
        try:
            self._read()
            if self._packets == before:
                self._client.loop_misc()
                self._wait(seconds)
                self._read()
        except BrokerError:
            raise
        except Exception as error:  # the library's, of packets that are broken or of a close
            problem = f"what cannot be read: {type(error).__name__}: {error}"
            raise self.error("packets of MQTT", problem) from error
        return self._packets != before

    def _read(self) -> None:
        result = self._client.loop_read()
        if result or self._client.socket() is None:
            raise self._lost()

    def _wait(self, seconds: float) -> None:
        """Wait until there is something to read, and write what waits."""
        connected: Any = self._client.socket()
        if connected is None:
            raise self._lost()
        writes = self._client.want_write()
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if writes else 0)
        if self._watched is not connected:
            self._selector.register(connected, events)
        elif self._events != events:
            self._selector.modify(connected, events)
        self._watched, self._events = connected, events
        self._selector.select(seconds)
        if writes:
            self._client.loop_write()

    def keep_alive(self) -> None:
        """Ask the broker whether it is there if nothing was sent for long."""
        self._client.loop_misc()

    def acknowledge(self, numbers: Iterable[int]) -> None:
        """Tell the broker not to send messages again."""
        for number in numbers:
            self._client.ack(number, 1)

    def subscribe(self, wanted: str, *, identifier: int = 0, retained: bool = False) -> int:
        """Ask for the messages of a filter; return the number that `answers` takes.

        `identifier`: that messages of this subscription have; 0: none. For version 5. `retained`:
        whether to send what the broker has kept, if the subscription is a new one. By 3.1.1 the
        broker always does.
        """
        if not self._is_5:
            return self._asked(self._client.subscribe(wanted, qos=1))
        from paho.mqtt.subscribeoptions import SubscribeOptions

        options = SubscribeOptions(qos=1, retainHandling=1 if retained else 2)
        given = {"SubscriptionIdentifier": identifier} if identifier else {}
        properties = properties_of("SUBSCRIBE", **given)
        return self._asked(self._client.subscribe(wanted, options=options, properties=properties))

    def unsubscribe(self, wanted: str) -> int:
        """Ask for no more messages of a filter; return as `subscribe`."""
        return self._asked(self._client.unsubscribe(wanted))

    def publish(self, topic: str, payload: bytes, *, retain: bool, media: str) -> ReasonCode:
        """Send a text with QoS 1; return the broker's answer.

        `media`: its type, such as ``"application/json"``. For version 5.
        """
        properties = None
        if self._is_5:
            properties = properties_of("PUBLISH", PayloadFormatIndicator=1, ContentType=media)
        sent = self._client.publish(topic, payload, qos=1, retain=retain, properties=properties)
        return self.wait_for(self._asked((sent.rc, sent.mid)))[0]

    def answers(self, number: int) -> list[ReasonCode] | None:
        """Return the answer to what was asked, once; None: it has not come."""
        return self._answers.pop(number, None)

    def wait_for(self, number: int) -> list[ReasonCode]:
        """Return the answer to what was asked as soon as it comes."""
        self._until(lambda: number in self._answers, "an answer")
        return self._answers.pop(number)

    def limit(self, name: str, default: int) -> int:
        """Return what the broker said of itself, by the name that version 5 has for it."""
        return int(getattr(self.limits, name, default))

    def close(self) -> None:
        """End it. The broker keeps the session if it was asked to."""
        with contextlib.suppress(OSError, ValueError):
            self._client.disconnect()
        self._selector.close()

    def _asked(self, sent: tuple[int, int | None]) -> int:
        result, number = sent
        if result or number is None:
            raise self._lost()
        return number

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + self._timeout
        while not condition():
            if time.monotonic() > deadline:
                raise self.error(f"{what} within {self._timeout:g} s", "none")
            self.turn(_SLICE)

    # ------------------------------------------------------------------ errors

    def error(self, expected: str, found: str, hint: str | None = None) -> BrokerError:
        """Return an error about this broker."""
        return BrokerError(f"{self.address}: expected {expected}, found {found}", hint=hint)

    def _lost(self) -> BrokerError:
        if self._ended is not None and self._ended.value == _TAKEN_OVER:
            return SessionTakenError(
                f"{self.address}: expected no other client with the client id "
                f"{self.client_id!r}, found that one has taken the session over",
                hint="set another client_id here or there",
            )
        if self._ended is not None:
            return self.error("the connection to stay", f"the broker ended it: {self._ended}")
        if self._answer is None:
            return self.error(
                "an answer to CONNECT",
                "the connection closed",
                "this port may not speak MQTT, with or without TLS, may want a certificate "
                '(cert_file), or may not speak this version (version = "3.1.1")',
            )
        if self._answer.value >= LEAST_ERROR:
            answer = f"the broker's answer {self._answer}"
            return self.error("to be accepted", answer, _HINTS.get(self._answer.value))
        return ClosedError(
            f"{self.address}: expected the connection to stay, found it closed",
            hint=f"the broker stopped, or another client has the client id {self.client_id!r}",
        )

    def _not_made(self, error: Exception) -> BrokerError:
        if isinstance(error, ssl.SSLCertVerificationError):
            return self.error(
                "a certificate that can be trusted",
                error.verify_message,
                "ca_file names the certificate of the authority that signed it",
            )
        if isinstance(error, ssl.SSLError):
            return self.error("TLS", error.reason or str(error), "this port may not speak TLS")
        if isinstance(error, socket.gaierror):
            return self.error("a host that is known", "none of this name")
        if isinstance(error, TimeoutError):
            return self.error(f"a connection within {self._timeout:g} s", "none")
        if isinstance(error, ConnectionRefusedError):
            return self.error(
                "a broker", "none", "it is not running, or listens on another address or port"
            )
        return self.error(
            "a connection",
            f"{type(error).__name__}: {error}",
            "this port may not speak MQTT, or not with or without TLS as it is set here",
        )

    # ------------------------------------------------------------------ called by the library

    def _on_connect(
        self, _client: Any, _data: Any, flags: Any, reason: ReasonCode, limits: Any
    ) -> None:
        self._packets += 1
        self._answer, self.resumed, self.limits = reason, bool(flags.session_present), limits

    def _on_disconnect(
        self, _client: Any, _data: Any, flags: Any, reason: ReasonCode, _properties: Any
    ) -> None:
        if flags.is_disconnect_packet_from_server:
            self._ended = reason

    def _on_answers(
        self, _client: Any, _data: Any, number: int, reasons: list[ReasonCode], _properties: Any
    ) -> None:
        self._packets += 1
        self._answers[number] = reasons

    def _on_answer(
        self, _client: Any, _data: Any, number: int, reason: ReasonCode, _properties: Any
    ) -> None:
        self._packets += 1
        self._answers[number] = [reason]

    def _on_message(self, _client: Any, _data: Any, message: Any) -> None:
        self._packets += 1
        try:
            topic = message.topic
        except UnicodeDecodeError:
            topic = None
        self.messages.append(
            MqttMessage(
                topic,
                bytes(message.payload),
                message.mid if message.qos else 0,
                bool(message.dup),
                bool(message.retain),
                tuple(getattr(message.properties, "SubscriptionIdentifier", ())),
                time.time_ns(),
            )
        )


def properties_of(packet: str, **given: object) -> Properties:
    """Return properties of version 5 for a kind of packet, such as ``"CONNECT"``."""
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    properties = Properties(getattr(PacketTypes, packet))  # type: ignore[no-untyped-call]
    for name, value in given.items():
        setattr(properties, name, value)
    return properties


class MqttBroker:
    """A broker, and how to log in.

    Options: `host` and `port`, or `url`; `version`; `user`, `password`; `tls`, `ca_file`,
    `cert_file`, `key_file`; `timeout` (10s).

    `given`: the options of a source or a sink; those of this class are taken from it.
    """

    def __init__(self, options: Options) -> None:
        self._scheme, self._host, port, self._path = _place(options)
        # TOML has a number 5 and no number 3.1.1.
        version = _VERSION._replace(read=lambda value: _VERSION.read(str(value)))
        self.version: str = options.take("version", version, "5")
        self._user: str | None = options.text("user", None)
        self._password = options.secret("password")
        if self._password is not None and self._user is None:
            raise ParameterError(f"{options.where}: expected user beside the password, found none")
        # seconds to wait for an answer
        self.timeout: float = options.seconds("timeout", "10s", least="100ms")
        self._tls = _context(options, self._scheme in _ENCRYPTED)
        scheme = "mqtts" if self._tls and self._scheme == "mqtt" else self._scheme
        self._port = _PORTS[scheme] if port is None else port
        shown = f"[{self._host}]" if ":" in self._host else self._host
        self.address = f"{shown}:{self._port}"  # host and port

    def connect(self, client_id: str, *, keep: float = 0.0, window: int = 0) -> MqttConnection:
        """Return a connection once the broker has accepted the client.

        `keep`: seconds for which the broker keeps the session after the connection has ended; 0:
        not at all, and it forgets what it had kept. By 3.1.1 the broker decides how long. `window`:
        how many messages the broker may send before they are acknowledged; 0: it decides, as it
        always does by 3.1.1.

        Raise a BrokerError if there is no broker, or it refuses.
        """
        properties = None
        if self.version == "5":
            given = {"MaximumPacketSize": _LARGEST_PACKET}
            if keep:
                given["SessionExpiryInterval"] = min(max(int(keep), 1), _LONGEST_KEPT)
            if window:
                given["ReceiveMaximum"] = window
            client = self._client(client_id, clean=None)
            properties = properties_of("CONNECT", **given)
        else:
            client = self._client(client_id, clean=not keep)
        made = MqttConnection(client, self.address, client_id, self.timeout)
        try:
            made.open(self._host, self._port, properties, clean=not keep)
        except BaseException:
            made.close()
            raise
        return made

    def _client(self, client_id: str, *, clean: bool | None) -> Client:
        with extra("mqtt", "paho-mqtt"):
            from paho.mqtt.client import Client
            from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
        versions = {"3.1.1": MQTTProtocolVersion.MQTTv311, "5": MQTTProtocolVersion.MQTTv5}
        made = Client(
            CallbackAPIVersion.VERSION2,
            client_id=client_id,
            clean_session=clean,
            protocol=versions[self.version],
            transport="websockets" if self._scheme in _WEB else "tcp",
            reconnect_on_failure=False,
            manual_ack=True,
        )
        made.connect_timeout = self.timeout
        if self._user is not None:
            made.username_pw_set(self._user, self._password)
        if self._tls is not None:
            made.tls_set_context(self._tls)
        if self._scheme in _WEB:
            made.ws_set_options(self._path)
        return made


class _Socket(ssl.SSLSocket):
    """Closed if the other side does not speak TLS: the library leaves it open."""

    def do_handshake(self, block: bool = False) -> None:
        try:
            super().do_handshake(block)
        except BaseException:
            self.close()
            raise


def _place(options: Options) -> tuple[str, str, int | None, str]:
    where = options.where
    url: str | None = options.text("url", None)
    host: str | None = options.text("host", None)
    port: int | None = options.integer("port", None, least=1, most=65_535)
    if url is None:
        if host is None:
            raise ParameterError(f"{where}: expected the option host or url, found none")
        return "mqtt", host, port, ""
    if host is not None or port is not None:
        raise ParameterError(f"{where}: expected url, or host and port, found both")
    try:
        parts = urlsplit(url)
        found = parts.port
    except ValueError:
        parts, found = urlsplit(""), None
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ParameterError(
            f"{where}: url: expected an address that begins with mqtt://, mqtts://, ws:// or "
            "wss://, found another"
        )
    if parts.username is not None or parts.password is not None:
        raise ParameterError(
            f"{where}: url: expected an address without user and password, found them",
            hint="user sets the one, password_file or password_env the other",
        )
    is_web = parts.scheme in _WEB
    if not is_web and parts.path not in ("", "/"):
        raise ParameterError(f"{where}: url: expected no path, found one")
    return parts.scheme, parts.hostname, found, parts.path or "/mqtt"


def _context(options: Options, is_encrypted: bool) -> ssl.SSLContext | None:
    ca_file: str | None = options.text("ca_file", None)
    cert_file: str | None = options.text("cert_file", None)
    key_file: str | None = options.text("key_file", None)
    if not (options.flag("tls") or is_encrypted or ca_file or cert_file or key_file):
        return None
    if key_file is not None and cert_file is None:
        raise ParameterError(f"{options.where}: expected cert_file beside key_file, found none")
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise ParameterError(
            f"{options.where}: ca_file: expected a file of certificates, found {error}"
        ) from error
    context.sslsocket_class = _Socket
    if cert_file is not None:
        try:
            # An empty password: without one, OpenSSL would ask for it in the terminal.
            context.load_cert_chain(cert_file, key_file, password="")
        except OSError as error:
            raise ParameterError(
                f"{options.where}: cert_file: expected a certificate and its key, found {error}",
                hint="key_file names the key if it has a file of its own; it must have no password",
            ) from error
    return context
