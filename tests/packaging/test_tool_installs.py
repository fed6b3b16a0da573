"""The wheel as a tool of its own, by `pipx install` and `uv tool install`, and the first steps.

Slow, and needs an index of packages: `.ci/run` installs pipx and uv and says where they are, in
NEWNORMAL_INSTALLERS, and which wheel to install, in NEWNORMAL_WHEEL. Without, these are skipped.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import newnormal

INSTALLERS = os.environ.get("NEWNORMAL_INSTALLERS")
WHEEL = os.environ.get("NEWNORMAL_WHEEL")

COMMANDS = {
    "pipx": ["pipx", "install", "--python", sys.executable],
    "uv": ["uv", "tool", "install", "--python", sys.executable],
}


def run(command: list[str], folder: Path, env: dict[str, str]) -> str:
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.skipif(not INSTALLERS or not WHEEL, reason="needs pipx and uv, as .ci/run has them")
@pytest.mark.parametrize("installer", ["pipx", "uv"])
def test_the_wheel_works_as_a_tool_of_its_own(installer: str, tmp_path: Path) -> None:
    program, *arguments = COMMANDS[installer]
    bin_folder = tmp_path / "bin"
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    env |= {
        "PIPX_HOME": str(tmp_path / "pipx"),
        "PIPX_BIN_DIR": str(bin_folder),
        "PIPX_MAN_DIR": str(tmp_path / "man"),
        "UV_TOOL_DIR": str(tmp_path / "uv"),
        "UV_TOOL_BIN_DIR": str(bin_folder),
        "UV_CACHE_DIR": str(tmp_path / "cache"),
        "UV_PYTHON_DOWNLOADS": "never",
        "NUMBA_CACHE_DIR": str(tmp_path / "compiled"),
    }
    run([str(Path(str(INSTALLERS)) / program), *arguments, str(WHEEL)], tmp_path, env)
    tool = str(bin_folder / "newnormal")
    assert newnormal.__version__ in run([tool, "--version"], tmp_path, env)
    run([tool, "example"], tmp_path, env)
    run([tool, "fit", "history.csv", "-o", "plant.nn"], tmp_path, env)
    assert (tmp_path / "plant.nn").is_file()
    assert run([tool, "check", "live.csv"], tmp_path, env)
