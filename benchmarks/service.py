"""``python -m benchmarks.service``: measure the service, write docs/benchmarks-service.md."""

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
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx

from benchmarks.machine import facts
from benchmarks.report import Row, Section, Target, summary, to_markdown, to_text
from benchmarks.service_folder import prepare
from benchmarks.service_senders import BATCH
from tests.waiting import until

DOCS = Path(__file__).parents[1] / "docs"
COMMAND = "make bench-service"
CAVEATS = (
    "Senders, the page and the service share the processors: another program on the machine makes "
    "every figure worse.",
    f"Streams were fitted before. Senders post JSON over HTTP, {BATCH} samples a request, one of "
    "each of as many streams, which costs the service most; they do not wait for each other.",
    "A page is open: it follows the events, reads the overview, a stream with its picture, the "
    "inbox and the health of everything, as often as the page in the browser does.",
    "A sample is a vector of 5 values. It is acknowledged once it is on the disk.",
)
_CONFIG = """
port = 0
data = "{data}"
[limits]
requests_per_second = 100000
[retention]
samples = "36500d"
"""


@dataclass
class Page:
    """What an open page reads, and how long it waits."""

    url: str
    pid: int
    ended: threading.Event = field(default_factory=threading.Event)
    waits: list[float] = field(default_factory=list)
    events: int = 0
    lag: list[int] = field(default_factory=list)
    checkpoints: set[float] = field(default_factory=set)
    memory: list[float] = field(default_factory=list)  # of the service, in MB, once a second

    def follow(self) -> None:
        """Follow the events."""
        with (
            suppress(httpx.HTTPError),
            httpx.stream("GET", f"{self.url}/api/v1/events", timeout=None) as answer,
        ):
            for line in answer.iter_lines():
                self.events += line.startswith("event:")
                if self.ended.is_set():
                    return

    def read(self) -> None:
        """Read what is shown, again and again."""
        with httpx.Client(base_url=f"{self.url}/api/v1", timeout=60.0) as client:
            number = 0
            while not self.ended.wait(1.0):
                number += 1
                self.memory.append(resident(self.pid))
                shown = self._get(client, "/streams/1")
                end = shown["newest"]
                self._get(client, f"/streams/1/series?to={end}&points=1500")
                if number % 2 == 0:
                    self._get(client, "/streams?sort=attention&limit=50")
                if number % 5 == 0:
                    self._get(client, "/items?open=true&limit=50")
                health = self._get(client, "/health")
                self.lag.append(health["lag_samples"])
                self.checkpoints.add(health["parts"]["store"]["checkpoint_s"])

    def _get(self, client: httpx.Client, path: str) -> Any:
        began = time.perf_counter()
        answer = client.get(path)
        self.waits.append(time.perf_counter() - began)
        answer.raise_for_status()
        return answer.json()


