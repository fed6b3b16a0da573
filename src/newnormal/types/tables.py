"""Each array of a stream on one line, and what follows from that line.

A NamedTuple declares its arrays as `Annotated` fields: shape, range, first value, the names of its
counters. Numba types instances and ignores that. First values, names and checks in state files, the
blocks of a fleet and their views, and the types that kernels are compiled for are derived here.
"""

from __future__ import annotations

import dataclasses
import re
import types
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from newnormal.errors import StateError
from newnormal.types.arrays import NO_TIME, Bools, Floats, Floats32, Ints, Times

LARGEST_COUNT = 2**62 - 1  # of samples: far from an overflow
NUMBERS = "numbers"  # the array of a tuple's single numbers

# How long each letter of a shape is; several lengths where it stands for a shape.
Sizes: TypeAlias = Mapping[str, int | tuple[int, ...]]
_Part = TypeVar("_Part")
_SIZE = re.compile(r"(\d*)([A-Z])")
_DTYPES: tuple[tuple[Any, str], ...] = (
    (Floats, "f8"),
    (Floats32, "f4"),
    (Ints, "i8"),
    (Bools, "?"),
    (Times, "M8[ns]"),
)


class Range(NamedTuple):
    """What the numbers of an array may be."""

    words: str
    holds: Callable[[NDArray[Any]], NDArray[np.bool_]]  # for each number, or each last axis


def within(least: float, most: float, words: str = "") -> Range:
    """Return the range of finite numbers from `least` to `most`."""
    words = words or f"numbers from {least:g} to {most:g}"
    return Range(words, lambda array: (array >= least) & (array <= most))


def _increasing(array: NDArray[Any]) -> NDArray[np.bool_]:
    pairs: NDArray[np.bool_] = array[..., :-1] <= array[..., 1:]  # not so for NaN
    return np.asarray(pairs.all(axis=-1) & np.isfinite(array[..., 0]))


def _tail(array: NDArray[Any]) -> NDArray[np.bool_]:
    _, chance, scale, shape = np.moveaxis(array, -1, 0)
    plausible = (chance > 0) & (chance <= 1) & (scale > 0) & (shape >= 0) & (shape <= 1)
    return np.asarray(plausible & np.isfinite(array).all(axis=-1))


_FARTHEST = 1e17  # scaled values saturate at 1e15; trends and residuals stay within their sum
# 40 as levels are measured (`newnormal.acceptance.range.unsqueezed`). Extrapolated positions are
# within ±500.
FAR_LEVEL = 2.001e6
_FAR_SHIFT = 1e9  # accepted shifts are added up

ANY = Range("numbers", lambda array: np.ones(array.shape, np.bool_))
FINITE = Range("finite numbers", np.isfinite)
OBSERVED = Range("numbers that are not infinite", lambda array: ~np.isinf(array))
KNOWN = Range("numbers other than NaN", lambda array: ~np.isnan(array))
POSITIVE = Range("finite numbers above 0", lambda array: (array > 0) & (array < np.inf))
ABOVE = Range("numbers above 0", lambda array: array > 0)
NOT_NEGATIVE = Range("numbers of at least 0", lambda array: array >= 0)
COUNT = within(0, LARGEST_COUNT, "counts of at least 0")
CHANCE = within(0, 1)
INCREASING = Range("increasing numbers", _increasing)
TAIL = Range("a start, a chance, a scale above 0 and a shape from 0 to 1", _tail)
BOUNDED = within(-_FARTHEST, _FARTHEST, f"finite numbers within ±{_FARTHEST:g}")
BOUNDED_OR_NAN = Range(
    f"numbers within ±{_FARTHEST:g}, or NaN", lambda array: ~(np.abs(array) > _FARTHEST)
)
LEVEL = within(-FAR_LEVEL, FAR_LEVEL, f"numbers within ±{FAR_LEVEL:g}")
LEVEL_OR_NAN = Range(
    f"numbers within ±{FAR_LEVEL:g}, or NaN", lambda array: ~(np.abs(array) > FAR_LEVEL)
)
SHIFT = within(-_FAR_SHIFT, _FAR_SHIFT, f"numbers within ±{_FAR_SHIFT:g}")
BINARY = Range("0 or 1", lambda array: (array == 0) | (array == 1))
MODERATE = within(1e-100, 1e100)
SPREAD = within(1e-9, 1e9)
UNIT = within(-1.001, 1.001, "numbers within ±1")


class Counter(NamedTuple):
    """One of the counters of an array."""

    position: int
    least: int = 0
    most: int | str = LARGEST_COUNT  # a size, or the name of another counter, in full or beside it


