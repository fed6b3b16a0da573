"""What working memory holds before a call changes no bit of what the call gives.

Where arrays lie is the matter of `tests/fuzz/test_placement.py`.
"""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

import newnormal
from newnormal.base import BaseDetector
from newnormal.core import state as core_state
from newnormal.core.state import arrays
from newnormal.kernels import channels, committee, step
from newnormal.kernels.compiled import Entries
from newnormal.kernels.mlp import NOTHING_AHEAD
from newnormal.kernels.step import StepOut
from newnormal.models import committee as committee_model
from newnormal.models import mlp as mlp_model
from newnormal.tabular import Table
from newnormal.types import Floats, Ints, Verdicts
from tests.golden.make_runs import CASES, FOLDER, Case, plant, times

COLUMNS = (
    *("scores", "thresholds", "anomalous", "expected", "shares", "ratios", "p_values", "alarms"),
    *("lows", "highs", "channel_ratios"),
)
PIECES = (1, 1, 3, 64, 1, 7, 200, 5)
RUBBISH = {
    "nan": (np.nan, -1),
    "inf": (np.inf, 2**62),
    "-inf": (-np.inf, -(2**62)),
    "huge": (1e300, 2**31),
    "largest": (np.finfo(np.float32).max, 12345),
    "denormal": (5e-324, 1),
}
STATES = ["alarm", "pending", "quantile", "m2n2-plain", "m2n2-alarms"]


def spoil(array: NDArray[Any], kind: str) -> None:
    number, count = RUBBISH[kind]
    with np.errstate(over="ignore", under="ignore"):
        array[...] = number if array.dtype.kind == "f" else count if array.dtype.kind == "i" else 1


@numba.njit
def _step_in(work: Any, *given: Any) -> None:
    """Call what kernels alone can call."""
    step.advance_in(work, *given)


@numba.njit
def _committee_in(work: Any, *given: Any) -> None:
    committee.advance_in(work, *given)


@numba.njit
def _beside_in(work: Any, *given: Any) -> None:
    committee.advance_beside_in(work, *given)


def use_memory(monkeypatch: pytest.MonkeyPatch, kind: str | None, spare: int = 0) -> None:
    """Make models work in memory full of rubbish, or of zeros, with rows to spare."""

    def filled(*parts: Any) -> None:
        for array in arrays(parts):
            if kind is None:
                array[...] = 0
            else:
                spoil(array, kind)

    def mlp_advance(
        samples: Floats, flush: bool, widths: Ints, state: Any, params: Any, out: StepOut
    ) -> None:
        L, C = state.samples.shape
        work = step.blank_work(L, C, widths, NOTHING_AHEAD)
        filled(work, out)
        work.ahead[:] = NOTHING_AHEAD  # a list that is handed in
        _step_in(work, samples, flush, widths, state, params, out)

    def committee_work(widths: Ints, state: Any, out: StepOut, each: Any) -> Any:
        J, L, C = state.residuals.shape
        inside = step.blank_work(L, C, widths, NOTHING_AHEAD)
        work = committee.blank_work(len(out.scores) + spare, J, C, inside)
        filled(work, out.scores, out.anomalous, out.shares, each)
        work.step.ahead[:] = NOTHING_AHEAD
        return work

    def committee_advance(*given: Any) -> None:
        widths, _, state, _, _, out, _, each = given[4:]
        _committee_in(committee_work(widths, state, out, each), *given)

    def beside_advance(*given: Any) -> None:
        widths, _, state, _, _, _, out, _, each, scores = given[4:]
        C = state.residuals.shape[2]
        room = step.blank_out(1, C), each[:1].copy(), np.empty((1, C))
        filled(room, scores)
        _beside_in(committee_work(widths, state, out, each), *given[:-1], *room, scores)

    def judge(*given: Any) -> None:
        work = channels.blank_work(given[0].shape[1])
        filled(work, given[-1])
        channels.advance(work, *given)

    monkeypatch.setattr(mlp_model, "advance", mlp_advance)
    monkeypatch.setattr(committee_model, "advance", committee_advance)
    monkeypatch.setattr(committee_model, "advance_beside", beside_advance)
    monkeypatch.setattr(core_state, "judge_by_channel", judge)


def pieces(detector: BaseDetector, case: Case) -> list[Verdicts]:
    found = []
    at = case.at
    for size in itertools.cycle(PIECES):
        until = min(at + size, case.until)
        found.append(detector.run(plant(at, until, case), times(at, until), until == case.until))
        at = until
        if at == case.until:
            return found
    raise AssertionError


def assert_same(ref: list[Verdicts], comp: list[Verdicts]) -> None:
    for number, (one, two) in enumerate(zip(ref, comp, strict=True)):
        for name in COLUMNS:
            a, b = getattr(one, name), getattr(two, name)
            assert (a is None) == (b is None)
            if a is not None:
                np.testing.assert_array_equal(a, b, err_msg=f"piece {number}, {name}", strict=True)


@pytest.mark.parametrize("name", STATES)
def test_rubbish_in_working_memory_and_in_the_room_for_verdicts_changes_no_bit(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = next(each for each in CASES if each.name == name)
    use_memory(monkeypatch, None)
    plain = newnormal.load(FOLDER / f"{name}.nn")
    ref, events = pieces(plain, case), plain.take_events()
    state = plain.to_state()
    for spare, kind in enumerate(RUBBISH):
        use_memory(monkeypatch, kind, spare)
        detector = newnormal.load(FOLDER / f"{name}.nn")
        assert_same(ref, pieces(detector, case))
        assert detector.take_events() == events
        tensors = detector.to_state().tensors
        for key, array in state.tensors.items():
            np.testing.assert_array_equal(array, tensors[key], err_msg=key)


def test_kernels_are_always_called_with_arguments_of_the_same_types(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: dict[Any, Any] = {}
    call = Entries.call

    def checked(entries: Entries, kernel: Any, *args: Any) -> Any:
        types = tuple(map(numba.typeof, args))
        assert seen.setdefault(kernel, types) == types
        return call(entries, kernel, *args)

    monkeypatch.setattr(Entries, "call", checked)
    for case in (each for each in CASES if each.name in STATES):
        detector = newnormal.load(FOLDER / f"{case.name}.nn")
        twin = pickle.loads(pickle.dumps(detector))
        live, when = plant(case.at, case.until, case), times(case.at, case.until)
        detector.run(live, when)
        for sample, time in zip(live[:50], when[:50], strict=True):
            twin.step(sample.tolist(), time)
        detector.frozen_copy().run(Table(np.asfortranarray(live), detector.channels_, None))
    assert {kernel.__name__ for kernel in seen} >= {"judge", "advance_beside", "judge_scores"}


def test_a_copy_of_a_state_shares_no_memory() -> None:
    detector = newnormal.load(FOLDER / "pending.nn")
    case = next(each for each in CASES if each.name == "pending")
    detector.run(plant(case.at, case.at + 9, case), flush=False)
    state = detector._state
    for one in arrays(state):
        for two in arrays(state.copy()):
            assert not np.shares_memory(one, two)
