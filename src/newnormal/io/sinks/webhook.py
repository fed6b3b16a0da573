"""Alerts as signed HTTP requests."""

import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from newnormal.io.sinks.alerts import Alert, AlertSink
from newnormal.io.sinks.http import HttpReceiver


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """Return the signature of a request, as its header ``X-Newnormal-Signature`` has it.

    `secret`: that sender and receiver know. `timestamp`: the header ``X-Newnormal-Timestamp``: Unix
    seconds. `body`: the body as it was received.

    >>> signature("swordfish", "1767225600", b"{}")[:23]
    'sha256=106c35409ece7280'
    """
    message = timestamp.encode() + b"." + body
    return "sha256=" + hmac.new(secret.encode(), message, hashlib.sha256).hexdigest()


class WebhookSink(AlertSink):
    """Posts each alert as JSON to an address; any status 2xx means that it was taken.

    Options: `url`; `secret`, which signs; `token`, sent as ``Authorization: Bearer``; `timeout`
    (10s); `ca_file`, certificates to trust instead of the system's.

    `clock` returns Unix seconds.
    """

    def __init__(
        self, name: str, options: Mapping[str, Any], *, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__(name, options)
        url: str = self.options.private("url")
        self._secret = self.options.secret("secret")
        token = self.options.secret("token")
        self._clock = clock
        self._receiver = HttpReceiver(
            self.options,
            url,
            authorization=None if token is None else f"Bearer {token}",
            hidden=(self._secret, token),
            clock=clock,
        )
        self.options.end()
        self.timeout = 3 * self._receiver.timeout

    def send(self, alert: Alert) -> None:
        """Post an alert."""
        body = json.dumps(alert.body, ensure_ascii=False, allow_nan=False).encode()
        headers = {"X-Newnormal-Key": alert.key}
        if self._secret is not None:
            timestamp = str(int(self._clock()))
            headers["X-Newnormal-Timestamp"] = timestamp
            headers["X-Newnormal-Signature"] = signature(self._secret, timestamp, body)
        self._receiver.post(body, headers)

    def check(self) -> str:
        """Ask the address with HEAD, which delivers nothing; any answer will do."""
        answer = self._receiver.ask("HEAD")
        signed = "signed" if self._secret is not None else "not signed"
        return f"{self._receiver.name} answers (status {answer.status}); alerts are {signed}"

    def close(self) -> None:
        """Close the connections."""
        self._receiver.close()
