"""Hosts in a process of their own, and their history: in Prometheus, and as samples."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np

from newnormal.arrivals.arrival import Arrival
from newnormal.io.sources.prometheus import PrometheusSource
from tests.connectors.programs import found
from tests.connectors.targets import host_name, metric_name, open_metrics, value

QUERY = '{job="machines",__name__=~"machine_metric_.*"}'
SOURCE = "hosts"
_SAMPLES = 600  # that models are fitted on
_CYCLE_S = 3600.0
_BATCH = 5000  # samples, as the service asks for


class Size(NamedTuple):
    """How much there is."""

    hosts: int
    metrics: int
    interval: int  # s between two scrapes
    seconds: float  # that are measured
    minutes: float  # of history that Prometheus has

    @property
    def step(self) -> int:
        """The time between two scrapes in ns."""
        return self.interval * 10**9


@contextmanager
def hosts(size: Size) -> Iterator[tuple[str, int]]:
    """Give the address of hosts in a process of their own, and its number."""
    command = [sys.executable, "-m", "tests.connectors.targets"]
    process = subprocess.Popen(
        [*command, str(size.hosts), str(size.metrics), str(_CYCLE_S)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), process.pid
    finally:
        process.communicate()  # the end of its input ends it


def write_history(folder: Path, size: Size) -> int:
    """Give Prometheus history, before it starts; return how many values it has."""
    now = int(time.time()) // size.interval * size.interval
    count = round(60 * size.minutes / size.interval)
    times = [now - size.interval * (count - 1 - each) for each in range(count)]
    with (folder / "history.txt").open("w") as file:
        lines = open_metrics(size.hosts, size.metrics, times, cycle=_CYCLE_S)
        file.writelines(f"{line}\n" for line in lines)
    command = [found("promtool"), "tsdb", "create-blocks-from", "openmetrics", "history.txt"]
    subprocess.run([*command, "data"], cwd=folder, check=True, capture_output=True)
    (folder / "history.txt").unlink()
    return size.hosts * size.metrics * count


def read_history(url: str, size: Size, written: int) -> dict[str, float]:
    """Read as many values by the source alone; return what that took."""
    options = _options(url, size) | {"start": f"{60 * size.minutes + 600:.0f}s"}
    values, used, began = 0, time.process_time(), time.perf_counter()
    with closing(PrometheusSource(SOURCE, options)) as source:
        while values < written:
            values += sum(each.values.size for each in source.next_batch(_BATCH))
    return {
        "history": values,
        "history_s": time.perf_counter() - began,
        "history_processor": time.process_time() - used,
    }


def _options(url: str, size: Size) -> dict[str, Any]:
    return {
        "url": url,
        "by": ["instance"],
        "without": ["job"],
        "every": f"{size.interval}s",
        "query": QUERY,
    }


def place(url: str, size: Size, last: int) -> dict[str, Any]:
    """Return the place of a source that has given all out up to a time in ns."""
    with closing(PrometheusSource(SOURCE, _options(url, size))) as source:
        return {**source.snapshot(), "time": last}


def history(host: int, size: Size, last: int) -> Arrival:
    """Return what a host measured up to a time in ns."""
    times = last - size.step * np.arange(_SAMPLES, dtype=np.int64)[::-1]
    values = np.array(
        [
            [value(host, metric, at / 1e9, _CYCLE_S) for metric in range(size.metrics)]
            for at in times.tolist()
        ]
    )
    return Arrival(host_name(host), tuple(map(metric_name, range(size.metrics))), times, values)


def scraped(url: str) -> int:
    """Return how many hosts Prometheus has scraped."""
    answer = httpx.get(f"{url}/api/v1/query", params={"query": "count(up == 1)"}).json()
    result = answer["data"]["result"]
    return int(result[0]["value"][1]) if result else 0
