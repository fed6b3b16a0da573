"""What tests of all kinds share."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of the benchmark data, from NEWNORMAL_DATA; without it the test is skipped."""
    folder = os.environ.get("NEWNORMAL_DATA")
    if not folder:
        pytest.skip("needs the benchmark data: set NEWNORMAL_DATA to their folder")
    if not Path(folder).is_dir():
        pytest.fail(f"NEWNORMAL_DATA: expected a folder, found {folder!r}")
    return Path(folder)