@contextmanager
def serving(data: Path) -> Iterator[tuple[str, int]]:
    """Give the address and the process number of a service that runs on a folder."""
    config = data.parent / "service.toml"
    config.write_text(_CONFIG.format(data=data))
    process = subprocess.Popen(
        [sys.executable, "-m", "newnormal", "serve", str(config)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
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
    with suppress(httpx.HTTPError):
        return httpx.get(f"{url}/readyz").status_code == 200
    return False


def _waiting(url: str) -> int:
    found: int = httpx.get(f"{url}/api/v1/health").json()["lag_samples"]
    return found


def measure(streams: int, seconds: float, rate: float) -> tuple[list[Section], dict[str, Any]]:
    """Measure; return the tables and the figures."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        print(f"preparing {streams:,} live streams", file=sys.stderr)
        first = prepare(data, streams)
        began = time.perf_counter()
        with serving(data) as (url, pid):
            start = time.perf_counter() - began
            figures = {"start": start, **_load(url, pid, streams, first, seconds, rate)}
            began = time.perf_counter()
        figures["stop"] = time.perf_counter() - began
        figures["disk"] = sum(each.stat().st_size for each in data.rglob("*") if each.is_file())
    return _sections(figures, streams), figures


def _load(
    url: str, pid: int, streams: int, first: int, seconds: float, rate: float
) -> dict[str, Any]:
    page = Page(url, pid)
    readers = [threading.Thread(target=each, daemon=True) for each in (page.follow, page.read)]
    for each in readers:
        each.start()
    warm = min(20.0, seconds)  # all has been used once, and memory is what it stays
    _send(url, streams, first, warm, rate)
    first += round(warm / (streams / rate))
    page.waits, page.lag, page.checkpoints, page.memory = [], [], set(), [resident(pid)]
    used, began = processor(pid), time.perf_counter()
    sent = _send(url, streams, first, seconds, rate)
    took = time.perf_counter() - began
    used = processor(pid) - used
    page.memory.append(resident(pid))
    drained = time.perf_counter()
    until(lambda: not _waiting(url), "all samples to be judged", seconds=600.0)
    drained = time.perf_counter() - drained
    page.ended.set()
    readers[1].join()
    return {
        **sent,
        "rate": sent["samples"] / sent["seconds"],
        "processor": used / took,
        "memory": page.memory,
        "page": sorted(page.waits),
        "events": page.events,
        "lag": max(page.lag, default=0),
        "drained": drained,
        "checkpoint": max(page.checkpoints, default=0.0),
    }


def _send(url: str, streams: int, first: int, seconds: float, rate: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.service_senders", url]
    command += ["--streams", str(streams), "--first", str(first)]
    command += ["--rate", str(rate), "--seconds", str(seconds)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    assert process.stdout is not None and process.stdin is not None
    assert process.stdout.readline() == "ready\n"
    process.stdin.write("go\n")
    process.stdin.flush()
    output, _ = process.communicate()
    found: dict[str, Any] = json.loads(output)
    return found


def resident(pid: int) -> float:
    """Return the memory of a process in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1e3
    return float("nan")


def processor(pid: int) -> float:
    """Return the seconds that a process has used the processors."""
    found = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(found[11]) + int(found[12])) / os.sysconf("SC_CLK_TCK")


def part(values: list[float], share: float) -> float:
    """Return the value that a share of sorted values does not exceed."""
    return values[min(len(values) - 1, int(share * len(values)))] if values else float("nan")


def _sections(figures: dict[str, Any], streams: int) -> list[Section]:
    seconds = figures["seconds"]
    rows = [
        Row(
            f"samples of {streams:,} live streams, for {seconds:,.0f} s",
            {"samples/s": figures["rate"], "refused": figures["refused"]},
            Target("samples/s", 5000, at_least=True),
        )
    ]
    waits = figures["answers"]
    acknowledged = {
        "p50, ms": 1e3 * part(waits, 0.5),
        "p99, ms": 1e3 * part(waits, 0.99),
        "most, ms": 1e3 * waits[-1],
    }
    late = figures["waits"]
    due = {
        "p50, ms": 1e3 * part(late, 0.5),
        "p99, ms": 1e3 * part(late, 0.99),
        "most, ms": 1e3 * late[-1],
    }
    shown = figures["page"]
    read = {
        "p50, ms": 1e3 * part(shown, 0.5),
        "p99, ms": 1e3 * part(shown, 0.99),
        "most, ms": 1e3 * part(shown, 1.0),
    }
    answers = [
        Row("acknowledgement of a request, from sending it", acknowledged, Target("p99, ms", 150)),
        Row("the same, from the moment it was due", due),
        Row("answers to the page", read),
    ]
    before, after = figures["memory"][0], figures["memory"][-1]
    costs = [
        Row("processors used by the service", {"value": figures["processor"]}),
        Row("memory before, MB", {"value": before}),
        Row("memory after, MB", {"value": after}),
        Row("most memory, MB", {"value": max(figures["memory"])}),
        Row("longest checkpoint, s", {"value": figures["checkpoint"]}),
        Row("most samples that were durable and not yet judged", {"value": figures["lag"]}),
        Row("until the last one was judged, s", {"value": figures["drained"]}),
        Row("start, s", {"value": figures["start"]}),
        Row("stop, s", {"value": figures["stop"]}),
        Row("data folder, MB", {"value": figures["disk"] / 1e6}),
        Row("events that the page was told", {"value": figures["events"]}),
    ]
    return [
        Section("Load", (), "what", rows),
        Section("Answers", (), "what", answers),
        Section("Costs", (), "what", costs),
    ]


def main() -> int:
    """Measure, print, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.service", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="20 s, and no page is written")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=5200.0, help="samples a second")
    options = parser.parse_args()
    machine = facts() | {"processor": facts()["processor"].replace("one used", "all used")}
    machine["priority"] = f"nice {os.nice(0)}"
    seconds = 20.0 if options.quick else options.seconds
    sections, figures = measure(options.streams, seconds, options.rate)
    for section in sections:
        print(f"{to_text(section)}\n", flush=True)
    print(summary(sections))
    if not options.quick:
        _write(sections, machine, figures)
    return 0


def _write(sections: list[Section], machine: dict[str, str], figures: dict[str, Any]) -> None:
    page, raw = DOCS / "benchmarks-service.md", DOCS / "benchmarks-service.json"
    about = "How much the service takes, and how fast it answers."
    text = to_markdown(sections, machine, CAVEATS, COMMAND, of="the service", about=about)
    page.write_text(text, encoding="utf-8")
    long = ("answers", "waits", "page")
    figures["memory"] = [round(each, 1) for each in figures["memory"][::10]]
    kept = {name: each for name, each in figures.items() if name not in long}
    found = {"machine": machine, "sections": [asdict(each) for each in sections], "figures": kept}
    raw.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"wrote {page} and {raw}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
