"""Processes that fit streams, each with one thread."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from newnormal.base import BaseDetector
from newnormal.errors import NewnormalError
from newnormal.fleet.jobs import Outcome, as_job, failure, fit_here, outcome_of
from newnormal.fleet.messages import Message, receive, send
from newnormal.tabular import Table

_PROGRAM = "from newnormal.fleet.worker import main; main()"
_ENDING_S = 10.0  # for a process whose output has ended to end itself
_ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL", "NUMBA")}


class FitTasks:
    """Detectors and histories by name; histories are read one at a time, when they are due."""

    def __init__(
        self, detectors: Mapping[str, BaseDetector], histories: Mapping[str, Table]
    ) -> None:
        self.detectors = detectors
        self._histories = histories
        self._reading = threading.Lock()

    def history(self, name: str) -> Table | NewnormalError:
        """Return a history, or the error that reading it raised."""
        try:
            with self._reading:
                return self._histories[name]
        except NewnormalError as error:
            return error
        except Exception as error:  # noqa: BLE001  (of a user's mapping; the other streams go on)
            return failure(error)

    def fit_here(self, name: str) -> Outcome:
        """Fit a stream in this process."""
        history = self.history(name)
        if isinstance(history, NewnormalError):
            return Outcome(history)
        return fit_here(self.detectors[name], history)


class Pool:
    """Processes that fit streams.

    Each is a new Python that imports newnormal and not the user's main module, so that scripts
    need no guard and notebooks work. They end with `close`, and when this process does.

    Parameters
    ----------
    count
        How many processes.
    streams
        What there is to fit.
    names
        The names of what is to be fitted; taken out by the processes, and by others as they like.

    Attributes
    ----------
    results
        Each name that a process took with its outcome, in the order in which they finish.
    """

    def __init__(self, count: int, streams: FitTasks, names: deque[str]) -> None:
        self.results: SimpleQueue[tuple[str, Outcome]] = SimpleQueue()
        self._streams, self._names = streams, names
        self._running: set[Worker] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._threads = [
            threading.Thread(target=self._fit_all, name=f"newnormal-fit-{at}", daemon=True)
            for at in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def _fit_all(self) -> None:
        """Fit streams in one process until none is left."""
        worker: Worker | None = None
        while not self._closed:
            try:
                name = self._names.popleft()
            except IndexError:
                break
            try:
                worker = self._started() if worker is None else worker
                outcome = self._fit(worker, name)
                if outcome is None:
                    outcome = Outcome(died(worker.status()))
                    self._end(worker)
                    worker = None
            except Exception as error:  # noqa: BLE001  (a thread that ended would be waited for)
                outcome = Outcome(failure(error))
            self.results.put((name, outcome))
        if worker is not None:
            self._end(worker)

    def _fit(self, worker: Worker, name: str) -> Outcome | None:
        """Return the outcome of a stream; None where the process ended before it had one."""
        history = self._streams.history(name)
        if isinstance(history, NewnormalError):
            return Outcome(history)
        detector = self._streams.detectors[name]
        answer = worker.ask(as_job(detector, history))
        return None if answer is None else outcome_of(answer, detector)

    def _started(self) -> Worker:
        with self._lock:
            if self._closed:
                raise NewnormalError("expected an open pool, found one that is closed")
            worker = Worker()
            self._running.add(worker)
        return worker

    def _end(self, worker: Worker) -> None:
        with self._lock:
            self._running.discard(worker)
        worker.close()

    def close(self) -> None:
        """End all processes, also those in the middle of a fit."""
        with self._lock:
            self._closed = True
            for worker in self._running:
                worker.kill()
        for thread in self._threads:
            thread.join()


class Worker:
    """One process and the pipes to it."""

    def __init__(self) -> None:
        # An interrupt at the keyboard goes to this process alone, which then ends the others.
        own: dict[str, Any] = {"process_group": 0} if os.name == "posix" else {}
        self._process = subprocess.Popen(  # noqa: S603  (this Python, with a program of our own)
            [sys.executable, "-P", "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | _ONE_THREAD | {"PYTHONPATH": _search_path()},
            **own,
        )

    def ask(self, job: Message) -> Message | None:
        """Return the answer to a job; None where the process ended before it gave one."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            send(self._process.stdin, job)
            return receive(self._process.stdout)
        except (OSError, ValueError):  # the pipe is broken, or closed
            return None

    def status(self) -> int:
        """Return how the process ended, once its output has ended."""
        try:
            return self._process.wait(_ENDING_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._process.wait()

    def kill(self) -> None:
        """End the process, from any thread: the one that waits for its answer gets none."""
        self._process.kill()

    def close(self) -> None:
        """End the process and close the pipes to it, from the thread that uses it."""
        self.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()


def _search_path() -> str:
    """Return where this process finds modules, for one that is to find the same."""
    return os.pathsep.join(each or os.getcwd() for each in sys.path)


def died(status: int) -> NewnormalError:
    """Return the error of a stream whose process ended; a signal is a negative status."""
    how = f"with status {status}"
    if status < 0:
        try:
            how = f"by {signal.Signals(-status).name}"
        except ValueError:
            how = f"by signal {-status}"
    return NewnormalError(
        f"expected this stream to be fitted, found that its process ended {how}",
        hint="memory may have run out: pass fewer workers, or less history",
    )
