"""Streams as they come: headers in the middle, wrong clocks, many bad lines, parts of a file."""

import json
from pathlib import Path

import numpy as np
import pytest

from newnormal.arrivals.order import HOUR_TWICE, LATE, Refused
from newnormal.runtime.bad_lines import BadLineReporter
from newnormal.tabular import Reading, read
from newnormal.tabular.many.stream_lines import StreamLines
from newnormal.tabular.ordering.live import LiveOrder
from newnormal.tabular.parsing.dialect import is_header_again
from newnormal.tabular.parsing.lines import LineParser
from tests.cli.conftest import Command, Plant

MINUTE = np.timedelta64(60, "s")
YEAR_2199 = np.datetime64("2199-01-01", "ns")


def _times(*texts: str) -> np.ndarray:
    return np.array(texts, dtype="datetime64[ns]")


def test_fleet_lines_are_read_by_a_header_that_comes_among_the_first_lines() -> None:
    lines = ["time,host,load,heat"]
    lines += [f"2026-01-01T00:{minute:02}Z,a,{minute},5" for minute in range(10)]
    lines += ["heat,time,load,host"]
    lines += [f"5,2026-01-01T00:{minute:02}Z,{minute},a" for minute in range(10, 30)]
    batch = StreamLines("host").parse(lines)
    assert batch.problems == ()
    assert batch.channels == ("load", "heat")
    assert batch.names == ("a",)
    np.testing.assert_array_equal(batch.values[:, 0], np.arange(30))
    assert (batch.values[:, 1] == 5).all()


def test_a_header_that_lost_a_channel_is_a_header_and_the_channel_is_reported_once() -> None:
    told: list[str] = []
    parser = LineParser(channels=("load", "heat", "flow"), report=told.append)
    lines = ["time,load,heat,flow", *(f"2026-01-01T00:0{at}Z,1,2,3" for at in range(5))]
    lines += ["time,heat", *(f"2026-01-01T00:1{at}Z,2" for at in range(5))]
    samples = parser.parse_many(lines, final=True)
    assert not samples.errors
    assert len(samples.rows) == 10
    assert (samples.values[:, 1] == 2).all()
    assert np.isnan(samples.values[5:, [0, 2]]).all()
    assert told == [
        "line 7: a header again, columns are read by it from here on",
        "channel 'load' is not in the input: its values are missing",
        "channel 'flow' is not in the input: its values are missing",
    ]


def test_one_known_word_alone_is_no_header() -> None:
    names = ["time", "load", "heat"]
    assert not is_header_again(["load"], names, ["load", "heat", "flow"])
    assert not is_header_again(["time", "note"], names, ["load", "heat"])


@pytest.mark.parametrize("pieces", [1, 2, 5])
def test_a_first_time_far_in_the_future_does_not_make_the_others_late(pieces: int) -> None:
    arrival = LiveOrder(Reading(), ("load",), MINUTE)
    times = np.r_[YEAR_2199, np.datetime64("2026-01-01", "ns") + np.arange(4) * MINUTE]
    values = np.arange(5.0)[:, None]
    numbers = np.arange(2, 7)
    given: list[float] = []
    wrong: list[int] = []
    for part in np.array_split(np.arange(5), pieces):
        arrived = arrival.push(values[part], times[part], numbers[part])
        given += arrived.values[:, 0].tolist()
        wrong += [each.number for each in arrived.problems]
    assert given == [1.0, 2.0, 3.0, 4.0]
    assert wrong == [2]


def test_a_stream_that_is_in_the_future_throughout_loses_nothing() -> None:
    arrival = LiveOrder(Reading(), ("load",), MINUTE)
    given: list[float] = []
    for at in range(3):
        arrived = arrival.push(np.array([[float(at)]]), np.array([YEAR_2199 + at * MINUTE]), [at])
        given += arrived.values[:, 0].tolist()
    assert given == [0.0, 1.0, 2.0]
    alone = LiveOrder(Reading(), ("load",), MINUTE)
    assert not len(alone.push(np.array([[7.0]]), np.array([YEAR_2199]), [2]).values)
    again = LiveOrder(Reading(), ("load",), MINUTE)
    again.restore(json.loads(json.dumps(alone.facts())))
    assert again.flush().values.tolist() == [[7.0]]


