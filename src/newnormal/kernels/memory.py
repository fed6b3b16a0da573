"""Arrays at addresses, for compiled code that finds a stream's arrays in a block of memory."""

from __future__ import annotations

from operator import methodcaller
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from newnormal.kernels.compiled import inlined
from newnormal.types import Bools, Floats, Floats32, Ints, Times


def _typed_array(typing_context: Any, address: Any, shape: Any, dtype: Any) -> Any:  # noqa: ARG001
    """Return the array of a shape and dtype that begins at an address."""
    kind = types.Array(dtype.dtype, len(shape), "C")

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        item = context.get_data_type(kind.dtype)
        size = context.get_constant(types.intp, context.get_abi_sizeof(item))
        lengths = cgutils.unpack_tuple(builder, args[1], len(shape))
        strides = [size]
        for length in reversed(lengths[1:]):
            strides.insert(0, builder.mul(strides[0], length))
        array = context.make_array(kind)(context, builder)
        populate_array(
            array,
            data=builder.inttoptr(args[0], item.as_pointer()),
            shape=lengths,
            strides=strides,
            itemsize=size,
            meminfo=None,
        )
        return methodcaller("_getvalue")(array)

    return kind(address, shape, dtype), generate


_array: Any = intrinsic(_typed_array)


def _typed_prefetch(typing_context: Any, address: Any) -> Any:  # noqa: ARG001
    """Ask the processor to have the cache line at an address ready soon."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        read, soon, data = (ir.Constant(word, value) for value in (0, 2, 1))
        builder.call(function, [builder.inttoptr(args[0], byte), read, soon, data])
        return context.get_dummy_value()

    return types.void(types.int64), generate


prefetch_line: Any = intrinsic(_typed_prefetch)


# Arrays that NumPy owns count their users, atomically and in one place for all threads; these do
# not, and their memory must live as long as they are used.


@inlined
def floats(address: int, n: int) -> Floats:
    """Return the (n,) floats at an address."""
    return _array(address, (n,), np.float64)


@inlined
def floats2(address: int, n: int, m: int) -> Floats:
    """Return the (n, m) floats at an address."""
    return _array(address, (n, m), np.float64)


@inlined
def floats3(address: int, n: int, m: int, k: int) -> Floats:
    """Return the (n, m, k) floats at an address."""
    return _array(address, (n, m, k), np.float64)


@inlined
def floats32(address: int, n: int) -> Floats32:
    """Return the (n,) floats of 32 bits at an address."""
    return _array(address, (n,), np.float32)


@inlined
def floats32_2(address: int, n: int, m: int) -> Floats32:
    """Return the (n, m) floats of 32 bits at an address."""
    return _array(address, (n, m), np.float32)


@inlined
def ints(address: int, n: int) -> Ints:
    """Return the (n,) integers at an address."""
    return _array(address, (n,), np.int64)


@inlined
def ints2(address: int, n: int, m: int) -> Ints:
    """Return the (n, m) integers at an address."""
    return _array(address, (n, m), np.int64)


@inlined
def times(address: int, n: int) -> Times:
    """Return the (n,) times at an address, as integers."""
    return _array(address, (n,), np.int64)


@inlined
def bools(address: int, n: int) -> Bools:
    """Return the (n,) truth values at an address."""
    return _array(address, (n,), np.bool_)
