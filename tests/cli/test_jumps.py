"""Times that are far ahead, late or there twice, in `newnormal watch`."""

import re

import pytest

from tests.cli.conftest import Command, Done, Plant
from tests.cli.fleets import HISTORY, Site, host_lines
from tests.present import present

FAR = "2199-01-01T00:00:00,0,0,0"


def with_far(lines: list[str], *places: int) -> list[str]:
    """Return lines with one far ahead before each of some places."""
    found = list(lines)
    for place in sorted(places, reverse=True):
        found.insert(place, FAR)
    return found


def test_one_line_far_ahead_is_told_and_nothing_is_late(plant: Plant, newnormal: Command) -> None:
    expected = newnormal("watch", plant.model, plant.live)
    done = newnormal("watch", plant.model, plant.write(with_far(plant.lines, 50, 200)), status=0)
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
    before = newnormal("watch", plant.model, plant.write(lines[:cut]), "--state", plant.state)
    assert ("held back until more samples come" in before.stderr) == (cut == 51)
    after = newnormal("watch", plant.model, plant.write(lines), "--state", plant.state)
    assert before.stdout + after.stdout == expected
    assert (before.stderr + after.stderr).count("not confirmed; skipped") == 2


def test_at_the_end_without_a_state_it_is_reported(plant: Plant, newnormal: Command) -> None:
    done = newnormal("watch", plant.model, plant.write([*plant.lines[:40], FAR]))
    assert "line 41: expected a time near" in done.stderr
    assert "39 samples" in done.stderr


def test_a_gap_is_confirmed_and_told(plant: Plant, newnormal: Command) -> None:
    later = [line.replace("2026-01-01", "2026-01-09") for line in plant.lines[100:140]]
    done = newnormal("watch", plant.model, plant.write([*plant.lines[:90], *later]))
    assert "line 91: a gap of 8 d, confirmed" in done.stderr
    assert "skipped" not in done.stderr
    assert "129 samples" in done.stderr


def test_strict_ends_before_the_line_that_refutes(plant: Plant, newnormal: Command) -> None:
    arguments = (*plant.watch, "--strict")
    expected = newnormal("watch", plant.model, plant.live).stdout
    plant.write(with_far(plant.lines, 50))
    first = newnormal(*arguments, status=3)
    assert "line 51: expected a time near" in first.stderr
    second = newnormal(*arguments)
    assert second.returncode == 3, "it is where it was"
    assert first.stdout + second.stdout + newnormal(*arguments[:-1]).stdout == expected


@pytest.mark.parametrize("body", [["x"] * 3, ["?,,"] * 40])
def test_nothing_but_bad_lines_is_error(plant: Plant, newnormal: Command, body: list[str]) -> None:
    done = newnormal("watch", plant.model, plant.write([plant.lines[0], *body]), status=1)
    assert "expected samples, found " in done.stderr
    assert "line 2: " in done.stderr


def test_new_bad_lines_of_a_growing_file_are_no_error(plant: Plant, newnormal: Command) -> None:
    newnormal(*plant.watch)
    plant.write([*plant.lines, "when,1,2,3"])
    done = newnormal(*plant.watch, status=0)
    assert done.stderr.count("; skipped") == 1


def judged(done: Done) -> tuple[int, int]:
    """Return how many samples a watch has judged, and how many were anomalous."""
    counts = re.search(r"judged ([\d,]+) samples?, ([\d,]+) anomalous", done.stderr)
    samples, anomalous = (count.replace(",", "") for count in present(counts).groups())
    return int(samples), int(anomalous)


def test_late_samples_are_put_in_their_place(plant: Plant, newnormal: Command) -> None:
    arguments = ("watch", plant.model, plant.live)
    straight = newnormal(*arguments)
    lines = list(plant.lines)
    for at in range(20, 300, 40):
        lines[at : at + 3] = [lines[at + 1], lines[at + 2], lines[at]]
    plant.write(lines)
    assert "bad lines skipped" in newnormal(*arguments).stderr
    in_order = newnormal(*arguments, "--lateness", "2min")
    assert "bad line" not in in_order.stderr
    assert judged(in_order) == judged(straight)


