"""One corpus of inputs by every door, with one table of answers."""

import json
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

from newnormal.errors import InputError
from newnormal.io import remote_write
from newnormal.io.decoders.base import QUERY, Decoder
from newnormal.io.decoders.influx import InfluxDecoder
from newnormal.io.decoders.otlp import OtlpDecoder
from newnormal.io.decoders.remote_write import RemoteWriteDecoder
from newnormal.io.decoders.samples import SamplesDecoder
from newnormal.io.options import Options
from newnormal.io.payloads import Payloads
from newnormal.io.sources.prometheus import PrometheusSource
from newnormal.io.sources.prometheus_api import QueryGrid, read_matrix
from newnormal.tabular import LineParser, LongLines, Reading, read, read_tables, to_table
from newnormal.tabular.exports import translate
from newnormal.tabular.ordering.live import LiveOrder
from tests.present import present

NAN = float("nan")

# --- cells: what is written, and its number; None: it holds no number.

PLAIN = "1;-1.5;+2;.5;5.;1e3;1E-3; 7 ;-0.0;1.7976931348623157e308;5e-324;12345678901234567890123"
MISSING = ";  ;NaN;-nan;NULL;NA;None;unavailable;Unknown;inf;-Inf;+Infinity;1e999;-1e999"
BAD = "x;1_000;\u0661;0x10;1 2;--1;#N/A;1.5.2;\xbd;12:30;1,234"
CELLS: list[tuple[str, float | None]] = [("True", 1), ("false", 0)]
CELLS += [(cell, float(cell)) for cell in PLAIN.split(";")]
CELLS += [(cell, NAN) for cell in MISSING.split(";")] + [(cell, None) for cell in BAD.split(";")]
FIELDS = [pair for pair in CELLS if pair[0].strip() and not set(pair[0]) & set(" ,")]
FIELDS += [
    ("t", 1),
    ("T", 1),
    ("f", 0),
    ("F", 0),
    ("-5i", -5),
    ("7u", 7),
    ("1.5i", None),
    ("-1u", None),
]
ALL = [*CELLS, ("21,5", 21.5), ("-,5", -0.5), ("1,5e3", 1500), ("- 7", -7)]
OF_JSON: list[tuple[str, float | None]] = [("true", 1), ("false", 0), ("[1]", None), ("{}", None)]
OF_JSON += [(cell, float(cell)) for cell in ("-1.5e3", str(2**70))]
OF_JSON += [(cell, NAN) for cell in ("null", "NaN", "Infinity", "1e999", "9" * 400)]


def by_line(cell: str) -> Any:
    sample = LineParser.open("a;b", delimiter=";", strict=True).parse(f'7;"{cell}"')
    return sample and sample.values[1]


def by_long_line(cell: str) -> Any:
    lines = LongLines(strict=True)
    lines.parse(["time;tag;value", f'1;b;"{cell}"'])
    return lines.flush().values[0, 0]


def by_json_line(cell: str) -> Any:
    sample = LineParser.open('{"a": 1, "b": 1}', strict=True).parse(f'{{"a": 7, "b": {cell}}}')
    return sample and sample.values[1]


def by_post(cell: str) -> Any:
    body = f'{{"stream": "s", "values": {{"b": {cell}, "a": 7}}}}'
    return SamplesDecoder().decode(body.encode(), {})[0].values[0, 0]


def by_payload(cell: str, **options: str) -> Any:
    found = Payloads(Options("source bus", options)).read(cell.encode(), stream="s", received=7)
    return found[0].number if found else NAN


def by_message(cell: str) -> Any:
    return by_payload(f'{{"b": {cell}}}', value="b")


def by_prometheus(cell: str) -> Any:
    series = f'[{{"metric": {{"__name__": "b"}}, "values": [[1, "7"], [2, {json.dumps(cell)}]]}}]'
    return exported("prometheus", series)


def by_pull(cell: str) -> Any:
    result = f'[{{"metric": {{}}, "values": [[2, {json.dumps(cell)}]]}}]'
    body = f'{{"status": "success", "data": {{"resultType": "matrix", "result": {result}}}}}'
    return read_matrix(body.encode(), QueryGrid(2 * 10**9, 1, 10**9)).series[0].values[0]


def by_influx(cell: str) -> Any:
    rows = f'1970-01-01T00:00:01Z,7,b,m\n1970-01-01T00:00:02Z,"{cell}",b,m\n'
    return exported("influx", f"_time,_value,_field,_measurement\n{rows}")


