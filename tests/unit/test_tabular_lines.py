"""Lines of CSV and JSON as samples, one at a time; cells and lines that cannot be read."""

from typing import Any

import numpy as np
import pytest

from newnormal.errors import InputError, ParameterError
from newnormal.tabular import LineParser, Reading, Sample, StreamLines
from newnormal.tabular.parsing.decimals import NumberReader
from newnormal.tabular.reading import BadCells
from tests.errors import raised
from tests.present import present

NAN = float("nan")


def values(sample: Sample | None) -> list[float]:
    assert sample is not None
    assert sample.values.dtype == np.float64
    return sample.values.tolist()  # type: ignore[no-any-return]


CELLS = [("1", 1), (" 7 ", 7), ('"7"', 7), ('" 7"', 7), ("NA", NAN), ('""', NAN), ("True", 1)]
BAD_CELLS = ["x", "1_000", "\x00"]


@pytest.mark.parametrize(("cell", "value"), CELLS)
@pytest.mark.parametrize("text", ["", "web_1", "Köln"])
def test_a_cell_means_the_same_whatever_is_beside_it(cell: str, value: float, text: str) -> None:
    parser = LineParser.open("a,b,c,host", drop="host")
    np.testing.assert_equal(values(parser.parse(f"0.5,{cell},2,{text}\n")), [0.5, value, 2])
    np.testing.assert_equal(values(parser.parse(f"{cell},NA,1,{text}\n")), [value, NAN, 1])


@pytest.mark.parametrize("cell", BAD_CELLS)
@pytest.mark.parametrize("other", ["1", ""])
def test_a_cell_that_is_no_number_is_named(cell: str, other: str) -> None:
    parser = LineParser.open("a,b", strict=True)
    assert str(raised(InputError, lambda: parser.parse(f'{other},"{cell}"'))) == (
        f"column 'b': expected a number, found {cell!r}\nhint: a missing value is an empty cell, "
        "NaN, NA or null; other words are named with --na WORD (na=); leave a column out with "
        "--drop 'b' (drop=)"
    )


def test_a_decimal_comma_is_read_unless_it_is_the_delimiter() -> None:
    assert values(LineParser.open("a;b").parse("1,5;2")) == [1.5, 2]
    with pytest.raises(InputError) as caught:
        LineParser.open("a;b", decimal=".", strict=True).parse("1,5;2")
    assert str(caught.value) == (
        "column 'a': expected a number, found '1,5'\n"
        "hint: name the decimal point with --decimal , or --decimal . (decimal=)"
    )


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("1", "expected 2 cells, found 1"),
        ("1,2,3", "expected 2 cells, found 3"),
        ("1,2,", "expected 2 cells, found 3"),
        ('1,"2', """expected cells with matched quotes, found '1,"2'"""),
    ],
)
def test_a_line_of_another_width_is_refused_and_the_next_is_read(line: str, text: str) -> None:
    parser = LineParser.open("a,b")
    for _ in range(2):
        assert raised(InputError, lambda: parser.parse(line)).message.startswith(text)
    assert values(parser.parse("1,2")) == [1, 2]


def test_blank_lines_are_no_samples() -> None:
    parser = LineParser.open("a,b\n")
    for line in ["", "\n", "  \r\n", "\t"]:
        assert parser.parse(line) is None
    assert values(parser.parse("1,2\r\n")) == [1, 2]
    with pytest.raises(InputError, match="expected a header or a sample, found a blank line"):
        LineParser.open(" \n")


@pytest.mark.parametrize(
    ("header", "line"),
    [
        ("a,b", "1,2"),
        ("a;b", "1;2"),
        ("a\tb", "1\t2"),
        ('"a";"b"', '"1";"2"'),
        (" a , b ", " 1 , 2 "),
        ("\ufeffa,b", "1,2"),
        ('\ufeff"a","b"', '1,"2"'),
        ('a, "b"', '1, "2"'),
    ],
)
def test_the_separator_is_told_from_the_header(header: str, line: str) -> None:
    parser = LineParser.open(header)
    assert parser.header_consumed
    assert values(parser.parse(line)) == [1, 2]
    assert parser.channels == ("a", "b")


