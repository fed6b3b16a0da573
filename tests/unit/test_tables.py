"""An array of a stream is one line, and its place in a block of memory follows from it."""

import json
from dataclasses import make_dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
import pytest

from newnormal import StateError
from newnormal.core.arena import ALIGNMENT, Field, Layout, blank_block, place, view
from newnormal.core.state import StreamState, arrays
from newnormal.fleet.stream import always
from newnormal.kernels.stream import SilenceState
from newnormal.types import Floats, Ints, tables
from tests.fleet_story import fitted
from tests.house import write_blocks

SIZES = {"C": 3}


class Longer(NamedTuple):
    """A copy of the table of silence with one more line: nothing else is added anywhere."""

    counts: Annotated[Ints, tables.lines(SilenceState)[0].array]
    times: Annotated[Ints, tables.lines(SilenceState)[1].array]
    missing: Annotated[Ints, tables.lines(SilenceState)[2].array]
    channels: Annotated[Ints, tables.lines(SilenceState)[3].array]
    patience: Annotated[Floats, tables.Array("2C", range=tables.POSITIVE, first=1.5)]


def longer_stream() -> tuple[type, Any]:
    """Return the class of a stream with the longer table, and one before its first sample."""
    hints: list[Any] = [
        (line.name, Longer if line.name == "silence" else line.kind)
        for line in tables.lines(StreamState)
        if line.array is None
    ]
    kind = make_dataclass("LongerStream", hints)
    state = fitted("learning")._fitted.initial()
    parts = {name: getattr(state, name) for name, _ in hints}
    return kind, kind(
        **{**parts, "silence": tables.first(Longer, {"C": len(state.silence.missing)})}
    )


def test_an_array_that_is_added_goes_through_first_value_file_fleet_block_and_back() -> None:
    kind, state = longer_stream()
    name = "silence.patience"
    C = len(state.silence.missing)
    assert state.silence.patience.tolist() == [1.5] * 2 * C
    assert name in tables.declared(kind)

    state.silence.patience[:] = np.arange(1, 2 * C + 1)  # a file
    tensors = dict(tables.flatten(state, "live."))
    taken: list[str] = []

    def take(full: str, line: tables.Array) -> Any:
        taken.append(full)
        tables.check_array(full, tensors[full], line, {"C": C})
        return tensors[full].copy()

    silence = tables.read(Longer, "live.silence.", take)
    assert f"live.{name}" in taken
    np.testing.assert_array_equal(silence.patience, state.silence.patience)
    tensors[f"live.{name}"] = -silence.patience
    with pytest.raises(StateError, match="patience: expected finite numbers above 0, found others"):
        tables.read(Longer, "live.silence.", take)

    layout = Layout.of(state)  # a fleet
    block = blank_block(layout.nbytes)
    place(state, layout, block)
    again = view(state, layout, block)
    np.testing.assert_array_equal(again.silence.patience, state.silence.patience)
    again.silence.patience[0] = 7
    assert view(state, layout, block).silence.patience[0] == 7

    code, _ = write_blocks.function("silence_at", kind, "silence")  # its view, in compiled code
    position = list(tables.declared(kind)).index(name)
    assert f"floats(base + at[{position}], 2 * dims.channels)" in code


class Small(NamedTuple):
    """Arrays, counters and single numbers."""

    flags: Annotated[Ints, tables.Array("C", range=tables.BINARY)]
    counts: Annotated[
        Ints,
        tables.counters(
            seen=0, held=tables.Counter(1, 0, "seen"), lead=tables.Counter(2, -1, "C-1")
        ),
    ]
    rate: Annotated[float, tables.Scalar(0, 1, above=True)]
    stride: Annotated[int, tables.Scalar(1)]


def small() -> Small:
    return Small(np.zeros(3, np.int64), np.array([5, 2, -1]), 0.5, 4)


def test_single_numbers_of_a_tuple_are_one_array() -> None:
    arrays = dict(tables.flatten(small(), "fitted."))
    assert list(arrays) == ["fitted.numbers", "fitted.flags", "fitted.counts"]
    assert arrays["fitted.numbers"].tolist() == [0.5, 4.0]
    comp = tables.read(Small, "fitted.", lambda name, _: arrays[name])
    assert (comp.rate, comp.stride, type(comp.stride)) == (0.5, 4, int)
    arrays["fitted.numbers"][0] = 0
    with pytest.raises(StateError, match=r"fitted.rate: expected a number above 0 to 1, found 0"):
        tables.read(Small, "fitted.", lambda name, _: arrays[name])


@pytest.mark.parametrize(
    ("position", "value", "text"),
    [
        (0, -1, "counts.seen: a whole number from 0 to"),
        (1, 6, "counts.held: a whole number from 0 to seen"),
        (2, 3, "counts.lead: a whole number from -1 to C-1"),
        (2, -2, "counts.lead: a whole number from -1 to C-1"),
    ],
)
def test_a_counter_beyond_its_limit_is_named(position: int, value: int, text: str) -> None:
    counts = np.tile(small().counts, (4, 1))
    assert not any(
        wrong.any()
        for _, wrong in tables.wrong_counters(tables.declared(Small), {"counts": counts}, SIZES)
    )
    counts[2, position] = value
    found = [
        (words, np.flatnonzero(wrong).tolist())
        for words, wrong in tables.wrong_counters(tables.declared(Small), {"counts": counts}, SIZES)
        if wrong.any()
    ]
    assert found[0][0].startswith(text) and found[0][1] == [2]


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.zeros(2, np.int64), r"flags: expected i8 of shape \(3,\), found i8 of shape \(2,\)"),
        (np.zeros(3), r"flags: expected i8 of shape \(3,\), found f8 of shape \(3,\)"),
        (np.full(3, 2), "flags: expected 0 or 1, found others"),
    ],
)
def test_an_array_that_is_not_as_its_line_is_an_error(array: Any, text: str) -> None:
    with pytest.raises(StateError, match=text):
        tables.check_array("flags", array, tables.declared(Small)["flags"], SIZES)


def test_a_tree_is_rebuilt_with_other_arrays() -> None:
    tree = (small(), [1, 2], None)
    arrays = {name: array + 1 for name, array in tables.flatten(tree)}
    comp, objects, nothing = tables.rebuilt(tree, arrays.__getitem__)
    assert comp.counts.tolist() == [6, 3, 0] and comp.rate == 0.5
    assert objects is tree[1] and nothing is None


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


def test_a_layout_names_each_array_and_begins_it_and_its_block_at_a_cache_line() -> None:
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
    for size in (1, 64, 1000):
        block = blank_block(size)
        assert len(block) == size and block.ctypes.data % ALIGNMENT == 0


def test_layouts_are_equal_where_the_arrays_look_alike() -> None:
    one, other = tree(), tree()
    assert Layout.of(one) == Layout.of(other)
    assert hash(Layout.of(one)) == hash(Layout.of(other))
    longer = other._replace(plain=(np.zeros(6, np.float32), other.plain[1]))
    assert Layout.of(one) != Layout.of(longer)
    wider = other._replace(leaf=Leaf(other.leaf.numbers.astype(np.float32), other.leaf.flags))
    assert Layout.of(one) != Layout.of(wider)
    assert json.loads(json.dumps(Layout.of(one).to_json()))[0] == ["leaf.numbers", "<f8", [3, 7], 0]


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
