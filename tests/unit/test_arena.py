"""The arrays of a tree in one block of memory."""

import json
from typing import Any, NamedTuple

import numpy as np
import pytest

from newnormal.core.arena import ALIGNMENT, Field, Layout, blank_block, place, view
from newnormal.core.state import arrays
from newnormal.fleet.stream import always
from tests.fleet_story import fitted


class Leaf(NamedTuple):
    numbers: Any
    flags: Any = None


class Tree(NamedTuple):
    leaf: Leaf
    plain: tuple[Any, ...]
    word: Any
    empty: Any


def tree() -> Tree:
    rng = np.random.default_rng(0)
    times = np.array(["2026-01-01", "NaT"], "datetime64[ns]")
    return Tree(
        Leaf(rng.normal(size=(3, 7)), np.array([True, False])),
        (rng.normal(size=5).astype(np.float32), times),
        "not an array",
        np.zeros((0, 4), np.int64),
    )


def test_a_layout_names_each_array_and_begins_it_at_a_cache_line() -> None:
    layout = Layout.of(tree())
    assert layout.fields == (
        Field("leaf.numbers", "<f8", (3, 7), 0),
        Field("leaf.flags", "|b1", (2,), 192),
        Field("plain.0", "<f4", (5,), 256),
        Field("plain.1", "<M8[ns]", (2,), 320),
        Field("empty", "<i8", (0, 4), 384),
    )
    assert layout.nbytes == 384
    assert [field.nbytes for field in layout.fields] == [168, 2, 20, 16, 0]
    assert layout.offsets.tolist() == [0, 192, 256, 320, 384]


def test_layouts_are_equal_where_the_arrays_look_alike() -> None:
    one, other = tree(), tree()
    assert Layout.of(one) == Layout.of(other)
    assert hash(Layout.of(one)) == hash(Layout.of(other))
    longer = other._replace(plain=(np.zeros(6, np.float32), other.plain[1]))
    assert Layout.of(one) != Layout.of(longer)
    wider = other._replace(leaf=Leaf(other.leaf.numbers.astype(np.float32), other.leaf.flags))
    assert Layout.of(one) != Layout.of(wider)
    assert json.loads(json.dumps(Layout.of(one).to_json()))[0] == ["leaf.numbers", "<f8", [3, 7], 0]


def test_a_block_begins_at_a_cache_line() -> None:
    for size in (1, 64, 1000):
        block = blank_block(size)
        assert len(block) == size and block.ctypes.data % ALIGNMENT == 0


def test_placed_arrays_are_those_of_the_block() -> None:
    source, layout = tree(), Layout.of(tree())
    block = blank_block(layout.nbytes)
    there = place(source, layout, block)
    assert type(there) is Tree and type(there.leaf) is Leaf
    assert there.word == "not an array"
    for one, other in zip(arrays(there), arrays(source), strict=True):
        assert one.dtype == other.dtype and one.tobytes() == other.tobytes()
        assert one.flags.c_contiguous and one.flags.writeable
        assert one.size == 0 or one.ctypes.data % ALIGNMENT == 0
    source.leaf.numbers[:] = 0  # a copy
    assert there.leaf.numbers.any()
    again = view(source, layout, block)
    again.leaf.numbers[1, 2] = 42.0
    assert there.leaf.numbers[1, 2] == 42.0
    assert np.isnat(again.plain[1][1])
    assert view(source, layout, block.copy()).leaf.numbers.tobytes() == again.leaf.numbers.tobytes()


def test_a_part_is_placed_by_its_name_and_nothing_else_changes() -> None:
    source, layout = tree(), Layout.of(tree())
    block = blank_block(layout.nbytes)
    place(source, layout, block)
    part = Leaf(np.full((3, 7), 5.0), np.array([False, True]))
    there = place(part, layout, block, "leaf")
    found = view(source, layout, block)
    assert (found.leaf.numbers == 5).all() and found.leaf.flags.tolist() == [False, True]
    assert found.plain[0].tobytes() == source.plain[0].tobytes()
    there.numbers[0, 0] = 6.0
    assert found.leaf.numbers[0, 0] == 6.0
    place(np.ones(5, np.float32), layout, block, "plain.0")
    assert found.plain[0].tolist() == [1.0] * 5


def test_an_array_of_another_shape_cannot_be_placed() -> None:
    layout = Layout.of(tree())
    block = blank_block(layout.nbytes)
    with pytest.raises(ValueError, match="broadcast"):
        place(Leaf(np.zeros((3, 8)), np.zeros(2, np.bool_)), layout, block, "leaf")
    with pytest.raises(KeyError):
        place(Leaf(np.zeros((3, 7)), np.zeros(2, np.bool_)), layout, block, "other")


@pytest.mark.parametrize("kind", ["daily", "counted", "paper", "strides"])
def test_the_state_of_a_stream_comes_back_bit_for_bit(kind: str) -> None:
    live = always(fitted(kind).to_parts().state)
    layout = Layout.of(live)
    block = blank_block(layout.nbytes)
    block[:] = 255  # what it held before
    place(live, layout, block)
    for one, other in zip(arrays(view(live, layout, block)), arrays(live), strict=True):
        assert one.shape == other.shape and one.tobytes() == other.tobytes()
