"""Files of other programs as the CSV text that the readers of lines read.

Excel workbooks, Parquet, the JSON of Prometheus' `query_range`, CSV of InfluxDB, and Grafana's
series as rows: finished exports, each held in memory once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO

from newnormal.tabular.reading import Reading
from newnormal.tabular.translating import excel, grafana, influx, parquet, prometheus, sniffing

__all__ = ["Translated", "recognised", "translate"]

recognised = sniffing.recognised


class Translated(Iterator[bytes]):
    """The text of a file, piece by piece.

    Attributes
    ----------
    written
        What the user is told of how the file is written: "program", "sheet".
    """

    def __init__(self, pieces: Iterator[bytes], **written: str) -> None:
        self.written = written
        self._pieces = pieces

    def __next__(self) -> bytes:
        return next(self._pieces)


def translate(kind: str, file: BinaryIO, reading: Reading, by: Sequence[str] = ()) -> Translated:
    r"""Return a finished export as wide CSV text: UTF-8, commas, one header, ISO 8601 times.

    Parameters
    ----------
    kind
        What `recognised` returned.
    file
        All of it, decompressed, and as UTF-8 where it is text.
    reading
        The sheet of a workbook; columns that are left out.
    by
        The columns, or labels, that name the stream.

    Raises
    ------
    InputError
        If the file is not what it should be; the text is written when the file is known to be
        sound.
    MissingExtraError
        If what is needed to read it is not installed.

    Examples
    --------
    >>> from io import BytesIO
    >>> file = BytesIO(b'"Series";"Time";"Value"\n"load";"2026-01-01T00:00:00Z";0.5\n')
    >>> translate("grafana_rows", file, Reading()).written
    {'program': 'Grafana, series as rows'}
    """
    if kind == "excel":
        sheet, pieces = excel.translate(file, reading.sheet)
        return Translated(pieces, program="Excel", sheet=sheet)
    if kind == "parquet":
        return Translated(parquet.translate(file, reading, by), program="Parquet")
    if kind == "prometheus":
        return Translated(prometheus.translate(file, by), program="Prometheus")
    if kind == "influx":
        return Translated(influx.translate(file, by), program="InfluxDB")
    if kind == "grafana_rows":
        return Translated(grafana.translate(file, by), program="Grafana, series as rows")
    raise ValueError(f"no translation for {kind!r}")
