"""Cells and lines that cannot be read: a missing value, a bad line, or an error."""

from typing import Any

import numpy as np
import pytest

from newnormal.errors import InputError
from newnormal.tabular import LineParser, Reading, StreamLines
from newnormal.tabular.reading import BadCells

NAN = float("nan")


def test_a_bad_cell_is_one_missing_value_and_counted(table: Any) -> None:
    found = table("t,a,b\n2026-01-01,1,2\n2026-01-02,x,4\n2026-01-03,5,inf\n2026-01-04,y,8\n")
    np.testing.assert_array_equal(found.values, [[1, 2], [NAN, 4], [5, NAN], [NAN, 8]])
    assert found.profile.bad_cells == {"a": BadCells(2, 3, "x"), "b": BadCells(1, 4, "inf")}
    assert (found.profile.lines, found.profile.bad_lines) == (4, 0)


def test_a_bad_cell_is_reported_once_a_column() -> None:
    said: list[str] = []
    parser = LineParser(report=said.append)
    parser.parse_many(["a,b", "1,2", "3,Bad"])
    parser.parse_many(["5,6", "7,Bad"])
    assert said == ["line 3: column 'b': expected a number, found 'Bad': it counts as missing"]
    assert parser.profile.bad_cells["b"].count == 2


@pytest.mark.parametrize("word", ["Bad", "-", "#N/A", "No Data", "---"])
def test_words_for_missing_are_not_counted(table: Any, word: str) -> None:
    found = table(f"a,b\n1,{word}\n{word.upper()},4\n5, {word} \n", na=[word])
    np.testing.assert_array_equal(found.values, [[1, NAN], [NAN, 4], [5, NAN]])
    assert found.profile.bad_cells == {}


def test_bad_lines_are_passed_over_and_counted(table: Any) -> None:
    found = table("t,a\n2026-01-01,1\nsoon,2\n2026-01-03,3\n2026-01-04\n2026-01-05,5\n")
    assert found.values.ravel().tolist() == [1, 3, 5]
    assert (found.profile.lines, found.profile.bad_lines) == (5, 2)
    assert found.profile.first_bad == "line 3: column 't': expected a time, found 'soon'"


def test_an_input_of_mostly_bad_lines_is_refused(table: Any) -> None:
    with pytest.raises(InputError, match=r"line 3: expected 2 cells, found 1 \(2 of 3 lines\)"):
        table("a,b\n1,2\nx\ny\n")
    with pytest.raises(InputError, match=r"line 2: expected 2 cells, found 3 \(2 of 2 lines\)"):
        table("a,b\n1,2,3\n4,5,6\n")
    with pytest.raises(InputError, match="line 1: expected a JSON object"):
        table("what is\nthis\n", "plant.jsonl", format="jsonl")


def test_columns_of_text_are_one_error_with_what_to_do(table: Any) -> None:
    rows = "".join(f"2026-01-{day:02},web-{day % 3},{day},ok\n" for day in range(1, 20))
    with pytest.raises(InputError) as caught:
        table("t,host,load,state\n" + rows)
    message = str(caught.value)
    assert "columns 'host', 'state': expected numbers, found 'web-1', 'ok'" in message
    assert "--drop host,state (drop=)" in message
    assert "--by host (by=)" in message
    assert table("t,host,load,state\n" + rows, drop=["host", "state"]).channels == ("load",)


def test_a_few_lines_of_text_are_known_at_the_end(table: Any) -> None:
    with pytest.raises(InputError, match="column 'b': expected numbers, found 'x'"):
        table("a,b\n1,x\n2,y\n")
    assert table("a,b\n1,x\n2,3\n").values.shape == (2, 2)


def test_known_channels_may_hold_text_for_a_while() -> None:
    parser = LineParser(channels=("a", "b"))
    assert len(parser.parse_many(["a,b", *["1,Bad"] * 20]).rows) == 20
    parser.finish()


@pytest.mark.parametrize(
    ("cells", "values", "unit"),
    [
        (["45.2 %", "44 %", ""], [45.2, 44, NAN], "%"),
        (["12 MB", "13MB", "14 MB"], [12, 13, 14], "MB"),
        (["1,5 °C", "-2,5 °C", "0"], [1.5, -2.5, 0], "°C"),
        (["1.5e3 kW", "2 kW", "NA"], [1500, 2, NAN], "kW"),
    ],
)
def test_the_unit_of_a_column_is_stripped_and_told(
    table: Any, cells: list[str], values: list[float], unit: str
) -> None:
    found = table("a;b\n" + "".join(f"{cell};{at}\n" for at, cell in enumerate(cells)))
    np.testing.assert_array_equal(found.values[:, 0], values)
    assert found.profile.written["cell_units"] == f"a in {unit}"
    assert found.profile.bad_cells == {}


def test_another_unit_is_a_bad_cell(table: Any) -> None:
    found = table("a;b\n12 MB;1\n13 MB;1\n1.5 GB;1\n14;1\n0;1\n")
    np.testing.assert_array_equal(found.values[:, 0], [12, 13, NAN, NAN, 0])
    assert found.profile.bad_cells["a"] == BadCells(2, 4, "1.5 GB")
    assert found.profile.notes == [
        "column 'a' has numbers in different units, 'MB', 'GB': only those in MB are read"
    ]


def test_strict_makes_a_bad_cell_a_bad_line() -> None:
    samples = LineParser(strict=True).parse_many(["a,b", "1,2", "3,x", "5,6"])
    assert samples.values.tolist() == [[1, 2], [5, 6]]
    assert [(row, error.message) for row, _, error in samples.errors] == [
        (2, "column 'b': expected a number, found 'x'")
    ]
    batch = StreamLines("host", strict=True).parse(["host,x", "a,1", "a,y"])
    assert [each.error.message for each in batch.problems] == [
        "column 'x': expected a number, found 'y'"
    ]


def test_a_label_that_is_none_is_a_bad_line(table: Any) -> None:
    found = table("a,y\n1,0\n2,1\n3,maybe\n4,1\n", label="y")
    assert found.labels.tolist() == [0, 1, 1]
    assert found.profile.first_bad == "line 4: column 'y': expected a label 0 or 1, found 'maybe'"


def test_a_line_that_was_refused_before_is_a_bad_line() -> None:
    class Refused(str):
        error = InputError("expected at most 1,000,000 bytes in a line")

    samples = LineParser().parse_many(["a,b", "1,2", Refused(), "3,4"])
    assert samples.values.tolist() == [[1, 2], [3, 4]]
    assert [(row, error.message) for row, _, error in samples.errors] == [
        (2, Refused.error.message)
    ]


def test_keys_that_are_absent_or_new_are_missing_or_reported_once() -> None:
    parser = LineParser(Reading.of(format="jsonl"), channels=("a", "b"))
    lines = ['{"a": 1, "b": 2}', '{"a": 3}', '{"a": 4, "b": 5, "c": 6}', '{"b": 7, "c": 8}']
    samples = parser.parse_many(lines[:1])
    samples = parser.parse_many(lines[1:])
    np.testing.assert_array_equal(samples.values, [[3, NAN], [4, 5], [NAN, 7]])
    assert parser.profile.notes == ["column 'c' is no channel: ignored"]
    assert samples.errors == ()


def test_keys_of_the_first_lines_are_all_channels(table: Any) -> None:
    found = table('{"a": 1}\n{"b": 2}\n{"a": 3, "b": 4}\n', "plant.jsonl")
    np.testing.assert_array_equal(found.values, [[1, NAN], [NAN, 2], [3, 4]])
    assert found.channels == ("a", "b")
