"""Columns by their header: unknown and absent ones, headers that come again, and none at all."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newnormal.errors import InputError, StateError
from newnormal.io.sources.base import SourceOptions
from newnormal.io.sources.lines import ColumnLayout, ColumnLayoutError
from newnormal.tabular import LineParser, LongLines, Reading, StreamLines, read
from newnormal.tabular.reading import Remembered
from tests.present import present

NAN = float("nan")


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


def layout(said: list[str] | None = None, **options: Any) -> ColumnLayout:
    report = None if said is None else said.append
    return ColumnLayout(SourceOptions(("a", "b"), Reading.of(options), report=report), "plant.csv")


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
    assert samples.errors == ()


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
        with pytest.raises(StateError, match="place: expected layout with the lines"):
            layout().restore(wrong)


def test_an_input_without_channels_is_refused_by_name() -> None:
    expected = r"^plant\.csv: missing channels 'a', 'b': found only"
    with pytest.raises(ColumnLayoutError, match=expected):
        layout().parse(["x,y", "1,2"], 1)


def test_an_input_of_nothing_but_bad_lines_is_refused_at_its_end() -> None:
    one = layout()
    one.parse(["a,b", "1"], 1)
    one.parse(["1,2,3"], 3)
    with pytest.raises(ColumnLayoutError, match=r"expected 2 cells, found 1"):
        one.check()
    good = layout()
    good.parse(["a,b", "1,2", "1,2,3"], 1)
    good.check()


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
