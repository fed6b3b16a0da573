"""The service's own form of samples: JSON, JSON lines and CSV; and rows of streams as arrivals.

One module because its forms share their rows, times, numbers and errors.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import parse_qs

import numpy as np

from newnormal.arrivals import pivot
from newnormal.arrivals.arrival import Arrival
from newnormal.arrivals.cells import plain_numbers
from newnormal.errors import InputError
from newnormal.io.decoders.base import (
    QUERY,
    Decoder,
    DecoderLimits,
    TooManyError,
    UnknownFormError,
    check_name,
    too_many_samples,
)
from newnormal.tabular import LineParser, Long, Reading
from newnormal.tabular.columns import Selection, find_long
from newnormal.tabular.parsing.blocks import joined
from newnormal.tabular.parsing.decimals import NumberReader
from newnormal.tabular.parsing.dialect import find_head
from newnormal.tabular.parsing.time_columns import TIME_NAMES, parse_times
from newnormal.texts import shortened
from newnormal.types import Floats, Ints

_JSON = ("application/json", "text/json")
_LINES = (
    "application/x-ndjson",
    "application/ndjson",
    "application/jsonl",
    "application/x-jsonlines",
    "application/jsonlines",
)
_CSV = ("text/csv", "application/csv", "text/tab-separated-values")
_ANY = ("", "text/plain", "application/octet-stream", "application/x-www-form-urlencoded")
_ENDS = re.compile(r"\r\n|\r|\n")
_HEAD = 100  # lines before the samples, at most
_MANY = 4096  # lines that are read at once
_LONG = {"stream", "channel", "value", *TIME_NAMES}
_AS_FILES = "CSV is read as files are: the first line names the columns, and every line has them"
_EXAMPLE = '{"stream": "press-1", "time": "2026-01-31T12:00:00Z", "values": {"temperature": 21.5}}'


class SamplesDecoder(Decoder):
    r"""Reads samples as JSON, JSON lines or CSV, by Content-Type or as the body begins.

    JSON is an object, or an array of objects, or one a line, of either form:

    - ``{"stream": NAME, "time": TIME, "values": {CHANNEL: NUMBER, ...}}``, a sample;
    - ``{"stream": NAME, "times": [...], "channels": [...], "values": [[...], ...]}``, many, with a
      list for each time; or with ``"values": {CHANNEL: [...], ...}``, a list for each channel.

    CSV has a header of ``stream``, ``time`` and the channels, or of ``stream``, ``time``,
    ``channel`` and ``value``, or, with ``?long=true``, other names of these. It is read as files
    are. ``?stream=NAME`` names the stream where the body does not.

    A time is as `parse_time` has it; a single sample without one gets that at which it came. null,
    NaN and an empty cell are missing values.

    >>> decoder = SamplesDecoder()
    >>> body = b"stream,time,load\na,2026-01-01T00:00:00Z,0.5\na,2026-01-01T00:00:10Z,\n"
    >>> [(each.stream, each.channels, each.values.tolist()) for each in decoder.decode(body, {})]
    [('a', ('load',), [[0.5], [nan]])]
    """

    path: ClassVar[str] = "samples"

    def decode(self, body: bytes, headers: Mapping[str, str]) -> Sequence[Arrival]:
        """Return the samples of a body."""
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in (*_JSON, *_LINES, *_CSV, *_ANY):
            raise UnknownFormError(
                f"Content-Type: expected application/json, application/x-ndjson or text/csv, "
                f"found {kind[:60]!r}",
                hint="name the form of the body; JSON, JSON lines and CSV are read",
            )
        asked = parse_qs(headers.get(QUERY, ""))
        stream = asked.get("stream", [None])[-1]
        try:
            text = body.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(
                f"expected UTF-8 text, found the byte {body[error.start]:#04x} at {error.start}",
                hint="encode the body as UTF-8; compressed ones need Content-Encoding: gzip",
            ) from None
        start = re.search(r"\S", text)  # stripped, it would be there twice
        if start is None:
            raise InputError("expected samples, found an empty body", hint=f"such as {_EXAMPLE}")
        as_json = kind in (*_JSON, *_LINES) or (kind in _ANY and start[0] in "{[")
        if not as_json:
            arrivals = self._csv(text, stream, asked.get("long", [""])[-1] == "true")
        else:
            samples = _parsed(text, lines=kind in _LINES)
            try:
                arrivals = self._json(samples, stream)
            except RecursionError as error:  # to show it takes more depth than to read it
                raise _not_json("the body", error) from None
        if not any(len(arrival.times) for arrival in arrivals):
            raise InputError("expected samples, found none", hint=f"such as {_EXAMPLE}")
        return arrivals

    def _json(self, samples: list[Any], default: str | None) -> list[Arrival]:
        rows = SampleRows(self.limits, self.clock())
        blocks: list[Arrival] = []
        for row, sample in enumerate(samples):
            if type(sample) is not dict:
                raise _not_a_sample(rows.where(row), sample)
            values = sample.get("values")
            stream = sample.get("stream", default)
            if "times" in sample or "channels" in sample:
                blocks.append(self._block(sample, stream, rows.where(row)))
            elif type(values) is dict:
                time = sample.get("time")
                if time is None:
                    time = next((sample[name] for name in sample if name in TIME_NAMES), None)
                rows.add(row, stream, time, tuple(values), tuple(values.values()))
            else:
                raise _not_a_sample(rows.where(row), sample)
        arrivals = rows.arrivals() + blocks
        if sum(len(arrival.times) for arrival in arrivals) > self.limits.samples:
            raise too_many_samples(self.limits)
        return arrivals

    def _block(self, sample: dict[str, Any], stream: Any, where: str) -> Arrival:
        times, values = sample.get("times"), sample.get("values")
        names = sample.get("channels")
        if not isinstance(times, list) or not isinstance(values, list | dict):
            raise _not_a_sample(where, sample)
        if len(times) > self.limits.samples:
            raise too_many_samples(self.limits)
        if isinstance(values, dict):
            names = list(values) if names is None else names
            if not isinstance(names, list) or [*map(str, names)] != [*values]:
                raise InputError(
                    f"{where}: channels: expected those that values has, found others",
                    hint="leave channels out where values are by name",
                )
            columns = list(values.values())
            _check_lengths(columns, len(times), f"{where}: values", "each channel")
            width = len(columns)
            flat = [value for each in zip(*columns, strict=True) for value in each]
        else:
            if not isinstance(names, list):
                raise _not_a_sample(where, sample)
            width = len(names)
            if len(values) != len(times):
                raise InputError(
                    f"{where}: values: expected a list for each of {len(times):,} times, "
                    f"found {len(values):,}",
                    hint="values has a row for each time and a column for each channel",
                )
            _check_lengths(values, width, f"{where}: values", "each time")
            flat = [value for each in values for value in each]
        rows = SampleRows(self.limits, 0)
        # The names are checked as those of any sample.
        rows.add(0, stream, 0, tuple(map(_text, names)), ())
        numbers = numbers_of(
            flat,
            lambda at: f"{where}, time {at // width}: channel {names[at % width]!r} of {stream!r}",
        )
        return Arrival(
            stream,
            tuple(names),
            times_of(times, lambda at: f"{where}, time {at}"),
            numbers.reshape(len(times), width),
        )

    def _csv(self, text: str, given: str | None, is_long: bool) -> list[Arrival]:
        lines = _ENDS.split(text)
        if len(lines) > self.limits.samples + _HEAD:
            raise too_many_samples(self.limits)
        widest = max(line.count(mark) for line in lines[:_HEAD] for mark in ",;\t|")
        if widest > self.limits.channels + len(_LONG):
            raise too_many_channels(widest, self.limits, "line 1")
        columns, long = _csv_columns(lines, is_long)
        parser = LineParser(Reading(), selection=columns, strict=True)
        parts = []
        for start in range(0, len(lines), _MANY):
            end = start + _MANY
            part = parser.parse_many(lines[start:end], start + 1, final=end >= len(lines))
            for row, _, error in part.errors:
                raise InputError(f"line {start + row + 1}: {error.message}", hint=_AS_FILES)
            parts.append((start, part))
        samples = joined(parts, 0, len(parser.channels or ()), parser.columns.plan)
        count = len(samples.rows)
        if count > self.limits.samples:
            raise too_many_samples(self.limits)
        if not count:
            return []

        def where(row: int) -> str:
            return f"line {samples.rows[row] + 1}"

        keys = samples.keys or [()] * count
        cells = [key if isinstance(key, tuple) else (key,) for key in keys]
        named = bool(columns.by[:-1] if long else columns.by)
        streams = [str(key[0]).strip() if named else given or "" for key in cells]
        times = None if samples.times is None else samples.times.astype(np.int64)
        if long:
            times = np.full(count, self.clock()) if times is None else times
            tags = [str(key[-1]).strip() for key in cells]
            return from_long(streams, tags, times, samples.values[:, 0], self.limits, where)
        channels = parser.channels or ()
        check_channels(channels, self.limits, "line 1")
        rows_of: dict[str, list[int]] = {}
        for row, name in enumerate(streams):
            rows_of.setdefault(name, []).append(row)
        arrivals = []
        for name, rows in rows_of.items():
            check_name(name, "stream", where(rows[0]))
            if times is None and len(rows) > 1:
                raise without_time(name, where(rows[1]))
            moments = np.array([self.clock()]) if times is None else times[rows]
            arrivals.append(Arrival(name, channels, moments, samples.values[rows]))
        return arrivals


def _csv_columns(lines: Sequence[str], is_long: bool) -> tuple[Selection, bool]:
    """Return the columns of CSV, and whether a line is a value of a channel."""
    head = find_head(lines, Reading())
    if head is None or not head.named:
        raise InputError(
            "line 1: expected the names of the columns, found something else",
            hint="the first line names the columns: stream, time and the channels",
        )
    names = {name.strip().lower(): name for name in head.names}
    by = (names["stream"],) if "stream" in names else ()
    named = [name for lower, name in names.items() if lower in TIME_NAMES]
    time = named[0] if len(named) == 1 and "date" not in names else None
    if not is_long and not {"channel", "value"} <= names.keys() <= _LONG:
        return Selection(time, by=by), False
    if named or is_long:
        return find_long(head.names, Long(), by).selection(by), True
    return Selection(columns=(names["value"],), by=(*by, names["channel"])), True


def _parsed(text: str, *, lines: bool) -> list[Any]:
    """Return the samples of JSON: the elements of an array, an object, or objects of lines."""
    if not lines:
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            if not str(error).startswith("Extra data"):
                raise _not_json("the body", error) from None
        else:
            return content if isinstance(content, list) else [content]
    samples = []
    for number, line in enumerate(text.split("\n"), 1):  # others may be inside of texts
        if line and not line.isspace():
            try:
                samples.append(json.loads(line))
            except (ValueError, RecursionError) as error:
                raise _not_json(f"line {number}", error) from None
    return samples


def _not_json(where: str, error: Exception) -> InputError:
    return InputError(
        f"{where}: expected JSON, found something else: {str(error)[:100]}",
        hint=f"such as {_EXAMPLE}",
    )


def _not_a_sample(where: str, sample: object) -> InputError:
    if isinstance(sample, dict):
        shown = (
            f"an object of {', '.join(ascii(each)[:40] for each in list(sample)[:6]) or 'nothing'}"
        )
    else:
        shown = ascii(sample)[:60]
    return InputError(
        f"{where}: expected stream, time and values, or times, channels and values, found {shown}",
        hint=f"such as {_EXAMPLE}",
    )


def _text(name: Any) -> Any:
    return name if isinstance(name, str) else repr(name)[:40] + "\0"  # not printable: refused


def _check_lengths(parts: Sequence[Any], length: int, where: str, each: str) -> None:
    for at, part in enumerate(parts):
        if not isinstance(part, list) or len(part) != length:
            length_found = f"{len(part):,}" if isinstance(part, list) else ascii(part)[:40]
            raise InputError(
                f"{where}: expected {length:,} values for {each}, found {length_found} in row {at}",
                hint="values has a row for each time and a column for each channel",
            )


def times_of(values: Sequence[Any], where: Callable[[int], str]) -> Ints:
    """Return times in ns since 1970, as `parse_times` takes them; `where` one is, for errors."""
    return parse_times(values, lambda row: f"{where(row)}: time").astype(np.int64)


def numbers_of(values: Sequence[Any], where: Callable[[int], str]) -> Floats:
    """Return values as float64, NaN where one is missing, as `NumberReader` reads them.

    `where`: where one is and which channel it is of, for errors.
    """
    if (plain := plain_numbers(values)) is not None:
        return plain
    numbers, bad = NumberReader().read(values)
    for row in bad:
        raise InputError(
            f"{where(row)}: expected a number, found {shortened(ascii(values[row]))}",
            hint="leave a missing value out, or send null",
        )
    return numbers


class _RowGroup:
    """The samples of one stream that have the same channels."""

    __slots__ = ("channels", "rows", "stream", "times", "values")

    def __init__(self, stream: str, channels: tuple[str, ...]) -> None:
        self.stream = stream
        self.channels = channels
        self.times: list[Any] = []
        self.values: list[Any] = []
        self.rows: list[int] = []


class SampleRows:
    """Collects samples, each with the channels that it has; without a time it is that of `now`."""

    def __init__(self, limits: DecoderLimits, now: int) -> None:
        self._limits = limits
        self._now = now
        self._groups: dict[tuple[str, tuple[str, ...]], _RowGroup] = {}
        self._checked: set[tuple[str, ...]] = set()
        self._count = 0

    def where(self, row: int) -> str:
        """Return where a row is, for errors."""
        return f"sample {row}"

    def add(
        self, row: int, stream: Any, time: Any, channels: tuple[str, ...], values: Sequence[Any]
    ) -> None:
        """Add a sample.

        `row`: its number, counted from 0. `time`: as it was sent; None: it has none.
        """
        try:
            group = self._groups.get((stream, channels))
        except TypeError:  # a name that is a list
            group = None
        if group is None:
            group = self._begun(row, stream, channels)
        group.times.append(time)
        group.values += values
        group.rows.append(row)
        self._count += 1
        if self._count > self._limits.samples:
            raise too_many_samples(self._limits)

    def _begun(self, row: int, stream: Any, channels: tuple[str, ...]) -> _RowGroup:
        name = check_name(stream, "stream", self.where(row))
        if channels not in self._checked:
            check_channels(channels, self._limits, self.where(row))
            self._checked.add(channels)
        made = self._groups[name, channels] = _RowGroup(name, channels)
        return made

    def arrivals(self) -> list[Arrival]:
        """Return all of them, in the order in which the streams came."""
        groups = list(self._groups.values())
        # All at once: a body often has one sample of each of many streams.
        numbers = numbers_of(
            [value for group in groups for value in group.values],
            lambda at: self._where_value(groups, at),
        )
        times = self._times(groups)
        arrivals = []
        row = cell = 0
        for group in groups:
            count, width = len(group.rows), len(group.channels)
            values = numbers[cell : cell + count * width].reshape(count, width)
            arrivals.append(Arrival(group.stream, group.channels, times[row : row + count], values))
            row += count
            cell += count * width
        return arrivals

    def _where_value(self, groups: Sequence[_RowGroup], at: int) -> str:
        for group in groups:
            if at < len(group.values):
                row, column = divmod(at, len(group.channels))
                where = self.where(group.rows[row])
                return f"{where}: channel {group.channels[column]!r} of {group.stream!r}"
            at -= len(group.values)
        return "the body"

    def _times(self, groups: Sequence[_RowGroup]) -> Ints:
        times = [time for group in groups for time in group.times]
        rows = [row for group in groups for row in group.rows]
        without = [at for at, time in enumerate(times) if time is None]
        if without:
            self._check_single(groups)
            for at in without:
                times[at] = 0
        moments = times_of(times, lambda at: self.where(rows[at]))
        moments[without] = self._now
        return moments

    def _check_single(self, groups: Sequence[_RowGroup]) -> None:
        """Raise an InputError if two samples of a stream have no time: they would have the same."""
        seen: set[str] = set()
        for group in groups:
            for time, row in zip(group.times, group.rows, strict=True):
                if time is None and group.stream in seen:
                    raise without_time(group.stream, self.where(row))
                if time is None:
                    seen.add(group.stream)


def without_time(stream: str, where: str) -> InputError:
    """Return the error of a sample without a time that is not the only one of its stream."""
    return InputError(
        f"{where}: expected a time, since there are several samples of {stream!r}, found none",
        hint="only a single sample gets the time at which it came",
    )


def check_channels(channels: Sequence[str], limits: DecoderLimits, where: str) -> None:
    """Raise an InputError unless these can be the channels of a stream."""
    if not channels:
        raise InputError(
            f"{where}: expected the value of a channel, found none",
            hint='such as "values": {"temperature": 21.5}',
        )
    if len(channels) > limits.channels:
        raise too_many_channels(len(channels), limits, where)
    for name in channels:
        check_name(name, "channel", where)
    if len(set(channels)) < len(channels):
        twice = next(name for name in channels if list(channels).count(name) > 1)
        raise InputError(
            f"{where}: expected each channel once, found {twice!r} twice", hint="rename one of them"
        )


def too_many_channels(count: int, limits: DecoderLimits, where: str) -> TooManyError:
    """Return the error of a sample with too many channels."""
    return TooManyError(
        f"{where}: expected at most {limits.channels} channels, found {count}",
        hint="make several streams of them, or raise limits.channels",
    )


def from_long(
    streams: Sequence[str],
    channels: Sequence[str],
    times: Ints,
    values: Floats,
    limits: DecoderLimits,
    where: Callable[[int], str] = lambda row: f"sample {row}",
) -> list[Arrival]:
    """Return values that came one by one as arrivals: those of one time are one sample.

    `streams`, `channels`: the names of each value's stream and channel. `times`, `values`: (N,)
    each. `where`: where a value was, for errors.
    """
    if len(values) > limits.samples:
        raise too_many_samples(limits)
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(streams):
        rows.setdefault(name, []).append(row)
    arrivals: list[Arrival] = []
    for name, stream_rows in rows.items():
        check_name(name, "stream", where(stream_rows[0]))
        columns_of: dict[str, int] = {}
        columns = np.array(
            [columns_of.setdefault(channels[row], len(columns_of)) for row in stream_rows]
        )
        names = tuple(columns_of)
        check_channels(names, limits, where(stream_rows[0]))
        picked = np.array(stream_rows)
        arrivals += pivot.arrivals(name, names, times[picked], columns, values[picked])
    return arrivals
