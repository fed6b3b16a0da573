"""Text of a program's file, and the points of many series in its CSV."""

from __future__ import annotations

import csv
import io
import json
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isnan, nan
from typing import Any, BinaryIO

import numpy as np

from newnormal.arrivals.cells import number
from newnormal.errors import InputError
from newnormal.tabular.samples import at_line
from newnormal.tabular.times import parse_time, zone_of
from newnormal.types import Floats, Ints

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
