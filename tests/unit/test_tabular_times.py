"""What counts as a time, and which one."""

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest

from newnormal.errors import InputError
from newnormal.tabular import parse_time, parse_times

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

PARIS = timezone(timedelta(hours=2))


def ns(text: str) -> np.datetime64:
    return np.datetime64(text, "ns")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-01-31", "2026-01-31"),
        ("2026-01-31 12:30:15", "2026-01-31T12:30:15"),
        ("2026-01-31T12:30:15.123456789", "2026-01-31T12:30:15.123456789"),
        ("2026-01-31T12:30:15+0530", "2026-01-31T07:00:15"),
        ("2026-01-31 12:30:15-08", "2026-01-31T20:30:15"),
        ("2024-02-29", "2024-02-29"),
        (datetime(2026, 1, 31, 12, 30, 15, 250), "2026-01-31T12:30:15.000250"),
        (datetime(2026, 1, 31, 12, tzinfo=PARIS), "2026-01-31T10:00"),
        (datetime(2026, 1, 31, 12, tzinfo=UTC), "2026-01-31T12:00"),
        (date(2026, 1, 31), "2026-01-31"),
        (np.datetime64("2026-01-31T12", "h"), "2026-01-31T12:00"),
        (pd.Timestamp("2026-01-31T12:00:00.000000001"), "2026-01-31T12:00:00.000000001"),
        (pd.Timestamp("2026-01-31T12:00", tz="Europe/Paris"), "2026-01-31T11:00"),
        (0, "1970-01-01"),
        (-1.5, "1969-12-31T23:59:58.5"),
        (1767225600, "2026-01-01"),
        (1767225600.123, "2026-01-01T00:00:00.123"),
        (1767225600123456789, "2026-01-01T00:00:00.123456789"),
        (np.int64(1767225600), "2026-01-01"),
        (np.float64(1767225600.25), "2026-01-01T00:00:00.25"),
        ("1767225600123456789", "2026-01-01T00:00:00.123456789"),
        ("2026", "1970-01-01T00:33:46"),
        (10**11 + 1, "1973-03-03T09:46:40.001"),
    ],
)
def test_a_time_is_read_whatever_it_came_as(value: Any, expected: str) -> None:
    time = parse_time(value)
    assert time == ns(expected)
    assert time.dtype == np.dtype("datetime64[ns]")
    assert parse_times([value])[0] == ns(expected)


@pytest.mark.parametrize(
    "value",
    [
        *("", "now", "today", "NaT"),
        *("03/04/2026", "2026-01", "2026-02-30", "2026-13-01", "2026-01-31T24:00"),
        *("2026-01-31T12:61", "2026-01-31T12:00+25:00"),
        *("2026-01-31Z", "2026-01-31T12:00:00.1234567891", "1677-12-31", "2262-01-01"),
        *("٢٠٢٦-01-31", "1_767_225_600"),
        *("1" * 5000, "1e400", float("nan"), float("inf"), 10**11, 10**20, True),
        *(None, np.datetime64("NaT"), pd.NaT, datetime(1600, 1, 1), np.datetime64("9999-01-01")),
        *(b"2026-01-31", []),
    ],
)
def test_what_is_no_time_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match=r"^expected a time, found ") as caught:
        parse_time(value)
    assert "ISO 8601" in (caught.value.hint or "")
    assert len(caught.value.message) < 100
    with pytest.raises(InputError, match=r"^sample 1: expected a time, found "):
        parse_times([0, value])


@pytest.mark.parametrize(
    "values",
    [
        np.array(["2026-01-01", "2026-01-02"], dtype="datetime64[D]"),
        ["2026-01-01", "2026-01-02T00:00"],
        ("2026-01-01T00:00:00Z", "2026-01-02T01:00:00+01:00"),
        np.array(["2026-01-01", "2026-01-02"]),
        np.array(["2026-01-01", "2026-01-02"], dtype=object),
        [1767225600, 1767312000],
        np.array([1767225600, 1767312000]),
        np.array([1767225600.0, 1767312000.0]),
        [date(2026, 1, 1), datetime(2026, 1, 2)],
        pd.date_range("2026-01-01", periods=2),
        pd.date_range("2026-01-01T01:00", periods=2, tz="Europe/Paris"),
        pd.Series(pd.date_range("2026-01-01", periods=2)),
        pd.Series(pd.date_range("2026-01-01T01:00", periods=2, tz="Europe/Paris")),
        pd.Series(["2026-01-01", "2026-01-02"]),
        pd.Index(["2026-01-01", "2026-01-02"]),
        pl.Series([datetime(2026, 1, 1), datetime(2026, 1, 2)]),
        pl.Series([date(2026, 1, 1), date(2026, 1, 2)]),
        pl.Series(["2026-01-01", "2026-01-02"]),
        pl.Series([datetime(2026, 1, 1), datetime(2026, 1, 2)])
        .dt.replace_time_zone("UTC")
        .dt.convert_time_zone("Europe/Paris"),
        (text for text in ["2026-01-01", "2026-01-02"]),
    ],
)
def test_times_are_read_whatever_they_came_in(values: Any) -> None:
    comp = parse_times(values)
    ref = np.array(["2026-01-01", "2026-01-02"], dtype="datetime64[ns]")
    assert comp.dtype == ref.dtype
    np.testing.assert_array_equal(comp, ref)


def test_no_times_at_all_are_no_times() -> None:
    assert parse_times([]).shape == (0,)
    assert parse_times(np.array([], dtype="datetime64[s]")).dtype == np.dtype("datetime64[ns]")


def test_nat_passes_for_the_caller_to_name() -> None:
    assert np.isnat(parse_times(np.array(["NaT"], dtype="datetime64[s]"))).all()


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ("2026-01-01", "expected a sequence of times, found the text '2026-01-01'"),
        (5, "expected a sequence of times, found 5"),
        (np.zeros((2, 2)), r"expected one time a sample, found an array of shape \(2, 2\)"),
        (
            np.array(["2026-01-01", "9999-01-01"], dtype="datetime64[D]"),
            "expected a time, found '9999-01-01'",
        ),
        (["2026-01-01", "2026-02-30"], "sample 1: expected a time, found '2026-02-30'"),
        (["2026-01-01", "1500-01-01"], "sample 1: expected a time, found '1500-01-01'"),
        (["2026-01-01", "now"], "sample 1: expected a time, found 'now'"),
    ],
)
def test_times_that_cannot_be_read_say_why(values: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        parse_times(values)
