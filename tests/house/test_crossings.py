"""How many source files one sample enters, counted by tracing calls after a warm-up.

Plain data, errors, numbers for people, and judgement (what the loop calls) count as one file. A
limit above its goal (22 for a line of CSV, 40 for a POST, 14 for a pull) is what was measured last:
lower it with that. Run as a program, it prints what a line enters on its way through `watch`.
"""

import json
import os
import sys
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cache
from io import TextIOBase
from pathlib import Path
from types import FrameType
from typing import Any, cast

import numpy as np
import pytest

import newnormal
from newnormal import Fleet, load
from newnormal.io.sources.prometheus import PrometheusSource
from newnormal.service.sources import Puller
from tests.connectors.fake_prometheus import FakeApi
from tests.present import present
from tests.processes import python
from tests.service.asgi import API, Client
from tests.service.running import (
    CHANNELS,
    PERIOD,
    SECOND,
    START,
    arrival,
    config_of,
    go_live,
    push,
    running,
    settle,
)

SOURCE = Path(newnormal.__file__).parent
TOGETHER = ("types/", "errors.py", "texts.py", "core/", "kernels/", "models/", "acceptance/")
JUDGEMENT = (*TOGETHER, "alarms/")
ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "runs"


@cache
def counted_as(path: str) -> str | None:
    """Return the file of newnormal, or what it counts as; None for files of others."""
    if not Path(path).is_relative_to(SOURCE):
        return None
    name = Path(path).relative_to(SOURCE).as_posix()
    return "judgement" if name.startswith(JUDGEMENT) else name


class Crossed:
    """The files that threads enter while it is `on`, but those of some of the service's threads."""

    def __init__(self, *others: str) -> None:
        self.files: dict[str, None] = {}
        self.on = False
        self._steps: list[dict[str, None]] = []
        self._others = {"newnormal-clock", *others}

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        name = counted_as(frame.f_code.co_filename) if self.on and event == "call" else None
        if name is not None and threading.current_thread().name not in self._others:
            self.files[name] = None

    def begin(self) -> None:
        """Begin with a step."""
        self.files, self.on = {}, True

    def end(self) -> None:
        """End the step."""
        self.on = False
        self._steps.append(self.files)

    @property
    def each_time(self) -> Collection[str]:
        """The files that each of the last ten steps entered: some meet a checkpoint, by time."""
        steps = self._steps[10:]
        return [name for name in steps[0] if all(name in step for step in steps)]


@contextmanager
def crossing(*others: str) -> Iterator[Crossed]:
    """Trace this thread and those that start inside, but `others`."""
    crossed = Crossed(*others)
    threading.setprofile(crossed)
    sys.setprofile(crossed)
    try:
        yield crossed
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def check(files: Collection[str], most: int) -> None:
    assert len(files) <= most, "\n".join([f"{len(files)} files", *files])


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels in the cache: traced, compiling them takes minutes."""
    with running(config_of(tmp_path / "first"), monkeypatch) as service:
        go_live(service, "m")
        push(service, arrival(400, np.zeros((20, 2))))


@pytest.mark.usefixtures("compiled")
def test_a_post_of_one_sample_crosses_few_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = running(config_of(tmp_path), monkeypatch)
    with crossing() as crossed, made as service, Client(cast("Any", service)) as client:
        go_live(service, "m")
        for at in range(400, 420):
            crossed.begin()
            time = (START // SECOND) + at * 60
            sample = {"stream": "m", "time": time, "values": dict.fromkeys(CHANNELS, 0.0)}
            assert client.post(f"{API}/samples", json=sample).status_code == 200
            settle(service)
            crossed.end()
    check(crossed.each_time, 40)


@pytest.mark.usefixtures("compiled")
def test_a_pull_from_prometheus_crosses_few_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until its samples are durable: what is done with them then is counted for a POST."""
    made, fake = running(config_of(tmp_path), monkeypatch), FakeApi(START + 400 * PERIOD)
    with fake, crossing("newnormal-apply") as crossed, made as service:
        go_live(service, "m")
        queries = {"a": "sin", "b": "cos"}
        for query in queries.values():
            fake.series[query] = [({"instance": "m"}, lambda _: 0.0)]
        options = {"url": fake.url, "every": "1m", "by": ["instance"], "channels": queries}
        options |= {"start": "1m", "delay": "1s"}
        puller = Puller("p", lambda: PrometheusSource("p", options, clock=fake.clock), service)
        for _ in range(20):
            fake.now += PERIOD
            taken = puller.samples
            crossed.begin()
            puller.step()
            settle(service)
            crossed.end()
        assert puller.samples > taken
        assert present(service.stream_named("m")).state == "live"
        puller.close()
    check(crossed.each_time, 14)


class Output(TextIOBase):
    """Standard output that hands in one more line of CSV once all before it are answered."""

    def __init__(self, crossed: Crossed) -> None:
        self.crossed = crossed
        reading, self.pipe = os.pipe()
        os.dup2(reading, 0)
        self.given = self.answered = 0
        self.steps: list[dict[str, None]] = []
        os.write(self.pipe, b"time,flow,pressure,valve\n")
        for _ in range(40):
            self.give()

    def give(self) -> None:
        time = np.datetime64("2026-02-01T00:00:00") + self.given * 60
        os.write(self.pipe, f"{time},0.5,0.5,0.5\n".encode())
        self.given += 1

    def write(self, text: str) -> int:
        self.answered += text.count("\n")
        if self.answered == self.given:
            self.steps.append(self.crossed.files)
            self.crossed.files = {}
            if len(self.steps) < 20:
                self.give()
            else:
                os.close(self.pipe)
        return len(text)


def test_a_line_of_csv_crosses_few_files() -> None:
    done = python("-m", "tests.house.test_crossings", GOLDEN / "quiet.nn", cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    check(json.loads(done.stdout), 29)


def main() -> None:
    """Watch lines with a model; print the files that the last one but one entered."""
    from newnormal.cli.app import app

    Fleet().add("", load(sys.argv[1])).run({"": np.zeros((30, 3))})  # compiles without a trace
    shown = sys.stdout
    with crossing() as crossed:
        crossed.on = True
        sys.stdout = output = Output(crossed)
        app(["watch", sys.argv[1], "-"], standalone_mode=False)
    print(json.dumps([*output.steps[-2]]), file=shown, flush=True)


if __name__ == "__main__":
    main()
