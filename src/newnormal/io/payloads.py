"""The messages of a bus as samples: JSON of many shapes, or a plain number."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from math import isnan
from typing import Any, NamedTuple

import numpy as np

from newnormal.arrivals.arrival import Arrival
from newnormal.arrivals.cells import MISSING
from newnormal.arrivals.naming import fitting_name
from newnormal.errors import InputError, ParameterError
from newnormal.io.decoders.base import DecoderLimits
from newnormal.io.decoders.samples import from_long
from newnormal.io.options import Options
from newnormal.tabular.parsing.decimals import NumberReader
from newnormal.tabular.times import parse_time
from newnormal.texts import shortened

_TIMES = ("time", "timestamp", "ts", "@timestamp", "_time")
_PLAIN = "value"  # the channel of a plain number that nothing names
_DEEPEST = 8  # objects within each other
_SHOWN = 60  # characters of a message that an error shows

_remembered = lru_cache(maxsize=20_000)(fitting_name)  # the same things are named again and again
_LONGEST = 200  # characters of a name that is remembered


class PlainTextError(InputError):
    """A message is a text without a number, such as ``online``: nothing is wrong with it."""


class PayloadValue(NamedTuple):
    """One value of one channel."""

    stream: str
    channel: str
    time: int
    number: float


class Payloads:
    """Reads the payload of a message.

    A payload is a plain number (``21.5``), or JSON: a number, an object of numbers, or an array of
    such objects. In an object, each number is a channel; an object within it is gone through, its
    names joined with a point; true is 1 and false 0; texts are left out. The time is that of the
    field `time`, ``timestamp``, ``ts``, ``@timestamp`` or ``_time``, else when the message came.
    The service's own form, with ``"values": {…}``, is read, too.

    Options: `stream`, `time`, `channel`, `value`: the fields of an object that hold these; a point
    goes into an object. With `value`, an object is one value; its channel is what `channel` names,
    or the message's.
    `fields`: the only fields whose numbers are taken.

    `given`: the options of the source; those of this class are taken from it.

    >>> payloads = Payloads(Options("source bus", {}))
    >>> payloads.read(b"21.5", stream="oven", channel="temp", received=7)
    [PayloadValue(stream='oven', channel='temp', time=7, number=21.5)]
    >>> text = b'{"ts": 1767225600, "motor": {"rpm": 900, "on": true}, "unit": "A"}'
    >>> [each[1:] for each in payloads.read(text, stream="press", received=7)]
    [('motor.rpm', 1767225600000000000, 900.0), ('motor.on', 1767225600000000000, 1.0)]
    """

    def __init__(self, options: Options) -> None:
        self._stream: str | None = options.text("stream", None)
        self._time: str | None = options.text("time", None)
        self._channel: str | None = options.text("channel", None)
        self._value: str | None = options.text("value", None)
        fields: tuple[str, ...] | None = options.texts("fields", None)
        self._fields = None if fields is None else frozenset(fields)
        if self._channel is not None and self._value is None:
            raise ParameterError(
                f"{options.where}: channel: expected the option value beside it, found none",
                hint="channel is the field that names the channel, value the one with its number",
            )

    def read(
        self, payload: bytes, *, stream: str, received: int, channel: str | None = None
    ) -> list[PayloadValue]:
        """Return the values of a message; an empty list if it says that there is none.

        Raises an InputError if it cannot be read, and a `PlainTextError` if it is a text.

        `payload`: what was sent. `stream`: of messages that do not name it. `received`: the time in
        ns of messages that have none. `channel`: what the message is about, where its topic says
        so: the channel of a plain number, and what the channels of an object begin with.
        """
        if (content := _decoded(payload)) is None:
            return []
        if not isinstance(content, list):
            return self._one(content, stream, received, channel)
        values: list[PayloadValue] = []
        for each in content:
            values += self._one(each, stream, received, channel)
        undated = [value[:2] for value in values if value.time == received]
        if len(set(undated)) < len(undated):
            raise InputError(
                "expected a time in each object of an array, since there are several values of one "
                f"channel, found {_shown(content)}"
            )
        return values

    def lacking(self, payload: bytes) -> str:
        """Return what a message lacks of which `read` gave no value.

        Empty: it says itself that there is none, such as an object in which the field is null.
        """
        content = _decoded(payload)
        listed = content if isinstance(content, list) else [content]
        objects = [each for each in listed if isinstance(each, Mapping)]
        wanted = [self._value] if self._value is not None else sorted(self._fields or ())
        if not wanted:
            silent = any(_has_null(each, 0) for each in objects)
            expected = "a number in an object"
        else:
            silent = any(_has(each, name) for each in objects for name in wanted)
            expected = f"a field {' or '.join(wanted)}"
        return f"expected {expected}, found {_shown(objects[0])}" if objects and not silent else ""

    def _one(
        self, content: Any, stream: str, received: int, channel: str | None
    ) -> list[PayloadValue]:
        if not isinstance(content, Mapping):
            if (number := _number(content)) is None:
                raise _other("a number or an object", content)
            name = _fitting(channel or _PLAIN)
            return [PayloadValue(_fitting(stream), name, received, number)] * (not isnan(number))
        stream, time = self._stream_of(content, stream), self._time_of(content, received)
        before = f"{channel}." if channel else ""
        if self._value is not None:
            if (value := _at(content, self._value)) is None:
                return []
            number, name = _number(value), channel or _PLAIN
            if self._channel is not None:
                named = _at(content, self._channel)
                if not isinstance(named, str):
                    raise _other(f"a text {self._channel}", content)
                name = before + named
            if number is None:
                raise _other(f"a number {self._value}", content)
            return [PayloadValue(stream, _fitting(name), time, number)] * (not isnan(number))
        nested = content.get("values")
        pairs = _numbers(nested if isinstance(nested, Mapping) else content, "", 0)
        left_out = {self._stream, self._time, *(() if self._time else _TIMES)}
        return [
            PayloadValue(stream, _fitting(before + name), time, number)
            for name, number in pairs
            if name not in left_out and (self._fields is None or name in self._fields)
        ]

    def _stream_of(self, content: Mapping[str, Any], default: str) -> str:
        named = content.get("stream") if self._stream is None else _at(content, self._stream)
        if isinstance(named, str) or (self._stream is not None and isinstance(named, int | float)):
            return _fitting(str(named))
        if self._stream is not None:
            raise _other(f"a field {self._stream} that names the stream", content)
        return _fitting(default)

    def _time_of(self, content: Mapping[str, Any], received: int) -> int:
        if self._time is not None:
            value = _at(content, self._time)
            if not isinstance(value, str | int | float):
                raise _other(f"a field {self._time} with the time", content)
            return int(parse_time(value).astype(np.int64))
        for name in _TIMES:
            if isinstance(content.get(name), str | int | float):
                return int(parse_time(content[name]).astype(np.int64))
        return received


def _fitting(name: str) -> str:
    return _remembered(name) if len(name) <= _LONGEST else fitting_name(name)


def together(values: Sequence[PayloadValue], limit: int) -> list[Arrival]:
    """Return values as arrivals: those of one stream and time are one sample.

    `limit`: how many values there are at most.
    """
    if not values:
        return []
    streams, channels, times, numbers = zip(*values, strict=True)
    limits = DecoderLimits(samples=max(limit, len(values)), channels=2**31)
    return from_long(
        streams, channels, np.array(times, np.int64), np.array(numbers, np.float64), limits
    )


def _decoded(payload: bytes) -> Any:
    """Return what a payload holds; None: nothing."""
    try:
        text = payload.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        raise InputError(
            f"expected a message of JSON or a number, found bytes that are no text: "
            f"{payload[:20]!r}"
        ) from None
    if text.lower() in MISSING:
        return None
    if text[0] not in '{["' and (number := _number(text)) is not None:
        return number
    try:
        decoded = json.loads(text)
    except (ValueError, RecursionError) as error:
        if text[0] not in '{["':
            raise PlainTextError(
                f"expected a message of JSON or a number, found {_shown(text)}"
            ) from None
        raise InputError(
            f"expected a message of JSON or a number, found {_shown(text)}: {error}"
        ) from None
    if isinstance(decoded, str):
        raise PlainTextError(f"expected a message of JSON or a number, found {_shown(text)}")
    return decoded


def _numbers(content: Mapping[str, Any], before: str, depth: int) -> Iterator[tuple[str, float]]:
    """Give all numbers of an object with their names."""
    for key, value in content.items():
        name = f"{before}.{key}" if before else str(key)
        if isinstance(value, Mapping):
            if depth < _DEEPEST:
                yield from _numbers(value, name, depth + 1)
            continue
        number = None if isinstance(value, str) else _number(value)
        if number is not None and not isnan(number):
            yield name, number


def _number(value: Any) -> float | None:
    """Return the number of a value, NaN where it is missing; None: it is something else."""
    try:
        return NumberReader().one(value)
    except ValueError:
        return None


def _at(content: Mapping[str, Any], path: str) -> Any:
    """Return the field of an object; a point goes into an object within it."""
    if path in content:
        return content[path]
    inner: Any = content
    for part in path.split("."):
        inner = inner.get(part) if isinstance(inner, Mapping) else None
    return inner


def _has(content: Mapping[str, Any], path: str) -> bool:
    """Whether an object has a field, be it null; a point goes into an object within it."""
    outer, _, last = path.rpartition(".")
    inner = _at(content, outer) if outer else content
    return path in content or (isinstance(inner, Mapping) and last in inner)


def _has_null(content: Mapping[str, Any], depth: int) -> bool:
    """Whether a field of an object, or of one within it, is null."""
    return any(
        depth < _DEEPEST and _has_null(each, depth + 1)
        if isinstance(each, Mapping)
        else each is None
        for each in content.values()
    )


def _other(expected: str, content: Any) -> InputError:
    return InputError(f"expected {expected}, found {_shown(content)}")


def _shown(content: Any) -> str:
    """Return the beginning of a text, or of what was read from JSON."""
    if not isinstance(content, str):
        text = ""
        for piece in json.JSONEncoder().iterencode(content):  # it may be long and deep
            text += piece[:_SHOWN]
            if len(text) >= _SHOWN:
                break
        content = text
    return shortened(ascii(content[:_SHOWN]), _SHOWN)
