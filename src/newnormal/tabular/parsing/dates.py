"""Dates as people and programs write them: found by their form, read many at a time."""

import re
from calendar import monthrange
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np

from newnormal.errors import ParameterError
from newnormal.types import NO_TIME, Bools, Ints
from newnormal.types.zones import minutes_of

Order = Literal["day-first", "month-first"]

FIRST_YEAR, LAST_YEAR = 1678, 2261  # what datetime64[ns] holds in whole years

_DIGIT = re.compile("[0-9]")
_DAY_NS, _MINUTE_NS = 86_400_000_000_000, 60_000_000_000
_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "jan january januar", "feb february februar", "mar march mär märz mrz maerz",
            "apr april", "may mai", "jun june juni", "jul july juli", "aug august",
            "sep sept september", "oct october okt oktober", "nov november",
            "dec december dez dezember",
        ),
        start=1,
    )
    for name in names.split()
}  # fmt: skip

_CLOCK = (
    r"(?P<h>\d{1,2}):(?P<mi>\d\d)(?::(?P<s>\d\d)(?:[.,](?P<f>\d{1,9}))?)?"
    r"(?:[ \u00a0\u202f]?(?P<p>[AaPp])\.?[Mm]\.?)?"
)
_ZONE = r"(?: ?(?P<z>Z|UTC|GMT|[+-](?:[01]\d|2[0-3])(?::?[0-5]\d)?))?"
_REST = rf"(?:(?:[T ]|, | - ){_CLOCK}{_ZONE})?"
_LETTER = r"[^\W\d_]"
_MONTH = rf"(?P<mon>{_LETTER}{{3,9}})\.?"


class Moments(NamedTuple):
    """Times as ns since 1970, NO_TIME where there is none, and which of them had a zone."""

    ns: Ints
    zoned: Bools


@dataclass(frozen=True)
class DateForm:
    """A way to write times."""

    name: str  # what it is called in a report
    # The groups y, mo (or mon, a name), d, or a and b for a day and a month in either order; h, mi,
    # s, f, p (a or p of AM and PM), z.
    pattern: re.Pattern[str]

    def read(self, cells: Sequence[str], order: Order | None = None) -> Moments | None:
        """Return the times of cells, NO_TIME for one not in the calendar; None: another form."""
        matches = self.pattern.findall("\n".join(cells))
        if len(matches) != len(cells):
            return None
        columns = list(zip(*matches, strict=True)) if self.pattern.groups > 1 else [matches]
        groups = {name: columns[group - 1] for name, group in self.pattern.groupindex.items()}
        return _moments(groups, len(cells), order)


def _form(name: str, pattern: str) -> DateForm:
    # Names of months have letters of any script, numbers only the digits of ASCII.
    digits = pattern.replace(_LETTER, "\0").replace(r"\d", "[0-9]").replace("\0", _LETTER)
    return DateForm(name, re.compile(rf"^[ \t]*{digits}[ \t]*\r?$", re.MULTILINE))


FORMS = (
    _form(
        "year-month-day",
        rf"(?P<y>\d{{4}})(?P<_>[-/.])(?P<mo>\d{{1,2}})(?P=_)(?P<d>\d{{1,2}}){_REST}",
    ),
    _form(
        "dates of numbers",
        rf"(?P<a>\d{{1,2}})(?P<sep>[-/.])(?P<b>\d{{1,2}})(?P=sep)(?P<y>\d{{4}}|\d\d){_REST}",
    ),
    _form(
        "YYYYMMDD",
        r"(?P<y>\d{4})(?P<mo>\d\d)(?P<d>\d\d)[T ](?P<h>\d\d)(?P<mi>\d\d)"
        rf"(?:(?P<s>\d\d)(?:[.,](?P<f>\d{{1,9}}))?)?{_ZONE}",
    ),
    _form(
        "day month-name year",
        rf"(?:[A-Za-z]{{3,9}},? )?(?P<d>\d{{1,2}})(?:[-/ .]|\. ){_MONTH}"
        rf"[-/ ,.] ?(?P<y>\d{{4}}|\d\d){_REST}",
    ),
    _form(
        "month-name day year",
        rf"(?:[A-Za-z]{{3,9}},? )?{_MONTH} +(?P<d>\d{{1,2}}),? (?P<y>\d{{4}}){_REST}",
    ),
    _form(
        "ctime",
        rf"[A-Za-z]{{3}} {_MONTH} +(?P<d>\d{{1,2}}) {_CLOCK} (?:(?P<z>UTC|GMT) )?(?P<y>\d{{4}})",
    ),
)

