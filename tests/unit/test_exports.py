"""Files of other programs as CSV text: what is in them comes out, and nothing else."""

import csv
import io
import json
import re
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import polars as pl
import pytest

from newnormal.errors import InputError, MissingExtraError, NewnormalError
from newnormal.tabular import parse_times
from newnormal.tabular.columns import Long, find_long
from newnormal.tabular.exports import recognised, translate
from newnormal.tabular.reading import Reading
from tests.data_as_people_have_it import FILES, Written
from tests.errors import raised

TRANSLATED = {
    "excel_xlsx": "excel",
    "influx_annotated": "influx",
    "influx_1": "influx",
    "grafana_rows": "grafana_rows",
    "prometheus_one": "prometheus",
    "prometheus_two": "prometheus",
}


def text_of(
    kind: str, content: bytes | str, by: Sequence[str] = (), reading: Reading | None = None
) -> str:
    raw = content.encode() if isinstance(content, str) else content
    return b"".join(translate(kind, io.BytesIO(raw), reading or Reading(), by)).decode()


def rows_of(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def kind_of(content: bytes | str, **options: Any) -> str | None:
    raw = content.encode() if isinstance(content, str) else content
    return recognised(raw[:65536], Reading.of(options))


def check(rows: list[list[str]], written: Written) -> None:
    """Check that rows without a header are the samples of a file, bit for bit."""
    values = np.array([[float(cell or "nan") for cell in row[1:]] for row in rows])
    np.testing.assert_array_equal(values, written.values)
    np.testing.assert_array_equal(parse_times([row[0] for row in rows]), written.times)


# Files as the programs write them


@pytest.mark.parametrize("name", FILES)
def test_only_what_lines_cannot_be_read_from_is_translated(tmp_path: Path, name: str) -> None:
    head = FILES[name](tmp_path).path.read_bytes()[:65536]

    assert recognised(head, Reading()) == TRANSLATED.get(name)


@pytest.mark.parametrize("name", TRANSLATED)
def test_a_program_s_file_comes_out_as_it_is(tmp_path: Path, name: str) -> None:
    written = FILES[name](tmp_path)

    rows = rows_of(text_of(TRANSLATED[name], written.path.read_bytes()))

    header = next(row for row in rows if row and row[0].lower() == "time")
    assert tuple(header[1:]) == written.channels
    check([row for row in rows if row and row[0][:2] == "20"], written)


def test_labels_name_streams(tmp_path: Path) -> None:
    written = FILES["prometheus_two"](tmp_path)

    header, *rows = rows_of(text_of("prometheus", written.path.read_bytes(), ["instance"]))

    assert header[:2] == ["time", "instance"]
    for name, stream in written.streams.items():
        assert tuple(header[2:]) == stream.channels
        check([[row[0], *row[2:]] for row in rows if row[1] == name], stream)


def test_offsets_stay(tmp_path: Path) -> None:
    written = FILES["grafana_rows"](tmp_path)

    rows = rows_of(text_of("grafana_rows", written.path.read_bytes()))

    assert rows[1][0] == "2026-01-01T01:00:00+01:00"


# Which program


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{"status":"success","data":{"resultType":"matrix","result":[]}}', "prometheus"),
        ('\ufeff [\n {"status" : "success", "data": {"resultType": "vector"', "prometheus"),
        ('{"resultType":"matrix","result":[]}', "prometheus"),
        ('{"data":{"result":[{"metric":{"__name__":"up"}', "prometheus"),
        ('[{"metric":{},"values":[[1,"2"]]}]', "prometheus"),
        ('{"status":"error","errorType":"bad_data","error":"parse error"}', "prometheus"),
        ('{"time":1,"metric":"up","value":2}\n', None),
        ('{"time":1,"status":"error","value":2}\n', None),
        ('{"time":1,"values":[1,2]}\n', None),
        ("#datatype,string,long\n", "influx"),
        ("#group,false,false\n", "influx"),
        (",result,table,_time,temp\n,,0,2026-01-01T00:00:00Z,5\n", "influx"),
        ("_time,_value,_field,_measurement\n", "influx"),
        ("name,tags,time,value\n", "influx"),
        ("name,time,value\ncpu,1767225600000000000,1\ncpu,1767225601000000000,2\n", "influx"),
        ("error,reference\nfailed,897\n", "influx"),
        ("name,time,value\nTI1,01-Jan-26 00:00:00,1\n", None),
        ("name,time,value\nTI1,1767225600000,1\nTI2,1767225600000,1\n", None),
        ("# a comment\ntime,load\n", None),
        ('"Series";"Time";"Value"\n"a";"2026-01-01T00:00:00Z";1\n', "grafana_rows"),
        ('sep=;\r\n"Series";"Time";"Value"\r\n"a";"2026-01-01 00:00:00";1\r\n', "grafana_rows"),
        ('"Series";"Time";"Value"\n"a";"01/02/2026 00:00";1\n', None),
        ('"Time","cpu","mem"\n2026-01-01 00:00:00,1,2\n', None),
        ("", None),
        ("time", None),
    ],
)
def test_programs_are_known_by_their_first_lines(text: str, kind: str | None) -> None:
    assert kind_of(text) == kind