class Array:
    """The line of one array.

    `shape`: numbers, letters of sizes such as ``"C"``, and multiples such as ``"4C"``. `range`:
    what its numbers may be. `first`: what they are before the first sample. `seldom`: whether most
    samples of a stream do not touch it. `counters`: by name; the last axis has one for each.
    """

    dtype: str = "f8"  # of the field's type

    def __init__(
        self,
        *shape: int | str,
        range: Range = FINITE,  # noqa: A002
        first: float = 0.0,
        seldom: bool = False,
        counters: Mapping[str, Counter] | None = None,
    ) -> None:
        self.shape, self.range, self.first = shape, range, first
        self.seldom, self.counters = seldom, dict(counters or {})

    def sizes(self, sizes: Sizes) -> tuple[int | None, ...]:
        """Return the shape in numbers; None where a letter has no size yet."""
        lengths: list[int | None] = []
        for axis in self.shape:
            if isinstance(axis, int):
                lengths.append(axis)
                continue
            match = _SIZE.fullmatch(axis)
            assert match is not None, axis
            size = sizes.get(match[2])
            if isinstance(size, tuple):
                lengths += size
            else:
                lengths.append(None if size is None else int(match[1] or 1) * size)
        return tuple(lengths)

    def blank(self, sizes: Sizes) -> NDArray[Any]:
        """Return the array before the first sample."""
        lengths = self.sizes(sizes)
        assert None not in lengths, (self.shape, sizes)
        value: Any = np.datetime64(NO_TIME, "ns") if self.dtype == "M8[ns]" else self.first
        return np.full(lengths, value, self.dtype)  # type: ignore[arg-type]

    def of_each(self, *shape: int | str) -> Array:
        """Return the line of an array of such arrays."""
        other = Array(*shape, *self.shape, range=self.range, first=self.first, seldom=self.seldom)
        other.counters, other.dtype = self.counters, self.dtype
        return other


def counters(*shape: int | str, seldom: bool = False, **named: int | Counter) -> Array:
    """Return the line of an array of counters, each at its position."""
    positions = {
        name: each if isinstance(each, Counter) else Counter(each) for name, each in named.items()
    }
    return Array(*shape, len(positions), range=ANY, seldom=seldom, counters=positions)


class Scalar(NamedTuple):
    """The line of a single number of a tuple; those of one tuple are an array `numbers`."""

    least: float = -np.inf
    most: float = np.inf
    above: bool = False  # whether `least` itself is too little

    def check(self, name: str, value: float) -> None:
        """Raise a StateError unless the number is in its range."""
        if not self.least <= value <= self.most or (self.above and value == self.least):
            bound = f"above {self.least:g}" if self.above else f"from {self.least:g}"
            raise StateError(f"{name}: expected a number {bound} to {self.most:g}, found {value:g}")


class FieldLine(NamedTuple):
    """A field of a tuple: an array, a number, or another tuple of them."""

    name: str
    array: Array | None = None
    number: Scalar | None = None
    kind: Any = None  # the class of a tuple, or the type of a number


@cache
def lines(kind: Any) -> tuple[FieldLine, ...]:
    """Return the fields of a class that are arrays, numbers or tuples of them."""
    fields: list[FieldLine] = []
    for name, hint in get_type_hints(kind, include_extras=True).items():
        choices = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
        for choice in choices:
            marks = getattr(choice, "__metadata__", ())
            if marks and isinstance(marks[0], Array):
                marks[0].dtype = next(d for alias, d in _DTYPES if alias == choice.__origin__)
                fields.append(FieldLine(name, array=marks[0]))
            elif marks and isinstance(marks[0], Scalar):
                fields.append(FieldLine(name, number=marks[0], kind=choice.__origin__))
            elif hasattr(kind_of := marks[0] if marks else choice, "_fields"):
                fields.append(FieldLine(name, kind=kind_of))
    return tuple(fields)


@cache
def _numbers(kind: Any) -> list[FieldLine]:
    return [line for line in lines(kind) if line.number is not None]


def declared(kind: type, prefix: str = "") -> dict[str, Array]:
    """Return the lines of all arrays of a class, by their names in files and blocks."""
    table: dict[str, Array] = {}
    if numbers := _numbers(kind):
        table[prefix + NUMBERS] = Array(len(numbers), range=ANY)
    for line in lines(kind):
        if line.array is not None:
            table[prefix + line.name] = line.array
        elif line.number is None:
            table |= declared(line.kind, f"{prefix}{line.name}.")
    return table


def first(kind: Callable[..., _Part], sizes: Sizes, **given: Any) -> _Part:
    """Return a tuple before the first sample; `given` are fields that have another first value."""
    made = {
        line.name: line.array.blank(sizes) if line.array is not None else first(line.kind, sizes)
        for line in lines(kind)
        if line.name not in given
    }
    return kind(**made, **given)


@cache
def _names(kind: Any) -> tuple[str, ...] | None:
    """Return the names of the fields of a tuple or dataclass; None for a plain tuple."""
    if dataclasses.is_dataclass(kind):
        return tuple(each.name for each in dataclasses.fields(kind))
    return getattr(kind, "_fields", None)


