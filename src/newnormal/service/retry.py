"""Threads that do a step again and again, and how long they wait after a failure."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from newnormal.errors import NewnormalError

_STEPS = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)  # s to wait after so many failures

_LONGEST_WAIT = 1.0  # s: a clock that is set forward shortens waits


class Loop:
    """A thread that calls a function again and again.

    Parameters
    ----------
    name
        Of the thread.
    step
        Called in the thread; returns how long to wait in s, or None to end.
    end
        Called in the thread at the end.
    longest
        The most s that it waits, whatever the step returns.
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

    @property
    def stopping(self) -> bool:
        """Whether the thread was asked to end; a long step looks at it."""
        return self._stopping.is_set()

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


def stop_all(loops: Iterable[Loop], timeout: float) -> None:
    """Stop threads, and wait for all of them together at most `timeout` seconds."""
    loops = list(loops)
    for loop in loops:
        loop.stop()
    until = time.monotonic() + timeout
    for loop in loops:
        loop.join(max(0.0, until - time.monotonic()))


def backoff(failures: int) -> float:
    """Return how long to wait after so many failures in a row, in s.

    >>> [backoff(each) for each in (1, 2, 3, 100)]
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
