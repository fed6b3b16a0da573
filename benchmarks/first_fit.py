"""``python -m benchmarks.first_fit``: the first commands after an install, beside an older commit.

Each is run as a program with an empty folder for Numba's cache, old and new in turns.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from io import BytesIO
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

from benchmarks.machine import facts
from benchmarks.report import Row, Section, Target, summary, to_markdown, to_text
from benchmarks.series import correlated

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks-first.md"
COMMAND = "make bench-first"
OLD = "9580e3c"  # the commit beside which the first fit is measured
LIMIT = 0.65
ROUNDS = 5
SAMPLES, CHANNELS = 2_000, 5
_ABOUT = "How long the first commands after an install take, when code is compiled."
CAVEATS = (
    "Seconds are by the wall clock, because several processes compile at the same time: other "
    "programs on the machine count. Processor seconds are those of all processes together.",
    "Old and new are run in turns. The figures are medians of the rounds, and the ratio is the "
    "median of the ratios within each round.",
)


class Taken(NamedTuple):
    """What one run of a command took."""

    wall: float
    processor: float
    said: str


class Place:
    """A folder with the files of a plant, a cache for each version, and one model for each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        series = correlated(SAMPLES + 50, CHANNELS)
        header = ",".join(f"channel{number}" for number in range(CHANNELS))
        for name, part in (("history", series[:SAMPLES]), ("live", series[SAMPLES:])):
            path = folder / f"{name}.csv"
            np.savetxt(path, part, delimiter=",", header=header, comments="", fmt="%.6f")

    def empty(self, version: str) -> None:
        """Remove what a version has compiled."""
        shutil.rmtree(self.folder / f"cache of {version}", ignore_errors=True)

    def run(self, source: Path, version: str, command: str, processes: int | None = None) -> Taken:
        """Run `fit` or `watch` of the sources in a folder."""
        model = str(self.folder / f"{version}.nn")
        words = {
            "fit": ["fit", str(self.folder / "history.csv"), "-o", model],
            "watch": ["watch", model, str(self.folder / "live.csv")],
        }[command]
        environment = os.environ | {
            "PYTHONPATH": str(source),
            "NUMBA_CACHE_DIR": str(self.folder / f"cache of {version}"),
        }
        if processes is not None:
            environment["NEWNORMAL_COMPILERS"] = str(processes)
        before, start = os.times(), time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-P", "-m", "newnormal", *words],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=True,
        )
        wall, after = time.perf_counter() - start, os.times()
        spent = after.children_user - before.children_user
        spent += after.children_system - before.children_system
        return Taken(wall, spent, done.stderr)


def main() -> int:
    """Measure, print, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_fit", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fast look: one round, no page")
    quick = parser.parse_args().quick
    machine = facts()  # before, so that the load is that of others
    with tempfile.TemporaryDirectory() as name:
        section = measure(Path(name), 1 if quick else ROUNDS)
    print(f"{to_text(section)}\n{summary([section])}")
    if not quick:
        text = to_markdown([section], machine, CAVEATS, COMMAND, of="the first start", about=_ABOUT)
        PAGE.write_text(text, encoding="utf-8")
        print(f"wrote {PAGE}", file=sys.stderr)
    return 0


def measure(folder: Path, rounds: int) -> Section:
    """Run the first commands of both versions, in turns."""
    place, new, old = Place(folder), ROOT / "src", _old(folder)
    taken: dict[str, list[Taken]] = {"old": [], "new": [], "alone": [], "watch": [], "again": []}
    for _ in range(rounds):
        if old is not None:
            place.empty("old")
            taken["old"].append(place.run(old, "old", "fit"))
        place.empty("new")
        taken["new"].append(place.run(new, "new", "fit"))
        taken["watch"].append(place.run(new, "new", "watch"))
        taken["again"].append(place.run(new, "new", "fit"))
        place.empty("new")
        taken["alone"].append(place.run(new, "new", "fit", processes=1))
    rows = [
        _row("first `fit`", taken["new"], taken["old"], LIMIT),
        _row("first `fit`, with one process alone", taken["alone"], taken["old"]),
        _row("first `watch` after it", taken["watch"], []),
        _row("second `fit`", taken["again"], []),
    ]
    notes = (
        f"The default detector, on {SAMPLES:,} samples of {CHANNELS} channels. “First” is with an "
        "empty folder for Numba's cache, as right after an install; Python's own files are there."
        + ("" if old is not None else f" Commit {OLD} is not in this clone: nothing beside it."),
    )
    return Section("First start", notes, "command", rows)


def _row(name: str, new: list[Taken], old: list[Taken], limit: float | None = None) -> Row:
    figures: dict[str, float | str] = {
        "s": median(each.wall for each in new),
        "processor s": median(each.processor for each in new),
        "prints that it compiles": "yes" if "compiling for this machine" in new[0].said else "no",
    }
    target = None
    if old:
        figures[f"{OLD}, s"] = median(each.wall for each in old)
        figures[f"{OLD}, processor s"] = median(each.processor for each in old)
        figures["ratio"] = median(n.wall / o.wall for n, o in zip(new, old, strict=True))
        target = None if limit is None else Target("ratio", limit)
    return Row(name, figures, target)


def _old(folder: Path) -> Path | None:
    """Return the sources of the older commit; None if this clone does not have it."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), "archive", OLD, "src"], capture_output=True, check=False
    )
    if done.returncode:
        return None
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(folder / "source", filter="data")
    return folder / "source" / "src"


if __name__ == "__main__":
    sys.exit(main())