def test_a_named_format_counts() -> None:
    prometheus = '{"status":"success","data":{"resultType":"matrix","result":[]}}'
    assert kind_of(prometheus, format="jsonl") is None
    assert kind_of("whatever", format="excel") == "excel"
    assert kind_of("whatever", format="influx") == "influx"
    assert kind_of("#datatype,string,long\n", format="csv") == "influx"
    assert kind_of(b"PAR1....") == "parquet"
    assert kind_of(bytes.fromhex("D0CF11E0A1B11AE1")) == "excel"


# Prometheus


def answer(*series: tuple[dict[str, str], list[Any]], kind: str = "matrix") -> str:
    key = "values" if kind == "matrix" else "value"
    result = [{"metric": metric, key: points} for metric, points in series]
    return json.dumps({"status": "success", "data": {"resultType": kind, "result": result}})


def test_labels_are_in_names_unless_they_are_left_out() -> None:
    text = answer(
        ({"__name__": "load", "instance": "a:1", "job": "x"}, [[1, "1"]]),
        ({"__name__": "load", "instance": "b:1", "job": "x"}, [[1, "2"]]),
        ({"__name__": "up", "instance": "a:1", "job": "x"}, [[1, "1"]]),
    )
    assert rows_of(text_of("prometheus", text, reading=Reading.of(without="job"))) == [
        ["time", 'load{instance="a:1"}', 'load{instance="b:1"}', 'up{instance="a:1"}'],
        ["1970-01-01T00:00:01Z", "1.0", "2.0", "1.0"],
    ]
    assert 'up{instance="a:1",job="x"}' in rows_of(text_of("prometheus", text))[0]


def test_an_expression_without_name_or_labels_is_value() -> None:
    assert rows_of(text_of("prometheus", answer(({}, [[1, "2"]]))))[0] == ["time", "value"]


@pytest.mark.parametrize("join", ["\n", "", ",\n"])
def test_answers_one_after_another_are_one_table(join: str) -> None:
    one = answer(({"__name__": "a"}, [[1, "1"], [2, "2"]]))
    two = answer(({"__name__": "b"}, [[2, "3"], [3, "4"]]))
    expected = [["time", "a", "b"], ["1970-01-01T00:00:01Z", "1.0", ""]]
    for text in (one + join + two, f"[{one},{two}]"):
        assert rows_of(text_of("prometheus", text))[:2] == expected


def test_answers_of_several_queries_without_names_are_told_apart() -> None:
    one = answer(({}, [[1, "1"], [2, "2"]]))
    two = answer(({}, [[1, "5"], [2, "6"]]))
    assert rows_of(text_of("prometheus", one + two))[:2] == [
        ["time", "value", "value 2"],
        ["1970-01-01T00:00:01Z", "1.0", "5.0"],
    ]


