"""`newnormal evaluate`: what it grades, what it prints first, and that picture and table agree."""

import json
from collections.abc import Callable

import numpy as np
import pytest

import newnormal
from newnormal import load, metrics
from newnormal.cli import measuring
from newnormal.runtime.judging import judge_series
from newnormal.tabular import Table, read
from newnormal.types import Timeline
from tests.cli.conftest import CHANGE, Command, Plant, cut, labelled
from tests.cli.fleets import FAULT, HISTORY, HOSTS, WIDE, Site


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
    for options, how in (((), "run"), (("--frozen",), "score")):
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
    detector = load(plant.model).track_alarms()
    whole = detector.score(series) if frozen else detector.run(series)
    for name in ("scores", "thresholds", "anomalous", "alarms", "expected"):
        np.testing.assert_array_equal(getattr(verdicts, name), getattr(whole, name))
    assert done == [1_000, 2_000, 2_503]
    assert sum(event.kind == "opened" for event in events) == whole.alarms.max()  # type: ignore[union-attr]


def test_the_picture_shows_the_alarms_of_the_table(moved: Plant) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra plot")
    table = read(labelled(cut(moved, 2 * CHANGE), range(CHANGE, CHANGE + 20)), label="truth")
    assert table.labels is not None
    found, verdicts = measuring.measure(load(moved.model), table, table.labels)
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
    done = newnormal("evaluate", plant.model, labelled(plant, range(0)), "--label", "truth")
    assert done.returncode == 0, done.stderr
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
    body = []
    for at, line in enumerate(site.lines):
        sample, host = HISTORY + at // len(HOSTS), line.split(",")[1]
        truth = sample in FAULT if host != quiet else sample == HISTORY + 20
        body.append(f"{line},{int(truth)}")
    path = site.write(body, "labelled.csv", f"{WIDE},truth")
    done = newnormal("evaluate", site.fleet, path, "--by", "host", "--label", "truth", status=0)
    assert done.stdout.splitlines()[2].startswith("3 of 4 events found")
    assert f"worst streams: {quiet} (1 missed, 1 false)" in done.stdout
    names = [line.split()[0] for line in done.stdout.splitlines() if line.strip()]
    assert names.index(quiet) < names.index(HOSTS[1])
    assert "all 4" in done.stdout
