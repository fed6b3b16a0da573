"""Data of many streams as a table a stream."""

from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from newnormal import Detector, check
from newnormal.errors import InputError, ParameterError
from newnormal.tabular import Long, StreamTables, Table, read_tables, to_table, to_tables
from tests.present import present

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

NAN = float("nan")
both = pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])

PLANT = {
    "time": ["2026-01-01", "2026-01-01", "2026-01-02", "2026-01-02"],
    "host": ["b", "a", "b", "a"],
    "load": [1.0, 2.0, 3.0, 4.0],
    "heat": [None, 20.0, None, NAN],
}


def days(*numbers: int) -> Any:
    return np.array([f"2026-01-{number:02}" for number in numbers], dtype="datetime64[ns]")


def equal(table: Table, values: Any, channels: tuple[str, ...] | None, times: Any = None) -> None:
    np.testing.assert_array_equal(table.values, np.asarray(values, dtype=np.float64))
    assert table.values.dtype == np.float64
    assert table.values.flags.c_contiguous
    assert table.values.flags.writeable
    assert table.channels == channels
    if times is None:
        assert table.times is None
    else:
        np.testing.assert_array_equal(table.times, times)


def rows_of(found: StreamTables) -> dict[str, list[int]]:
    return {name: rows.tolist() for name, rows in present(found.rows).items()}


def wrong(found: StreamTables) -> dict[str, str]:
    return {name: error.message for name, error in found.errors.items()}


# ------------------------------------------------------------------ wide frames


@both
def test_a_frame_is_split_by_the_column_of_names(frame: Any) -> None:
    found = to_tables(frame(PLANT), by="host")
    assert list(found.tables) == ["b", "a"]
    equal(found.tables["b"], [[1], [3]], ("load",), days(1, 2))
    equal(found.tables["a"], [[2, 20], [4, NAN]], ("load", "heat"), days(1, 2))
    assert rows_of(found) == {"b": [0, 2], "a": [1, 3]}
    assert found.errors == {}


@both
def test_several_columns_of_names_are_joined_unless_two_streams_get_one_name(frame: Any) -> None:
    data = frame({"site": ["x", "x", "y"], "host": [1, 2, 1], "load": [1, 2, 3]})
    found = to_tables(data, by=["site", "host"])
    assert {name: table.values.tolist() for name, table in found.tables.items()} == {
        "x/1": [[1.0]],
        "x/2": [[2.0]],
        "y/1": [[3.0]],
    }
    data = pl.DataFrame({"site": ["a/b", "a"], "host": ["c", "b/c"], "load": [1, 2]})
    with pytest.raises(
        InputError, match=r"columns 'site', 'host': .* found 'a', 'b/c' beside 'a/b', 'c', both"
    ):
        to_tables(data, by=["site", "host"])


@pytest.mark.parametrize(
    "cells", [["7", None, "7"], [7, None, 7], [7.0, NAN, 7.0], [" 7", "", "7"]]
)
@both
def test_rows_without_a_name_are_counted(frame: Any, cells: Any) -> None:
    found = to_tables(frame({"host": cells, "load": [1, 2, 3]}), by="host")
    assert rows_of(found) == {"7": [0, 2]}
    assert wrong(found) == {
        "": "column 'host': expected the name of a stream in every row, 1 row has none"
    }


def test_many_rows_without_a_name_are_counted() -> None:
    found = to_tables(pl.DataFrame({"host": [None, None, "a"], "load": [1, 2, 3]}), by="host")
    assert wrong(found)[""].endswith("2 rows have none")


