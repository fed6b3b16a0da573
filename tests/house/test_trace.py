"""From `core/loop.py` to the verdict at most 17 files are entered, counted by tracing `step`.

They are, as ARCHITECTURE.md draws them: the loop and the values (2), the judge of channels (1), the
model and its kernels (7: the committee, its loop, the step, the autoencoder, the other members,
what was accepted, the decision), acceptance (2: the stage, the distance) and alarms (5: the stage,
silence, the threshold, the log, and the sentence of one that opens).
"""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from newnormal import Detector
from tests.processes import python

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "runs"
# Plain data, how numbers are written, and how kernels are called.
NOT_COUNTED = ("types/", "errors.py", "texts.py", "kernels/compiled.py")
MOST = 17


def traced(path: Path) -> dict[str, list[str]]:
    """Return the files that a quiet step enters, and one that opens an alarm."""
    done = python(
        "-m", "tests.house.trace_step", path, cwd=ROOT, env=os.environ | {"NUMBA_DISABLE_JIT": "1"}
    )
    assert done.returncode == 0, done.stderr[-2000:]
    steps = dict(zip(("quiet", "alarm"), map(json.loads, done.stdout.splitlines()), strict=True))
    return {
        step: [name for name in entered if not name.startswith(NOT_COUNTED)]
        for step, entered in steps.items()
    }


def check(steps: dict[str, list[str]]) -> None:
    for step, files in steps.items():
        print(f"{step}:", *files, sep="\n  ")
        assert files[0] == "core/loop.py"
        assert "kernels/decision.py" in files
        assert len(files) <= MOST, files


def test_a_verdict_crosses_at_most_17_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    history = np.sin(np.arange(1_000) / 9)[:, None] + rng.normal(0, 0.1, (1_000, 3))
    Detector().fit(history).save(tmp_path / "plant.nn")
    steps = traced(tmp_path / "plant.nn")
    check(steps)
    assert "kernels/members.py" in steps["quiet"]


@pytest.mark.parametrize("state", ["quiet", "quantile"])
def test_a_verdict_of_a_recorded_state_crosses_no_more(state: str) -> None:
    check(traced(GOLDEN / f"{state}.nn"))
