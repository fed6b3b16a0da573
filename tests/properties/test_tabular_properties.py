"""Whatever is written as CSV, JSON lines, Parquet or a frame is read back as it was."""

import csv
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from newnormal.arrivals.cells import number
from newnormal.errors import InputError
from newnormal.tabular import LineParser, Table, parse_time, parse_times, read, to_table
from newnormal.tabular.parsing.decimals import NumberReader, unit_of
from newnormal.types import Floats, Times
from tests.present import present

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

fast = settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)

# Line breaks end a row, and a byte-order mark or spaces around a name are not part of it.
letters = st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp"), exclude_characters="\ufeff")
names = st.text(letters, min_size=1, max_size=8).map(lambda text: f"x{text}".strip())
numbers = st.floats(allow_nan=True, allow_infinity=False)
missing = st.sampled_from(["", "NaN", "nan", "NA", "null", "NULL"])
# 1970 to 2200
stamps = st.integers(0, 7_258_118_400_000_000_000)


@dataclass
class Plant:
    """A series to write: its columns in the order they are written, and what to read back."""

    channels: tuple[str, ...]
    values: Floats
    times: Times | None
    order: list[str]

    def rows(self) -> list[dict[str, Any]]:
        """Return the samples as records, with the time's text, missing values as None."""
        records = []
        for at, row in enumerate(self.values):
            record: dict[str, Any] = {
                name: None if np.isnan(value) else float(value)
                for name, value in zip(self.channels, row, strict=True)
            }
            if self.times is not None:
                record["time"] = str(self.times[at])
            records.append({name: record[name] for name in self.order})
        return records

    def check(self, table: Table) -> None:
        """Assert that a table is this series, channel by channel."""
        assert table.values.shape == self.values.shape
        for at, name in enumerate(self.channels):
            column = table.values[:, present(table.channels).index(name)]
            np.testing.assert_array_equal(column, self.values[:, at])
        if self.times is None:
            assert table.times is None
        else:
            np.testing.assert_array_equal(table.times, self.times)


@st.composite
def plants(draw: st.DrawFn) -> Plant:
    channels = tuple(draw(st.lists(names, min_size=1, max_size=5, unique=True)))
    count = draw(st.integers(1, 8))
    cells = st.lists(numbers, min_size=len(channels), max_size=len(channels))
    values = np.array(draw(st.lists(cells, min_size=count, max_size=count)), dtype=np.float64)
    times = None
    order = list(channels)
    if draw(st.booleans()):
        # At even steps: a time far behind all others is left out of a file.
        start, step = draw(stamps), draw(st.integers(1, 10**15))
        times = (start + step * np.arange(count)).astype("datetime64[ns]")
        order.append("time")
    return Plant(channels, values, times, draw(st.permutations(order)))


def read_text(text: str, name: str, **options: Any) -> Table:
    with TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(text.encode())
        return read(path, **options)


def csv_text(plant: Plant, delimiter: str, newline: str, blank: Callable[[], str]) -> str:
    out = io.StringIO()
    # Quoted names, so that a semicolon in one of them cannot be taken for the separator.
    head = csv.writer(out, delimiter=delimiter, lineterminator=newline, quoting=csv.QUOTE_ALL)
    head.writerow(plant.order)
    body = csv.writer(out, delimiter=delimiter, lineterminator=newline)
    for record in plant.rows():
        body.writerow([blank() if cell is None else cell for cell in record.values()])
    # The csv module writes a row of one empty cell as "", which is a sample, not a blank line.
    return out.getvalue()


@fast
@given(plants(), st.sampled_from(",;\t"), st.sampled_from(["\n", "\r\n"]), st.data())
def test_csv_is_read_back_as_it_was(
    plant: Plant, delimiter: str, newline: str, data: st.DataObject
) -> None:
    text = csv_text(plant, delimiter, newline, lambda: data.draw(missing))
    plant.check(read_text(text, "plant.csv"))
    table = read_text(text, "plant.csv", channels=plant.channels)
    assert table.channels == plant.channels
    plant.check(table)


@fast
@given(plants(), st.randoms(use_true_random=False), st.booleans())
def test_json_lines_are_read_back_as_they_were(plant: Plant, random: Any, escape: bool) -> None:
    lines = []
    for record in plant.rows():
        items = list(record.items())
        random.shuffle(items)
        lines.append(json.dumps(dict(items), ensure_ascii=escape))
    text = "\n".join(lines)
    plant.check(read_text(text, "plant.jsonl"))
    assert read_text(text, "plant.jsonl", channels=plant.channels).channels == plant.channels


