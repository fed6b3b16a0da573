"""Files as programs write them, of one small plant, and what a correct reader gives.

Each function of `FILES` writes a file into a folder, of as many samples as it is told (at least
18), and returns what is in it. The plant has three channels, a value that is missing, and a fault
in the last part.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from newnormal.types import Floats, Times

LENGTH = 1_200
CHANNELS = ("temperature", "pressure", "flow")
DECIMALS = (2, 3, 1)
BAD_WORDS = ("Bad", "No Data", "I/O Timeout")
_STEP = np.timedelta64(60, "s")
_MISSING = (17, 1)  # sample and channel


@dataclass(frozen=True)
class Written:
    """A file and what a correct reader gives of it.

    Attributes
    ----------
    path
        The file.
    channels
        The names of the channels, in the order of the columns of `values`.
    values
        Exactly what the file says; NaN where a value is missing.
    times
        In UTC if there is a `zone`, as the clock on the wall if it is None.
    zone
        "UTC", an offset such as "+01:00", or None: the file does not say it.
    options
        What a user must say to read it (`Reading.of`); {} if it is found out.
    long
        Whether it has a row a value and is read as long data.
    by, streams
        For a file of several streams, the column that names them, and each by its name.
    """

    path: Path
    channels: tuple[str, ...]
    values: Floats
    times: Times
    zone: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    long: bool = False
    by: str | None = None
    streams: dict[str, Written] = field(default_factory=dict)


def fault_at(length: int = LENGTH) -> int:
    """Return the first sample of the fault, which lasts to the end."""
    return length * 5 // 6


def plant(length: int = LENGTH, seed: int = 0) -> Floats:
    """Return temperature, pressure and flow, rounded as sensors give them, with a fault."""
    rng = np.random.default_rng(seed)
    t = np.arange(length)[:, None]
    waves = np.sin(2 * np.pi * t / np.array([37.0, 53.0, 71.0]) + seed)
    values = np.array([60.0, 4.2, 1200.0]) + (waves + rng.normal(0, 0.1, (length, 3))) * np.array(
        [2.0, 0.15, 90.0]
    )
    values[fault_at(length) :, 0] += 15.0
    values[fault_at(length) :, 2] -= 600.0
    values[_MISSING] = np.nan
    columns = [np.round(values[:, at], DECIMALS[at]) for at in range(3)]
    rounded: Floats = np.column_stack(columns)
    return rounded


def _times(length: int, first: str = "2026-01-01T00:00:00") -> Times:
    times: Times = np.datetime64(first, "ns") + np.arange(length) * _STEP
    return times


def _moments(times: Times) -> list[datetime]:
    found: list[datetime] = times.astype("datetime64[us]").tolist()
    return found


def _number(value: float, channel: int, missing: str = "") -> str:
    return missing if np.isnan(value) else f"{value:.{DECIMALS[channel]}f}"


def _row(values: Sequence[float], missing: str = "") -> list[str]:
    return [_number(value, at, missing) for at, value in enumerate(values)]


def _text(rows: Sequence[Sequence[Any]], delimiter: str = ",", end: str = "\r\n") -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator=end).writerows(rows)
    return out.getvalue()


def _plain(length: int, end: str = "\n") -> tuple[str, Floats, Times]:
    values, times = plant(length), _times(length)
    rows = [
        [moment.isoformat() + "Z", *_row(row)]
        for moment, row in zip(_moments(times), values.tolist(), strict=True)
    ]
    return _text([["time", *CHANNELS], *rows], end=end), values, times


def plain_csv(folder: Path, length: int = LENGTH) -> Written:
    """As this project's own guides have it: for comparison."""
    text, values, times = _plain(length)
    path = folder / "plain.csv"
    path.write_text(text, encoding="utf-8", newline="")
    return Written(path, CHANNELS, values, times, "UTC")


