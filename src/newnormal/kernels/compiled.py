"""How kernels are compiled: one decorator, so that every kernel follows the same rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numba

__all__ = ["compiled"]

_P = ParamSpec("_P")
_R = TypeVar("_R")

# Reassociation and contraction let LLVM vectorise sums and fuse multiply-adds. The other
# fast-math flags assume there is no NaN, and NaN is how a missing value arrives.
_FASTMATH = {"reassoc", "contract"}


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile a function for this machine on first call, releasing the GIL, and cache the code.

    Where no folder for the cache can be written, the code is compiled anew in each process.
    """
    options: dict[str, Any] = {"nogil": True, "fastmath": _FASTMATH, "error_model": "numpy"}
    try:
        return numba.njit(cache=True, **options)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # Numba: "no locator available": nowhere to write
        return numba.njit(**options)(function)  # type: ignore[no-any-return]