def test_samples_in_pieces_are_brought_to_a_period_as_a_whole(
    plant: Plant, newnormal: Command
) -> None:
    arguments = ("watch", plant.model, plant.live, "--resample", "3min")
    whole, anomalous = judged(newnormal(*arguments))
    assert whole in range(120, 140)
    parts = []
    for cut in (1, 2, 50, 51, 52, 53, 200, 401):
        plant.write(plant.lines[:cut])
        parts.append(judged(newnormal(*arguments, "--state", plant.state)))
    samples, found = map(sum, zip(*parts, strict=True))
    # The last step waits for more, which a file without a state does not.
    assert samples in (whole, whole - 1)
    assert found == anomalous


def test_a_time_that_is_there_twice_can_end_the_watch(plant: Plant, newnormal: Command) -> None:
    arguments = plant.watch
    expected = newnormal("watch", plant.model, plant.live).stdout
    plant.write([*plant.lines[:60], plant.lines[59], *plant.lines[60:90]])
    first = newnormal(*arguments, "--on-duplicate", "error", status=1)
    assert re.search(r"live\.csv: line 61: expected each time once.* line 60", first.stderr)
    plant.write(plant.lines)
    second = newnormal(*arguments, "--on-duplicate", "error", status=0)
    assert second.stderr.startswith("resuming at line 61\n")
    assert first.stdout + second.stdout == expected


# ---------------------------------------------------------------------- fleets


def far_host(lines: list[str], at: int, host: str = "web-2") -> list[str]:
    return [*lines[:at], f"2199-01-01T00:00:00,{host},0,0", *lines[at:]]


def test_in_a_fleet_it_is_the_stream_that_waits(site: Site, newnormal: Command) -> None:
    expected = newnormal("watch", site.fleet, site.live, "--by", "host")
    site.write(far_host(site.lines, 100))
    done = newnormal("watch", site.fleet, site.live, "--by", "host", status=0)
    assert site.by_stream(done.stdout.splitlines()) == site.by_stream(expected.stdout.splitlines())
    assert "line 102: stream 'web-2': expected a time near" in done.stderr
    assert done.stderr.count("; skipped") == 1


@pytest.mark.parametrize("cut", [101, 102, 104, 300])
def test_a_fleet_holds_back_over_starts(site: Site, newnormal: Command, cut: int) -> None:
    expected = newnormal("watch", site.fleet, site.live, "--by", "host")
    lines = far_host(site.lines, 100)
    site.write(lines[:cut])
    before = newnormal(*site.watch)
    site.write(lines)
    after = newnormal(*site.watch)
    assert site.by_stream((before.stdout + after.stdout).splitlines()) == site.by_stream(
        expected.stdout.splitlines()
    )
    assert (before.stderr + after.stderr).count("not confirmed; skipped") == 1


def test_a_fleet_refuses_an_input_of_nothing_but_bad_lines(site: Site, newnormal: Command) -> None:
    site.write(["x"] * 5)
    done = newnormal("watch", site.fleet, site.live, "--by", "host", status=1)
    assert "expected samples, found 5 lines that hold none" in done.stderr


def test_late_samples_of_a_fleet_over_starts(site: Site, newnormal: Command) -> None:
    expected = newnormal("watch", site.fleet, site.live, "--by", "host").stdout.splitlines()
    lines = host_lines(120, HISTORY)
    for at in range(40, 400, 60):
        lines[at], lines[at + 4] = lines[at + 4], lines[at]
    found: list[str] = []
    for cut in (43, 44, 45, 200, len(lines)):
        site.write(lines[:cut])
        done = newnormal(*site.watch, "--lateness", "1min")
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
    expected = newnormal("watch", plant.model, plant.write([plant.lines[0], *zoned])).stdout
    lines = [plant.lines[0], *zoned[:40], FAR.replace(",", "+01:00,", 1), *zoned[40:]]
    done = newnormal("watch", plant.model, plant.write(lines))
    assert done.stdout == expected
    assert '"time": "2026-01-01T15:40:00+01:00"' in done.stdout
    assert "found 2199-01-01T00:00:00+01:00: held back and not confirmed" in done.stderr