def test_names_may_hold_the_separator_and_quotes_but_no_two_are_equal() -> None:
    parser = LineParser.open('"a,b","say ""c""",d')
    assert values(parser.parse("1,2,3")) == [1, 2, 3]
    assert parser.channels == ("a,b", 'say "c"', "d")
    with pytest.raises(InputError, match="expected columns of different names, found 'a' more"):
        LineParser.open("a,b,a")


@pytest.mark.parametrize(
    ("line", "channels", "time"),
    [
        ("1,2.5", ("0", "1"), None),
        ("1,,NaN", ("0", "1", "2"), None),
        ("7", ("0",), None),
        ("0", ("0",), None),
        ("1,0", ("0", "1"), None),
        ("2026-01-01T00:00:00,1,2", ("1", "2"), "0"),
        ("1;2026-01-01;2", ("0", "2"), "1"),
        ("\ufeff1,2", ("0", "1"), None),
    ],
)
def test_numbers_alone_are_a_sample(line: str, channels: tuple[str, ...], time: str | None) -> None:
    parser = LineParser.open(line)
    assert not parser.header_consumed
    assert parser.channels == channels
    assert parser.time == time
    assert len(values(parser.parse(line))) == len(channels)


@pytest.mark.parametrize(
    "line", ["a,1", "0,1,2", ",0,1", ",0", "NaN,null", "2026-01-01", "a", "1x"]
)
def test_any_other_first_line_is_a_header(line: str) -> None:
    assert LineParser.open(line).header_consumed


def test_numbers_that_are_the_expected_names_are_a_header() -> None:
    assert not LineParser.open("2021,2022", channels=("a", "b")).header_consumed
    parser = LineParser.open("2022,2021", channels=("2021", "2022"))
    assert parser.header_consumed
    assert values(parser.parse("2,1")) == [1, 2]
    # A channel called by its number is no reason to take a sample for a header.
    assert not LineParser.open("0", channels=("0",)).header_consumed
    assert not LineParser.open("2026-01-01,1,2", channels=("1", "2")).header_consumed


def test_lines_without_a_header_match_by_count() -> None:
    parser = LineParser.open("2026-01-01,1,2", channels=("load", "temp"))
    assert parser.channels == ("load", "temp")
    assert values(parser.parse("2026-01-01,1,2")) == [1, 2]
    with pytest.raises(InputError, match=r"^expected 2 channels, found 3$"):
        LineParser.open("1,2,3", channels=("load", "temp"))
    np.testing.assert_equal(values(parser.parse("2026-01-01,1,x")), [1, NAN])
    assert parser.profile.bad_cells["2"].example == "x"


def test_a_column_without_a_name_may_be_the_time_but_no_channel() -> None:
    parser = LineParser.open(",a")
    sample = present(parser.parse("2026-01-01 00:00:00+02:00,5"))
    assert sample.time == np.datetime64("2025-12-31T22:00", "ns")
    assert parser.time == "column 1"
    assert str(raised(InputError, lambda: LineParser.open(",a").parse("0,5"))) == (
        "column 1 has no name in the header and holds no times\n"
        "hint: a row number is no channel: leave it out with --drop 'column 1'"
    )
    assert values(LineParser.open(",a", drop="column 1").parse("0,5")) == [5]
    assert values(LineParser.open(",a", columns="column 1").parse("0,5")) == [0]


def test_the_time_is_found_when_the_first_sample_comes() -> None:
    parser = LineParser.open("a,when,b")
    assert (parser.channels, parser.time) == (None, None)
    with pytest.raises(InputError, match="expected 3 cells, found 2"):
        parser.parse("too,short")
    assert parser.parse("\n") is None
    assert not parser.has_plan
    sample = parser.parse("1,2026-01-01T00:00:00Z,2")
    assert (parser.channels, parser.time) == (("a", "b"), "when")
    assert sample is not None
    assert sample.time == np.datetime64("2026-01-01", "ns")
    assert sample.time.dtype == np.dtype("datetime64[ns]")


