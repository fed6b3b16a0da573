"""What the names and the contents of files say about how they were rotated."""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

from newnormal.tabular.text.compression import COMPRESSED
from newnormal.tabular.text.file_names import ENDINGS

EDGE = 4096  # bytes of the beginning, and before a place, that tell a text from others

_DAY = r"(?:19|20)\d\d(?P<dash>[-_.]?)(?:0[1-9]|1[0-2])(?P=dash)(?:0[1-9]|[12]\d|3[01])"
_WHEN = rf"(?P<date>{_DAY}(?:[-_.T]?\d\d(?:[-_.:]?\d\d){{0,2}})?)(?:-(?P<run>\d{{1,10}}))?$"
_DATE = re.compile(rf"[-_.]{_WHEN}")
_ALL_DATE = re.compile(_WHEN)
_NUMBER = re.compile(r"\.(\d{1,5})$")
_KEPT = re.compile(r"\.(?:old|bak|orig)$", re.IGNORECASE)
# Compressed in ways that are not read, and what programs write before they rename it.
_OTHERS = (".bz2", ".xz", ".lz4", ".zip", ".7z", ".z", ".swp", ".tmp", ".part", "~")


class FileName(NamedTuple):
    """What a file's name says.

    Attributes
    ----------
    base
        What files that follow each other have in common; empty if it is only a date.
    ending
        Of its format.
    date, run, number
        What rotation added: the digits of a date, a number behind that, and a number behind the
        ending; 0 without one.
    compressed
        Whether its ending says so.
    """

    base: str
    ending: str
    date: str
    run: int
    number: int
    compressed: bool

    @property
    def order(self) -> tuple[str, int, int]:
        """What files that follow each other are sorted by, the oldest first."""
        return self.date or "~", self.run, -self.number


def file_name(name: str) -> FileName:
    """Return what a file's name says.

    >>> file_name("press-1.csv").base, file_name("press-1.csv.12.gz").base
    ('press-1', 'press-1')
    >>> file_name("press-1.csv-20260131.gz")[2:]
    ('20260131', 0, 0, True)
    >>> file_name("hall_2026-01-31.csv").base, file_name("hall_2026-01-31.csv").date
    ('hall', '20260131')
    >>> names = ["a.log", "a.log.2", "a.log.1", "a.log-20260101"]
    >>> sorted(names, key=lambda name: file_name(name).order)
    ['a.log-20260101', 'a.log.2', 'a.log.1', 'a.log']
    """
    rest = name
    compressed = False
    for ending in COMPRESSED:
        if rest.lower().endswith(ending):
            rest, compressed = rest[: -len(ending)], True
            break
    number = 0
    if found := _NUMBER.search(rest):
        rest, number = rest[: found.start()], int(found[1])
    elif found := _KEPT.search(rest):
        rest, number = rest[: found.start()], 1
    rest, date, run = _without_date(rest)
    stem, point, ending = rest.rpartition(".")
    if point and stem and f".{ending.lower()}" in ENDINGS:
        rest, ending = stem, f".{ending.lower()}"
    else:
        ending = ""
    if not date:
        rest, date, run = _without_date(rest)
    return FileName(rest, ending, date, run, number, compressed)


def _without_date(name: str) -> tuple[str, str, int]:
    """Return a name without the date at its end, the date's digits, and the number behind it."""
    found = _ALL_DATE.match(name) or _DATE.search(name)
    if found is None:
        return name, "", 0
    return name[: found.start()], re.sub(r"\D", "", found["date"]), int(found["run"] or 0)


def is_passed_over(name: str) -> bool:
    """Whether a file is never looked at: hidden, temporary, or compressed in another way."""
    return name.startswith(".") or name.lower().endswith(_OTHERS)


def digest(text: bytes) -> str:
    """Return what tells a text from others, in 12 characters."""
    return hashlib.sha256(text).hexdigest()[:12]
