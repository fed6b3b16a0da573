"""The arrays of a state in one block of memory, each at a known place.

What a stream keeps is a tree of named tuples with arrays of fixed shape. `Layout` says where each
array is in a block of bytes, so that a stream is one stretch of memory: compiled code finds its
arrays by address, a checkpoint is a copy of the block, and a file of blocks can be mapped.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from newnormal.types.tables import flatten, rebuilt

ALIGNMENT = 64  # bytes: of a cache line
_PAGE = 1 << 21  # bytes of a large page
_PIECE = 1 << 26  # bytes of a piece of memory that blocks are cut from, about
_Tree = TypeVar("_Tree")


@dataclass(frozen=True)
class Field:
    """One array of a tree: its name, what it holds, and where it begins."""

    name: str  # the names of the fields that lead to it, joined by dots
    dtype: str
    shape: tuple[int, ...]
    offset: int

    @property
    def nbytes(self) -> int:
        """How many bytes it takes."""
        return np.dtype(self.dtype).itemsize * math.prod(self.shape)


@dataclass(frozen=True)
class Layout:
    """Where each array of a tree is in a block of `nbytes` bytes.

    >>> from newnormal.core.times import SampleTimes
    >>> from newnormal.types.tables import first
    >>> layout = Layout.of(first(SampleTimes, {"L": 3}))
    >>> [(field.name, field.offset) for field in layout.fields], layout.nbytes
    ([('times', 0), ('last', 64), ('counts', 128)], 192)
    """

    fields: tuple[Field, ...]
    nbytes: int

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.fields, self.nbytes))  # of many fields: streams are grouped by it

    @classmethod
    def of(cls, tree: object) -> Layout:
        """Return the layout of a tree: its arrays in their order, each at a cache line."""
        fields, end = [], 0
        for name, array in flatten(tree):
            fields.append(Field(name, array.dtype.str, array.shape, end))
            end += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
        return cls(tuple(fields), end)

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where each array begins."""
        return np.array([field.offset for field in self.fields], dtype=np.int64)

    def lines(self, names: Collection[str]) -> NDArray[np.int64]:
        """Return where the cache lines of the arrays of these names begin."""
        parts = [
            np.arange(field.offset, field.offset + field.nbytes, ALIGNMENT)
            for field in self.fields
            if field.name in names
        ]
        return np.concatenate([*parts, np.zeros(0, np.int64)]).astype(np.int64)

    def to_json(self) -> list[list[Any]]:
        """Return it as values of JSON."""
        return [[field.name, field.dtype, list(field.shape), field.offset] for field in self.fields]


def blank_block(nbytes: int) -> NDArray[np.uint8]:
    """Return a block that begins at a cache line; what it holds is not defined."""
    room = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    return room[start : start + nbytes]


class Memory:
    """Memory for blocks: those of one size are cut from large pieces, side by side.

    They lie on large pages where the system has them: going from block to block needs a new entry
    of the page table for each page, which takes long on a virtual machine above all.
    """

    def __init__(self) -> None:
        self._free: dict[int, list[NDArray[np.uint8]]] = {}

    def take(self, nbytes: int) -> NDArray[np.uint8]:
        """Return a block that nobody uses; what it holds is not defined."""
        free = self._free.setdefault(nbytes, [])
        if not free:
            count = max(1, _PIECE // nbytes) if nbytes else 1
            piece = _large_pages(count * nbytes)
            free += [piece[n * nbytes : (n + 1) * nbytes] for n in reversed(range(count))]
        return free.pop()

    def give_back(self, block: NDArray[np.uint8]) -> None:
        """Take back a block that is not used any more."""
        self._free.setdefault(len(block), []).append(block)


def _large_pages(nbytes: int) -> NDArray[np.uint8]:
    """Return memory for some blocks that begins at a large page, and asks for such pages."""
    if not hasattr(mmap, "MADV_HUGEPAGE") or nbytes < _PAGE:
        return blank_block(nbytes)
    memory = mmap.mmap(-1, nbytes + _PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a kernel without large pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    piece = np.frombuffer(memory, np.uint8)
    start = -piece.ctypes.data % _PAGE
    return piece[start : start + nbytes]


def view(tree: _Tree, layout: Layout, block: NDArray[np.uint8]) -> _Tree:
    """Return a tree like this one whose arrays are those of a block."""
    return rebuilt(tree, _views(layout, block).__getitem__)


def place(tree: _Tree, layout: Layout, block: NDArray[np.uint8], name: str = "") -> _Tree:
    """Copy the arrays of a tree into a block; return the tree of them there.

    `name` is that of the tree, where it is a part of the one the layout is of.
    """
    views, prefix = _views(layout, block), f"{name}." if name else ""
    for full, array in flatten(tree, prefix):
        views[full][...] = array
    return rebuilt(tree, views.__getitem__, prefix)


def _views(layout: Layout, block: NDArray[np.uint8]) -> dict[str, NDArray[Any]]:
    return {
        field.name: np.ndarray(field.shape, field.dtype, block.data, field.offset)
        for field in layout.fields
    }
