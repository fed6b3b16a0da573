"""Whole files as tables."""

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newnormal.errors import InputError, MissingExtraError, ParameterError
from newnormal.tabular import Table, read
from newnormal.tabular.text import raw_bytes
from tests.errors import raised
from tests.present import present

NAN = float("nan")


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Write a file in an empty folder that is the working one; return its name."""
    monkeypatch.chdir(tmp_path)

    def _write(content: str | bytes, name: str = "plant.csv") -> str:
        data = content.encode() if isinstance(content, str) else content
        Path(name).write_bytes(data)
        return name

    return _write


def equal(table: Table, values: Any, channels: tuple[str, ...], times: Any = None) -> None:
    np.testing.assert_array_equal(table.values, np.asarray(values, dtype=np.float64))
    assert table.values.dtype == np.float64
    assert table.values.flags.c_contiguous
    assert table.channels == channels
    if times is None:
        assert table.times is None
    else:
        assert table.times is not None
        assert table.times.dtype == np.dtype("datetime64[ns]")
        np.testing.assert_array_equal(table.times, np.array(times, dtype="datetime64[ns]"))


DAYS = ["2026-01-01", "2026-01-02"]


@pytest.mark.parametrize(
    "content",
    [
        "when,a,b\n2026-01-01,1,2\n2026-01-02,,4\n",
        "when,a,b\n2026-01-01,1,2\n2026-01-02,,4",
        "when,a,b\r\n2026-01-01,1,2\r\n2026-01-02,NA,4\r\n",
        "when,a,b\r2026-01-01,1,2\r2026-01-02,NA,4\r",
        "\ufeffwhen,a,b\n2026-01-01,1,2\n2026-01-02,null,4\n",
        "\n\nwhen,a,b\n\n2026-01-01,1,2\n  \n2026-01-02,NaN,4\n\n",
        '"when","a","b"\n"2026-01-01","1","2"\n"2026-01-02","","4"\n',
        "when;a;b\n2026-01-01;1;2\n2026-01-02;;4\n",
        "when\ta\tb\n2026-01-01\t1\t2\n2026-01-02\t\t4\n",
        "when,a,b\n2026-01-01T00:00:00Z,1,2\n2026-01-02T02:00:00+02:00,,4\n",
    ],
)
def test_csv_is_read_however_it_was_written(write: Any, content: str) -> None:
    equal(read(write(content)), [[1, 2], [NAN, 4]], ("a", "b"), DAYS)


def test_json_lines_are_read_and_other_files_whatever_their_name(write: Any) -> None:
    content = '{"when": "2026-01-01", "a": 1, "b": 2}\n\n{"b": 4, "a": null, "when": "2026-01-02"}'
    for name in ("plant.jsonl", "plant.ndjson", "plant.JSON"):
        equal(read(write(content, name)), [[1, 2], [NAN, 4]], ("a", "b"), DAYS)
    for name in ("plant", "plant.txt", "plant.xlsx", "plant.parquet"):
        equal(read(write("a;b\n1,5;2\n", name)), [[1.5, 2]], ("a", "b"))
    with pytest.raises(ParameterError, match=r"format: expected 'csv' or 'jsonl' .*found 'xls'"):
        read("plant.csv", format="xls")


def test_parquet_is_read_if_polars_is_there(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pl = pytest.importorskip("polars")
    write("", "nothing")
    frame = pl.DataFrame(
        {"a": [1, None], "when": DAYS, "b": [2.0, 4.0], "y": [False, True], "host": ["x", "y"]}
    )
    frame.write_parquet("plant[1]*.parquet")
    table = read("plant[1]*.parquet", drop="host", label="y")
    equal(table, [[1, 2], [NAN, 4]], ("a", "b"), DAYS)
    assert present(table.labels).tolist() == [0, 1]
    table = read("plant[1]*.parquet", columns=("a", "b"), channels=("b", "a"))
    equal(table, [[2, 1], [4, NAN]], ("b", "a"), DAYS)
    with pytest.raises(
        InputError, match=r"^plant\[1\]\*.parquet: column 'host', sample 0: expected"
    ):
        read("plant[1]*.parquet")
    with pytest.raises(
        InputError, match=r"^plant.*: column 'a', sample 1: expected a label 0 or 1"
    ):
        read("plant[1]*.parquet", label="a", drop="host")
    with pytest.raises(InputError, match="time names column 'wen', found only"):
        read("plant[1]*.parquet", time="wen")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingExtraError, match=r'pip install "newnormal\[parquet\]"'):
        read(write("PAR1", "x.parquet"))


def test_what_is_not_parquet_or_has_no_samples_is_refused(write: Any) -> None:
    pytest.importorskip("polars")
    with pytest.raises(InputError, match=r"^x\.parquet: expected Parquet, found: "):
        read(write("PAR1 and no more", "x.parquet"))
    with pytest.raises(InputError, match=r"^x\.parquet: expected Parquet, found: "):
        read(write("a,b\n1,2\n", "x.parquet"), format="parquet")
    with pytest.raises(InputError, match=r"^y\.parquet: expected a file that can be read, found: "):
        read("y.parquet")
    pl = pytest.importorskip("polars")
    write("", "nothing")
    pl.DataFrame({"a": []}).write_parquet("x.parquet")
    with pytest.raises(InputError, match=r"^x\.parquet: expected samples, found none"):
        read("x.parquet")


@pytest.mark.parametrize(
    ("content", "values", "channels"),
    [
        ("a,b\n1,2\n3,4\n", [[1, 2], [3, 4]], ("a", "b")),
        ('{"a": 1, "b": 2}\n{"a": 3, "b": 4}\n', [[1, 2], [3, 4]], ("a", "b")),
        ("\ufeff1,2\n3,4\n", [[1, 2], [3, 4]], ("0", "1")),
    ],
)
def test_standard_input_is_read(
    monkeypatch: pytest.MonkeyPatch, content: str, values: Any, channels: Any
) -> None:
    buffer = io.BytesIO(content.encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(buffer, encoding="latin-1"))
    equal(read("-"), values, channels)
    assert not buffer.closed


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("", "plant.csv: expected samples, found an empty file"),
        ("\n \n", "plant.csv: expected samples, found an empty file"),
        ("a,b\n", "plant.csv: expected samples after the header, found none"),
        ("a,b\n\n", "plant.csv: expected samples after the header, found none"),
        ("a,b\n1,2,3\n", "plant.csv: line 2: expected 2 cells, found 3"),
        ("\na,a\n1,2\n", "plant.csv: line 2: expected columns of different names, found 'a' more"),
        (
            "t,a\n2026-01-01,1\nx,2\ny,2\n",
            "plant.csv: line 3: column 't': expected a time, found 'x' (2 of 3 lines)",
        ),
        ("s,e,a\n2026-01-01,2026-01-02,1\n", "plant.csv: expected one column of times, found 's'"),
        ("t\n2026-01-01\n", "plant.csv: expected at least one channel, found none among the colu"),
    ],
)
def test_a_file_that_is_wrong_says_where(write: Any, content: str | bytes, text: str) -> None:
    assert str(raised(InputError, lambda: read(write(content)))).startswith(text)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ('[{"a": 1}]\n', 'plant.jsonl: line 1: expected a JSON object, found [{"a": 1}]'),
        ('{"a": 1}\n{"a": \n[]\n', "plant.jsonl: line 2: expected a JSON object, found '{\"a\":'"),
    ],
)
def test_json_lines_that_are_wrong_say_where(write: Any, content: str, text: str) -> None:
    assert str(raised(InputError, lambda: read(write(content, "plant.jsonl")))).startswith(text)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (
            "a,b\n1,2\n\n1,x\n",
            "plant.csv: line 4: column 'b': expected a number, found 'x'\nhint: a missing value is "
            "an empty cell, NaN, NA or null; other words are named with --na WORD (na=); leave a "
            "column out with --drop 'b' (drop=)",
        ),
        ("1,2\n3,x\n", "plant.csv: line 2: column '1': expected a number, found 'x'"),
        ("t,a\n2026-01-01,1\nx,2\n", "plant.csv: line 3: column 't': expected a time, found 'x'"),
        ("a,b\n1,2\n3\n", "plant.csv: line 3: expected 2 cells, found 1"),
    ],
)
def test_strict_stops_at_the_first_line_or_cell(write: Any, content: str, text: str) -> None:
    name = write(content)
    assert str(raised(InputError, lambda: read(name, strict=True))).startswith(text)


def test_a_file_that_cannot_be_opened_is_named(write: Any, tmp_path: Path) -> None:
    assert str(raised(InputError, lambda: read("nothing.csv"))) == (
        "nothing.csv: expected a file that can be read, found: No such file or directory\n"
        "hint: give the path of a file, or - for standard input"
    )
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match=r"^folder\.csv: expected a file that can be read, found:"):
        read(Path("folder.csv"))


def test_columns_are_chosen_by_name(write: Any) -> None:
    name = write("host,when,b,a,y\nweb_1,2026-01-01,2,1,0\nwéb,2026-01-02,4,3,true\n")
    table = read(name, drop=["host"], label="y", channels=("a", "b"))
    equal(table, [[1, 2], [3, 4]], ("a", "b"), DAYS)
    assert table.labels is not None
    assert table.labels.dtype == np.int64
    assert table.labels.tolist() == [0, 1]
    equal(read(name, columns=["a", "b"]), [[2, 1], [4, 3]], ("b", "a"), DAYS)
    equal(read(name, columns="a", drop="when"), [[1], [3]], ("a",))
    equal(read(name, channels=("a", "b")), [[1, 2], [3, 4]], ("a", "b"), DAYS)
    equal(read(name, channels=("a", "c")), [[1, NAN], [3, NAN]], ("a", "c"), DAYS)
    with pytest.raises(InputError, match=r"^plant\.csv: missing channel 'c': found only 'host'"):
        read(name, channels=("c",))
    with pytest.raises(InputError, match=r"^plant\.csv: drop names column 'hots', found"):
        read(name, drop="hots")


def test_unix_times_are_read_exactly(write: Any) -> None:
    name = write("t,a\n1767225600123456789,1\n1767225600123456790,2\n")
    stamps = ["2026-01-01T00:00:00.123456789", "2026-01-01T00:00:00.123456790"]
    equal(read(name, time="t"), [[1], [2]], ("a",), stamps)


def test_a_frame_written_by_pandas_is_read_back(write: Any) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame([[1.5, NAN], [2.5, 3.5]], columns=["a", "b"], index=pd.DatetimeIndex(DAYS))
    equal(read(write(frame.to_csv())), frame.to_numpy(), ("a", "b"), DAYS)
    unnamed = pd.DataFrame([[1.5, NAN], [2.5, 3.5]])
    equal(read(write(unnamed.to_csv(index=False))), unnamed.to_numpy(), ("0", "1"))
    with pytest.raises(InputError, match="column 1 has no name in the header"):
        read(write(unnamed.to_csv()))


def test_line_numbers_hold_over_chunks(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw_bytes, "READ_BYTES", 7)
    rows = [f"{n},{n * 2}" for n in range(10)]
    content = "t,a\n" + "\n\n".join(rows) + "\n"
    table = read(write(content), time="t")
    equal(table, [[2 * n] for n in range(10)], ("a",), np.arange(10).astype("M8[s]"))
    equal(read(write("a\n" + "\n" * 10 + "5\n" + "\n" * 10)), [[5]], ("a",))
    with pytest.raises(InputError, match=r"^plant\.csv: line 22: expected 2 cells, found 1"):
        read(write(content + "\nx\n"), strict=True)
    found = present(read(write(content + "\nx\n"), time="t").profile)
    assert (found.lines, found.bad_lines) == (11, 1)
    assert found.first_bad == "line 22: expected 2 cells, found 1"
    with pytest.raises(InputError, match=r"^plant\.csv: line 21: expected each time once, found"):
        read(write(content + "3,4\n"), time="t", on_duplicate="error")


@pytest.mark.parametrize(("end", "zone"), [("+02:00", "+02:00"), ("Z", "UTC"), ("", None)])
def test_the_zone_of_a_files_times_is_kept(tmp_path: Path, end: str, zone: str | None) -> None:
    path = tmp_path / "plant.csv"
    path.write_text(f"time,load\n2026-01-01T00:00:00{end},1\n2026-01-01T00:01:00{end},2\n")
    assert read(path).zone == zone
