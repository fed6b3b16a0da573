"""What several of these tests read."""

from pathlib import Path
from typing import Any

import pytest

from newnormal.tabular import Table, read


@pytest.fixture
def table(tmp_path: Path) -> Any:
    """Return what reads a text as a file."""

    def read_text(text: str, name: str = "plant.csv", **options: Any) -> Table:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return read(path, **options)

    return read_text
