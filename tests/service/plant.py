"""A plant: a service with streams that are live by one small model, and what happened in them.

Its data folder is made once a process, and copied for each service. Streams 1 to 17 are live, 18
collects, 19 is being fitted, the fit of 20 failed.
"""

import atexit
import shutil
import tempfile
import warnings
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newnormal import Detector
from newnormal.arrivals.arrival import Arrival
from newnormal.engine.log import entries as log
from newnormal.engine.values import Item
from newnormal.service.config import Limits, ServiceConfig
from newnormal.service.service import Service
from newnormal.tabular import Table
from newnormal.types import Floats
from tests.present import present
from tests.service.running import DAY, SECOND, START, config_of, fits, push, running, settle

PERIOD = 10 * SECOND
HISTORY = 400
SAMPLES = 2_000  # of a live stream
CHANNELS = ("temperature", "pressure", "vibration")
STREAMS = 20
INCIDENT = (1, 2, 3, 4, 5)  # in alarm at the end, and reported as one incident
CLOSED = (3, 6, 9)  # had an alarm, together
PENDING = 11  # has a change that waits for a person
QUIET = 14
ALARMED = 17
COLLECTING, FITTING, FAILED = 18, 19, 20
ALARM = f"alarm-{ALARMED}-1-1"
END = START + (HISTORY + SAMPLES) * PERIOD  # what the clock of the service shows


def stream_name(number: int) -> str:
    return f"hall-{number % 3}/press-{number:02d}"


def values(number: int, first: int, count: int) -> Floats:
    """Return normal samples of a stream, by their numbers since `START`."""
    k, at = np.arange(len(CHANNELS)), np.arange(first, first + count)[:, None]
    noise = np.random.default_rng((number, first)).normal(0, 0.2, (count, len(k)))
    found: Floats = 10 * (k + 1) + 2 * np.sin(at / (9 + k)) + noise
    return found


def arrival(stream: str, first: int, rows: Floats) -> Arrival:
    times = START + np.arange(first, first + len(rows), dtype=np.int64) * PERIOD
    return Arrival(stream, CHANNELS, times, rows)


def feed(
    service: Service, number: int, count: int, *, fault: float = 0.0, channels: slice = slice(1)
) -> None:
    """Push the next samples of a live stream."""
    view = present(service.stream(number))
    first = HISTORY + view.samples
    rows = values(number, first, count)
    rows[:, channels] += fault
    push(service, arrival(view.name, first, rows))


def items(service: Service, number: int, kind: str = "alarm") -> list[Item]:
    """Return what a stream has had of a kind, the newest first."""
    return list(service.store.items.page(stream=number, kinds=[kind], limit=500).items)


def open_alarm(service: Service, number: int = QUIET, count: int = 1) -> Item:
    """Let an alarm open in a live stream, and go on for so many samples."""
    feed(service, number, count, fault=9.0)
    (alarm,) = (item for item in items(service, number) if item.open)
    return alarm


def close_alarm(service: Service, number: int = QUIET) -> Item:
    """Let the open alarm of a stream end by itself."""
    feed(service, number, 60)
    alarm = items(service, number)[0]
    assert not alarm.open
    return alarm


def open_change(service: Service, number: int = QUIET) -> Item:
    """Let an alarm go on until a change begins with it."""
    open_alarm(service, number, 160)
    (change,) = items(service, number, "change")
    return change


def rewrite(service: Service, *made: Item) -> None:
    """Put items into the store as they are, without an event."""
    for each in made:
        service.store.items.put(each)
    service.store.commit()


def item(service: Service, key: str) -> Item:
    return present(service.store.items.get(key))


@cache
def _model() -> bytes:
    times = START + np.arange(HISTORY) * PERIOD
    table = Table(values(0, 0, HISTORY), CHANNELS, times.view("datetime64[ns]"))
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        detector = Detector(epochs=1, alarms_per_day=1.0, accept_after="never")
        detector.fit(table).save(Path(folder, "model.nn"))
        return Path(folder, "model.nn").read_bytes()


def put(service: Service, stream: str) -> None:
    """Make a stream of this name live."""
    entry = log.ModelPut(stream, b64encode(_model()).decode(), START)
    service._engine.submit(entry, internal=True).applied.result()


def _story(number: int) -> Floats:
    rows = values(number, HISTORY, SAMPLES)
    if number in CLOSED:
        rows[900:920, 0] += 8.0
    if number in INCIDENT:
        rows[-4:, 1] -= 7.0
    if number == PENDING:
        rows[300:, 2] += 4.0
    if number == ALARMED:
        rows[-40:, 0] += 9.0
    return rows


@cache
def _folder() -> Path:
    """Return a folder whose data are those of a plant."""
    folder = Path(tempfile.mkdtemp(prefix="newnormal-plant-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with pytest.MonkeyPatch.context() as patch, running(_config(folder), patch, END) as service:
        names = [stream_name(number) for number in range(STREAMS + 1)]
        for number in range(1, COLLECTING):
            put(service, names[number])
        live = [arrival(names[each], HISTORY, _story(each)) for each in range(1, COLLECTING)]
        service.push(live, source="plant").result()
        push(service, arrival(names[COLLECTING], 0, values(0, 0, 100)))
        push(service, arrival(names[FITTING], 0, values(0, 0, HISTORY + 1)))
        fits(service).jobs.clear()
        push(service, arrival(names[FAILED], 0, np.ones((HISTORY + 1, len(CHANNELS)))))
        fits(service).fail("expected 2 channels that vary, found none")
        settle(service)
    return folder


def _config(folder: Path, **changes: Any) -> ServiceConfig:
    limits = Limits(
        **{"requests_per_second": 1e6, "max_future": 365 * DAY, **changes.pop("limits", {})}
    )
    streams = {"history": HISTORY, "accept_after": "never", **changes.pop("streams", {})}
    return config_of(folder, limits=limits, streams=streams, **changes)


@contextmanager
def plant(*, empty: bool = False, now: int | None = END, **changes: Any) -> Iterator[Service]:
    """Give a service that runs, with the streams of the plant, or without any.

    Its clock stands still, unless `now` is None.
    """
    with (
        tempfile.TemporaryDirectory(prefix="newnormal-plant-") as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        if not empty:
            shutil.copytree(_folder() / "data", Path(folder, "data"))
        with running(_config(Path(folder), **changes), patch, now) as service:
            settle(service)
            yield service
