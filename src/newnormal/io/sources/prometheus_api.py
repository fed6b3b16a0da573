"""Requests to Prometheus' HTTP API, or to another server that has it; series on a grid of times."""

import json
import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from newnormal.arrivals.cells import number, numbers
from newnormal.errors import InputError
from newnormal.io.http import HTTPS_WANTED, LOOPBACK, address_of, connection_hint, http_client
from newnormal.types import Floats, Ints

if TYPE_CHECKING:
    import httpx

_SECOND = 1_000_000_000
_NEAR = 1_000_000  # ns: Prometheus has times in ms
_MOST_BYTES = 64 * 2**20  # of an answer, decompressed
_SHOWN = 300  # characters of an answer or a warning that a message has
_EXTRA_S = 5.0  # that an answer may take beyond the time Prometheus has for a query
_SKEW_S = 2.0  # between two clocks, from which on it counts: Date has whole seconds
_ADDRESS = "url is the part of the address before /api/v1"
_HINTS: dict[int, str] = {
    HTTPStatus.UNAUTHORIZED: "set or check token_file, or user and password_file",
    HTTPStatus.FORBIDDEN: "check the token, or the user and the password",
    HTTPStatus.NOT_FOUND: _ADDRESS,
    HTTPStatus.NOT_IMPLEMENTED: _ADDRESS,  # by a program that knows no POST
    HTTPStatus.BAD_REQUEST: "try the query on Prometheus' own page",
    HTTPStatus.UNPROCESSABLE_ENTITY: "try the query on Prometheus' own page",
    HTTPStatus.SERVICE_UNAVAILABLE: "Prometheus starts, or has too much to do",
}
_TOO_LONG = (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT)


class QueryGrid(NamedTuple):
    """Times at which a query is evaluated: `size` from `first` on, `step` apart, in ns."""

    first: int
    size: int
    step: int

    @property
    def last(self) -> int:
        """The last one."""
        return self.first + (self.size - 1) * self.step

    @property
    def times(self) -> Ints:
        """All of them.

        >>> QueryGrid(10, 3, 5).times.tolist()
        [10, 15, 20]
        """
        return self.first + np.arange(self.size, dtype=np.int64) * self.step


class RangeSeries(NamedTuple):
    """A series of an answer: its labels, and (N,) its values at the times of the grid."""

    labels: dict[str, str]
    values: Floats


class RangeAnswer(NamedTuple):
    """What a range query gave."""

    series: list[RangeSeries]
    warnings: tuple[str, ...]


def read_matrix(body: bytes, grid: QueryGrid) -> RangeAnswer:
    """Return the series of an answer to a range query.

    What is not finite, or at another time than the grid's, is missing. A series of histograms has
    no values.

    Raise an InputError if it is not such an answer.

    >>> body = b'''{"status": "success", "data": {"resultType": "matrix", "result": [
    ...     {"metric": {"__name__": "up"}, "values": [[10, "1"], [20, "NaN"]]}]}}'''
    >>> read_matrix(body, QueryGrid(10 * 10**9, 2, 10 * 10**9)).series
    [RangeSeries(labels={'__name__': 'up'}, values=array([ 1., nan]))]
    """
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"expected JSON, found other bytes: {error}",
            hint="url is the part of the address before /api/v1",
        ) from error
    try:
        data = content["data"]
        if content["status"] != "success" or data["resultType"] != "matrix":
            raise InputError("expected a matrix, found another answer")
        warnings = tuple(str(each)[:_SHOWN] for each in content.get("warnings") or ())
        series = [_series(each, grid) for each in data["result"]]
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"expected series with values, found {error!r:.200}") from error
    return RangeAnswer(series, warnings)