@both
def test_a_stream_that_is_wrong_does_not_stop_the_others(frame: Any) -> None:
    load = [1.0, np.inf, 1.0, 1.0, 1.0, 1.0]
    times = [1, 1, 2, 1, 1, 2]
    data = {"host": list("aibbca"), "load": load, "heat": load, "time": days(*times)}
    data["heat"] = [1.0, 1.0, 1.0, 1.0, None, 1.0]
    data["load"][4] = None
    found = to_tables(frame(data), by="host")
    equal(found.tables["a"], [[1, 1], [1, 1]], ("load", "heat"), days(1, 2))
    assert wrong(found) == {
        "i": "channel 'load', sample 0: expected a finite number, found inf",
        "b": "sample 1: expected a time later than the one before, 2026-01-02T00:00:00, "
        "found 2026-01-01T00:00:00",
        "c": "expected values, found none in the columns 'load', 'heat'",
    }
    assert list(found.tables) == ["a"]
    assert rows_of(found) == {"a": [0, 5], "i": [1], "b": [2, 3], "c": [4]}


def test_text_in_a_channel_or_in_a_column_is_the_error_of_its_streams() -> None:
    load = [1, "high", Decimal("2.5"), None, 10**400]
    data = pd.DataFrame({"host": list("abaac"), "load": pd.Series(load, dtype=object)})
    found = to_tables(data, by="host")
    equal(found.tables["a"], [[1], [2.5], [NAN]], ("load",))
    assert wrong(found)["b"] == "column 'load', sample 0: expected a number, found 'high'"
    assert wrong(found)["c"].startswith("column 'load', sample 0: expected a finite number, found")
    data = pl.DataFrame({"host": ["a", "b"], "load": [1, 2], "site": ["x", None]})
    found = to_tables(data, by="host")
    assert list(found.tables) == ["b"]
    assert found.errors["a"].hint is not None
    assert wrong(found) == {"a": "column 'site', sample 0: expected a number, found 'x'"}


@both
def test_a_wrong_time_is_the_error_of_its_stream(frame: Any) -> None:
    times = ["2026-01-01", "2026-01-01", "2026-01-02", "never"]
    data = frame({"host": list("abab"), "time": times, "load": [1, 2, 3, 4]})
    found = to_tables(data, by="host", times="time")
    equal(found.tables["a"], [[1], [3]], ("load",), days(1, 2))
    assert wrong(found) == {"b": "sample 1: expected a time, found 'never'"}


def test_zones_are_kept() -> None:
    texts = ["2026-07-01T00:00:00+02:00", "2026-07-01T00:00:00Z"]
    found = to_tables(pd.DataFrame({"host": ["a", "b"], "t": texts, "load": [1, 2]}), by="host")
    assert {name: table.zone for name, table in found.tables.items()} == {"a": "+02:00", "b": "UTC"}
    zoned = pl.DataFrame({"host": ["a"], "t": [datetime(2026, 7, 1)], "load": [1]}).with_columns(
        pl.col("t").dt.replace_time_zone("Europe/Berlin")
    )
    table = to_tables(zoned, by="host").tables["a"]
    assert table.zone == "Europe/Berlin"
    assert str(table.times[0]) == "2026-06-30T22:00:00.000000000"  # type: ignore[index]


def test_the_times_may_be_given_or_an_index_but_not_also_a_column() -> None:
    data = {"host": ["a", "b", "a"], "load": [1, 2, 3]}
    given_times = to_tables(
        pl.DataFrame(data), by="host", times=["2026-01-01"] * 2 + ["2026-01-02"]
    )
    equal(given_times.tables["a"], [[1], [3]], ("load",), days(1, 2))
    indexed = pd.DataFrame(data, index=pd.DatetimeIndex(days(1, 1, 2)))
    equal(to_tables(indexed, by="host").tables["b"], [[2]], ("load",), days(1))
    numbered = pl.DataFrame({**data, "s": [86400, 0, 172800]})
    found = to_tables(numbered, by="host", times="s").tables["a"].times
    np.testing.assert_array_equal(found, np.array(["1970-01-02", "1970-01-03"], "datetime64[ns]"))
    with pytest.raises(InputError, match="expected one time a sample, 3 in all, found 1 times"):
        to_tables(pl.DataFrame(data), by="host", times=["2026-01-01"])
    frame = pd.DataFrame(PLANT, index=pd.DatetimeIndex(["2026-01-01"] * 4))
    with pytest.raises(InputError, match="found them in the index and in 'time'"):
        to_tables(frame, by="host")


