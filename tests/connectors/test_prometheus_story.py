"""A real Prometheus that scrapes generated hosts: from its history to an alarm, through kills."""

from __future__ import annotations

import json
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")

from newnormal.engine.log.sqlite_log import SqliteLog
from tests.connectors.programs import Alertmanager, Newnormal, Prometheus, found
from tests.connectors.stories import NO_FITS, logged, sample_count, source_health
from tests.connectors.targets import Targets, host_name, metric_name, open_metrics, scrape_config
from tests.http_server import Listener
from tests.service.killing import opened
from tests.waiting import until

if TYPE_CHECKING:
    from playwright.sync_api import Browser

EVERY = 0.2  # s
NS = 200_000_000
QUERY = '{job="machines",__name__=~"machine_metric_.*"}'
SOURCE = """
[sources.hosts]
kind = "prometheus"
url = "{url}"
by = ["instance"]
without = ["job"]
every = "200ms"
start = "{history}s"
delay = "{delay}s"
query = '{query}'
"""


def source(prometheus: Prometheus, history: int, delay: float) -> str:
    return SOURCE.format(url=prometheus.url, history=history, delay=delay, query=QUERY)


def with_history(folder: Path, targets: Targets, seconds: int) -> Prometheus:
    """Return a Prometheus that has so many seconds of history of all hosts."""
    prometheus = Prometheus(folder, scrape_config(targets.address, targets.hosts, "200ms"))
    last = int(time.time() / EVERY)
    times = [EVERY * each for each in range(last - round(seconds / EVERY), last)]
    lines = open_metrics(targets.hosts, targets.metrics, times)
    (folder / "history.txt").write_text("\n".join(lines) + "\n")
    command = [found("promtool"), "tsdb", "create-blocks-from", "openmetrics", "history.txt"]
    subprocess.run([*command, "data"], cwd=folder, check=True, capture_output=True)
    return prometheus


Values = dict[tuple[str, str, int], float]


def stored(folder: Path) -> tuple[Values, dict[str, int]]:
    """Return the values that a service has kept, by stream, channel and time; and its counts."""
    values: Values = {}
    counts: dict[str, int] = {}
    with closing(SqliteLog(folder / "log.sqlite")) as log, opened(folder, log, ()) as applier:
        for stream in applier.streams:
            rows = applier.store.samples.rows(stream.id, 0, stream.count - 1)
            assert (np.diff(rows.times) > 0).all()
            for at, channel in enumerate(rows.channels):
                there = ~np.isnan(rows.values[:, at])
                listed = zip(
                    rows.times[there].tolist(), rows.values[there, at].tolist(), strict=True
                )
                values |= {(stream.name, channel, moment): value for moment, value in listed}
            for name, count in stream.order.counts.items():
                counts[name] = counts.get(name, 0) + count
    return values, counts


def asked(prometheus: Prometheus, first: int, last: int) -> Values:
    """Return what Prometheus itself has at all times of the grid from one to another."""
    values: Values = {}
    for begin in range(first, last + 1, 10_000 * NS):
        end = min(begin + 9_999 * NS, last)
        answer = httpx.get(
            f"{prometheus.url}/api/v1/query_range",
            params={"query": QUERY, "start": begin / 1e9, "end": end / 1e9, "step": EVERY},
            timeout=60.0,
        )
        for each in answer.json()["data"]["result"]:
            labels = each["metric"]
            key = labels["instance"], labels["__name__"]
            values |= {(*key, round(at * 1000) * 10**6): float(v) for at, v in each["values"]}
    return values


def test_through_kills_of_both_the_store_has_what_prometheus_has_once(tmp_path: Path) -> None:
    with Targets(20, 3) as targets:
        prometheus = with_history(tmp_path / "prometheus", targets, 120)
        tables = source(prometheus, 120, 2.0)
        service = Newnormal(tmp_path / "service", f"{tables}\n{NO_FITS}")
        with prometheus, service, service.client() as client:
            until(lambda: sample_count(service) > 20 * 600, "the history")
            before = sample_count(service)
            until(lambda: sample_count(service) > before + 200, "live samples")
            prometheus.kill()
            until(lambda: not source_health(client, "hosts")["ok"], "the source to be down")
            assert "Connection refused" in source_health(client, "hosts")["message"]
            prometheus.start()
            until(lambda: source_health(client, "hosts")["ok"], "the source to be well")
            service.kill()
            service.start()
            until(lambda: sample_count(service) > before + 400, "samples after both were killed")
            prometheus.kill()
            service.kill()
            prometheus.start()
            service.start()
            mark = time.time_ns()
            until(lambda: newest(service) > mark, "samples after all kills")
            service.stop()
            values, counts = stored(tmp_path / "service" / "data")
            moments = sorted({moment for _, _, moment in values})
            expected = asked(prometheus, moments[0], moments[-1])
    assert values == expected
    assert len({stream for stream, _, _ in values}) == 20
    assert counts == {"late": 0, "duplicate": 0, "out_of_order": 0, "jumped": 0}
    entries = [each[1:4] for each in logged(tmp_path / "service" / "data")]
    assert len(entries) == len(set(entries))