def by_field(cell: str) -> Any:
    return InfluxDecoder().decode(f"m a=7,b={cell} 1\n".encode(), {})[0].values[0, 1]


def by_frame(cell: Any) -> Any:
    return to_table(pd.DataFrame({"a": [7.0], "b": pd.Series([cell], dtype=object)})).values[0, 1]


def exported(kind: str, text: str) -> float:
    wide = b"".join(translate(kind, BytesIO(text.encode()), Reading())).decode().splitlines()
    assert wide[0] in ("time,b", "time,m_b")
    return float(wide[2].partition(",")[2] or "nan")


def as_text(door: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda cell: door(json.dumps(cell))


@pytest.mark.parametrize(
    ("door", "cells"),
    [
        (by_line, ALL),
        (by_long_line, ALL),
        (as_text(by_json_line), ALL),
        (by_json_line, OF_JSON),
        (as_text(by_post), ALL),
        (by_post, OF_JSON),
        (as_text(by_message), ALL),
        (by_message, OF_JSON),
        (by_payload, ALL),
        (by_prometheus, CELLS),
        (by_pull, CELLS),
        (by_influx, CELLS),
        (by_field, FIELDS),
        (by_frame, ALL),
    ],
)
def test_a_cell_is_the_same_number_by_every_door(door: Any, cells: Any) -> None:
    silent = door in (by_prometheus, by_pull, by_influx)  # whose programs write no such cells
    for cell, number in cells:
        found = None
        with suppress(InputError, IndexError):  # no line was taken
            found = door(cell)
        expected = NAN if number is None and silent else number
        np.testing.assert_equal(found, expected, f"{cell!r} is {found}")


# --- times: what is written, and how many seconds after noon it is; None: it is no time

NOON = 1769860800  # 2026-01-31T12:00:00Z
ON_NOON = (
    "2026-01-31T12:00:00Z; 2026-01-31 12:00 ;2026-01-31T14:00:00+02:00;2026-01-31 13:00:00 +0100;"
    "2026/01/31 12:00;20260131T120000Z;20260131T120000;31.01.2026 12:00;31.01.26 12:00:00;"
    "31/01/2026 12:00;01/31/2026 12:00 PM;31-jan-26 12:00;31. Januar 2026 12:00;"
    "Jan 31, 2026 12:00:00 PM;Sat Jan 31 12:00:00 2026;Sat Jan 31 12:00:00 UTC 2026;"
    "Sat, 31 Jan 2026 14:00:00 +0200;2026-01-31T12:00:00 UTC;1.7698608e9;"
    "1769860800;1769860800000;1769860800000000;1769860800000000000"
)
TIMES = [(cell, 0.0) for cell in ON_NOON.split(";")]
TIMES += [(f"31.01.2026 12:00:00{half}", 0.5) for half in (".5", ",5", ".50")]
TIMES += [(cell, 0.5) for cell in ("2026-01-31T12:00:00.5Z", "2026-01-31 12:00:00,5")]
TIMES += [(cell, 0.5) for cell in ("1769860800.5", "1769860800,5", "1769860800500")]
TIMES += [(day, -43200.0) for day in ("2026-01-31", "31.01.2026", "31.01.26")]
NO_TIMES = "x;true;2026-W05;2026-02-30;31.02.2026;13/13/2026;03/04/2026;2026-01-31 24:00:00"
ALL_TIMES = [*TIMES, *((cell, None) for cell in NO_TIMES.split(";"))]
UNIX = [(str(NOON * unit), 0.0) for unit in (1, 10**3, 10**6, 10**9)]
SECONDS = [(str(NOON), 0.0), (f"{NOON}.5", 0.5)]


def at_file(cell: str, path: Path) -> Any:
    path.write_text(f'time;a\n"{cell}";7\n')
    return present(read(path).times)


def at_pipe(cell: str, _: Path) -> Any:
    sample = LineParser.open("time;a", delimiter=";", strict=True).parse(f'"{cell}";7')
    return present(sample).time


def at_long_line(cell: str, _: Path) -> Any:
    lines = LongLines(strict=True)
    lines.parse(["time;tag;value", f'"{cell}";a;7'])
    return present(lines.flush().times)


def at_json_line(cell: str, _: Path) -> Any:
    line = f'{{"time": {cell}, "a": 7}}'
    return present(LineParser.open(line, strict=True).parse(line)).time


def at_frame(cell: str, _: Path) -> Any:
    return present(to_table(pd.DataFrame({"time": [cell], "a": [7.0]}), times="time").times)


def at_post(cell: str, _: Path) -> Any:
    body = f'{{"stream": "s", "time": {cell}, "values": {{"a": 7}}}}'
    return SamplesDecoder().decode(body.encode(), {})[0].times


def at_posted_csv(cell: str, _: Path) -> Any:
    return SamplesDecoder().decode(f'stream;time;a\ns;"{cell}";7'.encode(), {})[0].times


def at_message(cell: str, _: Path) -> Any:
    body = f'{{"time": {cell}, "a": 7}}'.encode()
    return Payloads(Options("source bus", {})).read(body, stream="s", received=0)[0].time


def at_point(cell: str, _: Path) -> Any:
    return InfluxDecoder().decode(f"m a=7 {cell}\n".encode(), {})[0].times


def at_influx(cell: str, path: Path) -> Any:
    path.write_text(f'_time,_value,_field,_measurement\n"{cell}",7,a,m\n')
    return present(read(path).times)


def at_prometheus(cell: str, path: Path) -> Any:
    path.write_text(f'[{{"metric": {{"__name__": "a"}}, "values": [[{cell}, "7"]]}}]')
    return present(read(path).times)


@pytest.mark.parametrize(
    ("door", "cells", "quoted"),
    [
        *((door, ALL_TIMES, False) for door in (at_file, at_pipe, at_long_line, at_posted_csv)),
        *((door, ALL_TIMES, True) for door in (at_json_line, at_post, at_message)),
        *((door, UNIX, False) for door in (at_json_line, at_post, at_message, at_point)),
        *((door, SECONDS, False) for door in (at_json_line, at_post, at_prometheus)),
        *((door, ALL_TIMES, False) for door in (at_frame, at_influx)),
    ],
)
def test_a_time_is_the_same_by_every_door(
    tmp_path: Path, door: Any, cells: Any, quoted: bool
) -> None:
    for cell, after in cells:
        found = None
        with suppress(InputError, ValueError):
            found = door(json.dumps(cell) if quoted else cell, tmp_path / "a")
            found = np.array(found, "M8[ns]").ravel().astype(np.int64).tolist() or None
        expected = None if after is None else [NOON * 10**9 + round(after * 10**9)]
        assert found == expected, cell


# --- counters: what they are at each second after noon, and their rates

RATES = {5.0: NAN, 25.0: 20.0, NAN: NAN, 6.0: 3.0, 16.0: 10.0}  # one is missing, then it is at 6
ROWS = [(NOON + at, str(count)) for at, count in enumerate(RATES)]


def rates_posted(decoder: Decoder, bodies: list[bytes], **headers: str) -> list[float]:
    rates = []
    for body in bodies:
        arrivals = decoder.decode(body, {QUERY: "rates=*hits*", **headers})
        rates += [each.values[0, 0] for each in arrivals] or [NAN]
        decoder.response(arrivals, 1)
    return rates


def rates_live() -> list[float]:
    order = LiveOrder(Reading.of(rates="hits"), ("hits",))
    times = np.array([[time] for time, _ in ROWS], "M8[s]").astype("M8[ns]")
    steps = [order.push(np.array([[rate]]), time) for time, rate in zip(times, RATES, strict=True)]
    return [value for each in [*steps, order.flush()] for value in each.values[:, 0].tolist()]


def rates_remote() -> list[float]:
    bodies = []
    for time, count in ROWS:
        request = remote_write.request_kind()()
        request.timeseries.add().samples.add(value=float(count), timestamp=time * 1000)
        request.timeseries[0].labels.add(name="__name__", value="hits")
        bodies.append(request.SerializeToString())
    return rates_posted(RemoteWriteDecoder(), bodies)


def rates_otlp() -> list[float]:
    bodies = []
    for time, count in ROWS:
        point = {"asDouble": count.replace("nan", "NaN"), "timeUnixNano": f"{time}000000000"}
        total = {"aggregationTemporality": 2, "isMonotonic": True, "dataPoints": [point]}
        scopes = [{"metrics": [{"name": "hits", "sum": total}]}]
        bodies.append(json.dumps({"resourceMetrics": [{"scopeMetrics": scopes}]}).encode())
    return rates_posted(OtlpDecoder(), bodies, **{"content-type": "application/json"})


def test_a_counter_has_the_same_rates_by_every_door(tmp_path: Path) -> None:
    lines = [f"m hits={count} {time}\n".encode() for time, count in ROWS]
    influx = [f"{time},{count},hits,m" for time, count in ROWS]
    files = {
        "a.csv": "\n".join(["time,hits", *(f"{time},{count}" for time, count in ROWS)]),
        "b.csv": "\n".join(["_time,_value,_field,_measurement", *influx]),
        "c.jsonl": "\n".join(f'{{"time": {time}, "hits": "{count}"}}' for time, count in ROWS),
        "d.json": json.dumps([{"metric": {"__name__": "hits"}, "values": ROWS}]),
    }
    doors: dict[str, Any] = {
        "line protocol": rates_posted(InfluxDecoder(), lines),
        "remote write": rates_remote(),
        "OTLP": rates_otlp(),
        "live": rates_live(),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        doors[name] = read(tmp_path / name, rates="*hits").values[:, 0]
    (at_once,) = InfluxDecoder().decode(b"".join(lines), {QUERY: "rates=*hits"})
    doors["line protocol at once"] = at_once.values[:, 0]
    for door, rates in doors.items():
        np.testing.assert_array_equal(rates, [*RATES.values()], door)


# --- names: a series with labels is one channel of one stream

LABELS = {"cpu": "0", "instance": "a", "job": "db"}
ASKED = {QUERY: "by=job,instance&without=az"}
TAGS = "az=eu,cpu=0,instance=a,job=db"


def in_file(path: Path, text: str) -> tuple[str, str]:
    path.write_text(text)
    ((stream, table),) = read_tables(path, by=["job", "instance"], without="az").tables.items()
    (channel,) = present(table.channels)
    return stream, channel


def sent(decoder: Decoder, body: bytes) -> tuple[str, str]:
    (arrival,) = decoder.decode(body, ASKED)
    return arrival.stream, arrival.channels[0]


def test_a_series_has_the_same_names_by_every_door(tmp_path: Path) -> None:
    metric = {"__name__": "node_load", "az": "eu", **LABELS}
    request = remote_write.request_kind()()
    request.timeseries.add().samples.add(value=1, timestamp=1_000)
    for key, value in metric.items():
        request.timeseries[0].labels.add(name=key, value=value)
    options = {"url": "http://h", "query": "q", "by": ["job", "instance"], "without": ["az"]}
    header = (
        f"_time,_value,_field,_measurement,{','.join(LABELS)}\n1970-01-01T00:00:01Z,1,load,node"
    )
    rows = [header + "," + ",".join(LABELS.values()), f'name,tags,time,load\nnode,"{TAGS}",1,1']
    assert {
        PrometheusSource("p", options)._named("query", metric),
        sent(RemoteWriteDecoder(), request.SerializeToString()),
        sent(InfluxDecoder(), f"node,{TAGS} load=1 1".encode()),
        in_file(tmp_path / "a.json", json.dumps([{"metric": metric, "values": [[1, "1"]]}])),
        *(in_file(tmp_path / f"{at}.csv", text) for at, text in enumerate(rows)),
    } == {("db/a", 'node_load{cpu="0"}')}


# --- CSV: a file, history that is uploaded, and samples that are posted

TABLES = [
    "stream,time,a,b\nx,2026-01-01T00:00:00Z,0.5,true\ny,2026-01-01T00:00:01Z,7,\n",
    "stream;datetime;a;b\nx;31.12.2026 00:00;0,5;\ny;31.12.2026 00:01;7;1.234,5\n",
    "Plant 7\nstream\tts\ta\n\t\t\xb0C\nx\t12/31/2026 11:59 PM\t0.5\nx\t12/31/2026 11:59 AM\t7\n",
    'ts,"a b",stream\r\n1767225600,0.5 %,x\r\n\r\n1767225601,7 %,"x"\r\n',
    "Stream,Date,Clock,a\nx,2026-12-31,11:59,1\ny,2026-12-31,12:00,5e3\n",
]


@pytest.mark.parametrize("text", TABLES)
def test_csv_that_is_posted_is_read_as_a_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "sent.csv"
    path.write_text(text)
    found = {each.stream: each for each in SamplesDecoder().decode(text.encode(), {})}
    by = "Stream" if "Stream" in text else "stream"
    tables = read_tables(path, by=by, on_duplicate="error").tables
    assert found.keys() == tables.keys()
    for name, table in tables.items():
        order = np.argsort(found[name].times)
        columns = [found[name].channels.index(channel) for channel in present(table.channels)]
        np.testing.assert_array_equal(found[name].values[order][:, columns], table.values)
        np.testing.assert_array_equal(found[name].times[order], present(table.times).view(np.int64))
