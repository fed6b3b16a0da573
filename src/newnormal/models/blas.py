"""One BLAS thread while a small model trains."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module

# As NumPy's wheels, and builds against a system's OpenBLAS, name the pair of functions.
_NAMES = (
    ("scipy_openblas_get_num_threads64_", "scipy_openblas_set_num_threads64_"),
    ("scipy_openblas_get_num_threads", "scipy_openblas_set_num_threads"),
    ("openblas_get_num_threads64_", "openblas_set_num_threads64_"),
    ("openblas_get_num_threads", "openblas_set_num_threads"),
)


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread of OpenBLAS inside this context; do nothing with another BLAS.

    Matrices of a training step are too small to share: on a busy machine OpenBLAS's threads spin
    while they wait for each other (fifty times the work was seen), and with another number of
    threads sums are taken in another order, so that the same seed gives other bits.

    The number belongs to the process: of contexts that overlap in several threads, the first sets
    it and the last restores it.
    """
    if (functions := _openblas()) is None:
        yield
        return
    get, set_ = functions
    with _USERS.lock:
        if _USERS.count == 0:
            _USERS.before = get()
            set_(1)
        _USERS.count += 1
    try:
        yield
    finally:
        with _USERS.lock:
            _USERS.count -= 1
            if _USERS.count == 0:
                set_(_USERS.before)


class _Users:
    """How many contexts are open, and the number of threads before the first of them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0
        self.before = 1


_USERS = _Users()


@cache
def _openblas() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """Return how to read and set the number of threads of the OpenBLAS that NumPy uses."""
    try:
        # Where NumPy keeps its own compiled code, which was linked against the BLAS.
        library = ctypes.CDLL(import_module("numpy._core._multiarray_umath").__file__)
    except (ImportError, OSError):
        return None
    for get, set_ in _NAMES:
        if hasattr(library, get) and hasattr(library, set_):
            return getattr(library, get), getattr(library, set_)
    return None
