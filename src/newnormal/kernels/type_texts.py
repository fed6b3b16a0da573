"""The types of a kernel's arguments as text, and back.

The text is in the code of the kernel that calls another one by address (`linking`), and so in
Numba's cache. Only the types that kernels take are known: numbers, arrays of them, and tuples.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from importlib import import_module
from operator import attrgetter
from typing import Any

from numba import types

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
