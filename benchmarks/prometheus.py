"""``python -m benchmarks.prometheus``: hosts, a real Prometheus and the service on one machine.

Writes docs/benchmarks-prometheus.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx

from benchmarks.machine import facts
from benchmarks.prometheus_folder import prepare
from benchmarks.prometheus_hosts import (
    QUERY,
    SOURCE,
    Size,
    history,
    hosts,
    place,
    read_history,
    scraped,
    write_history,
)
from benchmarks.prometheus_lag import Follower, newest, scrapes
from benchmarks.report import Row, Section, Target, summary, to_markdown, to_text
from benchmarks.service import part, processor, resident
from tests.connectors.programs import Prometheus
from tests.connectors.targets import metric_name, scrape_config
from tests.waiting import until

DOCS = Path(__file__).parents[1] / "docs"
COMMAND = "make bench-prometheus"
CAVEATS = (
    "The hosts, Prometheus, the service and what measures them share the processors: another "
    "program on the machine makes every figure worse.",
    "Each host is a stream, each of its metrics a channel. Streams were fitted before, on samples "
    "of such hosts. One query has all metrics; the source's delay is the default, 5 s.",
    "A lag begins at the time that Prometheus gives a scrape. It ends when those who follow the "
    "events of the service, as a page does, are told that the sample with its values was judged.",
)
_CONFIG = """
port = 0
data = "{data}"
[sources.{source}]
kind = "prometheus"
url = "{url}"
by = ["instance"]
without = ["job"]
every = "{interval}s"
query = '{query}'
"""


@contextmanager
def serving(data: Path, prometheus: str, size: Size) -> Iterator[tuple[str, int]]:
    """Give the address and the process number of a service that asks Prometheus."""
    config = data.parent / "service.toml"
    config.write_text(
        _CONFIG.format(
            data=data, source=SOURCE, url=prometheus, interval=size.interval, query=QUERY
        )
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "newnormal", "serve", str(config)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        while line and "newnormal is at" not in line:
            line = process.stdout.readline()
        url = line.split()[-1]
        until(lambda: process.poll() is not None or _is_ready(url), "the service to be ready")
        if process.poll() is not None:
            raise SystemExit(f"{line}{process.stdout.read()}")
        yield url, process.pid
    finally:
        process.terminate()
        process.communicate()


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz").status_code == 200
    except httpx.HTTPError:
        return False


def measure(size: Size) -> tuple[list[Section], dict[str, Any]]:
    """Measure; return the tables and the figures."""
    with tempfile.TemporaryDirectory() as made, hosts(size) as (address, hosts_pid):
        folder = Path(made)
        config = scrape_config(address, size.hosts, f"{size.interval}s")
        prometheus = Prometheus(folder / "prometheus", config)
        _say(f"making {size.minutes:g} minutes of history")
        written = write_history(prometheus.folder, size)
        with prometheus:
            until(lambda: scraped(prometheus.url) == size.hosts, "scrapes of all", seconds=120.0)
            _say("reading the history")
            figures: dict[str, Any] = dict(read_history(prometheus.url, size, written))
            _say(f"preparing {size.hosts:,} live streams")
            last = time.time_ns() // size.step * size.step
            prepare(
                folder / "data",
                size.hosts,
                lambda host: history(host, size, last),
                SOURCE,
                place(prometheus.url, size, last),
            )
            with serving(folder / "data", prometheus.url, size) as (url, pid):
                pids = {"service": pid, "prometheus": prometheus.pid, "hosts": hosts_pid}
                figures |= _live(url, prometheus.url, pids, size)
            files = (folder / "data").rglob("*")
            figures["disk"] = sum(each.stat().st_size for each in files if each.is_file())
    return _sections(figures, size), figures


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _live(url: str, prometheus: str, pids: dict[str, int], size: Size) -> dict[str, Any]:
    """Follow the service for a while; return the figures."""
    _say("catching up")
    moment = threading.Event()  # never set
    began = time.perf_counter()
    while time.time_ns() - newest(url) > 2 * size.step:
        moment.wait(1.0)
    caught_up = time.perf_counter() - began
    follower = Follower(url)
    follower.start()
    _say(f"measuring for {size.seconds:g} s")
    used = {name: processor(pid) for name, pid in pids.items()}
    before = _health(url)
    first, memory, lag = time.time(), [resident(pids["service"])], [0]
    while time.time() < first + size.seconds:
        moment.wait(1.0)
        memory.append(resident(pids["service"]))
        lag.append(_health(url)["lag_samples"])
    last = time.time()
    figures: dict[str, Any] = {
        f"processor_{name}": (processor(pid) - used[name]) / (last - first)
        for name, pid in pids.items()
    }
    after = _health(url)
    moment.wait(3.0 * size.interval)  # until the last scrapes are shown, or are late
    follower.stop()
    grid = [int(each) // size.interval * size.step for each in (first, last)]
    found = scrapes(prometheus, metric_name(0), grid[0], grid[1] + 2 * size.step, size.step)
    lags = follower.lags(found, size.step, last)
    return figures | {
        "seconds": last - first,
        "caught_up": caught_up,
        "samples": after["samples"] - before["samples"],
        "missing": lags.missing,
        "scrapes": len(lags.of_scrapes),
        "of_scrapes": lags.of_scrapes,
        "of_times": lags.of_times,
        "memory": memory,
        "lag": max(lag),
        "checkpoint": after["parts"]["store"]["checkpoint_s"],
        "message": after["parts"].get(f"source {SOURCE}", {}).get("message", ""),
    }


def _health(url: str) -> dict[str, Any]:
    answer = httpx.get(f"{url}/api/v1/health", timeout=60.0)
    answer.raise_for_status()
    found: dict[str, Any] = answer.json()
    return found


def _sections(figures: dict[str, Any], size: Size) -> list[Section]:
    what = f"{size.hosts:,} hosts × {size.metrics} metrics every {size.interval} s"
    seconds = figures["seconds"]
    load = [
        Row(
            f"{what}, for {seconds:,.0f} s",
            {
                "samples/s": figures["samples"] / seconds,
                "values/s": figures["samples"] * size.metrics / seconds,
                "scrapes not judged": figures["missing"],
            },
            Target("scrapes not judged", 0),
        )
    ]
    lags = [
        Row(
            "from a scrape to its judgement",
            _parts(figures["of_scrapes"]),
            Target("most, s", 2 * size.interval),
        ),
        Row("from the time that was asked for to its judgement", _parts(figures["of_times"])),
    ]
    memory = figures["memory"]
    costs = [
        Row("processors used by the service", {"value": figures["processor_service"]}),
        Row("processors used by Prometheus", {"value": figures["processor_prometheus"]}),
        Row("processors used by the hosts", {"value": figures["processor_hosts"]}),
        Row("memory before, MB", {"value": memory[0]}),
        Row("memory after, MB", {"value": memory[-1]}),
        Row("most memory, MB", {"value": max(memory)}),
        Row("longest checkpoint, s", {"value": figures["checkpoint"]}),
        Row("most samples that were durable and not yet judged", {"value": figures["lag"]}),
        Row("data folder, MB", {"value": figures["disk"] / 1e6}),
    ]
    values = figures["history"]
    read = [
        Row("values", {"value": values}),
        Row("values a second", {"value": values / figures["history_s"]}),
        Row("processor for a million values, s", {
            "value": 1e6 * figures["history_processor"] / values}),
    ]  # fmt: skip
    note = (f"{size.minutes:g} minutes of the same hosts, read by the source alone; what the "
            "service then does with them is not in it.")  # fmt: skip
    return [
        Section("Load", (), "what", load),
        Section("Lag", (), "what", lags),
        Section("Costs", (), "what", costs),
        Section("History", (note,), "what", read),
    ]


def _parts(values: list[float]) -> dict[str, float]:
    return {
        "p50, s": part(values, 0.5),
        "p99, s": part(values, 0.99),
        "most, s": part(values, 1.0),
    }


def main() -> int:
    """Measure, print, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.prometheus", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="45 s, and no page is written")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--hosts", type=int, default=500)
    parser.add_argument("--metrics", type=int, default=20)
    parser.add_argument("--interval", type=int, default=15, help="seconds between two scrapes")
    options = parser.parse_args()
    machine = facts() | {"processor": facts()["processor"].replace("one used", "all used")}
    machine["priority"] = f"nice {os.nice(0)}"
    seconds, minutes = (45.0, 2.0) if options.quick else (options.seconds, 20.0)
    size = Size(options.hosts, options.metrics, options.interval, seconds, minutes)
    sections, figures = measure(size)
    for section in sections:
        print(f"{to_text(section)}\n", flush=True)
    print(summary(sections))
    if not options.quick:
        _write(sections, machine, figures)
    return 0


def _write(sections: list[Section], machine: dict[str, str], figures: dict[str, Any]) -> None:
    page, raw = DOCS / "benchmarks-prometheus.md", DOCS / "benchmarks-prometheus.json"
    about = "How late the service judges what Prometheus has scraped, and what that costs."
    of = "Prometheus as a source"
    text = to_markdown(sections, machine, CAVEATS, COMMAND, of=of, about=about)
    page.write_text(text, encoding="utf-8")
    figures["memory"] = [round(each, 1) for each in figures["memory"][::10]]
    kept = {name: each for name, each in figures.items() if not name.startswith("of_")}
    found = {"machine": machine, "sections": [asdict(each) for each in sections], "figures": kept}
    raw.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    _say(f"wrote {page} and {raw}")


if __name__ == "__main__":
    sys.exit(main())
