"""The four folders of experiments, and the one list that the command and the page are made from."""

import ast
from collections import Counter
from pathlib import Path

import pytest

import newnormal
import newnormal_reproduce
from newnormal.models import peers
from newnormal_reproduce.engine import competitors
from newnormal_reproduce.registry import ENTRIES

FOLDER = Path(newnormal_reproduce.__file__).parent
FILES = sorted(FOLDER.rglob("*.py"))
PUBLIC = ("_asdict", "_fields", "_make", "_replace", "_exit")  # of named tuples and os


def imported(path: Path) -> list[tuple[str, str]]:
    """Return the module and the name of each import."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            found += [(node.module or "", each.name) for each in node.names]
        elif isinstance(node, ast.Import):
            found += [(each.name, "") for each in node.names]
    return found


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_every_entry_has_a_function(entry: newnormal_reproduce.registry.ExperimentEntry) -> None:
    assert callable(entry.load())
    assert entry.help.endswith(")")


def test_names_of_experiments_are_unique() -> None:
    names = [entry.name for entry in ENTRIES]
    assert len(set(names)) == len(names)
    assert not {"all", "page"} & set(names)


def test_there_are_four_folders_a_registry_and_the_command() -> None:
    assert {path.name for path in FOLDER.iterdir() if not path.name.startswith("__")} == {
        *("engine", "paper", "ours", "report"),
        *("registry.py", "command.py"),
    }


def test_no_class_has_the_name_of_another_one_here_or_in_newnormal() -> None:
    sources = [*FILES, *Path(newnormal.__file__).parent.rglob("*.py")]
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in sources]
    names = Counter(
        node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    )
    here = {
        node.name
        for tree in trees[: len(FILES)]
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    assert [name for name in sorted(here) if names[name] > 1] == []


def test_the_pages_name_the_rows_that_pyods_detectors_are_given() -> None:
    assert competitors.MOST_ROWS == peers.MOST_ROWS


def test_the_engine_imports_no_experiment_and_no_report() -> None:
    for path in (FOLDER / "engine").glob("*.py"):
        for module, _ in imported(path):
            for part in ("paper", "ours", "report", "registry"):
                assert not module.startswith(f"newnormal_reproduce.{part}"), path.name


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_no_private_name_of_another_module_is_used(path: Path) -> None:
    for module, name in imported(path):
        assert not name.startswith("_"), name
        assert not any(part.startswith("_") for part in module.split(".") if part != "__future__")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    own |= {
        node.target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and node.attr[1] != "_":
            mine = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            assert mine or node.attr in own or node.attr in PUBLIC, node.attr
