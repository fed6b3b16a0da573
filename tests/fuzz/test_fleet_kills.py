"""Processes that have a fleet open are killed: nothing is lost, and nothing is different."""

import json
import os
from pathlib import Path

import pytest

from tests.processes import python


@pytest.mark.cases(6, 50)
@pytest.mark.skipif(os.name != "posix", reason="needs POSIX: processes that are forked and killed")
def test_a_kill_at_any_moment_changes_nothing(tmp_path: Path, cases: range) -> None:
    kills, seed = len(cases), 3 + cases.start
    done = python(
        "-m", "tests.fuzz.fleet_kills", tmp_path, kills, seed, cwd=Path(__file__).parents[2]
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["kills"] == kills and found["places"][-1] > kills
