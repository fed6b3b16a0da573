"""Spoilt inputs: case `index` is always the same bytes."""

import gzip
import json
import zipfile
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache
from io import BytesIO
from random import Random

import zstandard

_CELLS = [
    *("", " ", "nan", "NA", "null", "Bad", "-", "inf", "-Infinity", "1e999", "0x10", "1_000"),
    *("1,5", "1.234,5", '"1,234.5"', "'", '"', '""', '"open', "12 %", "3 MB", "٣", "1.2.3", "++1"),
    *("2026-01-01", "2026-02-30", "31.12.2026 23:59", "12/31/2026 11:59:00 PM", "03/04/2026"),
    *("2199-01-01T00:00:00", "1767225600", "1767225600000", "9" * 400, "-9" * 30, "true", "False"),
    *("\x00", "\x1b[31m", "[bold]", "{", "}", "[", "]", "\ud7ff", "é", "µ", "time", "value", "#"),
    *("=1+1", "#N/A", "01-Jan-26 00:00:00", "00:00:01", "24:00", "\u202e", "\ufeff", "a" * 3000),
]
_ENDS = ["\n", "\r\n", "\r", "\n\n", "\n\r", "\u2028", "\x0b", "\x0c", ""]


def _csv(rng: Random, delimiter: str = ",", comma: bool = False) -> str:
    rows = [delimiter.join(["time", "host", "a", "b", "c"])]
    for at in range(rng.randint(2, 40)):
        time = f"2026-01-{1 + at // 24:02}T{at % 24:02}:00:00"
        numbers = [f"{rng.gauss(20, 5):.3f}" for _ in range(3)]
        if comma:
            numbers = [text.replace(".", ",") for text in numbers]
        rows.append(delimiter.join([time, rng.choice("xy"), *numbers]))
    return "\n".join(rows) + "\n"


def _german(rng: Random) -> str:
    return "Export vom 1.1.2026\n\n" + _csv(rng, ";", comma=True).replace("T", " ")


def _json_lines(rng: Random) -> str:
    rows = [
        {"time": 1767225600 + 60 * at, "host": rng.choice("xy"), "a": rng.random(), "b": at}
        for at in range(rng.randint(2, 40))
    ]
    return "\n".join(map(json.dumps, rows)) + "\n"


def _long(rng: Random) -> str:
    rows = ["Tag;Timestamp;Value;Status"]
    for at in range(rng.randint(2, 40)):
        for tag in ("TI-1", "PI-2"):
            word = rng.choice(["Bad", "I/O Timeout"]) if rng.random() < 0.05 else f"{at / 7:.2f}"
            rows.append(f"{tag};0{1 + at // 24}-Jan-26 {at % 24:02}:00:00;{word};Good")
    return "\n".join(rows) + "\n"


def _prometheus(rng: Random) -> str:
    series = [
        {
            "metric": {"__name__": name, "instance": host},
            "values": [[1767225600 + 60 * at, str(rng.random())] for at in range(20)],
        }
        for name in ("load", "heat")
        for host in ("x", "y")
    ]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": series}})


def _influx(rng: Random) -> str:
    rows = [
        "#datatype,string,long,dateTime:RFC3339,double,string,string,string",
        "#group,false,false,false,false,true,true,true",
        "#default,_result,,,,,,",
        ",result,table,_time,_value,_field,_measurement,host",
    ]
    for table, field in enumerate(("usage", "idle")):
        rows += [
            f",,{table},2026-01-01T00:{at:02}:00Z,{rng.random():.4f},{field},cpu,x"
            for at in range(20)
        ]
    return "\r\n".join(rows) + "\r\n"


def _spoil(rng: Random, text: str) -> str:
    """Return the text with a few cells, lines or characters changed."""
    for _ in range(rng.randint(0, 5)):
        kind = rng.randrange(7)
        at = rng.randrange(len(text) + 1)
        if kind == 0:
            text = text[:at] + rng.choice(_CELLS) + text[at:]
        elif kind == 1:
            text = text[:at] + text[at + rng.randint(1, 30) :]
        elif kind == 2:
            lines = text.splitlines(keepends=True)
            rng.shuffle(lines)
            text = "".join(lines)
        elif kind == 3:
            lines = text.splitlines()
            text = rng.choice(_ENDS).join(lines)
        elif kind == 4:
            lines = text.splitlines(keepends=True)
            where = rng.randrange(len(lines) + 1)
            text = "".join([*lines[:where], *lines[:2], *lines[where:]])
        elif kind == 5:
            cells = text.split(",")
            cells[rng.randrange(len(cells))] = rng.choice(_CELLS)
            text = ",".join(cells)
        else:
            text = text[:at]
    return text


