"""Kernels on disk: compiled once, linked in another process, loaded with no cache folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numba import types

import newnormal
from newnormal.kernels import decision, linking, mlp, step, training
from newnormal.kernels.compiled import compiled, inner
from newnormal.kernels.linking import address_of, behind, linked, text_of, types_of
from newnormal.runtime.kernel_jobs import FIT, SERVE, WATCH, jobs_of
from newnormal.types import Floats
from tests.processes import python

# The smallest kernel there is: what is tried is the cache, and compiling the loop takes long.
_USE = "from newnormal.kernels.decision import decide; print(decide(2.0, 1.0, 1.0)[0])"
_FORWARD = """
import numpy as np
from newnormal.kernels.mlp import forward
from newnormal.models.mlp import MLP
model = MLP(3, 2, 2)
units = np.ones(model.widths.sum(), dtype=np.float32)
active = np.empty(model.widths.max(), dtype=np.int64)
ahead = np.full(2, 2)
forward(model.initial_weights(np.random.default_rng(0)), model.widths, units, active, ahead)
print(units.sum())
"""


def process_of(code: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_kernel_is_compiled_anew_when_the_file_of_another_has_changed(tmp_path: Path) -> None:
    shutil.copytree(Path(newnormal.__file__).parent, tmp_path / "newnormal")
    report = (
        "; print(sum(decide.stats.cache_hits.values()), sum(decide.stats.cache_misses.values()))"
    )

    def hits_and_misses() -> str:
        with process_of(
            _USE + report, PYTHONPATH=str(tmp_path), NUMBA_CACHE_DIR=str(tmp_path / "cache")
        ) as process:
            out, errors = process.communicate(timeout=60)
        assert errors == ""
        return out.splitlines()[-1]

    assert hits_and_misses() == "0 1"
    assert hits_and_misses() == "1 0"
    with (tmp_path / "newnormal/kernels/mlp.py").open("a") as file:
        file.write("# changed\n")
    assert hits_and_misses() == "0 1"


def test_kernels_work_where_no_cache_folder_can_be_written() -> None:
    # Numba gives up caching (RuntimeError: no locator) where none of its places can be written.
    blocked = (
        "import numba.core.caching as caching; "
        "caching._CacheLocator.ensure_cache_path = "
        "lambda self: (_ for _ in ()).throw(OSError('read-only file system')); "
    )
    with process_of(blocked + _USE) as process:
        out, errors = process.communicate(timeout=60)
    assert (process.returncode, out.strip(), errors) == (0, "True", "")


def test_a_kernel_without_a_cache_is_still_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    real = numba.njit

    def nowhere(*args: Any, **options: Any) -> Any:
        if options.pop("cache", False):
            raise RuntimeError("cannot cache function: no locator available for file")
        return real(*args, **options)

    monkeypatch.setattr(numba, "njit", nowhere)

    def double(x: float) -> float:
        return 2 * x

    kernel: Any = compiled(double)
    assert kernel(2.0) == 4.0
    assert kernel.signatures


def test_two_processes_may_start_at_once_with_an_empty_cache(tmp_path: Path) -> None:
    """Both compile the forward pass and what it calls, both write to one place, both are right."""
    both = [process_of(_FORWARD, NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2)]
    found = [process.communicate(timeout=240) for process in both]
    assert [process.returncode for process in both] == [0, 0], found
    assert found[0] == found[1]
    assert list(tmp_path.rglob("*.nbc"))
    # A third one finds their code and adds none.
    before = sorted(tmp_path.rglob("*.nbc"))
    with process_of(_FORWARD, NUMBA_CACHE_DIR=str(tmp_path)) as third:
        assert third.communicate(timeout=240)[0] == found[0][0]
    assert sorted(tmp_path.rglob("*.nbc")) == before


@pytest.mark.parametrize(
    "kernel", [step.advance, mlp.forward, mlp.descend, training.adam_step, decision.decide]
)
def test_every_kernel_lets_other_threads_run_and_trusts_nan(kernel: Any) -> None:
    options = kernel.targetoptions
    assert options["nogil"]
    assert options["nopython"]
    # Of the fast-math flags only these two: the others assume that there is no NaN.
    assert set(options["fastmath"]) == {"reassoc", "contract"}


def test_nan_is_seen_by_compiled_code() -> None:
    @compiled
    def count_missing(values: Any) -> int:
        count = 0
        for value in values:
            if np.isnan(value):
                count += 1
        return count

    assert count_missing(np.array([1.0, np.nan, np.inf])) == 1


# ------------------------------------------------------------------ kernels that call each other


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


def test_arrays_and_numbers_go_in_and_a_number_or_a_whole_number_comes_out() -> None:
    values = np.array([1.0, 2.0])
    assert _all(values, 3.0, False) == 4.0
    np.testing.assert_array_equal(values, [4.0, 8.0])
    assert _all(values, 1e3, False) == 0.0
    assert compiled(lambda values: count(values) + 1)(np.zeros(3)) == 4


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


def test_an_interrupt_while_compiling_is_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
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
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    found = [python("-c", _TRACE, env=environment, check=True).stdout.split() for _ in range(2)]
    assert found[0][0] == found[1][0]
    assert [each[1] for each in found] == ["0", "1"]
    # The kernel that was called is compiled anew, the one that calls it is not.
    for path in tmp_path.rglob("drift.measure*"):
        path.unlink()
    assert python("-c", _TRACE, env=environment, check=True).stdout.split() == found[1]


# ------------------------------------------------------------------ types of kernels' arguments


@pytest.mark.parametrize("command", [FIT, WATCH, SERVE])
def test_the_types_of_every_kernel_come_back(command: str) -> None:
    for job in jobs_of(command):
        assert types_of(text_of(job.types)) == job.types, job.name


def test_layout_dimensions_and_whether_it_can_be_written_to_are_kept() -> None:
    fixed = np.zeros((2, 3), np.float32)
    fixed.flags.writeable = False
    for array in (fixed, fixed.T, np.zeros((4, 4))[:, ::2], np.zeros(3, np.bool_)):
        kind = numba.typeof(array)  # type: ignore[no-untyped-call]
        assert types_of(text_of((kind,))) == (kind,)


def test_a_type_that_no_kernel_takes_is_an_error() -> None:
    with pytest.raises(TypeError, match="expected a type that kernels take, found unicode_type"):
        text_of((types.unicode_type,))