TIME_OF_DAY = _form("time of day", _CLOCK + _ZONE)

# What `strptime` understands, as groups; others are left to `strptime` itself.
_DIRECTIVES = {
    "Y": r"(?P<y>\d{4})", "y": r"(?P<y>\d\d)", "m": r"(?P<mo>\d{1,2})", "d": r"(?P<d>\d{1,2})",
    "b": r"(?P<mon>[^\W\d_]{3,9})", "B": r"(?P<mon>[^\W\d_]{3,9})", "H": r"(?P<h>\d{1,2})",
    "I": r"(?P<h>\d{1,2})", "M": r"(?P<mi>\d{1,2})", "S": r"(?P<s>\d{1,2})",
    "f": r"(?P<f>\d{1,9})", "p": r"(?P<p>[AaPp])\.?[Mm]\.?", "a": r"[^\W\d_]+", "A": r"[^\W\d_]+",
    "z": r"(?P<z>Z|UTC|[+-]\d\d(?::?\d\d)?)", "Z": r"(?P<z>UTC|GMT|Z)", "%": "%",
}  # fmt: skip
_SHORT = {"T": "%H:%M:%S", "F": "%Y-%m-%d", "D": "%m/%d/%y", "R": "%H:%M"}


@cache
def custom_form(pattern: str) -> DateForm:
    """Return the form that a pattern of `strptime` with year, month and day describes.

    >>> form = custom_form("%d.%m.%y %H:%M")
    >>> moments = form.read(["31.12.26 23:59"])
    >>> moments.ns.view("datetime64[ns]")
    array(['2026-12-31T23:59:00.000000000'], dtype='datetime64[ns]')
    """
    for letter, longer in _SHORT.items():
        pattern = pattern.replace(f"%{letter}", longer)
    parts: list[str] = []
    position = 0
    seen: set[str] = set()
    while position < len(pattern):
        letter = pattern[position]
        position += 1
        if letter == "%":
            code = pattern[position : position + 1]
            position += 1
            if code not in _DIRECTIVES or (code != "%" and code in seen):
                raise _no_pattern(pattern)
            seen.add(code)
            parts.append(_DIRECTIVES[code])
        elif letter.isspace():
            parts.append(r"\s+")
        else:
            parts.append(re.escape(letter))
    try:
        form = _form(pattern, "".join(parts))
    except re.error:  # %b and %B
        raise _no_pattern(pattern) from None
    groups = form.pattern.groupindex
    if "y" not in groups or "d" not in groups or not ("mo" in groups or "mon" in groups):
        raise _no_pattern(pattern)
    return form


def _no_pattern(pattern: str) -> ParameterError:
    return ParameterError(
        f"date_format: expected day-first, month-first or a pattern with year, month and day, "
        f"such as %d.%m.%Y %H:%M:%S, found {pattern!r}",
        hint=f"the letters are {', '.join('%' + code for code in _DIRECTIVES if code != '%')}",
    )


def form_of(cell: object) -> DateForm | None:
    """Return the form of a text that is a time by itself; None for all else, also for numbers.

    >>> [form_of(cell) is not None for cell in ("31.12.2026 23:59", "2026/12/31", "12.5", "x")]
    [True, True, False, False]
    """
    if not isinstance(cell, str) or not 6 <= len(cell) <= 48 or not _DIGIT.search(cell):
        return None
    for form in FORMS:
        match = form.pattern.fullmatch(cell)
        if match is not None and _is_date(match.groupdict()):
            return form
    return None


def _is_date(parts: dict[str, Any]) -> bool:
    """Return whether the parts of a text are those of a time in the calendar."""
    year = _year(parts["y"])
    if "a" in parts:
        pairs = [(int(parts["a"]), int(parts["b"]))]
        if parts["sep"] != ".":
            pairs.append((int(parts["b"]), int(parts["a"])))
    elif "mon" in parts:
        pairs = [(int(parts["d"]), _MONTHS.get(parts["mon"].lower(), 0))]
    else:
        pairs = [(int(parts["d"]), int(parts["mo"]))]
    hour, minute, second = (int(parts.get(name) or 0) for name in ("h", "mi", "s"))
    if hour > 23 or minute > 59 or second > 59 or (parts.get("p") and not 1 <= hour <= 12):
        return False
    return FIRST_YEAR <= year <= LAST_YEAR and any(
        1 <= month <= 12 and 1 <= day <= monthrange(year, month)[1] for day, month in pairs
    )


