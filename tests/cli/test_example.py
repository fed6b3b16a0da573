"""`newnormal example`: files in which something happens, and what to do with them."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from newnormal.cli.app import app
from newnormal.cli.example import COMMANDS, FILES, FLEET_COMMANDS
from newnormal.datasets.synthetic.examples import HOSTS, machines_example, plant_example
from tests.cli.conftest import Command
from tests.present import present

MOST = 1_000_000  # bytes of a file


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("example")


@pytest.fixture
def tried(folder: Path, newnormal: Command, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with the files, which commands run in."""
    monkeypatch.chdir(folder)
    if not (folder / "history.csv").exists():
        assert newnormal("example").returncode == 0
    return folder


def run(newnormal: Command, command: str, *more: str) -> str:
    return newnormal(*shlex.split(command)[1:], *more, status=0).stdout


def test_the_files_are_small_and_the_same_for_a_seed(tried: Path, newnormal: Command) -> None:
    assert all((tried / name).stat().st_size < MOST for name in FILES)
    assert (tried / "live.csv").read_text().splitlines()[:2] == [
        "time,temperature,pressure,flow,power,vibration,level",
        "2026-03-09T00:00:00,61.69,5.761,107.7,73.16,1.666,52.77",
    ]
    assert (tried / "labelled.csv").read_text().splitlines()[0].endswith(",level,fault")
    assert (tried / "metrics.csv").read_text().splitlines()[0] == (
        "time,host,cpu,memory,requests,latency"
    )
    run(newnormal, "newnormal example again")
    run(newnormal, "newnormal example other --seed 1")
    for name in FILES:
        text = (tried / name).read_text()
        assert (tried / "again" / name).read_text() == text
        assert (tried / "other" / name).read_text() != text


def test_files_that_are_there_are_kept(tried: Path, newnormal: Command) -> None:
    (tried / "mine").mkdir(exist_ok=True)
    mine = tried / "mine" / "live.csv"
    mine.write_text("mine\n")
    assert newnormal("example", tried / "mine", status=1).stderr == (
        f"error: {tried / 'mine'}: expected none of these files, found live.csv\n"
        "hint: newnormal example FOLDER writes them elsewhere, --force replaces them\n"
    )
    assert (mine.read_text(), (tried / "mine" / "history.csv").exists()) == ("mine\n", False)
    assert newnormal("example", tried / "mine", "--force").returncode == 0
    assert mine.read_text() != "mine\n"
    done = newnormal("example", tried / "live.csv" / "below", status=1)
    assert done.stderr.startswith("error: FOLDER: expected a folder that can be written, found ")


def test_what_to_do_next_is_printed(tmp_path: Path, newnormal: Command) -> None:
    text = newnormal("example", tmp_path / "try it").stdout
    assert f"\n  cd '{tmp_path / 'try it'}'\n" in text
    for command in (*COMMANDS, *FLEET_COMMANDS):
        assert f"\n  {command}\n" in text
    verbs = {command.callback.__name__ for command in app.registered_commands if command.callback}
    for command in (*COMMANDS, *FLEET_COMMANDS):
        assert command.split()[1] in verbs
    assert all(len(line) <= 80 for line in text.splitlines() if str(tmp_path) not in line)


def test_the_plant_shows_faults_and_a_change_that_waits(tried: Path, newnormal: Command) -> None:
    check, fit, watch, alarms, feedback, _, evaluate = COMMANDS
    assert "history.csv\n  samples  10,080 of 6 channels\n" in run(newnormal, check)
    assert newnormal("check", "history.csv", "--strict").returncode == 0
    run(newnormal, fit)
    text = run(newnormal, watch, "--format", "text")
    assert "2026-03-09 09:20:00  ALARM 1 opened: temperature high\n    temperature  77.7, " in text
    assert "2026-03-09 20:05:00  ALARM 2 opened: flow low\n" in text
    assert "CHANGE 1 pending: power, temperature, pressure and 1 more since 08:00:00, with" in text
    assert text.count(" opened: ") == 3
    assert "for 7 h; it goes on as change 1\n" in text
    listed = run(newnormal, alarms)
    assert "\n1 change open\n2026-03-10 08:00:00  CHANGE 1 pending: " in listed
    assert feedback in listed
    run(newnormal, feedback)
    assert "nothing is open" in run(newnormal, alarms)
    assert "events found" in " ".join(run(newnormal, evaluate).split())


def test_the_machines_have_an_incident_and_a_fault_of_one(tried: Path, newnormal: Command) -> None:
    fit, watch, alarms = FLEET_COMMANDS
    run(newnormal, fit)
    text = run(newnormal, watch, "--format", "text")
    words = " ".join(text.split())
    assert "INCIDENT 1: Alarms opened in 5 of 8 streams at the same time: db-1, web-1, " in words
    assert re.search("queue-1  2026-03-09 20:00:00  ALARM . opened: memory high\n", text)
    found = json.loads(run(newnormal, alarms, "--json"))
    assert (list(found["open_alarms"]), list(found["open_changes"])) == (["queue-1"], [])
    (incident,) = found["incidents"]
    assert set(incident["streams"]) == {"web-1", "web-2", "web-3", "web-4", "db-1"}


def test_the_tables_say_what_happens_in_them() -> None:
    plant, machines = plant_example(3), machines_example(3)
    assert {name: table.values.shape for name, table in plant.items()} == {
        "history": (10080, 6),
        "live": (2880, 6),
        "labelled": (5760, 6),
    }
    labels = present(plant["labelled"].faults)
    assert int(((labels[1:] == 1) & (labels[:-1] == 0)).sum()) == 10
    assert plant["history"].times[-1] < plant["live"].times[0] < plant["labelled"].times[0]
    assert present(machines["live"].hosts)[:8] == HOSTS
    assert (np.diff(machines["live"].times[::8]) == np.timedelta64(5, "m")).all()