@pytest.mark.parametrize("levels", [["host", "time"], ["time", "host"], ["host"]])
def test_an_index_names_the_streams(levels: list[str]) -> None:
    frame = pd.DataFrame({**PLANT, "time": days(1, 1, 2, 2)}).set_index(levels)
    found = to_tables(frame, by="host" if levels == ["host"] else None)
    equal(found.tables["a"], [[2, 20], [4, NAN]], ("load", "heat"), days(1, 2))


def test_an_index_of_several_streams_is_never_one_stream() -> None:
    frame = pd.DataFrame({**PLANT, "time": days(1, 1, 2, 2)}).set_index(["host", "time"])
    equal(to_table(frame.loc[["a"]]), [[2, 20], [4, NAN]], ("load", "heat"), days(1, 2))
    with pytest.raises(InputError) as error:
        Detector().fit(frame)
    assert str(error.value).splitlines() == [
        "expected the samples of one stream, found an index by host, time",
        "hint: Fleet().fit(frame) has a detector for each stream; one of them is "
        "frame.xs('b', level='host')",
    ]
    assert [finding.sentence for finding in check(frame).findings] == [error.value.message]


@both
def test_known_channels_are_matched_by_name(frame: Any) -> None:
    known = {"a": ("heat", "load"), "b": ("load", "heat")}
    found = to_tables(frame(PLANT), by="host", channels=known)
    equal(found.tables["a"], [[20, 2], [NAN, 4]], ("heat", "load"), days(1, 2))
    equal(found.tables["b"], [[1, NAN], [3, NAN]], ("load", "heat"), days(1, 2))
    found = to_tables(frame(PLANT), by="host", channels={"a": ("load",), "b": ("load", "speed")})
    assert wrong(found) == {
        "a": "unknown channel 'heat': expected 'load', found 'load', 'heat'",
        "b": "missing channel 'speed': expected 'load', 'speed', found 'load'",
    }


def test_the_columns_found_are_named_where_there_is_no_column_of_names() -> None:
    with pytest.raises(InputError, match="by names column 'host', found only 'load'"):
        to_tables(pl.DataFrame({"load": [1]}), by="host")
    with pytest.raises(InputError, match=r"found none among 'load'\nhint: name it with by="):
        to_tables(pl.DataFrame({"load": [1]}))
    with pytest.raises(InputError, match="expected at least one channel, found none"):
        to_tables(pl.DataFrame({"host": ["a"]}), by="host")
    with pytest.raises(InputError, match="expected names of streams that are text or numbers"):
        to_tables(pl.DataFrame({"host": [["a"]], "load": [1]}), by="host")


def test_a_frame_without_rows_has_no_streams() -> None:
    found = to_tables(pd.DataFrame({"host": [], "load": []}), by="host")
    assert (found.tables, found.rows, found.errors) == ({}, {}, {})


# ------------------------------------------------------------------ arrays


def test_an_array_is_split_by_a_name_a_row_and_needs_one() -> None:
    array = np.array([[1, 2], [3, NAN], [5, NAN]])
    found = to_tables(array, by=["a", "b", "a"], times=days(1, 1, 2))
    equal(found.tables["a"], [[1, 2], [5, NAN]], None, days(1, 2))
    equal(found.tables["b"], [[3, NAN]], None, days(1))
    assert rows_of(found) == {"a": [0, 2], "b": [1]}
    found = to_tables(array, by=np.array([0, 1, 1]), channels={"0": ("x", "y"), "1": ("x",)})
    equal(found.tables["0"], [[1, 2]], ("x", "y"))
    assert wrong(found) == {"1": "expected 1 channel, found 2"}
    infinite = to_tables([1.0, -np.inf], by=pl.Series(["a", "b"]))
    assert wrong(infinite) == {"b": "channel '0', sample 0: expected a finite number, found -inf"}
    frame = to_tables(pl.DataFrame({"load": [1, 2]}), by=np.array(["a", "b"]))
    equal(frame.tables["b"], [[2]], ("load",))
    with pytest.raises(InputError, match="expected 2 names as by, one a row, found 1"):
        to_tables(np.zeros((2, 1)), by=["a"])
    with pytest.raises(InputError, match="found the column 'host' of data without columns"):
        to_tables(np.zeros((2, 1)), by="host")
    with pytest.raises(InputError, match="found none\nhint: pass one name a row as by="):
        to_tables(np.zeros((2, 1)))
    with pytest.raises(ParameterError, match="expected a frame with long="):
        to_tables(np.zeros((2, 1)), by=["a", "a"], long=True)