def test_answers_of_one_query_for_two_spans_are_one_series() -> None:
    one = answer(({}, [[1, "1"], [2, "2"], [3, "3"]]))
    two = answer(({}, [[3, "4"], [4, "5"], [5, "6"]]))
    rows = rows_of(text_of("prometheus", one + two))
    assert [row[1] for row in rows] == ["value", "1.0", "2.0", "4.0", "5.0", "6.0"]


def test_bare_data_and_results_and_points_are_read() -> None:
    whole = answer(({"__name__": "up"}, [[1, "2"]]))
    data = json.loads(whole)["data"]
    expected = text_of("prometheus", whole)
    assert text_of("prometheus", json.dumps(data)) == expected
    assert text_of("prometheus", json.dumps(data["result"])) == expected
    assert text_of("prometheus", json.dumps(data["result"][0])) == expected
    assert text_of("prometheus", answer(({"__name__": "up"}, [1, "2"]), kind="vector")) == expected
    scalar = '{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}'
    assert text_of("prometheus", scalar) == expected.replace("up", "value")


def test_values_come_out_as_they_were() -> None:
    values = [0.1, 1e-300, 123456789.123456789, -0.0, 1 / 3]
    points = [[at, repr(value)] for at, value in enumerate(values)]
    rows = rows_of(text_of("prometheus", answer(({}, points))))
    assert [float(row[1]) for row in rows[1:]] == values


# InfluxDB

LONG = """\
#group,false,false,true,true,false,false,true,true,true
#datatype,string,long,dateTime:RFC3339,dateTime:RFC3339,dateTime:RFC3339,double,string,string,string
#default,mean,,,,,,,,
,result,table,_start,_stop,_time,_value,_field,_measurement,host
,,0,2026-01-01T00:00:00Z,2026-01-02T00:00:00Z,2026-01-01T00:00:00Z,1.5,used,mem,a
,,0,2026-01-01T00:00:00Z,2026-01-02T00:00:00Z,2026-01-01T00:01:00Z,2.5,used,mem,a
,,1,2026-01-01T00:00:00Z,2026-01-02T00:00:00Z,2026-01-01T00:00:00Z,3.5,used,mem,b

#group,false,false,true,true,false,false,true,true,true
#datatype,string,long,dateTime:RFC3339,dateTime:RFC3339,dateTime:RFC3339,long,string,string,string
#default,mean,,,,,,,,
,result,table,_start,_stop,_time,_value,_field,_measurement,host
,,2,2026-01-01T00:00:00Z,2026-01-02T00:00:00Z,2026-01-01T00:00:00Z,7,used,disk,a
,,2,2026-01-01T00:00:00Z,2026-01-02T00:00:00Z,2026-01-01T00:00:00Z,8,free,disk,a
"""


def test_fields_are_channels_and_hosts_streams() -> None:
    assert rows_of(text_of("influx", LONG, ["host"])) == [
        ["time", "host", "mem_used", "disk_used", "disk_free"],
        ["2026-01-01T00:00:00Z", "a", "1.5", "7.0", "8.0"],
        ["2026-01-01T00:00:00Z", "b", "3.5", "", ""],
        ["2026-01-01T00:01:00Z", "a", "2.5", "", ""],
    ]


def test_tags_are_in_names() -> None:
    names = ["mem_used a", "mem_used b", "disk_used a", "disk_free a"]
    header = rows_of(text_of("influx", LONG))[0]
    assert header[1:] == [name.replace(" ", '{host="') + '"}' for name in names]


def test_measurements_may_be_streams() -> None:
    text = LONG.replace(",b\n", ",a\n").replace("00:00:00Z,3.5", "00:02:00Z,3.5")
    header, *rows = rows_of(text_of("influx", text, ["_measurement"]))
    assert header == ["time", "_measurement", 'used{host="a"}', 'free{host="a"}']
    assert {row[1] for row in rows} == {"mem", "disk"}


def test_annotations_may_be_missing() -> None:
    lines = [line for line in LONG.splitlines() if not line.startswith("#")]
    assert text_of("influx", "\n".join(lines), ["host"]) == text_of("influx", LONG, ["host"])


