"""The service and its streams as Prometheus measures them."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from newnormal.engine.values import COLLECTING, FAILED, FITTING, LIVE, StreamView
from newnormal.errors import extra

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
    with extra("serve", "prometheus_client"):
        from prometheus_client import CollectorRegistry
        from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
        from prometheus_client.registry import Collector

    class Of(Collector):
        def collect(self) -> Iterable[Metric]:
            now, health, views = clock(), service.health(), service.streams()
            yield from _of_service(service, health, views)
            yield from _of_data(health)
            yield from _of_sinks(health, service.store.outbox.counts(), now)
            yield from _of_streams(views, most, now)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Of())
    return generate_latest(registry), CONTENT_TYPE_LATEST


def _family(counts: bool, name: str, text: str, values: Any, *labels: str) -> Metric:
    """Return a measurement: a number without labels, else numbers by the values of the labels."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    kind = CounterMetricFamily if counts else GaugeMetricFamily
    if not labels:
        return kind(f"newnormal_{name}", text, values)
    family = kind(f"newnormal_{name}", text, labels=labels)
    for key, value in values.items():
        family.add_metric([key] if isinstance(key, str) else key, value)
    return family


_gauge, _counter = partial(_family, False), partial(_family, True)


def _of_service(
    service: Service, health: Mapping[str, Any], views: Sequence[StreamView]
) -> Iterator[Metric]:
    parts = health.get("parts", {}).items()
    healthy = {str(name): float(bool(part.get("ok", True))) for name, part in parts}
    in_state, needed = (Counter(map(attrgetter(name), views)) for name in ("state", "attention"))
    states = {state: in_state[state] for state in (COLLECTING, FITTING, LIVE, FAILED)}
    yield _gauge("ready", "Whether samples are taken.", float(service.ready and service.writable))
    yield _gauge("healthy", "Whether a part of the service works.", healthy, "part")
    yield _gauge("streams", "Streams by state.", states, "state")
    attention = {kind: needed[kind] for kind in _ATTENTION}
    yield _gauge("streams_attention", "Streams that need a person.", attention, "kind")
    yield _gauge("alarms_open", "Streams with an open alarm.", needed["alarm"])
    yield _counter("log_position", "Records of the log.", _number(health.get("position")))
    for name, text, key in (
        ("log_lag_entries", "Records that are logged and not applied.", "lag_entries"),
        ("log_lag_seconds", "How far judging is behind the log.", "lag_s"),
        ("samples_per_second", "Samples that are judged.", "samples_per_s"),
    ):
        yield _gauge(name, text, _number(health.get(key)))
    counts = service.removed_counts  # that no counter becomes less
    counts.update({name: sum(view.counts.get(name, 0) for view in views) for name in _COUNTED})
    reasons = ", ".join(f"{name} ({why})" for name, why in _DROPPED.items())
    dropped = {reason: counts[reason] for reason in _DROPPED}
    yield _counter("samples_dropped", f"Samples that are not judged: {reasons}.", dropped, "reason")
    text = "Samples that came behind newer ones and were put in order."
    yield _counter("samples_out_of_order", text, counts["out_of_order"])


def _of_data(health: Mapping[str, Any]) -> Iterator[Metric]:
    memory, parts = health.get("memory") or {}, health.get("parts", {})
    for name, text, key in (
        ("memory_bytes", "Memory that requests and names take.", "bytes"),
        ("memory_limit_bytes", "Memory that they may take.", "limit"),
    ):
        yield _gauge(name, text, {w: _number(part.get(key)) for w, part in memory.items()}, "what")
    refused = _number(memory.get("requests", {}).get("refused"))
    yield _counter("requests_refused", "Requests for which there was no memory.", refused)
    disk = {
        str(name): float(value)
        for name, value in (health.get("disk") or {}).items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    yield _gauge("disk_bytes", "Of the data folder's disk.", disk, "what")
    files = {name: _number(parts.get(name, {}).get("bytes")) for name in ("log", "store")}
    yield _gauge("data_bytes", "Of files of the service.", files, "what")
    fits = {state: _number(parts.get("fitting", {}).get(state)) for state in ("running", "waiting")}
    yield _gauge("fits", "Fits of models.", fits, "state")


def _of_sinks(
    health: Mapping[str, Any], counts: Mapping[str, Mapping[str, Any]], now: int
) -> Iterator[Metric]:
    alerts = {
        (sink, state): _number(of_sink.get(state))
        for sink, of_sink in counts.items()
        for state in ("waiting", "delivered", "failing", "held", "unsent")
    }
    oldest = {sink: _number(of_sink.get("oldest")) for sink, of_sink in counts.items()}
    ages = {sink: max(0.0, (now - since) / 1e9) if since else 0.0 for sink, since in oldest.items()}
    yield _gauge("alerts", "Alerts by sink.", alerts, "sink", "state")
    yield _gauge("alerts_waiting_seconds", "Age of the oldest alert that waits.", ages, "sink")
    sending = {
        str(part).removeprefix("sink "): facts
        for part, facts in health.get("parts", {}).items()
        if "sent" in facts
    }
    scores = {
        (sink, state): _number(facts.get(state))
        for sink, facts in sending.items()
        for state in ("sent", "refused", "left_out")
    }
    waiting = {sink: _number(facts.get("waiting")) for sink, facts in sending.items()}
    text = "Scores that were sent, refused or too old."
    yield _counter("scores", text, scores, "sink", "state")
    yield _gauge("scores_waiting", "Samples whose scores wait to be sent.", waiting, "sink")


def _of_streams(views: Sequence[StreamView], most: int, now: int) -> Iterator[Metric]:
    shown = sorted(views, key=lambda view: (not view.attention, view.name))[:most]
    text = "Streams without measurements of their own, since there are too many."
    yield _gauge("streams_left_out", text, len(views) - len(shown))
    ratios, distances = (
        {view.name: value for view in shown if math.isfinite(value := getattr(view, name))}
        for name in ("ratio", "distance")
    )
    lags = {view.name: (now - view.newest) / 1e9 for view in shown if view.newest is not None}
    in_alarm = {view.name: float(view.attention == "alarm") for view in shown}
    states = {(view.name, view.state): 1 for view in shown}
    samples = {view.name: view.samples for view in shown}
    alarms = {view.name: view.counts.get("alarms", 0) for view in shown}
    for name, text, values in (
        ("score_ratio", "Score over threshold of the newest sample.", ratios),
        ("distance", "Distance from the accepted normal; 1 is the limit.", distances),
        ("lag_seconds", "Age of the newest sample.", lags),
        ("alarm", "Whether an alarm is open.", in_alarm),
    ):
        yield _gauge(name, text, values, "stream")
    text = "1 for the state that a stream is in."
    yield _gauge("stream_state", text, states, "stream", "state")
    yield _counter("samples", "Samples of a stream.", samples, "stream")
    yield _counter("alarms", "Alarms of a stream.", alarms, "stream")


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