# ------------------------------------------------------------------ long frames

LONG = {
    "Time": ["2026-01-02", "2026-01-01", "2026-01-01", "2026-01-02", "2026-01-01", "2026-01-01"],
    "Tag": ["x", "x", "y", "z", "x", "x"],
    "host": ["a", "a", "a", "b", "b", "a"],
    "VALUE": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
}


@both
def test_long_rows_become_a_sample_a_time(frame: Any) -> None:
    found = to_tables(frame(LONG), by="host", long=True)
    equal(found.tables["a"], [[6, 3], [1, NAN]], ("x", "y"), days(1, 2))
    equal(found.tables["b"], [[5, NAN], [NAN, 4]], ("x", "z"), days(1, 2))
    assert found.rows is None


@both
def test_long_rows_without_by_are_one_stream(frame: Any) -> None:
    names = {"Time": "when", "Tag": "what", "VALUE": "reading", "host": "host"}
    data = frame({names[name]: cells for name, cells in LONG.items()})
    found = to_tables(data, long=Long(time="when", tag="what", value="reading"))
    equal(found.tables[""], [[6, 3, NAN], [1, NAN, 4]], ("x", "y", "z"), days(1, 2))
    named = to_tables(data, long=Long(tag="what", value="reading"), times="when")
    assert named.tables[""].channels == ("x", "y", "z")


def test_known_channels_of_long_data_without_a_row_are_missing() -> None:
    known = {"a": ("w", "y", "x"), "b": ("x",)}
    found = to_tables(pl.DataFrame(LONG), by="host", long=True, channels=known)
    equal(found.tables["a"], [[NAN, 3, 6], [NAN, NAN, 1]], ("w", "y", "x"), days(1, 2))
    assert wrong(found) == {"b": "unknown channel 'z': expected 'x', found 'x', 'z'"}


def test_what_is_wrong_with_long_rows_is_the_error_of_their_stream() -> None:
    data = pd.DataFrame(
        {
            "ts": ["2026-01-01", "2026-01-01", "2026-01-01", None, "2026-01-01", "2026-01-01"],
            "metric": ["x", None, "x", "x", "x", "x"],
            "value": pd.Series([1, 2, np.inf, 3, "high", 4], dtype=object),
            "host": ["a", "b", "c", "d", "e", None],
        }
    )
    found = to_tables(data, by="host", long=True)
    assert list(found.tables) == ["a"]
    messages = wrong(found)
    assert messages.pop("d").startswith("sample 0: expected a time, found")
    assert messages == {
        "": "column 'host': expected the name of a stream in every row, 1 row has none",
        "b": "expected the name of a channel in every row, 1 row has none",
        "c": "channel 'x', sample 0: expected a finite number, found inf",
        "e": "column 'value', row 4: expected a number, found 'high'",
    }


def test_a_missing_time_of_long_rows_is_an_error() -> None:
    data = pl.DataFrame({"time": [None, datetime(2026, 1, 1)], "tag": ["x"] * 2, "value": [1, 2]})
    assert wrong(to_tables(data, long=True)) == {"": "row 0: expected a time, found none (NaT)"}


