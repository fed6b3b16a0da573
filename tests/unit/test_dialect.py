"""Where the header is, what separates cells, the decimal point; columns by their header."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newnormal.errors import InputError, StateError
from newnormal.io.sources.lines import LineLayout, LineOptions
from newnormal.tabular import LineParser, LongLines, Reading, StreamLines, read
from newnormal.tabular.parsing.decimals import NumberReader, find_decimal
from newnormal.tabular.parsing.dialect import find_head
from newnormal.tabular.reading import Remembered
from tests.errors import raised
from tests.present import present

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


def test_a_header_in_the_middle_changes_the_order() -> None:
    lines = ["a,b", "1,2", "b,a", "3,4", "5,6", "a,b", "7,8"]
    for size in (1, 2, 3, 100):
        parser = LineParser()
        values = []
        for at in range(0, len(lines), size):
            values += parser.parse_many(lines[at : at + size]).values.tolist()
        assert values == [[1, 2], [4, 3], [6, 5], [7, 8]]
        assert parser.profile.notes == [
            "line 3: a header again, columns are read by it from here on"
        ]
        assert (parser.profile.lines, parser.profile.bad_lines) == (4, 0)


def test_files_put_together_are_read_as_one(tmp_path: Path) -> None:
    path = tmp_path / "all.csv"
    path.write_text("t,a,b\n2026-01-01,1,2\nt,a,b\n2026-01-02,3,4\na;b\n")
    table = read(path)
    assert table.values.tolist() == [[1, 2], [3, 4]]
    assert present(table.profile).notes == ["line 3: a header again, the same columns from here on"]


def test_a_header_of_another_width_has_the_channels_names() -> None:
    parser = LineParser(channels=("a", "b"))
    samples = parser.parse_many(["a,b", "1,2", "b,x,a", "3,9,4", "a,y,x,b", "5,2,2,6"])
    assert samples.values.tolist() == [[1, 2], [4, 3], [5, 6]]
    assert "column 'x' is no channel: ignored" in parser.profile.notes
    with pytest.raises(InputError, match="expected no column of times, as before this header"):
        parser.parse_many(["a,time,b", "5,2026-01-01,6"])


def test_many_headers_take_linear_time() -> None:
    lines = ["a,b"]
    for at in range(3000):
        lines += [("b,a", "a,b")[at % 2], f"{at},{at + 1}"]
    samples = LineParser().parse_many(lines)
    assert len(samples.rows) == 3000
    assert samples.values[:2].tolist() == [[1, 0], [1, 2]]


def test_streams_and_long_lines_have_headers_again() -> None:
    batch = StreamLines("host").parse(["host,x,y", "a,1,2", "y,host,x", "3,b,4"])
    assert batch.values.tolist() == [[1, 2], [4, 3]]
    assert [batch.names[code] for code in batch.codes] == ["a", "b"]
    batch = LongLines().parse(["time,tag,value", "1,x,5", "tag,value,time", "x,6,2", "x,7,3"])
    assert batch.values.tolist() == [[5], [6]]
    assert batch.problems == ()


def test_a_line_of_names_that_is_no_header_is_a_bad_line() -> None:
    samples = LineParser().parse_many(["t,a,b", "2026-01-01,1,2", "a,a,b", "x,y,z"])
    assert len(samples.rows) == 1
    assert [row for row, *_ in samples.errors] == [2, 3]


def test_lines_without_a_header_are_in_the_order_of_history() -> None:
    remembered = Remembered(header=("time", "b", "a", "label"), left_out=("label",))
    reading = Reading(remembered=remembered)
    parser = LineParser(reading, channels=("a", "b"))
    samples = parser.parse_many(["2026-01-01,1,2,0", "2026-01-02,3,4,0"])
    assert samples.values.tolist() == [[2, 1], [4, 3]]
    assert samples.times is not None
    assert parser.profile.notes == []
    by_count = LineParser(reading, channels=("a", "b")).parse_many(["2026-01-01,1,2"])
    assert by_count.values.tolist() == [[1, 2]]
    with pytest.raises(InputError) as caught:
        LineParser(reading, channels=("a", "b")).parse_many(["2026-01-01,1,2,3,4"])
    assert caught.value.message == "expected 2 channels, found 4"
    assert "'time', 'b', 'a', 'label'" in (caught.value.hint or "")


def test_columns_left_out_of_history_are_not_reported() -> None:
    reading = Reading(remembered=Remembered(left_out=("label",)))
    parser = LineParser(reading, channels=("a",))
    parser.parse_many(["a,label,new", "1,0,2"])
    assert parser.profile.notes == ["column 'new' is no channel: ignored"]
    quiet = LineParser(Reading.of(ignore_extra=True), channels=("a",))
    quiet.parse_many(["a,label,new", "1,0,2"])
    assert quiet.profile.notes == []


def layout(said: list[str] | None = None, **options: Any) -> LineLayout:
    report = None if said is None else said.append
    return LineLayout(LineOptions(("a", "b"), Reading.of(options), report=report), "plant.csv")


FIRST = ["Plant 7", "time;b;a;note", "01.02.2026;1,5;2;x"]


@pytest.mark.parametrize(
    ("rest", "values"),
    [
        (["03.02.2026;3;4;x"], [[4, 3]]),
        (["time;b;a;note", "03.02.2026;3;4;x"], [[4, 3]]),
        (["a;b;time", "3;4;03.02.2026"], [[3, 4]]),
        (["a;b;time;more", "3;4;03.02.2026;5"], [[3, 4]]),
    ],
)
def test_a_resumed_pipe_has_its_own_header_or_the_one_before(rest: list[str], values: Any) -> None:
    one = layout()
    assert one.parse(FIRST, 1).values.tolist() == [[2, 1.5]]
    facts = json.loads(json.dumps(one.facts()))
    other = layout()
    other.restore(facts)
    samples = other.parse(rest, 1)
    assert samples.values.tolist() == values
    assert present(samples.times)[0] == np.datetime64("2026-02-03", "ns")
    assert samples.problems == ()


def test_lines_that_are_held_are_in_the_facts() -> None:
    one = layout()
    one.parse(FIRST[:2], 1)
    other = layout()
    other.restore(json.loads(json.dumps(one.facts())))
    assert other.parse(FIRST[2:], 3).values.tolist() == [[2, 1.5]]


def test_facts_of_older_versions_are_restored() -> None:
    for facts in (
        {"opened_by": "time,b,a", "settled_by": "2026-01-01,1,2"},
        {"opened_by": "time,b,a", "settled_by": None},
    ):
        again = layout()
        again.restore(facts)
        samples = again.parse(["2026-01-02,3,4"], 7)
        assert samples.values.tolist() == [[4, 3]]
        assert samples.times is not None
    again = layout()
    again.restore({"opened_by": "1,2", "settled_by": "1,2"})
    assert again.parse(["3,4"], 2).values.tolist() == [[3, 4]]
    for wrong in (None, {}, {"opened_by": 5, "settled_by": None}, {"opened_by": "a,b"}):
        with pytest.raises(StateError, match="position: expected layout with the lines"):
            layout().restore(wrong)


def test_an_input_without_channels_is_refused_by_name() -> None:
    expected = r"^plant\.csv: missing channels 'a', 'b': found only"
    with pytest.raises(InputError, match=expected):
        layout().parse(["x,y", "1,2"], 1)


def test_reports_come_once() -> None:
    said: list[str] = []
    one = layout(said)
    for at in range(3):
        one.parse(["a,x", f"{at},2"], 1)
    assert said == [
        "channel 'b' is not in the input: its values are missing",
        "column 'x' is no channel: ignored",
        "line 1: a header again, the same columns from here on",
    ]
