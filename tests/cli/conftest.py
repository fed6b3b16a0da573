"""Files a command line test works on, and ways to run the command."""

import io
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Timer
from typing import NamedTuple

import numpy as np
import pytest

from newnormal import M2N2
from newnormal.tabular import read
from tests.cli.fleets import fitted_fleet, site
from tests.commands import called
from tests.present import present

__all__ = ["fitted_fleet", "site"]  # fixtures

Command = Callable[..., "Done"]


class Done(NamedTuple):
    """What a command left."""

    returncode: int
    stdout: str
    stderr: str


def rows(count: int, start: int = 0, *, seed: int = 0) -> list[str]:
    """Return CSV rows `time,a,b,c`, one a minute, of a noisy sine with a spike now and then."""
    rng = np.random.default_rng(seed + start)
    lines = []
    for i in range(start, start + count):
        values = np.sin(i / 9) + rng.normal(0, 0.1, 3) + (4.0 if i % 97 == 50 else 0.0)
        when = np.datetime64("2026-01-01T00:00:00") + np.timedelta64(60 * i, "s")
        lines.append(f"{when}," + ",".join(f"{value:.4f}" for value in values))
    return lines


PATIENCE = 200
CHANGE = 300


def lines(start: int, count: int, lift: float = 0.0) -> list[str]:
    """Return CSV rows `time,a,b`, one a minute, of two noisy sines."""
    rng = np.random.default_rng(start)
    values = np.sin(np.arange(start, start + count)[:, None] / [7, 11])
    values += rng.normal(0, 0.1, values.shape) + lift
    begin = np.datetime64("2026-01-01T00:00:00")
    return [
        f"{begin + np.timedelta64(60 * (start + i), 's')},{a:.4f},{b:.4f}"
        for i, (a, b) in enumerate(values)
    ]


@dataclass(frozen=True)
class Plant:
    """A folder with a fitted detector and its live data."""

    folder: Path
    model: Path
    live: Path
    lines: list[str]

    @property
    def state(self) -> Path:
        """The folder in which a watch keeps what it learns."""
        return self.folder / "plant.state"

    @property
    def watch(self) -> tuple[object, ...]:
        """The command that goes on in that folder."""
        return ("watch", self.model, self.live, "--state", self.state)

    def write(self, lines: Sequence[str], path: Path | None = None) -> Path:
        """Write lines to the live data, or to another file."""
        path = path or self.live
        path.write_text("\n".join(lines) + "\n", errors="surrogateescape")
        return path

    def append(self, lines: Sequence[str]) -> None:
        """Write more lines to the live data."""
        with self.live.open("a") as file:
            file.write("\n".join(lines) + "\n")


class Running:
    """The command in a process of its own, that can be written to and read from."""

    def __init__(self, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "newnormal", *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def send(self, lines: Sequence[str]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n".join(lines) + "\n")
        self.process.stdin.flush()

    def read(self, count: int) -> list[str]:
        """Return the next lines of its output."""
        return [present(self.process.stdout).readline().rstrip("\n") for _ in range(count)]

    def messages(self, count: int) -> list[str]:
        """Return the next lines of its standard error."""
        return [present(self.process.stderr).readline() for _ in range(count)]

    def end(self, number: int | None = None) -> Done:
        """Wait for its end, after a signal if one is given; return the rest of what it wrote."""
        process = self.process
        assert process.stdin is not None and process.stdout is not None
        assert process.stderr is not None
        if number is not None:
            process.send_signal(number)
        with suppress(BrokenPipeError):
            process.stdin.close()
        limit = Timer(60, process.kill)
        limit.start()
        # Not `communicate`, which leaves out what `read` has in its buffer.
        out, err = process.stdout.read(), process.stderr.read()
        process.wait()
        limit.cancel()
        process.stdout.close()
        process.stderr.close()
        return Done(process.returncode, out, err)


@pytest.fixture(scope="session")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fitted")
    history = folder / "history.csv"
    history.write_text("\n".join(["time,a,b,c", *rows(900)]) + "\n")
    path = folder / "plant.nn"
    detector = M2N2(window=6, stride=3, lr=0.05, decay=0.9, epochs=3).fit(read(history))
    detector.track_alarms().save(path)
    return path


@pytest.fixture
def plant(fitted: Path, tmp_path: Path) -> Plant:
    model = tmp_path / "plant.nn"
    model.write_bytes(fitted.read_bytes())
    lines = ["time,a,b,c", *rows(400, 900)]
    live = tmp_path / "live.csv"
    live.write_text("\n".join(lines) + "\n")
    return Plant(tmp_path, model, live, lines)


@pytest.fixture(scope="session")
def moved_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("moved")
    history = folder / "history.csv"
    history.write_text("\n".join(["time,a,b", *lines(0, 1_500)]) + "\n")
    detector = M2N2(window=5, half_life=60, lr=0.01, threshold=1.0, accept_after=f"{PATIENCE}min")
    detector.fit(read(history)).save(folder / "plant.nn")
    return folder / "plant.nn"


@pytest.fixture
def moved(moved_model: Path, tmp_path: Path) -> Plant:
    """A plant whose level moves for good after `CHANGE` samples."""
    path = tmp_path / "plant.nn"
    path.write_bytes(moved_model.read_bytes())
    live = ["time,a,b", *lines(1_500, CHANGE), *lines(1_500 + CHANGE, 1_500, 5.0)]
    (tmp_path / "live.csv").write_text("\n".join(live) + "\n")
    return Plant(tmp_path, path, tmp_path / "live.csv", live)


def cut(plant: Plant, count: int) -> Plant:
    """Return the same plant, of which the first `count` samples have arrived."""
    plant.live.write_text("\n".join(plant.lines[: count + 1]) + "\n")
    return replace(plant)


def labelled(plant: Plant, truth: Sequence[int]) -> Path:
    """Return the live data with labels, in another file."""
    head, *rows = plant.live.read_text().splitlines()
    body = [f"{row},{int(at in truth)}" for at, row in enumerate(rows)]
    return plant.write([f"{head},truth", *body], plant.folder / "labelled.csv")


@pytest.fixture
def service_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty working folder, and no settings of a service."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("NEWNORMAL_SERVE_"):
            monkeypatch.delenv(name)


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that this process has."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def newnormal() -> Command:
    """Run the command in this process, which is quick; `stdin` comes through a pipe.

    `status` is the exit code that it must have; None: any.
    """

    def run(*arguments: object, stdin: str | None = None, status: int | None = None) -> Done:
        out, err = io.StringIO(), io.StringIO()
        code = called(*arguments, out=out, err=err, stdin=stdin)
        done = Done(code, out.getvalue(), err.getvalue())
        assert status in (None, code), done
        return done

    return run