def excel_csv_german(folder: Path, length: int = LENGTH) -> Written:
    """Excel in German: semicolons, decimal commas, days first, cp1252, a row of units."""
    values, times = plant(length), _times(length, "2026-12-31T10:00:00")
    channels = ("Temperatur", "Druck", "Durchfluss")
    rows = [
        [moment.strftime("%d.%m.%Y %H:%M:%S"), *(cell.replace(".", ",") for cell in _row(row))]
        for moment, row in zip(_moments(times), values.tolist(), strict=True)
    ]
    path = folder / "anlage.csv"
    path.write_bytes(
        _text([["Zeit", *channels], ["", "°C", "bar", "l/min"], *rows], ";").encode("cp1252")
    )
    return Written(path, channels, values, times)


def excel_csv_us(folder: Path, length: int = LENGTH) -> Written:
    """Excel in the US: months first, AM and PM, thousands in quotes."""
    values, times = plant(length), _times(length, "2026-12-31T10:00:00")
    channels = ("Temperature", "Pressure", "Flow")
    rows = []
    for moment, (temperature, pressure, flow) in zip(_moments(times), values.tolist(), strict=True):
        clock = f"{moment.hour % 12 or 12}:{moment:%M:%S} {moment:%p}"
        rows.append(
            [
                f"{moment.month}/{moment.day}/{moment.year} {clock}",
                *_row([temperature, pressure]),
                f"{flow:,.1f}",
            ]
        )
    path = folder / "plant-us.csv"
    path.write_bytes(_text([["Date", *channels], *rows]).encode("cp1252"))
    return Written(path, channels, values, times)


def excel_xlsx(folder: Path, length: int = LENGTH) -> Written:
    """An Excel workbook: a title over all columns, an empty row, units, an empty sheet before."""
    import openpyxl

    values, times = plant(length), _times(length)
    book = openpyxl.Workbook()
    book.active.title = "Notes"
    sheet = book.create_sheet("Data")
    sheet.append(["Press 4, January 2026"])
    sheet.merge_cells("A1:D1")
    sheet.append([])
    sheet.append(["Time", *CHANNELS])
    sheet.append([None, "°C", "bar", "l/min"])
    for moment, row in zip(_moments(times), values.tolist(), strict=True):
        sheet.append([moment, *(None if np.isnan(value) else value for value in row)])
        sheet.cell(sheet.max_row, 1).number_format = "dd.mm.yyyy hh:mm:ss"
    path = folder / "plant.xlsx"
    book.save(path)
    return Written(path, CHANNELS, values, times)


def influx_annotated(folder: Path, length: int = LENGTH) -> Written:
    """InfluxDB 2: a row a value, three tables of one schema, then one of a text."""
    values, times = plant(length), _times(length)
    stamps = [f"{moment.isoformat()}Z" for moment in _moments(times)]
    span = [stamps[0], stamps[-1]]
    header = ["", "result", "table", "_start", "_stop", "_time", "_value", "_field"]
    header += ["_measurement", "host"]

    def annotations(kind: str) -> list[list[str]]:
        time = "dateTime:RFC3339"
        return [
            ["#group", *(["false"] * 2 + ["true"] * 2 + ["false"] * 2 + ["true"] * 3)],
            ["#datatype", "string", "long", time, time, time, kind, "string", "string", "string"],
            ["#default", "_result", *[""] * 8],
            header,
        ]

    rows = annotations("double")
    for at, name in enumerate(CHANNELS):
        for stamp, value in zip(stamps, values[:, at].tolist(), strict=True):
            if not np.isnan(value):
                cells = [stamp, _number(value, at), name, "plant", "press4"]
                rows.append(["", "", str(at), *span, *cells])
    text = [["", "", "3", *span, stamps[0], "started", "message", "plant", "press4"]]
    path = folder / "influx.csv"
    path.write_text(
        _text(rows) + "\r\n" + _text([*annotations("string"), *text]) + "\r\n", newline=""
    )
    return Written(path, _influx_names('{host="press4"}'), values, times, "UTC")


def _influx_names(behind: str = "") -> tuple[str, ...]:
    return tuple(f"plant_{name}{behind}" for name in CHANNELS)


def influx_1(folder: Path, length: int = LENGTH) -> Written:
    """InfluxDB 1, `influx -format csv`: tags in one cell, times in nanoseconds."""
    values, times = plant(length), _times(length)
    rows = [
        ["plant", "host=press4", str(time), *_row(row)]
        for time, row in zip(times.astype(np.int64).tolist(), values.tolist(), strict=True)
    ]
    path = folder / "influx1.csv"
    path.write_text(_text([["name", "tags", "time", *CHANNELS], *rows], end="\n"), newline="")
    return Written(path, _influx_names('{host="press4"}'), values, times, "UTC")


