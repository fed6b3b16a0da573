"""From `core/loop.py` to the verdict at most sixteen files are entered, counted by tracing `step`.

They are, as ARCHITECTURE.md draws them: the loop and the values (2), the model and its kernels (7:
the committee, its stage for models without positions, its loop, the step, the autoencoder, the
other members, the decision), acceptance (3: the stage, the open changes, the distance) and alarms
(4: the stage, silence, the threshold, and the sentence of one that opens).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "runs"
NOT_COUNTED = ("types/", "errors.py")  # plain data
MOST = 16


@pytest.mark.external
@pytest.mark.parametrize("state", ["quiet-quantile", "quiet-budget", "v5-quiet"])
def test_a_verdict_crosses_at_most_sixteen_files(state: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.house.trace_step", str(GOLDEN / f"{state}.nn")],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    steps = dict(zip(("quiet", "alarm"), map(json.loads, done.stdout.splitlines()), strict=True))
    for step, entered in steps.items():
        files = [name for name in entered if not name.startswith(NOT_COUNTED)]
        print(f"{state}, {step}:", *files, sep="\n  ")
        assert files[0] == "core/loop.py"
        assert "kernels/decision.py" in files
        assert len(files) <= MOST, files
