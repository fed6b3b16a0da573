"""Arrays, lists and frames as a table."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from newnormal.errors import InputError
from newnormal.tabular import Table, default_channels, to_table, to_tables

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

NAN = float("nan")
DAYS = np.array(["2026-01-01", "2026-01-02"], dtype="datetime64[ns]")


def equal(table: Table, values: Any, channels: tuple[str, ...] | None = None) -> None:
    np.testing.assert_array_equal(table.values, np.asarray(values, dtype=np.float64))
    assert table.values.dtype == np.float64
    assert table.values.flags.c_contiguous
    assert table.channels == channels


@pytest.mark.parametrize(
    ("data", "values"),
    [
        (np.array([[1.0, NAN], [3.0, 4.0]]), [[1, NAN], [3, 4]]),
        (np.array([[1, 2], [3, 4]], dtype=np.int8), [[1, 2], [3, 4]]),
        (np.array([[1, 2], [3, 4]], dtype=np.float16), [[1, 2], [3, 4]]),
        (np.array([[True, False]]), [[1, 0]]),
        (np.asfortranarray(np.arange(6.0).reshape(2, 3)), [[0, 1, 2], [3, 4, 5]]),
        (np.arange(12.0).reshape(3, 4)[::-2, ::2], [[8, 10], [0, 2]]),
        (np.array([1.0, 2.0]), [[1], [2]]),
        ([1, 2.5], [[1], [2.5]]),
        ([[1, 2], [3, None]], [[1, 2], [3, NAN]]),
        (((1, 2), (3, 4)), [[1, 2], [3, 4]]),
        ([[Decimal("1.5"), True]], [[1.5, 1]]),
        ([np.array([1.0, 2.0]), np.array([3.0, 4.0])], [[1, 2], [3, 4]]),
        (range(2), [[0], [1]]),
        (np.ma.masked_array([[1, 2], [3, 4]], [[False, True], [False, False]]), [[1, NAN], [3, 4]]),
        (np.ma.masked_array([1.5, 2.5], [True, False]), [[NAN], [2.5]]),
        (np.empty((0, 3)), np.empty((0, 3))),
        ([], np.empty((0, 1))),
        (pd.Series([1.0, None]), [[1], [NAN]]),
        (pl.Series([1, None]), [[1], [NAN]]),
        (pl.Series([Decimal("1.5"), None]), [[1.5], [NAN]]),
    ],
)
def test_data_without_names_becomes_a_table_without_names(data: Any, values: Any) -> None:
    equal(to_table(data), values)


def test_a_masked_array_is_left_as_it_was() -> None:
    data = np.ma.masked_array(np.array([[1.0, 2.0]]), [[True, False]])
    to_table(data)
    assert data.data.tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (np.array([[1j]]), "expected numbers, found an array of dtype complex128"),
        (np.array([[1.0]], dtype=object), "expected numbers, found an array of dtype object"),
        (np.array([["1"]]), "expected numbers, found an array of dtype <U1"),
        (np.array(["2026-01-01"], dtype="M8[D]"), r"found an array of dtype datetime64\[D\]"),
        (np.zeros((1, 2, 3)), r"expected shape \(samples, channels\), found shape \(1, 2, 3\)"),
        (np.array(1.0), r"expected shape \(samples, channels\), found shape \(\)"),
        (np.zeros((5, 0)), r"expected at least one channel, found shape \(5, 0\)"),
        ([[]], r"expected at least one channel, found shape \(1, 0\)"),
        ([[1, 2], [3]], "expected as many numbers for each sample"),
        ([[1, "x"]], "expected numbers, found an array of dtype <U"),
        ([[1, None], ["x", 2]], "sample 1: expected a number, found 'x'"),
        ([[1, None], [10**400, 2]], "sample 1: expected a finite number, found 1000"),
        ([[1, None], [1j, 2]], "sample 1: expected a number, found 1j"),
        ("abc", "expected an array, nested lists or a frame, found str"),
        ({"a": [1]}, "expected an array, nested lists or a frame, found dict"),
        (5, "expected an array, nested lists or a frame, found int"),
        (None, "expected an array, nested lists or a frame, found NoneType"),
        ((x for x in [1]), "expected an array, nested lists or a frame, found generator"),
        (np.array([[1, np.inf]]), "channel '1', sample 0: expected a finite number, found inf"),
        ([[0.0], [-np.inf]], "channel '0', sample 1: expected a finite number, found -inf"),
        (pd.DataFrame(), "expected at least one channel, found no columns"),
        (pl.DataFrame({"t": DAYS}), "expected at least one channel, found none among .* 't'"),
        (pd.DataFrame({"a": [1.0], "b": [np.inf]}), "channel 'b', sample 0: expected a finite"),
        (pd.DataFrame({"a": [1j]}), "column 'a': expected numbers, found complex128"),
        (pd.DataFrame({"a": pd.to_timedelta([1])}), "column 'a': expected numbers, found timede"),
        (pd.DataFrame({"a": [1.0], "host": ["x"]}), "column 'host', sample 0: expected a number"),
        (pl.DataFrame({"a": [1.0], "host": ["x"]}), "column 'host', sample 0: expected a number"),
        (pl.DataFrame({"a": [1.0], "l": [[1]]}), "column 'l', sample 0: expected a number"),
        (pd.DataFrame({"a": [None, "x"]}, dtype=object), "column 'a', sample 1: expected a number"),
        (
            pd.DataFrame([[1, 2]], columns=["a", "a"]),
            "of different names, found 'a' more than once",
        ),
        (pd.DataFrame({0: [1], "0": [2]}), "of different names, found '0' more than once"),
    ],
)
def test_data_that_is_not_numbers_says_so(data: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        to_table(data)


COLUMNS: dict[str, list[Any]] = {
    "int": [1, 2, 3],
    "nullable": [1, None, 3],
    "float": [1.5, NAN, 3.0],
    "bool": [True, None, False],
    "decimal": [Decimal("1.5"), None, Decimal(3)],
    "nothing": [None, None, None],
}
EXPECTED = [[1, 1, 1.5, 1, 1.5, NAN], [2, NAN, NAN, NAN, NAN, NAN], [3, 3, 3, 0, 3, NAN]]


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame(COLUMNS),
        pd.DataFrame(COLUMNS).convert_dtypes(),
        pd.DataFrame(COLUMNS).astype(object),
        pd.DataFrame(COLUMNS).astype({"nullable": "Int64", "float": "Float32", "bool": "boolean"}),
        pl.DataFrame(COLUMNS),
        pl.DataFrame(COLUMNS).lazy(),
        pl.DataFrame(COLUMNS, schema_overrides={"int": pl.UInt8, "nullable": pl.Int128}),
    ],
    ids=["pandas", "converted", "objects", "nullable", "polars", "lazy", "sized"],
)
def test_a_frame_of_any_number_type_becomes_floats(frame: Any) -> None:
    equal(to_table(frame), EXPECTED, tuple(COLUMNS))


@pytest.mark.parametrize("series", [pd.Series([1, 2], name="load"), pl.Series("load", [1, 2])])
def test_a_named_series_is_one_channel(series: Any) -> None:
    equal(to_table(series), [[1], [2]], ("load",))


def test_column_names_that_are_not_text_become_text() -> None:
    equal(to_table(pd.DataFrame([[1, 2]])), [[1, 2]], ("0", "1"))
    equal(to_table(pd.DataFrame([[1, 2]])[1]), [[2]], ("1",))


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"a": [1, 2]}, index=pd.DatetimeIndex(DAYS)),
        pd.DataFrame({"a": [1, 2]}, index=pd.DatetimeIndex(DAYS, tz="UTC")),
        pd.DataFrame(
            {"a": [1, 2]}, index=pd.DatetimeIndex(DAYS, tz="UTC").tz_convert("Asia/Tokyo")
        ),
        pd.Series([1, 2], name="a", index=pd.DatetimeIndex(DAYS)),
        pd.DataFrame({"a": [1, 2], "when": DAYS}),
        pd.DataFrame({"when": ["2026-01-01T00:00Z", "2026-01-02T00:00Z"], "a": [1, 2]}),
        pl.DataFrame({"when": DAYS, "a": [1, 2]}),
        pl.DataFrame({"when": [date(2026, 1, 1), date(2026, 1, 2)], "a": [1, 2]}),
        pl.DataFrame(
            {"when": [datetime(2026, 1, n, tzinfo=UTC) for n in (1, 2)], "a": [1, 2]}
        ).with_columns(pl.col("when").dt.convert_time_zone("America/New_York")),
        pl.DataFrame({"when": ["2026-01-01", "2026-01-02"], "a": [1, 2]}),
    ],
    ids=["index", "utc", "tokyo", "series", "column", "text", "polars", "dates", "zone", "pltext"],
)
def test_a_frames_own_times_are_found(frame: Any) -> None:
    table = to_table(frame)
    equal(table, [[1], [2]], ("a",))
    assert table.times is not None
    assert table.times.dtype == np.dtype("datetime64[ns]")
    np.testing.assert_array_equal(table.times, DAYS)


def test_an_unnamed_series_keeps_its_index_as_times() -> None:
    table = to_table(pd.Series([1, 2], index=pd.DatetimeIndex(DAYS)))
    equal(table, [[1], [2]])
    np.testing.assert_array_equal(table.times, DAYS)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_two_columns_of_times_need_a_choice(make: Any) -> None:
    late = DAYS + np.timedelta64(1, "h")
    frame = make({"a": [1, 2], "start": DAYS, "end": late})
    with pytest.raises(InputError, match="expected one column of times, found 'start', 'end'"):
        to_table(frame)
    table = to_table(frame, times="end")
    equal(table, [[1], [2]], ("a",))
    np.testing.assert_array_equal(table.times, late)
    np.testing.assert_array_equal(to_table(frame, times=late + 5).times, late + 5)


def test_an_index_and_a_column_of_times_need_a_choice() -> None:
    frame = pd.DataFrame({"a": [1, 2], "end": DAYS + 1}, index=pd.DatetimeIndex(DAYS))
    with pytest.raises(InputError, match="found them in the index and in 'end'"):
        to_table(frame)
    np.testing.assert_array_equal(to_table(frame, times="end").times, DAYS + 1)
    np.testing.assert_array_equal(to_table(frame, times=frame.index).times, DAYS)


def test_a_column_of_numbers_is_the_time_only_if_named() -> None:
    frame = pl.DataFrame({"epoch": [0, 86400], "a": [1, 2]})
    assert to_table(frame).channels == ("epoch", "a")
    table = to_table(frame, times="epoch")
    equal(table, [[1], [2]], ("a",))
    np.testing.assert_array_equal(table.times, np.array([0, 86400], dtype="M8[s]"))


def test_the_times_column_must_exist() -> None:
    with pytest.raises(InputError) as caught:
        to_table(pl.DataFrame({"stamp": DAYS, "a": [1, 2]}), times="stmap")
    assert str(caught.value) == (
        "time names column 'stmap', found only 'stamp', 'a'\nhint: 'stmap' may be 'stamp'"
    )
    with pytest.raises(InputError, match="times names a column, 'stamp', and the data has no col"):
        to_table([[1.0]], times="stamp")


@pytest.mark.parametrize(
    ("times", "text"),
    [
        (["2026-01-01"], "expected one time a sample, 2 in all, found 1 times"),
        (np.zeros((2, 1)), r"expected one time a sample, found an array of shape \(2, 1\)"),
        (
            np.array(["2026-01-01", "NaT"], "M8[s]"),
            r"sample 1: expected a time, found none \(NaT\)",
        ),
        (["2026-01-01", None], "sample 1: expected a time, found None"),
        (
            ["2026-01-02", "2026-01-02"],
            "sample 1: expected a time later than the one before, 2026-01-02T00:00:00, "
            "found 2026-01-02T00:00:00",
        ),
        (["2026-01-02", "2026-01-01T12:00:00.5"], "found 2026-01-01T12:00:00.5"),
    ],
)
def test_times_that_do_not_fit_say_where(times: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        to_table([[1.0], [2.0]], times=times)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_expected_channels_match_a_frame_by_name_in_any_order(make: Any) -> None:
    frame = make({"b": [2, 5], "time": DAYS, "a": [1, 4], "c": [3, 6]})
    equal(to_table(frame, channels=["a", "b", "c"]), [[1, 2, 3], [4, 5, 6]], ("a", "b", "c"))


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (
            ["tmep", "load"],
            "missing channel 'temp' and unknown channel 'tmep': expected 'temp', 'load', "
            "found 'tmep', 'load'\nhint: 'temp' may be 'tmep'",
        ),
        (["load"], "missing channel 'temp': expected 'temp', 'load', found 'load'"),
        (
            ["load", "temp", "x", "y"],
            "unknown channels 'x', 'y': expected 'temp', 'load', found 'load', 'temp', 'x', 'y'\n"
            "hint: leave out what is no channel with --drop NAME (drop=), "
            "or name the columns to keep with --columns NAME (columns=)",
        ),
    ],
)
def test_channels_that_do_not_match_are_named(found: list[str], text: str) -> None:
    with pytest.raises(InputError) as caught:
        to_table(pl.DataFrame({name: [1.0] for name in found}), channels=("temp", "load"))
    assert str(caught.value) == text


def test_long_lists_of_channels_are_cut() -> None:
    names = [f"c{n}" for n in range(100)]
    with pytest.raises(InputError) as caught:
        to_table(pl.DataFrame({name: [1.0] for name in names[1:]}), channels=names)
    assert "missing channel 'c0': expected 'c0'" in caught.value.message
    assert "'c7' and 92 more" in caught.value.message
    assert len(str(caught.value)) < 300


def test_names_for_a_detector_without_names_are_explained() -> None:
    with pytest.raises(InputError, match="hint: the detector learned from data without names"):
        to_table(pl.DataFrame({"a": [1.0]}), channels=default_channels(1))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (np.zeros((4, 2)), "expected 3 channels, found 2"),
        (
            np.zeros(3),
            "expected 3 channels, found 1\nhint: one sample of 3 channels has shape (1, 3)",
        ),
        (np.zeros((0, 2)), "expected 3 channels, found 2"),
        (Table(np.zeros((4, 2)), None, None), "expected 3 channels, found 2"),
        (pl.Series([1.0]), "expected 3 channels, found 1"),
    ],
)
def test_expected_channels_match_an_array_by_count(data: Any, text: str) -> None:
    with pytest.raises(InputError) as caught:
        to_table(data, channels=("a", "b", "c"))
    assert str(caught.value).startswith(text)
    equal(to_table(np.zeros((1, 3)), channels=("a", "b", "c")), np.zeros((1, 3)), ("a", "b", "c"))
    equal(to_table(np.zeros((0, 3)), channels=("a", "b", "c")), np.zeros((0, 3)), ("a", "b", "c"))


def test_the_expected_names_are_used_to_name_a_channel_in_an_error() -> None:
    with pytest.raises(InputError, match="channel 'b', sample 0: expected a finite"):
        to_table([[1.0, np.inf]], channels=("a", "b"))


def test_a_table_is_matched_as_the_data_it_came_from() -> None:
    labels = np.array([0, 1])
    named = Table(np.array([[1.0, 2.0], [3.0, 4.0]]), ("a", "b"), DAYS, labels)
    assert to_table(named).values is named.values
    swapped = to_table(named, channels=("b", "a"))
    equal(swapped, [[2, 1], [4, 3]], ("b", "a"))
    assert swapped.times is DAYS
    assert swapped.labels is labels
    np.testing.assert_array_equal(to_table(named, times=DAYS + 1).times, DAYS + 1)
    with pytest.raises(InputError, match="missing channel 'c' and unknown channel 'b'"):
        to_table(named, channels=("a", "c"))
    unnamed = Table(np.array([[1.0, 2.0]]), None, None)
    equal(to_table(unnamed, channels=("x", "y")), [[1, 2]], ("x", "y"))


def test_a_frame_without_rows_is_a_table_without_rows() -> None:
    equal(to_table(pl.DataFrame({"a": [], "b": []})), np.empty((0, 2)), ("a", "b"))
    frame = pd.DataFrame({"a": []}, index=pd.DatetimeIndex([]))
    equal(to_table(frame), np.empty((0, 1)), ("a",))


def test_an_array_is_not_copied_when_it_is_right_already() -> None:
    data = np.zeros((3, 2))
    assert to_table(data).values is data


BERLIN = pd.date_range("2026-03-28", periods=4, freq="12h", tz="Europe/Berlin")
FIXED = pd.date_range("2026-03-28", periods=4, freq="12h", tz=timezone(timedelta(hours=5.5)))
POLARS = pl.Series([each.to_pydatetime() for each in BERLIN.tz_convert("UTC")])
POLARS = POLARS.dt.convert_time_zone("Europe/Berlin")
VALUES = np.arange(4.0)


@pytest.mark.parametrize(
    ("data", "times", "zone"),
    [
        (pd.DataFrame({"a": VALUES}, index=BERLIN), None, "Europe/Berlin"),
        (pd.DataFrame({"a": VALUES, "t": BERLIN}), None, "Europe/Berlin"),
        (pd.DataFrame({"a": VALUES, "t": BERLIN}), "t", "Europe/Berlin"),
        (pd.Series(VALUES, index=BERLIN), None, "Europe/Berlin"),
        (pl.DataFrame({"a": VALUES, "t": POLARS}), None, "Europe/Berlin"),
        (VALUES, BERLIN, "Europe/Berlin"),
        (VALUES, POLARS, "Europe/Berlin"),
        (VALUES, list(BERLIN), "Europe/Berlin"),
        (VALUES, [each.to_pydatetime() for each in BERLIN], "Europe/Berlin"),
        (VALUES, [str(each) for each in BERLIN], "+02:00"),  # that of the last one
        (VALUES, FIXED, "+05:30"),
        (pd.DataFrame({"a": VALUES}, index=FIXED), None, "+05:30"),
        (VALUES, BERLIN.tz_convert("UTC"), "UTC"),
        (VALUES, [f"2026-01-0{day}T00:00:00Z" for day in range(1, 5)], "UTC"),
        (VALUES, BERLIN.tz_localize(None), None),
        (VALUES, [f"2026-01-0{day}" for day in range(1, 5)], None),
        (VALUES, [1767225600 + n for n in range(4)], None),
        (VALUES, np.arange(4).astype("datetime64[D]"), None),
        (VALUES, None, None),
    ],
)
def test_the_zone_of_the_times_is_kept(data: Any, times: Any, zone: str | None) -> None:
    table = to_table(data, times=times)
    assert table.zone == zone
    assert to_table(table).zone == zone


@pytest.mark.parametrize("cells", [[{"x": 1}, {"x": 2}], [[1.0], [2.0]]])
def test_cells_that_hold_several_numbers_are_no_channel(cells: list[Any]) -> None:
    dtype = pl.Array(pl.Float64, 1) if isinstance(cells[0], list) else None
    frame = pl.DataFrame({"host": ["a", "a"], "b": pl.Series(cells, dtype=dtype)})
    with pytest.raises(InputError, match=r"column 'b': expected numbers, found (Struct|Array)"):
        to_table(frame.drop("host"))
    with pytest.raises(InputError, match=r"column 'b': expected numbers, found (Struct|Array)"):
        to_tables(frame, by="host")