def test_defaults_fill_empty_cells() -> None:
    text = LONG.replace("#default,mean,,,,,,,,", "#default,mean,,,,,,used,,c")
    text = text.replace("1.5,used,mem,a", "1.5,,mem,")
    assert rows_of(text_of("influx", text, ["host"]))[1][1:3] in (["a", ""], ["c", "1.5"])


PIVOTED = """\
#group,false,false,false,true,false,false,false
#datatype,string,long,dateTime:RFC3339,string,double,boolean,string
#default,_result,,,,,,
,result,table,_time,host,temp,on,state
,,0,2026-01-01T00:00:00.5Z,a,20.5,true,warm
,,0,2026-01-01T00:00:01Z,a,,false,cold
"""


def test_pivoted_exports_stay_wide() -> None:
    expected = [
        ["time", 'temp{host="a"}', 'on{host="a"}'],
        ["2026-01-01T00:00:00.500Z", "20.5", "1.0"],
        ["2026-01-01T00:00:01.000Z", "", "0.0"],
    ]
    assert rows_of(text_of("influx", PIVOTED)) == expected
    plain = "\n".join(line for line in PIVOTED.splitlines() if line[0] != "#")
    assert rows_of(text_of("influx", plain))[1:] == expected[1:]


def test_texts_that_tell_series_apart_are_labels_without_annotations_too() -> None:
    text = "_time,result,table,host,temp\n"
    text += "".join(f"2026-01-01T00:00:00Z,,0,{host},{at}\n" for at, host in enumerate("ab"))
    assert rows_of(text_of("influx", text))[0] == ["time", 'temp{host="a"}', 'temp{host="b"}']
    assert len(rows_of(text_of("influx", text, ["host"]))) == 3


def test_the_tags_of_influx_1_are_labels() -> None:
    times = ("1767225600", "1767225601")
    rows = [f'sys,"host=a,rack=1",{time},{at + 1}\n' for at, time in enumerate(times)]
    text = "name,tags,time,load\n" + "".join(rows)
    assert rows_of(text_of("influx", text)) == [
        ["time", 'sys_load{host="a",rack="1"}'],
        ["2026-01-01T00:00:00Z", "1.0"],
        ["2026-01-01T00:00:01Z", "2.0"],
    ]


def test_influx_1_repeats_headers_and_has_tags_in_names() -> None:
    text = "".join(f"name,tags,time,load\nsys,host={host},1767225600,1\n" for host in "ab")
    assert rows_of(text_of("influx", text))[0] == [
        "time",
        'sys_load{host="a"}',
        'sys_load{host="b"}',
    ]
    text = "name,time,load\nsys,1767225600,1\n\nname,time,free\ndisk,1767225600,2"
    assert rows_of(text_of("influx", text)) == [
        ["time", "sys_load", "disk_free"],
        ["2026-01-01T00:00:00Z", "1.0", "2.0"],
    ]


def test_damaged_lines_are_counted_and_left_out() -> None:
    damaged = LONG.replace("2026-01-01T00:01:00Z", "soon")[:-20]
    found = translate("influx", io.BytesIO(damaged.encode()), Reading(), ["host"])
    assert (found.bad_lines, found.first_bad) == (2, "line 6: expected a time, found 'soon'")
    assert len(b"".join(found).splitlines()) == 3
    rows = "Series;Time;Value\na;2026-01-01;1\na;soon;2\na;b\n\n"
    found = translate("grafana_rows", io.BytesIO(rows.encode()), Reading(), ())
    assert (found.bad_lines, found.first_bad) == (2, "line 3: expected a time, found 'soon'")
    assert b"".join(found) == b"time,a\n2026-01-01T00:00:00,1.0\n"


def test_nothing_but_damaged_lines_is_an_error() -> None:
    damaged = re.sub("2026-01-01T00:0[0-9]:00Z,([0-9])", r"soon,\1", LONG)
    with pytest.raises(InputError, match="line 5: expected a time, found 'soon'"):
        text_of("influx", damaged)


# Grafana


