"""Remote write with real programs: Prometheus sends to the service, and each is killed."""

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.connectors.programs import Newnormal, Prometheus, found
from tests.connectors.stories import check_fault_is_an_alarm, stored
from tests.connectors.test_remote_write import BEGIN, HEADERS, body
from tests.http_server import HttpServer, Request
from tests.waiting import until

GAUGES = 6


class Target(HttpServer):
    """Something to scrape, whose gauges have the number of the scrape."""

    def __init__(self) -> None:
        self.scrapes = 0
        self._lock = threading.Lock()
        super().__init__()

    def respond(self, request: Request) -> tuple[int, dict[str, str], bytes]:
        del request
        with self._lock:
            self.scrapes += 1
            text = exposition(self.scrapes)
        return 200, {"Content-Type": "text/plain; version=0.0.4"}, text.encode()


def exposition(scrape: int) -> str:
    gauges = [f"# TYPE m{k} gauge\nm{k} {scrape + k}\n" for k in range(GAUGES)]
    parts = [f"# TYPE scrape_number gauge\nscrape_number {scrape}\n", *gauges]
    parts.append(f"# TYPE work_total counter\nwork_total {scrape * 10}\n")
    parts.append(f'# TYPE wait summary\nwait{{quantile="0.5"}} NaN\nwait_sum {scrape}\n')
    parts.append(f"wait_count {scrape}\n")
    return "".join(parts)


@contextmanager
def targets(number: int) -> Iterator[list[Target]]:
    made = [Target() for _ in range(number)]
    try:
        yield made
    finally:
        for each in made:
            each.close()


def config(addresses: list[str], service: Newnormal) -> str:
    """Return a configuration whose requests hold a few samples: every scrape is cut."""
    url = f"{service.url}/api/v1/write"
    return f"""
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: plant
    static_configs: [{{targets: {json.dumps(addresses)}}}]
remote_write:
  - url: {url}
    name: in_order
    queue_config:
      {{max_shards: 1, max_samples_per_send: 5, batch_send_deadline: 100ms, max_backoff: 200ms}}
  - url: {url}?by=instance&without=job
    name: in_shards
    queue_config: {{min_shards: 3, max_samples_per_send: 5, batch_send_deadline: 100ms}}
    write_relabel_configs:
      - {{source_labels: [__name__], regex: "scrape_number|m.*", action: keep}}
"""


def recorded(prometheus: Prometheus, address: str) -> list[tuple[float, float]]:
    """Return time and value of what Prometheus itself has."""
    query = f'scrape_number{{instance="{address}"}}[1h]'
    answer = httpx.get(f"{prometheus.url}/api/v1/query", params={"query": query}).json()
    result = answer["data"]["result"]
    return [(float(at), float(value)) for at, value in result[0]["values"]] if result else []


def numbers(service: Newnormal, name: str) -> list[float]:
    found = stored(service, name).get("scrape_number", [])
    return [each for each in found if each is not None]


CHANNELS = {
    "scrape_number",
    *(f"m{k}" for k in range(GAUGES)),
    'wait{quantile="0.5"}',  # it has no value yet
    "rate(work_total)",
    "rate(wait_sum)",
    "rate(wait_count)",
    "up",
    "scrape_duration_seconds",
    "scrape_samples_scraped",
    "scrape_samples_post_metric_relabeling",
    "scrape_series_added",
}


def test_samples_of_a_real_prometheus_are_there_once_when_either_is_killed(tmp_path: Path) -> None:
    service = Newnormal(tmp_path / "service", "")
    with targets(2) as made:
        addresses = [each.address for each in made]
        prometheus = Prometheus(tmp_path / "prometheus", config(addresses, service))
        with service, prometheus:
            one = f"plant/{addresses[0]}"
            until(lambda: len(numbers(service, one)) >= 6, "samples of Prometheus")
            _check_shards(service, addresses)

            service.kill()
            alone = len(recorded(prometheus, addresses[0]))
            until(
                lambda: len(recorded(prometheus, addresses[0])) >= alone + 8,
                "scrapes that the service misses",
            )
            service.start()
            _check_all(service, prometheus, addresses, since=0.0)
            for address in addresses:  # shards do not catch up at the same time
                last = recorded(prometheus, address)[-1][1]
                until(
                    lambda address=address, last=last: last in numbers(service, address),  # type: ignore[misc]
                    "all samples of the shards",
                )
                got = numbers(service, address)
                assert got == [float(got[0] + at) for at in range(len(got))], got
            _check_shards(service, addresses)

            prometheus.kill()
            killed = time.time()
            prometheus.start()
            restarted = time.time()
            until(
                lambda: (
                    len([t for t, _ in recorded(prometheus, addresses[0]) if t > restarted]) >= 4
                ),
                "scrapes after Prometheus was killed",
            )
            # What it had not sent when it was killed, it does not send.
            lost = _check_all(service, prometheus, addresses, since=restarted + 1)
            assert all(killed - 2.5 < each < restarted + 1 for each in lost), lost


