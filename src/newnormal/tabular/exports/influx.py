"""CSV of InfluxDB: annotated or not, a row a value or pivoted, and that of InfluxDB 1."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, TypeAlias

import numpy as np

from newnormal.arrivals.cells import numbers
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
    shown,
    wide_csv,
)
from newnormal.texts import listed

Labels: TypeAlias = tuple[tuple[str, str], ...]

_LEFT_OUT = ("", "result", "table", "_start", "_stop")
_NUMBERS = ("double", "long", "unsignedLong", "boolean")
_LOOKED_AT = 1_000  # rows, to find which columns hold numbers where no annotation says it
_TAGS = re.compile(r",\s*(?=[^,=]+=)")


def translate(file: BinaryIO, naming: Naming, bad: SkippedLines) -> Iterator[bytes]:
    r"""Return the tables of an export as wide CSV text.

    A channel is called ``measurement_field``, with its tags behind it, as by line protocol. Damaged
    lines are counted in `bad`.

    >>> from io import BytesIO
    >>> text = (b"_time,_value,_field,_measurement,host\n"
    ...         b"2026-01-01T00:00:00Z,0.5,load1,system,a\n"
    ...         b"2026-01-01T00:00:00Z,0.25,load5,system,a\n")
    >>> print(b"".join(translate(BytesIO(text), Naming(["host"]), SkippedLines())).decode(), end="")
    time,host,system_load1,system_load5
    2026-01-01T00:00:00Z,a,0.5,0.25
    """
    by = naming.by
    collected = Collected(by, Clock(), bad)
    _read(decoded(file), collected)
    bad.check(bool(collected.parts))
    if not collected.parts:
        raise InputError(
            "expected samples, found none",
            hint="check the query and the span of time it was asked for",
        )
    check_by(by, list(dict.fromkeys(label for _, _, key in collected.parts for label, _ in key)))
    return wide_csv(_named(_untexted(collected, by)), naming, collected.clock.zone)


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
        if (merged := _without(text, series)) is not None:
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
    for measurement, one in series:
        one.name = f"{measurement}_{one.name}" if measurement else one.name
    return [one for _, one in series]


class Collected:
    """What all tables hold."""

    def __init__(self, by: Sequence[str], clock: Clock, bad: SkippedLines) -> None:
        self.by = by
        self.clock = clock
        self.bad = bad
        # by measurement, field and labels
        self.parts: dict[tuple[str, str, Labels], SeriesPart] = {}
        # labels that may be texts that were measured: no annotation says what they are
        self.texts: set[str] = set()

    def part(self, measurement: str, name: str, labels: Labels) -> SeriesPart:
        """Return the points of a series."""
        return self.parts.setdefault((measurement, name, labels), SeriesPart())


class OpenTable:
    """Rows under one header; `notes` are its rows of "#datatype", "#group" and "#default"."""

    def __init__(self, header: list[str], notes: dict[str, list[str]], collected: Collected):
        self._header = header
        self._types = _fitted(notes.get("#datatype"), len(header))
        self._groups = [
            cell.strip() == "true" for cell in _fitted(notes.get("#group"), len(header))
        ]
        defaults = _fitted(notes.get("#default"), len(header))
        self._defaults = [(column, cell) for column, cell in enumerate(defaults) if column and cell]
        self._collected = collected
        self._waiting: list[tuple[int, list[str]]] = []
        self._roles: _Roles | None = None
        self._known: dict[tuple[str, ...], list[tuple[int, SeriesPart]]] = {}

    def is_header(self, cells: list[str]) -> bool:
        """Return whether a row is a header again, of this or of another table."""
        start = cells[:3]
        return cells == self._header or "_time" in cells or start in _V1 or start[:2] in _V1

    def add(self, line: int, cells: list[str]) -> None:
        """Add a row."""
        if len(cells) != len(self._header):
            text = f"line {line}: expected {len(self._header)} cells, found {len(cells)}"
            self._collected.bad.add(InputError(text, hint="the file may be cut off"))
            return
        for column, default in self._defaults:
            cells[column] = cells[column] or default
        if self._roles is not None:
            self._take(self._roles, line, cells)
        else:
            self._waiting.append((line, cells))
            if len(self._waiting) == _LOOKED_AT:
                self.close()

    def close(self) -> None:
        """Take the rows that waited until it is known what the columns hold."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        if self._roles is None:
            self._roles = self._infer_roles([cells for _, cells in waiting])
        for line, cells in waiting:
            self._take(self._roles, line, cells)

    def _take(self, roles: _Roles, line: int, cells: list[str]) -> None:
        try:
            time = self._collected.clock.read(cells[roles.time], line)
        except InputError as error:
            self._collected.bad.add(error)
            return
        key = tuple([cells[column] for column in roles.key])
        parts = self._known.get(key)
        if parts is None:
            parts = self._known[key] = self._parts(roles, cells)
        for column, part in parts:
            part.add(time, cells[column])

    def _parts(self, roles: _Roles, cells: list[str]) -> list[tuple[int, SeriesPart]]:
        header = self._header
        labels = [(header[column], cells[column]) for column in roles.labels if cells[column]]
        if roles.tags is not None:
            labels.extend(_tags(cells[roles.tags]))
        measurement = "" if roles.measurement is None else cells[roles.measurement]
        if roles.measurement is not None and header[roles.measurement] in self._collected.by:
            labels.append((header[roles.measurement], measurement))
            measurement = ""  # it names the stream, not the channel
        series = tuple(labels)
        parts = [
            (column, self._collected.part(measurement, header[column], series))
            for column in roles.values
        ]
        if roles.value is not None:
            name = "value" if roles.name is None else cells[roles.name] or "value"
            parts.append((roles.value, self._collected.part(measurement, name, series)))
        return parts

    def _infer_roles(self, rows: list[list[str]]) -> _Roles:
        self._check_error(rows)
        header, by = self._header, self._collected.by
        first = header[:2] in (["name", "tags"], ["name", "time"])
        roles = _Roles(
            time=self._time(),
            measurement=0 if first else _at("_measurement", header),
            name=_at("_field", header),
            value=_at("_value", header),
            tags=1 if header[:2] == ["name", "tags"] else None,
        )
        taken = (roles.time, roles.measurement, roles.name, roles.value, roles.tags)
        for column, name in enumerate(header):
            if column in taken or name in _LEFT_OUT:
                continue
            is_tag = self._groups[column] if self._groups else False
            if name in by or is_tag or (not self._types and roles.value is not None):
                roles.labels.append(column)
            elif self._holds_numbers(column, rows):
                roles.values.append(column)
            elif not (self._types and self._types[column].startswith("dateTime")):
                roles.labels.append(column)
                self._collected.texts.add(name)
        return roles

    def _holds_numbers(self, column: int, rows: list[list[str]]) -> bool:
        if self._types:
            return self._types[column].strip() in _NUMBERS
        return not numbers([row[column] for row in rows])[1]

    def _time(self) -> int:
        for name in ("_time", "time"):
            if name in self._header:
                return self._header.index(name)
        for column, kind in enumerate(self._types):
            if kind.startswith("dateTime") and self._header[column] not in _LEFT_OUT:
                return column
        raise InputError(
            f"expected a column _time, found only {listed([n for n in self._header if n])}",
            hint="keep _time in the query",
        )

    def _check_error(self, rows: list[list[str]]) -> None:
        column = _at("error", self._header)
        if column is not None and "_time" not in self._header and "time" not in self._header:
            reason = next((row[column] for row in rows if row[column]), "no reason given")
            raise InputError(
                f"expected data, found an error of InfluxDB: {shown(reason)}",
                hint="ask again; the file holds no data",
            )


_V1 = (["name", "tags", "time"], ["name", "time"])


@dataclass
class _Roles:
    """Positions of the columns."""

    time: int
    measurement: int | None
    name: int | None
    value: int | None
    tags: int | None
    values: list[int] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)

    @property
    def key(self) -> list[int]:
        """Those whose cells say which series a row belongs to."""
        single = [
            column for column in (self.measurement, self.name, self.tags) if column is not None
        ]
        return [*single, *self.labels]


def _at(name: str, header: Sequence[str]) -> int | None:
    return header.index(name) if name in header else None


def _fitted(cells: list[str] | None, count: int) -> list[str]:
    return [] if cells is None else [*cells, *[""] * count][:count]


def _tags(text: str) -> list[tuple[str, str]]:
    """Return the tags of InfluxDB 1.

    >>> _tags("host=a, path=/x,y")
    [('host', 'a'), ('path', '/x,y')]
    """
    pairs = [pair.partition("=") for pair in _TAGS.split(text.strip()) if pair]
    return [(name.strip(), value) for name, _, value in pairs if value]
