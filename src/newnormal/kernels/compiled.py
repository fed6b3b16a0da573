"""How kernels are compiled: one decorator, so that every kernel follows the same rules."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numba

_P = ParamSpec("_P")
_R = TypeVar("_R")

_STAMP = "_source_stamp"  # in Numba's cache: what the file of a kernel was when it was compiled

# Reassociation and contraction let LLVM vectorise sums and fuse multiply-adds. The other
# fast-math flags assume there is no NaN, and NaN is how a missing value arrives.
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "fastmath": {"reassoc", "contract"},
    "error_model": "numpy",
    "_nrt": True,  # said, because what a caller is compiled with would hold here too
    "no_cfunc_wrapper": True,  # for C, which nobody needs; it takes time to compile
}


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile a function for this machine on first call, releasing the GIL, and cache the code.

    Where no folder for the cache can be written, the code is compiled anew in each process.
    """
    return _cached(function, _OPTIONS)


def uncounted(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile a function that makes no array, as `compiled` does.

    The users of arrays are not counted in it, which takes a sixth of the time of one sample. To
    assign an array to another, ``a[:] = b``, Numba makes a third: use `kernels.step.copy`.
    """
    return _cached(function, {**_OPTIONS, "_nrt": False})


def inner(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile a function that makes no array and is called by kernels alone, as `uncounted` does.

    What takes its arguments from Python is left out: for tuples of arrays that can be as much to
    compile as the kernel itself.
    """
    return _cached(function, {**_OPTIONS, "_nrt": False, "no_cpython_wrapper": True})


class Entries(dict[Any, Any]):
    """The kernels of one detector, as compiled for the types of its first calls.

    All of its calls have the same types. Numba would look at those of every array of every tuple
    again, which takes a fifth of a step.
    """

    def call(self, kernel: Any, *args: Any) -> Any:
        """Call a kernel."""
        if kernel not in self:
            self[kernel] = kernel
            if hasattr(kernel, "overloads"):  # else NUMBA_DISABLE_JIT is set
                types = tuple(map(numba.typeof, args))
                kernel.compile(types)
                self[kernel] = kernel.overloads[types].entry_point
        return self[kernel](*args)

    def __reduce__(self) -> tuple[type[Entries], tuple[()]]:
        return Entries, ()  # a copy finds them anew


def _cached(function: Callable[_P, _R], options: dict[str, Any]) -> Callable[_P, _R]:
    try:
        kernel = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # Numba: "no locator available": nowhere to write
        return numba.njit(**options)(function)
    # Numba compiles a kernel anew when its own file has changed. What it calls, and the tuples that
    # it takes, are in other files: code that does not match them would crash.
    kept = getattr(getattr(kernel, "_cache", None), "_cache_file", None)
    if hasattr(kept, _STAMP):
        vars(kept)[_STAMP] = (vars(kept)[_STAMP], _digest())
    return kernel


@lru_cache(maxsize=1)
def _digest() -> str:
    """Return a digest of the source of all kernels."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def inlined(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile a function into each kernel that calls it.

    Passing arrays to a function that LLVM does not inline costs tens of nanoseconds a call, which
    is what a small model's whole window takes.
    """
    return numba.njit(inline="always", **_OPTIONS)(function)
