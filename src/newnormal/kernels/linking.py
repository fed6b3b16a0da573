"""Kernels that call each other by address, so that each is compiled once and by itself.

Numba copies what a kernel calls into it, and LLVM optimises the copy again: a kernel that is called
three deep is optimised and assembled four times, which was two thirds of the time that a first start
took. `linked` makes a call by address instead. The caller finds the address of the other kernel,
compiled for the types of this call, when the call is reached for the first time: what is never
reached is never compiled. Neither has the code of the other in it, so they can be compiled at the
same time, in two processes.

A call by address takes a few nanoseconds more: this is for kernels of microseconds and more.
"""

from __future__ import annotations

import base64
import ctypes
import inspect
import pickle
from collections.abc import Callable
from typing import Any, ParamSpec

import numba
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["address_of", "linked"]

_P = ParamSpec("_P")

_SYMBOL = "newnormal_kernel_address"
_FAILED = "a kernel could not be compiled; what was wrong is printed above"
_kernels: dict[bytes, Any] = {}  # by the name that is in the code of those that call them
_BYTES = ir.IntType(8).as_pointer()
_WORD = ir.IntType(64)


def linked(kernel: Callable[_P, None]) -> Callable[_P, None]:
    """Return what a kernel calls to call another one, which returns nothing, by address."""
    if numba.config.DISABLE_JIT:
        return kernel
    function = kernel.py_func  # type: ignore[attr-defined]
    name = f"{function.__module__}.{function.__qualname__}".encode()
    _kernels[name] = kernel

    def typed(typing_context: Any, *args: Any) -> Any:  # noqa: ARG001
        return types.void(*args), _generate(name, args)

    first = inspect.Parameter("typing_context", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    rest = inspect.signature(function).parameters.values()
    typed.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [first, *(each.replace(annotation=each.empty) for each in rest)]
    )
    typed.__name__ = typed.__qualname__ = f"linked_{function.__name__}"
    return intrinsic(typed)  # type: ignore[no-any-return]


def address_of(kernel: Any, args: tuple[Any, ...]) -> int:
    """Return where a kernel for arguments of these types begins, compiled if it must be."""
    kernel.compile(args)
    made = kernel.overloads[args]
    return int(made.library.get_pointer_to_function(made.fndesc.llvm_func_name))


def _generate(name: bytes, args: tuple[Any, ...]) -> Callable[..., Any]:
    """Return what writes the call: look the address up once, keep it, jump there."""
    wanted = base64.b64encode(pickle.dumps(args))

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        module = builder.module
        kept = ir.GlobalVariable(module, _WORD, module.get_unique_name(name.decode()))
        kept.linkage, kept.initializer = "internal", ir.Constant(_WORD, 0)
        with cgutils.if_unlikely(builder, cgutils.is_null(builder, builder.load(kept))):
            look_up = cgutils.get_or_insert_function(
                module, ir.FunctionType(_WORD, (_BYTES, _BYTES)), _SYMBOL
            )
            texts = [context.insert_const_string(module, text.decode()) for text in (name, wanted)]
            found = builder.call(look_up, texts)
            with cgutils.if_unlikely(builder, cgutils.is_null(builder, found)):
                context.call_conv.return_user_exc(builder, RuntimeError, (_FAILED,))
            builder.store(found, kept)
        kind = context.call_conv.get_function_type(signature.return_type, signature.args)
        target = builder.inttoptr(builder.load(kept), kind.as_pointer())
        status, _ = context.call_conv.call_function(
            builder, target, signature.return_type, signature.args, values
        )
        with cgutils.if_unlikely(builder, status.is_error):
            context.call_conv.return_status_propagate(builder, status)
        return context.get_dummy_value()

    return generate


@ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_char_p, ctypes.c_char_p)
def _look_up(name: bytes, args: bytes) -> int:
    return address_of(_kernels[name], pickle.loads(base64.b64decode(args)))


# Code from the cache refers to it by this name.
binding.add_symbol(_SYMBOL, ctypes.cast(_look_up, ctypes.c_void_p).value)