def test_a_bad_time_is_a_bad_line() -> None:
    parser = LineParser.open("when,a")
    parser.parse("2026-01-01,1")
    for cell in ["yesterday", "", "2026-02-30"]:
        with pytest.raises(InputError, match=f"^column 'when': expected a time, found '{cell}'"):
            parser.parse(f"{cell},1")


def test_unix_times_count_only_when_named() -> None:
    assert values(LineParser.open("when,a").parse("1767225600,1")) == [1767225600, 1]
    sample = present(LineParser.open("when,a", time="when").parse("1767225600123456789,1"))
    assert values(sample) == [1]
    assert sample.time == np.datetime64("2026-01-01T00:00:00.123456789", "ns")


def test_two_columns_of_times_need_a_choice() -> None:
    line = "2026-01-01,2026-01-02,1"
    assert str(raised(InputError, lambda: LineParser.open("start,end,a").parse(line))) == (
        "expected one column of times, found 'start', 'end'\nhint: choose one with --time NAME "
        "(from Python time=, or times= for a frame), or leave the others out with --drop NAME "
        "(drop=)"
    )
    for parser in (
        LineParser.open("start,end,a", time="end"),
        LineParser.open("start,end,a", drop="start"),
        LineParser.open("start,end,a", time="end", drop="start"),
        LineParser.open("start,end,a", time="end", channels=("a",)),
    ):
        sample = present(parser.parse(line))
        assert sample.time == np.datetime64("2026-01-02", "ns")
        assert values(sample) == [1]


def test_expected_channels_come_in_their_own_order_and_are_known_from_the_header() -> None:
    parser = LineParser.open("b,when,a", channels=("a", "b"))
    assert values(parser.parse("2,2026-01-01,1")) == [1, 2]
    assert LineParser.open("b,a", channels=("a", "b")).channels == ("a", "b")
    assert LineParser.open("b,a,c", drop=("c",), channels=("a", "b")).channels == ("a", "b")
    parser = LineParser.open("when,a,b,host", columns=("b", "a"))
    assert present(parser.parse("2026-01-01,1,2,web-1")).time is not None
    assert parser.channels == ("a", "b")


def test_an_absent_channel_is_missing_and_reported_once_and_all_absent_are_refused() -> None:
    said: list[str] = []
    parser = LineParser.open("when,tmep,load", channels=("temp", "load"), report=said.append)
    np.testing.assert_equal(values(parser.parse("2026-01-01,1,2")), [NAN, 2])
    np.testing.assert_equal(values(parser.parse("2026-01-02,1,3")), [NAN, 3])
    assert said == [
        "channel 'temp' is not in the input: its values are missing; 'temp' may be 'tmep'",
        "column 'tmep' is no channel: ignored",
    ]
    error = raised(InputError, lambda: LineParser.open("when,tmep,laod", channels=("temp", "load")))
    assert str(error) == (
        "missing channels 'temp', 'load': found only 'when', 'tmep', 'laod'\n"
        "hint: 'temp' may be 'tmep'; 'load' may be 'laod'"
    )


def test_unknown_columns_are_one_message() -> None:
    said: list[str] = []
    parser = LineParser.open("host,a,b", channels=("a",), report=said.append)
    assert values(parser.parse("web-1,1,2")) == [1]
    assert values(parser.parse("web-1,2,2")) == [2]
    assert said == ["columns 'host', 'b' are no channels: ignored"]
    assert values(LineParser.open("host,a", channels=("a",), drop="host").parse("web-1,1")) == [1]
    assert values(LineParser.open("host,a", channels=("a",), columns="a").parse("web-1,1")) == [1]