def _series(content: Any, grid: QueryGrid) -> RangeSeries:
    labels, points = content["metric"], content.get("values") or []
    if not all(isinstance(label, str) for label in labels.values()):
        raise InputError("expected labels that are texts, found others")
    row: Floats = np.full(grid.size, np.nan)
    if len(points) == 1:  # by far the most frequent, and an array for it would cost most
        ((at, value),) = points
        _put_one(row, grid, at, value)
    elif points:
        times = np.array([at for at, _ in points], np.float64)
        values, _ = numbers([value for _, value in points])
        with np.errstate(invalid="ignore"):  # times that are infinite
            exact = (times - grid.first / _SECOND) * (_SECOND / grid.step)
            nearest = np.rint(exact)
            good = np.abs(exact - nearest) <= _NEAR / grid.step
        good &= (nearest >= 0) & (nearest < grid.size)
        row[nearest[good].astype(np.int64)] = values[good]
    return RangeSeries(labels, row)


def _put_one(row: Floats, grid: QueryGrid, at: float, value: Any) -> None:
    exact = (at - grid.first / _SECOND) * (_SECOND / grid.step)
    nearest = round(exact) if math.isfinite(exact) else -1
    if 0 <= nearest < grid.size and abs(exact - nearest) <= _NEAR / grid.step:
        with suppress(ValueError):
            row[nearest] = number(value)


class RangeError(InputError):
    """A query failed over this range of times: over a shorter one it may not."""

    def __init__(self, message: str, *, hint: str | None = None, by_values: bool = False) -> None:
        super().__init__(message, hint=hint)
        # whether the series of that range are the reason, such as two where one is needed: asked
        # again, it fails again
        self.by_values = by_values