def _grafana_header(names: Sequence[str], delimiter: str = ",") -> str:
    return delimiter.join(f'"{name}"' for name in names) + "\n"


def grafana_joined(folder: Path, length: int = LENGTH) -> Written:
    """Grafana, series joined by time: times of the browser's clock."""
    values, times = plant(length), _times(length)
    rows = [
        [f"{moment:%Y-%m-%d %H:%M:%S}", *_row(row)]
        for moment, row in zip(_moments(times), values.tolist(), strict=True)
    ]
    path = folder / "Panel-data-as-joinbyfield.csv"
    path.write_text(_grafana_header(["Time", *CHANNELS]) + _text(rows, end="\n"), newline="")
    return Written(path, CHANNELS, values, times)


def grafana_joined_sep(folder: Path, length: int = LENGTH) -> Written:
    """Grafana, for Excel and not formatted: `sep=` in front, times in milliseconds."""
    values, times = plant(length), _times(length)
    rows = [
        [str(time // 10**6), *_row(row)]
        for time, row in zip(times.astype(np.int64).tolist(), values.tolist(), strict=True)
    ]
    text = "sep=,\r\n" + _grafana_header(["Time", *CHANNELS]) + _text(rows, end="\n")
    path = folder / "Panel-for-excel.csv"
    path.write_text(text, encoding="utf-8-sig", newline="")
    return Written(path, CHANNELS, values, times)  # a number names no zone


def grafana_joined_units(folder: Path, length: int = LENGTH) -> Written:
    """Grafana, formatted: a unit behind each value."""
    values, times = plant(length), _times(length)
    units = (" °C", " bar", " L/min")
    rows = [
        [
            f"{moment:%Y-%m-%d %H:%M:%S}",
            *(cell and cell + unit for cell, unit in zip(_row(row), units, strict=True)),
        ]
        for moment, row in zip(_moments(times), values.tolist(), strict=True)
    ]
    path = folder / "Panel-formatted.csv"
    text = _grafana_header(["Time", *CHANNELS]) + _text(rows, end="\n")
    path.write_text(text, encoding="utf-8", newline="")
    return Written(path, CHANNELS, values, times)


def grafana_rows(folder: Path, length: int = LENGTH) -> Written:
    """Grafana up to version 6, series as rows: semicolons, an offset, thousands with commas."""
    values, times = plant(length), _times(length)
    lines = []
    for at, name in enumerate(CHANNELS):
        local = _moments(times + np.timedelta64(1, "h"))
        for moment, value in zip(local, values[:, at].tolist(), strict=True):
            cell = "null" if np.isnan(value) else f"{value:,.{DECIMALS[at]}f}"
            lines.append(f'"{name}";"{moment.isoformat()}+01:00";{cell}\n')
    path = folder / "grafana_data_export.csv"
    path.write_text(_grafana_header(["Series", "Time", "Value"], ";") + "".join(lines), newline="")
    return Written(path, CHANNELS, values, times, "+01:00")


_METRICS = ("plant_temperature_celsius", "plant_pressure_bar", "plant_flow_liters_per_minute")


def _matrix(values: Floats, times: Times, instance: str) -> list[dict[str, Any]]:
    seconds = [time // 10**9 for time in times.astype(np.int64).tolist()]
    return [
        {
            "metric": {"__name__": name, "instance": instance, "job": "plant"},
            "values": [
                [time, _number(value, at, "NaN")]
                for time, value in zip(seconds, values[:, at].tolist(), strict=True)
            ],
        }
        for at, name in enumerate(_METRICS)
    ]


def _answer(result: list[dict[str, Any]]) -> str:
    data = {"resultType": "matrix", "result": result}
    return json.dumps({"status": "success", "data": data}, separators=(",", ":"))


def prometheus_one(folder: Path, length: int = LENGTH) -> Written:
    """Prometheus' `query_range` of one instance."""
    values, times = plant(length), _times(length)
    path = folder / "query_range.json"
    path.write_text(_answer(_matrix(values, times, "press4:9100")))
    names = tuple(f'{name}{{instance="press4:9100",job="plant"}}' for name in _METRICS)
    return Written(path, names, values, times, "UTC")


def prometheus_two(folder: Path, length: int = LENGTH) -> Written:
    """Prometheus' `query_range` of two instances: two streams by their label `instance`."""
    path = folder / "query_range_two.json"
    times = _times(length)
    plants = {f"press{at}:9100": plant(length, at) for at in (4, 5)}
    one, two = (_matrix(values, times, name) for name, values in plants.items())
    path.write_text(_answer([each for pair in zip(one, two, strict=True) for each in pair]))
    names = tuple(f'{name}{{job="plant"}}' for name in _METRICS)
    streams = {name: Written(path, names, values, times, "UTC") for name, values in plants.items()}
    channels = tuple(
        f'{metric}{{instance="{instance}",job="plant"}}'
        for metric in _METRICS
        for instance in plants
    )
    both = np.stack(list(plants.values()), axis=2).reshape(length, -1)
    return Written(path, channels, both, times, "UTC", by="instance", streams=streams)


_TAGS = ("TI-101.PV", "PI-101.PV", "FI-101.PV")


def historian_long(folder: Path, length: int = LENGTH, decimal: str = ".") -> Written:
    """A historian as OSIsoft's: a row a value, `01-Jan-26` and words where there is none."""
    values, times = plant(length), _times(length)
    words = {(40, 0): 0, (41, 0): 1, (200, 2): 2}
    rows = []
    for sample, moment in enumerate(_moments(times)):
        for at, tag in enumerate(_TAGS):
            word = words.get((sample, at), 0 if np.isnan(values[sample, at]) else None)
            cell = _number(values[sample, at], at) if word is None else BAD_WORDS[word]
            if word is None:
                cell = cell.replace(".", decimal)
            else:
                values[sample, at] = np.nan
            stamp = f"{moment:%d-%b-%y %H:%M:%S}"
            rows.append([tag, stamp, cell, "Good" if word is None else "Bad"])
    path = folder / f"historian{'-comma' if decimal == ',' else ''}.csv"
    path.write_text(
        _text([["Tag", "Timestamp", "Value", "Status"], *rows], ";"), encoding="utf-8", newline=""
    )
    return Written(path, _TAGS, values, times, options={"na": BAD_WORDS}, long=True)


def historian_long_comma(folder: Path, length: int = LENGTH) -> Written:
    """The same with decimal commas."""
    return historian_long(folder, length, ",")


def gzip_csv(folder: Path, length: int = LENGTH) -> Written:
    """A CSV that was compressed with gzip."""
    text, values, times = _plain(length)
    path = folder / "plant.csv.gz"
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    return Written(path, CHANNELS, values, times, "UTC")


def zstd_csv(folder: Path, length: int = LENGTH) -> Written:
    """A CSV that was compressed with zstd."""
    import zstandard

    text, values, times = _plain(length)
    path = folder / "plant.csv.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress(text.encode()))
    return Written(path, CHANNELS, values, times, "UTC")


def utf16_text(folder: Path, length: int = LENGTH) -> Written:
    """Excel's "Unicode text": UTF-16 with its mark, tabs, a degree sign in a name."""
    text, values, times = _plain(length, "\r\n")
    path = folder / "plant-utf16.txt"
    channels = ("temperature [°C]", *CHANNELS[1:])
    text = text.replace(CHANNELS[0], channels[0]).replace(",", "\t")
    path.write_bytes(b"\xff\xfe" + text.encode("utf-16-le"))
    return replace(Written(path, CHANNELS, values, times, "UTC"), channels=channels)


FILES: dict[str, Callable[..., Written]] = {
    each.__name__: each
    for each in (
        *(plain_csv, excel_csv_german, excel_csv_us, excel_xlsx, influx_annotated, influx_1),
        *(grafana_joined, grafana_joined_sep, grafana_joined_units, grafana_rows, prometheus_one),
        *(prometheus_two, historian_long, historian_long_comma, gzip_csv, zstd_csv, utf16_text),
    )
}
