"""CSV of InfluxDB: annotated or not, a row a value or pivoted, and that of InfluxDB 1."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import numpy as np

from newnormal.errors import InputError
from newnormal.tabular.columns import listed
from newnormal.tabular.exports.influx_tables import Collected, OpenTable
from newnormal.tabular.exports.points import Clock, SkippedLines, decoded, records
from newnormal.tabular.exports.wide import LabelledSeries, check_by, wide_csv


def translate(file: BinaryIO, by: Sequence[str], bad: SkippedLines) -> Iterator[bytes]:
    r"""Return the tables of an export as wide CSV text.

    A channel is called by its field, with the measurement in front where several have such a
    field, and the tags in braces that tell series of one stream apart. Damaged lines are counted in
    `bad`.

    Examples
    --------
    >>> from io import BytesIO
    >>> text = (b"_time,_value,_field,_measurement,host\n"
    ...         b"2026-01-01T00:00:00Z,0.5,load1,system,a\n"
    ...         b"2026-01-01T00:00:00Z,0.25,load5,system,a\n")
    >>> print(b"".join(translate(BytesIO(text), ["host"], SkippedLines())).decode(), end="")
    time,host,load1,load5
    2026-01-01T00:00:00Z,a,0.5,0.25
    """
    collected = Collected(by, Clock(), bad)
    _read(decoded(file), collected)
    bad.check(bool(collected.parts))
    if not collected.parts:
        raise InputError(
            "expected samples, found none",
            hint="check the query and the span of time it was asked for",
        )
    check_by(by, list(dict.fromkeys(label for _, _, key in collected.parts for label, _ in key)))
    return wide_csv(_named(_untexted(collected, by)), by, collected.clock.zone)


def _read(text: str, collected: Collected) -> None:
    notes: dict[str, list[str]] = {}
    table: OpenTable | None = None
    for line, cells in records(text):
        blank = not any(cell.strip() for cell in cells)
        if table is not None and (blank or cells[0].startswith("#") or table.is_header(cells)):
            table.close()
            # A header that comes again has the annotations of the one before.
            notes, table = (notes if not blank and cells[0][:1] != "#" else {}), None
        if blank:
            notes = {}
        elif cells[0].startswith("#"):
            notes[cells[0].strip()] = cells
        elif table is None:
            table = OpenTable([cell.strip() for cell in cells], notes, collected)
        else:
            table.add(line, cells)
    if table is not None:
        table.close()


def _untexted(collected: Collected, by: Sequence[str]) -> list[tuple[str, LabelledSeries]]:
    """Return measurements and series of numbers, without texts that tell no series apart."""
    series = [
        (measurement, LabelledSeries(name, dict(labels), *part.arrays()))
        for (measurement, name, labels), part in collected.parts.items()
        if part.numbers or not part.texts
    ]
    if not series:
        names = dict.fromkeys(name for _, name, _ in collected.parts)
        raise InputError(f"expected numbers, found only texts in {listed(list(names))}")
    for text in sorted(collected.texts - set(by)):
        merged = _without(text, series)
        if merged is not None:
            series = merged
    return series


def _without(
    text: str, series: list[tuple[str, LabelledSeries]]
) -> list[tuple[str, LabelledSeries]] | None:
    """Return the series without a label, joined; None if some then have one time twice."""
    groups: dict[tuple[str, str, frozenset[tuple[str, str]]], list[LabelledSeries]] = defaultdict(
        list
    )
    for measurement, one in series:
        labels = frozenset(pair for pair in one.labels.items() if pair[0] != text)
        groups[measurement, one.name, labels].append(one)
    merged = []
    for (measurement, name, _), group in groups.items():
        times = np.concatenate([one.times for one in group])
        if len(group) > 1 and len(np.unique(times)) < len(times):
            return None
        kept = {label: value for label, value in group[0].labels.items() if label != text}
        values = np.concatenate([one.values for one in group])
        merged.append((measurement, LabelledSeries(name, kept, times, values)))
    return merged


def _named(series: list[tuple[str, LabelledSeries]]) -> list[LabelledSeries]:
    """Return the series, with the measurement in the name where several have such a field."""
    measurements: dict[str, set[str]] = defaultdict(set)
    for measurement, one in series:
        measurements[one.name].add(measurement)
    for measurement, one in series:
        if len(measurements[one.name]) > 1 and measurement:
            one.name = f"{measurement}.{one.name}"
    return [one for _, one in series]