@pytest.mark.parametrize("option", ["time", "columns", "drop", "label"])
@pytest.mark.parametrize("line", ["load,temp", '{"load": 1, "temp": 2}'])
def test_an_option_that_names_no_column_says_which_are_alike(option: str, line: str) -> None:
    options: dict[str, Any] = {option: "laod"}
    assert str(raised(InputError, lambda: LineParser.open(line, **options))) == (
        f"{option} names column 'laod', found only 'load', 'temp'\nhint: 'laod' may be 'load'"
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"time": "a", "drop": ["a"]}, r"column 'a' is both chosen \(time\) and left out \(drop\)"),
        ({"label": "a", "drop": "a"}, r"column 'a' is both chosen \(label\) and left out"),
        ({"columns": ["a"], "drop": ["a"]}, r"column 'a' is both chosen \(columns\) and left out"),
        ({"time": "a", "label": "a"}, "column 'a' cannot be both the time and the label"),
        ({"format": "parquet"}, "expected lines of format csv or jsonl, found 'parquet'"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: Any, text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        LineParser.open("a,b", **options)


@pytest.mark.parametrize(
    ("cell", "label"), [("0", 0), ("1", 1), ("1.0", 1), ("true", 1), ("False", 0)]
)
def test_a_label_is_zero_or_one(cell: str, label: int) -> None:
    sample = present(LineParser.open("a,y", label="y").parse(f"5,{cell}"))
    assert sample.label == label
    assert values(sample) == [5]


@pytest.mark.parametrize("cell", ["2", "-1", "", "NaN", "yes", "0.5"])
def test_any_other_label_is_refused(cell: str) -> None:
    with pytest.raises(InputError, match=f"^column 'y': expected a label 0 or 1, found '{cell}'"):
        LineParser.open("a,y", label="y").parse(f"5,{cell}")


def test_a_line_or_an_object_without_a_channel_is_refused() -> None:
    with pytest.raises(InputError, match="expected at least one channel, found none among the col"):
        LineParser.open("when").parse("2026-01-01")
    with pytest.raises(InputError, match=r"expected an object with channels, found \{\}"):
        LineParser.open("{}")


def test_json_keys_of_the_first_lines_in_any_order_are_all_channels(table: Any) -> None:
    parser = LineParser.open('{"when": "2026-01-01T00:00:00Z", "a": 1, "b": null}')
    assert not parser.header_consumed
    assert (parser.channels, parser.time) == (("a", "b"), "when")
    sample = present(parser.parse('{"b": 2.5, "when": "2026-01-01T00:00:01Z", "a": true}\n'))
    assert values(sample) == [1, 2.5]
    assert sample.time == np.datetime64("2026-01-01T00:00:01", "ns")
    found = table('{"a": 1}\n{"b": 2}\n{"a": 3, "b": 4}\n', "plant.jsonl")
    np.testing.assert_array_equal(found.values, [[1, NAN], [NAN, 2], [3, 4]])
    assert found.channels == ("a", "b")


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ('{"a": 1', """expected a JSON object, found '{"a": 1'"""),
        ("a,b", "expected a JSON object, found 'a,b'"),
        ("[1, 2]", "expected a JSON object, found [1, 2]"),
        ("5", "expected a JSON object, found 5"),
        ("[" * 100_000, "expected a JSON object, found '[[["),
        ('{"a": ' + "1" * 5000 + "}", """expected a JSON object, found '{"a": 111"""),
        ("{}", "expected an object with channels, found {}"),
    ],
    ids=range(7),
)
def test_a_json_line_that_does_not_fit_is_refused_and_the_next_read(line: str, text: str) -> None:
    parser = LineParser.open('{"a": 1, "b": 2}')
    error = raised(InputError, lambda: parser.parse(line))
    assert error.message.startswith(text)
    assert len(error.message) < 250
    assert values(parser.parse('{"b": 2, "a": 1}')) == [1, 2]


