"""Kernels that call each other by address."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numba import types

from newnormal.kernels import linking
from newnormal.kernels.compiled import compiled, inner
from newnormal.kernels.linking import address_of, behind, linked
from newnormal.types import Floats

njit: Any = numba.njit

_TRACE = """
import numpy as np
from newnormal.acceptance.range import NormalRange
from newnormal.kernels import drift
from newnormal.kernels.linking import behind
normal = NormalRange.fit(np.random.default_rng(0).normal(size=(300, 2)))
print(normal.params.margins.sum(), sum(drift.trace.stats.cache_hits.values()))
"""


@inner
def _twice(values: Floats) -> None:
    for i in range(len(values)):
        values[i] *= 2


@inner
def _is_large(values: Floats, limit: float) -> bool:
    return bool(values[0] > limit)


@inner
def _first(values: Floats) -> float:
    return float(values[0])


@inner
def _never(values: Floats) -> float:
    return float(values[0]) - 1


@inner
def _count(values: Floats) -> int:
    return len(values)


twice, is_large, first, never = linked(_twice), linked(_is_large), linked(_first), linked(_never)
count = linked(_count)


@compiled
def _all(values: Floats, limit: float, rare: bool) -> float:
    twice(values)
    twice(values)
    if is_large(values, limit):
        return first(values)
    return never(values) if rare else 0.0


def test_arrays_and_numbers_go_in_and_a_number_comes_out() -> None:
    values = np.array([1.0, 2.0])
    assert _all(values, 3.0, False) == 4.0
    np.testing.assert_array_equal(values, [4.0, 8.0])
    assert _all(values, 1e3, False) == 0.0


def test_a_whole_number_comes_out() -> None:
    counted = compiled(lambda values: count(values) + 1)
    assert counted(np.zeros(3)) == 4


def signatures(kernel: Any) -> list[Any]:
    return list(kernel.signatures)


def test_what_is_not_reached_is_not_compiled() -> None:
    values = np.ones(2)
    _all(values, 1e3, False)
    assert signatures(_is_large)
    assert not signatures(_never)
    assert _all(values, 1e3, True) == 15.0
    assert signatures(_never)


def _caller() -> Any:
    """Return a kernel that does not know the address yet."""
    return njit(lambda values: 1 * first(values))


def test_an_interrupt_while_a_kernel_is_compiled_is_an_interrupt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*args: object) -> int:
        raise KeyboardInterrupt

    caller = _caller()
    monkeypatch.setattr(linking, "address_of", interrupted)
    with pytest.raises(KeyboardInterrupt):
        caller(np.ones(1))
    monkeypatch.undo()
    assert caller(np.ones(1)) == 1.0  # and can be done again


def test_a_kernel_that_cannot_be_compiled_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda event: seen.append(event.exc_value))

    def failing(*args: object) -> int:
        raise ValueError("no memory")

    caller = _caller()
    monkeypatch.setattr(linking, "address_of", failing)
    with pytest.raises(RuntimeError, match="a kernel could not be compiled: the reason was"):
        caller(np.ones(1))
    assert [str(each) for each in seen] == ["no memory"]


def test_a_kernel_that_returns_something_else_is_not_called() -> None:
    args = (types.float64[::1],)
    assert address_of(_first, args, types.float64) > 0
    with pytest.raises(TypeError, match=r"expected .* to return bool, found \(.*\) -> float64"):
        address_of(_first, args, types.boolean)


def test_kernels_are_found_by_name() -> None:
    assert behind("step.advance_in").py_func.__name__ == "advance_in"
    with pytest.raises(KeyError):
        behind("step.retreat")


def test_without_compilation_it_is_the_function_itself() -> None:
    def plain(x: float) -> float:
        return x

    assert linked(plain) is plain


def test_code_from_the_cache_finds_what_it_calls_in_another_process(tmp_path: Path) -> None:
    found = [
        subprocess.run(
            [sys.executable, "-c", _TRACE],
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for _ in range(2)
    ]
    assert found[0][0] == found[1][0]
    assert [each[1] for each in found] == ["0", "1"]
    # The kernel that was called is compiled anew, the one that calls it is not.
    for path in tmp_path.rglob("drift.measure*"):
        path.unlink()
    again = subprocess.run(
        [sys.executable, "-c", _TRACE],
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert again == found[1]
