"""A client of the service: push samples, follow what happens, and decide.

It needs the extra `serve`, of which it uses httpx alone.
One module because it is one class, whose calls share a connection and its retries.
"""

import gzip
import json
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from urllib.parse import quote

import numpy as np

from newnormal.errors import InputError, NewnormalError, extra
from newnormal.tabular import default_channels, to_table
from newnormal.types import Floats, Times

if TYPE_CHECKING:
    import httpx

    from newnormal.base import BaseDetector

__all__ = ["Client", "Happened", "ServiceError"]

_BATCH = 1000  # samples a request
_COMPRESSED = 2000  # bytes of a body from which on it is compressed
_WAITS = (0.5, 1.0, 2.0, 4.0, 8.0)  # s before each retry
_LONGEST_WAIT = 60.0  # s that a Retry-After may ask for
_PAGE = 500  # rows a list is asked for at once
_SILENT = 60.0  # s without a sign of life, which comes every 15 s, after which a stream is dead
_BUSY = (429, 502, 503, 504)  # statuses of a service that may answer later


class ServiceError(NewnormalError):
    """The service did not do what it was asked for.

    Attributes
    ----------
    status
        Of its HTTP answer; 0 if there was none.
    """

    def __init__(self, message: str, *, hint: str | None = None, status: int = 0) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class Happened(NamedTuple):
    """An event of the service.

    Attributes
    ----------
    id
        Its name, for `Client.events`' `after`.
    kind
        Such as ``"opened"`` or ``"closed"``; the guide *Service* lists them.
    body
        The event as the API gives it.
    """

    id: str
    kind: str
    body: dict[str, Any]