def date_order(cells: Sequence[object]) -> Order | Literal["open"] | None:
    """Return whether dates of numbers have the day first; None if there are no such dates.

    Dates with dots have the day first. Others are "open" if no number is above 12.

    >>> date_order(["03/04/2026", "13/04/2026"]), date_order(["03/04/2026"]), date_order(["x"])
    ('day-first', 'open', None)
    """
    pattern = FORMS[1].pattern
    day = month = other = dots = 0
    for cell in cells:
        match = pattern.fullmatch(cell) if isinstance(cell, str) else None
        if match is None:
            continue
        first, second = int(match["a"]), int(match["b"])
        if match["sep"] == ".":
            dots += 1
        elif first > 12 >= second:
            day += 1
        elif second > 12 >= first:
            month += 1
        else:
            other += 1
    if day or month:
        return "day-first" if day >= month else "month-first"
    if other:
        return "open"
    return "day-first" if dots else None


def _moments(groups: dict[str, Any], count: int, order: Order | None) -> Moments:
    if "a" in groups:
        day, month = _whole(groups["a"]), _whole(groups["b"])
        if order == "month-first":
            day, month = month, day
    elif "mon" in groups:
        day = _whole(groups["d"])
        names = groups["mon"]
        numbers = {name: _MONTHS.get(name.lower(), 0) for name in set(names)}
        month = np.array([numbers[name] for name in names], dtype=np.int64)
    else:
        day, month = _whole(groups["d"]), _whole(groups["mo"])
    year = _years(groups["y"])
    good = (month >= 1) & (month <= 12) & (day >= 1) & (year >= FIRST_YEAR) & (year <= LAST_YEAR)
    months = ((year - 1970) * 12 + np.where(good, month, 1) - 1).astype("datetime64[M]")
    start = months.astype("datetime64[D]").astype(np.int64)
    length = (months + 1).astype("datetime64[D]").astype(np.int64) - start
    good &= day <= length
    ns = (start + day - 1) * _DAY_NS
    clock, valid = _clock(groups, count)
    ns = np.where(good & valid, ns + clock, NO_TIME)
    zoned = np.zeros(count, dtype=np.bool_)
    if "z" in groups and any(groups["z"]):
        zones = groups["z"]
        offsets = {zone: minutes_of(zone) * _MINUTE_NS for zone in set(zones)}
        zoned = np.array([zone != "" for zone in zones])
        shift = np.array([offsets[zone] for zone in zones], dtype=np.int64)
        ns = np.where(ns == NO_TIME, NO_TIME, ns - shift)
    return Moments(ns, zoned)


def _clock(groups: dict[str, Any], count: int) -> tuple[Ints, Bools]:
    if "h" not in groups:
        return np.zeros(count, dtype=np.int64), np.ones(count, dtype=np.bool_)
    hour = _whole(groups["h"])
    minute = _whole(groups["mi"]) if "mi" in groups else np.zeros(count, dtype=np.int64)
    second = _whole(groups["s"]) if "s" in groups else np.zeros(count, dtype=np.int64)
    good = (hour <= 23) & (minute <= 59) & (second <= 59)
    if "p" in groups and any(groups["p"]):
        half = groups["p"]
        has_half = np.array([letter != "" for letter in half])
        after = np.array([letter in ("p", "P") for letter in half])
        good &= ~has_half | ((hour >= 1) & (hour <= 12))
        hour = np.where(has_half, hour % 12 + 12 * after, hour)
    ns = (hour * 3600 + minute * 60 + second) * 1_000_000_000
    if "f" in groups and any(groups["f"]):
        ns = ns + np.array([int(text.ljust(9, "0")) if text else 0 for text in groups["f"]])
    return ns, good


def _whole(texts: Sequence[str]) -> Ints:
    return np.array([int(text) if text else 0 for text in texts], dtype=np.int64)


def _years(texts: Sequence[str]) -> Ints:
    years = {text: _year(text) for text in set(texts)}
    return np.array([years[text] for text in texts], dtype=np.int64)


def _year(text: str) -> int:
    """Return a year, one of two digits as `strptime` takes it: 1969 to 2068."""
    year = int(text)
    if len(text) > 2:
        return year
    return year + (1900 if year >= 69 else 2000)
