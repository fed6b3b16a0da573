"""What `pip install newnormal` puts on the disk."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib.metadata import Distribution, distributions
from pathlib import Path

from benchmarks.report import NotMeasured, Row, Section, Target

ROOT = Path(__file__).parents[1]
INSTALLER = {"pip", "setuptools"}

NOTES = (
    "A new virtual environment, the package installed from this checkout with the pinned versions "
    "and no extras, and every file under site-packages counted, byte code included; pip itself "
    "is not. LLVM, which Numba brings as `llvmlite`, is most of it.",
)


def measure(quick: bool) -> Section:
    """Install into a temporary environment and add up."""
    del quick  # there is no quicker way
    with tempfile.TemporaryDirectory() as folder:
        python = Path(folder) / "bin" / "python"
        _do(sys.executable, "-m", "venv", folder)
        _do(str(python), "-m", "pip", "install", "--quiet", "--constraint",
            str(ROOT / "constraints.txt"), str(ROOT))  # fmt: skip
        sizes = _sizes(next(Path(folder).glob("lib/python*/site-packages")))
    total = Row("all", {"MB": sum(sizes.values())}, Target("MB", 330))
    by_size = sorted(sizes, key=lambda name: -sizes[name])
    small = [name for name in by_size if sizes[name] < 1]
    rows = [Row(name, {"MB": sizes[name]}) for name in by_size if name not in small]
    rest = Row(f"{len(small)} smaller ones", {"MB": sum(sizes[name] for name in small)})
    return Section("Installed size", NOTES, "package", [total, *rows, rest])


def _sizes(site: Path) -> dict[str, float]:
    """Return the size of each installed package in MB."""
    installed = [each for each in distributions(path=[str(site)]) if each.name not in INSTALLER]
    return {each.name: _size(each) for each in installed}


def _size(distribution: Distribution) -> float:
    paths = (Path(str(file.locate())) for file in distribution.files or [])
    return sum(path.stat().st_size for path in paths if path.exists()) / 1e6


def _do(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["nothing"]
        raise NotMeasured(f"`{' '.join(command[1:4])}` failed and said: {said[-1]}")