def test_series_as_rows_are_read_with_commas_and_without_zone() -> None:
    text = 'sep=,\n"Series","Time","Value"\n"a","2026-01-01 00:00:00","1,234.5"\n'
    assert rows_of(text_of("grafana_rows", text)) == [
        ["time", "a"],
        ["2026-01-01T00:00:00", "1234.5"],
    ]
    assert rows_of(text_of("grafana_rows", text, ["Series"]))[1][1:] == ["a", "1234.5"]


NOT_OF_PROMETHEUS = [
    (
        '{"status":"error","errorType":"bad_data","error":"1:5: parse error"}',
        (),
        "found an error of Prometheus: bad_data: 1:5: parse error",
    ),
    (answer(), (), "found an answer without any"),
    (answer(({"__name__": "up"}, [])), (), "expected values, found none"),
    (answer(({"a": "1", "b": "2"}, [[1, "2"]])), ("c",), "label 'c', found only 'a', 'b'"),
    (answer(({}, [[1, "2"]]))[:-9], (), "line 1: expected Prometheus' JSON, found"),
    (answer(({"__name__": "up"}, [["x", "2"]])), (), "series up: expected pairs such as"),
    (answer(({"__name__": "up"}, [[1e300, "2"]])), (), "series up: expected pairs such as"),
    ('{"data":{"resultType":"string","result":[1,"a"]}}', (), "expected a result of Prom"),
    ("[" * 100_000, (), "expected Prometheus' JSON"),
    (f'{{"data":[{"9" * 5000}]}}', (), "expected Prometheus' JSON"),
    ('[{"metric":{"__name__":"h"},"histograms":[]}]', (), "series h: expected numbers, found"),
    ("5", (), "expected a result of Prometheus, found 5"),
]
NOT_OF_INFLUX = [
    (
        "#datatype,string,long\n#group,true,true\n#default,,\n,error,reference\n"
        ",Failed to parse query,897\n",
        (),
        "found an error of InfluxDB: Failed to parse query",
    ),
    (LONG, ("rack",), "label 'rack', found only 'host'"),
    (LONG.replace("_time", "when").replace("dateTime:RFC3339", "string"), (), "column _time"),
    ("#datatype,string\n#group,false\n", (), "expected samples, found none"),
    (LONG.partition(",,0")[0], (), "expected samples, found none"),
    ("_time,_value,_field\n2026-01-01,on,state\n", (), "found only texts in 'state'"),
    ('_time,_value,_field\n2026-01-01,1,"' + "x" * 200_000, (), "line 2: expected CSV, found"),
]
NOT_OF_GRAFANA = [
    ("Series;Time;Value\na;b\n", (), "line 2: expected a series, a time and a value"),
    ("sep=;\nSeries;Time;Value\na;b;1\n", (), "line 3: expected a time, found 'b'"),
    ("Series;Time;Value\n", (), "expected values, found none"),
    ("Series;Time\n", (), "expected the columns Series, Time and Value"),
]


@pytest.mark.parametrize(
    ("kind", "text", "by", "message"),
    [
        *(("prometheus", *row) for row in NOT_OF_PROMETHEUS),
        *(("influx", *row) for row in NOT_OF_INFLUX),
        *(("grafana_rows", *row) for row in NOT_OF_GRAFANA),
    ],
)
def test_what_a_program_did_not_mean_is_an_error(
    kind: str, text: str, by: tuple[str, ...], message: str
) -> None:
    assert message in raised(InputError, lambda: text_of(kind, text, by)).message


# Excel


def workbook(
    *sheets: tuple[str, Sequence[Sequence[Any]]], formats: dict[str, str] | None = None
) -> bytes:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets:
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
        for cell, number_format in (formats or {}).items():
            sheet[cell].number_format = number_format
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def test_cells_of_all_kinds() -> None:
    rows: list[list[Any]] = [
        [datetime(2026, 1, 1, 12, 0, 0, 500_000), datetime(2026, 1, 1), date(2026, 1, 2)],
        [time(8, 5), timedelta(hours=30), True, 1, 0.1, "a,b", "two\nlines"],
        [0.25, "#N/A", "=1/0"],
    ]
    content = workbook(("A", rows), formats={"B1": "yyyy-mm-dd hh:mm", "A3": "0%"})
    assert rows_of(text_of("excel", content)) == [
        ["2026-01-01T12:00:00.500", "2026-01-01T00:00:00", "2026-01-02", "", "", "", ""],
        ["08:05:00", "30:00:00", "true", "1", "0.1", "a,b", "two lines"],
        ["0.25", "", "", "", "", "", ""],
    ]


