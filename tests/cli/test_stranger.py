"""A stranger's first five minutes: an empty environment, an install, and what `example` names."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

if os.name == "nt":
    pytest.skip("there are no such terminals", allow_module_level=True)

from tests.cli.terminals import on_terminal, plain

ROOT = Path(__file__).parents[2]
# What pip says where no registry can be reached, or one that has not what is needed.
UNREACHED = ("No matching distribution", "Could not find a version", "Connection", "resolve host")
SECONDS = 300


def clean() -> dict[str, str]:
    """Return the environment without what belongs to the tests."""
    ours = ("PYTHON", "NUMBA", "NEWNORMAL")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def run(*command: object, cwd: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a program as one would in a shell."""
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**clean(), "PIP_CONSTRAINT": str(ROOT / "constraints.txt")},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert not check or done.returncode == 0, f"{shlex.join(map(str, command))}:\n{done.stderr}"
    return done


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an empty environment into which the wheel of this tree was installed."""
    folder = tmp_path_factory.mktemp("stranger")
    run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    pip = (folder / "venv/bin/python", "-m", "pip", "--disable-pip-version-check", "--quiet")
    done = run(*pip, "wheel", "--no-deps", "--wheel-dir", folder, ROOT, cwd=folder, check=False)
    if done.returncode == 0:
        (wheel,) = folder.glob("newnormal-*.whl")
        done = run(*pip, "install", "--prefer-binary", wheel, cwd=folder, check=False)
    if done.returncode and any(each in done.stderr for each in UNREACHED):
        where = run(*pip, "config", "list", cwd=folder).stdout.split() or ["https://pypi.org"]
        pytest.skip(f"no registry with what the install needs: {' '.join(where)}")
    assert done.returncode == 0, done.stderr
    return folder / "venv/bin"


def test_from_the_install_to_an_alarm(installed: Path, tmp_path: Path) -> None:
    newnormal = installed / "newnormal"
    text = run(newnormal, "example", cwd=tmp_path).stdout
    check, fit, watch, alarms, feedback, report, _ = re.findall(
        r"^  newnormal (.*)$", text.partition("Eight machines")[0], re.MULTILINE
    )
    assert "10,080 of 6 channels" in run(newnormal, *check.split(), cwd=tmp_path).stdout
    run(newnormal, *fit.split(), cwd=tmp_path)
    watched = on_terminal(*watch.split(), program=[newnormal], inherited=clean(), cwd=tmp_path)
    shown = plain(watched.stdout)
    assert watched.returncode == 0
    assert "2026-03-09 09:20:00  ALARM 1 opened: temperature high\n" in shown
    listed = run(newnormal, *alarms.split(), cwd=tmp_path).stdout
    assert "\n1 change open\n" in listed
    # What the terminal and the list name as the way to accept the change is what `example` names.
    assert all(f"newnormal {feedback}" in each for each in (text, shown, listed))
    run(newnormal, *feedback.split(), cwd=tmp_path)
    assert "nothing is open" in run(newnormal, *alarms.split(), cwd=tmp_path).stdout
    run(newnormal, *report.split(), cwd=tmp_path)
    assert (tmp_path / "report.html").stat().st_size > 10_000