def test_json_keys_that_are_left_out_may_come_and_go_and_new_ones_are_reported_once() -> None:
    parser = LineParser.open('{"a": 1, "note": "x"}', drop="note")
    assert values(parser.parse('{"a": 2}')) == [2]
    for _ in range(2):
        assert values(parser.parse('{"a": 2, "b": 1}')) == [2]
    assert parser.profile.notes == ["column 'b' is no channel: ignored"]
    np.testing.assert_equal(values(parser.parse('{"note": "y"}')), [NAN])
    parser = LineParser.open('{"a": 1, "note": "x"}', columns="a")
    assert values(parser.parse('{"a": 2, "other": "y"}')) == [2]
    parser = LineParser(Reading.of(format="jsonl"), channels=("a", "b"))
    lines = ['{"a": 1, "b": 2}', '{"a": 3}', '{"a": 4, "b": 5, "c": 6}', '{"b": 7, "c": 8}']
    samples = parser.parse_many(lines[:1])
    samples = parser.parse_many(lines[1:])
    np.testing.assert_array_equal(samples.values, [[3, NAN], [4, 5], [NAN, 7]])
    assert parser.profile.notes == ["column 'c' is no channel: ignored"]
    assert samples.errors == ()


def test_expected_channels_of_json_are_those_of_the_first_line() -> None:
    channels = ("a", "b")
    parser = LineParser.open('{"a": 1}', channels=channels)
    np.testing.assert_equal(values(parser.parse('{"a": 1}')), [1, NAN])
    assert values(parser.parse('{"a": 1, "b": 2}')) == [1, 2]
    assert parser.profile.notes == ["channel 'b' is not in the input: its values are missing"]
    parser = LineParser.open('{"a": 1, "b": 2, "c": 3}', channels=channels)
    assert parser.profile.notes == ["column 'c' is no channel: ignored"]
    parser = LineParser.open('{"b": 2, "when": "2026-01-01", "a": 1}', channels=channels)
    assert values(parser.parse('{"b": 2, "when": "2026-01-01", "a": 1}')) == [1, 2]


def test_the_format_is_told_by_a_brace_unless_it_is_given() -> None:
    assert LineParser.open(' {"a": 1}').channels == ("a",)
    assert LineParser.open('\ufeff{"a": 1}').channels == ("a",)
    assert LineParser.open('{"a": 1}', format="csv").header_consumed
    with pytest.raises(InputError, match="expected a JSON object, found 'a,b'"):
        LineParser.open("a,b", format="jsonl")


def test_many_lines_are_the_samples_of_each_and_what_is_wrong_and_none_are_no_samples() -> None:
    lines = [
        "bad",
        "2026-01-01,1,2,0",
        "",
        "2026-01-02,x,2,0",
        "2026-01-03,,4,1\n",
        "later,5,6,0",
        "2026-01-01,7,8,1",
        "2026-01-05,7,8",
    ]
    parser = LineParser.open("when,a,b,y", label="y")
    many = parser.parse_many(lines)
    np.testing.assert_array_equal(many.values, [[1, 2], [NAN, 2], [NAN, 4], [7, 8]])
    assert many.times is not None
    assert many.times.astype("M8[D]").astype(str).tolist() == [
        "2026-01-01", "2026-01-02", "2026-01-03", "2026-01-01"
    ]  # fmt: skip
    assert present(many.labels).tolist() == [0, 0, 1, 1]
    assert many.rows.tolist() == [1, 3, 4, 6]
    assert [(row, error.message) for row, _, error in many.errors] == [
        (0, "expected 4 cells, found 1"),
        (5, "column 'when': expected a time, found 'later'"),
        (7, "expected 4 cells, found 3"),
    ]
    for row, at in enumerate(many.rows.tolist()):
        sample = present(parser.parse(lines[at]))
        np.testing.assert_array_equal(many.values[row], sample.values)
        assert many.times[row] == sample.time
    many = LineParser.open("a,b", channels=("a", "b")).parse_many([])
    assert many.values.shape == (0, 2)
    assert many.times is None
    assert many.labels is None
    assert many.rows.shape == (0,)
    assert many.errors == ()
    assert LineParser.open("a,b").parse_many(["1"]).errors[0][0] == 0


