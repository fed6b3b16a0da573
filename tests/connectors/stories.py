"""What stories with real programs share: samples in the log and the store, senders, a plant."""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np

from newnormal.client import Client, ServiceError
from newnormal.engine.log.entries import SamplesArrived, unpack
from newnormal.engine.log.sqlite_log import SqliteLog
from tests.connectors.programs import Newnormal
from tests.waiting import until

NO_FITS = '[streams]\nhistory = 1000000\n[retention]\nlog = "1h"\n'
START = 1_767_225_600  # 2026-01-01T00:00:00Z
MACHINES = ("press-1", "press-2", "oven")
PERIOD = 10  # s
HISTORY = 300


class Logged(NamedTuple):
    """A value in the log; its time in ns."""

    source: str
    stream: str
    channel: str
    time: int
    value: float


def logged(folder: Path) -> list[Logged]:
    """Return every value in the log of a service's data."""
    with closing(SqliteLog(folder / "log.sqlite")) as log:
        return [
            Logged(entry.source, each.stream, channel, int(moment), float(value))
            for _, record in log.read(log.first)
            for entry in unpack(record)
            if isinstance(entry, SamplesArrived)
            for each in entry.arrivals
            for moment, row in zip(each.times, each.values, strict=True)
            for channel, value in zip(each.channels, row, strict=True)
            if not np.isnan(value)
        ]


def stored(service: Newnormal, name: str) -> dict[str, list[float | None]]:
    """Return all samples of a stream by channel, and nothing where it is not known."""
    with service.client() as client:
        try:
            stream = client.stream(name)
        except ServiceError:
            return {}
    every = ",".join(str(number) for number in range(len(stream["channels"])))
    path = f"{service.url}/api/v1/streams/{stream['id']}/series"
    series = httpx.get(path, params={"points": 5000, "channels": every}, timeout=20.0).json()
    assert series["per"] == 1
    return {name: series["columns"][f"low:{k}"] for k, name in enumerate(stream["channels"])}


def sample_count(service: Newnormal) -> int:
    with service.client() as client:
        return sum(int(each["samples"]) for each in client.streams())


def source_health(client: Client, name: str) -> dict[str, Any]:
    return dict(client.health()["parts"].get(f"source {name}", {"ok": False, "message": ""}))


def until_live(client: Client) -> None:
    def states() -> list[str]:
        return [each["state"] for each in client.streams()]

    until(lambda: states() == ["live"] * len(MACHINES), "three live streams")


class Numbers(threading.Thread):
    """Sends numbers one after the other, ten at once, up to `most`; then it waits."""

    def __init__(self, send: Callable[[Sequence[int]], None]) -> None:
        super().__init__(daemon=True)
        self._send, self._ended = send, threading.Event()
        self.count = self.most = 0

    def run(self) -> None:
        while not self._ended.wait(0.01):
            if self.count < self.most:
                self.send(10)

    def send(self, count: int) -> None:
        self._send(range(self.count, self.count + count))
        self.count += count

    def end(self) -> None:
        self._ended.set()
        self.join(60.0)


def readings(first: int, steps: int, fault: float = 0.0) -> Iterator[tuple[int, int, float, float]]:
    """Give step, machine, temperature and load; the second machine may have a fault."""
    for step in range(first, first + steps):
        noise = np.random.default_rng(step).normal(0.0, 0.1, (3, 2))
        for machine in range(len(MACHINES)):
            temperature = 60.0 + 5.0 * np.sin(step / 9.0 + machine) + noise[machine, 0]
            load = 3.0 + np.cos(step / 9.0 + machine) + noise[machine, 1]
            yield step, machine, temperature + (fault if machine == 1 else 0.0), load


def check_fault_is_an_alarm(
    service: Newnormal, stream: str, send: Callable[[list[tuple[int, float, float]]], None]
) -> str:
    """Send seven hours of a load and a counter, with a fault at the end; return the sentence."""
    with service, service.client() as client:
        for first in range(0, 420, 60):
            rows = []
            for step in range(first, first + 60):
                high = 8.0 if 380 <= step < 400 else 0.0
                load = 2 + math.sin(step / 5) + 0.1 * math.sin(step * 7.3) + high
                rows.append((step, load, 100.0 * step + round(9 * math.sin(step * 3.1))))
            send(rows)
            if first == 300:
                until(lambda: client.stream(stream)["state"] == "live", "the model of the stream")
        (alarm, *_) = until(lambda: list(client.items(kind="alarm")), "an alarm")
        assert alarm["stream_name"] == stream
        return str(alarm["sentence"])
