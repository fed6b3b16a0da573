"""Scores in a real Prometheus: what it takes, and that no one is lost when a program is killed."""

import math
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from newnormal.io.sinks.alerts import SinkDownError
from newnormal.io.sinks.remote_write import RemoteWriteSink
from newnormal.service.store import Store
from newnormal.testing import check_score_sink
from tests.connectors.feeding import Plant
from tests.connectors.programs import Newnormal, Prometheus, free_port
from tests.http_server import Listener
from tests.waiting import until

pytest.importorskip("cramjam")
pytest.importorskip("google.protobuf")

CONFIG = "global: {scrape_interval: 15s}\n"
RECEIVES = "--web.enable-remote-write-receiver"


def samples_of(prometheus: Prometheus, name: str) -> dict[str, dict[int, float]]:
    """Return what Prometheus has of the last minutes: by stream, values by times in ms."""
    answer = httpx.get(f"{prometheus.url}/api/v1/query", params={"query": f"{name}[30m]"})
    found: dict[str, Any] = answer.raise_for_status().json()["data"]
    return {
        each["metric"]["stream"]: {
            round(float(at) * 1000): float(value) for at, value in each["values"]
        }
        for each in found["result"]
    }


def test_prometheus_takes_scores_and_refuses_in_words(tmp_path: Path) -> None:
    with Prometheus(tmp_path, CONFIG, RECEIVES) as prometheus:
        write = {"url": f"{prometheus.url}/api/v1/write"}

        def received() -> list[tuple[str, int]]:
            found = samples_of(prometheus, "newnormal_sample_ratio")
            return [(stream, at * 10**6) for stream, own in found.items() for at in own]

        check_score_sink(
            lambda: RemoteWriteSink("prom", write),
            received=received,
            down=lambda: RemoteWriteSink("prom", {"url": f"http://127.0.0.1:{free_port()}/"}),
        )
        ratios = samples_of(prometheus, "newnormal_sample_ratio")
        alarms = samples_of(prometheus, "newnormal_sample_alarm")
        assert sorted(ratios) == ["oven/3 <b>", "press-1", "press-2", 'température "1"/\\']
        assert list(ratios["press-1"].values()) == [0.5, 0.25, 0.5, 3.5, 0.5, math.inf]
        assert list(alarms["press-1"].values()) == [0.0, 0.0, 0.0, 1.0, 0.0, 1.0]


def test_a_prometheus_that_takes_no_remote_write_is_named_with_what_to_do(tmp_path: Path) -> None:
    with Prometheus(tmp_path, CONFIG) as prometheus:
        sink = RemoteWriteSink("prom", {"url": f"{prometheus.url}/api/v1/write"})
        with pytest.raises(SinkDownError) as caught:
            sink.check()
        sink.close()
        assert f"127.0.0.1:{prometheus.port}: expected a status 2xx, found 404" in str(caught.value)
        assert "--web.enable-remote-write-receiver" in (caught.value.hint or "")


def test_no_score_is_lost_when_prometheus_or_the_service_is_killed(tmp_path: Path) -> None:
    with (
        Listener() as chat,
        Prometheus(tmp_path / "prometheus", CONFIG, RECEIVES) as prometheus,
        Newnormal(
            tmp_path / "newnormal",
            f"""
[streams]
history = 150
period = "200ms"
lateness = "200ms"

[sinks.prom]
kind = "remote_write"
url = "{prometheus.url}/api/v1/write"
every = 0.1
labels = {{site = "north"}}

[sinks.chat]
kind = "webhook"
url = "{chat.url}"
""",
        ) as service,
    ):
        checked = service.check()
        assert checked.returncode == 0, checked.stdout
        assert (
            f"ok      sink prom: 127.0.0.1:{prometheus.port} takes remote write (status 204)"
            in checked.stdout
        )
        plant = Plant(service.url)

        def ratios() -> dict[str, dict[int, float]]:
            return samples_of(prometheus, "newnormal_sample_ratio")

        def sink() -> dict[str, Any]:
            health = httpx.get(f"{service.url}/api/v1/health", timeout=10.0).json()
            found: dict[str, Any] = health["parts"]["sink prom"]
            return found

        def fed(condition: Any, what: str) -> None:
            until(lambda: plant.feed() and condition(), what)

        fed(lambda: len(ratios()) == 2 and len(ratios()["oven"]) > 20, "scores in Prometheus")
        prometheus.kill()
        fed(lambda: not sink()["ok"], "health to report it")
        plant.fault, before = 30.0, len(chat.heard)  # an alert does not wait for Prometheus
        fed(
            lambda: any(each.json["stream"] == "press/1" for each in chat.heard[before:]),
            "an alert",
        )
        assert sink()["waiting"] > 0
        prometheus.start()
        fed(lambda: sink()["ok"], "the sink to be well again")
        service.kill()
        service.launch()
        service.wait_until_ready()
        fed(lambda: sink()["sent"] > 20, "more scores")
        until(lambda: sink()["waiting"] == 0, "all scores to be sent")
        counts = sink()
        service.stop()
        assert counts["left_out"] == 0
        store = Store(tmp_path / "newnormal" / "data" / "store.sqlite")
        alarms = samples_of(prometheus, "newnormal_sample_alarm")
        for number, (stream, found) in enumerate(
            sorted(ratios().items(), key=lambda each: each[0] == "oven"), 1
        ):
            rows = store.samples.rows(number, 0, store.samples.count(number) - 1)
            times, expected = rows.times // 10**6, rows.ratios
            sent = (times >= min(found)) & ~np.isnan(expected)
            assert len(found) > 60
            assert found == pytest.approx(
                dict(zip(times[sent].tolist(), expected[sent].tolist(), strict=True))
            )
            assert list(alarms[stream]) == list(found)
            assert (max(alarms[stream].values()) == 1.0) == (stream == "press/1")
        store.close()
        names = '{site="north",__name__=~"newnormal_sample_ratio|newnormal_channel_low"}'
        labels = httpx.get(f"{prometheus.url}/api/v1/query", params={"query": names})
        assert len(labels.json()["data"]["result"]) == 4  # of each stream, and of its channel