class Client:
    """A client of a service.

    Every call can be repeated where the service may not have got it: samples that come twice are
    harmless. Calls that are not, such as a comment, are repeated only where they did not arrive.

    Parameters
    ----------
    url
        Where the service is.
    token
        Its token, where it asks for one.
    timeout
        How long to wait for an answer in s.
    wait
        Called with the seconds to wait before a retry.

    Notes
    -----
    With a service that runs::

        with Client() as client:
            client.push("press-1", {"temperature": 71.5, "pressure": 3.2})
            client.push("press-2", frame)
            for item in client.items(open=True):
                print(item["sentence"])
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8765",
        token: str | None = None,
        *,
        timeout: float = 30.0,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        with extra("serve", "httpx"):
            import httpx
        self._httpx = httpx
        self._url = url.rstrip("/")
        self._wait = wait
        headers = {"X-Newnormal": "client"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        local = httpx.URL(self._url).host in ("127.0.0.1", "::1", "localhost")
        self._http = httpx.Client(
            base_url=f"{self._url}/api/v1/",
            headers=headers,
            timeout=timeout,
            trust_env=not local,  # a proxy of the environment does not reach this machine
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    # ------------------------------------------------------------------ samples

    def push(
        self, stream: str, values: Any, times: Any = None, *, channels: Sequence[str] | None = None
    ) -> int:
        """Send samples of a stream; return how many, once all of them are durable.

        Parameters
        ----------
        stream
            Its name. A stream that is not known begins with these samples.
        values
            One sample as a mapping of names to numbers; or many: a mapping of names to columns, a
            frame, or an array of shape (T, C) with `channels`. NaN and None are missing.
        times
            Of one sample, or one each: datetimes, ISO 8601, Unix seconds. By default those of the
            frame, or, for one sample, the service's clock.
        channels
            The names of an array's columns.
        """
        sent = 0
        for part in _parts(stream, values, times, channels):
            self._send("POST", "samples", body=part, repeat=True)
            sent += len(part["values"]) if "times" in part else 1
        return sent

    def upload_history(
        self, stream: str, file: str | Path | bytes, **options: str
    ) -> dict[str, Any]:
        """Send a file as the history of a stream, which is then fitted; return what was found.

        Parameters
        ----------
        stream
            Its name.
        file
            A path, or the content: CSV or JSON lines, as `newnormal fit` reads them.
        options
            `time`, the column of the time, and `zone`, of times without one.
        """
        content = file if isinstance(file, bytes) else Path(file).read_bytes()
        query = {"stream": stream, **options}
        return self._object("POST", "streams/history", query=query, content=content, repeat=True)

    # ------------------------------------------------------------------ models

    def put(self, stream: str, model: "str | Path | BaseDetector") -> None:
        """Put a model into a stream, which may be new and goes on where the model is.

        Parameters
        ----------
        stream
            Its name.
        model
            A `Detector` that was fitted on samples with times, or the path of its state file, or of
            the folder of a `watch` of one stream.
        """
        from newnormal.detector import load

        if isinstance(model, str | Path) and Path(model).is_dir():
            model = load(model)
        with TemporaryDirectory(prefix="newnormal-model-") as folder:
            path = Path(model) if isinstance(model, str | Path) else Path(folder, "model.nn")
            if not isinstance(model, str | Path):
                model.save(path)
            self._send("PUT", "streams/model", query={"stream": stream}, content=path.read_bytes())

    def take(self, stream: str) -> "BaseDetector":
        """Return a copy of the model of a stream, as it is now."""
        from newnormal.detector import load

        answer = self._answer("GET", f"streams/{self.stream(stream)['id']}/model")
        with TemporaryDirectory(prefix="newnormal-model-") as folder:
            path = Path(folder, "model.nn")
            path.write_bytes(answer.content)
            return load(path)

    # ------------------------------------------------------------------ what there is

    def streams(self, **query: Any) -> Iterator[dict[str, Any]]:
        """Give the streams; `query` as the API takes it: `search`, `state`, `attention`, `sort`."""
        return self._listed("streams", query)

    def stream(self, name: str) -> dict[str, Any]:
        """Return a stream by its name."""
        return self._object("GET", f"streams/by-name/{quote(name, safe='/')}")

    def items(self, **query: Any) -> Iterator[dict[str, Any]]:
        """Give alarms, changes and incidents, newest first; `query`: `kind`, `state`, `open`."""
        return self._listed("items", query)

    def item(self, key: str) -> dict[str, Any]:
        """Return an item with its comments and evidence."""
        return self._object("GET", f"items/{quote(key, safe='')}")

    def health(self) -> dict[str, Any]:
        """Return how the service and its parts are."""
        return self._object("GET", "health")

    # ------------------------------------------------------------------ decisions

    def accept(self, key: str, comment: str = "") -> dict[str, Any]:
        """Accept an alarm, a change or other channels as normal; return the item."""
        return self._decide(f"items/{quote(key, safe='')}/accept", comment)

    def reject(self, key: str, comment: str = "") -> dict[str, Any]:
        """Reject a change: it is a fault; return the item."""
        return self._decide(f"items/{quote(key, safe='')}/reject", comment)

    def comment(self, key: str, text: str) -> dict[str, Any]:
        """Comment an item."""
        return self._object("POST", f"items/{quote(key, safe='')}/comments", body={"text": text})

    def undo(self, stream: str, comment: str = "") -> None:
        """Undo the last acceptance of a stream."""
        self._decide(f"streams/{self.stream(stream)['id']}/undo", comment)

    def refit(self, stream: str, **span: int) -> dict[str, Any]:
        """Fit a stream again, on its newest samples or on those from `first` to `last`."""
        number = self.stream(stream)["id"]
        return self._object("POST", f"streams/{number}/refit", body=span)

    def _decide(self, path: str, comment: str) -> dict[str, Any]:
        answer: dict[str, Any] = self._send("POST", path, body={"comment": comment})["item"]
        return answer

    # ------------------------------------------------------------------ events

    def events(self, after: str | None = None, *, ticks: bool = False) -> Generator[Happened]:
        """Give what happens, as it happens, without end; a lost connection is made again.

        Parameters
        ----------
        after
            The id of an event: those that followed it come first. By default events from now on.
        ticks
            Also give a ``"tick"`` once a second, with the newest sample of each stream.
        """
        failures = 0
        while True:
            try:
                for kind, name, data in self._event_stream(after, ticks):
                    failures = 0
                    if kind == "resync":  # some were left out: the service has them as a list
                        for each in self._missed(after):
                            after = each.id
                            yield each
                    elif name and not (after and _numbers(name) <= _numbers(after)):
                        after = name
                        yield Happened(name, kind, json.loads(data))
                    elif kind == "tick" and ticks:
                        yield Happened("", kind, json.loads(data))
            except self._httpx.TransportError as error:
                if failures == len(_WAITS):
                    raise self._unreachable(error) from error
            except ServiceError as error:
                if failures == len(_WAITS) or error.status not in _BUSY:
                    raise
            self._wait(_WAITS[min(failures, len(_WAITS) - 1)])
            failures += 1

    def _missed(self, after: str | None) -> Iterator[Happened]:
        """Give the events after one that was seen."""
        while after is not None:
            page = self._send("GET", "events.json", query={"after": after, "limit": _PAGE})
            for each in page["items"]:
                yield Happened(each["id"], each["kind"], each)
            after = page["cursor"] if page["items"] else None

    def _event_stream(self, after: str | None, ticks: bool) -> Iterator[tuple[str, str, str]]:
        """Give kind, id and data of the server-sent events of one connection."""
        query = {"ticks": "true" if ticks else "false"} | ({"after": after} if after else {})
        with self._http.stream("GET", "events", params=query, timeout=_SILENT) as answer:
            if answer.status_code != 200:
                answer.read()
                raise _refusal(answer)
            kind, name, data = "", "", []
            for line in answer.iter_lines():
                field, _, value = line.partition(":")
                value = value.removeprefix(" ")
                if field == "event":
                    kind = value
                elif field == "id":
                    name = value
                elif field == "data":
                    data.append(value)
                elif not line:
                    if data or kind:
                        yield kind, name, "\n".join(data)
                    kind, name, data = "", "", []

    # ------------------------------------------------------------------ requests

    def _listed(self, path: str, query: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Give the rows of a list, page after page."""
        asked = {"limit": _PAGE, **{k: v for k, v in query.items() if v is not None}}
        while True:
            page = self._send("GET", path, query=asked)
            yield from page["items"]
            if not page.get("cursor"):
                return
            asked["cursor"] = page["cursor"]

    def _send(self, method: str, path: str, **request: Any) -> Any:
        """Send a request and return the JSON of its answer; options as for `_answer`."""
        answer = self._answer(method, path, **request)
        return answer.json() if answer.content else {}

    def _answer(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        content: bytes | None = None,
        repeat: bool = False,
    ) -> "httpx.Response":
        """Send a request and return its answer; `repeat`: it is harmless if it arrives twice."""
        headers = {}
        if content is None and body is not None:
            content = json.dumps(body, allow_nan=False).encode()
            headers["Content-Type"] = "application/json"
        if content is not None and len(content) > _COMPRESSED:
            content = gzip.compress(content, 1)
            headers["Content-Encoding"] = "gzip"
        repeat = repeat or method == "GET"
        for wait in (*_WAITS, None):
            try:
                answer = self._http.request(
                    method, path, params=query, content=content, headers=headers
                )
            except self._httpx.TransportError as error:
                arrived = not isinstance(error, self._httpx.ConnectError)
                if wait is None or (arrived and not repeat):
                    raise self._unreachable(error) from error
            else:
                if answer.is_success:
                    return answer
                if wait is None or answer.status_code not in _BUSY:
                    raise _refusal(answer)
                wait = _asked_wait(answer, wait)  # noqa: PLW2901
            self._wait(wait)
        raise AssertionError("the last wait is None")

    def _object(self, method: str, path: str, **request: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self._send(method, path, **request)
        return answer

    def _unreachable(self, error: Exception) -> ServiceError:
        return ServiceError(
            f"{self._url}: expected the service to answer, found {type(error).__name__}: {error}",
            hint="newnormal serve starts it",
        )


def _numbers(name: str) -> tuple[int, ...]:
    """Return the id of an event as numbers, which increase."""
    return tuple(map(int, name.split("-")))


def _refusal(answer: "httpx.Response") -> ServiceError:
    """Return the error of an answer, in the service's own sentence where it has one."""
    try:
        content = answer.json()
        message, hint = str(content["error"]), content.get("hint")
    except (ValueError, KeyError, TypeError, AttributeError):
        message, hint = answer.reason_phrase, None
    return ServiceError(
        f"{answer.request.method} {answer.request.url.path}: {message} (status "
        f"{answer.status_code})",
        hint=hint,
        status=answer.status_code,
    )


def _asked_wait(answer: "httpx.Response", wait: float) -> float:
    """Return how long to wait: what the answer asks for, or `wait`."""
    try:
        asked = float(answer.headers["Retry-After"])
    except (KeyError, ValueError):
        return wait
    return min(max(asked, wait), _LONGEST_WAIT)


def _parts(
    stream: str, values: Any, times: Any, channels: Sequence[str] | None
) -> Iterator[dict[str, Any]]:
    """Give the bodies of the requests that send some samples."""
    if isinstance(values, Mapping):
        if not any(_is_column(each) for each in values.values()):
            one = {str(name): _number(each) for name, each in values.items()}
            body = {"stream": stream, "values": one}
            if times is not None:
                body["time"] = _texts(to_table([[0.0]], times=[times]).times)[0]
            yield body
            return
        channels = tuple(str(name) for name in values)
        values = np.column_stack([np.asarray(value, dtype=np.float64) for value in values.values()])
    table = to_table(values, times=times, channels=channels)
    if table.times is None:
        raise InputError(
            f"push: {stream}: expected times, found none",
            hint="push(stream, values, times), or a frame with a column of times",
        )
    names = table.channels or channels or default_channels(table.values.shape[1])
    texts = _texts(table.times)
    for at in range(0, len(texts), _BATCH):
        yield {
            "stream": stream,
            "times": texts[at : at + _BATCH],
            "channels": list(names),
            "values": _cells(table.values[at : at + _BATCH]),
        }


def _is_column(value: Any) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, str) and np.ndim(value) > 0


def _number(value: Any) -> float | None:
    number = float("nan") if value is None else float(value)
    return None if np.isnan(number) else number


def _texts(times: Times | None) -> list[str]:
    assert times is not None
    return [f"{each}Z" for each in np.datetime_as_string(times, unit="ns")]


def _cells(values: Floats) -> list[list[float | None]]:
    missing = np.isnan(values)
    cells: Any = np.where(missing, None, values) if missing.any() else values  # type: ignore[call-overload]
    rows: list[list[float | None]] = cells.tolist()
    return rows
