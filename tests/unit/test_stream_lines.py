"""Lines of many streams as samples: wide ones and long ones."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from newnormal.errors import InputError, ParameterError
from newnormal.tabular import LineParser, Long, LongLines, StreamBatch, StreamLines

NAN = float("nan")


def seconds(*numbers: int) -> Any:
    return np.array(numbers, dtype="datetime64[s]").astype("datetime64[ns]")


def streams(batch: StreamBatch) -> list[str]:
    return [batch.names[code] for code in batch.codes]


def equal(batch: StreamBatch, names: str | list[str], channels: str, values: Any) -> None:
    assert streams(batch) == list(names)
    assert batch.channels == tuple(channels)
    np.testing.assert_array_equal(batch.values, np.reshape(values, (len(names), len(channels))))
    assert batch.values.dtype == np.float64
    assert len(batch) == len(batch.numbers) == len(names)


def problems(batch: StreamBatch) -> list[tuple[int, int, str]]:
    return [(each.number, each.before, each.error.message) for each in batch.problems]


# ------------------------------------------------------------------ wide lines


def test_csv_lines_of_many_streams() -> None:
    lines = StreamLines("host")
    batch = lines.parse(["time,host,x,y\n", "1970-01-01T00:00:01,a,1,\r\n", "\n"])
    equal(batch, "a", "xy", [[1, NAN]])
    batch = lines.parse(["1970-01-01T00:00:01Z, b ,,2.5", "1970-01-01T00:00:02,a,NA,true"])
    equal(batch, "ba", "xy", [[NAN, 2.5], [NAN, 1]])
    np.testing.assert_array_equal(batch.times, seconds(1, 2))
    assert batch.numbers.tolist() == [4, 5]
    assert batch.problems == ()
    assert lines.names == batch.names == ("a", "b")
    assert lines.parse([], first=10).numbers.tolist() == []
    assert lines.parse(["1970-01-01,a,1,1"], first=20).numbers.tolist() == [20]


def test_json_lines_of_many_streams_may_differ_in_their_keys() -> None:
    lines = StreamLines("host")
    equal(lines.parse(['{"host": "a", "x": 1}']), "a", "x", [[1]])
    batch = lines.parse(
        ['{"host": "a", "x": 2}', '{"y": 3, "host": 7}', '{"host": "a", "z": true, "x": "4"}']
    )
    equal(batch, ["a", "7", "a"], "xyz", [[2, NAN, NAN], [NAN, 3, NAN], [4, NAN, 1]])
    assert batch.times is None
    equal(lines.parse(['{"host": "a", "w": 0}']), "a", "xyzw", [[NAN, NAN, NAN, 0]])


def test_named_columns_are_the_only_ones() -> None:
    lines = StreamLines("host", columns=["y", "x"], drop="note", time="at")
    batch = lines.parse(
        [
            '{"at": 1, "host": "a", "x": 1, "note": "n"}',
            '{"at": 2, "host": "b", "y": 2, "more": "m"}',
        ]
    )
    equal(batch, "ab", "xy", [[1, NAN], [NAN, 2]])
    np.testing.assert_array_equal(batch.times, seconds(1, 2))
    csv = StreamLines("host", columns="x", format="csv").parse(["host;x;note", "a;1;n"])
    equal(csv, "a", "x", [[1]])


def test_several_columns_of_names_are_joined() -> None:
    lines = StreamLines(["site", "host"])
    batch = lines.parse(["site,host,x", "s,a,1", "t,a,2", "s/a,b,3", "s,a/b,4", "s,,5", ",,6"])
    assert streams(batch) == ["s/a", "t/a", "s/a/b", "s"]
    assert problems(batch) == [
        (
            5,
            3,
            "columns 'site', 'host': expected names that differ when joined, found 's', 'a/b' "
            "beside 's/a', 'b', both 's/a/b'",
        ),
        (7, 4, "columns 'site', 'host': expected the name of a stream, found none"),
    ]


def test_bad_lines_and_bad_json_lines_are_problems() -> None:
    lines = StreamLines("host")
    batch = lines.parse(
        [
            "time,host,x",
            "2026-01-01,a,1",
            "2026-01-01,b,high",
            "2026-01-01,,1",
            "never,a,1",
            "2026-01-01,a",
            "2026-01-01,a,1_0",
            "2026-01-02,a,2",
        ]
    )
    equal(batch, "abaa", "x", [[1], [NAN], [NAN], [2]])
    assert batch.numbers.tolist() == [2, 3, 7, 8]
    assert problems(batch) == [
        (4, 2, "column 'host': expected the name of a stream, found none"),
        (5, 2, "column 'time': expected a time, found 'never'"),
        (6, 2, "expected 3 cells, found 2"),
    ]
    assert batch.names == ("a", "b")
    assert lines.profile.bad_cells["x"].count == 2
    batch = StreamLines("host").parse(
        ["{broken", '{"host": "a", "x": 1}', "[1]", '{"host": ["a"], "x": 1}', '{"x": 1}']
    )
    equal(batch, "a", "x", [[1]])
    nameless = "column 'host': expected the name of a stream, found none"
    found = problems(batch)
    assert found[0][2].startswith("expected a JSON object, found '{broken'")
    assert found[0][:2] == (1, 0)
    assert found[1:] == [
        (3, 1, "expected a JSON object, found [1]"),
        (4, 1, nameless),
        (5, 1, nameless),
    ]


def test_an_input_whose_every_line_is_wrong_is_refused() -> None:
    with pytest.raises(InputError, match=r"'host', found only 'time', 'x'\nhint: .* with --by"):
        StreamLines("host").parse(["time,x", "2026-01-01,1"])
    with pytest.raises(InputError, match="expected one column of times, found 'u', 't'"):
        StreamLines("host").parse(["host,u,t,x", "a,2026-01-01,2026-01-01,1"])
    lines = StreamLines("host")
    assert len(lines.parse(['{"x": 1}'] * 9).problems) == 9
    with pytest.raises(InputError, match="by names column 'host', found only 'x'"):
        lines.check()
    with pytest.raises(InputError, match="by names column 'host', found only 'x'"):
        lines.parse(['{"x": 1}'])
    lines = StreamLines("host")
    lines.parse(['{"x": 1}', '{"host": "a", "x": 1}'])
    lines.check()


def test_options_that_cannot_work_and_columns_that_are_not_found_are_named() -> None:
    with pytest.raises(ParameterError, match="expected by to name at least one column"):
        StreamLines([])
    with pytest.raises(ParameterError, match=r"column .host. is both chosen .by. and left out"):
        StreamLines("host", drop="host")
    with pytest.raises(ParameterError, match="column 'host' cannot be both by and time"):
        StreamLines("host", time="host")
    with pytest.raises(ParameterError, match="expected lines of format csv or jsonl, found 'excel"):
        StreamLines("host", format="excel")
    with pytest.raises(InputError, match="expected a column of the tag, called tag or metric"):
        LongLines("host").parse(["time,host,value", "1,a,5"])
    with pytest.raises(InputError, match="by names column 'site', found only 'time', 'host'"):
        LongLines("site").parse(["time,host,tag,value", "1,a,x,5"])


def test_the_columns_are_found_again_from_the_facts() -> None:
    lines = StreamLines("host")
    assert lines.facts() == {"opened_by": None, "settled_by": None}
    assert StreamLines("host").zone is None
    lines.parse(["", "t,host,x"])
    held = {"opened_by": None, "settled_by": None, "held": ["", "t,host,x"]}
    assert lines.facts() == held
    again = StreamLines("host")
    again.restore(held)
    equal(again.parse(["2026-01-01,a,1"]), "a", "x", [[1]])
    lines.parse(["2026-01-01T00:00+02:00,a,high"])
    facts = json.loads(json.dumps(lines.facts()))
    assert facts["settled_by"] == "2026-01-01T00:00+02:00,a,high"
    assert lines.zone == "+02:00"
    again = StreamLines("host")
    again.restore(facts)
    batch = again.parse(["2026-01-02,a,1"], first=4)
    equal(batch, "a", "x", [[1]])
    assert batch.times is not None
    again = StreamLines("host")
    again.restore({"opened_by": None, "settled_by": None})
    assert again.channels == ()


def test_the_channels_of_a_stream_are_selected_by_name() -> None:
    batch = StreamLines("host").parse(
        ["host,x,y,z", "b,1,2,", "a,,,3", "b,4,5,6", "b,7,,", "c,1,1,1"]
    )
    found = batch.select({"a": ("z",), "b": ("y", "x"), "gone": ("x",)})
    assert list(found) == ["b", "a"]
    assert found["b"].rows.tolist() == [0, 3]
    np.testing.assert_array_equal(found["b"].values, [[2, 1], [NAN, 7]])
    (problem,) = found["b"].problems
    assert (problem.number, problem.before) == (4, 1)
    assert problem.error.message == ("unknown channel 'z': expected 'y', 'x', found 'y', 'x', 'z'")
    np.testing.assert_array_equal(found["a"].values, [[3]])
    assert found["a"].values.flags.c_contiguous
    assert found["a"].problems == ()
    lacking = batch.select({"a": ("z", "w")})["a"]
    assert lacking.values.shape == (0, 2)
    assert lacking.problems[0].error.message == (
        "missing channel 'w': expected 'z', 'w', found 'z'"
    )


def test_a_channel_that_has_no_line_or_key_yet_is_missing() -> None:
    batch = StreamLines("host").parse(['{"host": "a", "x": 1}'])
    np.testing.assert_array_equal(batch.select({"a": ("w", "x")})["a"].values, [[NAN, 1]])
    lines = LongLines("host")
    lines.parse(["time,host,tag,value", "1,a,x,1"])
    np.testing.assert_array_equal(lines.flush().select({"a": ("w", "x")})["a"].values, [[NAN, 1]])


cells = st.sampled_from(
    ["1", "-2.5e3", "", " 3 ", "NaN", "na", "TRUE", "inf", "1_0", "٣", "high", '"4"', "1e999"]
)
times = st.sampled_from(["2026-01-01", "2026-01-02T03:04:05Z", "1767225600", "x", "", "2026-13-01"])


@given(
    st.lists(st.tuples(times, cells, cells, st.sampled_from(["", ",1"])), max_size=6),
    st.integers(1, 5),
)
def test_values_and_messages_are_those_of_a_stream_of_its_own(rows: Any, size: int) -> None:
    text = ["2026-01-01,a,0,0"] + [f"{time},a,{x},{y}{more}" for time, x, y, more in rows]
    one = LineParser.open("time,host,x,y", drop="host", strict=True)
    many = StreamLines("host", strict=True)
    many.parse(["time,host,x,y"])
    expected = one.parse_many(text)
    batches = [many.parse(text[at : at + size]) for at in range(0, len(text), size)]
    values = np.concatenate([batch.values for batch in batches if len(batch)])
    np.testing.assert_array_equal(values, expected.values)
    found = np.concatenate([batch.times for batch in batches if batch.times is not None])
    np.testing.assert_array_equal(found, expected.times)
    numbers = np.concatenate([batch.numbers for batch in batches])
    np.testing.assert_array_equal(numbers, expected.rows + 2)
    assert [(each.number, str(each.error)) for batch in batches for each in batch.problems] == [
        (row + 2, str(error)) for row, _, error in expected.errors
    ]


json_cells = st.sampled_from([1, -2.5, None, True, "3", "na", "high", [1], 10**400, NAN, "1_0"])


@given(
    st.lists(st.tuples(st.sampled_from([1, 1.0, True, "2026-01-01", None]), json_cells), max_size=6)
)
def test_json_values_and_messages_are_those_of_a_stream_of_its_own(rows: Any) -> None:
    records = [{"t": 0, "host": "a", "x": 0}]
    records += [{"t": time, "host": "a", "x": x} for time, x in rows]
    text = [json.dumps(record) for record in records]
    expected = LineParser.open(text[0], drop="host", time="t", strict=True).parse_many(text)
    batch = StreamLines("host", time="t", strict=True).parse(text)
    np.testing.assert_array_equal(batch.values, expected.values)
    np.testing.assert_array_equal(batch.times, expected.times)
    assert [(each.number, str(each.error)) for each in batch.problems] == [
        (row + 1, str(error)) for row, _, error in expected.errors
    ]


# ------------------------------------------------------------------ long lines


def test_late_and_bad_long_lines_are_problems() -> None:
    lines = LongLines("host")
    batch = lines.parse(
        ["time,host,tag,value", "2,a,x,1", "1,a,x,9", "3,a,x,2", "2,a,y,9", "1,b,x,3", "4,a,x,4"]
    )
    equal(batch, "aa", "x", [[1], [2]])
    late = "expected a time not before 1970-01-01T00:00:0{}, the newest of its stream, found "
    assert problems(batch) == [
        (3, 0, late.format(2) + "1970-01-01T00:00:01"),
        (5, 1, late.format(3) + "1970-01-01T00:00:02"),
    ]
    assert batch.problems[0].error.hint is not None
    lines = LongLines(["site", "host"])
    batch = lines.parse(
        [
            "time,site,host,metric,value",
            "1,s,a,x,1",
            "1,,,x,1",
            "1,s,a,,1",
            "2,s,a,x,high",
            "2,s,a,y,2",
            "never,s,a,x,2",
            "2,s",
        ]
    )
    equal(batch, ["s/a"], "x", [[1]])
    assert problems(batch) == [
        (3, 0, "columns 'site', 'host': expected the name of a stream, found none"),
        (4, 0, "column 'metric': expected the name of a channel, found none"),
        (7, 1, "column 'time': expected a time, found 'never'"),
        (8, 1, "expected 5 cells, found 2"),
    ]


def test_long_lines_without_by_are_one_stream() -> None:
    lines = LongLines(long=Long(time="at", tag="what", value="v"), format="jsonl")
    batch = lines.parse(
        [
            '{"at": 1, "what": "x", "v": 1, "unit": "m"}',
            '{"at": 1, "what": 7, "v": null}',
            '{"at": 2, "what": "x", "v": 2, "unit": "m", "note": "n"}',
            '{"at": 2, "what": null, "v": 2}',
        ]
    )
    equal(batch, [""], "x7", [[1, NAN]])
    assert problems(batch) == [(4, 1, "column 'what': expected the name of a channel, found none")]
    equal(lines.flush(), [""], "x", [[2]])


def test_samples_that_are_not_complete_are_in_the_facts() -> None:
    lines = LongLines("host")
    lines.parse(["time,host,tag,value", "1,a,x,1", "2,a,x,2", "2,a,y,", "1,b,x,3"])
    again = LongLines("host")
    again.restore(json.loads(json.dumps(lines.facts(), allow_nan=False)))
    batch = again.parse(["3,b,x,4", "3,a,x,5"], first=6)
    equal(batch, "ba", "xy", [[3, NAN], [2, NAN]])
    assert batch.numbers.tolist() == [5, 3]
    alone = LongLines()
    alone.parse(["time,tag,value", "1,x,1"])
    again = LongLines()
    again.restore(alone.facts())
    equal(again.flush(), [""], "x", [[1]])


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 4), st.sampled_from("xyz"))),
    st.integers(1, 6),
)
def test_long_samples_do_not_depend_on_how_the_lines_are_cut(rows: Any, size: int) -> None:
    text = [f"{time},{host},{tag},{at}" for at, (host, time, tag) in enumerate(rows)]
    lines = LongLines("host")
    lines.parse(["time,host,tag,value"])
    batches = [lines.parse(text[at : at + size]) for at in range(0, len(text), size)]
    batches.append(lines.flush())
    samples: dict[tuple[str, int], dict[str, float]] = {}
    newest: dict[str, int] = {}
    late = 0
    for at, (host, time, tag) in enumerate(rows):
        if time < newest.get(host, 0):
            late += 1
            continue
        newest[host] = time
        samples.setdefault((host, time), {})[tag] = float(at)
    found = {}
    for batch in batches:
        assert batch.times is not None
        moments = batch.times.astype("datetime64[s]").astype(int).tolist()
        for name, time, values in zip(streams(batch), moments, batch.values, strict=True):
            pairs = zip(batch.channels, values.tolist(), strict=True)
            found[name, time] = {tag: value for tag, value in pairs if not np.isnan(value)}
    assert found == samples
    assert sum(len(batch.problems) for batch in batches) == late


def test_keys_without_end_are_bad_lines_and_no_columns_without_end() -> None:
    lines = StreamLines("host")
    text = [json.dumps({"host": "x", "a": 1, f"k{at}": at}) for at in range(5_000)]
    found = lines.parse(text)
    assert len(lines.channels) < 2_500  # those of the first lines, and a thousand
    assert len(found.values) + len(found.problems) == 5_000
    assert "expected at most 1,000 keys that the first lines do not have" in str(
        found.problems[0].error
    )
    assert len(lines.parse(['{"host": "x", "a": 2}']).values) == 1
