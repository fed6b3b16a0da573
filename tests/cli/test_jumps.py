"""Times that are far ahead, late or there twice, in `newnormal watch`."""

import shutil
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from newnormal.base import BaseDetector
from newnormal.errors import InputError
from newnormal.io import SourceOptions
from newnormal.io.sources.arriving import ArrivingSource
from newnormal.io.sources.file import FileSource
from newnormal.runtime import checkpoint
from newnormal.runtime.lock import Lock
from newnormal.runtime.watch import Watch
from newnormal.tabular import Reading
from newnormal.testing import MemorySink
from tests.cli.conftest import Command, Plant
from tests.cli.fleets import HISTORY, Site, host_lines

FAR = "2199-01-01T00:00:00,0,0,0"


def write(plant: Plant, lines: Sequence[str]) -> Path:
    plant.write(lines)
    return plant.live


def with_far(lines: list[str], *places: int) -> list[str]:
    """Return lines with one far ahead before each of some places."""
    found = list(lines)
    for place in sorted(places, reverse=True):
        found.insert(place, FAR)
    return found


def test_one_line_far_ahead_is_told_and_nothing_is_late(plant: Plant, newnormal: Command) -> None:
    expected = newnormal("watch", plant.model, plant.live)
    done = newnormal("watch", plant.model, write(plant, with_far(plant.lines, 50, 200)), status=0)
    assert done.stdout == expected.stdout
    assert done.stderr.count("; skipped") == 2
    assert (
        "line 51: expected a time near 2026-01-01T15:48:00, found 2199-01-01T00:00:00: "
        "held back and not confirmed; skipped"
    ) in done.stderr


@pytest.mark.parametrize("cut", [51, 52, 120])
def test_what_is_held_back_comes_at_next_start(plant: Plant, newnormal: Command, cut: int) -> None:
    expected = newnormal("watch", plant.model, plant.live).stdout
    lines = with_far(plant.lines, 50, 200)
    before = newnormal("watch", plant.model, write(plant, lines[:cut]), "--state", plant.state)
    assert ("held back until more samples come" in before.stderr) == (cut == 51)
    after = newnormal("watch", plant.model, write(plant, lines), "--state", plant.state)
    assert before.stdout + after.stdout == expected
    assert (before.stderr + after.stderr).count("not confirmed; skipped") == 2


def test_at_the_end_without_a_state_it_is_reported(plant: Plant, newnormal: Command) -> None:
    done = newnormal("watch", plant.model, write(plant, [*plant.lines[:40], FAR]))
    assert "line 41: expected a time near" in done.stderr
    assert "39 samples" in done.stderr


def test_a_gap_is_confirmed_and_told(plant: Plant, newnormal: Command) -> None:
    later = [line.replace("2026-01-01", "2026-01-09") for line in plant.lines[100:140]]
    done = newnormal("watch", plant.model, write(plant, [*plant.lines[:90], *later]))
    assert "line 91: a gap of 8 d, confirmed" in done.stderr
    assert "skipped" not in done.stderr
    assert "129 samples" in done.stderr


def test_strict_ends_before_the_line_that_refutes(plant: Plant, newnormal: Command) -> None:
    arguments = ("watch", plant.model, plant.live, "--state", plant.state, "--strict")
    expected = newnormal("watch", plant.model, plant.live).stdout
    write(plant, with_far(plant.lines, 50))
    first = newnormal(*arguments, status=3)
    assert "line 51: expected a time near" in first.stderr
    second = newnormal(*arguments)
    assert second.returncode == 3, "it is where it was"
    assert first.stdout + second.stdout + newnormal(*arguments[:-1]).stdout == expected


@pytest.mark.parametrize("body", [["x"] * 3, ["?,,"] * 40])
def test_nothing_but_bad_lines_is_error(plant: Plant, newnormal: Command, body: list[str]) -> None:
    done = newnormal("watch", plant.model, write(plant, [plant.lines[0], *body]), status=1)
    assert "expected samples, found " in done.stderr
    assert "line 2: " in done.stderr


