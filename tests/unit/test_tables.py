"""An array of a stream is one line: first value, file, checks and block follow from it."""

from dataclasses import make_dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
import pytest

from newnormal import StateError
from newnormal.core.arena import Layout, blank_block, place, view
from newnormal.core.state import StreamState
from newnormal.kernels.stream import SilenceState
from newnormal.types import Floats, Ints
from newnormal.types.tables import (
    BINARY,
    POSITIVE,
    Array,
    Counter,
    Scalar,
    check_array,
    counters,
    declared,
    first,
    flatten,
    lines,
    read,
    rebuilt,
    wrong_counters,
)
from tests.fleet_story import fitted
from tests.house import write_blocks

SIZES = {"C": 3}


class Longer(NamedTuple):
    """A copy of the table of silence with one more line: nothing else is added anywhere."""

    counts: Annotated[Ints, lines(SilenceState)[0].array]
    times: Annotated[Ints, lines(SilenceState)[1].array]
    missing: Annotated[Ints, lines(SilenceState)[2].array]
    channels: Annotated[Ints, lines(SilenceState)[3].array]
    patience: Annotated[Floats, Array("2C", range=POSITIVE, first=1.5)]


def longer_stream() -> tuple[type, Any]:
    """Return the class of a stream with the longer table, and one before its first sample."""
    hints: list[Any] = [
        (line.name, Longer if line.name == "silence" else line.kind)
        for line in lines(StreamState)
        if line.array is None
    ]
    kind = make_dataclass("LongerStream", hints)
    state = fitted("learning")._fitted.initial()
    parts = {name: getattr(state, name) for name, _ in hints}
    return kind, kind(**{**parts, "silence": first(Longer, {"C": len(state.silence.missing)})})


def test_an_array_that_is_added_goes_through_first_value_file_fleet_block_and_back() -> None:
    kind, state = longer_stream()
    name = "silence.patience"
    C = len(state.silence.missing)
    assert state.silence.patience.tolist() == [1.5] * 2 * C
    assert name in declared(kind)

    state.silence.patience[:] = np.arange(1, 2 * C + 1)  # a file
    tensors = dict(flatten(state, "live."))
    taken: list[str] = []

    def take(full: str, line: Array) -> Any:
        taken.append(full)
        check_array(full, tensors[full], line, {"C": C})
        return tensors[full].copy()

    silence = read(Longer, "live.silence.", take)
    assert f"live.{name}" in taken
    np.testing.assert_array_equal(silence.patience, state.silence.patience)
    tensors[f"live.{name}"] = -silence.patience
    with pytest.raises(StateError, match="patience: expected finite numbers above 0, found others"):
        read(Longer, "live.silence.", take)

    layout = Layout.of(state)  # a fleet
    block = blank_block(layout.nbytes)
    place(state, layout, block)
    again = view(state, layout, block)
    np.testing.assert_array_equal(again.silence.patience, state.silence.patience)
    again.silence.patience[0] = 7
    assert view(state, layout, block).silence.patience[0] == 7

    code, _ = write_blocks.function("silence_at", kind, "silence")  # its view, in compiled code
    position = list(declared(kind)).index(name)
    assert f"floats(base + at[{position}], 2 * dims.channels)" in code


class Small(NamedTuple):
    """Arrays, counters and single numbers."""

    flags: Annotated[Ints, Array("C", range=BINARY)]
    counts: Annotated[
        Ints, counters(seen=0, held=Counter(1, 0, "seen"), lead=Counter(2, -1, "C-1"))
    ]
    rate: Annotated[float, Scalar(0, 1, above=True)]
    stride: Annotated[int, Scalar(1)]


def small() -> Small:
    return Small(np.zeros(3, np.int64), np.array([5, 2, -1]), 0.5, 4)


def test_single_numbers_of_a_tuple_are_one_array() -> None:
    arrays = dict(flatten(small(), "fitted."))
    assert list(arrays) == ["fitted.numbers", "fitted.flags", "fitted.counts"]
    assert arrays["fitted.numbers"].tolist() == [0.5, 4.0]
    comp = read(Small, "fitted.", lambda name, _: arrays[name])
    assert (comp.rate, comp.stride, type(comp.stride)) == (0.5, 4, int)
    arrays["fitted.numbers"][0] = 0
    with pytest.raises(StateError, match=r"fitted.rate: expected a number above 0 to 1, found 0"):
        read(Small, "fitted.", lambda name, _: arrays[name])


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
        wrong.any() for _, wrong in wrong_counters(declared(Small), {"counts": counts}, SIZES)
    )
    counts[2, position] = value
    found = [
        (words, np.flatnonzero(wrong).tolist())
        for words, wrong in wrong_counters(declared(Small), {"counts": counts}, SIZES)
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
        check_array("flags", array, declared(Small)["flags"], SIZES)


def test_a_tree_is_rebuilt_with_other_arrays() -> None:
    tree = (small(), [1, 2], None)
    arrays = {name: array + 1 for name, array in flatten(tree)}
    comp, objects, nothing = rebuilt(tree, arrays.__getitem__)
    assert comp.counts.tolist() == [6, 3, 0] and comp.rate == 0.5
    assert objects is tree[1] and nothing is None
