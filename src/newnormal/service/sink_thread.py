"""Calls of a sink that may be down, refuse or hang: waits after failures, and how it is."""

import logging
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from newnormal.engine.running import Report
from newnormal.io.sinks.alerts import AlertSink, SinkDownError
from newnormal.io.sinks.scores import ScoreSink
from newnormal.service.retry import backoff, one_line

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

    # ------------------------------------------------------------------ how it is

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