@fast
@given(plants())
def test_frames_and_parquet_are_read_back_as_they_were(plant: Plant) -> None:
    columns: dict[str, Any] = {name: plant.values[:, at] for at, name in enumerate(plant.channels)}
    if plant.times is not None:
        columns["time"] = plant.times
    columns = {name: columns[name] for name in plant.order}
    polars = pl.DataFrame(columns, nan_to_null=True)
    pandas = pd.DataFrame(columns)
    frames = [pandas, polars, polars.lazy(), pandas.convert_dtypes()]
    if plant.times is not None:
        frames.append(pandas.set_index("time"))
    for frame in frames:
        plant.check(to_table(frame))
        assert to_table(frame, channels=plant.channels).channels == plant.channels
    with TemporaryDirectory() as folder:
        path = Path(folder, "plant.parquet")
        polars.write_parquet(path)
        plant.check(read(path))


@fast
@given(plants(), st.integers(0, 3))
def test_line_by_line_equals_the_whole_file(plant: Plant, bad: int) -> None:
    text = csv_text(plant, ",", "\n", lambda: "NA")
    header, *lines = text.splitlines()
    lines[bad:bad] = ["not a sample", "", "\n"]
    parser = LineParser.open(header)
    samples = []
    for line in lines:
        if line == "not a sample" and len(plant.order) == 1:
            continue
        try:
            samples.append(parser.parse(line))
        except InputError:
            assert line == "not a sample"
    kept = [sample for sample in samples if sample is not None]
    whole = read_text(text, "plant.csv")
    assert parser.channels == whole.channels
    np.testing.assert_array_equal(np.array([sample.values for sample in kept]), whole.values)
    many = LineParser.open(header).parse_many(text.splitlines()[1:])
    np.testing.assert_array_equal(many.values, whole.values)
    if whole.times is not None:
        assert [sample.time for sample in kept] == list(whole.times)
        np.testing.assert_array_equal(many.times, whole.times)


@settings(fast, max_examples=200)
@given(st.text("0123456789.eE+-_ \tnaNAifultrs\u0661", max_size=8))
def test_a_cell_is_read_by_numpy_as_by_the_rule(cell: str) -> None:
    try:
        ref = number(cell)
    except ValueError:
        ref = np.inf
    assume(unit_of(cell, NumberReader()) is None)
    parser = LineParser.open("a,b,c", strict=True)
    line = f"1.5,{cell},2.5"
    if np.isinf(ref):
        with pytest.raises(InputError, match=r"^column 'b': expected a "):
            parser.parse(line)
        return
    np.testing.assert_array_equal(present(parser.parse(line)).values, [1.5, ref, 2.5])


@settings(fast, max_examples=200)
@given(st.lists(st.text(max_size=20) | st.text('{}[]":,1e.-na ', max_size=20), max_size=6))
def test_any_text_is_samples_or_input_errors(lines: list[str]) -> None:
    for first in ["a,b", "time,a", '{"a": 1}', "1,2", *lines[:1]]:
        try:
            many = LineParser.open(first, format=None).parse_many(lines)
        except InputError:
            continue
        blank = sum(not line or line.isspace() for line in lines)
        assert len(many.rows) + len(many.errors) + blank <= len(lines)  # a header may come again
        assert np.isfinite(many.values[~np.isnan(many.values)]).all()


@fast
@given(st.lists(stamps, min_size=1, max_size=5), st.integers(-1439, 1439), st.sampled_from("T "))
def test_times_are_read_back_in_any_zone(drawn: list[int], minutes: int, middle: str) -> None:
    times = np.array(drawn).astype("datetime64[ns]")
    plain = [str(time).replace("T", middle) for time in times]
    np.testing.assert_array_equal(parse_times(plain), times)
    sign, size = "-" if minutes < 0 else "+", abs(minutes)
    zone = f"{sign}{size // 60:02}:{size % 60:02}"
    shifted = [f"{time + np.timedelta64(minutes, 'm')}{zone}" for time in times]
    np.testing.assert_array_equal(parse_times(shifted), times)
    np.testing.assert_array_equal(parse_times([*plain, *shifted]), [*times, *times])
    assert [parse_time(text) for text in plain] == list(times)


@fast
@given(st.integers(10**9, 4 * 10**9), st.integers(0, 999_999))
def test_unix_times_say_the_same_in_every_unit(seconds: int, micros: int) -> None:
    # After 1973, that is; before, milliseconds look like seconds.
    ref = np.datetime64(seconds * 10**6 + micros, "us")
    assert parse_time(seconds) == parse_time(seconds * 1000) == np.datetime64(seconds, "s")
    assert parse_time(seconds * 10**6 + micros) == ref
    assert parse_time((seconds * 10**6 + micros) * 1000) == ref
    assert parse_time(seconds + micros / 1e6) == ref
    assert parse_time(f"{seconds}.{micros:06}") == ref
    np.testing.assert_array_equal(parse_times(np.array([seconds + micros / 1e6])), [ref])
