"""Arrays at addresses, for compiled code that finds a stream's arrays in a block of memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, types
from numba.extending import intrinsic

from newnormal.kernels.compiled import inlined
from newnormal.types import Bools, Floats, Floats32, Ints

__all__ = ["bools", "floats", "floats2", "floats3", "floats32", "floats32_2", "ints", "ints2"]


@intrinsic
def _pointer(typing_context: Any, address: Any) -> Any:  # noqa: ARG001
    """Return an address as a pointer."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

    return types.voidptr(types.int64), generate


# Arrays that NumPy owns count their users, atomically and in one place for all threads; these do
# not, and their memory must live as long as they are used.


@inlined
def floats(address: int, n: int) -> Floats:
    """Return the (n,) floats at an address."""
    return carray(_pointer(address), (n,), np.float64)


@inlined
def floats2(address: int, n: int, m: int) -> Floats:
    """Return the (n, m) floats at an address."""
    return carray(_pointer(address), (n, m), np.float64)


@inlined
def floats3(address: int, n: int, m: int, k: int) -> Floats:
    """Return the (n, m, k) floats at an address."""
    return carray(_pointer(address), (n, m, k), np.float64)


@inlined
def floats32(address: int, n: int) -> Floats32:
    """Return the (n,) floats of 32 bits at an address."""
    return carray(_pointer(address), (n,), np.float32)


@inlined
def floats32_2(address: int, n: int, m: int) -> Floats32:
    """Return the (n, m) floats of 32 bits at an address."""
    return carray(_pointer(address), (n, m), np.float32)


@inlined
def ints(address: int, n: int) -> Ints:
    """Return the (n,) integers at an address."""
    return carray(_pointer(address), (n,), np.int64)


@inlined
def ints2(address: int, n: int, m: int) -> Ints:
    """Return the (n, m) integers at an address."""
    return carray(_pointer(address), (n, m), np.int64)


@inlined
def bools(address: int, n: int) -> Bools:
    """Return the (n,) truth values at an address."""
    return carray(_pointer(address), (n,), np.bool_)
