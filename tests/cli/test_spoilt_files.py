"""Spoilt files through the commands: a message and an exit code, and JSON with nothing else."""

import json
from pathlib import Path

import pytest

from newnormal.cli.check import WARNED
from newnormal.cli.console import BAD_LINE, FAILED
from tests.cli.conftest import Command, Done
from tests.fuzz.inputs import spoilt_file

_CASES = range(220, 264)
_ENDINGS = (".csv", ".jsonl", ".txt", ".json", ".csv.gz", ".xlsx", ".parquet", "")


def check_answer(done: Done, *, lines: bool) -> None:
    """Check that a command has answered: what it printed is JSON, and an error is a sentence."""
    assert done.returncode in (0, FAILED, BAD_LINE, WARNED), done
    assert "Traceback" not in done.stderr
    if done.returncode == FAILED and not done.stdout:
        assert "error: " in done.stderr
    for text in done.stdout.splitlines() if lines else [done.stdout] if done.stdout else []:
        json.loads(text)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(2))
def test_every_command_answers(
    part: int, fitted: Path, fitted_fleet: Path, newnormal: Command, tmp_path: Path
) -> None:
    fit = ("fit", "--method", "m2n2", "--epochs", "1", "--window", "2", "-o", tmp_path / "out.nn")
    for case in _CASES[part::2]:
        path = tmp_path / f"case{case}{_ENDINGS[case % len(_ENDINGS)]}"
        path.write_bytes(spoilt_file(case))
        check_answer(newnormal("check", path, "--json"), lines=False)
        check_answer(newnormal("check", path, "--json", "--by", "host"), lines=False)
        check_answer(newnormal("score", fitted, path, "--drop", "host"), lines=True)
        for more in ((), ("--strict",), ("--flush", "--alarms-only", "--ignore-extra")):
            check_answer(newnormal("watch", fitted, path, *more), lines=True)
        check_answer(newnormal("score", fitted_fleet, path, "--by", "host"), lines=True)
        check_answer(newnormal("evaluate", fitted, path, "--label", "c", "--json"), lines=False)
        if case % 8 == 0:
            check_answer(newnormal(*fit, path), lines=True)
