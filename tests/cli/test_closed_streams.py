"""Standard streams that are closed, full or gone: a message, an exit code, nothing lost."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command, Done, Plant, cut
from tests.cli.fleets import Site

pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device")

FULL = "error: cannot write to standard output: no space is left on the device\n"
CLOSED = "error: cannot write to standard output: it is closed\n"


def shell(redirections: str, *arguments: object) -> Done:
    """Run the command with redirections as a shell has them."""
    command = f'exec "$@" {redirections}'
    process = subprocess.run(
        ["sh", "-c", command, "sh", sys.executable, "-m", "newnormal", *map(str, arguments)],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Traceback" not in process.stderr
    assert "Exception ignored" not in process.stderr
    return Done(process.returncode, process.stdout, process.stderr)


def without_reader(*arguments: object, stream: str = "stdout") -> Done:
    """Run the command with an output, or messages, whose reader has gone."""
    read, write = os.pipe()
    os.close(read)
    streams: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: write}
    try:
        process = subprocess.run(
            [sys.executable, "-m", "newnormal", *map(str, arguments)],
            **streams,
            text=True,
            timeout=120,
            check=False,
        )
    finally:
        os.close(write)
    return Done(process.returncode, process.stdout or "", process.stderr or "")


@pytest.mark.parametrize("redirections", ["2>&-", "2>/dev/full"])
def test_only_messages_are_lost(redirections: str, newnormal: Command, plant: Plant) -> None:
    cut(plant, 40)
    with plant.live.open("a") as file:
        file.write("nonsense\n")
    expected = newnormal("watch", plant.model, plant.live).stdout
    done = shell(redirections, *plant.watch)
    assert (done.returncode, done.stdout, done.stderr) == (0, expected, "")
    assert all(json.loads(line) for line in done.stdout.splitlines())
    assert newnormal("inspect", plant.state).returncode == 0
    scored = newnormal("score", plant.model, plant.live).stdout
    assert shell(redirections, "score", plant.model, plant.live) == Done(0, scored, "")
    assert shell(redirections, "inspect", plant.folder / "none.nn").returncode == 1
    assert shell(redirections, "nonsense").returncode in (1, 2)


def test_standard_error_may_be_gone(newnormal: Command, plant: Plant) -> None:
    scored = newnormal("score", plant.model, plant.live).stdout
    done = without_reader("score", plant.model, plant.live, stream="stderr")
    assert done == Done(0, scored, "")


@pytest.mark.parametrize(("redirections", "text"), [(">/dev/full", FULL), (">&-", CLOSED)])
def test_output_that_is_not_written_is_an_error(redirections: str, text: str, plant: Plant) -> None:
    for arguments in (
        ("score", plant.model, plant.live),
        ("watch", plant.model, plant.live),
        ("inspect", plant.model),
        ("inspect", plant.model, "--json"),
        ("watch", plant.model, plant.live, "--format", "text"),
        ("alarms", plant.model),
        ("data", "list"),
        ("--help",),
        ("--version",),
    ):
        done = shell(redirections, *arguments)
        assert done.returncode == 1, arguments
        assert done.stderr.endswith(text), arguments


def test_output_without_a_reader_is_a_failure_without_a_word(plant: Plant) -> None:
    for arguments in (
        ("score", plant.model, plant.live),
        ("inspect", plant.model),
        ("alarms", plant.model),
        ("watch", plant.model, plant.live, "--format", "text"),
    ):
        done = without_reader(*arguments)
        assert done.returncode == 1
        assert "error" not in done.stderr
        assert "Traceback" not in done.stderr
    assert without_reader("watch", plant.model, plant.live, "-q") == Done(1, "", "")


@pytest.mark.parametrize("how", [">/dev/full", ">&-", "gone"])
def test_a_checkpoint_is_not_beyond_the_output(how: str, newnormal: Command, plant: Plant) -> None:
    expected = newnormal("watch", plant.model, plant.live).stdout
    arguments = plant.watch
    assert (without_reader(*arguments) if how == "gone" else shell(how, *arguments)).returncode == 1
    assert newnormal(*arguments).stdout == expected


@pytest.mark.parametrize("how", [">/dev/full", "gone"])
def test_a_fleet_does_not_go_beyond_its_output(how: str, newnormal: Command, site: Site) -> None:
    done = without_reader(*site.watch) if how == "gone" else shell(how, *site.watch)
    assert done.returncode == 1
    assert ("error: cannot write to standard output" in done.stderr) == (how != "gone")
    assert len(newnormal(*site.watch).stdout.splitlines()) == len(site.lines)


def test_a_file_of_output_that_is_full_is_named(newnormal: Command, plant: Plant) -> None:
    arguments = plant.watch
    done = newnormal(*arguments, "-o", "/dev/full", status=1)
    assert "error: cannot write /dev/full: No space left on device\nhint: make room" in done.stderr
    assert len(newnormal(*arguments).stdout.splitlines()) == 399


def test_standard_input_may_be_closed(plant: Plant) -> None:
    for arguments in (("watch", plant.model, "-"), ("fit", "-", "-o", plant.folder / "x.nn")):
        done = shell("<&-", *arguments)
        assert (done.returncode, done.stdout) == (1, "")
        assert "error: standard input: expected lines, found it closed\nhint: " in done.stderr
        assert shell("<&- >&- 2>&-", *arguments).returncode == 1


def test_files_do_not_take_the_place_of_closed_streams(plant: Plant) -> None:
    done = shell("<&- 2>&-", *plant.watch)
    assert done.returncode == 0
    assert (plant.state / "log.sqlite").read_bytes().startswith(b"SQLite format 3")
    assert all(json.loads(line) for line in done.stdout.splitlines())