@pytest.mark.parametrize(
    ("columns", "long", "message"),
    [
        (("tag", "value"), True, "expected a column of the time, called time or timestamp or ts"),
        (("time", "value"), True, "called tag or metric .*, found only 'time', 'value', 'host'"),
        (("time", "tag"), True, "expected a column of the value, called value, found only"),
        (("time", "tag", "metric", "value"), True, "expected one column of the tag, found 'tag', "),
        (("time", "tag", "value"), Long(tag="what"), "long names column 'what' as tag, found only"),
    ],
)
def test_long_columns_that_are_not_found_are_named(columns: Any, long: Any, message: str) -> None:
    data = pl.DataFrame({name: ["1"] for name in (*columns, "host")})
    with pytest.raises(InputError, match=message):
        to_tables(data, by="host", long=long)


def test_the_column_of_names_is_never_that_of_tags() -> None:
    data = {**LONG, "name": LONG["host"]}
    assert list(to_tables(pl.DataFrame(data), by="name", long=True).tables) == ["a", "b"]
    with pytest.raises(InputError, match="by names column 'site', found only 'Time', 'Tag'"):
        to_tables(pl.DataFrame(LONG), by="site", long=True)
    with pytest.raises(ParameterError, match="expected times to name a column of long data"):
        to_tables(pl.DataFrame(LONG), by="host", long=True, times=days(1))


# ------------------------------------------------------------------ mappings


def test_a_mapping_has_a_stream_a_key_and_may_hold_long_frames() -> None:
    data = {
        "a": [[1.0, 2.0]],
        "b": pl.DataFrame({"load": [1, None], "empty": [None, None]}),
        3: pd.Series([1.0]),
        "bad": [np.inf],
    }
    found = to_tables(data, channels={"a": ("x", "y")})
    assert found.rows is None
    equal(found.tables["a"], [[1, 2]], ("x", "y"))
    assert found.tables["b"].channels == to_table(data["b"]).channels
    equal(found.tables["3"], [[1]], None)
    assert list(found.errors) == ["bad"]
    timed = to_tables({"a": [1.0], "b": [2.0]}, times={"a": days(1)})
    equal(timed.tables["a"], [[1]], None, days(1))
    assert timed.tables["b"].times is None
    with pytest.raises(ParameterError, match="its keys are the names of the streams"):
        to_tables(data, by="host")
    found = to_tables({"a": pl.DataFrame(LONG), "b": pl.DataFrame({"x": [1]})}, long=True)
    equal(found.tables["a"], [[6, 3, NAN], [1, NAN, 4]], ("x", "y", "z"), days(1, 2))
    assert wrong(found)["b"].startswith("expected a column of the time")


# ------------------------------------------------------------------ files


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_a_file_is_read_as_a_frame(tmp_path: Path, ending: str) -> None:
    frame = pl.DataFrame(PLANT).with_columns(pl.col("heat").fill_nan(None))
    path = tmp_path / f"plant.{ending}"
    {"csv": frame.write_csv, "jsonl": frame.write_ndjson, "parquet": frame.write_parquet}[ending](
        path
    )
    found = to_tables(path, by="host")
    equal(found.tables["b"], [[1], [3]], ("load",), days(1, 2))
    equal(found.tables["a"], [[2, 20], [4, NAN]], ("load", "heat"), days(1, 2))
    assert rows_of(found) == {"b": [0, 2], "a": [1, 3]}
    known = to_tables(str(path), by="host", channels={"b": ("heat", "load")})
    equal(known.tables["b"], [[NAN, 1], [NAN, 3]], ("heat", "load"), days(1, 2))
    less = read_tables(path, by="host", drop="heat", columns=["load"], time="time")
    equal(less.tables["a"], [[2], [4]], ("load",), days(1, 2))


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_a_long_file_is_read_as_a_frame(tmp_path: Path, ending: str) -> None:
    frame = pl.DataFrame(LONG)
    path = tmp_path / f"plant.{ending}"
    {"csv": frame.write_csv, "jsonl": frame.write_ndjson, "parquet": frame.write_parquet}[ending](
        path
    )
    found = to_tables(path, by="host", long=True)
    equal(found.tables["a"], [[6, 3], [1, NAN]], ("x", "y"), days(1, 2))
    equal(found.tables["b"], [[5, NAN], [NAN, 4]], ("x", "z"), days(1, 2))
    assert found.rows is None
    one = to_tables(path, long=True, times="Time")
    equal(one.tables[""], [[6, 3, NAN], [1, NAN, 4]], ("x", "y", "z"), days(1, 2))
    with pytest.raises(ParameterError, match="expected no columns and no drop with long data"):
        read_tables(path, long=True, drop="host")


