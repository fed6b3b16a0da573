"""How `newnormal` starts."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("heavy", ["numba", "numpy"])
def test_the_command_line_starts_without_what_commands_need(heavy: str) -> None:
    code = f"import newnormal.cli.app, sys; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
