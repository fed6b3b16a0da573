"""Finished series in order: times, duplicates, rates, parts, periods."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from newnormal.errors import InputError
from newnormal.tabular import InputProfile, Reading, Table
from newnormal.tabular.ordering.arranging import arranged, kept_rows
from tests.present import present

START = np.datetime64("2026-01-01", "ns")
MINUTE = np.timedelta64(60, "s")


def table(values: Sequence[float], minutes: Sequence[float] | None, **more: Any) -> Table:
    times = (
        None
        if minutes is None
        else START + np.array([int(60 * m) for m in minutes]) * (np.timedelta64(1, "s"))
    )
    column = np.array(values, dtype=np.float64)[:, None]
    return Table(column, ("a",), times, profile=InputProfile(), **more)


def read(given: Table, **options: Any) -> Table:
    return arranged(given, Reading.of(**options), lambda row: f"line {row + 2}")


def minutes(found: Table) -> list[float]:
    return [float(each) for each in (present(found.times) - START) / MINUTE]


def column(found: Table) -> list[float]:
    return [float(each) for each in found.values[:, 0]]


def test_a_series_in_order_stays_as_it_is() -> None:
    given = table([1, 2, 3], [0, 1, 2])
    found = read(given)
    assert found.values is given.values and found.times is given.times
    assert found.profile == InputProfile()


def test_samples_out_of_order_are_sorted_and_counted() -> None:
    found = read(table([1, 3, 2, 4], [0, 2, 1, 3], labels=np.array([0, 1, 0, 0])))
    assert column(found) == [1, 2, 3, 4]
    assert found.labels is not None and found.labels.tolist() == [0, 0, 1, 0]
    assert found.profile is not None and found.profile.out_of_order == 1
    assert found.profile.notes == ["1 sample was out of order and put in the order of the times"]


@pytest.mark.parametrize(("how", "value"), [(None, 5.0), ("last", 5.0), ("mean", 3.5)])
def test_one_sample_of_each_time_is_left(how: str | None, value: float) -> None:
    labels = np.array([0, 1, 0, 0])
    found = read(table([1, 2, 5, 7], [0, 1, 1, 2], labels=labels), on_duplicate=how)
    assert column(found) == [1, value, 7]
    assert found.labels is not None and found.labels.tolist() == [0, 1, 0]
    assert found.profile is not None and found.profile.duplicates == 1
    assert found.profile.notes[0].startswith("1 sample has the time of another: ")


def test_a_mean_is_of_the_values_that_are_there() -> None:
    found = read(table([np.nan, 4, np.nan, np.nan], [0, 0, 1, 1]), on_duplicate="mean")
    np.testing.assert_array_equal(found.values[:, 0], [4, np.nan])


def test_a_time_that_is_there_twice_can_be_an_error() -> None:
    with pytest.raises(InputError, match=r"line 4: expected each time once, found .* in line 2"):
        read(table([1, 2, 3], [0, 1, 0]), on_duplicate="error")


def test_an_hour_that_comes_twice_hints_at_the_zone() -> None:
    local = [*range(0, 180, 10), *range(120, 300, 10)]
    found = read(table(range(len(local)), local))
    assert found.profile is not None and found.profile.duplicates == 6
    assert "--tz" in found.profile.notes[-1] and "(tz=)" in found.profile.notes[-1]
    zoned = read(table(range(len(local)), local, zone="Europe/Berlin"))
    assert zoned.profile is not None and "--tz" not in zoned.profile.notes[-1]
    hourly = read(table(range(7), [0, 60, 120, 120, 180, 240, 300]))
    assert hourly.profile is not None and "--tz" in hourly.profile.notes[-1]
    other = read(table(range(7), [0, 1, 2, 2, 3, 4, 5]))
    assert other.profile is not None and "--tz" not in other.profile.notes[-1]


@pytest.mark.parametrize("at", [0, 1, 7, 18, 19])
@pytest.mark.parametrize("far", ["2199-01-01", "1970-01-01"])
def test_a_time_far_from_all_others_is_a_bad_line(at: int, far: str) -> None:
    given = table(range(20), range(20))
    present(given.times)[at] = np.datetime64(far)
    found = read(given)
    assert column(found) == [each for each in range(20) if each != at]
    assert found.profile is not None and found.profile.bad_lines == 1
    assert found.profile.first_bad == found.profile.notes[0].removesuffix(": left out")
    assert f"line {at + 2}: expected a time near 2026-01-01T00:" in found.profile.notes[0]
    assert found.profile.out_of_order == 0


def test_several_strays_are_one_note() -> None:
    given = table(range(40), range(40))
    assert given.times is not None
    given.times[[3, 17, 18]] = np.array(["2199-01-01", "2155-01-01", "2156-01-01"], "M8[ns]")
    found = read(given)
    assert found.profile is not None and found.profile.bad_lines == 3
    assert "and 2 more such" in found.profile.notes[0]


@pytest.mark.parametrize(
    "times",
    [
        [*range(10), *range(5000, 5010)],  # a gap
        [*range(5000, 5010), *range(10)],  # two files in the wrong order
        [*range(20), *range(5000, 6000, 300)],  # another pace, later
        [9000, 3, 7000, 1, 12000, 5, 300, 4],  # no order at all
        [each for pair in zip(range(10), range(9000, 9010), strict=True) for each in pair],
    ],
)
def test_gaps_and_disorder_are_no_strays(times: list[int]) -> None:
    found = read(table(times, times))
    assert column(found) == sorted(times)
    assert found.profile is not None and found.profile.bad_lines == 0


def test_counters_without_times_become_rates_per_sample() -> None:
    found = read(table([100, 160, np.nan, 280, 30], None), rates="a")
    np.testing.assert_allclose(found.values[:, 0], [np.nan, 60, np.nan, 60, 30])


def test_a_rate_of_a_column_that_is_no_channel_is_an_error() -> None:
    with pytest.raises(InputError, match="rates names column 'b', which is no channel"):
        read(table([1, 2], None), rates="b")


def test_samples_are_brought_to_a_period() -> None:
    given = table([1, 2, 4, 8], [0, 0.5, 1, 3.2], labels=np.array([0, 1, 0, 0]))
    found = read(given, resample="1min")
    assert minutes(found) == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(found.values[:, 0], [1, 3, np.nan, np.nan, 8])
    assert found.labels is not None and found.labels.tolist() == [0, 1, 0, 0, 0]


def test_a_long_gap_is_left_as_a_gap() -> None:
    assert len(read(table([1, 2], [0, 100]), resample="1min").values) == 101
    assert len(read(table([1, 2], [0, 101]), resample="1min").values) == 2
    # Ten times the longest gap that is common here.
    assert len(read(table([1, 2, 3], [0, 20, 220]), resample="1min").values) == 221
    assert len(read(table([1, 2, 3], [0, 20, 221]), resample="1min").values) == 22


def test_part_of_the_samples() -> None:
    given = table(range(10), range(10))
    assert column(read(given, rows="0:4")) == [0, 1, 2, 3]
    assert column(read(given, rows="8:")) == [8, 9]
    assert column(read(given, from_="2026-01-01T00:02", until="2026-01-01T00:05")) == [2, 3, 4]
    assert column(read(given, rows="0:4", from_="2026-01-01T00:02")) == [2, 3]


def test_rows_are_counted_in_the_order_of_the_file() -> None:
    assert column(read(table([5, 4, 3, 2, 1], [5, 4, 3, 2, 1]), rows="0:2")) == [4, 5]


def test_the_first_rate_of_a_part_is_known() -> None:
    assert column(read(table([0, 60, 180], range(3)), rates="a", rows="1:")) == [1, 2]


def test_a_part_without_samples_says_what_there_is() -> None:
    given = table(range(10), range(10))
    span = "found 10 samples, 2026-01-01T00:00:00 to 2026-01-01T00:09:00 in all"
    with pytest.raises(InputError, match=f"rows 20:30: expected samples there, {span}"):
        read(given, rows="20:30")
    with pytest.raises(InputError, match=f"from 2027-01-01T00:00:00: expected .*{span}"):
        read(given, from_="2027-01-01")


@pytest.mark.parametrize(
    "options",
    [{"from_": "2026-01-01"}, {"until": "2026-01-01"}, {"resample": "1min"}, {"lateness": "3min"}],
)
def test_without_times_some_options_are_errors(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="expected samples with times, found none"):
        read(table([1, 2], None), **options)


def test_rows_of_the_input_are_known_where_nothing_moved() -> None:
    def rows(given: Table, **options: Any) -> list[int] | None:
        found = kept_rows(given, Reading.of(**options))[1]
        return None if found is None else found.tolist()

    assert rows(table([1, 2, 3], [0, 1, 2]), rows="1:") == [1, 2]
    assert rows(table([1, 2, 3], [0, 0, 2])) == [1, 2]
    assert rows(table([1, 2, 3], [0, 2, 1])) is None
    assert rows(table([1, 2, 3], [0, 1, 2]), resample="1min") is None


def test_a_million_samples_take_less_than_a_second() -> None:
    rng = np.random.default_rng(0)
    count = 1_000_000
    times = START + (np.arange(count) + rng.integers(0, 3, count)) * np.timedelta64(1, "s")
    given = Table(rng.normal(size=(count, 3)), ("a", "b", "c"), times, profile=InputProfile())
    begin = time.perf_counter()
    arranged(given, Reading.of(on_duplicate="mean", rates="a", resample="10s"))
    assert time.perf_counter() - begin < 3  # 0.4 s on a quiet machine
