"""`newnormal watch` of many streams beside that of one stream, a line at the same cost."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.series import correlated
from newnormal import Detector, Fleet
from newnormal.detector import from_state
from newnormal.tabular import Table

STREAMS, CHANNELS, LINES = 500, 5, 60_000
_HISTORY = 2_000
# A process counts the memory of the one that started it as its own: a small one starts it.
_MEASURE = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss)
"""
_START = np.datetime64("2026-01-01", "s")


@dataclass(frozen=True)
class WatchCost:
    """What a line costs.

    Attributes
    ----------
    streams, channels, lines
        What was watched.
    fleet_us, one_us
        Processor time of a line in microseconds: of many streams, and of one.
    fleet_mb, one_mb
        The most memory of each process, in MB.
    """

    streams: int
    channels: int
    lines: int
    fleet_us: float
    one_us: float
    fleet_mb: float
    one_mb: float

    @property
    def ratio(self) -> float:
        """How many times as much a line of many streams costs as one of one stream."""
        return self.fleet_us / self.one_us


def watch_cost(
    streams: int = STREAMS, channels: int = CHANNELS, lines: int = LINES, rounds: int = 2
) -> WatchCost:
    """Watch as many lines of a fleet and of one stream, in turns; the best of some rounds counts.

    Starting, loading the fleet and loading compiled code is measured with one line a stream, and
    subtracted. The streams have the same history, and each its own copy of the fit.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fleet, one = _fitted(folder, streams, channels)
        ticks = lines // streams
        inputs = {
            "fleet": _write(folder / "fleet.csv", streams, ticks, channels),
            "one": _write(folder / "one.csv", 1, ticks * streams, channels),
            "start": _write(folder / "start.csv", streams, 1, channels),
        }
        commands = {
            "fleet": (fleet, inputs["fleet"], True),
            "fleet start": (fleet, inputs["start"], True),
            "one": (one, inputs["one"], False),
            "one start": (one, _write(folder / "first.csv", 1, 1, channels), False),
        }
        found: dict[str, list[tuple[float, float]]] = {each: [] for each in commands}
        for _ in range(rounds):
            for each, how in commands.items():
                found[each].append(_watched(folder, *how))
    best = {each: min(seconds for seconds, _ in runs) for each, runs in found.items()}
    most = {each: max(memory for _, memory in runs) for each, runs in found.items()}
    count = ticks * streams
    return WatchCost(
        streams,
        channels,
        count,
        (best["fleet"] - best["fleet start"]) / (count - streams) * 1e6,
        (best["one"] - best["one start"]) / (count - 1) * 1e6,
        most["fleet"],
        most["one"],
    )


def _fitted(folder: Path, streams: int, channels: int) -> tuple[Path, Path]:
    times = _START + np.arange(_HISTORY) * np.timedelta64(60, "s")
    table = Table(
        correlated(_HISTORY, channels),
        tuple(f"channel-{at}" for at in range(channels)),
        times.astype("datetime64[ns]"),
    )
    one = Detector(seed=0).fit(table)
    one.save(folder / "one.nn")
    fleet = Fleet()
    for at in range(streams):
        fleet.add(f"host-{at:03}", from_state(one.to_state()))
    fleet.save(folder / "plant.fleet")
    return folder / "plant.fleet", folder / "one.nn"


def _write(path: Path, streams: int, ticks: int, channels: int) -> Path:
    """Write interleaved lines: at each time one of every stream.

    Each stream has a stretch of one series, which a single stream has whole.
    """
    values = correlated(_HISTORY + streams * ticks, channels)[_HISTORY:]
    cells = np.char.mod("%.5f", values).reshape(streams, ticks, channels).swapaxes(0, 1)
    names = [f"host-{at:03}," if streams > 1 else "" for at in range(streams)]
    with path.open("w") as file:
        host = "host," if streams > 1 else ""
        file.write(f"time,{host}{','.join(f'channel-{at}' for at in range(channels))}\n")
        for tick in range(ticks):
            time = _START + np.timedelta64(60 * (_HISTORY + tick), "s")
            for name, row in zip(names, cells[tick].tolist(), strict=True):
                file.write(f"{time},{name}{','.join(row)}\n")
    return path


def _watched(folder: Path, model: Path, path: Path, many: bool) -> tuple[float, float]:
    """Watch a file from its beginning; return the processor time and the most memory in MB."""
    state = folder / "watched"
    shutil.rmtree(state, ignore_errors=True)
    options = ["--state", str(state), *(["--by", "host"] if many else [])]
    command = [sys.executable, "-m", "newnormal", "watch", str(model), str(path), "-q", *options]
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE, *command], capture_output=True, text=True, check=True
    )
    seconds, kilobytes = map(float, done.stdout.split())
    return seconds, kilobytes / 1000


if __name__ == "__main__":
    print(watch_cost())
