"""A slow twin of the decoder of samples: one cell at a time, a float at a time."""

import csv
import json
import math
from typing import Any

from newnormal.tabular import parse_time

NOW = 1_790_000_000 * 10**9

# (stream, time in ns, channel, value): what was sent, without missing values.
Cell = tuple[str, int, str, float]


class RefusedError(Exception):
    """The body cannot be read."""


def cells_of(body: bytes, kind: str = "", stream: str | None = None) -> list[Cell]:
    """Return all values of a body, in order of stream, time and channel."""
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RefusedError from error
    if kind == "text/csv" or (kind == "" and text.lstrip()[:1] not in ("{", "[")):
        found = _csv(text, stream)
    else:
        found = _json(text, kind, stream)
    if not found:
        raise RefusedError("nothing")
    timeless: dict[str, int] = {}
    cells = {}
    for row, (name, time, values, *long) in enumerate(found):
        _check_name(name)
        if not values:
            raise RefusedError("no channel")
        if time is None:
            timeless[name] = timeless.get(name, 0) + 1
            if timeless[name] > 1:
                raise RefusedError("two samples without a time")
        moment = NOW if time is None else _time(time)
        for channel, value in values:
            _check_name(channel)
            # Of values that came one by one the last counts; samples that came twice stay two.
            cells[name, moment, channel, row * (not long)] = _number(value)
    return sorted((*key[:3], value) for key, value in cells.items() if not math.isnan(value))


def _json(text: str, kind: str, stream: str | None) -> list[Any]:
    try:
        if kind == "application/x-ndjson":
            raise ValueError("Extra data")
        whole = json.loads(text)
        samples = whole if isinstance(whole, list) else [whole]
    except (ValueError, RecursionError) as error:
        if not str(error).startswith("Extra data"):
            raise RefusedError from error
        try:
            samples = [json.loads(line) for line in text.split("\n") if line.strip()]
        except ValueError as other:
            raise RefusedError from other
    found: list[Any] = []
    for sample in samples:
        if not isinstance(sample, dict):
            raise RefusedError("no object")
        name, values = sample.get("stream", stream), sample.get("values")
        if "times" in sample or "channels" in sample:
            _check_name(name)
            found += _block(name, sample.get("times"), sample.get("channels"), values)
        elif isinstance(values, dict):
            found.append((name, sample.get("time"), list(values.items())))
        else:
            raise RefusedError("no values")
    return found


def _block(name: Any, times: Any, channels: Any, values: Any) -> list[Any]:
    if not isinstance(times, list):
        raise RefusedError("no times")
    if isinstance(values, dict):
        if channels is not None and channels != list(values):
            raise RefusedError("other channels")
        channels = list(values)
        if any(not isinstance(each, list) or len(each) != len(times) for each in values.values()):
            raise RefusedError("lengths")
        values = [[values[channel][row] for channel in channels] for row in range(len(times))]
    if not isinstance(channels, list) or not isinstance(values, list) or len(values) != len(times):
        raise RefusedError("lengths")
    if not channels or len({str(each) for each in channels}) < len(channels):
        raise RefusedError("channels")
    for channel in channels:
        _check_name(channel)
    found = []
    for time, row in zip(times, values, strict=True):
        if not isinstance(row, list) or len(row) != len(channels) or time is None:
            raise RefusedError("a row")
        found.append((name, time, list(zip(channels, row, strict=True))))
    return found


def _csv(text: str, stream: str | None) -> list[Any]:
    first = text.split("\n", maxsplit=1)[0]
    delimiter = max(",;\t", key=first.count)
    try:
        lines = list(csv.reader(text.splitlines(keepends=True), delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise RefusedError from error
    header = [each.strip() for each in lines[0]]
    names = [each.lower() for each in header]
    rows = [line for line in lines[1:] if line]
    if any(len(line) != len(header) for line in rows):
        raise RefusedError("cells")
    time_at = next((k for k, each in enumerate(names) if each in ("time", "timestamp", "ts")), None)
    stream_at = names.index("stream") if "stream" in names else None
    others = [k for k in range(len(header)) if k not in (time_at, stream_at)]
    found: list[Any] = []
    long = sorted(names[k] for k in others) == ["channel", "value"]
    if not long and (not others or len({header[k] for k in others}) < len(others)):
        raise RefusedError("channels")
    timeless = 0
    for line in rows:
        name = stream if stream_at is None else line[stream_at]
        time = None if time_at is None else line[time_at] or None
        timeless += time is None
        if long:
            cell = (line[names.index("channel")], line[names.index("value")])
            found.append((name, NOW // 10**9 if time is None else time, [cell], True))
        else:
            found.append((name, time, [(header[k], line[k]) for k in others]))
    if long and 0 < timeless < len(rows):
        raise RefusedError("some without a time")
    return found


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= 200:
        raise RefusedError("name")
    if not name.isprintable() or not name.strip():
        raise RefusedError("name")


def _time(value: Any) -> int:
    try:
        return int(parse_time(value).astype(int))
    except ValueError as error:
        raise RefusedError from error


def _number(value: Any) -> float:
    if isinstance(value, list | dict) or "_" in str(value) or not str(value).isascii():
        raise RefusedError("number")
    text = str(value).strip().lower()
    words = {"": "nan", "none": "nan", "null": "nan", "na": "nan", "true": "1", "false": "0"}
    try:
        number = float(words.get(text, text))
    except (ValueError, OverflowError) as error:
        raise RefusedError from error
    return number if math.isfinite(number) else math.nan