def test_a_time_that_goes_back_by_an_hour_names_the_zone() -> None:
    newest, earlier, just_before = _times(
        "2026-10-25T02:59", "2026-10-25T02:00", "2026-10-25T02:58"
    )
    ns = [int(time.astype(np.int64)) for time in (newest, earlier, just_before)]
    assert Refused(2, ns[1], LATE, ns[0]).error().hint == HOUR_TWICE
    assert "--tz" in HOUR_TWICE
    assert Refused(2, ns[1], LATE, ns[0]).error("Europe/Berlin").hint is None
    assert Refused(2, ns[2], LATE, ns[0]).error().hint is None


def test_of_many_bad_lines_in_a_row_the_first_ones_are_told_and_each_hint_once() -> None:
    told: list[str] = []
    lines = BadLineReporter(told.append)
    for number in (*range(2, 102), 200, 201):
        lines.bad(number, f"line {number}", "do this")
    assert told == [
        "line 2; skipped",
        "hint: do this",
        *(f"line {number}; skipped" for number in range(3, 12)),
        "more bad lines follow: they are counted and not shown, up to the next good one",
        "line 200; skipped",
        "line 201; skipped",
    ]


def test_bounds_without_a_zone_are_in_that_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "night.csv"
    lines = [f"2026-10-25 {hour:02}:{minute:02},1" for hour in (1, 2) for minute in (0, 30)]
    lines += [f"2026-10-25 {hour:02}:{minute:02},2" for hour in (2, 3) for minute in (0, 30)]
    path.write_text("time,load\n" + "\n".join(lines) + "\n")
    table = read(path, tz="Europe/Berlin", from_="2026-10-25 01:30", until="2026-10-25 03:00")
    assert table.times is not None
    assert table.times.astype("datetime64[m]").astype(str).tolist() == [
        "2026-10-24T23:30",
        "2026-10-25T00:00",
        "2026-10-25T00:30",
        "2026-10-25T01:00",
        "2026-10-25T01:30",
    ]
    assert len(read(path, tz="Europe/Berlin", from_="2026-10-25T01:30Z").values) == 3
    path.write_text("time,load\n" + "".join(f"2026-07-01T{h:02}:00+02:00,1\n" for h in range(5)))
    assert len(read(path, from_="2026-07-01T03:00").values) == 2


def test_watch_tells_first_bad_lines_and_counts_all(plant: Plant, newnormal: Command) -> None:
    lines = [*plant.lines[:20], *["garbage"] * 500, *plant.lines[20:]]
    expected = newnormal("watch", plant.model, plant.live)
    plant.write(lines)
    done = newnormal("watch", plant.model, plant.live)
    assert done.stdout == expected.stdout
    assert done.stderr.count("; skipped") == 10
    assert "500 bad lines skipped" in done.stderr


def test_a_stream_of_a_fleet_does_not_tell_a_number_of_lines_that_it_has_not_counted(
    tmp_path: Path, newnormal: Command
) -> None:
    path = tmp_path / "fleet.csv"
    start = np.datetime64("2026-01-01T00:00:00")
    lines = [f"{start + at},{host},{at % 7}" for at in range(100) for host in "ab"]
    lines.insert(50, "2199-01-01T00:00:00,a,1")
    path.write_text("time,host,load\n" + "\n".join(lines) + "\n")
    done = newnormal("check", path, "--by", "host", "--json")
    assert "1 line holds no sample; the first: line 52: expected a time near" in done.stdout
    assert "of 0" not in done.stdout
