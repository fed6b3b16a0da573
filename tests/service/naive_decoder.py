"""A slow twin of the decoder of samples in JSON: one cell at a time, a float at a time."""

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
    found = _json(text, kind, stream)
    if not found:
        raise RefusedError("nothing")
    timeless: dict[str, int] = {}
    cells = []
    for name, time, values in found:
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
            number = _number(value)
            if not math.isnan(number):
                cells.append((name, moment, channel, number))
    return sorted(cells)


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