HEAD = ["time,load,heat", *(f"2026-01-01T00:00:{at:02}Z,{at}.5,2" for at in range(20))]
LINES = [
    "2026-01-01T00:01:00Z,1.5,2",
    "2026-01-01T00:01:01.25Z,1e3,-2.",
    "2026-01-01 00:01:02,+1,2",
    "2026-01-01T00:01:03+02:00,1,2",
    "2026-01-01T00:01,1,2",
    "2026-01-01,1,2",
    "2026-02-30T00:00:00Z,1,2",
    "2026-01-01T24:00:00Z,1,2",
    "2026-01-01T00:01:60Z,1,2",
    "1677-01-01T00:01:00Z,1,2",
    "1967-01-01T00:01:00.000001Z,1,2",
    "2026-01-01T00:01:04.1234567Z,1,2",
    "2026-01-01T00:01:05Z, 1 ,2\r\n",
    "2026-01-01T00:01:06Z,1_000,2",
    "2026-01-01T00:01:07Z,inf,2",
    "2026-01-01T00:01:08Z,nan,NA",
    "2026-01-01T00:01:09Z,,2",
    "2026-01-01T00:01:10Z,high,2",
    '2026-01-01T00:01:11Z,"1",2',
    "2026-01-01T00:01:12Z,1",
    "2026-01-01T00:01:13Z,1,2,3",
    "",
    "  ",
    "2026-01-01T00:01:14Z,1e999,2",
    "2026-01-01T00:01:15Z,\u0661,2",
    "2026-01-01T00:01:16Z,-999,2",
    "1767225677,1,2",
    "time,heat,load",
    "2026-01-01T00:01:18Z,1,2",
    "time,heat",
    "2026-01-01T00:01:19Z,7.25",
]


def _read(lines: list[str], size: int, **options: Any) -> tuple[Any, ...]:
    notes: list[str] = []
    parser = LineParser(Reading.of(options), channels=("load", "heat"), report=notes.append)
    values: list[list[float]] = []
    times: list[Any] = []
    errors: list[tuple[int, str]] = []
    places: list[int] = []
    zones: list[str | None] = []
    parser.parse_many(HEAD)
    for start in range(0, len(lines), size):
        found = parser.parse_many(lines[start : start + size])
        values += found.values.tolist()
        if len(found.values):
            times += [None] if found.times is None else found.times.astype(str).tolist()
        places += (start + found.rows).tolist()
        errors += [(start + row, error.message) for row, _, error in found.errors]
        zones.append(parser.zone)
    counts = parser.profile.lines, parser.profile.bad_lines, parser.profile.first_bad
    return str(values), times, places, errors, sorted(notes), counts, zones[-1]


@pytest.mark.parametrize(
    "options", [{}, {"na": "-999"}, {"tz": "Europe/Berlin"}, {"decimal": "."}, {"time": "time"}]
)
def test_one_line_at_a_time_gives_what_all_at_once_give(options: dict[str, Any]) -> None:
    assert _read(LINES, 1, **options) == _read(LINES, len(LINES), **options)


def test_a_plain_line_takes_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    parser = LineParser(channels=("load", "heat"))
    parser.parse_many(HEAD)

    def refuse(*arguments: Any) -> None:
        raise AssertionError(arguments)

    monkeypatch.setattr(parser, "_parsed", refuse)
    assert parser.parse_many(["2026-01-01T00:01:00Z,1.5,2"]).values.tolist() == [[1.5, 2.0]]
    assert parser.profile.lines == 21


def test_a_number_can_be_a_word_for_missing() -> None:
    numbers = NumberReader(".", ["-999", "Bad"])
    for cells in (["1", "-999", "-999.0"], ["1", "-999", "Bad"], [1, -999, -999.0]):
        values, bad = numbers.read(cells)
        np.testing.assert_array_equal(values, [1.0, np.nan, np.nan])
        assert bad == []
    assert numbers.is_missing("-999.0")
    assert numbers.is_missing(-999)
    assert not numbers.is_missing("999")


