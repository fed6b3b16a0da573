"""The test suite itself: what it needs, what it waits for, how it says what it lacks."""

import ast
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from conftest import lacking
from tests.counts import count, numbers
from tests.soak import Goal, Record, Slice, page, read_report, run
from tests.waiting import until

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())


def requirements(extra: str) -> set[str]:
    """Return the names of the packages an extra asks for, extras of newnormal's own followed."""
    found: set[str] = set()
    for each in PROJECT["project"]["optional-dependencies"][extra]:
        if own := re.fullmatch(r"newnormal\[(.*)\]", each):
            for other in own[1].split(","):
                found |= requirements(other)
        else:
            found.add(re.split(r"[<>=~! \[;]", each)[0])
    return found


def test_the_development_tools_are_without_pytorch_ray_and_triton() -> None:
    assert requirements("dev").isdisjoint({"torch", "ray", "triton"})
    assert "pytest" in requirements("dev")


@pytest.mark.skipif(os.name == "nt", reason="Windows needs variables of its own")
def test_variables_of_a_machine_do_not_reach_the_tests() -> None:
    asked = {"LANG", "COLUMNS", "NO_COLOR", *(name for name in os.environ if "PYTHON" in name)}
    assert asked & os.environ.keys() <= {"PYTHONPATH"}


def calls(tree: ast.AST) -> set[str]:
    """Return the last names of all that is called."""
    functions = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {getattr(each, "attr", getattr(each, "id", "")) for each in functions}


@pytest.mark.parametrize("folder", ["tests", "benchmarks"])
def test_no_test_sleeps_but_in_a_poll_with_a_deadline(folder: str) -> None:
    sleeping = [
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "sleep" in calls(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert sleeping == (["tests/waiting.py"] if folder == "tests" else [])


def test_waiting_returns_what_it_waited_for() -> None:
    answers = iter([None, 0, "", "here"])
    assert until(lambda: next(answers), "an answer") == "here"


def test_waiting_ends_at_its_deadline_and_tells_for_what() -> None:
    with pytest.raises(AssertionError, match=r"waited 0\.02 s for the port, found \[\]"):
        until(list, "the port", seconds=0.02)


def test_counts_are_small_unless_all_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEWNORMAL_SOAK", raising=False)
    assert count(40, 6000) == 40
    monkeypatch.setenv("NEWNORMAL_SOAK", "1")
    assert count(40, 6000) == 6000
    monkeypatch.setenv("NEWNORMAL_SOAK", "0.1")
    assert count(40, 6000) == 600


@pytest.mark.parametrize(
    ("reason", "what"),
    [
        ("Skipped: could not import 'torch': No module named 'torch'", "PyTorch (extra deep)"),
        ("Skipped: needs the extra deep", "PyTorch (extra deep)"),
        ("Skipped: PyTorch is not installed: see CONTRIBUTING.md", "PyTorch (extra deep)"),
        ("Skipped: could not import 'sklearn.metrics': No module", "scikit-learn (extra eval)"),
        ("Skipped: smd is not under NEWNORMAL_DATA", "the benchmark data (NEWNORMAL_DATA)"),
        ("needs the benchmark data: set NEWNORMAL_DATA", "the benchmark data (NEWNORMAL_DATA)"),
        ("the shell examples need bash", "bash"),
        ("needs chromium", "chromium"),
        ("modes are POSIX's", "modes are POSIX's"),
    ],
)
def test_what_a_skipped_test_lacks_is_named(reason: str, what: str) -> None:
    assert lacking(reason) == what


def test_a_long_test_takes_the_first_cases_or_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEWNORMAL_SOAK", raising=False)
    monkeypatch.delenv("NEWNORMAL_SLICE", raising=False)
    assert numbers(40, 6000) == range(40)
    monkeypatch.setenv("NEWNORMAL_SLICE", "40:90")
    assert numbers(40, 6000) == range(40, 90)


GOALS = {"a.py::x": Goal(10, 100), "b.py::y": Goal(5, 200), "c.py::whole": Goal(1, 60, True)}


def ran(test: str, first: int, cases: int, outcome: str = "passed", code: str = "new") -> Slice:
    return Slice(
        test, first, cases, 100, "2026-11-15", code, outcome, "what" * (outcome != "passed")
    )


def test_slices_go_on_and_the_smallest_part_is_next(tmp_path: Path) -> None:
    record = Record(tmp_path / "soak.csv", "new")
    asked = []
    while following := record.next(GOALS, 1_000.0):
        test, cases = following
        record.add(ran(test, cases.start, len(cases)))
        asked.append((test, cases.start, cases.stop))
    first = [("a.py::x", 0, 10), ("b.py::y", 0, 5), ("c.py::whole", 0, 60)]
    assert asked[:5] == [*first, ("b.py::y", 5, 17), ("b.py::y", 17, 45)]
    for test, goal in GOALS.items():
        slices = [cases for name, *cases in asked if name == test]
        assert all(one[1] == two[0] for one, two in pairwise(slices))
        assert goal.full <= record.done(test) < goal.full + goal.small
    kept = Record(tmp_path / "soak.csv", "newer")
    assert kept.slices == record.slices
    assert kept.next(GOALS, 1_000.0) is not None, "other code: again, with new numbers"
    assert kept.next(GOALS, 1.0) is None, "no slice is as short as that"


def test_a_failure_is_repeated_on_other_code_and_listed_until_it_passes(tmp_path: Path) -> None:
    record = Record(tmp_path / "soak.csv", "new")
    record.add(ran("a.py::x", 10, 30, "failed"))
    assert record.next(GOALS, 1_000.0) != ("a.py::x", range(10, 40))
    text = page(record, GOALS, {"processor": "one of them"})
    assert "This code is `new`. 1 slices failed." in text
    assert "| `a.py::x` | 30 | 100 | 30 | 100 | 2026-11-15 |  |" in text
    assert (
        "# 2026-11-15, new: what\nNEWNORMAL_SLICE=10:40 .venv/bin/python -m pytest 'tests/a" in text
    )
    assert "| processor | one of them |" in text
    record.code = "newer"
    assert record.next(GOALS, 1_000.0) == ("a.py::x", range(10, 40))
    record.add(ran("a.py::x", 10, 30, code="newer"))
    assert record.done("a.py::x") == 30 and not record.failed()
    assert "Failures" not in page(record, {}, {})


def test_what_a_slice_came_to_is_read_from_the_report_of_pytest(tmp_path: Path) -> None:
    told = '<t><case><failure message="AssertionError:\n case 3">at</failure></case></t>'
    assert read_report(told, 1) == ("failed", "AssertionError: case 3")
    assert read_report('<t><property name="found" value="60 min"/></t>', 0) == ("passed", "60 min")
    assert read_report('<t><skipped message="needs it"/></t>', 0) == ("skipped", "needs it")
    assert read_report("", -9)[1] == "pytest ended with exit code -9, without a report"


def test_a_test_may_record_what_it_found(record_property: Callable[[str, object], None]) -> None:
    record_property("found", "7 files")


def test_what_a_test_found_is_kept_with_its_slice() -> None:
    found = run("unit/test_suite.py::test_a_test_may_record_what_it_found", range(1), "new")
    assert found is not None and (found.outcome, found.found) == ("passed", "7 files")


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_script_of_ci_is_bash() -> None:
    subprocess.run(["bash", "-n", str(ROOT / ".ci" / "run")], check=True)
