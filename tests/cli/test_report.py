"""`newnormal report`: the page it writes, what it says, and what it refuses."""

import json
import sys
from pathlib import Path

import pytest

from newnormal import Detector, Fleet
from newnormal import load as newnormal_load
from newnormal.errors import InputError
from newnormal.fleet import FleetVerdicts
from newnormal.fleet.results import StreamError
from newnormal.tabular import StreamTables, read
from newnormal.types import Timeline
from tests.cli.conftest import CHANGE, Command, Plant, cut, labelled, lines
from tests.cli.fleets import FAULT, HISTORY, HOSTS, WIDE, Site
from tests.reports.made import Page, read_page
from tests.reports.schema import check_meta


def page(path: Path) -> Page:
    found = read_page(path.read_text(encoding="utf-8"))
    check_meta(found.meta)
    return found


def test_one_command_makes_the_page(moved: Plant, newnormal: Command) -> None:
    before = moved.model.read_bytes()
    cut(moved, CHANGE + 60)
    path = moved.folder / "report.html"
    done = newnormal("report", moved.model, moved.live, "-o", path)
    assert done.returncode == 0 and done.stdout == ""
    size = path.stat().st_size
    *_, last = done.stderr.splitlines()
    assert last == f"wrote {path} ({size / 1e3:.0f} kB): 1 alarm (1 open), 1 change pending"
    found = page(path)
    assert found.meta["title"] == "live.csv judged by plant.nn"
    assert found.meta["labelled"] is False
    (stream,) = found.meta["streams"]
    assert (stream["samples"], stream["status"]) == (CHANGE + 60, "in alarm")
    assert moved.model.read_bytes() == before


