"""When a source of MQTT connects again, and what it says meanwhile."""

from __future__ import annotations

from collections.abc import Callable

from newnormal.io.mqtt_connection import BrokerError, ClosedError, SessionTakenError

_WAITS = (1.0, 2.0, 5.0, 10.0, 30.0)  # s to wait after so many failures
_CLOSED = 3  # connections that end within `_HELD_BACK`, as another client takes the session
_HELD_BACK = 60.0  # s to leave the session to another client before it is taken again
_REPORTED = 600.0  # s for which another client is reported


class Tries:
    """Connections that ended or could not be made.

    One that ends without a reason is made again at once. A broker that ends connections again and
    again and yet accepts the client has another client with the same id: not all brokers say so.
    The session is left to that for a minute.

    Parameters
    ----------
    clock
        Gives seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._due = -1.0
        self._failures = 0
        self._trouble = ""
        self._closed: list[float] = []
        self._taken: tuple[float, str] | None = None  # when, and what to say

    def is_due(self) -> bool:
        """Return whether to connect now."""
        return self._clock() >= self._due

    def failed(self, error: BrokerError, client_id: str) -> None:
        """Take note of a connection that ended or could not be made."""
        now = self._clock()
        if not isinstance(error, ClosedError):
            self._due = now + _WAITS[min(self._failures, len(_WAITS) - 1)]
            self._failures += 1
            self._closed.clear()  # the broker itself was away
            self._trouble = f"{error.message} ({error.hint})" if error.hint else error.message
            return
        self._closed = [each for each in self._closed if each > now - _HELD_BACK] + [now]
        if isinstance(error, SessionTakenError) or len(self._closed) >= _CLOSED:
            self._due = now + _HELD_BACK
            self._taken = (
                now,
                f"another client with the client id {client_id!r} has taken the session over, and "
                "messages may have gone to it: set another client_id here or there",
            )

    def succeeded(self) -> None:
        """Take note that messages come."""
        self._failures = 0
        self._trouble = ""

    def report(self) -> str:
        """Return what people should know; empty: nothing."""
        taken = ""
        if self._taken is not None and self._clock() < self._taken[0] + _REPORTED:
            taken = self._taken[1]
        return "; ".join(each for each in (self._trouble, taken) if each)
