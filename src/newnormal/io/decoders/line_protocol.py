r"""InfluxDB's line protocol as times and numbers.

``measurement,tag=value field=1.5,other=2i 1767225600000000000``: the grammar is that of
https://docs.influxdata.com/influxdb/v2/reference/syntax/line-protocol/. Lines that hold plain
numbers and no quotes or backslashes, nearly all of them, are taken apart by one regular expression;
all others by a reader that goes from token to token. The packages for Python (line-protocol-parser,
pyilpp) read a line a call, refuse a body as a whole, and do not read all of the grammar.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from newnormal.arrivals.cells import number
from newnormal.errors import InputError

LATEST = 2**63 - 2  # ns: InfluxDB's own limit, in both directions
_MOST_TAGS = 1_000
_SHOWN = 40  # characters of a line that an error shows

# A number as most are written: float() takes it, and it is finite.
_PLAIN = r"-?\d{1,18}(?:i|(?:\.\d{1,25})?(?:[eE][-+]?\d{1,2})?)"
_KEY = '[^ \t\r\n"\\\\,=\ud800-\udfff]++'
_LINE = re.compile(
    '([^# \t\r\n"\\\\,\ud800-\udfff][^ \t\r\n"\\\\\ud800-\udfff]*+)'
    f" ({_KEY}={_PLAIN}(?:,{_KEY}={_PLAIN})*+)"
    r"(?: (-?[1-8]?\d{1,18}))?\r?(?:\n|\Z)",
    re.ASCII,
)

# Tokens. A backslash before one of the characters that would end the token makes that plain.
_HEAD = re.compile(r"(?:[^\\ \n]++|\\ ?+)*+")
_MEASUREMENT = re.compile(r"(?:[^\\,]++|\\,?+)*+")
_TAG = re.compile(r"(?:[^\\,=]++|\\[,=]?+)*+")
_FIELD = re.compile(r"(?:[^\\,= \r\n]++|\\[,= ]?+)*+")
_STRING = re.compile(r'"(?:[^"\\]++|\\[^\n]?+)*+"')
_VALUE = re.compile(r"[^, \r\n]*+")
_SPACE = re.compile(r"[ \t]*+")
_END = re.compile(r"[ \t\r]*+(?:\n|\Z)")
_TIME = re.compile(r"-?\d++", re.ASCII)
_WHOLE = re.compile(r"[-+]?\d++i|\+?\d++u", re.ASCII)
_NO_TEXT = re.compile("[\ud800-\udfff]")

Scale = Callable[[int], int]  # a time as it is written → in ns


class LineError(InputError):
    """A line that holds no point."""


class SeriesKey(NamedTuple):
    """What the values of a line are of."""

    measurement: str
    tags: dict[str, str]


class LineGroup:
    """The points of lines that begin alike and have the same fields."""

    __slots__ = ("times", "values")

    def __init__(self) -> None:
        self.times: list[int | None] = []  # in ns; None: that of the request
        self.values: list[float] = []  # one number a field and point, a point after the other


class Parsed(NamedTuple):
    """What a body holds."""

    # By what the lines begin with, as it is written, and the names of their fields of numbers.
    groups: dict[tuple[str, tuple[str, ...]], LineGroup]
    points: int  # how many lines were read, those of texts alone included
    dropped: int  # how many could not be
    # The number of the first of these, counted from 1, and what is wrong with it.
    line: int
    error: str


def parse(text: str, scale: Scale, most: int, widest: int = 500) -> Parsed | None:
    r"""Return the points of a body, of `widest` numbers; None if there are more than `most`.

    A line that cannot be read ends at its first end of line, also within a text that does not end.

    >>> found = parse("cpu,host=a load=0.5,up=t 60\ncpu,host=a load=,up=t 70\n", scaled(10**9), 9)
    >>> [(key, each.times, each.values) for key, each in found.groups.items()]
    [(('cpu,host=a', ('load', 'up')), [60000000000], [0.5, 1.0])]
    >>> found.dropped, found.line, found.error
    (1, 2, "field load: expected a number, true, false or a text in quotes, found ''")
    """
    groups: dict[tuple[str, tuple[str, ...]], LineGroup] = {}
    heads: dict[str, LineError | None] = {}  # whether what lines begin with is a series
    points = dropped = line = 0
    error = ""
    offset, end = 0, len(text)
    match = _LINE.match
    while offset < end:
        plain = match(text, offset)
        try:
            if plain is not None:
                head, fields, stamp = plain.groups()
                parts = fields.replace("=", ",").split(",")
                names = tuple(parts[::2])
                values = [
                    float(part) if part[-1] != "i" else float(part[:-1]) for part in parts[1::2]
                ]
                time = None if stamp is None else scale(int(stamp))
                after = plain.end()
            else:
                after, point = _read(text, offset, scale)
                if point is None:
                    offset = after
                    continue
                head, names, values, time = point
            if len(names) > widest:  # each is named with all tags
                raise LineError(f"expected at most {widest:,} fields, found {len(names):,}")
            if head not in heads:
                heads[head] = _wrong(head)
            if (wrong := heads[head]) is not None:
                raise wrong
        except LineError as refused:
            if not dropped:
                line, error = text.count("\n", 0, offset) + 1, refused.message
            dropped += 1
            offset = text.find("\n", offset) + 1 or end
            continue
        offset = after
        points += 1
        if points > most:
            return None
        if names:
            group = groups.get((head, names))
            if group is None:
                group = groups[head, names] = LineGroup()
            group.times.append(time)
            group.values += values
    return Parsed(groups, points, dropped, line, error)


def scaled(unit: int) -> Scale:
    """Return what makes ns of times of a unit of that many ns."""

    def scale(time: int) -> int:
        return _within(time * unit, time)

    return scale


def auto_time(time: int) -> int:
    """Return a time in ns of any unit: its size tells which, as in InfluxDB 3.

    >>> auto_time(1767225600), auto_time(1767225600000)
    (1767225600000000000, 1767225600000000000)
    """
    size = abs(time)
    if size >= 5 * 10**15:
        return _within(time, time)
    unit = 10**9 if size < 5 * 10**9 else 10**6 if size < 5 * 10**12 else 10**3
    return time * unit


def _within(time: int, written: int) -> int:
    if not -LATEST <= time <= LATEST:
        raise LineError(
            f"expected a time between the years 1677 and 2262, found {_shown(str(written))}"
        )
    return time


def read_series(head: str) -> SeriesKey:
    r"""Return the measurement and the tags that a line begins with.

    >>> read_series(r"disk\ io,host=a,path=C:\ drive")
    SeriesKey(measurement='disk io', tags={'host': 'a', 'path': 'C: drive'})
    """
    token = _MEASUREMENT.match(head)
    assert token is not None  # it may be empty
    if not token[0]:
        raise LineError(f"expected a measurement, found {_shown(head)}")
    measurement = _plain(token[0], ", ")
    tags: dict[str, str] = {}
    offset = token.end()
    while offset < len(head):  # at a comma
        key = _TAG.match(head, offset + 1)
        assert key is not None
        value = _TAG.match(head, key.end() + 1)
        named = key[0] and head[key.end() : key.end() + 1] == "="
        if not named or value is None or not value[0] or head.startswith("=", value.end()):
            raise LineError(f"expected a tag as name=value, found {_shown(head[offset + 1 :])}")
        name = _plain(key[0], ",= ")
        if name in tags:
            raise LineError(f"expected each tag once, found {_shown(name)} twice")
        if len(tags) == _MOST_TAGS:
            raise LineError(f"expected at most {_MOST_TAGS:,} tags, found more")
        tags[name] = _plain(value[0], ",= ")
        offset = value.end()
    return SeriesKey(measurement, tags)


def _wrong(head: str) -> LineError | None:
    """Return what is wrong with what a line begins with."""
    try:
        read_series(head)
    except LineError as error:
        return error
    return None


_Point = tuple[str, tuple[str, ...], list[float], "int | None"]


def _read(text: str, offset: int, scale: Scale) -> tuple[int, _Point | None]:
    """Return the offset behind a line, and its point; None: it is blank or a comment."""
    offset = _behind(_SPACE, text, offset)
    if text.startswith("#", offset):
        return text.find("\n", offset) + 1 or len(text), None
    blank = _END.match(text, offset)
    if blank is not None:
        return blank.end(), None
    begin = offset
    offset = _behind(_HEAD, text, offset)
    head = text[begin:offset]
    offset = _behind(_SPACE, text, offset)
    fields: dict[str, float] = {}
    while True:
        offset, name, value = _field(text, offset)
        fields.pop(name, None)  # the last counts
        if value is not None:
            fields[name] = value
        if text[offset : offset + 1] != ",":
            break
        offset += 1
    if not text.isascii():
        _check_text(text[begin:offset])
    time = None
    behind = offset = _behind(_SPACE, text, offset)
    stamp = _TIME.match(text, offset)
    if stamp is not None and len(stamp[0]) <= 20:
        time = scale(int(stamp[0]))
        behind = stamp.end()
    end = _END.match(text, behind)
    if end is None:
        raise LineError(f"expected a time as a whole number, found {_rest(text, offset)}")
    return end.end(), (head, tuple(fields), list(fields.values()), time)


def _field(text: str, offset: int) -> tuple[int, str, float | None]:
    """Return the offset behind a field, its name, and its number; None: it is a text."""
    key = _FIELD.match(text, offset)
    assert key is not None
    if not key[0] or text[key.end() : key.end() + 1] != "=":
        raise LineError(f"expected a field as name=value, found {_rest(text, offset)}")
    name = _plain(key[0], ",= ")
    offset = key.end() + 1
    if text[offset : offset + 1] == '"':
        string = _STRING.match(text, offset)
        if string is None:
            raise LineError(f"field {_name(name)}: expected the end of a text, found none")
        if text[string.end() : string.end() + 1] not in ("", ",", " ", "\r", "\n"):
            raise LineError(
                f"field {_name(name)}: expected a comma or a space after a text, "
                f"found {_rest(text, string.end())}"
            )
        return string.end(), name, None
    value = _VALUE.match(text, offset)
    assert value is not None
    return value.end(), name, _number(value[0], name)


def _number(text: str, name: str) -> float:
    """Return the number of a field: as any cell, and with the endings and letters of InfluxDB."""
    if text in ("t", "T", "f", "F"):
        return float(text in "tT")
    if text.strip():
        with suppress(ValueError):
            return number(text[:-1] if _WHOLE.fullmatch(text) else text)
    raise LineError(
        f"field {_name(name)}: expected a number, true, false or a text in quotes, "
        f"found {_shown(text)}"
    )


def _plain(token: str, ends: str) -> str:
    """Return a token without the backslashes before characters that would end it."""
    if "\\" not in token:
        return token
    for end in ends:
        token = token.replace(f"\\{end}", end)
    return token


def _check_text(line: str) -> None:
    """Raise a LineError for bytes that are no UTF-8, which were decoded as lone surrogates."""
    undecoded = _NO_TEXT.search(line)
    if undecoded is not None:
        before = line[max(undecoded.start() - _SHOWN // 2, 0) : undecoded.start()]
        raise LineError(
            f"expected UTF-8 text, found the byte {ord(undecoded[0]) & 0xFF:#04x} behind "
            f"{_shown(before)}"
        )


def _behind(pattern: re.Pattern[str], text: str, offset: int) -> int:
    token: Any = pattern.match(text, offset)
    end: int = token.end()
    return end


def _rest(text: str, offset: int) -> str:
    return _shown(text[offset : offset + 2 * _SHOWN].partition("\n")[0])


def _name(name: str) -> str:
    return _shown(name)[1:-1]


def _shown(text: str) -> str:
    shown = ascii(text)
    return shown if len(shown) <= _SHOWN else shown[: _SHOWN - 4] + "...'"
