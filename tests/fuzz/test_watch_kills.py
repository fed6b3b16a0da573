"""Processes that watch are killed: the output is that of one process, byte for byte."""

import json
import os
from pathlib import Path

import pytest

from tests.processes import python

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX: processes that are forked")


def killed(folder: Path, cases: range, mode: str) -> str:
    done = python(
        *("-m", "tests.fuzz.watch_kills", folder, len(cases), cases.start, mode),
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kills"] == len(cases)
    return done.stdout


@pytest.mark.cases(4, 200)
def test_one_stream(tmp_path: Path, cases: range) -> None:
    killed(tmp_path, cases, "one")


@pytest.mark.cases(2, 100)
def test_500_streams(tmp_path: Path, cases: range) -> None:
    killed(tmp_path, cases, "many")


@pytest.mark.cases(4, 50)
def test_a_folder_that_is_handed_to_a_service_and_back(tmp_path: Path, cases: range) -> None:
    killed(tmp_path, cases, "handed")
