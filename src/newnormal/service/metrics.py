"""The service and its streams as Prometheus measures them."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from newnormal.engine.values import COLLECTING, FAILED, FITTING, LIVE, StreamView
from newnormal.errors import MissingExtraError

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from newnormal.service.service import Service

MOST_STREAMS = 2_000  # that have measurements of their own; the others are counted
_DROPPED = {
    "late": "its step was closed",
    "duplicate": "all its values were there",
    "jumped": "far ahead, and not confirmed",
    "replaced": "from before the end of a history that was uploaded later",
}
_COUNTED = (*_DROPPED, "out_of_order")
_ATTENTION = ("alarm", "change", "silence", "channels", "failed")


def exposition(
    service: Service, *, most: int = MOST_STREAMS, clock: Callable[[], int] = time.time_ns
) -> tuple[bytes, str]:
    """Return all measurements as text, and its content type.

    At most `most` streams have measurements of their own: those that need attention first. How many
    are left out is a measurement, too.
    """
    try:
        from prometheus_client import CollectorRegistry
        from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
        from prometheus_client.registry import Collector
    except ImportError:
        raise MissingExtraError.of("serve", "prometheus_client") from None

    class Of(Collector):
        def collect(self) -> Iterable[Metric]:
            now = clock()
            yield from _of_service(service, now)
            yield from _of_streams(service.streams(), most, now)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Of())
    return generate_latest(registry), CONTENT_TYPE_LATEST


def _of_service(service: Service, now: int) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    health = service.health()
    views = service.streams()
    ready = float(service.ready and service.writable)
    yield GaugeMetricFamily("newnormal_ready", "Whether samples are taken.", ready)
    healthy = GaugeMetricFamily(
        "newnormal_healthy", "Whether a part of the service works.", labels=["part"]
    )
    for name, part in health.get("parts", {}).items():
        healthy.add_metric([str(name)], float(bool(part.get("ok", True))))
    yield healthy
    states = GaugeMetricFamily("newnormal_streams", "Streams by state.", labels=["state"])
    in_state = Counter(view.state for view in views)
    for state in (COLLECTING, FITTING, LIVE, FAILED):
        states.add_metric([state], in_state[state])
    yield states
    needing = GaugeMetricFamily(
        "newnormal_streams_attention", "Streams that need a person.", labels=["kind"]
    )
    needed = Counter(view.attention for view in views)
    for kind in _ATTENTION:
        needing.add_metric([kind], needed[kind])
    yield needing
    yield GaugeMetricFamily("newnormal_alarms_open", "Streams with an open alarm.", needed["alarm"])
    yield CounterMetricFamily(
        "newnormal_log_position", "Records of the log.", _number(health.get("position"))
    )
    for name, text, key in (
        ("newnormal_log_lag_entries", "Records that are logged and not applied.", "lag_entries"),
        ("newnormal_log_lag_seconds", "How far judging is behind the log.", "lag_s"),
        ("newnormal_samples_per_second", "Samples that are judged.", "samples_per_s"),
    ):
        yield GaugeMetricFamily(name, text, _number(health.get(key)))
    counts = service.removed_counts  # that no counter becomes less
    counts.update({name: sum(view.counts.get(name, 0) for view in views) for name in _COUNTED})
    reasons = ", ".join(f"{name} ({why})" for name, why in _DROPPED.items())
    dropped = CounterMetricFamily(
        "newnormal_samples_dropped", f"Samples that are not judged: {reasons}.", labels=["reason"]
    )
    for reason in _DROPPED:
        dropped.add_metric([reason], counts[reason])
    yield dropped
    yield CounterMetricFamily(
        "newnormal_samples_out_of_order",
        "Samples that came behind newer ones and were put in order.",
        counts["out_of_order"],
    )
    yield from _of_data(health)
    yield from _of_sinks(health, service.store.outbox.counts(), now)


def _of_data(health: Mapping[str, Any]) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    memory = health.get("memory") or {}
    for name, text, key in (
        ("newnormal_memory_bytes", "Memory that requests and names take.", "bytes"),
        ("newnormal_memory_limit_bytes", "Memory that they may take.", "limit"),
    ):
        taken = GaugeMetricFamily(name, text, labels=["what"])
        for what, part in memory.items():
            taken.add_metric([what], _number(part.get(key)))
        yield taken
    yield CounterMetricFamily(
        "newnormal_requests_refused",
        "Requests for which there was no memory.",
        _number(memory.get("requests", {}).get("refused")),
    )
    disk = GaugeMetricFamily("newnormal_disk_bytes", "Of the data folder's disk.", labels=["what"])
    for name, value in (health.get("disk") or {}).items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            disk.add_metric([str(name)], float(value))
    yield disk
    parts = health.get("parts", {})
    data = GaugeMetricFamily("newnormal_data_bytes", "Of files of the service.", labels=["what"])
    for name in ("log", "store"):
        data.add_metric([name], _number(parts.get(name, {}).get("bytes")))
    yield data
    fits = GaugeMetricFamily("newnormal_fits", "Fits of models.", labels=["state"])
    for state in ("running", "waiting"):
        fits.add_metric([state], _number(parts.get("fitting", {}).get(state)))
    yield fits


def _of_sinks(
    health: Mapping[str, Any], counts: Mapping[str, Mapping[str, Any]], now: int
) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    alerts = GaugeMetricFamily("newnormal_alerts", "Alerts by sink.", labels=["sink", "state"])
    oldest = GaugeMetricFamily(
        "newnormal_alerts_waiting_seconds", "Age of the oldest alert that waits.", labels=["sink"]
    )
    for sink, of_sink in counts.items():
        for state in ("waiting", "delivered", "failing", "held", "unsent"):
            alerts.add_metric([sink, state], _number(of_sink.get(state)))
        since = _number(of_sink.get("oldest"))
        oldest.add_metric([sink], max(0.0, (now - since) / 1e9) if since else 0.0)
    yield from (alerts, oldest)
    scores = CounterMetricFamily(
        "newnormal_scores", "Scores that were sent, refused or too old.", labels=["sink", "state"]
    )
    waiting = GaugeMetricFamily(
        "newnormal_scores_waiting", "Samples whose scores wait to be sent.", labels=["sink"]
    )
    for part, facts in health.get("parts", {}).items():
        if "sent" in facts:
            sink = str(part).removeprefix("sink ")
            for state in ("sent", "refused", "left_out"):
                scores.add_metric([sink, state], _number(facts.get(state)))
            waiting.add_metric([sink], _number(facts.get("waiting")))
    yield from (scores, waiting)


def _of_streams(views: Sequence[StreamView], most: int, now: int) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    shown = sorted(views, key=lambda view: (not view.attention, view.name))[:most]
    yield GaugeMetricFamily(
        "newnormal_streams_left_out",
        "Streams without measurements of their own, since there are too many.",
        len(views) - len(shown),
    )
    label = ["stream"]
    ratio = GaugeMetricFamily(
        "newnormal_score_ratio", "Score over threshold of the newest sample.", labels=label
    )
    distance = GaugeMetricFamily(
        "newnormal_distance", "Distance from the accepted normal; 1 is the limit.", labels=label
    )
    lag = GaugeMetricFamily("newnormal_lag_seconds", "Age of the newest sample.", labels=label)
    alarm = GaugeMetricFamily("newnormal_alarm", "Whether an alarm is open.", labels=label)
    state = GaugeMetricFamily(
        "newnormal_stream_state", "1 for the state that a stream is in.", labels=["stream", "state"]
    )
    samples = CounterMetricFamily("newnormal_samples", "Samples of a stream.", labels=label)
    alarms = CounterMetricFamily("newnormal_alarms", "Alarms of a stream.", labels=label)
    for view in shown:
        name = [view.name]
        if math.isfinite(view.ratio):
            ratio.add_metric(name, view.ratio)
        if math.isfinite(view.distance):
            distance.add_metric(name, view.distance)
        if view.newest is not None:
            lag.add_metric(name, (now - view.newest) / 1e9)
        alarm.add_metric(name, float(view.attention == "alarm"))
        state.add_metric([view.name, view.state], 1)
        samples.add_metric(name, view.samples)
        alarms.add_metric(name, view.counts.get("alarms", 0))
    yield from (ratio, distance, lag, alarm, state, samples, alarms)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
