"""A service in this process whose fits are made when a test says so."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newnormal.arrivals.arrival import Arrival
from newnormal.engine.fitting import FitJob
from newnormal.engine.log import entries as log
from newnormal.errors import InputError, NewnormalError
from newnormal.service import service as module
from newnormal.service.config import Retention, ServiceConfig, StreamDefaults
from newnormal.service.service import Service
from newnormal.types import Floats
from tests.present import present
from tests.waiting import until

SECOND = 10**9
DAY = 86_400 * SECOND
PERIOD = 60 * SECOND
START = 1_767_225_600 * SECOND
CHANNELS = ("a", "b")
HISTORY = 150


Start = Callable[..., AbstractContextManager[Service]]  # takes changes of the configuration


class HeldFits:
    """In the place of the processes that fit: holds all jobs until a test wants them done."""

    def __init__(self, workers: int, done: Callable[[FitJob, NewnormalError | None], None]) -> None:
        self._done = done
        self.jobs: list[FitJob] = []
        self.running = self.waiting = 0

    def add(self, job: FitJob) -> None:
        self.jobs.append(job)

    def fit(self) -> None:
        """Make the next fit."""
        job = until(lambda: self.jobs and self.jobs.pop(0), "a fit that has begun")
        assert isinstance(job, FitJob)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                job.detector.fit(job.history).save(job.path)
            except NewnormalError as error:
                self._done(job, error)
                return
        self._done(job, None)

    def fail(self, message: str, kind: type[NewnormalError] = InputError) -> None:
        """Let the next fit fail: by its history, or otherwise."""
        job = until(lambda: self.jobs and self.jobs.pop(0), "a fit that has begun")
        assert isinstance(job, FitJob)
        self._done(job, kind(message, hint="more of it"))

    def close(self) -> None:
        """End nothing."""


def config_of(folder: Path, **changes: Any) -> ServiceConfig:
    streams = StreamDefaults(**{"history": HISTORY, **changes.pop("streams", {})})
    kept = Retention(samples=36500 * DAY, log=DAY)
    given = {"data": folder / "data", "streams": streams, "retention": kept, **changes}
    return ServiceConfig(**given)


@contextmanager
def running(
    config: ServiceConfig, patch: pytest.MonkeyPatch, now: int | None = None
) -> Iterator[Service]:
    """Give a service that runs, with held fits, and stop it; its clock may stand still."""
    patch.setattr(module, "FitPool", HeldFits)
    service = Service(config) if now is None else Service(config, clock=lambda: now)
    service.start()
    try:
        yield service
    finally:
        service.stop()


def logged(service: Service, after: int = 0) -> list[log.SamplesArrived]:
    """Return the samples that were handed in, as the log has them, behind a position of it."""
    entries = [entry for _, record in service.log.read(after) for entry in log.unpack(record)]
    return [each for each in entries if isinstance(each, log.SamplesArrived) and each.arrivals]


def fits(service: Service) -> HeldFits:
    found: Any = service.fits
    assert isinstance(found, HeldFits)
    return found


def settle(service: Service) -> None:
    """Wait until all that was handed in is applied, and what follows from that has begun.

    An entry about a stream that is not there does nothing. A fit that is due is handed in behind
    the first one, and has begun behind the second.
    """
    for _ in range(3):
        service._engine.submit(log.Closed(0, 0), internal=True).applied.result()


def fit_next(service: Service) -> None:
    """Make the next fit, and wait until the stream has its model."""
    fits(service).fit()
    settle(service)


def samples(first: int, count: int, seed: int = 0, width: int = 2) -> Floats:
    """Return samples of a stream, the same whenever they are asked for."""
    at = np.arange(first, first + count)
    noise = np.random.default_rng(seed).normal(0, 0.1, (20_000, width))[first : first + count]
    found: Floats = np.sin(at[:, None] / 9 + np.arange(width)) + noise
    return found


def arrival(
    first: int, values: Floats, name: str = "m", channels: tuple[str, ...] | None = None
) -> Arrival:
    if channels is None:
        channels = tuple("abcdefgh"[: values.shape[1]])
    times = START + np.arange(first, first + len(values), dtype=np.int64) * PERIOD
    return Arrival(name, channels, times, values)


def push(service: Service, *arrivals: Arrival, history: bool = False) -> None:
    """Hand samples in, and wait until they are applied."""
    service.push(arrivals, history=history).result()
    settle(service)


def state(service: Service, name: str = "m") -> str:
    return present(service.stream_named(name)).state


def number(service: Service, name: str = "m") -> int:
    return present(service.stream_named(name)).id


def go_live(service: Service, *names: str, width: int = 2) -> None:
    """Bring streams to life with their histories."""
    for at, name in enumerate(names or ("m",)):
        push(service, arrival(0, samples(0, HISTORY, at, width), name))
        fits(service).fit()
    settle(service)
    assert all(state(service, name) == "live" for name in names or ("m",))
