"""Files of other programs as the CSV text that the readers of lines read.

Excel workbooks, Parquet, the JSON of Prometheus' `query_range`, CSV of InfluxDB, and Grafana's
series as rows: finished exports, each held in memory once.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from newnormal.arrivals.naming import Naming
from newnormal.tabular.exports import excel, grafana, influx, parquet, prometheus
from newnormal.tabular.exports.wide import SkippedLines
from newnormal.tabular.reading import Reading

__all__ = ["ExportText", "recognised", "translate"]


class ExportText(Iterator[bytes]):
    """The text of a file, piece by piece."""

    def __init__(
        self, pieces: Iterator[bytes], bad: SkippedLines | None = None, /, **written: str
    ) -> None:
        self.written = written  # how the file is written, for the user: "program", "sheet"
        # bad_lines, first_bad: how many of its lines held no sample and are left out; what was
        # wrong with the first, with its number. Complete as soon as `translate` has returned
        self.bad_lines = 0 if bad is None else bad.count
        self.first_bad = None if bad is None or bad.first is None else bad.first.message
        self._pieces = pieces

    def __next__(self) -> bytes:
        return next(self._pieces)


def translate(kind: str, file: BinaryIO, reading: Reading, by: Sequence[str] = ()) -> ExportText:
    r"""Return a finished export as wide CSV text: UTF-8, commas, one header, ISO 8601 times.

    `kind` is what `recognised` returned; `file` is decompressed, and UTF-8 where it is text. `by`
    are the columns, or labels, that name the stream. The text is written when the file is known to
    be sound.

    >>> from io import BytesIO
    >>> file = BytesIO(b'"Series";"Time";"Value"\n"load";"2026-01-01T00:00:00Z";0.5\n')
    >>> translate("grafana_rows", file, Reading()).written
    {'program': 'Grafana, series as rows'}
    """
    naming = Naming(by, reading.without)
    if kind == "excel":
        sheet, pieces = excel.translate(file, reading.sheet)
        return ExportText(pieces, program="Excel", sheet=sheet)
    if kind == "parquet":
        return ExportText(parquet.translate(file, reading, by), program="Parquet")
    if kind == "prometheus":
        return ExportText(prometheus.translate(file, naming), program="Prometheus")
    bad = SkippedLines()
    if kind == "influx":
        pieces = influx.translate(file, naming, bad)
        return ExportText(pieces, bad, program="InfluxDB")
    if kind == "grafana_rows":
        pieces = grafana.translate(file, naming, bad)
        return ExportText(pieces, bad, program="Grafana, series as rows")
    raise ValueError(f"no translation for {kind!r}")


_RESULT_TYPE = re.compile(r'"resultType"\s*:\s*"(?:matrix|vector|scalar|string)"')
_ERROR = re.compile(r'"status"\s*:\s*"error"')
_ERROR_TYPE = re.compile(r'"errorType"\s*:')
_METRIC = re.compile(r'"metric"\s*:\s*\{[^{}]*\}\s*,\s*"values?"\s*:\s*\[')
_SERIES = re.compile(r'"result"\s*:\s*\[\s*\{\s*"(?:metric|values?)"\s*:')

_ANNOTATION = re.compile(r'"?#(?:datatype|group|default)"?,')
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
_UNIX = re.compile(r"\d{13}|\d{16}|\d{19}")
_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d")


def recognised(head: bytes, reading: Reading) -> str | None:
    r"""Return which translation a file needs, or None: it is read line by line as it is.

    It is "excel", "parquet", "prometheus", "influx" or "grafana_rows", told by the first bytes (up
    to 64 KB, decompressed) unless the format is named. Every zip archive and every file of the old
    .xls format is "excel": its translation says what is wrong with it.

    >>> recognised(b'{"status":"success","data":{"resultType":"matrix"', Reading())
    'prometheus'
    >>> recognised(b"time,load\n2026-01-01,0.5\n", Reading())
    """
    if reading.format == "jsonl":
        return None
    if reading.format is not None and reading.format != "csv":
        return reading.format
    kind = None if reading.format == "csv" else _by_magic(head)
    return kind or _by_text(head.decode("utf-8", errors="replace").lstrip("\ufeff \t\r\n"))


def _by_magic(head: bytes) -> str | None:
    if head.startswith((excel.ZIP, excel.OLE)):
        return "excel"
    return "parquet" if head.startswith((parquet.MAGIC, b"PARE")) else None


def _by_text(text: str) -> str | None:
    if text[:1] in ("{", "["):
        return "prometheus" if _is_prometheus(text) else None
    if _is_influx(text):
        return "influx"
    return "grafana_rows" if _is_grafana_rows(text) else None


def _is_prometheus(text: str) -> bool:
    if _RESULT_TYPE.search(text) or _METRIC.search(text) or _SERIES.search(text):
        return True
    return bool(_ERROR.search(text) and _ERROR_TYPE.search(text))


def _is_influx(text: str) -> bool:
    if _ANNOTATION.match(text):
        return True
    rows = _rows(text, ",", 200)
    header = rows[0] if rows else []
    if {"_time", "_value"} <= set(header) and {"_field", "_measurement"} & set(header):
        return True
    if "_time" in header and {"result", "table"} <= set(header):
        return True
    if "error" in header and "reference" in header and len(header) <= 3:
        return True
    if header[:3] == ["name", "tags", "time"]:
        return True
    return header[:2] == ["name", "time"] and len(header) > 2 and _is_one_measurement(rows[1:])


def _is_one_measurement(rows: list[list[str]]) -> bool:
    """Return whether rows of name, time, values are of InfluxDB 1: long data has many names."""
    whole = [row for row in rows if len(row) > 2]
    times = [row[1] for row in whole]
    return len({row[0] for row in whole}) == 1 and (
        all(map(_RFC3339.fullmatch, times)) or all(map(_UNIX.fullmatch, times))
    )


def _is_grafana_rows(text: str) -> bool:
    if text[:4].lower() == "sep=":
        text = text.partition("\n")[2]
    delimiter = next((mark for mark in ";,\t" if mark in text.partition("\n")[0]), ";")
    rows = _rows(text, delimiter, 2)
    if len(rows) < 2 or [cell.strip().lower() for cell in rows[0]] != ["series", "time", "value"]:
        return False
    return len(rows[1]) >= 3 and _ISO.match(rows[1][1]) is not None


def _rows(text: str, delimiter: str, count: int) -> list[list[str]]:
    lines = text.splitlines()
    if len(lines) > 1 and not text.endswith(("\r", "\n")):
        lines.pop()  # it may be cut off
    try:
        return list(
            csv.reader([line for line in lines[:count] if line.strip()], delimiter=delimiter)
        )
    except csv.Error:
        return []
