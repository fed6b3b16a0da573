"""Receivers of alerts over HTTP: the connection to one, and what its answers mean."""

import math
import time
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import NamedTuple

from newnormal.io.http import HTTPS_WANTED, address_of, connection_hint, http_client
from newnormal.io.options import Options
from newnormal.io.sinks.alerts import AlertRefusedError, SinkDownError

_LONGEST_WAIT = 3600.0  # s that a Retry-After may ask for
_INSTEAD = "token_file or token_env name a token that is sent as Authorization: Bearer"
_SHOWN = 200  # characters of an answer that a message has
_FEWEST_HIDDEN = 4  # characters: a shorter text is no secret, and messages would be unreadable

# Statuses that are about the receiver and not about the alert: all alerts wait.
_DOWN: dict[int, str | None] = {
    HTTPStatus.UNAUTHORIZED: "check the token",
    HTTPStatus.FORBIDDEN: "check the token and the secret",
    HTTPStatus.NOT_FOUND: "check the address",
    HTTPStatus.METHOD_NOT_ALLOWED: "check the address: it must take POST",
    HTTPStatus.REQUEST_TIMEOUT: None,
    HTTPStatus.GONE: "the receiver was removed: correct the address, or remove the sink",
    HTTPStatus.TOO_EARLY: None,
    HTTPStatus.TOO_MANY_REQUESTS: None,
}


class HttpAnswer(NamedTuple):
    """What a receiver answered."""

    # Such as 503 and ``"Service Unavailable"``.
    status: int
    reason: str
    text: str  # the beginning of its text
    after: float | None  # the seconds that it asks to wait, None if it does not

    @property
    def shown(self) -> str:
        """What of the text a message has: nothing of a page for browsers."""
        text = " ".join(self.text.split())[:_SHOWN]
        return "" if text.startswith("<") else text


class HttpReceiver:
    """A receiver at an address.

    Messages name its host, and nothing more of the address, which may have a key in it.

    `options`: of the sink: `timeout` (10s), that each wait may take, to connect, to write and for
    the answer; `ca_file`, certificates to trust instead of the system's.
    `url`: where it is.
    `headers`: that all requests have.
    `authorization`: the header Authorization, which is a secret, or None.
    `hidden`: secrets: a message has an ellipsis instead of them.
    `hints`: what to do about a status, instead of the hints that all receivers have.
    `port`: whether messages name the port, too.
    `clock`: returns Unix seconds.
    """

    def __init__(
        self,
        options: Options,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        authorization: str | None = None,
        hidden: Iterable[str | None] = (),
        hints: Mapping[int, str] | None = None,
        port: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        parts = address_of(options.where, url, secrets=_INSTEAD)
        self.timeout: float = options.seconds("timeout", "10s", least="100ms")
        # its host, or host and port: how messages call it
        self.name = parts.netloc if port else str(parts.hostname)
        self._url, self._clock = url, clock
        self._hints: dict[int, str | None] = {**_DOWN, **(hints or {})}
        rest = url.partition(parts.netloc)[2]
        secrets = {
            each for each in (*hidden, authorization, rest) if each and len(each) >= _FEWEST_HIDDEN
        }
        self._hidden = sorted(secrets, key=len, reverse=True)  # one may be part of another
        self._http = http_client(
            options.where,
            parts.hostname,
            timeout=self.timeout,
            ca_file=options.text("ca_file", None),
            headers=headers or {},
            authorization=authorization,
        )

    def post(
        self, body: bytes, headers: Mapping[str, str] | None = None, path: str = ""
    ) -> HttpAnswer:
        """Post JSON; raise an error unless it was taken."""
        given = {"Content-Type": "application/json", **(headers or {})}
        answer = self.ask("POST", path, body, given)
        self.judge(answer)
        return answer

    def ask(
        self,
        method: str,
        path: str = "",
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        most: int = 4 * _SHOWN,
    ) -> HttpAnswer:
        """Return the answer to a request, whatever it is, with at most so many bytes of its text.

        Raise a SinkDownError if there is none.
        """
        import httpx

        url = f"{self._url.rstrip('/')}{path}" if path else self._url
        try:
            with self._http.stream(method, url, content=body, headers=headers or {}) as answer:
                text = next(answer.iter_bytes(most), b"").decode(errors="replace")
                after = _asked_wait(answer.headers.get("Retry-After", ""), self._clock())
                return HttpAnswer(answer.status_code, answer.reason_phrase, self._safe(text), after)
        except httpx.TimeoutException as error:
            raise SinkDownError(f"{self.name}: expected an answer in time, found none") from error
        except (httpx.HTTPError, httpx.InvalidURL, RuntimeError) as error:  # closed: RuntimeError
            raise SinkDownError(
                f"{self.name}: expected an answer, found {type(error).__name__}: "
                f"{self._safe(str(error))}",
                hint=connection_hint(error, "the receiver"),
            ) from error

    def judge(self, answer: HttpAnswer, hint: str | None = None) -> None:
        """Raise an error unless an answer says that all is well.

        `answer`: to a request. `hint`: what to do, where its text says that all alerts must wait,
        whatever the status.

        Raise a SinkDownError if it takes no alert now. Raise an AlertRefusedError if it does not
        take this one.
        """
        status = answer.status
        if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            return
        message = f"{self.name}: expected a status 2xx, found {status} {answer.reason}".rstrip()
        if status < HTTPStatus.BAD_REQUEST:
            raise SinkDownError(message, hint="redirections are not followed: set the new address")
        if answer.shown:
            message += f": {answer.shown}"
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in self._hints or hint:
            after = _LONGEST_WAIT if status == HTTPStatus.GONE else answer.after
            raise SinkDownError(message, hint=hint or self._hints.get(status), after=after)
        if HTTPS_WANTED in answer.text:
            raise SinkDownError(message, hint="begin the address with https://")
        raise AlertRefusedError(message)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _safe(self, text: str) -> str:
        for each in self._hidden:
            text = text.replace(each, "…")
        return text


def _asked_wait(text: str, now: float) -> float | None:
    """Return the seconds that an answer asks to wait, or None: in seconds or as a date."""
    try:
        seconds = float(text)
        return None if math.isnan(seconds) else min(max(seconds, 0.0), _LONGEST_WAIT)
    except ValueError:
        pass
    from email.utils import parsedate_to_datetime

    try:
        return min(max(parsedate_to_datetime(text).timestamp() - now, 0.0), _LONGEST_WAIT)
    except (ValueError, TypeError, OverflowError):
        return None
