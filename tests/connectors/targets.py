"""Generated hosts for Prometheus: one server for all of them, values by the time, planted faults.

``python -m tests.connectors.targets HOSTS METRICS CYCLE`` serves them from a process of its own.
"""

import math
import sys
import time
from collections.abc import Iterable, Iterator, Mapping

from tests.http_server import HttpServer, Request

JOB = "machines"
CYCLE_S = 24.0  # of the slowest rhythm, where nothing else is said
_KINDS = 4  # of hosts, which have their rhythms at different moments


def host_name(number: int) -> str:
    return f"host-{number:03d}"


def metric_name(number: int) -> str:
    return f"machine_metric_{number:02d}"


def value(host: int, metric: int, seconds: float, cycle: float = CYCLE_S) -> float:
    """Return what a host measures at a time: rhythms, and noise that the time decides."""
    phase = 0.7 * metric + 1.3 * (host % _KINDS)
    slow = math.sin(2 * math.pi * seconds / cycle + phase)
    fast = 0.4 * math.sin(2 * math.pi * seconds / (cycle / 5) + 2 * phase)
    noise = math.sin(seconds * 12.9898 + 78.233 * (host + 41 * metric)) * 43758.5453
    return round(slow + fast + 0.2 * (noise - math.floor(noise) - 0.5), 6)


def open_metrics(
    hosts: int, metrics: int, times: Iterable[float], *, job: str = JOB, cycle: float = CYCLE_S
) -> Iterator[str]:
    """Give the lines of a file that promtool makes history of."""
    listed = list(times)
    for metric in range(metrics):
        yield f"# TYPE {metric_name(metric)} gauge"
        for host in range(hosts):
            labels = f'{{instance="{host_name(host)}",job="{job}"}}'
            for seconds in listed:
                found = value(host, metric, seconds, cycle)
                yield f"{metric_name(metric)}{labels} {found} {seconds:.3f}"
    yield "# EOF"


def scrape_config(address: str, hosts: int, interval: str, job: str = JOB) -> str:
    """Return a prometheus.yml that scrapes all hosts."""
    listed = ", ".join(host_name(each) for each in range(hosts))
    return f"""
global: {{scrape_interval: {interval}, scrape_timeout: {interval}}}
scrape_configs:
  - job_name: {job}
    static_configs:
      - targets: [{listed}]
    relabel_configs:
      - {{source_labels: [__address__], target_label: instance}}
      - {{source_labels: [__address__], target_label: __metrics_path__, replacement: /metrics/$1}}
      - {{target_label: __address__, replacement: "{address}"}}
"""


class Targets(HttpServer):
    """A server of hosts, each at ``/metrics/HOST``.

    Attributes
    ----------
    scrapes
        How often each host was asked.
    """

    def __init__(self, hosts: int, metrics: int, cycle: float = CYCLE_S) -> None:
        self.hosts, self.metrics = hosts, metrics
        self._cycle = cycle
        self._numbers = {host_name(each): each for each in range(hosts)}
        self.scrapes = dict.fromkeys(self._numbers, 0)
        self._faults: dict[str, dict[int, float]] = {}
        super().__init__()

    def respond(self, request: Request) -> tuple[int, dict[str, str], bytes]:
        text = self.answer(request.path.rpartition("/")[2])
        media = {"Content-Type": "text/plain; version=0.0.4"}
        return 503 if text is None else 200, media, (text or "").encode()

    def answer(self, host: str) -> str | None:
        """Return the metrics of a host now, as Prometheus reads them; None: no such host."""
        if (number := self._numbers.get(host)) is None:
            return None
        self.scrapes[host] += 1
        now, faults = time.time(), self._faults.get(host, {})
        lines = [
            f"{metric_name(each)} {value(number, each, now, self._cycle) + faults.get(each, 0.0)}\n"
            for each in range(self.metrics)
        ]
        return "".join(lines)

    def plant(self, host: str, added: Mapping[int, float]) -> None:
        """From now on some metrics of a host are higher by a number; none: the fault is over."""
        self._faults[host] = dict(added)


def main() -> None:
    """Serve hosts until the input ends."""
    with Targets(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])) as targets:
        print(targets.address, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