def test_a_wrong_cell_is_missing_and_a_wrong_line_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "plant.csv"
    path.write_text(
        "host,time,load\na,2026-01-01,1\nb,2026-01-01,high\n\n,2026-01-01,2\nc\n"
        "d,2026-01-01,1\na,2026-01-02,2\nd,2026-01-02,2\nb,2026-01-02,5\nd,never,3\n"
    )
    found = to_tables(path, by="host")
    assert rows_of(found) == {"a": [0, 5], "b": [1, 7], "d": [4, 6]}
    equal(found.tables["b"], [[NAN], [5]], ("load",), days(1, 2))
    assert wrong(found) == {
        "": "column 'host': expected the name of a stream in every row, 1 row has none"
    }
    assert found.profile is not None and found.profile.bad_lines == 2
    assert found.profile.bad_cells["load"].example == "high"
    one = found.tables["d"].profile
    assert one is not None and one.bad_lines == 1
    assert one.first_bad == "line 11: column 'time': expected a time, found 'never'"
    assert wrong(read_tables(path, by="host", strict=True)) == {
        "": "column 'host': expected the name of a stream in every row, 1 row has none",
        "b": "line 3: column 'load': expected a number, found 'high'",
        "d": "line 11: column 'time': expected a time, found 'never'",
    }


def test_a_stream_of_wrong_lines_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "plant.csv"
    path.write_text("host,time,load\na,2026-01-01,1\nb,never,1\nb,2026-01-01,2\nb,never,3\n")
    found = to_tables(path, by="host")
    assert wrong(found) == {"b": "line 3: column 'time': expected a time, found 'never'"}


def test_the_streams_of_a_file_are_put_in_order(tmp_path: Path) -> None:
    path = tmp_path / "plant.csv"
    path.write_text(
        "host,time,load\na,2026-01-02,2\nb,2026-01-01,5\na,2026-01-01,1\nb,2026-01-01,7\n"
    )
    found = to_tables(path, by="host")
    equal(found.tables["a"], [[1], [2]], ("load",), days(1, 2))
    equal(found.tables["b"], [[7]], ("load",), days(1))
    assert found.rows is None, "the rows of a stream were moved"
    assert found.profile is not None
    assert (found.profile.out_of_order, found.profile.duplicates) == (1, 1)
    assert found.profile.notes == [
        "stream 'a': 1 sample was out of order and put in the order of the times",
        "stream 'b': 1 sample has the time of another: the last one counts",
    ]
    twice = read_tables(path, by="host", on_duplicate="error")
    assert wrong(twice)["b"].startswith("line 5: expected each time once, found 2026-01-01")
    assert wrong(twice)["b"].endswith("again, as in line 3")
    path.write_text(
        "host,time,load\na,2026-01-01,2\nb,2026-01-01,5\na,2026-01-02,1\n"
        "b,2026-01-02,7\nb,2026-01-02,8\n"
    )
    found = read_tables(path, by="host", rows="1:")
    assert rows_of(found) == {"a": [2], "b": [4]}, "rows of the input that are left"
    equal(found.tables["b"], [[8]], ("load",), days(2))