def _shape(rng: Random) -> str:
    """Return CSV of an odd shape: names that repeat or are empty, many columns, cells in quotes."""
    width = rng.choice([1, 2, 3, 5, 300])
    names = [rng.choice(["time", "Date", "Time", "a", "b", "", "a", "host", "0"]) for _ in "x" * 5]
    header = (names * width)[:width]
    cells = ["1", "2.5", '"3"', '"4,5"', '"a\nb"', "", "2026-01-01", "12:00", *_CELLS]
    few = rng.sample(cells, 4)
    rows = [[rng.choice(few) for _ in header] for _ in range(rng.randint(0, 30))]
    delimiter = rng.choice([",", ";", "\t", "|", " "])
    return "\n".join(delimiter.join(row) for row in [header, *rows])


_MAKERS: list[Callable[[Random], str]] = [
    _csv,
    lambda rng: _csv(rng, ";"),
    lambda rng: _csv(rng, "\t"),
    _german,
    _json_lines,
    _long,
    _prometheus,
    _influx,
    _shape,
]


@cache
def _workbook() -> dict[str, bytes]:
    """The parts of a workbook with the columns of `_csv`."""
    import openpyxl

    book, out = openpyxl.Workbook(), BytesIO()
    sheet = book.active
    sheet.append(["time", "host", "a", "b", "c"])
    for at in range(20):
        sheet.append([datetime(2026, 1, 1, at), "x", at / 7, f"{at},5", at % 3 == 0])
    book.save(out)
    with zipfile.ZipFile(out) as parts:
        return {name: parts.read(name) for name in parts.namelist()}


def _excel(rng: Random) -> bytes:
    """Return a workbook of which the XML of a part is spoilt."""
    parts = dict(_workbook())
    for name in rng.sample(sorted(parts), rng.randint(0, 2)):
        parts[name] = _spoil(rng, parts[name].decode()).encode("utf-8", "replace")
    if rng.random() < 0.5:
        name = "xl/worksheets/sheet1.xml"
        number = rng.choice(["1e999", "nan", "-1", "9" * 30, "", "x", "99999999", "&lt;"])
        text = parts[name].decode()
        parts[name] = text.replace(f"<v>{rng.randint(0, 6)}</v>", f"<v>{number}</v>").encode()
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, part in parts.items():
            if rng.random() > 0.02:
                file.writestr(name, part)
    return out.getvalue()


def _parquet(rng: Random) -> bytes:
    """Return a Parquet file with columns of any type."""
    import polars as pl

    count = rng.choice([0, 1, 2, 20])
    moments = [datetime(2026, 1, 1 + at) for at in range(count)]
    columns = {
        "time": rng.choice([moments, [each.isoformat() for each in moments], list(range(count))]),
        "host": ["x"] * count,
        "a": [rng.random() for _ in range(count)],
        "b": rng.choice(
            [
                [None] * count,
                [[1.0, 2.0]] * count,
                [{"x": 1}] * count,
                [b"\x00"] * count,
                [True] * count,
                [float("inf")] * count,
                [each.time() for each in moments],
                [timedelta(1)] * count,
                [2**63] * count,
                ["1,5"] * count,
            ]
        ),
        rng.choice(["c", "label", ""]): list(range(count)),
    }
    if rng.random() < 0.2:
        del columns[rng.choice(["time", "host", "a", "b"])]
    out = BytesIO()
    pl.DataFrame(columns, strict=False).write_parquet(out)
    return out.getvalue()


def spoilt_file(index: int) -> bytes:
    """Return a file that may be wrong in any way."""
    rng = Random(index)
    kind = rng.random()
    if kind < 0.06:
        return _damaged(rng, _excel(rng) if kind < 0.04 else _parquet(rng))
    text = _spoil(rng, rng.choice(_MAKERS)(rng))
    encoding = rng.choice(["utf-8"] * 6 + ["utf-8-sig", "utf-16", "utf-16-le", "cp1252"])
    content = text.encode(encoding, "replace")
    if rng.random() < 0.2:
        content = gzip.compress(content, mtime=0)
    elif rng.random() < 0.1:
        content = zstandard.ZstdCompressor().compress(content)
    return _damaged(rng, content)


def _damaged(rng: Random, content: bytes) -> bytes:
    """Return the bytes, of which some may be others, or cut off."""
    if rng.random() < 0.3:
        changed = bytearray(content)
        for _ in range(rng.randint(1, 8)):
            if changed:
                changed[rng.randrange(len(changed))] = rng.randrange(256)
        content = bytes(changed)
    return content[: rng.randrange(len(content) + 1)] if rng.random() < 0.1 else content


def spoilt_line(rng: Random) -> str:
    """Return a line that may be wrong in any way."""
    text = rng.choice(
        [
            f"2026-01-01T00:00:{rng.randrange(60):02},x,{rng.random()},{rng.random()},1",
            f"{rng.randrange(40)}.01.2026 12:00;x;{rng.random()};3,5;1",
            json.dumps({"time": rng.randrange(2**40), "host": "x", "a": rng.random(), "b": 1}),
            "time,host,a,b,c",
            "c,b,a,host,time",
        ]
    )
    return _spoil(rng, text)
