"""Compiled code is kept where it can be, and does without where it cannot."""

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

import newnormal
from newnormal.kernels import adam, decision, mlp, step
from newnormal.kernels.compiled import compiled

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


def python(code: str, **environment: str) -> subprocess.Popen[str]:
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
        with python(
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
    with python(blocked + _USE) as process:
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
    both = [python(_FORWARD, NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2)]
    found = [process.communicate(timeout=240) for process in both]
    assert [process.returncode for process in both] == [0, 0], found
    assert found[0] == found[1]
    assert list(tmp_path.rglob("*.nbc"))
    # A third one finds their code and adds none.
    before = sorted(tmp_path.rglob("*.nbc"))
    with python(_FORWARD, NUMBA_CACHE_DIR=str(tmp_path)) as third:
        assert third.communicate(timeout=240)[0] == found[0][0]
    assert sorted(tmp_path.rglob("*.nbc")) == before


@pytest.mark.parametrize(
    "kernel",
    [step.advance, mlp.forward, mlp.descend, adam.adam_step, decision.decide],
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
