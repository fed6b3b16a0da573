"""One BLAS thread while a small model trains."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module

__all__ = ["one_thread"]

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
    """
    functions = _openblas()
    if functions is None:
        yield
        return
    get, set_ = functions
    before = get()
    set_(1)
    try:
        yield
    finally:
        set_(before)


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
