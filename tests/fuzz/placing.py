"""Moves every array of a detector to another place in memory, and leaves all values as they are."""

import dataclasses
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LINE = 64  # bytes of a cache line


def arrays_of(thing: Any) -> list[NDArray[Any]]:
    """Return every array that can be reached from newnormal's own objects, each once."""
    found: dict[int, NDArray[Any]] = {}
    _walk(thing, lambda array: found.setdefault(id(array), array), {})
    return list(found.values())


def place(thing: Any, random: Random) -> Any:
    """Put all arrays into one buffer, some adjacent, some apart; return the thing.

    Arrays that are views of the same memory stay so. A place is a multiple of the item's size, and
    most are none of a cache line.
    """
    groups = _overlapping(arrays_of(thing))
    random.shuffle(groups)
    room = sum(_extent(group)[1] - _extent(group)[0] + 6 * _LINE for group in groups) + _LINE
    arena = np.frombuffer(bytearray(random.randbytes(room)), np.uint8)
    at = random.randrange(0, _LINE, 4)
    new: dict[int, NDArray[Any]] = {}
    for group in groups:
        begin, end = _extent(group)
        size = max(array.dtype.itemsize for array in group)
        at += 0 if random.random() < 0.5 else random.randrange(0, 4 * _LINE, 4)
        at += -(arena.ctypes.data + at) % size
        for array in group:
            offset = at + array.ctypes.data - begin
            copy = np.ndarray(array.shape, array.dtype, arena, offset, array.strides)
            copy[...] = array
            copy.flags.writeable = array.flags.writeable
            new[id(array)] = copy
        at += end - begin
    return _walk(thing, lambda array: new.get(id(array), array), {})


def placed(random: Random) -> Any:
    """Return a function that places a detector's arrays anew each time it is called."""
    return lambda detector: place(detector, random)


def _overlapping(arrays: list[NDArray[Any]]) -> list[list[NDArray[Any]]]:
    """Return the arrays in groups of those that share memory."""
    groups: list[list[NDArray[Any]]] = []
    end = 0
    there = (array for array in arrays if array.size and array.dtype != object)
    for array in sorted(there, key=lambda each: _extent([each])):
        low, high = _extent([array])
        if low >= end:
            groups.append([])
        groups[-1].append(array)
        end = max(end, high)
    return groups


def _extent(group: list[NDArray[Any]]) -> tuple[int, int]:
    bounds = [np.lib.array_utils.byte_bounds(array) for array in group]
    return min(low for low, _ in bounds), max(high for _, high in bounds)


def _walk(thing: Any, change: Any, done: dict[int, Any]) -> Any:
    """Replace every array by what `change` returns; return the thing, or a new tuple."""
    if id(thing) in done:
        return done[id(thing)][1]
    if isinstance(thing, np.ndarray):
        return change(thing)
    if isinstance(thing, dict):
        done[id(thing)] = thing, thing
        for key, value in thing.items():
            thing[key] = _walk(value, change, done)
    elif isinstance(thing, list):
        done[id(thing)] = thing, thing
        thing[:] = [_walk(value, change, done) for value in thing]
    elif isinstance(thing, tuple):
        parts = [_walk(value, change, done) for value in thing]
        same = all(one is two for one, two in zip(parts, thing, strict=True))
        made = thing if same else getattr(type(thing), "_make", type(thing))(parts)
        done[id(thing)] = thing, made
        return made
    elif _is_own(thing):
        done[id(thing)] = thing, thing
        for name, value in _fields(thing).items():
            replaced = _walk(value, change, done)
            if replaced is not value:
                object.__setattr__(thing, name, replaced)  # frozen dataclasses too
    return thing


def _is_own(thing: Any) -> bool:
    return type(thing).__module__.startswith("newnormal") and not isinstance(thing, type)


def _fields(thing: Any) -> dict[str, Any]:
    names = [*getattr(type(thing), "__slots__", ())]
    if dataclasses.is_dataclass(thing):
        names += [field.name for field in dataclasses.fields(thing)]
    found = {name: getattr(thing, name) for name in names if hasattr(thing, name)}
    return found | getattr(thing, "__dict__", {})
