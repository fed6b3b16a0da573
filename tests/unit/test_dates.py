"""Times as people and programs write them, and local times as UTC."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from newnormal.errors import InputError, ParameterError
from newnormal.tabular import LineParser, Reading, StreamLines, read
from newnormal.tabular.ordering.live import LiveOrder
from newnormal.tabular.parsing.dates import custom_form, date_order, form_of
from newnormal.tabular.parsing.time_columns import LocalClock
from newnormal.tabular.reading import Remembered
from newnormal.tabular.times import Bound
from tests.present import present

LAST = "2026-12-31T23:59:59"


@pytest.mark.parametrize(
    "cell",
    ["2026-02-30", "31.02.2026", "10.20.2026", "12.5", "20261231", "1.2.3", "x", "31-Foo-2026",
     "13/13/2026", "2026-12-31 24:00:00", "2026-12-31 13:00 PM", "\u0663\u0661.12.2026"],
)  # fmt: skip
def test_what_is_no_time_is_none(cell: str) -> None:
    assert form_of(cell) is None


@pytest.mark.parametrize(
    ("cells", "order"),
    [
        (["03/04/2026", "13/04/2026"], "day-first"),
        (["03/04/2026", "03/14/2026"], "month-first"),
        (["03.04.2026"], "day-first"),
        (["03/04/2026"], "open"),
        (["03-04-2026"], "open"),
        (["2026-03-04"], None),
    ],
)
def test_the_day_is_told_from_the_month_by_a_number_above_12(cells: Any, order: Any) -> None:
    assert date_order(cells) == order


def test_a_date_that_stays_open_is_asked_for(table: Any) -> None:
    text = "t;a\n03/04/2026;1\n04/04/2026;2\n"
    with pytest.raises(InputError) as caught:
        table(text)
    assert "column 't': expected dates that tell the day from the month, found '03/04/2026'" in str(
        caught.value
    )
    assert "--date-format day-first|month-first (date_format=)" in str(caught.value)
    first = table(text, date_format="day-first").times[0]
    assert first == np.datetime64("2026-04-03", "ns")
    assert table(text, date_format="month-first").times[0] == np.datetime64("2026-03-04", "ns")
    found = table(text, reading=Reading(remembered=Remembered(date_format="day-first")))
    assert found.times[0] == first
    assert (found.profile.date_format, found.profile.written["dates"]) == ("day-first", "day-first")


@pytest.mark.parametrize(
    ("pattern", "cell"),
    [
        ("%d.%m.%Y %H:%M:%S", "31.12.2026 23:59:59"),
        ("%Y%m%d%H%M%S", "20261231235959"),
        ("%m/%d/%y %I:%M:%S %p", "12/31/26 11:59:59 PM"),
        ("%d %b %Y, %H:%M:%S", "31 Dec 2026, 23:59:59"),
        ("%H:%M:%S %d-%m-%Y", "23:59:59 31-12-2026"),
        ("%F %T", "2026-12-31 23:59:59"),
        ("%Y-%m-%dT%H:%M:%S%z", "2027-01-01T01:59:59+0200"),
    ],
)
def test_a_pattern_is_the_only_form(table: Any, pattern: str, cell: str) -> None:
    found = table(f"t;a\n{cell};1\n2026-01-01;3\n", date_format=pattern)
    assert found.times[0] == np.datetime64(LAST, "ns")
    assert found.profile.bad_lines == 1


@pytest.mark.parametrize("pattern", ["", "%d", "%Q %Y %m %d", "%Y %m %d %", "%b %B %d %Y", "soon"])
def test_what_is_no_pattern_is_refused(table: Any, pattern: str) -> None:
    with pytest.raises(ParameterError, match="date_format: expected day-first, month-first or a"):
        table("t;a\n2026-01-01;1\n", date_format=pattern)


def test_a_pattern_reads_as_strptime_does() -> None:
    rng = np.random.default_rng(0)
    pattern = "%d/%m/%y %H:%M:%S.%f"
    moments = [
        datetime(1970, 1, 1) + timedelta(microseconds=int(each))
        for each in rng.integers(0, 3 * 10**15, 200)
    ]
    cells = [f"{each:{pattern}}" for each in moments]
    found = present(custom_form(pattern).read(cells))
    expected = [datetime.strptime(cell, pattern) for cell in cells]
    np.testing.assert_array_equal(
        found.ns.view("datetime64[ns]"), np.array(expected, dtype="datetime64[ns]")
    )


def test_date_and_time_of_day_in_two_columns(table: Any) -> None:
    text = "Date;Time;a\n31.12.2026;23:59:58;1\n31.12.2026;23:59:59;2\n"
    found = table(text)
    assert found.times[1] == np.datetime64(LAST, "ns")
    assert found.profile.time == ("Date", "Time")
    assert found.channels == ("a",)
    other = text.replace("Date", "x").replace("Time", "y")
    np.testing.assert_array_equal(table(other).times, found.times)
    np.testing.assert_array_equal(table(other, time=["x", "y"]).times, found.times)
    with pytest.raises(InputError, match="time names column 'z', found only"):
        table(other, time=["x", "z"])
    bad = table(text + "01.01.2027;soon;3\n")
    assert bad.profile.first_bad.startswith(
        "line 4: column 'Time': expected a time, found '01.01.2027 soon'"
    )


@pytest.mark.parametrize("name", ["time", "Timestamp", "ts", "DATE", "datetime", "_time", "epoch"])
@pytest.mark.parametrize(("unit", "size"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_a_column_of_unix_times_is_the_time(table: Any, name: str, unit: str, size: int) -> None:
    found = table(f"a,{name}\n5,{1767225600 * size}\n6,{1767225601 * size}\n")
    assert found.channels == ("a",)
    assert found.times[1] == np.datetime64("2026-01-01T00:00:01", "ns")
    assert found.profile.written["time_unit"] == f"Unix time in {unit}"


def test_numbers_that_are_no_unix_time_or_not_called_so_are_a_channel(table: Any) -> None:
    assert table("time,a\n0,5\n1,6\n").channels == ("time", "a")
    assert table("load,a\n1767225600,5\n1767225601,6\n").channels == ("load", "a")
    assert table("time,a\n1767225600.5,5\n1767225601.5,6\n").channels == ("a",)


def _night(zone: str, day: tuple[int, int, int], step: timedelta) -> tuple[list[str], Any]:
    """Return the local times of a night as text, and the same in UTC."""
    start = datetime(*day, tzinfo=UTC) - timedelta(hours=6)
    moments = [start + step * n for n in range(int(timedelta(hours=18) / step))]
    local = [f"{each.astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M:%S}" for each in moments]
    return local, np.array([each.replace(tzinfo=None) for each in moments], dtype="datetime64[ns]")


@pytest.mark.parametrize("minutes", [0.5, 1, 7, 15, 30, 60])
@pytest.mark.parametrize(
    ("zone", "day"),
    [
        ("Europe/Berlin", (2026, 10, 25)),
        ("Europe/Berlin", (2026, 3, 29)),
        ("America/New_York", (2026, 11, 1)),
        ("America/Havana", (2025, 11, 2)),
        ("Asia/Kolkata", (2026, 10, 25)),
        ("Australia/Lord_Howe", (2026, 4, 5)),
    ],
)
@pytest.mark.parametrize("size", [1, 13, 10_000])
def test_local_times_lose_nothing_in_the_night_the_clock_goes_back(
    zone: str, day: tuple[int, int, int], minutes: float, size: int
) -> None:
    local, utc = _night(zone, day, timedelta(minutes=minutes))
    if zone == "Australia/Lord_Howe" and minutes > 30:
        pytest.skip("the clock goes back by half an hour")
    clock = LocalClock(zone)
    numbers = np.array(local, dtype="datetime64[ns]").astype(np.int64)
    found = [clock.to_utc(numbers[at : at + size]) for at in range(0, len(numbers), size)]
    np.testing.assert_array_equal(np.concatenate(found).view("datetime64[ns]"), utc)


def test_a_late_sample_in_the_repeated_hour_is_late_not_an_hour_later() -> None:
    local, utc = _night("Europe/Berlin", (2026, 10, 25), timedelta(minutes=1))
    at = local.index("2026-10-25 02:30:00")
    order = [*range(at), at + 1, at, *range(at + 2, len(local))]
    clock = LocalClock("Europe/Berlin")
    shuffled = np.array([local[each] for each in order], dtype="datetime64[ns]").astype(np.int64)
    np.testing.assert_array_equal(clock.to_utc(shuffled).view("datetime64[ns]"), utc[order])


def test_streams_each_have_their_own_repeated_hour() -> None:
    local, utc = _night("Europe/Berlin", (2026, 10, 25), timedelta(hours=1))
    lines = StreamLines("host", tz="Europe/Berlin")
    text = [f"{time},{host},1" for time in local for host in "abc"]
    batches = [lines.parse(["time,host,x"])]
    batches += [lines.parse(text[at : at + 7]) for at in range(0, len(text), 7)]
    times = np.concatenate([batch.times for batch in batches if len(batch)])
    np.testing.assert_array_equal(times, np.repeat(utc, 3))


def test_a_table_of_local_times_has_their_zone(table: Any) -> None:
    text = "t,a\n2026-10-25 02:30,1\n2026-10-25 02:30,2\n2026-10-25 03:30,3\n"
    found = table(text.replace("t,a", "t,a\n2026-10-25 01:30,0"), tz="Europe/Berlin")
    assert found.zone == "Europe/Berlin"
    assert np.diff(found.times).astype("timedelta64[h]").astype(int).tolist() == [1, 1, 1]
    zoned = table("t,a\n2026-10-25T02:30:00+01:00,1\n", tz="Europe/Berlin")
    assert zoned.zone == "+01:00"
    assert zoned.times[0] == np.datetime64("2026-10-25T01:30", "ns")


def test_the_clock_is_resumed_in_the_middle_of_the_night() -> None:
    local, utc = _night("Europe/Berlin", (2026, 10, 25), timedelta(minutes=15))
    cut = local.index("2026-10-25 02:15:00") + 3
    lines = [f"{time},1" for time in local]
    options: dict[str, Any] = {"tz": "Europe/Berlin"}
    one = LineParser(Reading.of(options))
    first = one.parse_many(["t,a", *lines[:cut]])
    other = LineParser(Reading.of(options))
    other.restore(one.facts())
    second = other.parse_many(lines[cut:])
    assert second.times is not None
    np.testing.assert_array_equal(np.concatenate([present(first.times), second.times]), utc)


def test_a_time_without_a_zone_is_on_the_clock_of_the_samples(tmp_path: Path) -> None:
    path = tmp_path / "plant.csv"
    local = [f"2026-10-25 {hour:02}:30:00" for hour in (0, 1, 2, 2, 3, 4)]  # 02:30 comes twice
    rows = [f"{time},{at}" for at, time in enumerate(local)]
    path.write_text("\n".join(["time,a", *rows]) + "\n")

    def taken(**options: Any) -> list[float]:
        found: list[float] = read(path, **options).values[:, 0].tolist()
        return found

    berlin = {"tz": "Europe/Berlin"}
    assert taken(**berlin, from_="2026-10-25 03:30") == [4, 5]
    assert taken(**berlin, from_="2026-10-25 02:30") == [2, 3, 4, 5]  # the first of the two
    assert taken(**berlin, until="2026-10-25 03:00") == [0, 1, 2, 3]
    assert taken(**berlin, from_="2026-10-25T02:30Z") == [4, 5]
    assert taken(from_="2026-10-25 03:30") == [4, 5]
    path.write_text("time,a\n2026-07-01T05:00+02:00,1\n2026-07-01T06:00+02:00,2\n")
    assert taken(from_="2026-07-01 06:00") == [2]
    assert taken(until=datetime(2026, 7, 1, 6)) == [1]
    assert taken(until=np.datetime64("2026-07-01T04:00")) == [1]


def test_it_holds_for_live_samples() -> None:
    times = np.arange("2026-07-01T00", "2026-07-01T10", dtype="datetime64[h]")
    arrival = LiveOrder(Reading.of(from_="2026-07-01 05:00", until="2026-07-01 07:00"), ("a",))
    arrival.zone = "Europe/Berlin"
    found = arrival.push(np.arange(10.0)[:, None], times.astype("datetime64[ns]"))
    assert found.values[:, 0].tolist() == [3, 4]


def test_a_clock_that_goes_forward() -> None:
    skipped = Bound.of("2026-03-29 02:30")  # no clock in Berlin shows it
    assert skipped.in_zone("Europe/Berlin") == np.datetime64("2026-03-29T01:30")
    assert Bound.of("1767225600").in_zone("Europe/Berlin") == np.datetime64("2026-01-01")


def test_what_is_no_time_is_refused_with_its_option() -> None:
    with pytest.raises(ParameterError, match=r"^from: expected a time, found '01/02/2026'"):
        Reading.of(from_="01/02/2026")