def test_new_bad_lines_of_a_growing_file_are_no_error(plant: Plant, newnormal: Command) -> None:
    newnormal("watch", plant.model, plant.live, "--state", plant.state)
    write(plant, [*plant.lines, "when,1,2,3"])
    done = newnormal("watch", plant.model, plant.live, "--state", plant.state, status=0)
    assert done.stderr.count("; skipped") == 1


def watched(plant: Plant, state: Path | None = None, **options: Any) -> Watch:
    """Watch a file by options that the command may not have; return what did."""

    def make(detector: BaseDetector) -> ArrivingSource:
        found = SourceOptions(detector.channels_, Reading.of(options))
        return ArrivingSource(FileSource(str(plant.live), found), keep=state is not None)

    resumed = checkpoint.resume(plant.model, state, make, lambda _: None)
    sink = MemorySink()
    with closing(resumed.source):
        if state is None:
            watching = Watch(resumed, sink)
            watching.run()
            return watching
        return _saved(resumed, sink, state)


def _saved(resumed: checkpoint.Resumed, sink: MemorySink, state: Path) -> Watch:
    with Lock(state) as lock:
        watching = Watch(resumed, sink, state=(state, lock), every=100_000, track_alarms=True)
        watching.run()
    return watching


def test_every_event_has_a_checkpoint(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    places: list[int] = []
    save = checkpoint.save

    def saved(path: Path, detector: Any, *more: Any) -> None:
        places.append(detector.counters["seen"])
        save(path, detector, *more)

    monkeypatch.setattr(checkpoint, "save", saved)
    monkeypatch.setattr("newnormal.runtime.watch._BATCH", 20)
    monkeypatch.setattr("newnormal.runtime.watch.Watch._limit", lambda _: 20)
    assert watched(plant, plant.folder / "plant.state").alarms > 0
    batches = 400 // 20
    assert 1 < len(places) < batches
    assert len(set(places[:-1])) == len(places) - 1, "at most one a batch"


def test_late_samples_are_put_in_their_place(plant: Plant) -> None:
    straight = watched(plant)
    lines = list(plant.lines)
    for at in range(20, 300, 40):
        lines[at : at + 3] = [lines[at + 1], lines[at + 2], lines[at]]
    write(plant, lines)
    assert watched(plant).bad > 0
    found = watched(plant, lateness="2min")
    assert (found.bad, found.judged) == (0, straight.judged)
    assert found.anomalous == straight.anomalous


def test_samples_in_pieces_are_brought_to_a_period_as_a_whole(plant: Plant) -> None:
    whole = watched(plant, resample="3min")
    assert whole.judged in range(120, 140)
    judged = anomalous = 0
    for cut in (1, 2, 50, 51, 52, 53, 200, 401):
        write(plant, plant.lines[:cut])
        part = watched(plant, plant.state, resample="3min")
        judged, anomalous = judged + part.judged, anomalous + part.anomalous
    # The last step waits for more, which a file without a state does not.
    assert judged in (whole.judged, whole.judged - 1)
    assert anomalous == whole.anomalous


def test_a_time_that_is_there_twice_can_end_the_watch(plant: Plant) -> None:
    write(plant, [*plant.lines[:60], plant.lines[59], *plant.lines[60:90]])
    with pytest.raises(InputError, match=r"live\.csv: line 61: expected each time once.* line 60"):
        watched(plant, plant.state, on_duplicate="error")
    assert load_place(plant.state)["line"] == 60
    write(plant, plant.lines)
    assert watched(plant, plant.state, on_duplicate="error").judged in (400 - 59, 400 - 58)


def load_place(state: Path) -> dict[str, Any]:
    from newnormal import state as state_file

    place = checkpoint.input_position(state_file.read(state), state)
    assert place is not None
    return place


# ---------------------------------------------------------------------- fleets


def far_host(lines: list[str], at: int, host: str = "web-2") -> list[str]:
    return [*lines[:at], f"2199-01-01T00:00:00,{host},0,0", *lines[at:]]


def by_stream(site: Site, text: str) -> dict[str, list[dict[str, Any]]]:
    return site.by_stream(text.splitlines())


def test_in_a_fleet_it_is_the_stream_that_waits(site: Site, newnormal: Command) -> None:
    copy = site.folder / "copy.fleet"
    shutil.copytree(site.fleet, copy)
    expected = newnormal("watch", copy, site.live, "--by", "host")
    site.write(far_host(site.lines, 100))
    done = newnormal("watch", site.fleet, site.live, "--by", "host", status=0)
    assert by_stream(site, done.stdout) == by_stream(site, expected.stdout)
    assert "line 102: stream 'web-2': expected a time near" in done.stderr
    assert done.stderr.count("; skipped") == 1


@pytest.mark.parametrize("cut", [101, 102, 104, 300])
def test_a_fleet_holds_back_over_starts(site: Site, newnormal: Command, cut: int) -> None:
    copy = site.folder / "copy.fleet"
    shutil.copytree(site.fleet, copy)
    expected = newnormal("watch", copy, site.live, "--by", "host")
    lines = far_host(site.lines, 100)
    site.write(lines[:cut])
    before = newnormal("watch", site.fleet, site.live, "--by", "host")
    site.write(lines)
    after = newnormal("watch", site.fleet, site.live, "--by", "host")
    assert by_stream(site, before.stdout + after.stdout) == by_stream(site, expected.stdout)
    assert (before.stderr + after.stderr).count("not confirmed; skipped") == 1


def test_a_fleet_refuses_an_input_of_nothing_but_bad_lines(site: Site, newnormal: Command) -> None:
    site.write(["x"] * 5)
    done = newnormal("watch", site.fleet, site.live, "--by", "host", status=1)
    assert "expected samples, found 5 lines that hold none" in done.stderr


def test_late_samples_of_a_fleet_over_starts(site: Site, newnormal: Command) -> None:
    copy = site.folder / "copy.fleet"
    shutil.copytree(site.fleet, copy)
    expected = newnormal("watch", copy, site.live, "--by", "host").stdout.splitlines()
    lines = host_lines(120, HISTORY)
    for at in range(40, 400, 60):
        lines[at], lines[at + 4] = lines[at + 4], lines[at]
    found: list[str] = []
    for cut in (43, 44, 45, 200, len(lines)):
        site.write(lines[:cut])
        done = newnormal("watch", site.fleet, site.live, "--by", "host", "--lateness", "1min")
        found += done.stdout.splitlines()
    streams = site.by_stream(found)
    for name, verdicts in site.by_stream(expected).items():
        assert streams[name] == verdicts[:-1], "the newest waits"


def test_a_fleet_ends_at_a_repeated_time(site: Site, newnormal: Command) -> None:
    site.write([*site.lines[:40], site.lines[36], *site.lines[40:]])
    arguments = ("watch", site.fleet, site.live, "--by", "host", "--on-duplicate", "error")
    done = newnormal(*arguments, status=1)
    assert "line 42: stream 'web-1': expected each time once" in done.stderr
    assert len(done.stdout.splitlines()) == 40


def test_zones_are_kept_where_samples_are_held_back(plant: Plant, newnormal: Command) -> None:
    zoned = [line.replace(",", "+01:00,", 1) for line in plant.lines[1:]]
    expected = newnormal("watch", plant.model, write(plant, [plant.lines[0], *zoned])).stdout
    lines = [plant.lines[0], *zoned[:40], FAR.replace(",", "+01:00,", 1), *zoned[40:]]
    done = newnormal("watch", plant.model, write(plant, lines))
    assert done.stdout == expected
    assert '"time": "2026-01-01T15:40:00+01:00"' in done.stdout
    assert "found 2199-01-01T00:00:00+01:00: held back and not confirmed" in done.stderr
