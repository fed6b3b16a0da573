"""Where the header is, what separates cells, the decimal point: as programs write files."""

from typing import Any

import numpy as np
import pytest

from newnormal.errors import InputError
from newnormal.tabular import LineParser, Reading, StreamLines
from newnormal.tabular.parsing.decimals import NumberReader, find_decimal
from newnormal.tabular.parsing.dialect import find_head
from newnormal.tabular.reading import Remembered
from tests.errors import raised

NAN = float("nan")


HEADS = [
    ("a;b\n1;2\n", {"delimiter": "semicolon"}),
    ("a\tb\n1\t2\n", {"delimiter": "tab"}),
    ("a|b\n1|2\n", {"delimiter": "pipe"}),
    ("sep=;\na;b\n1;2\n", {"delimiter": "semicolon"}),
    ("sep=\t\na\tb\n1\t2\n", {"delimiter": "tab"}),
    ("# made by a logger\n# 7 sensors\na,b\n1,2\n", {"preamble": "2 lines"}),
    ("# a,b\n1,2\n", {"preamble": "1 line"}),
    ("Plant 7\nExported: 2026-01-01 10:00\n\na,b\n1,2\n", {"preamble": "2 lines"}),
    ("Report;;\nLine;3;\n\na;b\n1;2\n", {"preamble": "2 lines", "delimiter": "semicolon"}),
    ("a;b\n°C;bar\n1;2\n", {"units": "line 2", "delimiter": "semicolon"}),
    ("a,b\n[m/s],[%]\n1,2\n", {"units": "line 2"}),
    ("a,b\n-,-\n1,2\n", {"units": "line 2"}),
    ("a,b\n---,---\n1,2\n", {"units": "line 2"}),
    ("a,b\n------\n1,2\n", {}),
    ("Site,North\n\na,b\n[V],[A]\n1,2\n", {"preamble": "1 line", "units": "line 4"}),
]

LOGGER = """Logger: XY-7
Serial number: 12345
Start: 2026-01-01 00:00:00

No.,Date/Time,CH1,CH2
NO.,Time,degC,V
1,2026/01/01 00:00:00,+ 21.5,- 1.23
2,2026/01/01 00:00:01,+ 21.6,- 1.24
"""


@pytest.mark.parametrize(("text", "written"), HEADS)
@pytest.mark.parametrize("size", [1, 2, 100])
def test_the_header_is_found_and_skips_told(text: str, written: dict[str, str], size: int) -> None:
    parser = LineParser()
    lines = text.splitlines()
    rows = []
    for at in range(0, len(lines), size):
        rows += parser.parse_many(lines[at : at + size]).values.tolist()
    assert parser.channels == ("a", "b")
    assert rows == [[1, 2]]
    assert parser.profile.written == written
    assert parser.profile.header == ("a", "b")
    assert (parser.profile.lines, parser.profile.bad_lines) == (1, 0)


def test_an_empty_row_below_the_header_is_no_sample_where_samples_have_times(table: Any) -> None:
    assert table("time,a\n,\n2026-01-01,5\n").values.tolist() == [[5]]
    np.testing.assert_array_equal(table("a,b\n,\n1,2\n").values, [[NAN, NAN], [1, 2]])


def test_the_line_with_the_channels_is_the_header() -> None:
    lines = ["plant,7", "load,site", "b,a,c", "1,2,3", "4,5,6"]
    head = find_head(lines, Reading(), ["a", "b"])
    assert head is not None
    assert head.names == ("b", "a", "c")
    assert sorted(head.skipped) == [0, 1, 2]


def test_keys_and_values_before_the_header_are_no_data(table: Any) -> None:
    text = "Plant;North\nExported;2026-11-16\nTime;Value\n2026-11-16 10:00;5\n2026-11-16 10:01;6\n"
    found = table(text)
    assert found.channels == ("Value",)
    assert found.values.tolist() == [[5], [6]]
    assert found.profile.written["preamble"] == "2 lines"


def test_a_loggers_file_is_read(table: Any) -> None:
    found = table(LOGGER, drop="No.")
    assert found.channels == ("CH1", "CH2")
    assert found.values.tolist() == [[21.5, -1.23], [21.6, -1.24]]
    assert found.times[1] == np.datetime64("2026-01-01T00:00:01", "ns")
    assert found.profile.written == {"preamble": "3 lines", "units": "line 6"}


def test_lines_may_end_with_a_delimiter(table: Any) -> None:
    assert table("a;b;\n1;2;\n3;4;\n").values.tolist() == [[1, 2], [3, 4]]
    assert table("a;b\n1;2;\n3;4;\n").values.tolist() == [[1, 2], [3, 4]]
    found = table("a;b\n1;2;\n3;4\n5;6\n")
    assert found.values.tolist() == [[3, 4], [5, 6]]
    assert found.profile.first_bad == "line 2: expected 2 cells, found 3"


def test_nothing_is_decided_before_a_line_of_data() -> None:
    assert find_head(["a;b"], Reading(), final=False) is None
    assert find_head(["Report", "a;b", "°C;bar"], Reading(), final=False) is None
    parser = LineParser()
    for line in ["Report of plant 7", "", "a;b", "°C;bar"]:
        assert len(parser.parse_many([line]).rows) == 0
        assert parser.channels is None
    samples = parser.parse_many(["1,5;2"])
    assert samples.values.tolist() == [[1.5, 2]]
    assert samples.rows.tolist() == [0]