def test_nothing_but_the_install_is_needed(
    plant: Plant, newnormal: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for extra in ("matplotlib", "pandas", "polars", "scipy.stats"):
        monkeypatch.setitem(sys.modules, extra, None)
    monkeypatch.chdir(plant.folder)
    assert newnormal("report", plant.model, plant.live).returncode == 0
    assert page(Path("report.html")).meta["streams"][0]["samples"] == 400


def test_the_same_input_is_the_same_file(plant: Plant, newnormal: Command) -> None:
    paths = [plant.folder / "one.html", plant.folder / "two.html"]
    for path in paths:
        newnormal("report", plant.model, plant.live, "-o", path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_labels_are_optional(plant: Plant, newnormal: Command) -> None:
    path = labelled(plant, range(40, 45))
    output = plant.folder / "report.html"
    newnormal("report", plant.model, path, "--label", "truth", "-o", output)
    found = page(output)
    assert found.meta["labelled"] is True
    (stream,) = found.meta["streams"]
    assert len(stream["labels"]) == 1
    start, end = stream["labels"][0]
    assert (start - stream["start"], end - start) == (40 * 60, 4 * 60)


def test_labels_as_remembered_where_the_file_has_them(plant: Plant, newnormal: Command) -> None:
    path = labelled(plant, range(40, 45))
    model = plant.folder / "own.nn"
    Detector(epochs=1).fit(read(path, label="truth")).save(model)
    output = plant.folder / "report.html"
    assert newnormal("report", model, path, "-o", output).returncode == 0
    assert page(output).meta["labelled"] is True
    assert newnormal("report", model, plant.live, "-o", output).returncode == 0
    assert page(output).meta["labelled"] is False
    done = newnormal("report", model, plant.live, "--label", "truth", "-o", output, status=1)
    assert "label names column 'truth', found only" in done.stderr


def test_frozen_learns_nothing_on_the_way(moved: Plant, newnormal: Command) -> None:
    output = moved.folder / "report.html"
    newnormal("report", moved.model, moved.live, "--frozen", "-o", output, status=0)
    (stream,) = page(output).meta["streams"]
    assert stream["changes"] == [] and stream["status"] == "in alarm"


def test_options_of_reading_hold(plant: Plant, newnormal: Command) -> None:
    output = plant.folder / "report.html"
    arguments = ("--rows", "100:150", "--tz", "Europe/Berlin")
    assert newnormal("report", plant.model, plant.live, *arguments, "-o", output).returncode == 0
    found = page(output)
    assert found.meta["axis"]["zone"] == "Europe/Berlin"
    assert found.meta["streams"][0]["samples"] == 50


def test_from_standard_input(plant: Plant, newnormal: Command) -> None:
    output = plant.folder / "report.html"
    text = plant.live.read_text()
    newnormal("report", plant.model, "-", "-o", output, stdin=text, status=0)
    assert page(output).meta["title"] == "standard input judged by plant.nn"


def test_targets_are_looked_at_before_the_work(plant: Plant, newnormal: Command) -> None:
    folder = plant.folder / "folder.html"
    folder.mkdir()
    page_like = plant.folder / "live.html"
    page_like.write_text(plant.live.read_text())
    cases = {
        folder: "expected a file, found a folder",
        plant.folder / "nowhere" / "report.html": "found no folder",
        plant.folder / "report.pdf": "expected a page ending in .html, found '.pdf'",
        plant.model: "expected a page ending in .html, found '.nn'",
    }
    for path, message in cases.items():
        done = newnormal("report", plant.model, plant.live, "-o", path, status=1)
        assert message in done.stderr and "hint: " in done.stderr
        assert "judging" not in done.stderr
    done = newnormal("report", plant.model, page_like, "-o", page_like)
    assert "expected another file than" in done.stderr


# ---------------------------------------------------------------------- fleets


def test_a_fleet_has_an_overview(site: Site, newnormal: Command) -> None:
    output = site.folder / "report.html"
    before = {path: path.read_bytes() for path in site.fleet.iterdir() if path.is_file()}
    done = newnormal("report", site.fleet, site.live, "--by", "host", "-o", output, status=0)
    *_, last = done.stderr.splitlines()
    assert last.startswith(f"wrote {output} (") and ": 4 streams, 4 alarms" in last
    assert last.endswith(", 1 incident")
    found = page(output)
    assert found.meta["title"] == "live.csv judged by plant.fleet"
    assert {each["name"] for each in found.meta["streams"]} == set(HOSTS)
    (incident,) = found.meta["fleet"]["incidents"]
    assert set(incident["streams"]) == set(HOSTS)
    assert {path: path.read_bytes() for path in before} == before


def test_a_frozen_fleet_with_labels(site: Site, newnormal: Command) -> None:
    lines = [
        f"{line},{int(HISTORY + at // len(HOSTS) in FAULT)}" for at, line in enumerate(site.lines)
    ]
    path = site.write(lines, "labelled.csv", f"{WIDE},truth")
    output = site.folder / "report.html"
    done = newnormal(
        "report", site.fleet, path, "--by", "host", "--label", "truth", "--frozen", "-o", output
    )
    assert done.returncode == 0, done.stderr
    found = page(output)
    assert found.meta["labelled"] is True
    assert all(len(each["labels"]) == 1 for each in found.meta["streams"])
    assert all(each["alarms"] for each in found.meta["streams"])


def test_a_stream_that_is_not_in_the_fleet_is_named(site: Site, newnormal: Command) -> None:
    path = site.write([*site.lines, site.lines[-1].replace("db", "other")], "more.csv")
    output = site.folder / "report.html"
    done = newnormal("report", site.fleet, path, "--by", "host", "-o", output, status=1)
    assert "stream 'other'" in done.stderr
    assert len(page(output).meta["streams"]) == 4


def test_a_fleet_that_has_seen_the_file_judges_as_fitted(site: Site, newnormal: Command) -> None:
    output, again = site.folder / "report.html", site.folder / "again.html"
    assert newnormal("report", site.fleet, site.live, "--by", "host", "-o", output).returncode == 0
    assert newnormal("watch", site.fleet, site.live, "--by", "host").returncode == 0
    before = {path: path.read_bytes() for path in site.fleet.iterdir() if path.is_file()}
    done = newnormal("report", site.fleet, site.live, "--by", "host", "-o", again, status=0)
    assert f"{site.fleet} has seen these times: they are judged from where it was" in done.stderr
    first, second = page(output).meta, page(again).meta
    assert second["title"] == "live.csv judged by plant.fleet as it was fitted"
    assert second == {**first, "title": second["title"]}
    assert {path: path.read_bytes() for path in before} == before


def test_a_state_that_knows_the_file_judges_as_fitted(moved: Plant, newnormal: Command) -> None:
    state, output = moved.folder / "plant.state", moved.folder / "report.html"
    assert newnormal("watch", moved.model, moved.live, "--state", state).returncode == 0
    done = newnormal("report", state, moved.live, "-o", output, status=0)
    assert f"{state} has seen these times" in done.stderr
    assert page(output).meta["title"] == "live.csv judged by plant.state as it was fitted"
    (again,) = page(output).meta["streams"]
    assert newnormal("report", moved.model, moved.live, "-o", output).returncode == 0
    (first,) = page(output).meta["streams"]
    assert again == {**first, "name": again["name"]}


def test_a_report_of_a_state_has_its_decisions_and_finds_what_evaluate_does(
    moved: Plant, newnormal: Command
) -> None:
    cut(moved, CHANGE + 60)
    state, output = moved.folder / "plant.state", moved.folder / "report.html"
    assert newnormal("watch", moved.model, moved.live, "--state", state).returncode == 0
    assert newnormal("accept", state).returncode == 0
    path = labelled(moved, [*range(40, 45), *range(CHANGE, CHANGE + 9)])
    given = (state, path, "--label", "truth")
    measured = json.loads(newnormal("evaluate", *given, "--json").stdout)["alarms"]
    newnormal("report", *given, "-o", output)
    (stream,) = page(output).meta["streams"]
    assert stream["found"] == {name: measured[name] for name in ("events", "found", "false")}
    assert stream["found"]["found"] == 1 and stream["alarms"][0]["labelled"]
    decided = [(each["kind"], each["state"]) for each in stream["decisions"]]
    assert sorted(decided) == [("alarm", "accepted"), ("change", "accepted")]
    assert stream["changes"][0]["state"] == "pending"


def test_a_change_rejected_before_is_shown_as_rejected(moved: Plant, newnormal: Command) -> None:
    """Also of a fleet, and of `run`: none of them has the event of the rejection."""
    end = CHANGE + 60
    cut(moved, end)
    state, output = moved.folder / "plant.state", moved.folder / "report.html"
    assert newnormal("watch", moved.model, moved.live, "--state", state).returncode == 0
    assert newnormal("reject", state).returncode == 0
    back = moved.folder / "back.csv"
    back.write_text("\n".join(["time,a,b", *lines(1_500 + end, 900)]) + "\n")
    assert newnormal("report", state, back, "-o", output).returncode == 0
    (change,) = page(output).meta["streams"][0]["changes"]
    assert [name for _, name in change["steps"]] == ["rejected", "reverted"]
    detector, series = newnormal_load(state), read(back)
    fleet = Fleet().add("web-1", detector)
    for verdicts in (detector.run(series), fleet.run({"web-1": series})["web-1"]):
        (span,) = Timeline.of(verdicts).changes
        assert [name for _, name in span.steps] == ["rejected", "reverted"]


def test_samples_that_are_not_taken_are_named(
    site: Site, newnormal: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = site.folder / "report.html"
    taken = Fleet.run

    def run(fleet: Fleet, tables: StreamTables) -> FleetVerdicts:
        verdicts = taken(fleet, StreamTables({each: tables.tables[each] for each in names}))
        others = [each for each in tables.tables if each not in names]
        verdicts.errors = tuple(StreamError(each, InputError("is broken")) for each in others)
        return verdicts

    monkeypatch.setattr(Fleet, "run", run)
    command = ("report", site.fleet, site.live, "--by", "host", "-o", output)
    names = [each for each in HOSTS if each != "db"]
    assert "error: stream 'db': is broken; skipped" in newnormal(*command, status=1).stderr
    assert {each["name"] for each in page(output).meta["streams"]} == {*HOSTS} - {"db"}
    output.unlink()
    names = []
    done = newnormal(*command)
    assert "error: no stream can be judged; " in done.stderr
    assert done.returncode == 1 and not output.exists()


def test_a_fleet_needs_its_streams_named(site: Site, newnormal: Command, plant: Plant) -> None:
    output = site.folder / "report.html"
    done = newnormal("report", plant.model, plant.live, "--by", "a", "-o", output)
    assert "--by: expected the folder of a fleet, found" in done.stderr
    assert not output.exists()
