"""OTLP with real programs: OpenTelemetry's SDK exports to the service, which is killed."""

import json
import logging
import math
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

from tests.connectors.programs import Newnormal
from tests.connectors.stories import check_fault_is_an_alarm, stored
from tests.waiting import until


class Program:
    """A program that measures itself with the SDK, and exports when it is told to."""

    def __init__(self, endpoint: str, compression: Compression) -> None:
        self.exporter = OTLPMetricExporter(endpoint, compression=compression, timeout=60)
        self.reader = PeriodicExportingMetricReader(self.exporter, math.inf)
        resource = Resource({"service.name": "shop", "host.name": "web1"})
        self.provider = MeterProvider([self.reader], resource=resource)
        meter = self.provider.get_meter("checkout")
        self.exports = 0
        self.hits = meter.create_counter("hits")
        self.open = meter.create_up_down_counter("open")
        self.wait = meter.create_histogram("wait", unit="s")
        meter.create_observable_gauge("exports", [self.observed])

    def observed(self, _: CallbackOptions) -> Iterable[Observation]:
        yield Observation(self.exports, {"kind": "all"})

    def export(self) -> bool:
        self.exports += 1
        self.hits.add(5, {"route": "/", "code": 200})
        self.open.add(1)
        self.wait.record(0.25)
        return self.provider.force_flush(60_000)


def test_the_sdk_exports_through_a_kill(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    service = Newnormal(tmp_path, "")
    with service:
        program = Program(f"{service.url}/v1/metrics", Compression.Gzip)
        try:
            for _ in range(5):
                assert program.export()
            service.kill()
            service.launch()  # and is not waited for: the SDK tries again
            for _ in range(3):
                assert program.export()
        finally:
            program.provider.shutdown()
        found = until(
            lambda: rows if len(rows := stored(service, "shop/web1").get(GAUGE, [])) == 8 else None,
            "samples of the SDK",
        )
        assert found == [1, 2, 3, 4, 5, 6, 7, 8]
        every = stored(service, "shop/web1")
        assert set(every) == {
            GAUGE,
            'rate(hits{code="200",route="/"})',
            "open",
            "rate(wait_count)",
            "rate(wait_sum)",
        }
        assert every["open"] == found
        counts, sums = every["rate(wait_count)"], every["rate(wait_sum)"]
        # The first one, and the first one after the service began anew, have no rate.
        assert [at for at, each in enumerate(counts) if each is None] == [0, 5]
        for a, b in zip(counts, sums, strict=True):
            assert a is None or (a > 0 and b == pytest.approx(0.25 * a, rel=0.01))

        caplog.clear()
        refused = Program(f"{service.url}/v1/metrics?nope=1", Compression.NoCompression)
        with caplog.at_level(logging.ERROR):
            refused.export()
            refused.provider.shutdown()
        assert "Failed to export metrics batch code: 400" in caplog.text


GAUGE = 'exports{kind="all"}'


def exported(moment: str, load: float, served: float) -> dict[str, Any]:
    """Return an export as the collector writes JSON."""
    metrics: list[dict[str, Any]] = [
        {"name": "load", "gauge": {"dataPoints": [{"timeUnixNano": moment, "asDouble": load}]}},
        {
            "name": "served",
            "sum": {
                "aggregationTemporality": 2,
                "isMonotonic": True,
                "dataPoints": [{"timeUnixNano": moment, "asInt": str(int(served))}],
            },
        },
    ]
    attributes = [{"key": "service.name", "value": {"stringValue": "shop"}}]
    return {"resource": {"attributes": attributes}, "scopeMetrics": [{"metrics": metrics}]}


def test_a_fault_in_what_is_sent_is_an_alarm(tmp_path: Path) -> None:
    service = Newnormal(tmp_path, "[streams]\nhistory = 300\n")
    begin = time.time() - 420 * 15

    def send(rows: list[tuple[int, float, float]]) -> None:
        every = [exported(str(round((begin + 15 * k) * 1e9)), *values) for k, *values in rows]
        body = json.dumps({"resourceMetrics": every})
        headers = {"Content-Type": "application/json"}
        answer = httpx.post(f"{service.url}/v1/metrics", content=body, headers=headers)
        assert (answer.status_code, answer.json()) == (200, {})

    assert "load" in check_fault_is_an_alarm(service, "shop", send)
