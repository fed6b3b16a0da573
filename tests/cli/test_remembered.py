"""How history was read holds for live data, and what differs there is reported."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Command

_START = 1_767_225_600


@pytest.fixture
def counters(tmp_path: Path) -> Path:
    """History of a gauge and a counter that restarts, its time in a column of another name."""
    rng = np.random.default_rng(0)
    total, lines = 0.0, ["when,load,total,note"]
    for at in range(700):
        total = 0.0 if at == 300 else total + 30 + rng.normal()
        lines.append(f"{_START + 60 * at},{rng.normal():.4f},{total:.3f},{at % 2}")
    path = tmp_path / "all.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_times_counters_and_left_columns_are_remembered(counters: Path, newnormal: Command) -> None:
    model = counters.with_name("plant.nn")
    options = ("--time", "when", "--rates", "total", "--drop", "note", "--rows", "0:600")
    assert newnormal("fit", counters, *options, "-o", model).returncode == 0
    done = newnormal("score", model, counters, "--rows", "600:", status=0)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == 100
    assert lines[0]["time"] == "2026-01-01T10:00:00"
    assert lines[5]["expected"]["total"] == pytest.approx(0.5, abs=0.1)  # a second
    assert "note" not in done.stderr
    live = newnormal("watch", model, counters, "--rows", "600:")
    # Its scores differ: the first rate of a file that begins there is missing.
    assert [json.loads(line)["time"] for line in live.stdout.splitlines()] == [
        line["time"] for line in lines
    ]


def test_score_reports_what_differs_and_no_column_that_was_not_chosen(
    counters: Path, newnormal: Command
) -> None:
    model = counters.with_name("plant.nn")
    options = ("--time", "when", "--columns", "load,total", "--rows", "0:600")
    assert newnormal("fit", counters, *options, "-o", model).returncode == 0
    live = counters.with_name("live.csv")
    live.write_text("when,load,new,note\n1767261600,1,2,0\n1767261660,high,2,0\n1767261720,1\n")
    done = newnormal("score", model, live, status=0)
    assert len(done.stdout.splitlines()) == 2
    for text in (
        "1 bad line of 3 skipped; the first: line 4: expected 4 cells, found 2",
        "column 'load': 1 cell that could not be read, such as 'high' in line 3: missing",
        "channel 'total' is not in the input: its values are missing",
        "column 'new' is no channel: ignored",
    ):
        assert done.stderr.count(text) == 1, done.stderr
    assert "note" not in done.stderr


def test_a_jump_is_longer_than_a_hundred_periods(counters: Path, newnormal: Command) -> None:
    model, live = counters.with_name("plant.nn"), counters.with_name("live.csv")
    options = ("--time", "when", "--drop", "note", "--rows", "0:600")
    assert newnormal("fit", counters, *options, "-o", model).returncode == 0
    times = [_START + 60 * at for at in range(600, 620)]
    times[10] += 60 * 200  # the clock of one line is wrong
    live.write_text("when,load,total\n" + "".join(f"{time},1,2\n" for time in times))
    done = newnormal("watch", model, live)
    assert len(done.stdout.splitlines()) == 19
    assert "held back and not confirmed" in done.stderr
