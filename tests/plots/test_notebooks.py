"""The example notebooks run, and what is committed of them is small and whole."""

import json
from pathlib import Path
from typing import Any

import pytest

from docs.notebooks.execute import FOLDER, execute

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def code(notebook: Any) -> list[Any]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def kinds(cell: Any) -> list[list[str]]:
    """Return what each output of a cell is: kinds of data, or a stream's name."""
    return [sorted(each.get("data", [each.get("name", "")])) for each in cell["outputs"]]


def test_there_is_one() -> None:
    if not NOTEBOOKS:
        pytest.skip("needs the git repository")  # the sdist is without
    assert [path.name for path in NOTEBOOKS] == ["first_look.ipynb"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_what_is_committed_is_small_and_has_its_outputs(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text) < 500_000
    assert "<iframe" not in text
    assert "/tmp" not in text
    cells = code(json.loads(text))
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert all(cell["outputs"] for cell in cells)
    pictures = [kind for cell in cells for found in kinds(cell) for kind in found]
    assert pictures.count("image/png") >= 2


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_it_runs(path: Path) -> None:
    for needed in ("nbclient", "ipykernel", "pandas", "matplotlib"):
        pytest.importorskip(needed)
    found = execute(path)
    before = json.loads(path.read_text(encoding="utf-8"))
    assert [kinds(cell) for cell in code(found)] == [kinds(cell) for cell in code(before)]