class PrometheusApi:
    """A server with Prometheus' API.

    `where`: what messages begin with, such as ``"source hosts"``. `url`: the part of its address
    before ``/api/v1``. `timeout`: seconds that a query may take. `authorization`: a header, or
    None. `ca_file`: certificates to trust instead of the system's. `headers`, `parameters`: more of
    them for all requests. `clock`: gives the time in ns.
    """

    def __init__(
        self,
        where: str,
        url: str,
        *,
        timeout: float = 30.0,
        authorization: str | None = None,
        ca_file: str | None = None,
        headers: Mapping[str, str] | None = None,
        parameters: Mapping[str, str] | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        parts = address_of(
            where,
            url,
            secrets="set user, and password_file or password_env",
            example="such as http://127.0.0.1:9090",
        )
        self.host = parts.netloc  # how messages call it: host and port
        # how many seconds the clock of this machine is ahead of the server's; 0 if they agree
        self.ahead = 0.0
        self._answered = -math.inf
        self._where, self._url, self._clock = where, url.rstrip("/"), clock
        self._parameters = {"timeout": f"{timeout:g}s", **(parameters or {})}
        self._longest = timeout + _EXTRA_S
        self._method = "POST"  # a query may be longer than addresses may be
        plain = {"Accept-Encoding": "identity"} if parts.hostname in LOOPBACK else {}
        self._http = http_client(
            where,
            parts.hostname,
            timeout=self._longest,
            ca_file=ca_file,
            headers={**(headers or {}), **plain},  # compressing costs more here than it saves
            authorization=authorization,
        )

    def query_range(self, name: str, query: str, grid: QueryGrid) -> RangeAnswer:
        """Return the series of a query at the times of a grid.

        Raise a RangeError if a shorter range may work. Raise an InputError if there is no answer,
        or not such a one.
        """
        body = self._ask(
            name,
            "query_range",
            {
                "query": query,
                "start": _seconds(grid.first),
                "end": _seconds(grid.last),
                "step": _seconds(grid.step),
                **self._parameters,
            },
        )
        try:
            return read_matrix(body, grid)
        except InputError as error:
            raise InputError(f"{self._named(name)}: {error.message}", hint=error.hint) from error

    def version(self) -> str:
        """Return the server's version; empty where it does not say."""
        try:
            content = json.loads(self._ask("", "status/buildinfo", None))
            return str(content["data"]["version"])[:40]
        except (InputError, ValueError, LookupError, TypeError, RecursionError):
            return ""

    def now(self) -> int:
        """Return the time in ns by the server's clock."""
        return self._clock() - round(self.ahead * _SECOND)

    @property
    def idle(self) -> float:
        """Seconds since the last answer."""
        return time.monotonic() - self._answered

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _named(self, name: str) -> str:
        return f"{self._where}, {name}" if name else self._where

    def _ask(self, name: str, path: str, form: Mapping[str, str] | None) -> bytes:
        """Return the body of an answer; raise an error unless all is well."""
        import httpx

        method = "GET" if form is None else self._method
        given: dict[str, Any] = {"params" if method == "GET" else "data": form}
        begin = f"{self._named(name)}: {self.host}"
        try:
            with self._http.stream(method, f"{self._url}/api/v1/{path}", **given) as answer:
                self._answered = time.monotonic()
                self._compare_clocks(answer)
                body = self._body(begin, answer)
        except httpx.TimeoutException as error:
            raise RangeError(
                f"{begin}: expected an answer within {self._longest:g} s, found none",
                hint="set timeout, or a query that takes less time",
            ) from error
        except (httpx.HTTPError, httpx.InvalidURL, RuntimeError) as error:  # closed: RuntimeError
            raise InputError(
                f"{begin}: expected an answer, found {type(error).__name__}: {error}",
                hint=connection_hint(error, "Prometheus"),
            ) from error
        if method == "POST" and answer.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            self._method = "GET"  # a proxy that lets nothing else pass
            return self._ask(name, path, form)
        if not answer.is_success:
            raise _refusal(begin, answer, body)
        return body

    def _body(self, begin: str, answer: "httpx.Response") -> bytes:
        """Return the body of an answer, of a length and after a time that are bounded."""
        parts: list[bytes] = []
        size, latest = 0, time.monotonic() + 2 * self._longest
        for part in answer.iter_bytes():
            parts.append(part)
            size += len(part)
            if size > _MOST_BYTES or time.monotonic() > latest:
                raise RangeError(
                    f"{begin}: expected an answer of at most {_MOST_BYTES // 2**20} MiB within "
                    f"{2 * self._longest:g} s, found a longer one",
                    hint="set a query with fewer series",
                )
        return b"".join(parts)

    def _compare_clocks(self, answer: "httpx.Response") -> None:
        from email.utils import parsedate_to_datetime

        try:
            date = parsedate_to_datetime(answer.headers["Date"]).timestamp()
        except (LookupError, ValueError, TypeError, OverflowError):
            return
        ahead = self._clock() / _SECOND - (date + 0.5)
        self.ahead = ahead if abs(ahead) > _SKEW_S else 0.0


def _seconds(nanoseconds: int) -> str:
    """Return a number of whole ms as seconds.

    >>> _seconds(1_700_000_000_200_000_000), _seconds(15_000_000_000)
    ('1700000000.200', '15.000')
    """
    return f"{nanoseconds // _SECOND}.{nanoseconds % _SECOND // 1_000_000:03d}"


def _refusal(begin: str, answer: "httpx.Response", body: bytes) -> InputError:
    """Return the error for an answer that is none."""
    status = answer.status_code
    kind, text = _problem(body)
    if answer.is_redirect:
        return InputError(
            f"{begin}: expected an answer, found a redirection ({status})",
            hint="redirections are not followed: set the new address",
        )
    problem = f"{kind or f'status {status}'}: {text}" if text else f"status {status}"
    message = f"{begin}: expected values, found {problem}"
    hint = "begin url with https://" if HTTPS_WANTED in text else _HINTS.get(status)
    if status == HTTPStatus.UNPROCESSABLE_ENTITY:
        return RangeError(message, hint=hint, by_values=kind == "execution")
    if status in _TOO_LONG:
        return RangeError(message, hint=hint)
    return InputError(message, hint=hint)


def _problem(body: bytes) -> tuple[str, str]:
    """Return the kind and the text of an error; a text that is none of Prometheus' has no kind."""
    try:
        content = json.loads(body)
        return str(content["errorType"])[:40], " ".join(str(content["error"]).split())[:_SHOWN]
    except (ValueError, LookupError, TypeError, RecursionError):
        text = " ".join(body[: 4 * _SHOWN].decode(errors="replace").split())[:_SHOWN]
        return "", "" if text.startswith("<") else text  # a page for browsers says nothing here
