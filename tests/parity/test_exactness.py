"""What working memory holds before a call changes no bit of what the call gives.

Where arrays lie is the matter of `tests/fuzz/test_placement.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import newnormal
from newnormal.acceptance import policy
from newnormal.core import loop
from newnormal.core import state as core_state
from newnormal.core.state import arrays
from newnormal.detector import BaseDetector
from newnormal.kernels import committee, step
from newnormal.models import committee as committee_model
from newnormal.models import mlp as mlp_model
from newnormal.types import Verdicts
from tests.golden.make_runs import CASES, FOLDER, Case, plant, times

COLUMNS = (
    "scores",
    "thresholds",
    "anomalous",
    "expected",
    "shares",
    "ratios",
    "p_values",
    "alarms",
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
STATES = ["alarm-quantile", "settled-budget", "white", "one-channel", "m2n2-plain", "m2n2-alarms"]


def spoil(array: NDArray[Any], kind: str) -> None:
    number, count = RUBBISH[kind]
    with np.errstate(over="ignore", under="ignore"):
        array[...] = number if array.dtype.kind == "f" else count if array.dtype.kind == "i" else 1


def workspaces(detector: BaseDetector) -> Iterator[NDArray[Any]]:
    """Give the working memory of the running model and of its shadow."""
    state = detector._state
    models = [state.model] if state.shadow is None else [state.model, state.shadow.model]
    for model in models:
        for work in model.work.values():
            yield from arrays(work)


def pieces(detector: BaseDetector, case: Case, before: Callable[[], None]) -> list[Verdicts]:
    found = []
    at = case.at
    for size in itertools.cycle(PIECES):
        until = min(at + size, case.until)
        before()
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
def test_rubbish_in_working_memory_changes_no_bit(name: str) -> None:
    case = next(each for each in CASES if each.name == name)
    plain = newnormal.load(FOLDER / f"{name}.nn")
    ref, events = pieces(plain, case, lambda: None), plain.take_events()
    state = plain.to_state()
    for kind in RUBBISH:
        detector = newnormal.load(FOLDER / f"{name}.nn")
        spoiled = 0

        def rubbish(detector: BaseDetector = detector, kind: str = kind) -> None:
            nonlocal spoiled
            for array in workspaces(detector):
                spoil(array, kind)
                spoiled += 1

        comp = pieces(detector, case, rubbish)
        assert spoiled > 8 * len(ref) // 2
        assert_same(ref, comp)
        assert detector.take_events() == events
        tensors = detector.to_state().tensors
        for key, array in state.tensors.items():
            np.testing.assert_array_equal(array, tensors[key], err_msg=key)


@pytest.mark.parametrize("kind", RUBBISH)
@pytest.mark.parametrize("name", STATES)
def test_rubbish_in_fresh_memory_changes_no_bit(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New working memory and room for verdicts, full of rubbish instead of what was there."""
    case = next(each for each in CASES if each.name == name)
    ref = pieces(newnormal.load(FOLDER / f"{name}.nn"), case, lambda: None)

    def spoiled(blank: Callable[..., Any]) -> Callable[..., Any]:
        def made(*args: Any) -> Any:
            found = blank(*args)
            for array in arrays(found):
                spoil(array, kind)
            return found

        return made

    for module in (step, committee, committee_model, mlp_model, loop, policy):
        for blank in ("blank_work", "blank_out", "blank_step_work"):
            if hasattr(module, blank):
                monkeypatch.setattr(module, blank, spoiled(getattr(module, blank)))
    detector = newnormal.load(FOLDER / f"{name}.nn")
    assert_same(ref, pieces(detector, case, lambda: None))


def test_a_copy_of_a_state_shares_no_memory_and_has_no_working_memory() -> None:
    detector = newnormal.load(FOLDER / "settled-budget.nn")
    case = next(each for each in CASES if each.name == "settled-budget")
    detector.run(plant(case.at, case.at + 9, case), flush=False)
    state = detector._state
    twin = core_state.copied(state.model)
    assert state.model.work
    assert not twin.work
    for one in arrays(state):
        for two in arrays(state.copy()):
            assert not np.shares_memory(one, two)
