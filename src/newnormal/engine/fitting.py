"""Fits of streams in other processes, so that they block nothing."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from newnormal.base import BaseDetector
from newnormal.errors import NewnormalError
from newnormal.fleet.fitting import Worker, as_job, died, failure, outcome_of
from newnormal.tabular import Table

_LOG = logging.getLogger("newnormal")


class FitJob(NamedTuple):
    """A fit to be made: of a stream by its number, which began at a position of the log.

    The detector has its options and is not fitted; the fitted model goes to `path`.
    """

    stream: int
    began: int
    detector: BaseDetector
    history: Table
    path: Path


class FitPool:
    """Processes that fit, one job each at a time.

    `done` is called with each job and its error, or None once its model is on the disk; from a
    thread of the pool.
    """

    def __init__(self, workers: int, done: Callable[[FitJob, NewnormalError | None], None]) -> None:
        self._done = done
        self._jobs: SimpleQueue[FitJob | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._workers: set[Worker] = set()
        self._stopping = False
        self.running = self.waiting = 0
        self._threads = [
            threading.Thread(target=self._work, name=f"newnormal-fit-{number}", daemon=True)
            for number in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    def add(self, job: FitJob) -> None:
        """Add a job."""
        with self._lock:
            self.waiting += 1
        self._jobs.put(job)

    def _work(self) -> None:
        worker: Worker | None = None
        while (job := self._jobs.get()) is not None and not self._stopping:
            with self._lock:
                self.waiting -= 1
                self.running += 1
            error: NewnormalError | None = None
            try:
                if worker is None:
                    worker = Worker()
                    with self._lock:
                        self._workers.add(worker)
                answer = worker.ask(as_job(job.detector, job.history))
                if answer is None:
                    error = died(worker.status())
                    self._end(worker)
                    worker = None
                else:
                    result = outcome_of(answer, job.detector).result
                    if isinstance(result, NewnormalError):
                        error = result
                    else:
                        result.save(job.path)
            except NewnormalError as raised:
                error = raised
            except Exception as raised:  # noqa: BLE001  (a thread that ends would fit no more)
                _LOG.exception("a fit of stream %d failed", job.stream)
                error = failure(raised)
            with self._lock:
                self.running -= 1
            if not self._stopping:
                self._done(job, error)
        if worker is not None:
            self._end(worker)

    def _end(self, worker: Worker) -> None:
        with self._lock:
            self._workers.discard(worker)
        worker.close()

    def close(self) -> None:
        """End all processes; fits under way are made again at the next start."""
        self._stopping = True
        for _ in self._threads:
            self._jobs.put(None)
        with self._lock:
            for worker in self._workers:
                worker.kill()
        for thread in self._threads:
            thread.join()
