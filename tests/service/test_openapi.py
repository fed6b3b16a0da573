"""The service answers as its own OpenAPI document says, to whatever schemathesis sends."""

import json
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

from newnormal.service.api.app import make_app
from newnormal.service.config import Limits
from newnormal.service.service import Service
from tests.fuzz.requests import SAMPLES, Request, ask
from tests.service.asgi import API, Runner
from tests.service.running import (
    HISTORY,
    Start,
    arrival,
    fits,
    go_live,
    number,
    push,
    samples,
    settle,
)
from tests.service.seeds import each_seed

schemathesis = pytest.importorskip("schemathesis")

_ADDRESS = "http://127.0.0.1:8765"
_REQUESTS = 5  # of a case
_PROTOCOLS = ("/write", "/api/v2/write", "/api/v3/write_lp", f"{API}/write")  # with own answers
_KNOWN: dict[str, tuple[str, ...]] = {  # parameters that go further than any text
    "name": ("m", "n"),
    "generation": ("0", "1"),
    "from": ("2026-01-01T00:00:00Z", "1767225600", "-1e18"),
    "to": ("2026-01-01T06:00:00Z", "99999999999", "1677-09-21"),
    "channels": ("a", "0,b", ""),
    "after": ("1-0", "0-0"),
    "time": ("time", "stream"),
    "by": ("stream", "stream,time"),
    "kind": ("alarm,change",),
    "state": ("live,collecting", "open"),
}


class Described:
    """A service with streams and an alarm, and the operations that its document describes."""

    def __init__(self, service: Service) -> None:
        from schemathesis import checks

        checks.load_all_checks()
        self._checks = [
            getattr(checks, f"{each}_conformance")
            for each in ("status_code", "content_type", "response_headers", "response_schema")
        ]
        self.service = service
        go_live(service, "m", "n")
        odd = samples(HISTORY, 60)
        odd[30:] += 9.0
        push(service, arrival(HISTORY, odd))
        self._app, self._runner = make_app(service), Runner()
        status, _, document = self._answer(Request("GET", f"{API}/openapi.json".encode()))
        assert status == 200
        made = schemathesis.openapi.from_dict(json.loads(document))
        operations = [each.ok() for each in made.get_all_operations()]
        self._made = [(each, mode) for each in operations for mode in _modes(each)]
        (alarm,) = service.store.items.page().items
        self._known = {**_KNOWN, "key": (alarm.key, "incident-1")}
        self.good = 0  # requests that succeeded

    def close(self) -> None:
        self._app.state.reading.close()
        self._runner.close()

    def _answer(self, request: Request) -> tuple[int, dict[str, str], bytes]:
        request.headers.append((b"host", b"127.0.0.1:8765"))
        return self._runner.run(ask(self._app, request))

    def case(self, seed: int) -> None:
        """Send some requests of one operation, and check the answers."""
        operation, mode = self._made[seed % len(self._made)]
        names = ("spare",) if operation.method == "delete" else ("m", "n", "spare")
        for name in names:  # one may have been removed
            if self.service.stream_named(name) is None:
                push(self.service, arrival(0, samples(0, 3), name))
        self._known["id"] = tuple(str(number(self.service, name)) for name in names)

        @hypothesis.seed(seed)
        @hypothesis.settings(
            max_examples=_REQUESTS,
            database=None,
            derandomize=False,
            deadline=None,
            phases=[hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(operation.as_strategy(generation_mode=mode), st.randoms())
        def send(case: Any, draw: Any) -> None:
            self._check(case, draw)

        send()
        while fits(self.service).jobs:
            fits(self.service).fit()
            settle(self.service)

    def _check(self, case: Any, draw: Any) -> None:
        import requests

        for place in (case.path_parameters, case.query):
            for name in sorted({*(place or ())} & {*self._known}):
                if draw.random() < 0.7:
                    place[name] = draw.choice(self._known[name])
        given = case.as_transport_kwargs(base_url=_ADDRESS)
        del given["headers"]["X-Schemathesis-TestCaseId"]  # drawn anew each time
        sent = requests.Request(**given).prepare()
        content: Any = sent.body or b""
        body = content.encode() if isinstance(content, str) else content
        if body and draw.random() < 0.3:
            body = draw.choice(SAMPLES)
        path, _, query = str(sent.path_url).partition("?")
        headers = [
            (name.lower().encode(), value if isinstance(value, bytes) else value.encode())
            for name, value in sent.headers.items()
            if name.lower() != "content-length"
        ]
        request = Request(str(sent.method), path.encode(), query.encode(), headers, [body])
        status, found, answer = self._answer(request)
        if status == 503 and "retry-after" in found:
            return
        assert status < 500, (request, status, answer)
        many = {name: [value] for name, value in found.items()}
        made = schemathesis.Response(status, many, answer, sent, 0.0, verify=False)
        case.validate_response(made, checks=self._checks)
        self.good += status < 300
        if status >= 400 and case.operation.path not in _PROTOCOLS:
            problem = json.loads(answer)
            assert set(problem) == {"error", "hint"} and problem["error"], (request, answer)


def _modes(operation: Any) -> list[Any]:
    """Return whether to send what the document allows, and what it does not."""
    modes = schemathesis.GenerationMode
    raw = operation.definition.raw
    content = raw.get("requestBody", {}).get("content", {})
    wrong = operation.query or any("schema" in each for each in content.values())
    return [modes.POSITIVE, modes.NEGATIVE] if wrong else [modes.POSITIVE]


@pytest.mark.cases(50, 50_000)
def test_every_answer_is_as_the_document_says(start: Start, cases: range) -> None:
    with start(limits=Limits(requests_per_second=1e9)) as service:
        described = Described(service)
        try:
            each_seed(cases, described.case)
            assert service.health()["status"] == "ok"
            assert described.good > len(cases)  # they go far enough to matter
        finally:
            described.close()
