"""The test suite itself: what it needs, what it waits for, how it says what it lacks."""

import ast
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from conftest import lacking

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


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_script_of_ci_is_bash() -> None:
    subprocess.run(["bash", "-n", str(ROOT / ".ci" / "run")], check=True)