def test_counters_labels_and_periods_of_each_stream(tmp_path: Path) -> None:
    path = tmp_path / "plant.csv"
    lines = [
        f"2026-01-01T00:0{minute}:00,{host},{60 * minute * at},{int(minute == 2)}"
        for minute in range(6)
        for at, host in enumerate("ab", start=1)
    ]
    path.write_text("\n".join(["time,host,sent,truth", *lines]) + "\n")
    found = read_tables(path, by="host", rates="sent", label="truth", resample="2min")
    for at, name in enumerate("ab", start=1):
        table = found.tables[name]
        assert table.labels is not None and table.labels.tolist() == [0, 1, 0, 0]
        np.testing.assert_array_equal(table.values[:, 0], [NAN, at, at, at])
    with pytest.raises(InputError, match="rates names column 'load'"):
        read_tables(path, by="host", rates="load")


def test_known_channels_of_a_file_may_be_absent_and_others_there(tmp_path: Path) -> None:
    path = tmp_path / "plant.csv"
    path.write_text("host,load,new\na,1,2\na,3,4\n")
    found = read_tables(path, by="host", channels={"a": ("heat", "load")})
    equal(found.tables["a"], [[NAN, 1], [NAN, 3]], ("heat", "load"))
    assert "a" in read_tables(path, by="host", channels={"a": ("heat", "mass")}).errors


def test_values_of_long_data_that_are_there_twice(tmp_path: Path) -> None:
    path = tmp_path / "plant.csv"
    path.write_text("time,tag,value\n1,x,1\n1,x,3\n2,x,5\n")
    moments = np.array([1, 2], "datetime64[s]")
    equal(read_tables(path, long=True).tables[""], [[3], [5]], ("x",), moments)
    mean = read_tables(path, long=True, on_duplicate="mean").tables[""]
    equal(mean, [[2], [5]], ("x",), moments)
    assert mean.profile is not None and mean.profile.duplicates == 1
    twice = read_tables(path, long=True, on_duplicate="error")
    assert wrong(twice) == {"": "expected one value of a channel and time, found 1 more"}


def test_a_wrong_long_line_is_the_error_of_its_stream(tmp_path: Path) -> None:
    path = tmp_path / "plant.csv"
    path.write_text("time,site,host,tag,value\n1,s,a,x,1\n1,s,b,x,high\n2,s,a,x,2\n")
    found = to_tables(path, by=["site", "host"], long=True)
    equal(found.tables["s/a"], [[1], [2]], ("x",), np.array([1, 2], "datetime64[s]"))
    assert wrong(found) == {"s/b": "expected values, found none in the columns 'x'"}
    assert wrong(read_tables(path, long=True, strict=True)) == {
        "": "line 3: column 'value': expected a number, found 'high'"
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "plant.csv: expected samples, found none"),
        ("host,load\n", "plant.csv: expected samples, found none"),
        ("name,load\na,1\n", "plant.csv: by names column 'host', found only 'name', 'load'"),
        ("host,load\na,high\n", "plant.csv: line 2: column 'load': expected a number"),
    ],
)
def test_a_file_without_streams_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "plant.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        to_tables(path, by="host")


