"""Threads that do a step again and again, waits after failures, and calls of a sink that hang."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Protocol, TypeVar

from newnormal.engine.running import Report
from newnormal.errors import NewnormalError
from newnormal.io.sinks.alerts import AlertSink, SinkDownError
from newnormal.io.sinks.scores import ScoreSink
from newnormal.service.config import SinkConfig, SourceConfig

_STEPS = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)  # s to wait after so many failures
_LONGEST_STOP = 5.0  # s
_LONGEST_WAIT = 1.0  # s: a clock that is set forward shortens waits


def backoff(failures: int) -> float:
    """Return how long to wait after so many failures in a row, in s.

    >>> [backoff(failures) for failures in (1, 2, 3, 100)]
    [1.0, 2.0, 5.0, 300.0]
    """
    return _STEPS[min(failures, len(_STEPS)) - 1]


def one_line(error: Exception) -> str:
    """Return an error in one line, for health and outbox.

    >>> one_line(NewnormalError("expected 2, found 1", hint="add one")), one_line(OSError("gone"))
    ('expected 2, found 1 (add one)', 'OSError: gone')
    """
    if isinstance(error, NewnormalError):
        return error.message if error.hint is None else f"{error.message} ({error.hint})"
    return f"{type(error).__name__}: {error}"


class Loop:
    """A thread that calls a function again and again.

    `name`: of the thread. `step`: called in the thread; returns how long to wait in s, or None to
    end. `end`: called in the thread at the end. `longest`: the most s that it waits, whatever the
    step returns.
    """

    def __init__(
        self,
        name: str,
        step: Callable[[], float | None],
        end: Callable[[], None],
        *,
        longest: float = _LONGEST_WAIT,
    ) -> None:
        self._step, self._end, self._longest = step, end, longest
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._wake.clear()
                wait = self._step()
                if wait is None:
                    return
                if wait > 0:
                    self._wake.wait(min(wait, self._longest))
        finally:
            self._end()

    def wake(self) -> None:
        """Do the next step now."""
        self._wake.set()

    def stop(self) -> None:
        """Ask the thread to end after this step."""
        self._stopping.set()
        self._wake.set()

    def join(self, timeout: float) -> None:
        """Wait for its end."""
        if self._thread.ident is not None:
            self._thread.join(timeout)


class ConnectionWorker(Protocol):
    """A sink or a source, as the steps of its thread."""

    def step(self) -> float | None:
        """Do some work; return how long to wait in s, or None at the end."""

    def state(self) -> dict[str, Any]:
        """Return how it is."""

    def stop(self) -> None:
        """Do no more; from any thread."""

    def close(self) -> None:
        """Close the connection; in its thread, at the end."""


Config = TypeVar("Config", SinkConfig, SourceConfig)
W = TypeVar("W", bound=ConnectionWorker)


class ConnectionThreads(Generic[Config, W]):
    """A thread for each sink or source of the configuration, so that none slows another.

    `word`: what one is called in reports: ``"sink"`` or ``"source"``. `report`: called with
    ``"{word} NAME"``, whether it is well, and a message. `longest`: the most s that a thread waits.
    """

    def __init__(self, word: str, report: Report, *, longest: float = _LONGEST_WAIT) -> None:
        self._word, self._report, self._longest = word, report, longest
        self._running: dict[str, tuple[Config, W, Loop]] = {}

    def start(self, configs: Iterable[Config], make: Callable[[Config], W]) -> None:
        """Have these work from now on, and no others."""
        configs = list(configs)
        removed = set(self._running) - {config.name for config in configs}
        self.stop()
        for name in removed:
            self._report(f"{self._word} {name}", True, "removed from the configuration")
        for config in configs:
            worker, name = make(config), f"{self._word} {config.name}"
            loop = Loop(name, worker.step, worker.close, longest=self._longest)
            self._running[config.name] = config, worker, loop
            loop.start()

    def stop(self) -> None:
        """End all threads, and wait for them together at most five seconds."""
        running, self._running = list(self._running.values()), {}
        for _, worker, loop in running:
            worker.stop()
            loop.stop()
        until = time.monotonic() + _LONGEST_STOP
        for _, _, loop in running:
            loop.join(max(0.0, until - time.monotonic()))

    def wake(self) -> None:
        """Have all do their next step now."""
        for _, _, loop in list(self._running.values()):  # from any thread
            loop.wake()

    def states(self) -> dict[str, dict[str, Any]]:
        """Return how each is, with its kind."""
        return {
            name: {"kind": config.kind, **worker.state()}
            for name, (config, worker, _) in list(self._running.items())
        }

    def items(self) -> Iterator[tuple[str, W]]:
        """Give each name with its worker."""
        for name, (_, worker, _) in list(self._running.items()):
            yield name, worker

    def __len__(self) -> int:
        return len(self._running)

    def __contains__(self, name: str) -> bool:
        return name in self._running


SECOND = 1_000_000_000
_MOST_HUNG = 3  # calls of `send` that have not returned, before none is made any more

_log = logging.getLogger(__name__)


Kind = TypeVar("Kind", bound=AlertSink | ScoreSink)


class SinkCalls(Generic[Kind]):
    """One sink, as the thread that sends to it has it.

    `name`: of the sink. `make`: makes it: at first, and again after a call of it has not returned.
    `report`: called with ``"sink NAME"``, whether it is well, and a message. `clock`: returns the
    time in ns. `refusal`: the class of its errors that say that the receiver is there.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], Kind],
        report: Report,
        clock: Callable[[], int],
        refusal: type[Exception],
    ) -> None:
        self.name = name
        self.failures = 0
        self._make, self._report, self._clock, self._refusal = make, report, clock, refusal
        self._sink: Kind | None = None
        self._hung: list[threading.Thread] = []
        self._paused = (0, 0)  # from when to when
        self._reported: tuple[bool, str] | None = None

    @property
    def sink(self) -> Kind:
        """The sink; it is made if there is none."""
        if self._sink is None:
            self._sink = self._make()
        return self._sink

    def call(self, act: Callable[[], None]) -> None:
        """Do something with the sink, and wait no longer than its timeout; raise its errors."""
        timeout = self.sink.timeout
        self._hung = [thread for thread in self._hung if thread.is_alive()]
        if len(self._hung) == _MOST_HUNG:
            raise SinkDownError(f"expected send to return, found {_MOST_HUNG} calls that have not")
        outcome: list[Exception] = []

        def call() -> None:
            try:
                act()
            except Exception as error:  # noqa: BLE001 - handed to the thread that waits
                outcome.append(error)

        thread = threading.Thread(target=call, name=f"sink {self.name}: send", daemon=True)
        thread.start()
        thread.join(timeout)
        if thread.is_alive():
            self._hung.append(thread)
            self.close()
            raise SinkDownError(f"expected send to return within {timeout:g} s, found it waiting")
        if not outcome or isinstance(outcome[0], self._refusal):
            self.failures = 0  # it is there
        if outcome:
            raise outcome[0]

    def close(self) -> None:
        """Close the sink; does not wait for it."""
        sink, self._sink = self._sink, None
        if sink is not None:
            _close(sink)

    def paused_until(self, now: int) -> int | None:
        """Return until when nothing is tried, in ns; None if it can be tried now."""
        begin, end = self._paused
        # A clock that was set back does not make the pause longer.
        return end if begin <= now < end else None

    def pause(self, error: Exception, longest: float | None = None) -> int:
        """Report a failure, and wait: longer after each, at most `longest` s; return until when."""
        self.failures += 1
        wait = backoff(self.failures)
        if longest is not None:
            wait = min(wait, longest)
        if isinstance(error, SinkDownError) and error.after is not None:
            wait = max(error.after, 1.0)
        now = self._clock()
        self._paused = now, now + int(wait * SECOND)
        self.report(False, one_line(error))
        return self._paused[1]

    def report(self, ok: bool, message: str) -> None:
        """Report how it is, if that is news."""
        if (ok, message) != self._reported:
            if not ok:
                _log.warning("sink %s: %s", self.name, message)
            elif self._reported is not None:
                _log.info("sink %s: delivers again", self.name)
            self._reported = ok, message
            self._report(f"sink {self.name}", ok, message)

    def state(self) -> dict[str, Any]:
        """Return `ok`, `message`, `failures` in a row and `next_try` in ns, None if not paused."""
        ok, message = self._reported or (True, "")
        resumes = self._paused[1] if self.failures else None
        return {"ok": ok, "message": message, "failures": self.failures, "next_try": resumes}


def _close(sink: AlertSink | ScoreSink) -> None:
    """Close a sink in a thread of its own, as it may not return."""

    def close() -> None:
        try:
            sink.close()
        except Exception as error:  # noqa: BLE001 - it is not used any more
            _log.warning("sink %s: close: %s", sink.name, error)

    threading.Thread(target=close, name=f"sink {sink.name}: close", daemon=True).start()