def _check_shards(service: Newnormal, addresses: list[str]) -> None:
    """Check that a scrape that several shards send at once is one sample of all channels."""
    for name in addresses:
        until(lambda name=name: len(numbers(service, name)) >= 4, "samples of shards")  # type: ignore[misc]
        found = stored(service, name)
        assert set(found) == {"scrape_number", *(f"m{k}" for k in range(GAUGES))}
        rows = list(zip(*found.values(), strict=True))
        assert not [row for row in rows[1:] if None in row]


def _check_all(
    service: Newnormal, prometheus: Prometheus, addresses: list[str], since: float
) -> list[float]:
    """Check that the service has what Prometheus has; return the times of what is missing."""
    lost = []
    for address in addresses:
        expected = recorded(prometheus, address)
        name = f"plant/{address}"
        until(
            lambda name=name, last=expected[-1][1]: last in numbers(service, name),  # type: ignore[misc]
            "all samples of Prometheus",
        )
        found = stored(service, name)
        got = [each for each in found["scrape_number"] if each is not None]
        assert len(got) == len(set(got)) and got == sorted(got), got  # nothing is doubled
        missing = [(at, value) for at, value in expected if value not in got]
        # The first sample of a stream is taken before it is known that more of it comes.
        lost += [at for at, value in missing if value != expected[0][1]]
        assert set(found) == CHANNELS
        times = {value: at for at, value in expected}
        for number in range(GAUGES):  # the sample has all channels of its scrape
            columns = (found["scrape_number"], found[f"m{number}"], found["up"])
            rows = list(zip(*columns, strict=True))[1:]
            pairs = [(a, b) for a, b, up in rows if up != 0]  # else the scrape took too long
            cut = [each for each in pairs if None in each]  # when Prometheus was killed
            ends = [(b or 0) - number if a is None else a for a, b in cut]
            lost += [times[each] for each in ends if each in times]
            assert since or not cut, rows
            assert all(b == (a or 0) + number for a, b in pairs if (a, b) not in cut), pairs
        assert not [at for at in lost if at > since > 0], missing
        assert since or not lost, missing
        _check_rates(found, times)
    return lost


def _check_rates(found: dict[str, list[float | None]], times: dict[float, float]) -> None:
    """Check that rates are those of the counter's own values, and that few are missing."""
    pairs = list(zip(found["scrape_number"], found["rate(work_total)"], strict=True))
    known = [(number, rate) for number, rate in pairs if number is not None]
    for at, (number, rate) in enumerate(known):
        if rate is None or not at:
            continue
        # A value that Prometheus had not sent when it was killed is not known here.
        possible = [
            10 * (number - before) / (times[number] - times[before])
            for before, _ in known[max(0, at - 2) : at]
            if number in times and before in times
        ]
        assert not possible or pytest.approx(rate, rel=1e-5) in possible, (number, rate, possible)
    missing = [number for number, rate in known if rate is None]
    assert len(missing) <= 4, missing  # the first, the first after the service began, those cut


def test_the_configuration_of_the_guide_is_one_of_prometheus(tmp_path: Path) -> None:
    guide = Path(__file__).parents[2] / "docs" / "guides" / "remote-write.md"
    text = guide.read_text().partition("```yaml\n")[2].partition("```")[0]
    token = tmp_path / "newnormal.token"
    token.write_text("nn_write")
    config = tmp_path / "prometheus.yml"
    assert "/etc/prometheus/newnormal.token" in text
    config.write_text(text.replace("/etc/prometheus/newnormal.token", str(token)))
    command = [found("promtool"), "check", "config", str(config)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_fault_in_what_is_sent_is_an_alarm(tmp_path: Path) -> None:
    service = Newnormal(tmp_path, "[streams]\nhistory = 300\n")
    labels = {"job": "node", "instance": "db1:9100"}
    begin = time.time() - 420 * 15 - BEGIN / 1000

    def send(rows: list[tuple[int, float, float]]) -> None:
        load = [(begin + step * 15, value) for step, value, _ in rows]
        served = [(begin + step * 15, value) for step, _, value in rows]
        sent = body(("node_load1", labels, load), ("requests_total", labels, served))
        url = f"{service.url}/api/v1/write"
        assert httpx.post(url, content=sent, headers=HEADERS).status_code == 204

    check_fault_is_an_alarm(service, "node/db1:9100", send)
