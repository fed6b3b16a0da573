"""`newnormal check`: what it prints, and its exit codes; spoilt files through every command."""

import json
import os
from pathlib import Path

import pytest

from newnormal.cli.check import WARNED
from newnormal.cli.console import BAD_LINE, FAILED
from tests.cli.conftest import Command, Done, Plant, rows
from tests.cli.fleets import WIDE, Site, host_lines, write
from tests.fuzz.inputs import spoilt_file


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    """A file with a column of labels."""
    lines = [f"{line},{int(at > 290)}" for at, line in enumerate(rows(300))]
    return write(tmp_path / "history.csv", "time,a,b,c,anomaly", lines)


def test_check_shows_what_is_there_and_what_fit_does(labelled: Path, newnormal: Command) -> None:
    done = newnormal("check", labelled, status=0)
    text = " ".join(done.stdout.split())
    assert "samples 300 of 4 channels" in text
    assert "--label anomaly or --drop anomaly" in text
    assert "fit would: take time from time learn from 300 samples channels a, b, c, anomaly" in text
    assert done.stderr == ""


def test_exit_codes_are_for_scripts(labelled: Path, newnormal: Command, tmp_path: Path) -> None:
    assert newnormal("check", labelled, "--strict").returncode == 4
    assert newnormal("check", labelled, "--strict", "--drop", "anomaly").returncode == 0
    assert newnormal("check", labelled, "--strict", "--label", "anomaly").returncode == 0
    short = write(tmp_path / "short.csv", "time,a,b,c", rows(5))
    assert "fit would refuse this." in newnormal("check", short, status=1).stdout
    assert newnormal("check", tmp_path / "no.csv", status=1).stderr.startswith("error: ")


def test_json_is_one_object(labelled: Path, newnormal: Command) -> None:
    found = json.loads(newnormal("check", labelled, "--json").stdout)
    assert found["ok"] is True
    assert [each["channel"] for each in found["findings"] if each["level"] == "warning"] == [
        "anomaly"
    ]
    assert found["plan"]["channels"] == ["a", "b", "c", "anomaly"]


@pytest.mark.skipif(os.name == "nt", reason="there are no such terminals")
def test_a_terminal_gets_lines_that_fit_it_and_interpret_no_name(tmp_path: Path) -> None:
    from tests.cli.terminals import on_terminal

    path = write(tmp_path / "history.csv", 'time,a,b,"[red]x[/nonsense]\x1b[2J"', rows(300))
    shown = on_terminal("check", path).stdout
    assert "[red]x[/nonsense]\\x1b[2J" in shown
    assert "\x1b[2J" not in shown
    assert 60 < max(map(len, shown.splitlines())) <= 80
    assert "\n           " in shown, "what goes on is below what it goes on with"


def test_a_model_shows_what_differs(plant: Plant, newnormal: Command) -> None:
    live = plant.folder / "slow.csv"
    write(live, "time,a,b,z", plant.lines[1::5])
    text = " ".join(newnormal("check", live, "--model", plant.model).stdout.split())
    assert "samples are 5m apart here, and 1m in the model's history" in text
    assert "of the model's channels 'c' are not here; the model does not know 'z'" in text


def test_many_streams_have_a_summary(tmp_path: Path, newnormal: Command) -> None:
    lines = [f"{line},0" for line in host_lines(300)]
    path = write(tmp_path / "metrics.csv", f"{WIDE},label", lines)
    done = newnormal("check", path, "--by", "host", "--strict", status=4)
    assert "4 streams: 4 with warnings" in done.stdout
    assert "label like: 4 of 4 streams" in done.stdout
    found = json.loads(newnormal("check", path, "--by", "host", "--json").stdout)
    assert found["summary"]["streams"] == 4
    assert set(found["streams"]) == {"web-1", "web-2", "web-3", "db"}


def test_a_fleet_is_compared_stream_by_stream(site: Site, newnormal: Command) -> None:
    done = newnormal("check", site.live, "--by", "host", "--model", site.fleet, "--json")
    found = json.loads(done.stdout)
    codes = {each["code"] for check in found["streams"].values() for each in check["findings"]}
    assert not codes & {"channels_differ", "rate_differs"}
    refused = newnormal("check", site.live, "--model", site.fleet, status=1)
    assert "is a fleet: expected --by" in refused.stderr


_FIRST = 220  # case
_ENDINGS = (".csv", ".jsonl", ".txt", ".json", ".csv.gz", ".xlsx", ".parquet", "")


def check_answer(done: Done, *, lines: bool) -> None:
    """Check that a command has answered: what it printed is JSON, and an error is a sentence."""
    assert done.returncode in (0, FAILED, BAD_LINE, WARNED), done
    assert "Traceback" not in done.stderr
    if done.returncode == FAILED and not done.stdout:
        assert "error: " in done.stderr
    for text in done.stdout.splitlines() if lines else [done.stdout] if done.stdout else []:
        json.loads(text)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.cases(20, 600)
def test_every_command_answers(
    cases: range, fitted: Path, fitted_fleet: Path, newnormal: Command, tmp_path: Path
) -> None:
    fit = ("fit", "--method", "m2n2", "--epochs", "1", "--window", "2", "-o", tmp_path / "out.nn")
    for case in (_FIRST + each for each in cases):
        path = tmp_path / f"case{case}{_ENDINGS[case % len(_ENDINGS)]}"
        path.write_bytes(spoilt_file(case))
        check_answer(newnormal("check", path, "--json"), lines=False)
        check_answer(newnormal("check", path, "--json", "--by", "host"), lines=False)
        check_answer(newnormal("score", fitted, path, "--drop", "host"), lines=True)
        for more in ((), ("--strict",), ("--flush", "--alarms-only", "--ignore-extra")):
            check_answer(newnormal("watch", fitted, path, *more), lines=True)
        check_answer(newnormal("score", fitted_fleet, path, "--by", "host"), lines=True)
        check_answer(newnormal("evaluate", fitted, path, "--label", "c", "--json"), lines=False)
        if case % 8 == 0:
            check_answer(newnormal(*fit, path), lines=True)