def test_a_bad_cell_is_one_missing_value_counted_and_reported_once_a_column(table: Any) -> None:
    found = table("t,a,b\n2026-01-01,1,2\n2026-01-02,x,4\n2026-01-03,5,\xbd\n2026-01-04,y,8\n")
    np.testing.assert_array_equal(found.values, [[1, 2], [NAN, 4], [5, NAN], [NAN, 8]])
    assert found.profile.bad_cells == {"a": BadCells(2, 3, "x"), "b": BadCells(1, 4, "\xbd")}
    assert (found.profile.lines, found.profile.bad_lines) == (4, 0)
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


def test_bad_lines_are_passed_over_and_counted_unless_most_are_bad(table: Any) -> None:
    found = table("t,a\n2026-01-01,1\nsoon,2\n2026-01-03,3\n2026-01-04\n2026-01-05,5\n")
    assert found.values.ravel().tolist() == [1, 3, 5]
    assert (found.profile.lines, found.profile.bad_lines) == (5, 2)
    assert found.profile.first_bad == "line 3: column 't': expected a time, found 'soon'"
    with pytest.raises(InputError, match=r"line 3: expected 2 cells, found 1 \(2 of 3 lines\)"):
        table("a,b\n1,2\nx\ny\n")
    with pytest.raises(InputError, match=r"line 2: expected 2 cells, found 3 \(2 of 2 lines\)"):
        table("a,b\n1,2,3\n4,5,6\n")
    with pytest.raises(InputError, match="line 1: expected a JSON object"):
        table("what is\nthis\n", "plant.jsonl", format="jsonl")


def test_columns_of_text_are_one_error_known_at_the_end_of_a_few_lines(table: Any) -> None:
    rows = "".join(f"2026-01-{day:02},web-{day % 3},{day},ok\n" for day in range(1, 20))
    with pytest.raises(InputError) as caught:
        table("t,host,load,state\n" + rows)
    message = str(caught.value)
    assert "columns 'host', 'state': expected numbers, found 'web-1', 'ok'" in message
    assert "--drop host,state (drop=)" in message
    assert "--by host (by=)" in message
    assert table("t,host,load,state\n" + rows, drop=["host", "state"]).channels == ("load",)
    with pytest.raises(InputError, match="column 'b': expected numbers, found 'x'"):
        table("a,b\n1,x\n2,y\n")
    assert table("a,b\n1,x\n2,3\n").values.shape == (2, 2)
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


def test_a_bad_cell_if_strict_a_wrong_label_and_a_refused_line_are_bad_lines(table: Any) -> None:
    samples = LineParser(strict=True).parse_many(["a,b", "1,2", "3,x", "5,6"])
    assert samples.values.tolist() == [[1, 2], [5, 6]]
    assert [(row, error.message) for row, _, error in samples.errors] == [
        (2, "column 'b': expected a number, found 'x'")
    ]
    batch = StreamLines("host", strict=True).parse(["host,x", "a,1", "a,y"])
    assert [each.error.message for each in batch.problems] == [
        "column 'x': expected a number, found 'y'"
    ]
    found = table("a,y\n1,0\n2,1\n3,maybe\n4,1\n", label="y")
    assert found.labels.tolist() == [0, 1, 1]
    assert found.profile.first_bad == "line 4: column 'y': expected a label 0 or 1, found 'maybe'"

    class Refused(str):
        error = InputError("expected at most 1,000,000 bytes in a line")

    samples = LineParser().parse_many(["a,b", "1,2", Refused(), "3,4"])
    assert samples.values.tolist() == [[1, 2], [3, 4]]
    assert [(row, error.message) for row, _, error in samples.errors] == [
        (2, Refused.error.message)
    ]
