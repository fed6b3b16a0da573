"""The repository and the source distribution stay small."""

import io
import re
import subprocess
import tarfile
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
MOST = {".csv": 300_000, ".png": 150_000}  # bytes of a file


def tracked() -> list[str]:
    if not (ROOT / ".git").exists():
        pytest.skip("needs the git repository")
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True)
    return [name for name in done.stdout.split("\0") if (ROOT / name).is_file()]


def test_results_are_markdown_csv_and_one_png_a_figure() -> None:
    kept = [Path(name) for name in tracked() if name.startswith("docs/results/")]
    assert {path.suffix for path in kept if path.name != ".gitignore"} == {".md", ".csv", ".png"}
    linked = {
        name
        for page in RESULTS.glob("*.md")
        for name in re.findall(r"^!\[.*\]\((.+)\)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert linked == {path.name for path in kept if path.suffix == ".png"}


def test_every_table_and_picture_is_light() -> None:
    docs = [path for path in (ROOT / "docs").rglob("*") if path.suffix in MOST]
    assert docs
    heavy = {path.name: path.stat().st_size for path in docs}
    assert {name: size for name, size in heavy.items() if size > MOST[Path(name).suffix]} == {}


def test_every_page_of_results_names_the_commit_that_computed_it() -> None:
    for page in RESULTS.glob("*.md"):
        text = page.read_text(encoding="utf-8")
        assert re.search(r"computed by commit [0-9a-f]{7}", text), page.name


def test_the_source_distribution_has_no_pictures_of_results_and_is_under_3_mb() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    sdist = project["tool"]["hatch"]["build"]["targets"]["sdist"]

    def chosen(name: str) -> bool:
        path = f"/{name}"
        included = any(
            path.startswith(f"{each}/") or (fnmatch(path, each) and path.count("/") == 1)
            for each in sdist["include"]
        )
        return included and not any(fnmatch(path, each) for each in sdist["exclude"])

    names = [name for name in tracked() if chosen(name)]
    assert "src/newnormal/__init__.py" in names
    assert "docs/results/ablation.csv" in names
    assert not [name for name in names if fnmatch(name, "docs/results/*.png")]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name in names:
            archive.add(ROOT / name, name)
    assert packed.tell() < 3_000_000
