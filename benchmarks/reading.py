"""``python -m benchmarks.reading``: lines a second of reading alone, beside an older commit.

What is read whole (`newnormal.tabular.read`) and what comes batch by batch (the source of `watch`),
each without a detector, beside the same of an older commit in the same run.
"""

from __future__ import annotations

import argparse
import gzip
import subprocess
import sys
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path

import numpy as np

from benchmarks.machine import facts
from benchmarks.report import Row, Section, Target, summary, to_markdown, to_text

DOCS = Path(__file__).parents[1] / "docs"
ROOT = Path(__file__).parents[1]
COMMAND = "make bench-reading"
OLD = "9580e3c"  # the commit that reading must not be slower than
LINES, CHANNELS = 200_000, 5
ROUNDS = 7
_ABOUT = "How fast files are read, without a detector."
CAVEATS = (
    "Old and new are measured in turns, each in a process of its own, with one warm-up; the "
    "figures are those of the fastest round.",
)

_WHOLE = """
import sys, time
from newnormal.tabular import read
options = dict(pair.split("=", 1) for pair in sys.argv[2:])
read(sys.argv[1], **options)
began = time.perf_counter()
table = read(sys.argv[1], **options)
print(len(table.values) / (time.perf_counter() - began))
"""
_LIVE = """
import sys, time
from newnormal.io.sources.lines import LineOptions, line_input
from newnormal.tabular import Reading
channels = tuple(sys.argv[2].split(","))
options = LineOptions(channels, Reading.of(dict(p.split("=", 1) for p in sys.argv[3:])))
def run():
    source, count = line_input(sys.argv[1], options), 0
    while (batch := source.next_batch(1 << 16)) is not None:
        count += len(batch)
    return count
run()
began = time.perf_counter()
count = run()
print(count / (time.perf_counter() - began))
"""
_LIVE_OLD = """
import sys, time
from newnormal.tabular import LineParser
def run():
    with open(sys.argv[1], encoding="utf-8") as file:
        parser = LineParser.open(next(file), channels=sys.argv[2].split(","))
        return sum(parser.parse(line) is not None for line in file)
run()
began = time.perf_counter()
count = run()
print(count / (time.perf_counter() - began))
"""


def main() -> int:
    """Measure, print, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reading", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fast look: few lines, no page")
    quick = parser.parse_args().quick
    with tempfile.TemporaryDirectory() as name:
        section = _measure(Path(name), 20_000 if quick else LINES, 2 if quick else ROUNDS)
    print(f"{to_text(section)}\n{summary([section])}")
    if not quick:
        text = to_markdown([section], facts(), CAVEATS, COMMAND, of="reading", about=_ABOUT)
        page = DOCS / "benchmarks-reading.md"
        page.write_text(text, encoding="utf-8")
        print(f"wrote {page}", file=sys.stderr)
    return 0


def _measure(folder: Path, lines: int, rounds: int) -> Section:
    old = _old(folder)
    plain, german = _plain(folder, lines), _german(folder, lines)
    channels = ",".join(f"c{at}" for at in range(CHANNELS))
    new = ROOT / "src"
    runs: dict[str, tuple[Path, str, list[str]]] = {
        "whole": (new, _WHOLE, [str(plain)]),
        "live": (new, _LIVE, [str(plain), channels]),
        "german whole": (new, _WHOLE, [str(german)]),
        "german live": (new, _LIVE, [str(german), channels]),
    }
    if old is not None:
        runs["old whole"] = (old, _WHOLE, [str(plain)])
        runs["old live"] = (old, _LIVE_OLD, [str(plain), channels])
    best = dict.fromkeys(runs, 0.0)
    for _ in range(rounds):
        for name, (source, script, arguments) in runs.items():
            best[name] = max(best[name], _timed(source, script, arguments))
    rows = []
    for how, title in (("whole", "a finished file, `read`"), ("live", "batch by batch, `watch`")):
        figures: dict[str, float | str] = {"lines/s": best[how]}
        target = None
        if old is not None:
            base = best[f"old {how}"]
            figures |= {f"{OLD}, lines/s": base, "times": best[how] / base}
            target = Target("times", 1.0, at_least=True)
        rows.append(Row(f"plain CSV: {title}", figures, target))
    for how, title in (("whole", "a finished file"), ("live", "batch by batch")):
        found = best[f"german {how}"]
        rows.append(
            Row(
                f"decimal comma, day-first dates and gzip: {title}",
                {"lines/s": found, "of plain": found / best[how]},
                Target("of plain", 0.5, at_least=True),
            )
        )
    notes = (
        f"{lines:,} lines with a time and {CHANNELS} channels; no detector."
        + ("" if old is not None else f" Commit {OLD} is not in this clone: nothing beside it."),
    )
    return Section("Reading", notes, "what", rows)


def _timed(source: Path, script: str, arguments: list[str]) -> float:
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={"PYTHONPATH": str(source), "PATH": "/usr/bin:/bin", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def _old(folder: Path) -> Path | None:
    """Return the sources of the older commit; None if this clone does not have it."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), "archive", OLD, "src"], capture_output=True, check=False
    )
    if done.returncode:
        return None
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(folder / "old", filter="data")
    return folder / "old" / "src"


def _values(lines: int) -> np.ndarray:
    return np.random.default_rng(0).normal(20, 5, (lines, CHANNELS)).round(4)


def _plain(folder: Path, lines: int) -> Path:
    times = np.datetime64("2026-01-01", "s") + np.arange(lines) * np.timedelta64(60, "s")
    rows = [
        f"{time},{','.join(map(str, row))}\n"
        for time, row in zip(times.tolist(), _values(lines).tolist(), strict=True)
    ]
    path = folder / "plain.csv"
    header = ",".join(["time", *(f"c{at}" for at in range(CHANNELS))])
    path.write_text(f"{header}\n" + "".join(rows))
    return path


def _german(folder: Path, lines: int) -> Path:
    times = np.datetime64("2026-01-01", "s") + np.arange(lines) * np.timedelta64(60, "s")
    header = ";".join(["Zeit", *(f"c{at}" for at in range(CHANNELS))])
    text = [header + "\n"]
    for time, row in zip(times.tolist(), _values(lines).tolist(), strict=True):
        cells = ";".join(map(str, row)).replace(".", ",")
        text.append(f"{time:%d.%m.%Y %H:%M:%S};{cells}\n")
    path = folder / "german.csv.gz"
    path.write_bytes(gzip.compress("".join(text).encode(), 6))
    return path


if __name__ == "__main__":
    sys.exit(main())
