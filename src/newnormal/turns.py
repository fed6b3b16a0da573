"""Calls on one detector take turns: one thread at a time uses it, also across a fork."""

import os
import threading
import time
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar
from weakref import WeakSet

from newnormal.errors import NewnormalError

_Method = TypeVar("_Method", bound=Callable[..., Any])

# A process that forks waits a moment until a detector is not in use, so that the child has it as it
# is between two calls. One that stays in use cannot be used in the child.
_LOCKED: WeakSet[Any] = WeakSet()
_MOMENT_S = 0.5
_forking = threading.local()  # what the thread that forks has taken


def add_lock(detector: Any) -> None:
    """Give a detector the lock of `in_turn`."""
    detector._lock = threading.RLock()
    _LOCKED.add(detector)


def in_turn(method: _Method) -> _Method:
    """Make calls of a method wait until no other thread uses the detector."""

    @wraps(method)
    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            return method(self, *args, **kwargs)

    return call  # type: ignore[return-value]


class _InUse:
    """The lock, in a forked child, of a detector that another thread was using."""

    def __enter__(self) -> None:
        raise NewnormalError(
            "this detector was in use by another thread when the process was forked",
            hint="fork between two calls, or load the detector in the child",
        )

    def __exit__(self, *error: object) -> None: ...


def _take_locks() -> None:
    deadline = time.monotonic() + _MOMENT_S
    _forking.taken = taken = []
    for detector in list(_LOCKED):
        left = max(deadline - time.monotonic(), 0.0)
        taken.append((detector, detector._lock.acquire(timeout=left)))


def _release_locks() -> None:
    for detector, is_taken in _forking.taken:
        if is_taken:
            detector._lock.release()
    _forking.taken = []


def _after_in_child() -> None:
    for detector, is_taken in _forking.taken:
        if not is_taken:
            detector._lock = _InUse()
    _release_locks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_take_locks, after_in_parent=_release_locks, after_in_child=_after_in_child
    )
