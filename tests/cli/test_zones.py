"""Commands give times out in the zone of their input, and again so after a failure."""

import json
import shutil

import pytest

from newnormal.io.sinks.lines import JsonLinesSink
from newnormal.types.arrays import time_of_text, zone_of_text
from tests.cli.conftest import Command, Plant
from tests.cli.fleets import Site


def with_offset(lines: list[str], offset: str) -> list[str]:
    """Return CSV lines whose times have an offset; the local times stay as they are."""
    return [
        line if line.startswith("time") else line.replace(",", f"{offset},", 1) for line in lines
    ]


def test_watch_and_score_give_the_offset_of_the_input(newnormal: Command, plant: Plant) -> None:
    plant.write(with_offset(plant.lines, "-03:30"))
    given = [line.partition(",")[0] + "-03:30" for line in plant.lines[1:]]
    watched = newnormal("watch", plant.model, plant.live, "--state", plant.state, "--flush")
    for done in (watched, newnormal("score", plant.model, plant.live)):
        assert done.returncode == 0, done.stderr
        assert [json.loads(line)["time"] for line in done.stdout.splitlines()] == given
    # The history had no zone, and a state file keeps that of history alone.
    shown = json.loads(newnormal("inspect", plant.state, "--json").stdout)
    last = next(value for name, value in shown.items() if name in ("last time", "last_time"))
    assert time_of_text(last) == time_of_text(given[-1])


def test_a_detector_shows_the_zone_of_its_history(newnormal: Command, plant: Plant) -> None:
    history = plant.folder / "history.csv"
    history.write_text("\n".join(with_offset(plant.lines, "Z")) + "\n")
    model = plant.folder / "zoned.nn"
    fit = ("--method", "m2n2", "--epochs", "1")
    assert newnormal("fit", history, "-o", model, *fit).returncode == 0
    done = newnormal("watch", model, plant.live)  # the same times, without a zone
    assert json.loads(done.stdout.splitlines()[0])["time"] == plant.lines[1].partition(",")[0] + "Z"
    state = plant.folder / "zoned.state"
    newnormal("watch", model, plant.live, "--state", state)
    newest = plant.lines[-1].partition(",")[0].replace("T", " ") + "Z"
    assert newest in newnormal("inspect", state).stdout


@pytest.mark.parametrize("flag", [(), ("--alarms-only",)], ids=["verdicts", "events"])
def test_what_a_fleet_writes_again_has_the_same_zone(
    site: Site, newnormal: Command, monkeypatch: pytest.MonkeyPatch, flag: tuple[str, ...]
) -> None:
    live = site.write(with_offset(site.lines, "+05:30"))
    twin = site.folder / "twin.fleet"
    shutil.copytree(site.fleet, twin)
    monkeypatch.setattr("newnormal.tabular.text.raw_bytes.READ_BYTES", 5_000)
    arguments = (live, "--by", "host", *flag)
    expected = newnormal("watch", twin, *arguments).stdout
    for line in expected.splitlines():
        found = json.loads(line)
        time = found["time"] if "time" in found else found["incident"]["start_time"]
        assert zone_of_text(time) == "+05:30"
    write_lines, calls = JsonLinesSink.write_lines, iter(range(1, 1_000))

    def fail(sink: JsonLinesSink, lines: list[str]) -> None:
        if lines and next(calls) == 1:
            raise BrokenPipeError
        write_lines(sink, lines)

    with monkeypatch.context() as patch:
        patch.setattr(JsonLinesSink, "write_lines", fail)
        before = newnormal("watch", site.fleet, *arguments)
    assert before.returncode == 1
    assert before.stdout + newnormal("watch", site.fleet, *arguments).stdout == expected
