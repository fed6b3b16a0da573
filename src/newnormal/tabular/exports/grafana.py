"""Grafana's CSV of series as rows: a line a value, with the name of its series."""

import re
from collections.abc import Iterator
from typing import BinaryIO

from newnormal.arrivals.naming import Naming
from newnormal.errors import InputError
from newnormal.tabular.exports.wide import (
    Clock,
    LabelledSeries,
    SeriesPart,
    SkippedLines,
    check_by,
    decoded,
    records,
    wide_csv,
)

_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d*)?")


def translate(file: BinaryIO, naming: Naming, bad: SkippedLines) -> Iterator[bytes]:
    r"""Return the series as wide CSV text; their names are the channels.

    With `by` the column of the series, each is a stream with the channel "value". Lines that are
    not a series, a time and a value are counted in `bad`.

    >>> from io import BytesIO
    >>> text = b'Series;Time;Value\na;2026-01-01T01:00:00+01:00;1,000.5\n'
    >>> print(b"".join(translate(BytesIO(text), Naming([]), SkippedLines())).decode(), end="")
    time,a
    2026-01-01T01:00:00+01:00,1000.5
    """
    text = decoded(file)
    skipped = 0
    if text[:4].lower() == "sep=":
        skipped, text = 1, text.partition("\n")[2]
    line = text.partition("\n")[0]
    delimiter = next((word for word in ";,\t" if word in line), ";")
    rows = records(text, delimiter)
    _, header = next(rows, (0, []))
    if [cell.strip().lower() for cell in header] != ["series", "time", "value"]:
        raise InputError(f"expected the columns Series, Time and Value, found {header!r}")
    column = header[0].strip()
    streams = [word for word in naming.by if word.lower() == "series"]
    check_by([word for word in naming.by if word not in streams], [column])
    clock = Clock()
    parts: dict[tuple[str, tuple[tuple[str, str], ...]], SeriesPart] = {}  # by name and labels
    for line_number, cells in rows:
        if not cells:
            continue
        try:
            moment = clock.read(cells[1] if len(cells) > 2 else "", line_number + skipped)
        except InputError as error:
            bad.add(error if len(cells) > 2 else _cut(line_number + skipped, cells))
            continue
        # A comma that is the delimiter too cuts thousands apart where they are not in quotes.
        name, value = cells[0], ",".join(cells[2:]) if delimiter == "," else cells[2]
        labels = dict.fromkeys(streams, name)
        if _THOUSANDS.fullmatch(value.strip()):
            value = value.replace(",", "")
        key = "value" if streams else name, tuple(labels.items())
        parts.setdefault(key, SeriesPart()).add(moment, value)
    series = [
        LabelledSeries(name, dict(labels), *part.arrays()) for (name, labels), part in parts.items()
    ]
    bad.check(bool(series))
    return wide_csv(series, naming, clock.zone)


def _cut(line: int, cells: list[str]) -> InputError:
    return InputError(f"line {line}: expected a series, a time and a value, found {cells!r}")