def newest(service: Newnormal) -> int:
    """Return the newest time that all streams have, in ns."""
    with service.client() as client:
        return min(
            int(np.datetime64(each["newest"].removesuffix("Z"), "ns").astype(np.int64))
            for each in client.streams()
        )


FAULTY = host_name(1)


def test_from_history_to_an_alarm_on_the_page_and_in_alertmanager_and_resolved_after_it(
    tmp_path: Path, any_browser: Browser | None
) -> None:
    with Targets(3, 3) as targets, Listener() as pager:
        prometheus = with_history(tmp_path / "prometheus", targets, 150)
        alertmanager = Alertmanager(tmp_path / "alertmanager", to_pager(pager))
        tables = source(prometheus, 140, 0.3)
        tables += f'[sinks.oncall]\nkind = "alertmanager"\nurl = "{alertmanager.url}"\n'
        service = Newnormal(tmp_path / "service", f"{tables}\n[streams]\nhistory = 600\n")
        with prometheus, alertmanager:
            checked = service.check()
            assert "ok      source hosts: Prometheus 2." in checked.stdout, checked.stdout
            assert ": 9 series of 3 streams\n" in checked.stdout
            with service, service.client() as client:
                until(
                    lambda: all(each["state"] == "live" for each in three(client)), "live streams"
                )
                assert {each["name"] for each in three(client)} == {
                    host_name(each) for each in range(3)
                }
                assert client.stream(FAULTY)["channels"] == [metric_name(each) for each in range(3)]
                mark = time.time_ns()
                until(lambda: newest(service) > mark, "live samples")
                # Prometheus repeats the last value of the history until the first scrape.
                until(lambda: not list(client.items(open=True)), "quiet streams")
                targets.plant(FAULTY, {0: 6.0, 2: -6.0})
                (alarm,) = until(lambda: open_alarms(client), "an alarm")
                assert metric_name(0) in json.dumps(alarm) or metric_name(2) in json.dumps(alarm)
                (active,) = until(lambda: alerts(alertmanager, alarm), "it in Alertmanager")
                assert active["labels"]["stream"] == FAULTY
                until(lambda: paged(pager, alarm) == ["firing"], "the pager")
                if any_browser is not None:
                    page = any_browser.new_page()
                    page.goto(f"{service.url}/#/inbox")
                    page.locator(f"[data-item='{alarm['key']}']:has-text('{FAULTY}')").wait_for()
                    page.close()
                targets.plant(FAULTY, {})
                until(lambda: not client.item(alarm["key"])["open"], "the end of the alarm")
                until(lambda: paged(pager, alarm) == ["firing", "resolved"], "the pager again")
                assert alerts(alertmanager, alarm) == []
    if any_browser is None:
        pytest.skip("needs playwright and chromium")


def three(client: Any) -> list[dict[str, Any]]:
    found = list(client.streams())
    return found if len(found) == 3 else [{"state": "missing"}]


def to_pager(pager: Listener) -> str:
    return f"""
route: {{receiver: pager, group_by: [item], group_wait: 10ms, group_interval: 100ms}}
receivers: [{{name: pager, webhook_configs: [{{url: "{pager.url}/pager", send_resolved: true}}]}}]
"""


def open_alarms(client: Any) -> list[dict[str, Any]]:
    listed = client.items(kind="alarm", open=True)
    return [each for each in listed if each["stream_name"] == FAULTY]


def alerts(alertmanager: Alertmanager, alarm: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the alerts of an alarm that are active."""
    listed = httpx.get(f"{alertmanager.url}/api/v2/alerts", timeout=10.0).json()
    return [each for each in listed if each["labels"]["item"] == alarm["key"]]


def paged(pager: Listener, alarm: dict[str, Any]) -> list[str]:
    """Return what Alertmanager has told of an alarm."""
    return [
        alert["status"]
        for heard in pager.heard
        for alert in heard.json["alerts"]
        if alert["labels"]["item"] == alarm["key"]
    ]