def test_empty_rows_and_columns_at_the_end_are_left_out() -> None:
    content = workbook(("A", [[], ["x", "y", None, " "], [1], [], [2, 3], [None, " "], []]))
    assert text_of("excel", content) == "\nx,y\n1,\n\n2,3\n"


def test_a_day_alone_has_no_clock() -> None:
    content = workbook(("A", [[datetime(2026, 1, 1), 1]]), formats={"A1": '[$-407]dd.mm.yy" s"'})
    assert text_of("excel", content) == "2026-01-01,1\n"


def test_a_row_with_a_number_beyond_all_takes_no_time() -> None:
    content = workbook(("A", [["x"], [1]]))
    damaged = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(damaged, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name).replace(b'<row r="2"', b'<row r="99999999999"'))
    assert text_of("excel", damaged.getvalue()) == "x\n"


def test_sheets() -> None:
    content = workbook(("Empty", []), ("One", [["a"], [1]]), ("Two", [["b"], [2]]))
    assert text_of("excel", content) == "a\n1\n"
    assert text_of("excel", content, reading=Reading(sheet="two")) == "b\n2\n"
    translated = translate("excel", io.BytesIO(content), Reading())
    assert translated.written == {"program": "Excel", "sheet": "One"}
    with pytest.raises(InputError, match="sheet called 'Three', found only 'Empty', 'One', 'Two'"):
        text_of("excel", content, reading=Reading(sheet="Three"))
    with pytest.raises(InputError, match="sheet 'Empty': expected cells, found none"):
        text_of("excel", content, reading=Reading(sheet="Empty"))
    with pytest.raises(InputError, match="expected cells, found none in sheets 'Empty'"):
        text_of("excel", workbook(("Empty", [])))


