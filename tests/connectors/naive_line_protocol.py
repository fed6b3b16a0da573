"""Line protocol read a character at a time, as slowly and obviously as possible."""

from typing import NamedTuple

from newnormal.arrivals.cells import number
from newnormal.arrivals.naming import Naming

Values = dict[tuple[str, str, int], float]  # stream, channel, time


class Point(NamedTuple):
    measurement: str
    tags: dict[str, str]
    fields: dict[str, float]
    time: int | None


class BadLineError(Exception):
    pass


def naive_points(body: bytes, unit: int | None) -> tuple[list[Point], int]:
    """Return the points of a body, and how many lines are bad."""
    text = body.decode("utf-8", "surrogateescape")
    points: list[Point] = []
    bad = at = 0
    while at < len(text):
        try:
            at, point = _line(text, at, unit)
        except BadLineError:
            bad += 1
            while at < len(text) and text[at] != "\n":
                at += 1
            at += 1
        else:
            if point is not None:
                points.append(point)
    return points, bad


def naive_values(
    points: list[Point], now: int, by: tuple[str, ...] = ("host",), without: tuple[str, ...] = ()
) -> Values:
    """Return the values of points; the last one of a channel and a time counts."""
    found: Values = {}
    for point in points:
        naming = Naming(by, without, fallback=point.measurement)
        for field, value in point.fields.items():
            stream, channel = naming(f"{point.measurement}_{field}", point.tags)
            found[stream, channel, now if point.time is None else point.time] = value
    return found


def _line(text: str, at: int, unit: int | None) -> tuple[int, Point | None]:
    begin = at
    while at < len(text) and text[at] in " \t":
        at += 1
    if at < len(text) and text[at] == "#":
        while at < len(text) and text[at] != "\n":
            at += 1
        return at + 1, None
    if _ended(text, at):
        return _behind_end(text, at), None
    at, measurement = _token(text, at, ends=", \n", escapes=", ")
    if not measurement:
        raise BadLineError
    tags: dict[str, str] = {}
    while at < len(text) and text[at] == ",":
        at, name = _token(text, at + 1, ends=",= \n", escapes=",= ")
        if not name or at >= len(text) or text[at] != "=" or name in tags:
            raise BadLineError
        at, value = _token(text, at + 1, ends=",= \n", escapes=",= ")
        if not value:
            raise BadLineError
        tags[name] = value
    if at >= len(text) or text[at] != " ":
        raise BadLineError
    while at < len(text) and text[at] in " \t":
        at += 1
    fields: dict[str, float] = {}
    while True:
        at, name = _token(text, at, ends=",= \r\n", escapes=",= ")
        if not name or at >= len(text) or text[at] != "=":
            raise BadLineError
        at += 1
        fields.pop(name, None)
        if at < len(text) and text[at] == '"':
            at = _behind_string(text, at)
            if at < len(text) and text[at] not in ", \r\n":
                raise BadLineError
        else:
            start = at
            while at < len(text) and text[at] not in ", \r\n":
                at += 1
            fields[name] = _number(text[start:at])
        if at >= len(text) or text[at] != ",":
            break
        at += 1
    if any("\ud800" <= each <= "\udfff" for each in text[begin:at]):
        raise BadLineError
    time = None
    if at < len(text) and text[at] == " ":
        while at < len(text) and text[at] in " \t":
            at += 1
        start = at
        while at < len(text) and text[at] in "-0123456789":
            at += 1
        if at > start:
            time = _time(text[start:at], unit)
    if not _ended(text, at):
        raise BadLineError
    return _behind_end(text, at), Point(measurement, tags, fields, time)


def _token(text: str, at: int, ends: str, escapes: str) -> tuple[int, str]:
    found = ""
    while at < len(text) and text[at] not in ends:
        if text[at] == "\\" and at + 1 < len(text) and text[at + 1] in escapes:
            at += 1
        found += text[at]
        at += 1
    return at, found


def _behind_string(text: str, at: int) -> int:
    at += 1
    while at < len(text):
        if text[at] == '"':
            return at + 1
        at += 2 if text[at] == "\\" and text[at + 1 : at + 2] != "\n" else 1
    raise BadLineError


def _ended(text: str, at: int) -> bool:
    while at < len(text) and text[at] in " \t\r":
        at += 1
    return at >= len(text) or text[at] == "\n"


def _behind_end(text: str, at: int) -> int:
    while at < len(text) and text[at] != "\n":
        at += 1
    return at + 1


def _time(text: str, unit: int | None) -> int:
    if len(text) > 20 or not _digits(text.removeprefix("-")):
        raise BadLineError
    number = int(text)
    if unit is None:
        unit = 1
        for limit, power in ((5e9, 10**9), (5e12, 10**6), (5e15, 10**3)):
            if abs(number) < limit:
                unit = power
                break
    if abs(number * unit) > 2**63 - 2:
        raise BadLineError
    return number * unit


def _digits(text: str) -> bool:
    return text != "" and all(each in "0123456789" for each in text)


def _number(text: str) -> float:
    if text in ("t", "T", "f", "F"):
        return float(text in "tT")
    whole = text[:-1].removeprefix("+")
    if text.endswith("i") and not text.startswith("+"):
        whole = whole.removeprefix("-")
    if text[-1:] in ("i", "u") and _digits(whole):
        text = text[:-1]
    if not text.strip():
        raise BadLineError
    try:
        return number(text)
    except ValueError:
        raise BadLineError from None
