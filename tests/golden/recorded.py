"""Files of recorded runs, some of which a source distribution leaves out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.make_runs import FOLDER

_CHECKOUT = Path(__file__).parents[2] / ".git"


def recorded(name: str) -> Path:
    """Return a file; skip the test in a source distribution that does not have it."""
    path = FOLDER / name
    if not path.exists() and not _CHECKOUT.exists():
        pytest.skip(f"needs {name}, which a source distribution does not have")
    return path
