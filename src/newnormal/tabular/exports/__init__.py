"""Files of other programs as the CSV text that the readers of lines read.

Excel workbooks, Parquet, the JSON of Prometheus' `query_range`, CSV of InfluxDB, and Grafana's
series as rows: finished exports, each held in memory once.
"""

from collections.abc import Iterator, Sequence
from typing import BinaryIO

from newnormal.arrivals.naming import Naming
from newnormal.tabular.exports import excel, grafana, influx, parquet, prometheus, sniffing
from newnormal.tabular.exports.points import SkippedLines
from newnormal.tabular.reading import Reading

__all__ = ["ExportText", "recognised", "translate"]

recognised = sniffing.recognised


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
