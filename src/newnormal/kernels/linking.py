"""Kernels that call each other by address, so that each is compiled once and by itself.

Numba copies what a kernel calls into it, and LLVM optimises the copy again: a kernel that is called
three deep is optimised and assembled four times, which was half of the time of a first start.
`linked` makes a call by address instead. The caller asks for the address of the other kernel,
compiled for the types of this call, when it reaches the call for the first time: what is never
reached is never compiled. Neither holds code of the other, so that they can be compiled at the same
time, by two processes.

A call by address takes a few nanoseconds: this is for kernels of hundreds.

The types of the arguments are in the code of the caller as text, and so in Numba's cache. Only the
types that kernels take are known: numbers, arrays of them, and tuples.
"""

from __future__ import annotations

import ctypes
import inspect
import json
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from operator import attrgetter
from typing import Any, ParamSpec, TypeVar, cast

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_P = ParamSpec("_P")
_R = TypeVar("_R")

_SYMBOL = "newnormal_kernel_address"  # in cached code, too
_RETURNED = {"None": types.void, "bool": types.boolean, "int": types.int64, "float": types.float64}
_BYTES = ir.IntType(8).as_pointer()
_WORD = ir.IntType(64)
_kernels: dict[bytes, Any] = {}  # by the name that is in the code of those that call them

# What may come instead of an address.
_FAILED = 0
_INTERRUPTED = 1
_MESSAGE = "a kernel could not be compiled: the reason was printed before this"


def linked(kernel: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return what a kernel calls to call another one by address; Python cannot call it.

    The other one returns nothing, a bool, an int or a float, as its annotation states.

    Examples
    --------
    >>> import numba
    >>> from newnormal.kernels.compiled import inner
    >>> @linked
    ... @inner
    ... def half(x: float) -> float:
    ...     return x / 2
    >>> numba.njit(lambda x: half(x) + 1)(3.0)
    2.5
    """
    if not hasattr(kernel, "py_func"):  # NUMBA_DISABLE_JIT is set: it is the Python function
        return kernel
    function = kernel.py_func
    name = f"{function.__module__}.{function.__qualname__}".encode()
    returned = _RETURNED[function.__annotations__["return"]]
    _kernels[name] = kernel

    def typed(typing_context: Any, *args: Any) -> Any:  # noqa: ARG001
        return returned(*args), _writer(name)

    # Numba would hand the arguments over as one tuple: they are named instead.
    first = inspect.Parameter("typing_context", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    named = [
        each.replace(annotation=each.empty)
        for each in inspect.signature(function).parameters.values()
    ]
    typed.__signature__ = inspect.Signature([first, *named])  # type: ignore[attr-defined]
    typed.__name__ = typed.__qualname__ = f"linked_{function.__name__}"
    return cast("Callable[_P, _R]", intrinsic(typed))


def behind(name: str) -> Any:
    """Return the kernel that is called by address, by its module in `kernels` and its own name."""
    return _kernels[f"newnormal.kernels.{name}".encode()]


def address_of(kernel: Any, args: tuple[Any, ...], returned: Any) -> int:
    """Return where a kernel for arguments of these types begins, compiled if it must be."""
    kernel.compile(args)
    made = kernel.overloads[args]
    if made.signature.return_type != returned:  # memory would be overwritten
        raise TypeError(f"expected {kernel} to return {returned}, found {made.signature}")
    return int(made.library.get_pointer_to_function(made.fndesc.llvm_func_name))


def _writer(name: bytes) -> Callable[..., Any]:
    """Return what writes the call: ask for the address once, keep it beside the code, go there."""

    def write(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        module, conventions = builder.module, context.call_conv
        kept = ir.GlobalVariable(module, _WORD, module.get_unique_name(name.decode()))
        kept.linkage, kept.initializer = "internal", ir.Constant(_WORD, 0)
        with cgutils.if_unlikely(builder, cgutils.is_null(builder, builder.load(kept))):
            wanted = text_of((signature.return_type, *signature.args)).encode()
            ask = cgutils.get_or_insert_function(
                module, ir.FunctionType(_WORD, (_BYTES, _BYTES)), _SYMBOL
            )
            texts = [context.insert_const_string(module, each.decode()) for each in (name, wanted)]
            address = builder.call(ask, texts)
            for answer, error in (
                (_FAILED, RuntimeError(_MESSAGE)),
                (_INTERRUPTED, KeyboardInterrupt()),
            ):
                wrong = builder.icmp_unsigned("==", address, ir.Constant(_WORD, answer))
                with cgutils.if_unlikely(builder, wrong):
                    conventions.return_user_exc(builder, type(error), error.args)
            builder.store(address, kept)
        kind = conventions.get_function_type(signature.return_type, signature.args)
        target = builder.inttoptr(builder.load(kept), kind.as_pointer())
        status, value = conventions.call_function(
            builder, target, signature.return_type, signature.args, values
        )
        with cgutils.if_unlikely(builder, status.is_error):
            conventions.return_status_propagate(builder, status)
        return value

    return write


@ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_char_p, ctypes.c_char_p)
def _ask(name: bytes, wanted: bytes) -> int:
    """Answer a kernel, whose thread need not hold the GIL: ctypes takes it.

    What is raised here cannot reach the kernel: ctypes prints it and answers _FAILED.
    """
    try:
        returned, *args = types_of(wanted.decode())
        return address_of(_kernels[name], tuple(args), returned)
    except KeyboardInterrupt:
        return _INTERRUPTED


binding.add_symbol(_SYMBOL, ctypes.cast(_ask, ctypes.c_void_p).value)


_SCALARS = {
    str(each): each
    for each in (
        types.boolean,
        types.uint8,
        types.int32,
        types.int64,
        types.uint64,
        types.float32,
        types.float64,
        types.void,
    )
}


def text_of(kinds: Sequence[Any]) -> str:
    """Return types as text.

    >>> text_of((types.int64, types.Array(types.float32, 2, "C")))
    '["int64", ["array", "float32", 2, "C", true, true]]'
    """
    return json.dumps([_data(each) for each in kinds])


def types_of(text: str) -> tuple[Any, ...]:
    """Return the types that a text was made of.

    >>> types_of(text_of((types.int64, types.Array(types.float32, 2, "C"))))
    (int64, Array(float32, 2, 'C', False, aligned=True))
    """
    return tuple(_type(each) for each in json.loads(text))


def _data(kind: Any) -> Any:
    if isinstance(kind, types.Array):
        return ["array", _data(kind.dtype), kind.ndim, kind.layout, kind.mutable, kind.aligned]
    if isinstance(kind, types.BaseTuple):
        named = getattr(kind, "instance_class", None)
        name = "" if named is None else f"{named.__module__}:{named.__qualname__}"
        parts: Any = kind
        return ["tuple", name, [_data(each) for each in parts.types]]
    if str(kind) not in _SCALARS:
        raise TypeError(f"expected a type that kernels take, found {kind}: add it to type_texts")
    return str(kind)


def _type(data: Any) -> Any:
    if isinstance(data, str):
        return _SCALARS[data]
    if data[0] == "array":
        _, dtype, dimensions, layout, mutable, aligned = data
        return types.Array(_type(dtype), dimensions, layout, readonly=not mutable, aligned=aligned)
    _, name, parts = data
    return types.BaseTuple.from_types([_type(each) for each in parts], _class(name))


def _class(name: str) -> Any:
    if not name:
        return None
    module, _, qualname = name.partition(":")
    return attrgetter(qualname)(sys.modules.get(module) or import_module(module))
