"""`kill -9` at any moment: nothing acknowledged is lost, nothing differs, each alert comes once."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from newnormal.arrivals.arrival import Arrival
from newnormal.engine.log.sqlite_log import SqliteLog
from tests.service.killing import assert_same, contents, opened, replayed
from tests.service.receiver import Receiver
from tests.waiting import until

pytest.importorskip("fastapi", reason="needs the extra serve")

from benchmarks.service_folder import prepare
from tests.connectors.programs import Newnormal
from tests.service.serving import (
    CHANNELS,
    START,
    Machine,
    Person,
    sample_values,
    serving,
    stream_name,
)

STREAMS, MANY = 6, 1_000  # those of `make soak` are live from the beginning
HISTORY = 290  # a fault of every stream comes soon


def history(stream: int) -> Arrival:
    times = (START + np.arange(HISTORY)) * 10**9
    return Arrival(stream_name(stream), CHANNELS, times, sample_values(stream, 0, HISTORY))


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as found:
        yield found


def is_settled(service: Newnormal) -> bool:
    """Whether all that was acknowledged is judged, no fit waits, and all alerts are delivered."""
    health = httpx.get(f"{service.url}/api/v1/health", timeout=10.0).json()
    alerts = httpx.get(f"{service.url}/api/v1/alerts", timeout=10.0).json()
    waiting = sum(each["waiting"] for each in alerts["sinks"].values())
    fitting = health["parts"]["fitting"]
    return (
        health["lag_entries"] == 0
        and not waiting
        and fitting["running"] + fitting["waiting"] == 0
        and set(health["streams"]) == {"live"}
    )


def check_samples(found: dict[str, Any], folder: Path, machines: list[Machine]) -> int:
    """Check that every acknowledged sample is there with its values; return how many."""
    total = 0
    with closing(SqliteLog(folder / "log.sqlite")) as log, opened(folder, log) as applier:
        for machine in machines:
            for stream, acknowledged in machine.acknowledged.items():
                if not acknowledged:
                    continue
                kept = applier.streams.named(stream_name(stream))
                assert kept is not None
                rows = applier.store.samples.rows(kept.id, 0, kept.count - 1)
                times = rows.times // 10**9 - START
                np.testing.assert_array_equal(times, np.arange(len(times)))
                assert len(times) >= acknowledged
                for first, size in machine.sent[stream]:
                    np.testing.assert_array_equal(
                        rows.values[first : first + size], sample_values(stream, first, size)
                    )
                total += acknowledged
        assert_same(contents(applier), found)  # to recover twice changes nothing
    return total


@pytest.mark.cases(4, 200)
def test_after_kills_under_load_nothing_is_lost_and_nothing_differs(
    tmp_path: Path,
    receiver: Receiver,
    cases: range,
    record_property: Callable[[str, object], None],
) -> None:
    rng = np.random.default_rng(cases.start)
    service = serving(tmp_path, receiver.url)
    data = service.folder / "data"
    many = "NEWNORMAL_SOAK" in os.environ
    streams, begun = (MANY, prepare(data, MANY, history)) if many else (STREAMS, 0)
    parts = (range(at, streams, 3) for at in range(3))
    machines = [Machine(service.url, part, 0.02, begun) for part in parts]
    person = Person(service.url, streams)
    try:
        service.launch()
        service.wait_until_ready()
        users: list[Machine | Person] = [*machines, person]
        for each in users:
            each.start()
        for _ in cases:
            if rng.random() < 0.7:
                service.wait_until_ready()
            person.join(rng.uniform(0.0, 3.0))  # it goes on: this is time that passes
            service.kill()
            service.launch()
        service.wait_until_ready()
        enough = begun or 400
        until(lambda: min(min(m.acknowledged.values()) for m in machines) >= enough, "samples")
        for each in users:
            each.end()
        until(lambda: is_settled(service), "all alerts to be delivered", seconds=120.0)
    finally:
        service.kill()
    assert "Traceback" not in service.output, service.output

    copied = tmp_path / "copy"
    shutil.copytree(data, copied)
    with closing(SqliteLog(data / "log.sqlite")) as log, opened(data, log) as kept:
        found = contents(kept)
    again = tmp_path / "again"
    again.mkdir()
    assert_same(found, replayed(data / "log.sqlite", data / "models", again))
    total = check_samples(found, copied, machines)

    keys = {key for key, _ in found["alerts"]}
    assert keys and sorted(receiver.seen) == sorted(keys)
    bodies: dict[str, Any] = {}
    for request in receiver.requests:
        if request.method == "POST":  # sent again, it says the same
            assert bodies.setdefault(request.key, request.json) == request.json
    assert {key: body for (key, _), body in found["alerts"].items()} == bodies
    assert person.decided
    models = sum(len(each["models"]) for each in found["streams"].values())
    told = f"{len(cases)} kills, {total:,} samples, {len(keys)} alerts, {models} models"
    record_property("found", f"{streams:,} streams: {told}")
