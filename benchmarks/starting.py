"""From the shell: how long until a command answers."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from benchmarks.report import NotMeasured, Row, Section, Target
from benchmarks.series import correlated

LIMIT = 120  # seconds after which a command counts as failed

NOTES = (
    "Wall-clock time of whole processes, on a machine that has run the package before, so that "
    "its files are in the system's cache.",
    "“Ready” is the first verdict out of `newnormal watch`, of a file with a few samples of 5 "
    "channels. “First” is with no compiled code at all (an empty folder for Numba's cache), as "
    "right after an install.",
)


def measure(quick: bool) -> Section:
    """Time --help, watch with compiled code in the cache, and the first commands ever."""
    rounds = 2 if quick else 7
    with tempfile.TemporaryDirectory() as folder:
        place = _Place(Path(folder))
        rows = [
            _row("`--help`", 0.4, lambda: {"s": _best(rounds, place.help)}),
            _row("first `fit`", 30, place.first_fit),
            _row("first `watch`", 30, place.first_watch),
            _row("`watch` ready", 1.5, lambda: {"s": _best(rounds, place.watch)}),
        ]
    return Section("Starting", NOTES, "command", rows)


def _row(name: str, limit: float, measured: Callable[[], Mapping[str, float | str]]) -> Row:
    try:
        return Row(name, measured(), Target("s", limit))
    except NotMeasured as reason:
        return Row(name, target=Target("s", limit), skipped=str(reason))


def _best(rounds: int, once: Callable[[], float]) -> float:
    return min(once() for _ in range(rounds))


class _Place:
    """A folder with a history, a live file and a cache that is empty at first."""

    def __init__(self, folder: Path) -> None:
        self.history = folder / "history.csv"
        self.live = folder / "live.csv"
        self.model = folder / "plant.nn"
        self.environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / "cache")}
        self.elsewhere = os.environ | {"NUMBA_CACHE_DIR": str(folder / "other cache")}
        series = correlated(2_050, 5)
        header = ",".join(f"channel{number}" for number in range(5))
        for path, part in ((self.history, series[:2_000]), (self.live, series[2_000:])):
            np.savetxt(path, part, delimiter=",", header=header, comments="", fmt="%.6f")

    def help(self) -> float:
        return self._run("--help")[0]

    def first_fit(self) -> dict[str, float | str]:
        seconds, said = self._run("fit", str(self.history), "-o", str(self.model))
        return {"s": seconds, "prints that it compiles": "yes" if "ompil" in said else "no"}

    def first_watch(self) -> dict[str, float | str]:
        self._fitted()
        seconds, said = self._run(
            "watch", str(self.model), str(self.live), environment=self.elsewhere
        )
        return {"s": seconds, "prints that it compiles": "yes" if "ompil" in said else "no"}

    def watch(self) -> float:
        """Return the seconds until the first verdict is out."""
        self._fitted()
        if not getattr(self, "_warm", False):
            self._run("watch", str(self.model), str(self.live))
            self._warm = True
        start = time.perf_counter()
        with subprocess.Popen(
            [*_command(), "watch", str(self.model), str(self.live)],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            seconds = time.perf_counter() - start
            process.communicate(timeout=LIMIT)
        if not line:
            raise NotMeasured("`watch` gave no verdict")
        return seconds

    def _fitted(self) -> None:
        if not self.model.exists():
            raise NotMeasured("`fit` wrote no model")

    def _run(self, *words: str, environment: Mapping[str, str] | None = None) -> tuple[float, str]:
        """Run the command to its end; return its seconds and what it said on stderr."""
        start = time.perf_counter()
        try:
            done = subprocess.run(
                [*_command(), *words],
                env=self.environment if environment is None else environment,
                capture_output=True,
                text=True,
                timeout=LIMIT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise NotMeasured(f"`newnormal {words[0]}` took over {LIMIT} s") from None
        seconds = time.perf_counter() - start
        if done.returncode:
            said = done.stderr.strip().splitlines() or ["nothing"]
            raise NotMeasured(f"`newnormal {words[0]}` failed and said: {said[-1]}")
        return seconds, done.stderr


def _command() -> list[str]:
    script = Path(sys.executable).with_name("newnormal")
    return [str(script)] if script.exists() else [sys.executable, "-m", "newnormal"]
