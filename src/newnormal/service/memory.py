"""Memory that is free and that the process still holds."""

import ctypes
import sys
from collections.abc import Callable
from functools import cache

_ARENA_MAX = -8  # M_ARENA_MAX of mallopt


def give_back() -> bool:
    """Give free memory back to the system; return whether there was any.

    The C library keeps what was freed between blocks in use, after a burst of samples and after
    each checkpoint. Linux with glibc alone has a call for it; elsewhere nothing is done. It takes
    about half a millisecond for each MB that is given back.
    """
    trim = _trim()
    return trim is not None and bool(trim(0))


def share() -> bool:
    """Let all threads share what is free; return whether that is so now.

    The C library has several heaps for threads that allocate at the same time. What one thread
    freed is then no use to another, and memory grows for hours. Here threads wait for each other
    anyway. To be called before they start.
    """
    if not sys.platform.startswith("linux"):
        return False
    option: Callable[[int, int], int] | None = getattr(ctypes.CDLL(None), "mallopt", None)
    return option is not None and bool(option(_ARENA_MAX, 1))


@cache
def _trim() -> Callable[[int], int] | None:
    if not sys.platform.startswith("linux"):
        return None
    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim
