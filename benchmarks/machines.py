"""Write the metrics of generated machines: history, and a live day on which things happen.

    python -m benchmarks.machines FOLDER --machines 50

`history.csv` and `live.csv` have a row a minute and machine: its time, the machine's name, load,
latency and temperature. On the live day a switch fails for 25 minutes (several machines at once: an
incident), three machines have a fault that passes, one runs hot until the end, one has a new level
since noon, and one goes silent.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from newnormal.types import Floats

CHANNELS = ("load", "latency", "temperature")
HISTORY, LIVE = 3_000, 1_440  # minutes
_START = np.datetime64("2026-03-02T00:00", "m")
_SWITCH = slice(500, 525)  # minutes of the live day


def machines(count: int, seed: int = 0) -> Iterator[tuple[str, Floats]]:
    """Give each machine's name and its values, of history and of the live day, shape (T, 3)."""
    rng = np.random.default_rng(seed)
    at = np.arange(HISTORY + LIVE)
    for nth in range(count):
        phase = rng.uniform(0, 2 * np.pi)
        size = rng.uniform(0.7, 1.4)
        load = 40 * size + 15 * np.sin(2 * np.pi * at / 360 + phase) + rng.normal(0, 2, len(at))
        latency = 12 + 0.1 * load + rng.gamma(2, 0.5, len(at))
        heat = np.convolve(load, np.ones(30) / 30, "full")[: len(at)]
        temperature = 30 + 0.5 * heat + rng.normal(0, 0.3, len(at))
        values = np.stack([load, latency, temperature], axis=1)
        values[:30] = values[30:60]  # before the mean of 30 minutes is full
        _happen(nth, values[HISTORY:])
        yield f"machine-{nth + 1:0{len(str(count))}}", values


def _happen(nth: int, day: Floats) -> None:
    """Change the live day of a machine."""
    if nth % 5 == 2:
        day[_SWITCH, 1] += 40.0
    if nth == 3:
        day[1_350:, 2] += np.linspace(0, 25, len(day) - 1_350)
    elif nth == 8:
        day[720:, 0] += 30.0
    elif nth == 15:
        day[1_200:1_210, 0] = 100.0
    elif nth == 21:
        day[300:400, 2] = day[300, 2]
    elif nth == 34:
        day[900:930, :2] *= 1.8
    elif nth == 40:
        day[1_380:] = np.nan


def write(folder: Path, count: int, seed: int = 0) -> None:
    """Write the two files into a folder."""
    found = list(machines(count, seed))
    times = np.datetime_as_string(_START + np.arange(HISTORY + LIVE))
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in (
        ("history.csv", range(HISTORY)),
        ("live.csv", range(HISTORY, HISTORY + LIVE)),
    ):
        with (folder / name).open("w", encoding="utf-8") as file:
            file.write(f"time,machine,{','.join(CHANNELS)}\n")
            for row in rows:
                for machine, values in found:
                    cells = ("" if np.isnan(each) else f"{each:.2f}" for each in values[row])
                    file.write(f"{times[row]},{machine},{','.join(cells)}\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the metrics of generated machines.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--machines", type=int, default=50)
    given = parser.parse_args()
    write(given.folder, given.machines)
