"""Where a broker of MQTT is and how to log in: the options that source and sink share."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from newnormal.errors import MissingExtraError, ParameterError
from newnormal.io.mqtt_connection import Connection, properties_of
from newnormal.io.options import Options

if TYPE_CHECKING:
    from paho.mqtt.client import Client

SECRETS = ("password",)

_VERSIONS = ("3.1.1", "5")
_PORTS = {"mqtt": 1883, "mqtts": 8883, "ws": 80, "wss": 443}
_ENCRYPTED = ("mqtts", "wss")
_WEB = ("ws", "wss")
_LONGEST_KEPT = 2**32 - 1  # s: without end
_LARGEST_PACKET = 8 << 20  # bytes; a broker of version 5 sends no larger one


class Broker:
    """A broker, and how to log in.

    Options: `host` and `port`, or `url`; `version`; `user`, `password`; `tls`, `ca_file`,
    `cert_file`, `key_file`; `timeout` in seconds (10).

    Parameters
    ----------
    given
        The options of a source or a sink; those of this class are taken from it.

    Attributes
    ----------
    address
        Host and port.
    version
        ``"3.1.1"`` or ``"5"``.
    timeout
        Seconds to wait for an answer.
    """

    def __init__(self, given: Options) -> None:
        self._scheme, self._host, port, self._path = _place(given)
        self.version: str = given.text("version", "5")
        if self.version not in _VERSIONS:
            raise ParameterError(
                f'{given.where}: version: expected 5 or "3.1.1", found {self.version!r}'
            )
        self._user: str | None = given.text("user", None)
        self._password = given.secret("password")
        if self._password is not None and self._user is None:
            raise ParameterError(f"{given.where}: expected user beside the password, found none")
        self.timeout: float = given.number("timeout", 10.0, least=0.1)
        self._tls = _context(given, self._scheme in _ENCRYPTED)
        scheme = "mqtts" if self._tls and self._scheme == "mqtt" else self._scheme
        self._port = _PORTS[scheme] if port is None else port
        shown = f"[{self._host}]" if ":" in self._host else self._host
        self.address = f"{shown}:{self._port}"

    def connect(self, client_id: str, *, keep: float = 0.0, window: int = 0) -> Connection:
        """Return a connection once the broker has accepted the client.

        Parameters
        ----------
        keep
            Seconds for which the broker keeps the session after the connection has ended; 0: not
            at all, and it forgets what it had kept. By 3.1.1 the broker decides how long.
        window
            How many messages the broker may send before they are acknowledged; 0: it decides, as
            it always does by 3.1.1.

        Raises
        ------
        BrokerError
            If there is no broker, or it refuses.
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
        made = Connection(client, self.address, client_id, self.timeout)
        try:
            made.open(self._host, self._port, properties, clean=not keep)
        except BaseException:
            made.close()
            raise
        return made

    def _client(self, client_id: str, *, clean: bool | None) -> Client:
        try:
            from paho.mqtt.client import Client
            from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
        except ImportError:
            raise MissingExtraError.of("mqtt", "paho-mqtt") from None
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


def with_version(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options in which the version is a text: TOML has no number 3.1.1.

    >>> with_version({"version": 5}), with_version({"version": "3.1.1"})
    ({'version': '5'}, {'version': '3.1.1'})
    """
    found = dict(options)
    if found.get("version") == 5:
        found["version"] = "5"
    return found


def _place(given: Options) -> tuple[str, str, int | None, str]:
    """Return scheme, host, port and path of a broker."""
    where = given.where
    url: str | None = given.text("url", None)
    host: str | None = given.text("host", None)
    port: float | None = given.number("port", None, least=1)
    if url is None:
        if host is None:
            raise ParameterError(f"{where}: expected the option host or url, found none")
        if port is not None and (not port.is_integer() or port >= 2**16):
            raise ParameterError(
                f"{where}: port: expected a whole number up to 65535, found {port:g}"
            )
        return "mqtt", host, None if port is None else int(port), ""
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


def _context(given: Options, is_encrypted: bool) -> ssl.SSLContext | None:
    """Return how TLS is spoken; None: not at all."""
    ca_file: str | None = given.text("ca_file", None)
    cert_file: str | None = given.text("cert_file", None)
    key_file: str | None = given.text("key_file", None)
    if not (given.flag("tls") or is_encrypted or ca_file or cert_file or key_file):
        return None
    if key_file is not None and cert_file is None:
        raise ParameterError(f"{given.where}: expected cert_file beside key_file, found none")
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise ParameterError(
            f"{given.where}: ca_file: expected a file of certificates, found {error}"
        ) from error
    context.sslsocket_class = _Socket
    if cert_file is not None:
        try:
            # An empty password: without one, OpenSSL would ask for it in the terminal.
            context.load_cert_chain(cert_file, key_file, password="")
        except OSError as error:
            raise ParameterError(
                f"{given.where}: cert_file: expected a certificate and its key, found {error}",
                hint="key_file names the key if it has a file of its own; it must have no password",
            ) from error
    return context
