"""How many source files one sample enters, counted by tracing calls after a warm-up.

Plain data, errors, numbers for people, and judgement (what the loop calls) count as one file. A
limit above its goal (40 for a POST, 14 for a pull) is what was measured last: lower it with that.
"""

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, cast

import pytest

import newnormal
from newnormal.io.sources.prometheus import PrometheusSource
from newnormal.service.sources import Puller
from tests.connectors.fake_prometheus import FakeApi
from tests.service.asgi import API, Client
from tests.service.running import (
    CHANNELS,
    SECOND,
    START,
    config_of,
    go_live,
    running,
    settle,
)

SOURCE = Path(newnormal.__file__).parent
TOGETHER = ("types/", "errors.py", "texts.py", "core/", "kernels/", "models/", "acceptance/")
JUDGEMENT = (*TOGETHER, "alarms/")


class Crossed:
    """The files that any thread enters while it is `on`, but those of the service's clock."""

    def __init__(self) -> None:
        self.files: dict[str, None] = {}
        self.on = False

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if self.on and event == "call" and threading.current_thread().name != "newnormal-clock":
            path = Path(frame.f_code.co_filename)
            if path.is_relative_to(SOURCE):
                name = path.relative_to(SOURCE).as_posix()
                self.files["judgement" if name.startswith(JUDGEMENT) else name] = None


@contextmanager
def crossing() -> Iterator[Crossed]:
    """Trace this thread, and those that start inside."""
    crossed = Crossed()
    threading.setprofile(crossed)
    sys.setprofile(crossed)
    try:
        yield crossed
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def check(crossed: Crossed, most: int) -> None:
    assert len(crossed.files) <= most, "\n".join([f"{len(crossed.files)} files", *crossed.files])


def test_a_post_of_one_sample_crosses_few_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = running(config_of(tmp_path), monkeypatch)
    with crossing() as crossed, made as service, Client(cast("Any", service)) as client:
        go_live(service, "m")
        for at in range(400, 420):
            crossed.on = at == 419
            time = (START // SECOND) + at * 60
            sample = {"stream": "m", "time": time, "values": dict.fromkeys(CHANNELS, 0.0)}
            assert client.post(f"{API}/samples", json=sample).status_code == 200
            settle(service)
            crossed.on = False
    check(crossed, 42)


class Taking:
    """A service that has every sample at once."""

    ready = True

    def push(self, *_: Any, **__: Any) -> Future[int]:
        durable: Future[int] = Future()
        durable.set_result(1)
        return durable

    def input_position(self, _: str) -> None:
        return None

    def report(self, *_: Any) -> None:
        pass


def test_a_pull_from_prometheus_crosses_few_files() -> None:
    with FakeApi(1_800_000_000 * SECOND) as fake, crossing() as crossed:
        fake.series["load"] = [({"__name__": "load", "instance": "a"}, lambda at: at)]
        options = {"url": fake.url, "every": "10s", "by": ["instance"], "query": "load"}
        service: Any = Taking()
        puller = Puller("p", lambda: PrometheusSource("p", options, clock=fake.clock), service)
        for _ in range(20):
            fake.now += 10 * SECOND
            taken, crossed.files = puller.samples, {}
            crossed.on = True
            puller.step()
            crossed.on = False
        assert puller.samples > taken
        puller.close()
    check(crossed, 14)
