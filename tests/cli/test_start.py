"""How `newnormal` starts."""

import subprocess
import sys

import pytest


@pytest.mark.external
def test_the_command_line_starts_without_numba() -> None:
    code = "import newnormal.cli.app, sys; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