def test_a_file_needs_a_column_of_names(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected the column that names the stream, found none"):
        to_tables(tmp_path / "plant.csv")
    with pytest.raises(InputError, match="expected a file that can be read, found: No such file"):
        to_tables(tmp_path / "plant.csv", by="host")
    with pytest.raises(ParameterError, match="expected times to name a column of the file"):
        to_tables(tmp_path / "plant.csv", by="host", times=days(1))


def test_json_lines_may_differ_in_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newnormal.tabular.text.raw_bytes.READ_BYTES", 50)
    path = tmp_path / "plant.jsonl"
    path.write_text(
        '{"host": "a", "load": 1}\n{"host": "a", "load": 2}\n{"host": "b", "heat": 3}\n'
        '{"host": "b", "heat": 4, "more": null}\n{"load": 5, "host": "a"}\n'
    )
    found = to_tables(path, by="host")
    equal(found.tables["a"], [[1], [2], [5]], ("load",))
    equal(found.tables["b"], [[3], [4]], ("heat",))
    assert rows_of(found) == {"a": [0, 1, 4], "b": [2, 3]}


def test_a_folder_has_a_stream_a_file(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text("time,load\n2026-01-01,1\n2026-01-02,\n")
    (tmp_path / "a.jsonl").write_text('{"heat": 20}\n')
    pl.DataFrame({"load": [1]}).write_parquet(tmp_path / "c.parquet")
    (tmp_path / "d.csv").write_text("load\nhigh\n")
    (tmp_path / "notes.md").write_text("no data")
    (tmp_path / ".hidden.csv").write_text("load\nhigh\n")
    (tmp_path / "more.csv").mkdir()
    found = to_tables(tmp_path, channels={"a": ("heat",), "c": ("speed",)})
    assert list(found.tables) == ["a", "b"]
    equal(found.tables["b"], [[1], [NAN]], ("load",), days(1, 2))
    assert found.rows is None
    assert list(found.errors) == ["c", "d"]
    assert "missing channel 'speed'" in wrong(found)["c"]
    with pytest.raises(ParameterError, match="expected no by with the folder"):
        to_tables(tmp_path, by="host")
    (tmp_path / "b.jsonl").write_text('{"heat": 20}\n')
    with pytest.raises(InputError, match=r"a file a stream, found 'b.csv' and 'b.jsonl'"):
        to_tables(tmp_path)


def test_a_folder_has_a_stream_a_long_file_and_needs_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"files that end in \.csv, .* found none"):
        to_tables(tmp_path)
    pl.DataFrame(LONG).write_csv(tmp_path / "plant.csv")
    (tmp_path / "other.csv").write_text("time,tag,value\n1,x,high\n")
    found = to_tables(tmp_path, long=True, channels={"plant": ("z", "y", "x")})
    equal(found.tables["plant"], [[NAN, 3, 6], [4, NAN, 1]], ("z", "y", "x"), days(1, 2))
    assert list(found.errors) == ["other"]


# ------------------------------------------------------------------ everything


@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "é", "10", "c/d"]),
            st.one_of(st.none(), st.floats(-1e9, 1e9)),
            st.integers(-5, 5),
        ),
        min_size=1,
    ),
    library=st.sampled_from([pd.DataFrame, pl.DataFrame]),
)
def test_the_tables_put_in_their_rows_are_the_frame(rows: Any, library: Any) -> None:
    names, load, count = map(list, zip(*rows, strict=True))
    start = datetime(2026, 1, 1)
    times = [start + timedelta(minutes=row) for row in range(len(rows))]
    data = library({"time": times, "host": names, "load": load, "count": count})
    if library is pl.DataFrame:
        data = data.with_columns(pl.col("load").cast(pl.Float64))
    else:
        data["load"] = data["load"].astype(float)
    found = to_tables(data, by="host")
    assert found.errors == {}
    assert list(found.tables) == list(dict.fromkeys(names))
    again = np.full((len(rows), 2), NAN)
    whose = np.empty(len(rows), dtype=object)
    when = np.empty(len(rows), dtype="datetime64[ns]")
    for name, table in found.tables.items():
        at = present(found.rows)[name]
        assert (np.diff(at) > 0).all()
        columns = [("load", "count").index(channel) for channel in table.channels or ()]
        again[at[:, np.newaxis], columns] = table.values
        whose[at] = name
        when[at] = table.times
    expected = np.array([[NAN if a is None else a, b] for a, b in zip(load, count, strict=True)])
    np.testing.assert_array_equal(again, expected)
    assert whose.tolist() == names
    np.testing.assert_array_equal(when, np.array(times, dtype="datetime64[ns]"))


def test_a_parquet_file_of_no_rows_is_refused_as_other_files_are(tmp_path: Path) -> None:
    path = tmp_path / "none.parquet"
    pl.DataFrame({"host": ["a"], "load": [1.0]}).clear().write_parquet(path)
    with pytest.raises(InputError, match=r"none\.parquet: expected samples, found none"):
        read_tables(path, by="host")
