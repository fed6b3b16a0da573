"""`newnormal report` and `evaluate`: pages and grades, what they print, and what they refuse."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import newnormal
from newnormal import Detector, Fleet, load, metrics
from newnormal.cli.evaluate import measure
from newnormal.errors import InputError
from newnormal.fleet import FleetVerdicts
from newnormal.fleet.results import StreamError
from newnormal.runtime.judging import judge_series
from newnormal.tabular import StreamTables, Table, read
from newnormal.types import Timeline
from tests.cli.conftest import CHANGE, Command, Plant, cut, labelled, lines
from tests.cli.fleets import HOSTS, Site
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
    output = site.folder / "report.html"
    arguments = ("report", site.fleet, site.labelled(), "--by", "host", "--label", "truth")
    newnormal(*arguments, "--frozen", "-o", output, status=0)
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
    assert newnormal(*site.watch).returncode == 0
    before = {path: path.read_bytes() for path in site.state.rglob("*") if path.is_file()}
    done = newnormal("report", site.state, site.live, "--by", "host", "-o", again, status=0)
    assert f"{site.state} has seen these times: they are judged from where it was" in done.stderr
    first, second = page(output).meta, page(again).meta
    assert second["title"] == "live.csv judged by fleet.state as it was fitted"
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
    back = moved.write(["time,a,b", *lines(1_500 + end, 900)], moved.folder / "back.csv")
    assert newnormal("report", state, back, "-o", output).returncode == 0
    (change,) = page(output).meta["streams"][0]["changes"]
    assert [name for _, name in change["steps"]] == ["rejected", "reverted"]
    detector, series = load(state), read(back)
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


def test_the_verdicts_that_were_made_are_graded(moved: Plant, newnormal: Command) -> None:
    """A change is accepted in the middle: one threshold over all scores is another detector."""
    path = labelled(moved, range(CHANGE, CHANGE + 20))
    found = json.loads(
        newnormal("evaluate", moved.model, path, "--label", "truth", "--json").stdout
    )
    table = read(path, label="truth")
    detector = load(moved.model).track_alarms()
    verdicts = detector.run(table)
    assert table.labels is not None
    counts = metrics.confusion(table.labels, verdicts.anomalous)
    for name in ("tp", "fp", "fn", "tn", "f1"):
        assert found["verdicts"][name] == getattr(counts, name)
    trace = metrics.trace_alarms(detector.take_events(), len(verdicts))
    alarms = trace.count(table.labels)
    assert found["alarms"]["opened"] == alarms.openings == len(trace.openings)
    assert found["alarms"]["pending"] == alarms.pending > 0
    assert found["alarms"]["in_alarm_share"] == alarms.in_alarm_share


def test_three_lines_then_alarms_samples_and_adjusted(moved: Plant, newnormal: Command) -> None:
    path = labelled(cut(moved, 2 * CHANGE), range(CHANGE, CHANGE + 20))
    done = newnormal("evaluate", moved.model, path, "--label", "truth")
    title, blank, found, false, in_alarm, *table = done.stdout.splitlines()
    assert (title, blank) == (f"{path} judged by {moved.model}", "")
    assert found == "1 of 1 event found, at its first sample"
    assert "false alarm" in false
    assert in_alarm.endswith("with a change pending")
    titles = ["Alarms", "Samples", "Best fixed threshold", "Point-adjusted"]
    assert [line for line in table if line in titles] == titles
    assert max(map(len, table)) <= 80


def test_alarms_are_counted_for_m2n2_and_frozen(plant: Plant, newnormal: Command) -> None:
    path = labelled(plant, range(50, 53))
    arguments = ("evaluate", plant.model, path, "--label", "truth", "--json")
    for options, how in (((), "run"), (("--frozen",), "score_frozen")):
        found = json.loads(newnormal(*arguments, *options).stdout)
        verdicts = getattr(load(plant.model).track_alarms(), how)(read(path, label="truth"))
        assert verdicts.alarms.max() == found["alarms"]["opened"] > 0
        assert found["verdicts"]["tp"] + found["verdicts"]["fp"] == verdicts.anomalous.sum()


@pytest.mark.parametrize("frozen", [False, True])
def test_pieces_have_the_verdicts_of_a_run_and_every_event(plant: Plant, frozen: bool) -> None:
    rng = np.random.default_rng(0)
    values = np.sin(np.arange(2_503)[:, None] / 9) + rng.normal(0, 0.1, (2_503, 3))
    values[::4] += 9  # alarms open and close all the time
    series = Table(values, ("a", "b", "c"), None)
    done: list[int] = []
    verdicts, events = judge_series(
        load(plant.model), series, frozen=frozen, on_samples=done.append
    )
    whole = getattr(load(plant.model).track_alarms(), "score_frozen" if frozen else "run")(series)
    for name in ("scores", "thresholds", "anomalous", "alarms", "expected"):
        np.testing.assert_array_equal(getattr(verdicts, name), getattr(whole, name))
    assert done == [1_000, 2_000, 2_503]
    assert sum(event.kind == "opened" for event in events) == whole.alarms.max()


def test_the_picture_shows_the_alarms_of_the_table(moved: Plant) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra plot")
    table = read(labelled(cut(moved, 2 * CHANGE), range(CHANGE, CHANGE + 20)), label="truth")
    assert table.labels is not None
    found, verdicts = measure(load(moved.model), table, table.labels)
    figure = newnormal.plot(verdicts, labels=table.labels, evaluation=found)
    counts = found.alarms
    remark = " · ".join(text.get_text() for text in figure.texts)
    assert f"{counts.found} of {counts.events} events found · " in remark
    assert f"{counts.false_per_day:.2g} false alarms a day" in remark
    assert f"F1 {found.report.f1:.2f}" in remark
    written = {text.get_text() for axes in figure.axes for text in axes.texts}
    numbers = {str(alarm.number) for alarm in Timeline.of(verdicts).alarms}
    assert {"alarms", "changes", "labels"} <= written
    assert len(numbers) == len(found.trace.alarms)
    assert numbers & written
    opened = [span for span in (*found.trace.alarms, *found.trace.changes) if span.opening]
    assert len(opened) == counts.openings


def test_it_needs_no_extra(plant: Plant, newnormal: Command, without: Callable[..., None]) -> None:
    without("sklearn", "scipy", "matplotlib")
    path = labelled(plant, range(50, 53))
    done = newnormal("evaluate", plant.model, path, "--label", "truth", "--json", status=0)
    assert json.loads(done.stdout)["scores"]["auprc"] > 0


def test_without_a_labelled_event_nothing_is_found(plant: Plant, newnormal: Command) -> None:
    path = labelled(plant, range(0))
    done = newnormal("evaluate", plant.model, path, "--label", "truth", status=0)
    assert "no event is labelled: there was nothing to find" in done.stdout
    assert "delay" not in done.stdout


def test_json_is_groups_of_numbers(plant: Plant, newnormal: Command) -> None:
    path = labelled(plant, range(50, 53))
    found = json.loads(
        newnormal("evaluate", plant.model, path, "--label", "truth", "--json").stdout
    )
    assert list(found)[:4] == ["samples", "labelled", "events", "period_seconds"]
    assert list(found)[4:] == ["alarms", "verdicts", "scores", "best", "point_adjusted"]
    for value in found.values():
        for each in value.values() if isinstance(value, dict) else [value]:
            assert each is None or isinstance(each, int | float)
    assert all(name == name.lower() and " " not in name for name in found["alarms"])


def test_a_fleet_is_summed_and_its_worst_streams_are_named(site: Site, newnormal: Command) -> None:
    """One host is labelled where nothing happens: it misses its event."""
    quiet = HOSTS[0]
    path = site.labelled(quiet)
    done = newnormal("evaluate", site.fleet, path, "--by", "host", "--label", "truth", status=0)
    assert done.stdout.splitlines()[2].startswith("3 of 4 events found")
    assert f"worst streams: {quiet} (1 missed, 1 false)" in done.stdout
    names = [line.split()[0] for line in done.stdout.splitlines() if line.strip()]
    assert names.index(quiet) < names.index(HOSTS[1])
    assert "all 4" in done.stdout
