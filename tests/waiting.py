"""Waiting for another program: a poll with a deadline, and no other sleep in any test."""

import time
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")
_PAUSE = 0.01  # seconds between two looks


def until(condition: Callable[[], _T], what: str, *, seconds: float = 180.0) -> _T:
    """Call `condition` until it returns something true, and return that.

    Fails after `seconds` with `what` was waited for and the last value found.
    """
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() >= deadline:
            raise AssertionError(f"waited {seconds:g} s for {what}, found {found!r}")
        time.sleep(_PAUSE)
