"""Prometheus' API with series that are functions of the time, and a clock that a test sets."""

import json
from collections.abc import Callable, Mapping
from email.utils import formatdate
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from tests.http_server import HttpServer, Request

SECOND = 10**9
MOST_POINTS = 11_000
SCRAPED = "max(timestamp(up))"  # asked for by the source itself

Value = Callable[[float], float | str | None]  # of a time in seconds; None: no value


class Asked(NamedTuple):
    """A request."""

    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    form: dict[str, str]

    @property
    def times(self) -> list[float]:
        """The times of a range query, in s."""
        first, last, step = (float(self.form[each]) for each in ("start", "end", "step"))
        count = round((last - first) / step) + 1
        return [round(first + number * step, 3) for number in range(count)]


class FakeApi(HttpServer):
    """A server. `series` has what each query gives; `refuse` may answer instead.

    Attributes
    ----------
    now
        Its time, in ns; `clock` gives it.
    server_ahead
        How many seconds the server's own clock is ahead of that.
    asked
        Range queries, in the order in which they came, but for that for scrapes.
    """

    def __init__(self, now: int) -> None:
        self.now = now
        self.server_ahead = 0.0
        self.series: dict[str, list[tuple[Mapping[str, str], Value]]] = {}
        self.extra: dict[str, Any] = {}
        self.asked: list[Asked] = []
        self.others: list[Asked] = []
        self.version = "2.42.0"
        self.refuse: Callable[[Asked], tuple[int, bytes] | None] = lambda _: None
        super().__init__()

    def respond(self, request: Request) -> tuple[int, dict[str, str], bytes]:
        parts = urlsplit(request.path)
        form = dict(parse_qsl(request.body.decode() or parts.query))
        status, body = self.answer(Asked(request.method, parts.path, request.headers, form))
        return status, {}, body

    def date(self) -> str:
        return formatdate(int(self.now / SECOND + self.server_ahead), usegmt=True)

    def clock(self) -> int:
        return self.now

    def answer(self, asked: Asked) -> tuple[int, bytes]:
        if not asked.path.endswith("/query_range"):
            self.others.append(asked)
            found = self.refuse(asked)
            data = {"status": "success", "data": {"version": self.version}}
            return (200, json.dumps(data).encode()) if found is None else found
        if asked.form["query"] == SCRAPED:
            self.others.append(asked)
        else:
            self.asked.append(asked)
            if (found := self.refuse(asked)) is not None:
                return found
        if len(asked.times) > MOST_POINTS + 1:
            return 400, problem("bad_data", "exceeded maximum resolution of 11,000 points")
        given = [
            {"metric": dict(labels), "values": values}
            for labels, value in self.series.get(asked.form["query"], [])
            if (values := _evaluated(value, asked.times))
        ]
        matrix: dict[str, Any] = {"resultType": "matrix", "result": given}
        return 200, json.dumps({"status": "success", "data": matrix, **self.extra}).encode()


def _evaluated(value: Value, times: list[float]) -> list[list[Any]]:
    found = ((at, value(at)) for at in times)
    return [
        [at, each if isinstance(each, str) else repr(each)]
        for at, each in found
        if each is not None
    ]


def problem(kind: str, text: str) -> bytes:
    """Return the body of an error as Prometheus has it."""
    return json.dumps({"status": "error", "errorType": kind, "error": text}).encode()