def archive(**members: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name, text in members.items():
            file.writestr(name, text)
    return out.getvalue()


@pytest.mark.parametrize(
    ("content", "message", "hint"),
    [
        (bytes.fromhex("D0CF11E0A1B11AE1") + bytes(600), "old format .xls", "as .xlsx or CSV"),
        (
            bytes.fromhex("D0CF11E0A1B11AE1") + "EncryptedPackage".encode("utf-16-le"),
            "protected by a password",
            "without a password",
        ),
        (workbook(("A", [[1]]))[:900], "found a damaged one", "save it again"),
        (archive(**{"a.csv": "x"}), "found an archive that holds 'a.csv'", "unpack it"),
        (archive(**{"content.xml": "x"}), "LibreOffice", "as .xlsx or CSV"),
        (archive(**{"xl/workbook.bin": "x"}), ".xlsb", "as .xlsx or CSV"),
        (archive(**{"xl/workbook.xml": "x"}), "found a damaged one", "save it again"),
        (b"time,load\n", "found something else", "leave out --input-format"),
    ],
)
def test_other_files_than_workbooks(content: bytes, message: str, hint: str) -> None:
    with pytest.raises(InputError) as error:
        text_of("excel", content)
    assert message in error.value.message
    assert hint in (error.value.hint or "")


@pytest.mark.parametrize(("kind", "package"), [("excel", "openpyxl"), ("parquet", "polars")])
def test_extras_are_named(monkeypatch: pytest.MonkeyPatch, kind: str, package: str) -> None:
    content = workbook(("A", [[1]])) if kind == "excel" else b"PAR1"
    monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(MissingExtraError, match=f"{package} is needed"):
        text_of(kind, content)


# Parquet


def parquet(frame: pl.DataFrame) -> bytes:
    out = io.BytesIO()
    frame.write_parquet(out)
    return out.getvalue()


def test_parquet_as_text() -> None:
    utc = pl.Series([datetime(2026, 7, 1), datetime(2026, 1, 1, 0, 0, 0, 1500)])
    frame = pl.DataFrame(
        {
            "time": utc.dt.replace_time_zone("UTC"),
            "berlin": utc.dt.replace_time_zone("UTC").dt.convert_time_zone("Europe/Berlin"),
            "local": utc,
            "x": [0.1, float("nan")],
            "f": pl.Series([0.1, None], dtype=pl.Float32),
            "n": [1, None],
            "b": [True, False],
            "s": ["a,b", "two\nlines"],
            "took": [timedelta(seconds=1.5), None],
        }
    )
    summer = ["2026-07-01T00:00:00Z", "2026-07-01T02:00:00+02:00", "2026-07-01T00:00:00"]
    clock = "00:00.001500"
    winter = [f"2026-01-01T00:{clock}Z", f"2026-01-01T01:{clock}+01:00", f"2026-01-01T00:{clock}"]
    assert rows_of(text_of("parquet", parquet(frame))) == [
        frame.columns,
        [*summer, "0.1", "0.10000000149011612", "1", "true", "a,b", "1.5"],
        [*winter, "", "", "", "false", "two lines", ""],
    ]


def test_nested_columns_are_named_unless_dropped() -> None:
    content = parquet(pl.DataFrame({"x": [1.0], "l": [[1]], "s": [{"a": 1}]}))
    with pytest.raises(InputError, match="found lists, structs or bytes in 'l', 's'"):
        text_of("parquet", content)
    assert text_of("parquet", content, reading=Reading(drop=("l", "s"))) == "x\n1.0\n"
    assert text_of("parquet", content, reading=Reading(columns=("x",))) == "x\n1.0\n"


def test_damaged_and_empty_parquet() -> None:
    content = parquet(pl.DataFrame({"x": [1.0]}))
    with pytest.raises(InputError, match="expected Parquet, found"):
        text_of("parquet", content[:-5])
    with pytest.raises(InputError, match="encrypted"):
        text_of("parquet", b"PARE" + content[4:])
    with pytest.raises(InputError, match="empty table"):
        text_of("parquet", parquet(pl.DataFrame({"x": []})))


# Names of long data


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("Tag;Timestamp;Value;Status", "Timestamp Tag Value"),
        ("Tag Name;Time Stamp;Val", "Time Stamp|Tag Name|Val"),
        ("PI_Tag;Date;Reading", "Date PI_Tag Reading"),
        ("_time;_measurement;_field;_value;host", "_time _field _value"),
        ("Series;Time;Value", "Time Series Value"),
        ("Zeitstempel;Messstelle;Wert", "Zeitstempel Messstelle Wert"),
        ("time;date;metric;field;value", "time metric value"),
    ],
)
def test_names_of_historians(names: str, expected: str) -> None:
    found = find_long(names.split(";"), Long())
    parts = expected.split("|") if "|" in expected else expected.split()
    assert [found.time, found.tag, found.value] == parts


def test_two_names_of_one_kind_are_not_guessed() -> None:
    with pytest.raises(InputError, match="expected one column of the tag, found 'item', 'signal'"):
        find_long(["time", "item", "signal", "value"], Long())


# Damage


@pytest.mark.parametrize("name", TRANSLATED)
def test_damaged_files_are_read_or_refused(tmp_path: Path, name: str) -> None:
    rng = np.random.default_rng(len(name))
    content = FILES[name](tmp_path, 30).path.read_bytes()
    for _ in range(30):
        damaged = bytearray(content)
        for at in rng.integers(0, len(damaged), rng.integers(1, 8)):
            damaged[at] = rng.integers(0, 256)
        cut = int(rng.integers(1, len(damaged))) if rng.random() < 0.5 else len(damaged)
        with suppress(NewnormalError):  # any other error fails the test
            text_of(TRANSLATED[name], bytes(damaged[:cut]))
