"""A fleet that command line tests work on, and lines of its streams."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newnormal import Detector, Fleet
from newnormal.tabular import read_tables

HOSTS = ("web-1", "web-2", "web-3", "db")
HISTORY, LIVE = 500, 120
FAULT = range(HISTORY + 60, HISTORY + 70)


def host_lines(count: int, start: int = 0, hosts: tuple[str, ...] = HOSTS) -> list[str]:
    """Return interleaved rows `time,host,cpu,mem`, one a minute and host, with a fault in all."""
    lines = []
    for at in range(start, start + count):
        when = np.datetime64("2026-01-01T00:00:00") + np.timedelta64(60 * at, "s")
        rng = np.random.default_rng(at)
        for host in hosts:
            cpu, mem = np.sin(at / 9), np.cos(at / 13)
            cpu, mem = np.array([cpu, mem]) + rng.normal(0, 0.1, 2)
            lines.append(f"{when},{host},{cpu + 6 * (at in FAULT):.4f},{mem:.4f}")
    return lines


def long_lines(lines: list[str]) -> list[str]:
    """Return the same as rows `time,host,tag,value`."""
    cells = [line.split(",") for line in lines]
    return [
        f"{time},{host},{tag},{value}"
        for time, host, cpu, mem in cells
        for tag, value in (("cpu", cpu), ("mem", mem))
    ]


def write(path: Path, header: str, lines: list[str]) -> Path:
    path.write_text("\n".join([header, *lines]) + "\n", errors="surrogateescape")
    return path


WIDE, LONG = "time,host,cpu,mem", "time,host,tag,value"


@dataclass(frozen=True)
class Site:
    """A folder with a fleet and its live data."""

    folder: Path
    fleet: Path
    live: Path
    lines: list[str]

    @property
    def state(self) -> Path:
        """The folder in which a watch keeps what it learns."""
        return self.folder / "fleet.state"

    @property
    def watch(self) -> tuple[object, ...]:
        """The command that goes on in that folder."""
        return ("watch", self.fleet, self.live, "--by", "host", "--state", self.state)

    def write(self, lines: list[str], name: str = "live.csv", header: str = WIDE) -> Path:
        return write(self.folder / name, header, lines)

    def labelled(self, quiet: str | None = None) -> Path:
        """Return the live data with labels; `quiet` is labelled where nothing happens."""
        body = []
        for at, line in enumerate(self.lines):
            sample, host = HISTORY + at // len(HOSTS), line.split(",")[1]
            truth = sample in FAULT if host != quiet else sample == HISTORY + 20
            body.append(f"{line},{int(truth)}")
        return self.write(body, "labelled.csv", f"{WIDE},truth")

    def by_stream(self, lines: list[str]) -> dict[str, list[dict[str, Any]]]:
        """Return the JSON lines of each stream."""
        found: dict[str, list[dict[str, Any]]] = {}
        for line in lines:
            values = json.loads(line)
            found.setdefault(values["stream"], []).append(values)
        return found


@pytest.fixture(scope="session")
def fitted_fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet")
    history = write(folder / "history.csv", WIDE, host_lines(HISTORY))
    fleet = Fleet(Detector(epochs=1), workers=1).fit(read_tables(history, by="host"))
    fleet.save(folder / "plant.fleet")
    return folder / "plant.fleet"


@pytest.fixture
def site(fitted_fleet: Path, tmp_path: Path) -> Site:
    shutil.copytree(fitted_fleet, tmp_path / "plant.fleet")
    lines = host_lines(LIVE, HISTORY)
    live = write(tmp_path / "live.csv", WIDE, lines)
    return Site(tmp_path, tmp_path / "plant.fleet", live, lines)
