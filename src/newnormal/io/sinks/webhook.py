"""Alerts as signed HTTP requests."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from newnormal.errors import MissingExtraError, ParameterError
from newnormal.io.options import Options
from newnormal.io.sinks.alerts import Alert, AlertRefusedError, AlertSink, SinkDownError

if TYPE_CHECKING:
    import httpx

__all__ = ["WebhookSink", "signature"]

_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_LONGEST_WAIT = 3600.0  # s that a Retry-After may ask for
_SHOWN = 200  # characters of an answer that a message has

# Statuses that are about the receiver and not about the alert: all alerts wait.
_DOWN = {
    HTTPStatus.UNAUTHORIZED: "check the token",
    HTTPStatus.FORBIDDEN: "check the token and the secret",
    HTTPStatus.NOT_FOUND: "check the address",
    HTTPStatus.METHOD_NOT_ALLOWED: "check the address: it must take POST",
    HTTPStatus.REQUEST_TIMEOUT: None,
    HTTPStatus.GONE: "the receiver was removed: correct the address, or remove the sink",
    HTTPStatus.TOO_EARLY: None,
    HTTPStatus.TOO_MANY_REQUESTS: None,
}


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """Return the signature of a request, as its header ``X-Newnormal-Signature`` has it.

    Parameters
    ----------
    secret
        That sender and receiver know.
    timestamp
        The header ``X-Newnormal-Timestamp``: Unix seconds.
    body
        The body as it was received.

    Examples
    --------
    >>> signature("swordfish", "1767225600", b"{}")[:23]
    'sha256=106c35409ece7280'
    """
    message = timestamp.encode() + b"." + body
    return "sha256=" + hmac.new(secret.encode(), message, hashlib.sha256).hexdigest()


class WebhookSink(AlertSink):
    """Posts each alert as JSON to an address; any status 2xx means that it was taken.

    Options: `url`; `secret`, which signs; `token`, sent as ``Authorization: Bearer``; `timeout`
    in seconds (10); `ca_file`, certificates to trust instead of the system's.

    Parameters
    ----------
    clock
        Returns Unix seconds.
    """

    secrets = ("secret", "token")
    private = ("url",)

    def __init__(
        self, name: str, options: Mapping[str, Any], *, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__(name, options)
        where = f"sink {name}"
        given = Options(where, options)
        self._url: str = given.text("url")
        self._secret: str | None = given.text("secret", None)
        token: str | None = given.text("token", None)
        seconds: float = given.number("timeout", 10.0, least=0.1)
        ca_file: str | None = given.text("ca_file", None)
        given.end()
        self._host = _checked_host(where, self._url)
        self._clock = clock
        # Each wait of a request may take that long: to connect, to write, and for each answer.
        self.timeout = 3 * seconds
        self._http = self._connected(where, seconds, ca_file)
        if token is not None:
            self._http.headers["Authorization"] = f"Bearer {token}"

    def _connected(self, where: str, seconds: float, ca_file: str | None) -> httpx.Client:
        try:
            import httpx
        except ImportError:
            raise MissingExtraError.of("serve", "httpx") from None
        import ssl

        try:
            verify = ssl.create_default_context(cafile=ca_file)
        except OSError as error:
            raise ParameterError(
                f"{where}: ca_file: expected a file of certificates, found {error}"
            ) from error
        return httpx.Client(
            timeout=seconds,
            verify=verify,
            headers={"User-Agent": "newnormal"},
            trust_env=self._host not in _LOOPBACK,  # a proxy does not reach this machine
        )

    def send(self, alert: Alert) -> None:
        """Post an alert."""
        body = json.dumps(alert.body, ensure_ascii=False, allow_nan=False).encode()
        headers = {"Content-Type": "application/json", "X-Newnormal-Key": alert.key}
        if self._secret is not None:
            timestamp = str(int(self._clock()))
            headers["X-Newnormal-Timestamp"] = timestamp
            headers["X-Newnormal-Signature"] = signature(self._secret, timestamp, body)
        self._judge(*self._answer("POST", body, headers))

    def check(self) -> str:
        """Ask the address with HEAD, which delivers nothing; any answer will do."""
        answer, _ = self._answer("HEAD", b"", {})
        signed = "signed" if self._secret is not None else "not signed"
        return f"{self._host} answers (status {answer.status_code}); alerts are {signed}"

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _answer(
        self, method: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[httpx.Response, str]:
        """Return the answer to a request and the beginning of its text."""
        import httpx

        try:
            with self._http.stream(method, self._url, content=body, headers=headers) as answer:
                begun = next(answer.iter_bytes(4 * _SHOWN), b"")
                return answer, begun.decode(errors="replace")[:_SHOWN]
        except httpx.TimeoutException as error:
            raise SinkDownError(f"{self._host}: expected an answer in time, found none") from error
        except (httpx.HTTPError, httpx.InvalidURL, RuntimeError) as error:  # closed: RuntimeError
            raise SinkDownError(
                f"{self._host}: expected an answer, found {type(error).__name__}: {error}",
                hint="the receiver is down or cannot be reached",
            ) from error

    def _judge(self, answer: httpx.Response, text: str) -> None:
        """Raise an error unless the alert was taken."""
        status = answer.status_code
        if answer.is_success:
            return
        found = f"{self._host}: expected a status 2xx, found {status} {answer.reason_phrase}"
        if answer.is_redirect:
            raise SinkDownError(found, hint="redirections are not followed: set the new address")
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _DOWN:
            hint = _DOWN.get(HTTPStatus(status)) if status in _DOWN else None
            gone = status == HTTPStatus.GONE
            after = _LONGEST_WAIT if gone else _asked_wait(answer, self._clock())
            raise SinkDownError(found, hint=hint, after=after)
        text = " ".join(text.split())
        raise AlertRefusedError(f"{found}: {text}" if text else found)


def _checked_host(where: str, url: str) -> str:
    """Return the host of an address, which is all of it that messages show."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host:
        raise ParameterError(
            f"{where}: url: expected an address that begins with http:// or https://, found another"
        )
    if parts.username is not None or parts.password is not None:
        raise ParameterError(
            f"{where}: url: expected an address without a password, found one",
            hint="token_file or token_env name a token that is sent as Authorization: Bearer",
        )
    return host


def _asked_wait(answer: httpx.Response, now: float) -> float | None:
    """Return the seconds that an answer asks to wait, or None: in seconds or as a date."""
    text = answer.headers.get("Retry-After", "")
    try:
        return min(max(float(text), 0.0), _LONGEST_WAIT)
    except ValueError:
        pass
    from email.utils import parsedate_to_datetime

    try:
        return min(max(parsedate_to_datetime(text).timestamp() - now, 0.0), _LONGEST_WAIT)
    except (ValueError, TypeError, OverflowError):
        return None