@cache
def _is_tree(kind: Any) -> bool:
    return issubclass(kind, tuple) or dataclasses.is_dataclass(kind)


def _children(part: Any) -> Iterator[tuple[str, Any]]:
    kind: Any = type(part)
    if (names := _names(kind)) is None:
        return zip(map(str, range(len(part))), part, strict=True)
    return zip(names, (getattr(part, name) for name in names), strict=True)


def flatten(part: object, name: str = "") -> Iterator[tuple[str, NDArray[Any]]]:
    """Give the arrays of a tree of tuples by name; single numbers of a tuple are one array."""
    kind: Any = type(part)
    if isinstance(part, np.ndarray):
        yield name.removesuffix("."), part
    elif _is_tree(kind):
        if numbers := _numbers(kind):
            values = [float(getattr(part, line.name)) for line in numbers]
            yield name + NUMBERS, np.array(values)
        for own, each in _children(part):
            yield from flatten(each, f"{name}{own}.")


def rebuilt(part: _Part, take: Callable[[str], NDArray[Any]], name: str = "") -> _Part:
    """Return a tree like this one with other arrays: those that `take` gives for their names."""
    if isinstance(part, np.ndarray):
        return take(name.removesuffix("."))  # type: ignore[return-value]
    kind: Any = type(part)
    if not _is_tree(kind):
        return part
    parts = [rebuilt(each, take, f"{name}{own}.") for own, each in _children(part)]
    if isinstance(part, tuple):
        return part._make(parts) if hasattr(part, "_make") else tuple(parts)  # type: ignore[return-value]
    names = _names(kind) or ()
    return dataclasses.replace(part, **dict(zip(names, parts, strict=True)))  # type: ignore[type-var]


def check_array(name: str, array: NDArray[Any], line: Array, sizes: Sizes) -> None:
    """Raise a StateError unless an array is what its line says."""
    wanted = line.sizes(sizes)
    fits = len(array.shape) == len(wanted) and all(
        size is None or size == length for size, length in zip(wanted, array.shape, strict=True)
    )
    dtype = "i8" if line.dtype == "M8[ns]" else line.dtype  # as files have times
    if array.dtype != np.dtype(dtype) or not fits:
        shape = tuple("any" if size is None else size for size in wanted)
        raise StateError(
            f"{name}: expected {dtype} of shape {shape}, "
            f"found {array.dtype.str[1:]} of shape {array.shape}"
        )
    if not line.range.holds(array).all():
        raise StateError(f"{name}: expected {line.range.words}, found others")


def read(
    kind: Callable[..., _Part], name: str, take: Callable[[str, Array], NDArray[Any]]
) -> _Part:
    """Return a tuple of the arrays that `take` gives for their names, checked by their lines."""
    parts: dict[str, Any] = {}
    if numbers := _numbers(kind):
        values = take(name + NUMBERS, Array(len(numbers), range=KNOWN)).tolist()
        for line, value in zip(numbers, values, strict=True):
            assert line.number is not None
            line.number.check(name + line.name, value)
            parts[line.name] = line.kind(value)
    for line in lines(kind):
        if line.array is not None:
            parts[line.name] = take(name + line.name, line.array)
        elif line.number is None:
            parts[line.name] = read(line.kind, f"{name}{line.name}.", take)
    return kind(**parts)


Wrong: TypeAlias = tuple[str, NDArray[np.bool_]]  # what was expected; the streams it is not true of


def wrong_counters(
    table: Mapping[str, Array], arrays: Mapping[str, NDArray[Any]], sizes: Sizes
) -> Iterator[Wrong]:
    """Compare the counters of N streams with their limits; `arrays` (N, ...) are by name."""
    for name, array in arrays.items():
        line = table.get(name)
        for own, counter in ({} if line is None else line.counters).items():
            value = array[..., counter.position]
            most = _most(counter.most, name, table, arrays, sizes)
            if isinstance(most, np.ndarray):
                most = most.reshape(most.shape + (1,) * (value.ndim - most.ndim))
            words = counter.most if isinstance(counter.most, str) else f"{counter.most:,}"
            expected = f"{name}.{own}: a whole number from {counter.least} to {words}"
            yield expected, (value < counter.least) | (value > most)


def _most(
    most: int | str,
    name: str,
    table: Mapping[str, Array],
    arrays: Mapping[str, NDArray[Any]],
    sizes: Sizes,
) -> Any:
    if isinstance(most, int):
        return most
    if most in sizes:
        return sizes[most]
    if most.endswith("-1"):
        size = sizes[most.removesuffix("-1")]
        assert isinstance(size, int)
        return size - 1
    owner, _, counter = most.rpartition(".")
    owner = owner or name
    return arrays[owner][..., table[owner].counters[counter].position]