def test_lines_of_text_before_the_data_are_bad_lines_with_their_numbers() -> None:
    parser = LineParser()
    parser.parse_many(["time,a,b"])
    parser.parse_many(["what is this"])
    samples = parser.parse_many(["2026-01-01,1,2"])
    assert [(row, error.message) for row, _, error in samples.errors] == [
        (-1, "expected 3 cells, found 1")
    ]
    assert parser.profile.first_bad == "line 2: expected 3 cells, found 1"


def test_a_file_of_text_alone_is_refused(table: Any) -> None:
    for text in ("hello\nworld\n", "a,b\nc,d\ne,f\n", '"\n"\n'):
        with pytest.raises(InputError):
            table(text)


def test_spaces_separate_only_where_they_are_given(table: Any) -> None:
    text = "date time a b\n2026-01-01 10:00:00 1  2\n2026-01-01 10:00:01 3  4\n"
    found = table(text, delimiter="space")
    assert found.values.tolist() == [[1, 2], [3, 4]]
    assert found.profile.time == ("date", "time")


@pytest.mark.parametrize(
    ("cells", "decimal"),
    [
        *(([cell], ",") for cell in ("12,5", "0,123", "1.234,56", "1.234.567", "1,2345", "45,2 %")),
        *(([cell], ".") for cell in ("12.5", "1,234.5", "1,234,567", "1.234")),
        (["1,234", "12,5"], ","),
        (["1,234", "12.5"], "."),
        (["12", "NA", "x"], None),
    ],
)
def test_the_decimal_point_is_found(cells: list[str], decimal: str | None) -> None:
    assert find_decimal(cells, None, None) == decimal
    assert find_decimal(cells, ".", ",") == "."


def test_a_decimal_point_that_stays_open_is_asked_for(table: Any) -> None:
    text = "a;b\n1,234;5\n2,345;6\n"
    error = raised(InputError, lambda: table(text))
    assert "expected a decimal point that can be told, found '1,234': 1.234 or 1234" in str(error)
    assert "--decimal , or --decimal . (decimal=)" in str(error)
    assert table(text, decimal=",").values.tolist() == [[1.234, 5], [2.345, 6]]
    assert table(text, decimal=".").values.tolist() == [[1234, 5], [2345, 6]]
    remembered = Reading(remembered=Remembered(decimal=","))
    assert table(text, reading=remembered).values.tolist() == [[1.234, 5], [2.345, 6]]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a;b\n1.234,5;7\n-0,5;1e3\n", [[1234.5, 7], [-0.5, 1000]]),
        ('"a","b"\n"12,5","3,4"\n"1.000,0","2"\n', [[12.5, 3.4], [1000, 2]]),
        ('a,b\n"1,234.5",2.5\n"12,345,678",3\n', [[1234.5, 2.5], [12345678, 3]]),
        ("a;b\n1\u202f234,5;7\n2,5;8\n", [[1234.5, 7], [2.5, 8]]),
        ("a\n1,5\n2,5\n", [[1.5], [2.5]]),
    ],
)
def test_numbers_are_read_as_people_write_them(table: Any, text: str, values: Any) -> None:
    assert table(text).values.tolist() == values


def test_a_number_of_the_other_kind_is_a_bad_cell_not_another_number() -> None:
    numbers = NumberReader(",")
    values, bad = numbers.read(["1,5", "1.5", "1.234", "1,2,3"])
    np.testing.assert_array_equal(values, [1.5, NAN, 1234, NAN])
    assert bad == [1, 3]
    assert "--decimal ." in numbers.hint("1.5", "a")


def test_a_pipe_decides_on_the_first_number_that_tells() -> None:
    parser = LineParser()
    parser.parse_many(["a;b"])
    assert parser.parse_many(["1;2"]).values.tolist() == [[1, 2]]
    assert parser.parse_many(["1,5;2"]).values.tolist() == [[1.5, 2]]
    assert parser.parse_many(["1.234;2"]).values.tolist() == [[1234, 2]]


@pytest.mark.parametrize("line", ["hello, world", "x1;y2;z3", '"', "a1," * 50])
def test_lines_that_tell_nothing_are_held_no_longer_than_a_thousand(line: str) -> None:
    for parse in (LineParser().parse_many, StreamLines("x").parse):
        with pytest.raises(InputError):  # noqa: PT012 - one line at a time, as in a pipe
            for _ in range(1_000):
                parse([line])
    parser = LineParser()
    for _ in range(2_000):
        parser.parse_many(["\n"])
    assert parser.facts() == {"opened_by": None, "settled_by": None}


def test_the_decimal_point_of_a_file_is_remembered_wherever_it_is(table: Any) -> None:
    whole = "".join(f"{n};{n}\n" for n in range(1_500))
    assert table("a;b\n" + whole).profile.decimal is None
    found = table("a;b\n" + whole + "1,5;2\n")
    assert found.profile.decimal == ","
    assert found.values[-1].tolist() == [1.5, 2]
