"""Points of many series, from the text of a program's file to wide CSV: a column a channel."""

from __future__ import annotations

import csv
import io
import json
from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import isnan, nan
from typing import Any, BinaryIO, Literal

import numpy as np

from newnormal.arrivals import pivot
from newnormal.arrivals.cells import number
from newnormal.arrivals.naming import Naming, fitting_name
from newnormal.errors import InputError
from newnormal.tabular.samples import at_line
from newnormal.tabular.times import parse_time, zone_of
from newnormal.texts import listed
from newnormal.types import Floats, Ints
from newnormal.types.zones import minutes_of

_LONGEST = 200  # characters of what is shown


def decoded(file: BinaryIO) -> str:
    """Return all of a file as text, which must be UTF-8."""
    content = file.read()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"expected UTF-8 text, found byte 0x{content[error.start]:02x} at byte {error.start}",
            hint="name the encoding with --encoding (encoding=), such as latin-1",
        ) from None


def shown(content: Any) -> str:
    """Return what was found as a message shows it: a text as it is, anything else as JSON.

    >>> shown({"a": [1]}), shown("bad_data")
    ('{"a": [1]}', 'bad_data')
    """
    try:
        text = content if isinstance(content, str) else json.dumps(content, default=str)
    except (ValueError, RecursionError):
        text = type(content).__name__
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def records(text: str, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Return the rows of CSV, each with the number of its line; blank lines are empty rows."""
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(f"line {rows.line_num}: expected CSV, found: {error}") from None
        yield rows.line_num, row


class SkippedLines:
    """Lines of an export that hold no sample: they are left out and counted."""

    def __init__(self) -> None:
        self.count = 0
        self.first: InputError | None = None

    def add(self, error: InputError) -> None:
        """Count one; the first is kept for the user."""
        self.count += 1
        self.first = self.first or error

    def check(self, good: bool) -> None:
        """Raise the first if no line is good."""
        if not good and self.first is not None:
            raise self.first


class Clock:
    """Reads the times of an export, most of which come many times."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._zones: set[str | None] = set()

    def read(self, cell: str, line: int) -> int:
        """Return a time in nanoseconds since 1970, in UTC; `line` is for messages."""
        moment = self._known.get(cell)
        if moment is None:
            try:
                moment = int(parse_time(cell).astype(np.int64))
            except InputError as error:
                raise at_line(line, error) from None
            self._zones.add("Z" if cell.strip().isdigit() else zone_of(cell))
            self._known[cell] = moment
        return moment

    @property
    def zone(self) -> str:
        """What to write behind the times: the offset if all had the same, else Z; "": none."""
        if self._zones == {None}:
            return ""
        zone = next(iter(self._zones)) if len(self._zones) == 1 else "Z"
        return "Z" if zone in (None, "UTC") else zone


@dataclass
class SeriesPart:
    """Points of one series, and whether there were numbers and texts among them."""

    times: array[int] = field(default_factory=lambda: array("q"))
    values: array[float] = field(default_factory=lambda: array("d"))
    numbers: bool = False
    texts: bool = False

    def add(self, time: int, cell: str) -> None:
        """Add one value."""
        try:
            value = number(cell)
            self.numbers |= not isnan(value)
        except ValueError:
            value, self.texts = nan, True
        self.times.append(time)
        self.values.append(value)

    def arrays(self) -> tuple[Ints, Floats]:
        """Return its times and values."""
        return np.array(self.times, dtype=np.int64), np.array(self.values, dtype=np.float64)


_CELLS = 500_000  # cells written at a time
_UNITS: tuple[tuple[Literal["s", "ms", "us", "ns"], int], ...] = (
    ("s", 10**9),
    ("ms", 10**6),
    ("us", 10**3),
    ("ns", 1),
)


@dataclass
class LabelledSeries:
    """The values of one channel of one stream."""

    name: str  # what was measured, "" where it has no name
    labels: dict[str, str]  # what tells it apart from others of this name
    times: Ints  # in nanoseconds since 1970, in any order
    values: Floats  # as many; what is not finite is missing

    def stream(self, by: Sequence[str]) -> tuple[str, ...]:
        """Return the cells of the columns that name its stream."""
        return tuple(self.labels.get(label, "") for label in by)


def csv_line(cells: Sequence[Any]) -> str:
    r"""Return cells as one line of CSV without its end; line breaks in a cell become spaces.

    >>> csv_line(["time", "a,b", "two\nlines"])
    'time,"a,b",two lines'
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(
        [" ".join(cell.splitlines()) if isinstance(cell, str) else cell for cell in cells]
    )
    return text.getvalue()


def check_by(by: Sequence[str], labels: Sequence[str]) -> None:
    """Raise an InputError if a column that is to name the stream is no label of any series."""
    for name in by:
        if name not in labels:
            raise InputError(
                f"by names label {name!r}, found only {listed(labels)}",
                hint="name a label that tells the streams apart with --by (by=)"
                if labels
                else None,
            )


def wide_csv(series: Sequence[LabelledSeries], naming: Naming, zone: str = "Z") -> Iterator[bytes]:
    """Return series as CSV text: the time, the columns of `by`, then the channels.

    Rows are in the order of their times. Of two values of one series and time the later one counts.

    `naming` names the channels, and the labels that name the stream. `zone` is what is written
    behind times: "Z", an offset such as "+01:00", which times are brought to, or "" if they have no
    zone.

    >>> at = np.array([0, 10**9])
    >>> load = [LabelledSeries("load", {"host": host}, at, at / 2e9) for host in "ab"]
    >>> print(b"".join(wide_csv(load, Naming(["host"]))).decode(), end="")
    time,host,load
    1970-01-01T00:00:00Z,a,0.0
    1970-01-01T00:00:00Z,b,0.0
    1970-01-01T00:00:01Z,a,0.5
    1970-01-01T00:00:01Z,b,0.5
    """
    by = naming.by
    check_by(by, list(dict.fromkeys(label for one in series for label in one.labels)))
    if not any(len(one.times) for one in series):
        raise InputError("expected values, found none", hint="export a span of time that has data")
    names = _channels(series, naming)
    columns = {name: number for number, name in enumerate(dict.fromkeys(names))}
    streams = {
        stream: number for number, stream in enumerate(dict.fromkeys(s.stream(by) for s in series))
    }
    sizes = [len(one.times) for one in series]
    points = _Points(
        np.concatenate([one.times for one in series]),
        np.repeat([streams[one.stream(by)] for one in series], sizes),
        np.repeat([columns[name] for name in names], sizes),
        np.concatenate([one.values for one in series]),
    )
    header = csv_line(["time", *by, *columns]) + "\n"
    return _written(points, header, [csv_line(stream) for stream in streams], len(columns), zone)


@dataclass
class _Points:
    times: Ints
    streams: Ints
    columns: Ints
    values: Floats


def _written(
    points: _Points, header: str, prefixes: list[str], width: int, zone: str
) -> Iterator[bytes]:
    yield header.encode()
    order = np.lexsort((points.streams, points.times))  # stable: the later of two values is last
    times, streams = points.times[order], points.streams[order]
    first = np.empty(len(order), dtype=bool)
    first[0] = True
    first[1:] = (times[1:] != times[:-1]) | (streams[1:] != streams[:-1])
    starts = np.append(np.flatnonzero(first), len(order))
    unit = next(unit for unit, size in _UNITS if not (times % size).any())
    shift = minutes_of(zone) * 60 * 10**9
    many = max(1, _CELLS // width)
    for row in range(0, len(starts) - 1, many):
        bounds = starts[row : row + many + 1]
        part = order[bounds[0] : bounds[-1]]
        rows = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
        _, cells = pivot.table(rows, points.columns[part], points.values[part], width)
        moments = (times[bounds[:-1]] + shift).view("datetime64[ns]")
        texts = np.datetime_as_string(moments, unit=unit).tolist()
        lines = []
        for text, stream, values in zip(
            texts, streams[bounds[:-1]].tolist(), cells.tolist(), strict=True
        ):
            shown = ",".join([repr(v) if v - v == 0 else "" for v in values])  # finite
            prefix = f"{prefixes[stream]}," if prefixes[stream] else ""
            lines.append(f"{text}{zone},{prefix}{shown}\n")
        yield "".join(lines).encode()


def _channels(series: Sequence[LabelledSeries], naming: Naming) -> list[str]:
    taken: dict[tuple[tuple[str, ...], str], list[LabelledSeries]] = defaultdict(list)
    names = []
    for one in series:
        _, behind = naming.parts(one.labels)
        name = fitting_name(f"{one.name}{behind}" or "value")
        before = taken[one.stream(naming.by), name]
        number = next(
            (number for number, other in enumerate(before) if _same(other, one)), len(before)
        )
        before[number:] = [one]
        names.append(name if number == 0 else f"{name} {number + 1}")
    return names


def _same(one: LabelledSeries, other: LabelledSeries) -> bool:
    """Return whether two series of one name are parts of one: they agree where they meet.

    Results of two expressions without a name are told apart by this; parts of one result that
    overlap at their ends are not.
    """
    _, positions, other_positions = np.intersect1d(one.times, other.times, return_indices=True)
    if 2 * len(positions) <= min(len(one.times), len(other.times)):
        return True
    left, right = one.values[positions], other.values[other_positions]
    return bool(2 * np.sum((left != right) & ~(np.isnan(left) & np.isnan(right))) <= len(positions))
