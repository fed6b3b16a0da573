"""The service answers as its own OpenAPI document says, to whatever schemathesis sends."""

from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

from newnormal.service.config import Limits
from tests.fuzz.requests import SAMPLES
from tests.service import running
from tests.service.asgi import API, Client
from tests.service.running import Start, fits, go_live, number, push, settle
from tests.service.seeds import each_seed

schemathesis = pytest.importorskip("schemathesis")

_REQUESTS = 5  # of a case
_PROTOCOLS = ("/write", "/api/v2/write", "/api/v3/write_lp", f"{API}/write")  # with own refusals
_CHECKED = ("status_code", "content_type", "response_headers", "response_schema")
_TIMES = ("2026-01-01T00:00:00Z", "1767225600", "-1e18", "1677-09-21")
_BODIES = (*SAMPLES, b"cpu,host=a v=1 60\ncpu,host=b v=2\n")
_KNOWN: dict[str, tuple[str, ...]] = {  # values that go further than others
    **dict.fromkeys(("from", "to"), _TIMES),
    **dict.fromkeys(("generation", "after"), ("0", "1", "1-0")),
    **dict.fromkeys(("by", "time"), ("stream", "time")),
    "state": ("live", "open"),
    "stream": ("1", "m"),
    "channels": ("a", "0,b", ""),
}


@pytest.mark.cases(50, 50_000)
def test_every_answer_is_as_the_document_says(start: Start, cases: range) -> None:
    schemathesis.checks.load_all_checks()
    checks = [getattr(schemathesis.checks, f"{each}_conformance") for each in _CHECKED]
    limits, good = Limits(requests_per_second=1e9), 0

    def check(case: Any, draw: Any) -> None:
        nonlocal good
        for place in (case.path_parameters, case.query):
            for name in sorted({*(place or ())} & {*known}):
                if draw.random() < 0.7:
                    place[name] = draw.choice(known[name])
        given = case.as_transport_kwargs(base_url=client.base_url)
        del given["headers"]["X-Schemathesis-TestCaseId"], given["cookies"]
        if isinstance(given.get("data"), str | bytes) and draw.random() < 0.5:
            given["content"] = given.pop("data")
        elif {"data", "files"} & {*given} or ("json" in given and draw.random() < 0.5):
            given = {name: given[name] for name in ("method", "url", "params", "headers")}
            given["content"] = draw.choice(_BODIES)
        answer = client.request(given.pop("method"), given.pop("url"), **given)
        if answer.status_code == 503 and "retry-after" in answer.headers:
            return
        assert answer.status_code < 500, (given, answer.text)
        case.validate_response(answer, checks=checks)
        good += answer.status_code < 300
        if answer.status_code >= 400 and case.operation.path not in _PROTOCOLS:
            problem = answer.json()
            assert set(problem) == {"error", "hint"} and problem["error"], (given, problem)

    def some(seed: int) -> None:
        operation, mode = ways[seed % len(ways)]
        names = ("spare",) if operation.method == "delete" else ("m", "n", "spare")
        for name in names:  # one may have been removed
            if service.stream_named(name) is None:
                push(service, running.arrival(0, running.samples(0, 3), name))
        known.update(name=names, id=tuple(str(number(service, name)) for name in names))
        given: Any = hypothesis.given(operation.as_strategy(generation_mode=mode), st.randoms())
        settings = hypothesis.settings(
            max_examples=_REQUESTS,
            database=None,
            derandomize=False,
            phases=[hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        hypothesis.seed(seed)(settings(given(check)))()
        while fits(service).jobs:
            fits(service).fit()
            settle(service)

    with start(limits=limits) as service, Client(service) as client:
        go_live(service, "m", "n")
        begin = running.HISTORY
        push(service, running.arrival(begin, running.samples(begin, 60) + 9.0))
        known = _KNOWN | {"key": tuple(it.key for it in service.store.items.page().items)}
        document = client.get(f"{API}/openapi.json").json()
        del document["paths"][f"{API}/events"]  # its answer does not end
        read = schemathesis.openapi.from_dict(document).get_all_operations()
        ways = [(each.ok(), mode) for each in read for mode in _modes(each.ok())]
        each_seed(cases, some)
        assert good > len(cases)  # they go far enough to matter
        assert service.health()["status"] == "ok"


def _modes(operation: Any) -> list[Any]:
    """Return whether to send what the document allows, and what it does not."""
    content = operation.definition.raw.get("requestBody", {}).get("content", {})
    has_wrong = operation.query or any("schema" in each for each in content.values())
    return list(schemathesis.GenerationMode)[: 1 + bool(has_wrong)]
