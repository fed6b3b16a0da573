"""The memory of a fleet, and the cost of a tick, against the number of streams."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.fleet_tick import fleet_of, live
from benchmarks.report import Row, Section, Target

COUNTS = (1, 10, 100, 1_000, 10_000, 100_000)
MOST_GB = 16.0
QUIET_KB = {5: 150.0, 38: 3_200.0}  # at most, of a quiet stream that has accepted nothing
Point = dict[str, float]


def points(channels: int = 5, counts: tuple[int, ...] = COUNTS) -> list[Point]:
    """Return memory and cost for each number of streams; each in a process of its own."""
    found: list[Point] = []
    for count in counts:
        command = [sys.executable, "-m", "benchmarks.fleet_memory", str(count), str(channels)]
        root = Path(__file__).parents[1]
        answer = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
        found.append(json.loads(answer.stdout))
    return found


def _point(streams: int, channels: int) -> Point:
    """Measure one fit copied under so many names."""
    before = _resident()
    fleet, _ = fleet_of(streams, channels, distinct=False)
    best = np.inf
    samples, times = live(streams, channels, 8, 0)
    for tick, when in zip(samples, times, strict=True):
        began = time.perf_counter()
        fleet.step(tick, when)
        best = min(best, time.perf_counter() - began)
    return {
        "streams": streams,
        "seconds": best,
        "resident": _resident(),
        "before": before,
        "a stream": sum(each.nbytes for each in fleet.blocks()) / streams,
    }


def _resident() -> float:
    """Return the bytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096.0


def measure(found: list[Point], quick: bool) -> Section:
    """Return what a quiet stream takes, and what the largest fleet takes."""
    rows = []
    for channels, most in QUIET_KB.items():
        fleet, _ = fleet_of(2, channels)
        kilobytes = fleet.nbytes_ / 2 / 1e3
        rows.append(
            Row(
                f"a quiet stream of {channels} channels, its fit included",
                {"kB a stream": kilobytes},
                Target("kB a stream", most),
            )
        )
    largest = found[-1]
    gigabytes = largest["resident"] / 1e9
    rows.append(
        Row(
            f"{int(largest['streams']):,} streams of 5 channels, one fit copied, the whole process",
            {
                "kB a stream": largest["resident"] / largest["streams"] / 1e3,
                "GB": gigabytes,
            },
            None if quick else Target("GB", MOST_GB),
        )
    )
    return Section("Memory", _NOTES, "what", rows)


_NOTES = (
    "A stream has accepted nothing and has no open change. Streams of one fit share what fitting "
    "left; a stream of its own fit has its own.",
)

if __name__ == "__main__":
    print(json.dumps(_point(int(sys.argv[1]), int(sys.argv[2]))))
